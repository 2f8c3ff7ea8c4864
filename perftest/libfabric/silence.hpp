// How long one end waits for another that may have been stopped.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

namespace comch::perftest {

[[noreturn]] inline void throw_silent(double seconds) {
    throw std::runtime_error(fmt::format(
        "nothing has moved for {} s and the other process is still there: is it stopped, "
        "or are there far too few CPUs? --timeout allows for more",
        seconds));
}

/// For one loop that polls.
class Silence {
public:
    explicit Silence(double seconds) noexcept : seconds_(seconds) {}

    /// Throws when `activity` has not changed for so long. Reads the clock seldom: most loops are over
    /// before it would be.
    void look(std::uint64_t activity) {
        if (++looks_ % looks_each != 0) [[likely]] {
            return;
        }
        const Clock::time_point now = Clock::now();
        if (looks_ == looks_each || activity != last_) {
            last_ = activity;
            since_ = now;
        } else if (std::chrono::duration<double>(now - since_).count() > seconds_) {
            throw_silent(seconds_);
        }
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::uint64_t looks_each = 1024;

    double seconds_;
    std::uint64_t looks_ = 0;
    std::uint64_t last_ = 0;
    Clock::time_point since_{};
};

} // namespace comch::perftest
