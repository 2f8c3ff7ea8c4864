// How often something is to be done so that it takes long enough to be measured.
#pragma once

#include <algorithm>
#include <cstdint>

namespace comch::perftest {

struct Timed {
    std::uint64_t count = 0;
    double seconds = 0;
};

/// Grows the count until `run`, which does it so often and answers with the seconds, takes so long.
/// The first run is not counted, however long it takes: pages are touched in it, and memory is
/// registered.
template <class Run> [[nodiscard]] Timed run_long_enough(double seconds, Run run) {
    std::uint64_t count = 2;
    (void)run(count);
    for (;;) {
        const double took = run(count);
        if (took >= seconds) {
            return {.count = count, .seconds = took};
        }
        const double wanted = seconds * 1.1 / std::max(took, 1e-6);
        count = static_cast<std::uint64_t>(static_cast<double>(count) * std::min(wanted, 20.0)) + 1;
    }
}

} // namespace comch::perftest
