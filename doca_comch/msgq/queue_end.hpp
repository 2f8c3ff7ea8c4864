// A consumer of a message queue as its producers see it: a bounded queue of small messages, with
// credits. Any number of threads put, one takes.
//
// A message moves under a slot's sequence number (the slots of the k-th lap are numbered from
// k * capacity): whoever wins the position writes the slot and publishes it with its number. A
// producer takes a credit first, so that there is always a free slot: credits are receives that
// the consumer has posted, and never more than slots.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <comch/capabilities.hpp>

namespace comch::doca {

struct QueueMessage {
    std::array<std::byte, limits::immediate_data_size> bytes;
    std::uint32_t length = 0;
    std::uint32_t producer = 0;

    [[nodiscard]] std::span<const std::byte> immediate() const noexcept {
        return {bytes.data(), length};
    }
};

class QueueEnd {
public:
    /// What ends the consumer's sleep: called by the producer's thread that found it armed.
    using Wake = void (*)(void* user);

    explicit QueueEnd(std::uint32_t id) : id_(id) {}

    [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

    // ---- producers, any thread

    enum class Put : std::uint8_t { done, no_credit, closed };
    [[nodiscard]] Put put(std::span<const std::byte> immediate, std::uint32_t producer) {
        if (!open_.load(std::memory_order_acquire)) {
            return Put::closed;
        }
        std::uint32_t credits = credits_.load(std::memory_order_relaxed);
        do {
            if (credits == 0) {
                return Put::no_credit;
            }
            // Acquire: pairs with post(), after which the slot is free.
        } while (!credits_.compare_exchange_weak(credits, credits - 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed));
        const std::uint64_t position = tail_.fetch_add(1, std::memory_order_relaxed);
        Slot& slot = slots_[position & mask_];
        slot.message.length = static_cast<std::uint32_t>(immediate.size());
        slot.message.producer = producer;
        std::memcpy(slot.message.bytes.data(), immediate.data(), immediate.size());
        slot.ready.store(position + 1, std::memory_order_release);
        // Publish, then look whether somebody sleeps; arm() does the opposite. The fences order
        // each one's store before its load, so that at least one sees the other.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (armed_.load(std::memory_order_relaxed) &&
            armed_.exchange(false, std::memory_order_acq_rel)) {
            wake_(wake_user_.load(std::memory_order_relaxed));
        }
        return Put::done;
    }
    [[nodiscard]] bool empty_of_credits() const noexcept {
        return credits_.load(std::memory_order_relaxed) == 0;
    }

    // ---- the consumer's thread

    /// NO: it was opened before with less room.
    [[nodiscard]] bool open(std::uint32_t receives, Wake wake, void* user) {
        if (slots_ == nullptr) {
            const std::uint32_t capacity = std::bit_ceil(receives);
            slots_ = std::make_unique<Slot[]>(capacity);
            mask_ = capacity - 1;
            wake_ = wake;
        } else if (receives > mask_ + 1) {
            return false;
        }
        wake_user_.store(user, std::memory_order_relaxed); // another one than before, perhaps
        open_.store(true, std::memory_order_release);
        return true;
    }
    /// Any thread. What was put remains to be taken, and what was posted remains posted.
    void close() noexcept { open_.store(false, std::memory_order_release); }
    /// What was posted and not used is posted no more.
    void withdraw() noexcept { withdrawn_ += credits_.exchange(0, std::memory_order_acq_rel); }
    /// Lets messages in; false: there are no slots for so many.
    [[nodiscard]] bool post(std::uint32_t receives) noexcept {
        if (receives > mask_ + 1 - (posted_ - taken_ - withdrawn_)) {
            return false;
        }
        posted_ += receives;
        credits_.fetch_add(receives, std::memory_order_release);
        return true;
    }
    [[nodiscard]] bool ready() const noexcept {
        return slots_ != nullptr &&
               slots_[head_ & mask_].ready.load(std::memory_order_acquire) == head_ + 1;
    }
    /// The oldest message, if there is one.
    [[nodiscard]] bool take(QueueMessage& to) noexcept {
        if (!ready()) {
            return false;
        }
        to = slots_[head_ & mask_].message;
        ++head_;
        ++taken_;
        return true;
    }
    /// Asks to be woken. False: there is a message already (and nothing was asked).
    [[nodiscard]] bool arm() noexcept {
        armed_.store(true, std::memory_order_release); // with what wake() looks at
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!ready()) {
            return true;
        }
        // Whoever takes the flag back is the one to act.
        return !armed_.exchange(false, std::memory_order_acq_rel);
    }

private:
    struct Slot {
        std::atomic<std::uint64_t> ready = 0; ///< position + 1 of the message that is here
        QueueMessage message;
    };

    const std::uint32_t id_;
    std::unique_ptr<Slot[]> slots_;
    std::uint64_t mask_ = 0;
    Wake wake_ = nullptr;
    std::atomic<void*> wake_user_ = nullptr;
    std::atomic<bool> open_ = false;
    std::atomic<bool> armed_ = false;
    alignas(64) std::atomic<std::uint32_t> credits_ = 0;
    std::atomic<std::uint64_t> tail_ = 0;
    // the consumer's
    alignas(64) std::uint64_t head_ = 0;
    std::uint64_t posted_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t withdrawn_ = 0; ///< credits taken back
};

} // namespace comch::doca
