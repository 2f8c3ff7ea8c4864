// A long get that both ends copy at the same time: the requester reads the peer's memory from the front, the
// owner writes the requester's from the back, until they meet; each by the kernel, or by itself where it has
// the other's memory mapped.
//
// Who copies what is claimed in one word of shared memory: the requester's first part before it asks, the rest
// part by part by whoever is ready. Either end may thus come late, or not at all: the other then copies more, or
// everything. What was claimed is waited for, since whoever claimed it may be writing.
//
// The requester's end is a JointCopy, the owner's a JointHelp. Their words (Direction::Joint):
//
//   claims  generation 16, units claimed at the front 24, at the back 24 (units of 4 KiB)
//   done    generation 16, failed 1, units that the owner has copied 24
//
// There are words for joint_gets of them at a time, so that an end that is done with its part of one begins with
// the next: it need not wait until the other has seen the one, nor until that is ready.
//
// A generation begins only when `done` shows that the owner has seen the one before, so an owner that
// slept meanwhile is one behind at most, and its attempt to claim fails.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/link/soft/layout.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

namespace joint {

inline constexpr unsigned unit_bits = 12;
inline constexpr std::uint64_t unit = std::uint64_t{1} << unit_bits;
inline constexpr std::uint64_t max_units = (std::uint64_t{1} << 24) - 1;
inline constexpr std::uint64_t max_length = max_units << unit_bits;
/// To claim a part: the other end's claims spoil few, and an exclusive store fails by itself at
/// times.
inline constexpr unsigned most_attempts = 100;

/// The word of claims.
struct Claims {
    std::uint16_t generation = 0;
    std::uint32_t front = 0;
    std::uint32_t back = 0;

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
        return generation | std::uint64_t{front} << 16 | std::uint64_t{back} << 40;
    }
    [[nodiscard]] static constexpr Claims unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint16_t>(word),
                static_cast<std::uint32_t>(word >> 16 & max_units),
                static_cast<std::uint32_t>(word >> 40)};
    }
};

struct Done {
    std::uint16_t generation = 0;
    bool failed = false;
    std::uint32_t units = 0;

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
        return generation | std::uint64_t{failed} << 16 | std::uint64_t{units} << 17;
    }
    [[nodiscard]] static constexpr Done unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint16_t>(word), (word >> 16 & 1) != 0,
                static_cast<std::uint32_t>(word >> 17 & max_units)};
    }
};

/// Bytes [offset, offset + length) of the copy.
struct Part {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

[[nodiscard]] constexpr std::uint32_t units_of(std::uint64_t length) noexcept {
    return static_cast<std::uint32_t>((length + unit - 1) >> unit_bits);
}
[[nodiscard]] constexpr Part part(std::uint64_t from, std::uint64_t to,
                                  std::uint64_t length) noexcept {
    const std::uint64_t begin = from << unit_bits;
    const std::uint64_t end = std::min(to << unit_bits, length);
    return {begin, end > begin ? end - begin : 0};
}

/// How long the parts are that one end copies, in units: longer where each takes a call to the kernel, as far as
/// that end knows.
struct Shares {
    std::uint32_t least;
    std::uint32_t most;
};
[[nodiscard]] constexpr Shares shares(bool by_kernel) noexcept {
    return by_kernel ? Shares{tuning::joint_min_units, tuning::joint_max_units}
                     : Shares{tuning::joint_mapped_min_units, tuning::joint_mapped_max_units};
}

/// Each end copies one part, whose length the Balance knows: where the kernel does it, each call costs; and where
/// they meet in a line that is the other end's the next time, each line does.
[[nodiscard]] constexpr bool one_part_each(std::uint32_t units) noexcept {
    return units <= 2 * tuning::joint_max_units;
}

/// How much to claim of what is left: half, that both ends are ready at the same time; but every part
/// costs both ends the line with the claims, so not too little of it.
[[nodiscard]] constexpr std::uint32_t share_of(std::uint32_t left, std::uint32_t total,
                                               Shares shares) noexcept {
    const std::uint32_t least = std::clamp(total / 4, shares.least, shares.most / 2);
    const std::uint32_t share = std::min(left, std::clamp(left / 2, least, shares.most));
    const bool last = left - share < shares.least && left <= shares.most;
    return last ? left : share;
}

/// Which part of a get the requester claims, so that the owner, who takes all the rest, is ready at the same time.
/// Whoever was ready first gets more of the next.
class Balance {
public:
    [[nodiscard]] std::uint32_t first_of(std::uint32_t total) const noexcept {
        return std::min(total, std::max(total * parts_ / whole, shares(true).least));
    }
    void peer_was(bool later) noexcept {
        if (later != later_) {
            later_ = later;
            in_a_row_ = 0;
            step_ = std::max(step_ / 2, 1u);
        }
        // Where they meet, each change moves lines to the other cache. So the peer may be ready first for a while.
        if (++in_a_row_ < patience && !later && step_ == 1) {
            return;
        }
        in_a_row_ = 0;
        parts_ = std::clamp(later ? parts_ + step_ : parts_ - step_, least, most);
    }

private:
    static constexpr std::uint32_t whole = 64;
    static constexpr std::uint32_t least = 8; // (an owner that needs no kernel)
    static constexpr std::uint32_t most = 52;
    static constexpr std::uint32_t patience = 16;
    std::uint32_t parts_ = 36; // the owner begins later
    std::uint32_t step_ = 4;
    std::uint32_t in_a_row_ = 0;
    bool later_ = true;
};

} // namespace joint

