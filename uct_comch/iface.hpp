// The interface: a port of the core. It owns the receiving half of all traffic to this address, and
// the endpoints that send from here.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/link/soft/port.hpp"
#include "md.hpp"
#include "ucx_compat.hpp"

namespace comch::uct {

using Link = link::soft::Link;
using Port = Link::Port;
using Connection = Link::Connection;

struct IfaceConfig {
    uct_iface_config_t super;
    int host_dpu_only;
    unsigned max_short;
    double bandwidth; ///< bytes per second
    double latency;   ///< seconds
};
extern ucs_config_field_t iface_config_table[];

/// What is_reachable() needs to know of a peer's device.
struct DeviceAddress {
    std::uint8_t domain[16];
    std::uint8_t side;
    std::uint8_t reserved[3];
    std::uint32_t function;
};
static_assert(sizeof(DeviceAddress) == 24);

struct Ep;

/// A get_bcopy that waits for its data.
struct GetBcopy {
    uct_unpack_callback_t unpack = nullptr;
    void* arg = nullptr;
    std::size_t length = 0;
    uct_completion_t* completion = nullptr;
    std::unique_ptr<std::byte[]> buffer;
};

/// A uct_iface_h of ours points here.
struct Iface {
    uct_base_iface_t super;
    std::unique_ptr<Port> port;
    std::vector<Ep*> pending; ///< endpoints with requests in their queue
    std::vector<Ep*> eps;
    std::vector<std::unique_ptr<GetBcopy>> get_pool;
    std::unique_ptr<std::byte[]> scratch; ///< put_bcopy packs here
    std::size_t max_short = 0;
    double bandwidth = 0;
    double latency = 0;
    bool host_dpu_only = false;
    std::vector<std::uint64_t> told_of; ///< process ids of dead peers that were logged

    [[nodiscard]] bool has_told_of(std::uint64_t process) const {
        return std::find(told_of.begin(), told_of.end(), process) != told_of.end();
    }
    [[nodiscard]] static Iface* of(uct_iface_h iface) { return reinterpret_cast<Iface*>(iface); }
    [[nodiscard]] Md* md() const { return reinterpret_cast<Md*>(super.md); }
    [[nodiscard]] std::unique_ptr<GetBcopy> take_get();
};

inline constexpr std::size_t max_rma_bcopy = link::soft::tuning::max_message;

[[nodiscard]] ucs_status_t open_iface(uct_md_h md, uct_worker_h worker,
                                      const uct_iface_params_t* params,
                                      const uct_iface_config_t* config, uct_iface_h* iface);

[[nodiscard]] ucs_status_t query_devices(uct_md_h md, uct_tl_device_resource_t** devices,
                                         unsigned* count);

} // namespace comch::uct
