// Eventfds that end sleeps.
#pragma once

#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/unique_fd.hpp"

namespace comch::link {

/// Wakes whoever sleeps on it; any thread.
inline void ring(int fd) noexcept {
    constexpr std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof(one));
}

/// It has been heard; also for a timerfd.
inline void drain(int fd) noexcept {
    std::uint64_t count = 0;
    (void)!::read(fd, &count, sizeof(count));
}

/// A port's own. A sleep is armed for what is under way by then. Whoever posts more before it ends
/// (another thread, as UCX and libfabric allow, while one sleeps) has it ended, and progress() and
/// arm() see what there is to wait for now. The port's thread, or whoever has its turn.
///
/// Only arm() makes it quiet again: who sleeps may not have run yet when another thread progresses.
class SleepBell {
public:
    /// `shared`: as in PortOptions.
    [[nodiscard]] bool make(bool shared) noexcept {
        shared_ = shared;
        bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        return static_cast<bool>(bell_);
    }
    [[nodiscard]] int fd() const noexcept { return bell_.get(); }

    /// During arm(): of the sleep before nothing is left. If none comes of it, another thread may
    /// sleep on that is not armed for everything any more: it is woken.
    class Arming {
    public:
        explicit Arming(SleepBell& bell) noexcept : bell_(bell) {
            bell_.asleep_ = false;
            if (bell_.rung_) {
                bell_.hear();
            }
        }
        ~Arming() {
            if (bell_.shared_ && !bell_.asleep_) {
                bell_.ring_now();
            }
        }
        Arming(const Arming&) = delete;
        Arming& operator=(const Arming&) = delete;

        void fall_asleep() noexcept { bell_.asleep_ = true; }

    private:
        SleepBell& bell_;
    };

    void hear() noexcept {
        rung_ = false;
        drain(bell_.get());
    }
    /// Once for each sleep, which nobody says the end of: it costs a system call.
    void wake() noexcept {
        if (asleep_) [[unlikely]] {
            asleep_ = false;
            ring_now();
        }
    }
    /// progress() has taken what was to end the sleep, perhaps another thread's.
    void wake_others() noexcept {
        if (shared_) {
            wake();
        }
    }

private:
    void ring_now() noexcept {
        rung_ = true;
        ring(bell_.get());
    }

    bool asleep_ = false;
    bool rung_ = false;
    bool shared_ = false;
    UniqueFd bell_;
};

} // namespace comch::link