/// The requester's end of one copy at a time; several share what they find about the parts, the Balance.
class JointCopy {
public:
    /// `words`: of the direction that we write.
    void attach(Direction::Joint* words) noexcept { words_ = words; }

    /// The peer has seen the last one: it is worth asking for help again.
    [[nodiscard]] bool may_begin(std::uint64_t length) const noexcept {
        return !active_ && !distrusted_ && length <= joint::max_length &&
               // Relaxed: no data depends on it, only what the peer can have seen of our words.
               joint::Done::unpack(words_->done.load(std::memory_order_relaxed)).generation ==
                   generation_;
    }
    /// The next generation, for the record that tells the peer about it. The first part is claimed.
    /// `by_kernel`: we copy so, not what is mapped here.
    [[nodiscard]] std::uint16_t begin(std::uint64_t length, bool by_kernel,
                                      const joint::Balance& balance) noexcept {
        active_ = true;
        length_ = length;
        units_ = joint::units_of(length);
        shares_ = joint::shares(by_kernel);
        balanced_ = joint::one_part_each(units_);
        first_ = balanced_ ? balance.first_of(units_) : joint::share_of(units_, units_, shares_);
        first_taken_ = false;
        waits_ = 0;
        front_ = first_;
        back_ = 0;
        ++generation_;
        // Relaxed: published by the record.
        words_->claims.store(joint::Claims{generation_, front_}.pack(), std::memory_order_relaxed);
        return generation_;
    }
    [[nodiscard]] bool active() const noexcept { return active_; }

    /// The owner is to take all that our first part leaves.
    [[nodiscard]] bool leaves_rest() const noexcept { return balanced_; }
    /// Parts are left for us to take, or the words are not what they should be: take() will know.
    [[nodiscard]] bool has_more() const noexcept {
        const auto seen = joint::Claims::unpack(words_->claims.load(std::memory_order_relaxed));
        return !first_taken_ || seen.generation != generation_ || seen.front != front_ ||
               seen.back != units_ - front_;
    }
    /// The next part for us to copy; of length 0 when all is claimed.
    [[nodiscard]] joint::Part take() noexcept {
        if (!first_taken_) {
            first_taken_ = true;
            return joint::part(0, first_, length_);
        }
        return claim(false);
    }
    /// Leaves no more to the peer, nor to us.
    void give_up() noexcept {
        first_taken_ = true;
        balanced_ = false;
        (void)claim(true);
    }

    /// After all is claimed. Of what the peer claimed ...
    enum class Rest : std::uint8_t {
        coming, ///< some is not there yet
        here,   ///< all is there, and the peer does not write any more
        ours,   ///< `part` is left to us, and the peer does not write any more
    };
    [[nodiscard]] Rest rest(joint::Part& part) noexcept {
        if (back_ == 0) {
            return Rest::here;
        }
        // Acquire: what the peer has copied is seen.
        const auto done = joint::Done::unpack(words_->done.load(std::memory_order_acquire));
        if (done.generation != generation_) {
            return Rest::coming;
        }
        if (done.failed) {
            balanced_ = false;
            const std::uint32_t copied = std::min(done.units, back_);
            part = joint::part(units_ - back_, units_ - copied, length_);
            return part.length == 0 ? Rest::here : Rest::ours;
        }
        return done.units >= back_ ? Rest::here : Rest::coming;
    }
    /// We have nothing else to do than to look for the peer's part.
    void wait() noexcept { ++waits_; }
    /// Did the peer help?
    [[nodiscard]] bool helped() const noexcept { return back_ != 0; }
    /// Bytes that the peer has claimed.
    [[nodiscard]] std::uint64_t claimed_by_peer() const noexcept {
        return joint::part(units_ - back_, units_, length_).length;
    }
    /// The copy is over; nobody writes any more.
    void end(joint::Balance& balance) noexcept {
        active_ = false;
        if (balanced_ && helped()) {
            balance.peer_was(front_ != first_ || waits_ > tuning::joint_waits);
        }
    }

private:
    [[nodiscard]] joint::Part claim(bool all) noexcept {
        // Acquire, here and below: who sees a claim of the peer's sees what `done` said before it.
        std::uint64_t word = words_->claims.load(std::memory_order_acquire);
        for (unsigned attempts = 0;; ++attempts) {
            const auto seen = joint::Claims::unpack(word);
            if (seen.generation != generation_ || seen.front != front_ || seen.back < back_ ||
                seen.back > units_ - front_ || attempts == joint::most_attempts) {
                // No correct peer writes this, or that often. So nothing was done by it, nor will
                // be.
                distrusted_ = true;
                back_ = 0;
                const joint::Part left = joint::part(front_, units_, length_);
                front_ = units_;
                return left;
            }
            back_ = seen.back;
            const std::uint32_t left = units_ - front_ - back_;
            if (left == 0) {
                return {};
            }
            const std::uint32_t share = all ? left : joint::share_of(left, units_, shares_);
            if (words_->claims.compare_exchange_weak(
                    word, joint::Claims{generation_, front_ + share, back_}.pack(),
                    std::memory_order_acquire, std::memory_order_acquire)) {
                front_ += share;
                return joint::part(front_ - share, front_, length_);
            }
        }
    }

