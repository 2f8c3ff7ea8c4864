// The client's side of a measurement.
#pragma once

#include "perftest/options.hpp"

namespace comch::perftest {

/// Connects, measures and prints; the program's exit status.
[[nodiscard]] int run_client(const Options& options);

} // namespace comch::perftest
