// When a loop that polls in vain lets other threads have its CPU.
#pragma once

#include <algorithm>

#include <sched.h>
#include <sys/resource.h>

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
            const long before = switches();
            ::sched_yield();
            note(switches() != before);
        }
    }
    /// A look found something.
    void found() noexcept { empty_ = 0; }

    /// Whether somebody took it.
    void note(bool taken) noexcept { interval_ = taken ? least : std::min(2 * interval_, most); }
    /// So many looks have to find nothing.
    [[nodiscard]] unsigned interval() const noexcept { return interval_; }

    static constexpr unsigned least = 300; ///< some microseconds
    static constexpr unsigned most = 64 * least;

private:
    /// How often this thread's CPU has been another's.
    [[nodiscard]] static long switches() noexcept {
        rusage usage{};
        (void)::getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nvcsw + usage.ru_nivcsw;
    }

    unsigned empty_ = 0;
    unsigned interval_ = least;
};

} // namespace comch::perftest
