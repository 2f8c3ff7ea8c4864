// Poll sets: which of some queues and counters have something.
#pragma once

#include "libfabric.hpp"

namespace comch::ofi {

[[nodiscard]] int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** set);

} // namespace comch::ofi
