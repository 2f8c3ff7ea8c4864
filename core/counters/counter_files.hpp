// Reading the counter files of a domain, of this or of other processes.
#pragma once

#include <vector>

#include <comch/device.hpp>

#include "core/counters/samples.hpp"

namespace comch::counters {

/// Every live process of the domain that can be read now. Files that are not what they should be
/// (being made, being removed, of another version) are left out.
[[nodiscard]] Result<std::vector<ProcessSample>> read_counter_files(const Domain& domain);

} // namespace comch::counters
