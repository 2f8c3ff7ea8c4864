// What a loop does when its progress engine had nothing to do.
#pragma once

#include <poll.h>
#include <sched.h>

#include <comch/progress.hpp>

namespace comch::perftest {

/// Sleeps on an engine's descriptor, but not for ever: what else the caller waits for may not be
/// the engine's.
inline void sleep_on(ProgressEngine& engine, int milliseconds = 50) noexcept {
    pollfd entry{.fd = engine.event_fd(), .events = POLLIN, .revents = 0};
    (void)::poll(&entry, 1, milliseconds);
}

class Idle {
public:
    explicit Idle(bool sleep) noexcept : sleep_(sleep) {}

    /// One progress call. Whether it is time to look at the clock: after a sleep, and every
    /// `interval` calls.
    [[nodiscard]] bool progress(ProgressEngine& engine, unsigned interval) noexcept {
        if (engine.progress() == 0) {
            if (sleep_) {
                if (engine.arm() == Errc::ok) {
                    sleep_on(engine);
                }
                return true;
            }
            // With more threads than CPUs the other end may be waiting for this one.
            if (++empty_ == empty_before_yield) [[unlikely]] {
                empty_ = 0;
                ::sched_yield();
            }
        } else {
            empty_ = 0;
        }
        if (++calls_ >= interval) {
            calls_ = 0;
            return true;
        }
        return false;
    }

private:
    static constexpr unsigned empty_before_yield = 300; ///< some microseconds

    bool sleep_;
    unsigned empty_ = 0;
    unsigned calls_ = 0;
};

} // namespace comch::perftest
