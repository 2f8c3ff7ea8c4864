#include "core/link/verbs/device_limits.hpp"

#include <algorithm>

#include <infiniband/verbs.h>

namespace comch::link::verbs {

std::optional<DeviceLimits> query_limits(const std::string& name) {
    std::optional<DeviceLimits> limits;
    int count = 0;
    ibv_device** const list = ::ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
        if (name != ::ibv_get_device_name(list[i])) {
            continue;
        }
        ibv_context* const context = ::ibv_open_device(list[i]);
        if (context == nullptr) {
            break;
        }
        ibv_device_attr attr{};
        ibv_port_attr port{};
        if (::ibv_query_device(context, &attr) == 0 && ::ibv_query_port(context, 1, &port) == 0) {
            limits = DeviceLimits{
                .queue_depth = static_cast<std::uint32_t>(attr.max_qp_wr),
                .shared_depth = static_cast<std::uint32_t>(attr.max_srq_wr),
                .completions = static_cast<std::uint32_t>(attr.max_cqe),
                .max_message = port.max_msg_sz,
                .reads = static_cast<std::uint32_t>(
                    std::min(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom)),
                .atomics = attr.atomic_cap != IBV_ATOMIC_NONE,
            };
        }
        (void)::ibv_close_device(context);
        break;
    }
    if (list != nullptr) {
        ::ibv_free_device_list(list);
    }
    return limits;
}

} // namespace comch::link::verbs
