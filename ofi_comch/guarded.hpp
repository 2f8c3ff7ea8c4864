// Entries of operation tables that may find no memory.
#pragma once

#include "core/base/guarded.hpp"
#include "libfabric.hpp"

namespace comch::ofi {

template <auto Call> inline constexpr auto guarded = Guarded<Call, -FI_ENOMEM>::call;

} // namespace comch::ofi
