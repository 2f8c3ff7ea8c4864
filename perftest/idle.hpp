// What a loop does when its progress engine had nothing to do.
#pragma once

#include <poll.h>

#include <comch/progress.hpp>

#include "perftest/give_way.hpp"

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
            give_way_.empty();
        } else {
            give_way_.found();
        }
        if (++calls_ >= interval) {
            calls_ = 0;
            return true;
        }
        return false;
    }

private:
    bool sleep_;
    GiveWay give_way_;
    unsigned calls_ = 0;
};

} // namespace comch::perftest
