// The clock of the measured loops: the CPU's own counter where it runs at a constant rate, else
// steady_clock. Reading it costs a few nanoseconds less than a clock of the system, which matters
// where a whole round trip takes some hundred.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace comch::perftest {

class Clock {
public:
    [[nodiscard]] static std::uint64_t now() noexcept {
#if defined(__x86_64__)
        if (use_counter_) [[likely]] {
            return __rdtsc();
        }
#endif
        return steady();
    }

    /// To be called once, before the first use of the other functions; takes some milliseconds.
    static void calibrate();

    [[nodiscard]] static double nanoseconds(double ticks) noexcept {
        return ticks * ns_per_tick_;
    }
    [[nodiscard]] static double seconds(double ticks) noexcept {
        return nanoseconds(ticks) * 1e-9;
    }
    [[nodiscard]] static std::uint64_t ticks(double seconds) noexcept {
        return static_cast<std::uint64_t>(seconds * 1e9 / ns_per_tick_);
    }

private:
    [[nodiscard]] static std::uint64_t steady() noexcept {
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::steady_clock::now().time_since_epoch())
                                              .count());
    }

    static bool use_counter_;
    static double ns_per_tick_;
};

} // namespace comch::perftest
