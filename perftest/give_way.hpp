// When a loop that polls in vain lets other threads have its CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include <sched.h>

#include "perftest/clock.hpp"

namespace comch::perftest {

/// With more threads than CPUs the other end may be waiting for this one, and should not wait for
/// long. With a CPU for each, giving it away is a system call for nothing, which may last longer
/// than what is measured. A loop does not know which it is, but sees whether anybody took it.
class GiveWay {
public:
    /// A look found nothing.
    void empty() noexcept {
        if (++empty_ >= interval_) [[unlikely]] {
            empty_ = 0;
            const std::uint64_t before = Clock::now();
            ::sched_yield();
            note(Clock::nanoseconds(static_cast<double>(Clock::now() - before)));
        }
    }
    /// A look found something.
    void found() noexcept { empty_ = 0; }

    /// Giving way took so long.
    void note(double ns) noexcept {
        interval_ = ns >= taken_ns ? least : std::min(2 * interval_, most);
    }
    /// So many looks have to find nothing.
    [[nodiscard]] unsigned interval() const noexcept { return interval_; }

    static constexpr unsigned least = 300; ///< some microseconds
    static constexpr unsigned most = 64 * least;
    /// Who gets a CPU keeps it for longer than this, and a system call takes less, emulation
    /// included.
    static constexpr double taken_ns = 10'000;

private:
    unsigned empty_ = 0;
    unsigned interval_ = least;
};

} // namespace comch::perftest
