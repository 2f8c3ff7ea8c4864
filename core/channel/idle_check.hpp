// When to ask a channel, which nothing comes from, whether its peer still lives.
//
// Asking may take a system call, reading the clock takes some nanoseconds: so the clock is read at
// every 16th idle progress call, and the question asked when 5 ms have passed, or right after a
// sleep. That is far inside the 100 ms after which a death must be known, and a caller that comes
// rarely is told by the connection's own thread.
#pragma once

#include <cstdint>
#include <ctime>

namespace comch::channel {

class IdleCheck {
public:
    [[nodiscard]] bool due() noexcept {
        if (!forced_) [[likely]] {
            if (++calls_ % 16 != 0) [[likely]] {
                return false;
            }
            if (now() - last_ns_ < interval_ns) {
                return false;
            }
        }
        forced_ = false;
        last_ns_ = now();
        return true;
    }
    /// The next call is due.
    void force() noexcept { forced_ = true; }

private:
    static constexpr std::uint64_t interval_ns = 5'000'000;

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
