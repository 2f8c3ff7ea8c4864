// Errors of calls that pin memory.
#pragma once

#include <string>

#include <comch/error.hpp>

namespace comch::link::verbs {

/// As fail_errno(), for what an RDMA device needs pinned memory for; where the limit of it is the
/// likely cause, says so and what to set.
[[nodiscard]] tl::unexpected<Error> fail_pinning(std::string what, int error_number);

} // namespace comch::link::verbs
