#pragma once

#include <cstdint>
#include <ctime>

namespace comch {

/// The same in all processes of a machine; for stamps, deadlines and intervals.
[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
           static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace comch
