// Measuring control messages: they travel on the session's own connection and thread.
#pragma once

#include "perftest/progress_line.hpp"
#include "perftest/result.hpp"
#include "perftest/session.hpp"

namespace comch::perftest {

/// The client's part of a round, from Round to Outcome.
[[nodiscard]] Result<RoundResult> run_control_client(Session& session, const Plan& plan,
                                                     const Load& load, const Amount& warm_up,
                                                     const Amount& goal, ProgressLine& progress);

/// The server's, from Ready to Outcome; the number of messages that arrived.
[[nodiscard]] Result<std::uint64_t> run_control_server(Session& session, const Plan& plan,
                                                       const Load& load);

} // namespace comch::perftest
