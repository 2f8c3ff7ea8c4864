// Which of a few ways is the fastest: each is timed in turn, several times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/median.hpp"

namespace comch::link::soft {

template <std::size_t ways, unsigned samples> class WayTrial {
public:
    /// The way to go: the fastest as far as is known, or the one whose turn it is.
    [[nodiscard]] std::size_t now() const noexcept { return now_; }
    [[nodiscard]] bool running() const noexcept { return running_; }
    /// How many trials in a row have found what the one before had.
    [[nodiscard]] unsigned same() const noexcept { return same_; }

    void begin() noexcept {
        running_ = true;
        sample_ = 0;
        now_ = 0;
    }

    /// What now() took; the next has its turn, so that what changes meanwhile changes for all. True: it was the last.
    /// Another way is taken from then on if its median is less by one part in `gain`.
    bool took(std::uint64_t time, std::uint64_t gain) noexcept {
        times_[now_][sample_] = time;
        if (++now_ != ways) {
            return false;
        }
        now_ = 0;
        if (++sample_ != samples) {
            return false;
        }
        end(gain);
        return true;
    }

private:
    void end(std::uint64_t gain) noexcept {
        std::size_t best = found_;
        std::uint64_t least = median_of(times_[found_]);
        least -= least / gain;
        for (std::size_t way = 0; way < ways; ++way) {
            if (way == found_) {
                continue;
            }
            if (const std::uint64_t median = median_of(times_[way]); median < least) {
                best = way;
                least = median;
            }
        }
        same_ = best == found_ ? same_ + 1 : 0;
        now_ = found_ = best;
        running_ = false;
    }

    std::size_t now_ = 0;
    std::size_t found_ = 0; ///< by the last trial
    unsigned sample_ = 0;
    unsigned same_ = 0;
    bool running_ = false;
    std::array<std::array<std::uint64_t, samples>, ways> times_{};
};

} // namespace comch::link::soft
