// A reading as JSON.
#pragma once

#include <string>
#include <vector>

#include <comch/device.hpp>

#include "core/tools/stat/summary.hpp"

namespace comch::stat {

/// `gains`, if there is an earlier reading, adds the rates. `indent` < 0: on one line.
[[nodiscard]] std::string to_json(const Domain& domain, const std::vector<ProcessSample>& processes,
                                  const Gains* gains, int indent);

} // namespace comch::stat
