// The buffers that a consumer has posted: a queue of fixed capacity, and what producers want to
// know about it. No allocation after construction.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <comch/capabilities.hpp>
#include <comch/memory.hpp>

namespace comch::channel {

struct PostedBuffer {
    std::byte* tail = nullptr; ///< where the message goes
    std::uint32_t room = 0;
    std::uint32_t offset = 0; ///< of `tail` in the program's buffer
    void* cookie = nullptr;
    const MemoryMap* memory = nullptr; ///< that it is from, if any
};
static_assert(limits::fast_path_buffer_size <= std::numeric_limits<std::uint32_t>::max());

class PostedBuffers {
public:
    explicit PostedBuffers(std::uint32_t capacity)
        : slots_(std::bit_ceil(capacity)), mask_(static_cast<std::uint32_t>(slots_.size()) - 1) {}

    [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] const PostedBuffer& front() const noexcept { return at(0); }
    /// That is going to be the front when so many have been taken.
    [[nodiscard]] const PostedBuffer& at(std::uint32_t i) const noexcept {
        return slots_[(head_ + i) & mask_];
    }

    /// All have the same room (also when there is one, or none).
    [[nodiscard]] bool uniform() const noexcept { return changes_ == 0; }

    void push_back(const PostedBuffer& buffer) noexcept {
        if (size_ != 0 && at(size_ - 1).room != buffer.room) {
            ++changes_;
        }
        place(size_++) = buffer;
    }
    /// Back to where it was taken from.
    void push_front(const PostedBuffer& buffer) noexcept {
        if (size_ != 0 && front().room != buffer.room) {
            ++changes_;
        }
        --head_;
        ++size_;
        place(0) = buffer;
    }
    PostedBuffer pop_front() noexcept {
        const PostedBuffer buffer = front();
        ++head_;
        --size_;
        if (size_ != 0 && front().room != buffer.room) {
            --changes_;
        }
        return buffer;
    }
    PostedBuffer pop_back() noexcept {
        const PostedBuffer buffer = at(--size_);
        if (size_ != 0 && at(size_ - 1).room != buffer.room) {
            --changes_;
        }
        return buffer;
    }

private:
    [[nodiscard]] PostedBuffer& place(std::uint32_t i) noexcept {
        return slots_[(head_ + i) & mask_];
    }

    std::vector<PostedBuffer> slots_;
    std::uint32_t mask_;     ///< the capacity is a power of two
    std::uint32_t head_ = 0; ///< wraps
    std::uint32_t size_ = 0;
    std::uint32_t changes_ = 0; ///< neighbours with different room
};

} // namespace comch::channel
