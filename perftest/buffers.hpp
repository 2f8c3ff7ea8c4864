// Memory that messages are sent from and received into, registered as a program would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <comch/memory.hpp>

namespace comch::perftest {

/// Whether so many buffers, of all threads of a process, are within what one should take.
[[nodiscard]] Result<void> check_memory(std::uint64_t size, std::uint64_t count);

/// `count` pieces of memory of the same size. Not there until they are first touched,
/// which should be done by the thread that uses them.
class Buffers {
public:
    [[nodiscard]] static Result<std::unique_ptr<Buffers>> create(std::uint64_t size,
                                                                 std::uint32_t count);
    ~Buffers();
    Buffers(const Buffers&) = delete;
    Buffers& operator=(const Buffers&) = delete;

    void touch(std::uint32_t i) noexcept;

    [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
    [[nodiscard]] std::byte* at(std::uint32_t i) const noexcept { return base_ + i * stride_; }
    [[nodiscard]] const MemoryMap* map() const noexcept { return map_.get(); }

private:
    Buffers() = default;

    std::byte* base_ = nullptr;
    std::size_t stride_ = 0;
    std::size_t total_ = 0;
    std::uint32_t count_ = 0;
    std::unique_ptr<MemoryMap> map_;
};

} // namespace comch::perftest
