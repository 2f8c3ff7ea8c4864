// What this link needs of a device, held against what the device says that it can do.
#pragma once

#include <string_view>

#include <infiniband/verbs.h>

#include "core/link/verbs/rdma_device.hpp"

namespace comch::link::verbs {

/// What of the device's abilities is used; an error that names the first that is not enough.
[[nodiscard]] Result<RdmaDevice::Limits> judge_device(std::string_view name,
                                                      ibv_transport_type transport,
                                                      const ibv_device_attr& device,
                                                      const ibv_port_attr& port);

/// Bytes of data per second that a port of this speed and width carries, coding taken off.
[[nodiscard]] double port_bandwidth(const ibv_port_attr& port);

} // namespace comch::link::verbs
