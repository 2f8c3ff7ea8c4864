#include "perftest/clock.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace comch::perftest {

bool Clock::use_counter_ = false;
double Clock::ns_per_tick_ = 1;

void Clock::calibrate() {
#if defined(__x86_64__)
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    constexpr unsigned invariant_tsc = 1u << 8;
    if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0 || (edx & invariant_tsc) == 0) {
        return;
    }
    // A pair of readings is as good as the time between the two of system's clock around it; the
    // tightest of several is not disturbed by an interrupt.
    struct Pair {
        std::uint64_t system = 0;
        std::uint64_t counter = 0;
    };
    const auto read = [] {
        Pair best;
        std::uint64_t least = ~std::uint64_t{0};
        for (int i = 0; i < 20; ++i) {
            const std::uint64_t before = steady();
            const std::uint64_t counter = __rdtsc();
            const std::uint64_t after = steady();
            if (after - before < least) {
                least = after - before;
                best = {before + (after - before) / 2, counter};
            }
        }
        return best;
    };
    const Pair first = read();
    while (steady() - first.system < 20'000'000) {
    }
    const Pair last = read();
    if (last.counter <= first.counter) {
        return; // not a clock
    }
    ns_per_tick_ = static_cast<double>(last.system - first.system) /
                   static_cast<double>(last.counter - first.counter);
    use_counter_ = true;
#endif
}

} // namespace comch::perftest
