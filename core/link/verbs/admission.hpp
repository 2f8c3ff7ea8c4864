// Who may connect: what an initiator claims, held against its address and the domain's description.
#pragma once

#include <string_view>

#include <comch/device.hpp>

#include "core/link/verbs/wire.hpp"

namespace comch::link::verbs {

/// The function of a side with this id, or null.
[[nodiscard]] const Function* function_of(const DomainDescription& description, Side side,
                                          FunctionId id);

/// Why::none: the request is of this domain, and comes from the address of the function that it claims.
[[nodiscard]] wire::Why check_claim(const Domain& domain, const wire::Request& request,
                                    std::string_view address);

} // namespace comch::link::verbs
