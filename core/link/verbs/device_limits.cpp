#include "core/link/verbs/device_limits.hpp"

#include <algorithm>

#include <infiniband/verbs.h>

#include "core/link/verbs/device_needs.hpp"

namespace comch::link::verbs {

std::optional<DeviceLimits> query_limits(const std::string& name, std::uint32_t port) {
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
        ibv_port_attr port_attr{};
        if (::ibv_query_device(context, &attr) == 0 &&
            ::ibv_query_port(context, static_cast<std::uint8_t>(port), &port_attr) == 0) {
            const auto judged = judge_device(name, list[i]->transport_type, attr, port_attr);
            limits = DeviceLimits{
                .queue_depth = static_cast<std::uint32_t>(attr.max_qp_wr),
                .pieces = static_cast<std::uint32_t>(attr.max_sge),
                .shared_depth = static_cast<std::uint32_t>(attr.max_srq_wr),
                .completions = static_cast<std::uint32_t>(attr.max_cqe),
                .max_message = port_attr.max_msg_sz,
                .reads = static_cast<std::uint32_t>(
                    std::min(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom)),
                .atomics = attr.atomic_cap != IBV_ATOMIC_NONE,
                .unusable = judged ? std::string() : judged.error().message,
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
