// How much of a bulk ring its writer uses: all of it, only the beginning, or so few lines that they stay
// in its first cache (bulk_writer.hpp).
//
// A line that is written again soon is still in the writer's private cache, but in the reader's as
// well, where the writer has to take it back from; one that is written again late has left both.
// Which is dearer depends on the CPUs, on where they lie, and on whether the reader looks at what
// it is sent. So all three are tried in turn now and then, with the traffic that there is. Before there is
// enough of it for that, the beginning is used, which has few pages. (Where the reader is the slower
// end, the ring is full, and all of it in use, whatever is wanted; but not while less is tried.)
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
    /// As few lines of it as will do.
    [[nodiscard]] bool few_lines() const noexcept { return use_ == Use::few_lines; }

    /// `length` bytes were written. True: took() is to be told when.
    [[nodiscard]] bool wrote(std::uint32_t length) noexcept {
        written_ += length;
        return written_ >= next_;
    }
    void took(std::uint64_t now_ns) noexcept;

    /// As if nothing had been written or found out.
    void begin_anew() noexcept {
        use(size_ > small ? Use::beginning : Use::all);
        next_ = size_ > small ? written_ + tuning::span_warm_up : never;
        trying_ = false;
        looked_at_ = 0;
        found_ = use_;
        same_ = 0;
    }
    /// Nothing may be written elsewhere, even if there is no room: that is timed.
    [[nodiscard]] bool is_strict() const noexcept { return trying_; }

    static constexpr std::uint32_t small = tuning::bulk_size_of_many;

private:
    static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
    /// In the order of the room that they have.
    enum class Use : std::uint8_t { all, beginning, few_lines };
    static constexpr unsigned uses = 3;
    /// Each, and once more: what changes meanwhile must not look like a difference.
    static constexpr unsigned trials = 2 * uses;
    static constexpr unsigned samples = tuning::span_samples; ///< of a trial

    /// There is so much traffic now that it makes a difference.
    [[nodiscard]] bool is_worth_it(std::uint64_t now_ns) noexcept;
    void use(Use use) noexcept {
        use_ = use;
        span_ = use == Use::beginning ? small : size_;
    }
    void begin_trial() noexcept;
    void begin_stretch(std::uint64_t now_ns) noexcept;
    [[nodiscard]] Use fastest() const noexcept;
    void choose(Use use) noexcept;

    std::uint32_t span_ = 0;
    bool trying_ = false;
    Use use_ = Use::all;
    std::uint64_t written_ = 0;  ///< bytes, ever
    std::uint64_t next_ = never; ///< of them, before something is due
    // What is not needed for a message:
    std::uint32_t size_ = 0;
    Use found_ = Use::all;        ///< by the last trials
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
