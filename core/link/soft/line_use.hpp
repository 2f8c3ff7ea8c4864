// How the sender of short messages uses the lines of a ring: whether two share one, and whether it asks
// for lines ahead.
//
// Two in a line move at once, if the reader comes late; one that keeps up takes the line after the first
// of them, and has to come back for the second. A line that is asked for ahead is there when its turn
// comes, or it is taken from under a reader that looks at it. Which is best depends on the CPUs, on where
// they lie, and on who is the slower end. So the ways are timed in turn now and then, lap by lap of the
// ring, with the traffic that there is.
#pragma once

#include <array>
#include <cstdint>

#include "core/link/soft/tuning.hpp"
#include "core/link/soft/way_trial.hpp"

namespace comch::link::soft {

class LineUse {
public:
    struct Way {
        bool fills;          ///< a short message leaves nothing of its line to the next
        std::uint32_t ahead; ///< lines; 0: none is asked for
    };
    /// The first is how a ring begins.
    static constexpr std::array<Way, 3> ways{{{false, 2}, {true, 2}, {false, 0}}};

    LineUse() = default;
    explicit LineUse(std::uint32_t cells) noexcept : cells_(cells), lap_end_(cells) {}

    [[nodiscard]] const Way& now() const noexcept { return ways[trial_.now()]; }

    /// The writer is at `position`. True: took() is to be told.
    [[nodiscard]] bool has_lapped(std::uint64_t position) const noexcept {
        return position >= lap_end_;
    }
    /// Where it is, how many messages it has written so far, and when.
    void took(std::uint64_t position, std::uint64_t messages, std::uint64_t now_ns) noexcept;

private:
    std::uint32_t cells_ = 0;
    bool settling_ = false; ///< the first lap of a turn: the reader is at what was written before
    std::uint64_t lap_end_ = ~std::uint64_t{0};
    std::uint64_t began_ = 0;                              ///< the lap
    std::uint64_t messages_ = 0;                           ///< before it
    std::uint64_t to_come_ = tuning::line_use_first_trial; ///< laps before the next trial
    WayTrial<ways.size(), tuning::line_use_samples> trial_;
};

} // namespace comch::link::soft
