// Measuring the fast path: a worker for each thread, and the session's own thread, which sleeps
// meanwhile, to tell them when.
#pragma once

#include <cstdint>
#include <vector>

#include "perftest/progress_line.hpp"
#include "perftest/result.hpp"
#include "perftest/session.hpp"

namespace comch::perftest {

/// The client's part of a round, from Round to Outcome.
[[nodiscard]] Result<RoundResult> run_fast_client(Session& session, const Plan& plan,
                                                  const Load& load,
                                                  const std::vector<std::uint32_t>& cpus,
                                                  const Amount& warm_up, const Amount& goal,
                                                  ProgressLine& progress);

/// The server's, after Round; the number of messages that arrived.
[[nodiscard]] Result<std::uint64_t> run_fast_server(Session& session, const Plan& plan,
                                                    const protocol::Round& round,
                                                    const std::vector<std::uint32_t>& cpus);

} // namespace comch::perftest
