// The memory of a bulk ring that this process writes: a memfd of its own, made at first use.
//
// How large it is depends on how many this process has: the first few are large, which makes them
// fast (tuning.hpp), the rest small, so that a process with hundreds of peers does not hold
// gigabytes. The pages of a ring that nothing has gone through for a while are given back to the
// system; the ring stays, and gets new ones when it is used again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory/shared_memory.hpp"

namespace comch::link::soft {

class BulkMemory {
public:
    BulkMemory() = default;
    BulkMemory(BulkMemory&& other) noexcept;
    BulkMemory& operator=(BulkMemory&& other) noexcept;
    ~BulkMemory();

    /// Of tuning::bulk_size or tuning::bulk_size_of_many; the descriptor is the caller's.
    struct Created;
    [[nodiscard]] static Result<Created> create();

    explicit operator bool() const noexcept { return static_cast<bool>(mapping_); }
    [[nodiscard]] std::byte* data() const noexcept { return mapping_.data(); }
    [[nodiscard]] std::uint32_t size() const noexcept {
        return static_cast<std::uint32_t>(mapping_.size());
    }

    /// To be called every now and then. `head`: where the next payload will be written, as an ever
    /// growing position; `empty`: the peer has taken everything out. Gives the pages back when
    /// there was nothing for tuning::bulk_keep_ns; true: just now.
    [[nodiscard]] bool look(std::uint64_t head, bool empty, std::uint64_t now_ns) noexcept;

private:
    Mapping mapping_;
    bool large_ = false; ///< counted among the large ones of this process
    bool has_pages_ = false;
    std::uint64_t head_ = 0; ///< at the last look
    std::uint64_t since_ns_ = 0;
};

struct BulkMemory::Created {
    BulkMemory memory;
    UniqueFd fd;
};

} // namespace comch::link::soft
