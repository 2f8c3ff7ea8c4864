// How much of a bulk ring its writer uses: all of it, or only the beginning.
//
// A line that is written again soon is still in the writer's private cache, but in the reader's as
// well, where the writer has to take it back from; one that is written again late has left both.
// Which is dearer depends on the CPUs, on where they lie, and on whether the reader looks at what
// it is sent. So both are tried in turn, early on and then again now and then, with the traffic
// that there is. (Where the reader is the slower end, the ring is full, and all of it in use,
// whatever is wanted.)
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class BulkSpan {
public:
    BulkSpan() = default;
    explicit BulkSpan(std::uint32_t size)
        : span_(size), next_(size > small ? tuning::span_warm_up : never), size_(size) {}

    /// Bytes from the beginning of the ring.
    [[nodiscard]] std::uint32_t bytes() const noexcept { return span_; }

    /// `length` bytes were written. True: took() is to be told when.
    [[nodiscard]] bool wrote(std::uint32_t length) noexcept {
        written_ += length;
        return written_ >= next_;
    }
    /// `now`: by the CPU's counter, or any other.
    void took(std::uint64_t now) noexcept;
    /// Something had to be written beyond bytes(), because the beginning was not free.
    void went_beyond() noexcept { beyond_ = true; }

    static constexpr std::uint32_t small = tuning::bulk_size_of_many;

private:
    static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    /// All, the beginning, and once more: what changes meanwhile must not look like a difference.
    static constexpr unsigned trials = 4;
    /// Stretches of a trial that count; and those that may pass before there are so many.
    static constexpr unsigned samples = tuning::span_samples;
    static constexpr unsigned attempts = 4 * samples;

    [[nodiscard]] static bool uses_all(unsigned trial) noexcept { return trial % 2 == 0; }
    void begin_trial() noexcept;
    void begin_stretch(std::uint64_t now) noexcept;
    void choose(std::uint32_t span) noexcept;

    std::uint32_t span_ = 0;
    bool beyond_ = false;
    std::uint64_t written_ = 0;  ///< bytes, ever
    std::uint64_t next_ = never; ///< of them, before something is due
    // What is not needed for a message:
    std::uint32_t size_ = 0;
    std::uint32_t found_ = 0; ///< by the last trials
    unsigned same_ = 0;       ///< times in a row
    bool trying_ = false;
    bool timing_ = false; ///< a stretch, since:
    std::uint64_t stretch_began_ = 0;
    std::uint64_t stretch_written_ = 0;
    unsigned trial_ = 0;
    unsigned attempt_ = 0;
    unsigned sample_ = 0;
    std::array<std::uint64_t, samples> samples_{}; ///< time for a MiB
    std::array<std::uint64_t, trials> medians_{};
};

} // namespace comch::link::soft
