// How much of a bulk ring its writer uses: all of it, or only the beginning.
//
// A line that is written again soon is still in the writer's private cache, but in the reader's as
// well, where the writer has to take it back from; one that is written again late has left both.
// Which is dearer depends on the CPUs, on where they lie, and on whether the reader looks at what
// it is sent. So both are tried in turn now and then, with the traffic that there is. Before there is
// enough of it for that, the beginning is used, which has few pages. (Where the reader is the slower
// end, the ring is full, and all of it in use, whatever is wanted; but not while the beginning is tried.)
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class BulkSpan {
public:
    BulkSpan() = default;
    explicit BulkSpan(std::uint32_t size) : size_(size) { begin_anew(); }

    /// Bytes from the beginning of the ring.
    [[nodiscard]] std::uint32_t bytes() const noexcept { return span_; }

    /// `length` bytes were written. True: took() is to be told when.
    [[nodiscard]] bool wrote(std::uint32_t length) noexcept {
        written_ += length;
        return written_ >= next_;
    }
    void took(std::uint64_t now_ns) noexcept;

    /// As if nothing had been written or found out.
    void begin_anew() noexcept {
        span_ = size_ > small ? small : size_;
        next_ = size_ > small ? written_ + tuning::span_warm_up : never;
        trying_ = false;
        looked_at_ = 0;
        found_ = 0;
        same_ = 0;
    }
    /// Nothing may be written beyond bytes(), even if there is no room before: that is timed.
    [[nodiscard]] bool is_strict() const noexcept { return trying_; }

    static constexpr std::uint32_t small = tuning::bulk_size_of_many;

private:
    static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    /// All, the beginning, and once more: what changes meanwhile must not look like a difference.
    static constexpr unsigned trials = 4;
    static constexpr unsigned samples = tuning::span_samples; ///< of a trial

    /// There is so much traffic now that it makes a difference.
    [[nodiscard]] bool is_worth_it(std::uint64_t now_ns) noexcept;
    [[nodiscard]] static bool uses_all(unsigned trial) noexcept { return trial % 2 == 0; }
    void begin_trial() noexcept;
    void begin_stretch(std::uint64_t now_ns) noexcept;
    void choose(std::uint32_t span) noexcept;

    std::uint32_t span_ = 0;
    bool trying_ = false;
    std::uint64_t written_ = 0;  ///< bytes, ever
    std::uint64_t next_ = never; ///< of them, before something is due
    // What is not needed for a message:
    std::uint32_t size_ = 0;
    std::uint32_t found_ = 0;     ///< by the last trials
    unsigned same_ = 0;           ///< times in a row
    std::uint64_t looked_at_ = 0; ///< how much traffic there is; 0: not yet
    std::uint64_t looked_written_ = 0;
    bool timing_ = false; ///< a stretch, since:
    std::uint64_t stretch_began_ = 0;
    std::uint64_t stretch_written_ = 0;
    unsigned trial_ = 0;
    unsigned sample_ = 0;
    std::array<std::uint64_t, samples> samples_{}; ///< time for a MiB
    std::array<std::uint64_t, trials> medians_{};
};

} // namespace comch::link::soft
