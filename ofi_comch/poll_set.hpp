// Poll sets: which of some queues and counters have something.
#pragma once

#include "libfabric.hpp"
#include "over_link.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

[[nodiscard]] int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** set);

} // namespace comch::ofi::inline COMCH_OFI_LINK
