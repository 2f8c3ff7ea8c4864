// A consumer of a message queue as its producers see it: a bounded queue of small messages, with
// credits. Any number of threads put, one takes.
//
// A message moves under a slot's sequence number (the slots of the k-th lap are numbered from
// k * capacity): whoever wins the position writes the slot and publishes it with its number. A
// producer takes a credit first, so that there is always a free slot: credits are receives that
// the consumer has posted, and never more than slots.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <comch/capabilities.hpp>
#include <comch/progress.hpp>

namespace comch::doca {

struct QueueMessage {
    std::array<std::byte, limits::immediate_data_size> bytes;
    std::uint32_t length = 0;
    std::uint32_t producer = 0;

    [[nodiscard]] std::span<const std::byte> immediate() const noexcept {
        return {bytes.data(), length};
    }
};

/// The engines of a queue's producers that found no credit and went to sleep. Any thread.
class SleepingProducers {
public:
    void add(ProgressEngine& engine) {
        const std::lock_guard lock(mutex_);
        if (std::find(engines_.begin(), engines_.end(), &engine) == engines_.end()) {
            engines_.push_back(&engine);
        }
    }
    /// Nobody wakes it from here on.
    void remove(ProgressEngine& engine) noexcept {
        const std::lock_guard lock(mutex_);
        std::erase(engines_, &engine);
    }
    /// All of them, each once: which consumer they wait for is not known here.
    void wake() noexcept {
        const std::lock_guard lock(mutex_);
        for (ProgressEngine* const engine : engines_) {
            engine->wake();
        }
        engines_.clear();
    }

private:
    std::mutex mutex_;
    std::vector<ProgressEngine*> engines_;
};

class QueueEnd {
public:
    /// What ends the consumer's sleep: called by the producer's thread that found it armed.
    using Wake = void (*)(void* user);

    QueueEnd(std::uint32_t id, SleepingProducers& producers) : id_(id), producers_(producers) {}

