// When a port's progress looks beyond its queues: at sockets, the device's events, ends nobody
// announces. Nearly every call only counts; every 16th or so reads the CPU's counter; a look is due
// when that has gone on by a port's interval. One thread, the port's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/ticks.hpp"

namespace comch::link {

class SlowPoll {
public:
    struct Pace {
        unsigned calls;               ///< of progress from one look at the counter to the next
        std::uint64_t slow_caller_ns; ///< who has not looked for so long looks at every call
        std::uint64_t look_at_all_ns; ///< how often every connection is looked at
    };

    explicit SlowPoll(const Pace& pace) noexcept : pace_(pace) {}

    /// A call of progress. True, now and then: due() is to be asked.
    [[nodiscard]] bool count() noexcept { return --calls_ == 0; }
    /// The same from one call of progress to the next, and then mostly another.
    [[nodiscard]] unsigned calls() const noexcept { return calls_; }

    /// The next call of progress looks at everything.
    void want() noexcept {
        wanted_ = true;
        calls_ = 1;
    }
    /// The next look is one at every connection.
    void want_all() noexcept { all_ = true; }
    /// Is it? To be asked once in each look.
    [[nodiscard]] bool take_all() noexcept { return std::exchange(all_, false); }

    /// Is a look due? Then now_ns() is now. `interval_ns()`: from one look to the next, as things
    /// are; asked only if there is a look.
    template <class Interval> [[nodiscard]] bool due(Interval&& interval_ns) noexcept {
        calls_ = close_looks_ == 0 ? pace_.calls : 1;
        close_looks_ -= close_looks_ != 0 ? 1 : 0;
        const std::uint64_t now = ticks();
        // Unsigned: a counter that went back is a long time.
        if (!wanted_ && now - last_ticks_ < interval_ticks_) {
            return false;
        }
        look(now, monotonic_ns(), interval_ns());
        return true;
    }
    /// The time of the last look.
    [[nodiscard]] std::uint64_t now_ns() const noexcept { return last_ns_; }

private:
    void look(std::uint64_t now_ticks, std::uint64_t now, std::uint64_t interval) noexcept {
        const std::uint64_t elapsed = now - last_ns_;
        // How fast the counter counts, as seen since the last time; after a jump, no faster than
        // any CPU.
        const double rate = elapsed == 0 ? 0
                                         : static_cast<double>(now_ticks - last_ticks_) /
                                               static_cast<double>(elapsed);
        interval_ticks_ =
            static_cast<std::uint64_t>(std::min(rate, 8.0) * static_cast<double>(interval));
        // A caller this slow looks at every call, also if it makes a few at a time.
        if (elapsed >= pace_.slow_caller_ns) {
            calls_ = 1;
            close_looks_ = pace_.calls;
            interval_ticks_ = 0;
        }
        last_ticks_ = now_ticks;
        last_ns_ = now;
        if (std::exchange(wanted_, false) || now - last_all_ns_ >= pace_.look_at_all_ns) {
            last_all_ns_ = now;
            all_ = true;
        }
    }

    unsigned calls_ = 1;       ///< touched by every call of progress; the rest is not
    unsigned close_looks_ = 0; ///< calls that look each: who paused may pause again after a few
    bool wanted_ = false;      ///< whatever the counter says
    bool all_ = false;
    std::uint64_t last_ticks_ = 0;
    std::uint64_t interval_ticks_ = 0; ///< until the next look
    std::uint64_t last_ns_ = 0;
    std::uint64_t last_all_ns_ = 0;
    Pace pace_;
};

} // namespace comch::link
