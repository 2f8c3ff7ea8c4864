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
class SleepBell {
public:
    [[nodiscard]] bool make() noexcept {
        bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        return static_cast<bool>(bell_);
    }
    [[nodiscard]] int fd() const noexcept { return bell_.get(); }

    /// A new sleep is being armed: of the one before nothing is left.
    void get_up() noexcept {
        asleep_ = false;
        if (rung_) {
            hear();
        }
    }
    void hear() noexcept {
        rung_ = false;
        drain(bell_.get());
    }
    void fall_asleep() noexcept { asleep_ = true; }
    /// Once for each sleep, which nobody says the end of: it costs a system call.
    void wake() noexcept {
        if (asleep_) [[unlikely]] {
            asleep_ = false;
            rung_ = true;
            ring(bell_.get());
        }
    }

private:
    bool asleep_ = false;
    bool rung_ = false;
    UniqueFd bell_;
};

} // namespace comch::link