    [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

    // ---- producers, any thread

    enum class Put : std::uint8_t { done, no_credit, closed };
    [[nodiscard]] Put put(std::span<const std::byte> immediate, std::uint32_t producer) {
        if (!open_.load(std::memory_order_acquire)) {
            return Put::closed;
        }
        if (!ring_.load(std::memory_order_acquire)->put(immediate, producer)) {
            return Put::no_credit;
        }
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
        const Ring* const ring = ring_.load(std::memory_order_acquire);
        return ring == nullptr || ring->credits.load(std::memory_order_relaxed) == 0;
    }
    /// A message that found no credit would be answered otherwise now.
    [[nodiscard]] bool answers_otherwise() const noexcept {
        return !open_.load(std::memory_order_seq_cst) ||
               ring_.load(std::memory_order_seq_cst)->credits.load(std::memory_order_seq_cst) != 0;
    }
    /// A producer that found no credit, and is among those that sleep, asks to be woken. False: it
    /// is answered otherwise already.
    [[nodiscard]] bool arm_producer() noexcept {
        // Ask, then look; post() and close() let in, or end, and look whether somebody asked. All
        // of that, and open()'s change of rings, has one order (seq_cst), so that at least one
        // sees the other. Nothing less will do, since on both sides a store is before a load.
        producer_asks_.store(true, std::memory_order_seq_cst);
        return !answers_otherwise();
    }

    // ---- the consumer's thread

    /// What was put and posted before is there still, unless more room is needed than before: then
    /// it begins anew.
    void open(std::uint32_t receives, Wake wake, void* user) {
        const Ring* const ring = ring_.load(std::memory_order_relaxed);
        if (ring == nullptr) {
            wake_ = wake; // always the same
        }
        if (ring == nullptr || receives > ring->capacity()) {
            // The old one stays: a producer that found it open may be at it.
            rings_.push_back(std::make_unique<Ring>(std::bit_ceil(receives)));
            ring_.store(rings_.back().get(), std::memory_order_seq_cst);
        }
        wake_user_.store(user, std::memory_order_relaxed); // another one than before, perhaps
        open_.store(true, std::memory_order_release);
    }
    /// Any thread. What was put remains to be taken, and what was posted remains posted.
    void close() noexcept {
        open_.store(false, std::memory_order_seq_cst);
        wake_producers();
    }
    /// What was posted and not used is posted no more.
    void withdraw() noexcept {
        Ring& ring = current();
        ring.withdrawn += ring.credits.exchange(0, std::memory_order_acq_rel);
    }
    /// Lets messages in; false: there are no slots for so many.
    [[nodiscard]] bool post(std::uint32_t receives) noexcept {
        Ring& ring = current();
        if (receives > ring.capacity() - (ring.posted - ring.head - ring.withdrawn)) {
            return false;
        }
        ring.posted += receives;
        ring.credits.fetch_add(receives, std::memory_order_seq_cst);
        wake_producers();
        return true;
    }
    [[nodiscard]] bool ready() const noexcept {
        const Ring* const ring = ring_.load(std::memory_order_acquire);
        return ring != nullptr && ring->ready();
    }
    /// The oldest message, if there is one.
    [[nodiscard]] bool take(QueueMessage& to) noexcept {
        if (!ready()) {
            return false;
        }
        Ring& ring = current();
        to = ring.slots[ring.head & ring.mask].message;
        ++ring.head;
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
    struct Ring {
        explicit Ring(std::uint32_t capacity)
            : mask(capacity - 1), slots(std::make_unique<Slot[]>(capacity)) {}

        [[nodiscard]] std::uint64_t capacity() const noexcept { return mask + 1; }
        [[nodiscard]] bool ready() const noexcept {
            return slots[head & mask].ready.load(std::memory_order_acquire) == head + 1;
        }
        /// False: no credit.
        [[nodiscard]] bool put(std::span<const std::byte> immediate, std::uint32_t producer) {
            std::uint32_t some = credits.load(std::memory_order_relaxed);
            do {
                if (some == 0) {
                    return false;
                }
                // Acquire: pairs with post(), after which the slot is free.
            } while (!credits.compare_exchange_weak(some, some - 1, std::memory_order_acquire,
                                                    std::memory_order_relaxed));
            // And with the others that have put: one with an older credit may get a slot that was
            // freed after.
            const std::uint64_t position = tail.fetch_add(1, std::memory_order_acq_rel);
            Slot& slot = slots[position & mask];
            slot.message.length = static_cast<std::uint32_t>(immediate.size());
            slot.message.producer = producer;
            std::memcpy(slot.message.bytes.data(), immediate.data(), immediate.size());
            slot.ready.store(position + 1, std::memory_order_release);
            return true;
        }

        const std::uint64_t mask;
        const std::unique_ptr<Slot[]> slots;
        alignas(64) std::atomic<std::uint32_t> credits = 0;
        std::atomic<std::uint64_t> tail = 0;
        // the consumer's
        alignas(64) std::uint64_t head = 0;
        std::uint64_t posted = 0;
        std::uint64_t withdrawn = 0; ///< credits taken back
    };

    [[nodiscard]] Ring& current() const noexcept { return *ring_.load(std::memory_order_acquire); }
    void wake_producers() noexcept {
        // A load first: it costs nothing where nobody sleeps. Acquire: who asked is in the list.
        if (producer_asks_.load(std::memory_order_seq_cst) &&
            producer_asks_.exchange(false, std::memory_order_acq_rel)) {
            producers_.wake();
        }
    }

    const std::uint32_t id_;
    SleepingProducers& producers_;
    std::atomic<Ring*> ring_ = nullptr; ///< the last of them
    std::vector<std::unique_ptr<Ring>> rings_;
    Wake wake_ = nullptr;
    std::atomic<void*> wake_user_ = nullptr;
    std::atomic<bool> open_ = false;
    std::atomic<bool> armed_ = false;
    std::atomic<bool> producer_asks_ = false;
};

} // namespace comch::doca
