// Operations of UCX's tables that may find no memory. (Those of active messages allocate nothing.)
#pragma once

#include "core/base/guarded.hpp"
#include "ucx_compat.hpp"

namespace comch::uct {

template <auto Call> inline constexpr auto guarded = Guarded<Call, UCS_ERR_NO_MEMORY>::call;

} // namespace comch::uct
