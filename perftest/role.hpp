// The device of a client or server: its role says on which side it has to be.
#pragma once

#include <memory>

#include <comch/device.hpp>

#include "perftest/options.hpp"

namespace comch::perftest {

/// The device that options and environment name, on this side. COMCH_SIDE need not be set, but must
/// not say the other side, unless the user asked for both.
[[nodiscard]] Result<Device> open_device_of(const std::shared_ptr<Domain>& domain, Side side,
                                            const Options& options);

} // namespace comch::perftest
