#include "core/link/verbs/device_needs.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>

#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs {

Result<RdmaDevice::Limits> judge_device(std::string_view name, ibv_transport_type transport,
                                        const ibv_device_attr& device, const ibv_port_attr& port) {
    if (transport != IBV_TRANSPORT_IB) { // which RoCE is, too
        return fail(Errc::unsupported,
                    fmt::format("the RDMA device {} is neither InfiniBand nor RoCE: its messages "
                                "carry no immediate data, and comch needs that",
                                name));
    }
    constexpr std::int64_t buffers = tuning::receive_buffers;
    const int reads = std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
    struct Need {
        const char* what;
        std::int64_t has;
        std::int64_t needs;
    };
    // For a port with one connection. More of them need more, and are told when it runs out.
    const std::array needs{
        Need{"queue pairs", device.max_qp, 1},
        Need{"work requests on a queue pair", device.max_qp_wr, tuning::send_queue},
        Need{"pieces of memory in a work request", device.max_sge, 1},
        Need{"shared receive queues", device.max_srq, 1},
        Need{"buffers in a shared receive queue", device.max_srq_wr, buffers},
        Need{"pieces of memory in a buffer of a shared receive queue", device.max_srq_sge, 1},
        Need{"completion queues", device.max_cq, 1},
        Need{"entries in a completion queue", device.max_cqe, buffers + tuning::send_queue},
        Need{"registrations of memory", device.max_mr, 3},
        Need{"protection domains", device.max_pd, 1},
        Need{"bytes in a message", std::int64_t{port.max_msg_sz}, tuning::slot_size},
        Need{"RDMA reads under way", reads, 1},
    };
    for (const Need& need : needs) {
        if (need.has < need.needs) {
            return fail(Errc::unsupported,
                        fmt::format("the RDMA device {} allows {} {}, and comch needs {}", name,
                                    need.has, need.what, need.needs));
        }
    }
    return RdmaDevice::Limits{
        .queue_depth = static_cast<std::uint32_t>(device.max_qp_wr),
        .shared_depth = static_cast<std::uint32_t>(device.max_srq_wr),
        .shared_resize = (device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0,
        .completions = static_cast<std::uint32_t>(device.max_cqe),
        .rdma_length = std::min(port.max_msg_sz, tuning::rdma_chunk),
        .bandwidth = port_bandwidth(port),
        .reads = static_cast<std::uint8_t>(std::min(reads, int{tuning::reads_in_flight})),
        .windows = (device.device_cap_flags &
                    (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0,
    };
}

double port_bandwidth(const ibv_port_attr& port) {
    // The codes of InfiniBand's speeds and widths, which Ethernet devices use too.
    struct Lane {
        unsigned code;
        double gigabits; // on the wire
        double data;     // of them: 8 of 10 bits, later 64 of 66
    };
    constexpr std::array lanes{
        Lane{1, 2.5, 0.8},
        Lane{2, 5, 0.8},
        Lane{4, 10, 0.8},
        Lane{8, 10.3125, 64.0 / 66},
        Lane{16, 14.0625, 64.0 / 66},
        Lane{32, 25.78125, 64.0 / 66},
        Lane{64, 53.125, 64.0 / 66},
        Lane{128, 106.25, 64.0 / 66},
    };
    struct Width {
        unsigned code;
        unsigned lanes;
    };
    constexpr std::array widths{Width{1, 1}, Width{2, 4}, Width{4, 8}, Width{8, 12}, Width{16, 2}};
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](const Lane& l) { return l.code == port.active_speed; });
    const auto width = std::find_if(widths.begin(), widths.end(),
                                    [&](const Width& w) { return w.code == port.active_width; });
    // A faster one than is known here is at least as fast as the fastest that is.
    const Lane& speed = lane != lanes.end() ? *lane : lanes.back();
    return speed.gigabits * speed.data * 1e9 / 8 * (width != widths.end() ? width->lanes : 1);
}

} // namespace comch::link::verbs
