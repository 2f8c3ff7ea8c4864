// The interface: a port of the core. It owns the receiving half of all traffic to this address, and
// the endpoints that send from here.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/link/soft/port.hpp"
#include "core/link/verbs/port.hpp"
#include "md.hpp"
#include "ucx_compat.hpp"

namespace comch::uct {

/// The links that the transport runs over. Which one an interface has is decided when it is opened:
/// its operation table is made of functions that know their link.
using SoftLink = link::soft::Link;
using VerbsLink = link::verbs::Link;

/// UCP puts and gets so much of a long message by itself that the rest begins aligned. On the soft link that
/// would be a second operation, and wait for the owner's CPU where the first does not.
template <class Link> inline constexpr std::size_t zcopy_align = Link::has_devices ? 64 : 1;

/// Of what is behind UCT, UCP alone asks for room in front of what is received, and its messages of one fragment
/// have a header of so many bytes.
inline constexpr std::uint32_t ucp_header = 8;

/// The least that the setting may be: what is shorter need not ask for it.
inline constexpr unsigned least_max_short = 64;
/// Longest header of an am_zcopy, in bytes.
inline constexpr unsigned max_am_header = 1024;

struct IfaceConfig {
    uct_iface_config_t super;
    int host_dpu_only;
    unsigned max_short;
    double bandwidth; ///< bytes per second; 0 or UCS_CONFIG_BW_AUTO: the link's
    double latency;   ///< seconds; 0: the link's
};
extern ucs_config_field_t iface_config_table[];

/// What is_reachable() needs to know of a peer's device: UCX takes another transport where this one
/// would be refused.
struct DeviceAddress {
    static constexpr std::uint8_t host_dpu_only = 1; ///< in `flags`

    std::uint8_t domain[16];
    std::uint8_t side;
    std::uint8_t flags;
    std::uint16_t version; ///< of what is spoken over the link
    std::uint32_t function;
};
static_assert(sizeof(DeviceAddress) == 24);

template <class Link> struct Ep;

/// A get_bcopy that waits for its data.
struct GetBcopy {
    uct_unpack_callback_t unpack = nullptr;
    void* arg = nullptr;
    std::size_t length = 0;
    uct_completion_t* completion = nullptr;
    ucs_status_t status = UCS_OK; ///< of a get_short's, once it is there
    std::unique_ptr<std::byte[]> buffer;
};

/// So many buffers stay for the next gets, however many there were in flight at once.
inline constexpr std::size_t most_kept_gets = 256;

/// A uct_iface_h of ours points here.
template <class Link> struct Iface {
    uct_base_iface_t super;
    std::unique_ptr<typename Link::Port> port;
    std::vector<Ep<Link>*> pending; ///< endpoints with requests in their queue
    std::vector<Ep<Link>*> eps;
    std::vector<Ep<Link>*> to_tell; ///< whose orderly end somebody has asked for since
    std::vector<std::unique_ptr<GetBcopy>> get_pool;
    std::uint64_t rounds = 0; ///< of progress
    std::uint32_t idle_rounds = 0;
    /// Who polls in vain may yield: no other thread waits for UCP's lock, which is held here, meanwhile.
    bool may_yield = false;
    std::unique_ptr<std::byte[]> scratch; ///< put_bcopy packs here
    std::size_t max_short = 0;
    std::uint32_t am_data_at = 0; ///< what is in front of it in messages that callbacks pack
    link::Speed speed{};
    bool host_dpu_only = false;
    std::vector<std::uint64_t> told_of; ///< process ids of dead peers that were logged

    /// Without memory to remember it, it is logged once more.
    void note_told_of(std::uint64_t process) noexcept {
        try {
            told_of.push_back(process);
        } catch (const std::bad_alloc&) {
        }
    }
    [[nodiscard]] bool has_told_of(std::uint64_t process) const {
        return std::find(told_of.begin(), told_of.end(), process) != told_of.end();
    }
    [[nodiscard]] static Iface* of(uct_iface_h iface) { return reinterpret_cast<Iface*>(iface); }
    [[nodiscard]] Md* md() const { return reinterpret_cast<Md*>(super.md); }
    [[nodiscard]] std::unique_ptr<GetBcopy> take_get() {
        if (!get_pool.empty()) {
            auto get = std::move(get_pool.back());
            get_pool.pop_back();
            return get;
        }
        auto get = std::make_unique<GetBcopy>();
        // Not zeroed: a short get shall not make the pages of a long one resident.
        get->buffer = std::make_unique_for_overwrite<std::byte[]>(Link::max_message);
        return get;
    }
    void give_back(std::unique_ptr<GetBcopy> get) {
        if (get_pool.size() < most_kept_gets) {
            get_pool.push_back(std::move(get));
        }
    }
};

[[nodiscard]] ucs_status_t open_iface(uct_md_h md, uct_worker_h worker,
                                      const uct_iface_params_t* params,
                                      const uct_iface_config_t* config, uct_iface_h* iface);

[[nodiscard]] ucs_status_t query_devices(uct_md_h md, uct_tl_device_resource_t** devices,
                                         unsigned* count);

} // namespace comch::uct
