// Memory that two processes share: sealed memfds and their mappings.
//
// A peer that could truncate a memfd would kill whoever maps it with SIGBUS, so memory is handed
// out, and taken from a peer, only with its size sealed.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <comch/error.hpp>

#include "core/base/unique_fd.hpp"

namespace comch {

/// A mapping, unmapped with its owner.
class Mapping {
public:
    Mapping() = default;
    Mapping(std::byte* data, std::size_t size) noexcept : data_(data), size_(size) {}
    Mapping(Mapping&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }
    /// The mapping lives on, unowned.
    std::byte* release() noexcept { return std::exchange(data_, nullptr); }

private:
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

struct SharedMemory {
    UniqueFd fd;
    Mapping mapping;
};

/// A new zeroed memfd of `size` bytes (rounded up to pages), size sealed, mapped read-write.
/// `fixed_address`, if not null, is where it must be mapped; what is there is not replaced.
[[nodiscard]] Result<SharedMemory> create_shared_memory(const char* name, std::size_t size,
                                                        void* fixed_address = nullptr);

/// Maps a peer's memfd after checking that it is one, that its size is sealed and is at least
/// `size`.
[[nodiscard]] Result<Mapping> map_shared_memory(int fd, std::size_t size, bool writable);

} // namespace comch
