// Buffers that messages on their way were promised, oldest first: one lane's. No allocation after
// the first.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/channel/posted_buffers.hpp"
#include "core/channel/wire.hpp"

namespace comch::channel {

struct PromisedBuffer {
    enum class How : std::uint8_t {
        waiting, ///< there is none yet; so for all behind it
        written, ///< the producer writes into it
        parts,   ///< it is copied into, from parts
        refused, ///< there is none; it only keeps the place of its message in the order
    };
    How how = How::waiting;
    PostedBuffer buffer;
    std::uint64_t length = 0; ///< of the message
    wire::Immediate immediate;

    [[nodiscard]] bool has_buffer() const noexcept {
        return how == How::written || how == How::parts;
    }
};

class PromisedBuffers {
public:
    [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] bool has_room_for(std::size_t more) const noexcept {
        return more <= slots_.size() - size_;
    }
    [[nodiscard]] const PromisedBuffer& front() const noexcept { return at(0); }

    void reserve(std::uint32_t capacity) {
        if (slots_.empty()) {
            slots_.resize(std::bit_ceil(capacity));
        }
    }
    void push_back(const PromisedBuffer& promise) noexcept {
        at(size_++) = promise;
        ++waiting_;
    }
    /// How many are waiting; they are the last ones.
    [[nodiscard]] std::uint32_t waiting() const noexcept { return waiting_; }
    /// The oldest of these, which is to be given something better; and number `i` of them.
    [[nodiscard]] PromisedBuffer& first_waiting() noexcept { return at(size_ - waiting_); }
    [[nodiscard]] const PromisedBuffer& waiting_at(std::uint32_t i) const noexcept {
        return at(size_ - waiting_ + i);
    }
    void answered() noexcept { --waiting_; }
    /// How many have been answered; they are the first ones.
    [[nodiscard]] std::uint32_t answered_to() const noexcept { return size_ - waiting_; }
    PromisedBuffer pop_front() noexcept {
        --size_;
        return at_absolute(head_++);
    }
    PromisedBuffer pop_back() noexcept {
        waiting_ -= waiting_ != 0 ? 1 : 0;
        return at(--size_);
    }

    /// Somebody may write into one of them.
    [[nodiscard]] bool any_written() const noexcept {
        for (std::uint32_t i = 0; i < size_; ++i) {
            if (at(i).how == PromisedBuffer::How::written) {
                return true;
            }
        }
        return false;
    }
    /// All that there are have this room.
    [[nodiscard]] bool all_have(std::uint32_t room) const noexcept {
        for (std::uint32_t i = 0; i < size_; ++i) {
            if (at(i).has_buffer() && at(i).buffer.room != room) {
                return false;
            }
        }
        return true;
    }

private:
    [[nodiscard]] PromisedBuffer& at_absolute(std::uint32_t i) noexcept {
        return slots_[i & (slots_.size() - 1)];
    }
    [[nodiscard]] PromisedBuffer& at(std::uint32_t i) noexcept { return at_absolute(head_ + i); }
    [[nodiscard]] const PromisedBuffer& at(std::uint32_t i) const noexcept {
        return slots_[(head_ + i) & (slots_.size() - 1)];
    }

    std::vector<PromisedBuffer> slots_;
    std::uint32_t head_ = 0; ///< wraps; the capacity is a power of two
    std::uint32_t size_ = 0;
    std::uint32_t waiting_ = 0;
};

} // namespace comch::channel
