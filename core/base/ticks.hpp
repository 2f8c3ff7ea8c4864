// The CPU's own counter: what it counts is unknown, but it costs a few cycles to read, where a clock
// costs tens of nanoseconds (and more in a virtual machine).
#pragma once

#include <chrono>
#include <cstdint>

namespace comch {

/// Grows at a steady rate on one CPU; between CPUs, and after a sleep of the machine, it may jump
/// either way. For deciding when to look at a clock, and nothing else.
[[nodiscard]] inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t value = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

} // namespace comch
