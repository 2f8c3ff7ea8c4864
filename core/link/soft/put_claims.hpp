// Who executes a put that lies in the ring: its owner, who takes it out, or the one who put it
// there, by the kernel, when the owner does not come.
//
// The one asks "withdrawn?" after it has said "begun"; the other asks "begun?" after it has said
// "withdrawn". With a full fence between the two on both sides, at least one hears the other: so a
// put that the owner begins after the withdrawal is left alone by it, and one that it has begun
// before is seen to be at hand. That one is waited for (it is a copy of a few microseconds, unless
// the owner loses its CPU over it); then "executed" says where the owner's puts end and the other's
// begin. (A put may be begun and left alone, so "begun" cannot say that.)
//
// The owner's fence is paid by the other one (membarrier.hpp).
#pragma once

#include "core/link/soft/layout.hpp"

namespace comch::link::soft {

/// The owner's end: whoever takes records out.
class PutOwner {
public:
    PutOwner() = default;
    explicit PutOwner(Direction::Puts* words) noexcept : words_(words) {}

    /// Before the put at `position` is executed. False: it is not ours any more. `fence()` lies
    /// between a store and a load.
    template <class Fence>
    [[nodiscard]] bool begin(std::uint64_t position, Fence&& fence) noexcept {
        words_->begun.store(position + 1, std::memory_order_relaxed);
        fence();
        if (words_->withdrawn.load(std::memory_order_relaxed) > position) [[unlikely]] {
            words_->begun.store(0, std::memory_order_release);
            return false;
        }
        return true;
    }
    /// It has been executed, or refused.
    void end(std::uint64_t position) noexcept {
        // Release: who sees it writes to the same memory next.
        words_->executed.store(position + 1, std::memory_order_release);
        words_->begun.store(0, std::memory_order_release);
    }

private:
    Direction::Puts* words_ = nullptr;
};

/// The end of whoever puts them into the ring. What the peer says is taken as it comes: it is about
/// the peer's memory only.
class PutWithdrawal {
public:
    PutWithdrawal() = default;
    explicit PutWithdrawal(Direction::Puts* words) noexcept : words_(words) {}

    /// The owner begins none of those before `position` any more. A full fence on its CPU must
    /// follow.
    void withdraw(std::uint64_t position) noexcept {
        words_->withdrawn.store(position, std::memory_order_relaxed);
    }
    /// After that fence: is none at hand?
    [[nodiscard]] bool decided() const noexcept {
        return words_->begun.load(std::memory_order_acquire) == 0;
    }
    /// Behind the last one that the owner has executed.
    [[nodiscard]] std::uint64_t executed() const noexcept {
        return words_->executed.load(std::memory_order_acquire);
    }

private:
    Direction::Puts* words_ = nullptr;
};

} // namespace comch::link::soft