    Direction::Joint* words_ = nullptr;
    std::uint64_t length_ = 0;
    std::uint32_t units_ = 0;
    joint::Shares shares_{};
    std::uint32_t first_ = 0; ///< our first part
    std::uint32_t waits_ = 0; ///< for the peer's last part
    std::uint32_t front_ = 0; ///< claimed by us
    std::uint32_t back_ = 0;  ///< claimed by the peer, as last seen
    std::uint16_t generation_ = 0;
    bool active_ = false;
    bool balanced_ = false;
    bool first_taken_ = false;
    bool distrusted_ = false;
};

/// The owner's end: what it has been asked to help with.
class JointHelp {
public:
    /// `words`: of the direction that the peer writes.
    void attach(Direction::Joint* words) noexcept { words_ = words; }

    /// The peer asks. (A request before it is over: all of that is claimed.)
    /// `peer_by_kernel`: it reads so, not what it has mapped.
    void begin(std::uint16_t generation, std::uint64_t length, bool peer_by_kernel) noexcept {
        peer_by_kernel_ = peer_by_kernel;
        generation_ = generation;
        length_ = length;
        units_ = joint::units_of(length);
        claimed_ = 0;
        done_ = 0;
        active_ = length <= joint::max_length;
        tell(false);
    }
    /// There may be more for us to take.
    [[nodiscard]] bool active() const noexcept { return active_; }

    /// The next part for us to copy, to be followed by copied() or failed(); of length 0 when there
    /// is none. `by_kernel`: we copy so, not into what is mapped here.
    [[nodiscard]] joint::Part take(bool by_kernel) noexcept {
        const joint::Shares shares = joint::shares(by_kernel && peer_by_kernel_);
        std::uint64_t word = words_->claims.load(std::memory_order_relaxed);
        // A correct peer spoils few attempts, for its parts are long.
        for (unsigned attempts = 0; active_ && attempts < joint::most_attempts; ++attempts) {
            const auto seen = joint::Claims::unpack(word);
            if (seen.generation != generation_ || seen.back != claimed_ ||
                seen.front >= units_ - claimed_) {
                break; // all is claimed, it is over, or the peer is not a correct one
            }
            const std::uint32_t left = units_ - claimed_ - seen.front;
            // The requester's own part is about as long (Balance), and it leaves us the rest.
            const bool all = claimed_ == 0 && joint::one_part_each(units_);
            const std::uint32_t share = all ? left : joint::share_of(left, units_, shares);
            // Release: whoever sees the claim sees that `done` is of this generation.
            if (words_->claims.compare_exchange_weak(
                    word, joint::Claims{generation_, seen.front, claimed_ + share}.pack(),
                    std::memory_order_release, std::memory_order_relaxed)) {
                claimed_ += share;
                active_ = share != left;
                return joint::part(units_ - claimed_, units_ - claimed_ + share, length_);
            }
        }
        active_ = false;
        return {};
    }
    /// All that was taken is where it belongs.
    void copied() noexcept {
        done_ = claimed_;
        tell(false);
    }
    /// What was taken last is left to the peer, and all the rest.
    void failed() noexcept {
        active_ = false;
        tell(true);
    }

private:
    void tell(bool failed) noexcept {
        // Release: with what was copied.
        words_->done.store(joint::Done{generation_, failed, done_}.pack(),
                           std::memory_order_release);
    }

    Direction::Joint* words_ = nullptr;
    std::uint64_t length_ = 0;
    std::uint32_t units_ = 0;
    std::uint32_t claimed_ = 0;
    std::uint32_t done_ = 0;
    std::uint16_t generation_ = 0;
    bool active_ = false;
    bool peer_by_kernel_ = false;
};

} // namespace comch::link::soft
