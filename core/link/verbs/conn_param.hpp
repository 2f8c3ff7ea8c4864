// What rdma_cm is told when a queue pair is connected, or is not to be.
#pragma once

#include <algorithm>

#include <rdma/rdma_cma.h>

#include "core/link/verbs/cm.hpp"
#include "core/link/verbs/rdma_device.hpp"
#include "core/link/verbs/tuning.hpp"
#include "core/link/verbs/wire.hpp"

namespace comch::link::verbs {

[[nodiscard]] inline rdma_conn_param conn_param(const RdmaDevice::Limits& limits, const void* data,
                                                std::size_t length) {
    rdma_conn_param param{};
    param.private_data = data;
    param.private_data_len = static_cast<std::uint8_t>(length);
    param.responder_resources = limits.reads;
    param.initiator_depth = limits.reads;
    param.flow_control = 1;
    param.retry_count = tuning::retries;
    param.rnr_retry_count = 7; // for ever; credit keeps it from happening
    return param;
}

/// Never more reads under way than the other end asked for.
[[nodiscard]] inline rdma_conn_param accept_param(const RdmaDevice::Limits& limits,
                                                  const CmEvent& request, const void* data,
                                                  std::size_t length) {
    rdma_conn_param param = conn_param(limits, data, length);
    param.responder_resources = std::min(limits.reads, request.responder_resources);
    param.initiator_depth = std::min(limits.reads, request.initiator_depth);
    return param;
}

inline void refuse(rdma_cm_id* id, wire::Why why) noexcept {
    const wire::Refusal refusal{.magic = wire::magic,
                                .version = wire::version,
                                .size = sizeof(wire::Refusal),
                                .why = static_cast<std::uint8_t>(why)};
    (void)::rdma_reject(id, &refusal, sizeof(refusal));
}

/// Where the kernel is too old for it, the device's default has to do.
inline void set_ack_timeout(rdma_cm_id* id) {
    std::uint8_t timeout = tuning::ack_timeout;
    (void)::rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                            sizeof(timeout));
}

} // namespace comch::link::verbs
