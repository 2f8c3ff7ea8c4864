// Threads on CPUs.
#pragma once

#include <cstdint>
#include <vector>

#include <comch/error.hpp>

namespace comch::perftest {

/// Puts the calling thread on a CPU.
[[nodiscard]] Result<void> pin_to(std::uint32_t cpu);

/// The same for programs that end at the first error, with its text in a runtime_error. Negative:
/// stays where it is.
void pin_or_throw(int cpu);

/// Whether this process may run on all of them.
[[nodiscard]] Result<void> check_cpus(const std::vector<std::uint32_t>& cpus);

/// The calling thread on one of `cpus` (by number, in turn) while this lives; anywhere if there are
/// none.
class ScopedPin {
public:
    [[nodiscard]] Result<void> pin(const std::vector<std::uint32_t>& cpus, std::uint32_t number);
    ScopedPin() = default;
    ~ScopedPin();
    ScopedPin(const ScopedPin&) = delete;
    ScopedPin& operator=(const ScopedPin&) = delete;

private:
    std::vector<std::uint32_t> before_;
};

} // namespace comch::perftest
