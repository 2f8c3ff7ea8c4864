// When to ask a channel, which nothing comes from, whether its peer still lives.
//
// Asking may take a system call, reading the clock takes some nanoseconds: so the clock is read at
// one idle progress call in several, and the question asked when some time has passed (tuning.hpp),
// or right after a sleep. A caller that comes rarely is told by the connection's own thread.
#pragma once

#include <cstdint>
#include <ctime>

#include "core/channel/tuning.hpp"

namespace comch::channel {

class IdleCheck {
public:
    [[nodiscard]] bool due() noexcept {
        return (forced_ || ++calls_ % tuning::clock_check_calls == 0) && look_at_clock();
    }
    /// The next call is due.
    void force() noexcept { forced_ = true; }

private:
    [[nodiscard, gnu::noinline]] bool look_at_clock() noexcept {
        const std::uint64_t time = now();
        if (!forced_ && time - last_ns_ < tuning::idle_check_interval_ns) {
            return false;
        }
        forced_ = false;
        last_ns_ = time;
        return true;
    }
    [[nodiscard]] static std::uint64_t now() noexcept {
        timespec time{};
        ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
        return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
               static_cast<std::uint64_t>(time.tv_nsec);
    }

    unsigned calls_ = 0;
    bool forced_ = false;
    std::uint64_t last_ns_ = 0;
};

} // namespace comch::channel
