// The server's side of a measurement.
#pragma once

#include "perftest/options.hpp"

namespace comch::perftest {

/// Serves a client, or one after another; the program's exit status.
[[nodiscard]] int run_server(const Options& options);

} // namespace comch::perftest
