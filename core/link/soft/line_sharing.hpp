// Whether short messages share the lines of a ring, or each fills its own.
//
// Two in a line move at once, if the reader comes late; one that keeps up takes the line after the first
// of them, and has to come back for the second. Which is better depends on the CPUs, on where they lie,
// and on who is the slower end. So both are timed in turn now and then, lap by lap of the ring, with the
// traffic that there is.
#pragma once

#include <array>
#include <cstdint>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class LineSharing {
public:
    LineSharing() = default;
    explicit LineSharing(std::uint32_t cells) noexcept : cells_(cells), lap_end_(cells) {}

    /// Is a short message to fill its line? A ring begins with no.
    [[nodiscard]] bool fills() const noexcept { return now_ == fill; }

    /// The writer is at `position`. True: took() is to be told.
    [[nodiscard]] bool has_lapped(std::uint64_t position) const noexcept {
        return position >= lap_end_;
    }
    /// Where it is, how many messages it has written so far, and when.
    void took(std::uint64_t position, std::uint64_t messages, std::uint64_t now_ns) noexcept;

private:
    enum Way : unsigned char { share, fill, ways };
    static constexpr unsigned samples = tuning::sharing_samples; ///< of each
    using Times = std::array<std::uint64_t, samples>;            ///< of a thousand messages
    struct Lap {
        std::uint64_t time = 0; ///< nanoseconds
        std::uint64_t messages = 0;
    };

    void begin_trial() noexcept;
    void next_in_trial(const Lap& lap) noexcept;
    void end_trial() noexcept;

    std::uint32_t cells_ = 0;
    Way now_ = share;
    Way found_ = share; ///< by the last trial
    bool trying_ = false;
    bool settling_ = false; ///< the first lap of a turn: the reader is at what was written before
    unsigned sample_ = 0;
    unsigned same_ = 0; ///< times in a row
    std::uint64_t lap_end_ = ~std::uint64_t{0};
    std::uint64_t began_ = 0;                             ///< the lap
    std::uint64_t messages_ = 0;                          ///< before it
    std::uint64_t to_come_ = tuning::sharing_first_trial; ///< laps before the next trial
    std::array<Times, ways> times_{};
};

} // namespace comch::link::soft
