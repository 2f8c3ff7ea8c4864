#include "iface.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "core/base/idle_rounds.hpp"
#include "ep.hpp"
#include "guarded.hpp"
#include "status.hpp"

namespace comch::uct {

ucs_config_field_t iface_config_table[] = {
    // Errors of a peer are shown by default: with UCP's own default error mode they would only be
    // logged at a level that nobody reads.
    {"", "ALLOC=md,mmap,heap;FAILURE=error", nullptr, ucs_offsetof(IfaceConfig, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"HOST_DPU_ONLY", "n",
     "Reach only peers of the other side. By default processes of the same side reach each other "
     "through their device as well, so that a job of any shape runs.",
     ucs_offsetof(IfaceConfig, host_dpu_only), UCS_CONFIG_TYPE_BOOL},

    {"SHORT_MAX", "2048",
     "Longest active message, header included, that is sent as a short one (copied straight into "
     "the ring).",
     ucs_offsetof(IfaceConfig, max_short), UCS_CONFIG_TYPE_UINT},

    {"BW", "0MBs",
     "Bandwidth reported to the upper layer. 0 or auto: that of the soft device, or of the RDMA "
     "device's port.",
     ucs_offsetof(IfaceConfig, bandwidth), UCS_CONFIG_TYPE_BW},

    {"LAT", "0ns",
     "Latency reported to the upper layer. 0: what the soft device, or an RDMA device, usually "
     "has.",
     ucs_offsetof(IfaceConfig, latency), UCS_CONFIG_TYPE_TIME},

    {nullptr, nullptr, nullptr, 0, {}}};

namespace {

using link::ConnectDecision;
using link::ConnectRequest;
using link::Reason;

/// What the port calls while this interface progresses.
template <class Link> struct Sink {
    using Connection = typename Link::Connection;

    Iface<Link>& iface;

    ConnectDecision on_connect_request(Connection&, const ConnectRequest& request) {
        if (iface.host_dpu_only && request.peer.side == iface.md()->device.side()) {
            return {Errc::not_permitted, nullptr, {}};
        }
        return {};
    }
    void on_connected(Connection&, std::span<const std::byte>) {}
    void on_message(Connection&, std::uint8_t id, const std::byte* data, std::uint32_t length) {
        if (id >= UCT_AM_ID_MAX) [[unlikely]] {
            ucs_error("comch: a peer sent an active message with id %u, the largest is %u", id,
                      static_cast<unsigned>(UCT_AM_ID_MAX - 1));
            return;
        }
        // The data lies in the ring: the callback copies what it keeps.
        (void)uct_iface_invoke_am(&iface.super, id, const_cast<std::byte*>(data), length, 0);
    }
    void on_complete(Connection& connection, void* token, Errc status) {
        auto& ep = *static_cast<Ep<Link>*>(connection.user());
        ep.wanted = ep.wanted || status == Errc::not_connected;
        complete(ep, token, to_ucs(status));
    }
    void on_disconnected(Connection& connection, Reason reason, std::span<const std::byte>);
    void on_channel(Connection&, std::uint64_t, typename Link::Channel&&) {}
};

ucs_status_t status_of(Reason reason) {
    switch (reason) {
    case Reason::closed:
    case Reason::peer_died:
        return peer_gone;
    case Reason::protocol_error:
        return UCS_ERR_IO_ERROR;
    case Reason::rejected:
        return UCS_ERR_REJECTED;
    case Reason::not_found:
    case Reason::version_mismatch:
        return UCS_ERR_UNREACHABLE;
    case Reason::device_error:
        return UCS_ERR_IO_ERROR;
    }
    return UCS_ERR_IO_ERROR;
}

/// Calls the endpoint's error handler, which may destroy it. Answers how loudly it is to be said: who
/// has only asked for a peer that has gone in an orderly way has lost nothing, and nothing that went
/// in an orderly way is worth the process, if it has no handler.
template <class Link> ucs_log_level_t tell(Iface<Link>& iface, Ep<Link>& ep, bool calm) {
    const ucs_status_t failure = ep.failure;
    const bool wanted = ep.wanted;
    ep.untold_loss = false;
    const ucs_status_t handled =
        uct_iface_handle_ep_err(&iface.super.super, &ep.super.super, failure);
    if (calm) {
        return handled == UCS_OK && !wanted ? UCS_LOG_LEVEL_DEBUG
                                            : iface.super.config.failure_level;
    }
    return uct_base_iface_failure_log_level(&iface.super, handled, failure);
}

template <class Link>
void Sink<Link>::on_disconnected(Connection& connection, Reason reason,
                                 std::span<const std::byte>) {
    auto* const ep = static_cast<Ep<Link>*>(connection.user());
    const ucs_status_t status = status_of(reason);
    const std::string& detail = connection.error_text();
    const link::PeerInfo& peer = connection.peer();
    const auto say = [&](ucs_log_level_t level) {
        try {
            const std::string who = peer.process_id == 0
                                        ? "connection to a process that has not answered yet"
                                        : fmt::format("connection with process {} on the {} side",
                                                      peer.pid, to_string(peer.side));
            const std::string_view why = link::to_string(reason);
            ucs_log(level, "comch: %s ended: %.*s%s%s", who.c_str(), static_cast<int>(why.size()),
                    why.data(), detail.empty() ? "" : "; ", detail.c_str());
        } catch (const std::bad_alloc&) {
            ucs_log(level, "comch: a connection ended");
        }
    };
    // One error for a peer that died, however many connections there were with it.
    const bool told = iface.has_told_of(peer.process_id);
    if (ep == nullptr) {
        // If we send to that peer as well, that endpoint will tell.
        const bool will_tell =
            std::any_of(iface.eps.begin(), iface.eps.end(), [&](const Ep<Link>* other) {
                return other->connection != nullptr &&
                       other->connection->peer().process_id == peer.process_id;
            });
        if (reason != Reason::closed && !told && !will_tell) {
            iface.note_told_of(peer.process_id);
            say(iface.super.config.failure_level);
        }
        iface.port->close(&connection);
        return;
    }
    const bool orderly = reason == Reason::closed;
    const bool calm = orderly && ucs_queue_is_empty(&ep->queue);
    // (What was put and is lost is for a flush to say, if somebody wants to know.)
    ep->untold_loss = calm && connection.lost_writes();
    ep->all_done = calm && !ep->untold_loss;
    fail_ep(*ep, status);
    iface.port->close(&connection);
    if (calm && !ep->wanted && !ep->watched) {
        ep->untold_end = true;
        return; // an orderly end is no error as long as nobody wants anything
    }
    // (Who has only closed this connection may die yet.)
    if (!orderly && peer.process_id != 0 && !told) {
        iface.note_told_of(peer.process_id);
    }
    const ucs_log_level_t level = tell(iface, *ep, calm);
    say(told && level > UCS_LOG_LEVEL_FATAL ? UCS_LOG_LEVEL_DEBUG : level);
}

/// Those who keep a peer alive wait for something of it: its orderly end is an error to them.
template <class Link> unsigned tell_of_ends(Iface<Link>& iface) {
    unsigned count = 0;
    for (; !iface.to_tell.empty(); ++count) { // a handler may destroy endpoints
        Ep<Link>& ep = *iface.to_tell.back();
        iface.to_tell.pop_back();
        const ucs_log_level_t level = tell(iface, ep, true); // (The macro would call it twice.)
        ucs_log(level, "comch: a peer that is waited for has closed the connection");
    }
    return count;
}

template <class Link> unsigned progress(uct_iface_h tl_iface) try {
    Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    ++iface.rounds;
    Sink<Link> sink{iface};
    unsigned count = iface.port->progress(sink);
    if (!iface.pending.empty()) [[unlikely]] {
        count += dispatch_pending(iface);
    }
    if (!iface.to_tell.empty()) [[unlikely]] {
        count += tell_of_ends(iface);
    }
    if (is_time_to_yield(iface.idle_rounds, count) && iface.may_yield) [[unlikely]] {
        std::this_thread::yield();
    }
    return count;
} catch (const std::bad_alloc&) {
    return 0; // the next call goes on
}

template <class Link> ucs_status_t query(uct_iface_h tl_iface, uct_iface_attr_t* attr) {
    Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    uct_base_iface_query(&iface.super, attr);
    constexpr std::size_t line = 64;
    const std::size_t max_message = iface.port->limits().max_message;

    attr->cap.am.max_short = iface.max_short;
    attr->cap.am.max_bcopy = max_message;
    attr->cap.am.min_zcopy = 0;
    attr->cap.am.max_zcopy = max_message;
    attr->cap.am.opt_zcopy_align = line;
    attr->cap.am.align_mtu = line;
    attr->cap.am.max_hdr = max_am_header;
    attr->cap.am.max_iov = 16; // UCP keeps its vectors on the stack: 29 is the most it takes

    attr->cap.put.max_short = Link::max_message;
    attr->cap.put.max_bcopy = Link::max_message;
    attr->cap.put.min_zcopy = 0;
    attr->cap.put.max_zcopy = SIZE_MAX;
    attr->cap.put.opt_zcopy_align = zcopy_align<Link>;
    attr->cap.put.align_mtu = zcopy_align<Link>;
    attr->cap.put.max_iov = 1;

    attr->cap.get.max_short = Link::max_message;
    attr->cap.get.max_bcopy = Link::max_message;
    attr->cap.get.min_zcopy = 0;
    attr->cap.get.max_zcopy = SIZE_MAX;
    attr->cap.get.opt_zcopy_align = zcopy_align<Link>;
    attr->cap.get.align_mtu = zcopy_align<Link>;
    attr->cap.get.max_iov = 1;

    attr->device_addr_len = sizeof(DeviceAddress);
    attr->iface_addr_len = sizeof(link::PortAddress);
    attr->ep_addr_len = 0;
    attr->max_conn_priv = 0;
    attr->cap.flags = UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                      UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                      UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_SHORT |
                      UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                      UCT_IFACE_FLAG_ATOMIC_CPU | UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_CB_SYNC |
                      UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                      UCT_IFACE_FLAG_EP_CHECK | UCT_IFACE_FLAG_EP_KEEPALIVE;
    attr->cap.event_flags =
        UCT_IFACE_FLAG_EVENT_SEND_COMP | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_FD;

    constexpr std::uint64_t posted = UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_AND) |
                                     UCS_BIT(UCT_ATOMIC_OP_OR) | UCS_BIT(UCT_ATOMIC_OP_XOR);
    constexpr std::uint64_t fetching =
        posted | UCS_BIT(UCT_ATOMIC_OP_SWAP) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    attr->cap.atomic32.op_flags = attr->cap.atomic64.op_flags = posted;
    attr->cap.atomic32.fop_flags = attr->cap.atomic64.fop_flags = fetching;

    attr->latency = ucs_linear_func_make(iface.speed.latency, 0);
    attr->bandwidth.dedicated = iface.speed.bandwidth;
    attr->bandwidth.shared = 0;
    attr->overhead = iface.speed.overhead;
    attr->priority = 0;
    return UCS_OK;
}

template <class Link>
ucs_status_t get_device_address(uct_iface_h tl_iface, uct_device_addr_t* out) {
    const Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    const Device& device = iface.md()->device;
    DeviceAddress address{};
    address.version = Link::version;
    address.flags = iface.host_dpu_only ? DeviceAddress::host_dpu_only : 0;
    std::memcpy(address.domain, device.domain()->id().bytes.data(), sizeof(address.domain));
    address.side = static_cast<std::uint8_t>(device.side());
    address.function = device.function().id;
    std::memcpy(out, &address, sizeof(address));
    return UCS_OK;
}

template <class Link> ucs_status_t get_address(uct_iface_h tl_iface, uct_iface_addr_t* out) {
    const link::PortAddress address = Iface<Link>::of(tl_iface)->port->address();
    std::memcpy(out, address.bytes.data(), address.bytes.size());
    return UCS_OK;
}

template <class Link>
int is_reachable(const uct_iface_h tl_iface, const uct_device_addr_t* device_address,
                 const uct_iface_addr_t*) {
    const Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    const Device& device = iface.md()->device;
    DeviceAddress address;
    std::memcpy(&address, device_address, sizeof(address));
    if (std::memcmp(address.domain, device.domain()->id().bytes.data(), sizeof(address.domain)) !=
        0) {
        return 0;
    }
    if (address.version != Link::version) {
        ucs_diag("comch: the peer speaks version %u of the protocol, this process %u: UCX takes "
                 "another transport, if it may; run the same comch on both ends",
                 address.version, Link::version);
        return 0;
    }
    const bool other_side_only =
        iface.host_dpu_only || (address.flags & DeviceAddress::host_dpu_only) != 0;
    return !other_side_only || address.side != static_cast<std::uint8_t>(device.side());
}

template <class Link>
ucs_status_t flush(uct_iface_h tl_iface, unsigned flags, uct_completion_t* completion) {
    if (completion != nullptr) {
        return UCS_ERR_UNSUPPORTED;
    }
    Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    for (Ep<Link>* ep : iface.eps) {
        const ucs_status_t status = iface.super.super.ops.ep_flush(
            &ep->super.super, flags & ~static_cast<unsigned>(UCT_FLUSH_FLAG_CANCEL), nullptr);
        if (status == UCS_INPROGRESS || status == UCS_ERR_NO_RESOURCE) {
            return UCS_INPROGRESS;
        }
        // (Of other failures the error handler has told; and who goes on with other endpoints shall
        // be able to flush those.)
        if (std::exchange(ep->untold_loss, false)) {
            return status;
        }
    }
    return UCS_OK;
}

template <class Link> ucs_status_t fence(uct_iface_h tl_iface, unsigned flags) {
    Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    for (Ep<Link>* ep : iface.eps) {
        (void)iface.super.super.ops.ep_fence(&ep->super.super, flags);
    }
    return UCS_OK;
}

template <class Link> ucs_status_t event_fd_get(uct_iface_h tl_iface, int* fd) {
    *fd = Iface<Link>::of(tl_iface)->port->event_fd();
    return UCS_OK;
}

template <class Link> ucs_status_t event_arm(uct_iface_h tl_iface, unsigned) {
    Iface<Link>& iface = *Iface<Link>::of(tl_iface);
    if (!iface.to_tell.empty()) {
        return UCS_ERR_BUSY;
    }
    for (const Ep<Link>* ep : iface.pending) {
        // (A get_short in the queue waits for its answer, whose coming ends the sleep.)
        if (ep->connection == nullptr || (ep->connection->may_retry() && !ep->awaits_get_short())) {
            return UCS_ERR_BUSY;
        }
    }
    return iface.port->arm() == Errc::ok ? UCS_OK : UCS_ERR_BUSY;
}

template <class Link> void close(uct_iface_h tl_iface) {
    Iface<Link>* iface = Iface<Link>::of(tl_iface);
    uct_base_iface_progress_disable(tl_iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    cleanup_base_iface(&iface->super);
    delete iface;
}

/// UCP weighs its rendezvous against messages in fragments, each of which takes what is told here.
template <class Link>
ucs_status_t estimate_performance(uct_iface_h tl_iface, uct_perf_attr_t* attr) {
    const ucs_status_t status = uct_base_iface_estimate_perf(tl_iface, attr);
    constexpr std::uint64_t asked =
        UCT_PERF_ATTR_FIELD_OPERATION | UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD;
    if (status == UCS_OK && (attr->field_mask & asked) == asked &&
        attr->operation == UCT_EP_OP_AM_ZCOPY) {
        const Iface<Link>& iface = *Iface<Link>::of(tl_iface);
        attr->send_post_overhead += iface.speed.copying * iface.port->limits().max_message;
    }
    return status;
}

template <class Link> uct_iface_internal_ops_t make_internal_ops() {
    uct_iface_internal_ops_t ops = uct_base_iface_internal_ops;
    ops.iface_estimate_perf = estimate_performance<Link>;
    return ops;
}

template <class Link> uct_iface_ops_t make_iface_ops() {
    uct_iface_ops_t ops{};
    fill_ep_ops<Link>(ops);
    ops.iface_flush = flush<Link>;
    ops.iface_fence = fence<Link>;
    ops.iface_progress_enable = uct_base_iface_progress_enable;
    ops.iface_progress_disable = uct_base_iface_progress_disable;
    ops.iface_progress = progress<Link>;
    ops.iface_event_fd_get = event_fd_get<Link>;
    ops.iface_event_arm = guarded<event_arm<Link>>;
    ops.iface_close = close<Link>;
    ops.iface_query = query<Link>;
    ops.iface_get_device_address = get_device_address<Link>;
    ops.iface_get_address = get_address<Link>;
    ops.iface_is_reachable = is_reachable<Link>;
    return ops;
}

/// Where payloads should lie in a buffer that the interface hands over. Ours hands over none, its
/// data lies in the ring: there is nothing to align, but what makes no sense is refused. (An offset
/// above the alignment does: UCP's own header is longer than some alignments.)
bool is_alignment(const uct_iface_params_t& params) {
    const bool given = (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT) != 0;
    if (given && !std::has_single_bit(params.am_alignment)) {
        ucs_error(
            "comch: payloads of active messages cannot be aligned to %zu: that is no power of two",
            params.am_alignment);
        return false;
    }
    if (!given && (params.field_mask & UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET) != 0) {
        ucs_error("comch: am_align_offset is %zu, and there is no am_alignment",
                  params.am_align_offset);
        return false;
    }
    return true;
}

template <class Link>
ucs_status_t open_over(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                       const uct_iface_config_t* tl_config, uct_iface_h* iface_p) {
    static uct_iface_ops_t ops = make_iface_ops<Link>();
    static uct_iface_internal_ops_t internal_ops = make_internal_ops<Link>();
    const auto& config = *reinterpret_cast<const IfaceConfig*>(tl_config);
    if ((params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE) == 0) {
        ucs_error("comch: interfaces are opened on a device");
        return UCS_ERR_UNSUPPORTED;
    }
    constexpr auto longest = static_cast<unsigned>(Link::max_inline);
    if (config.max_short < least_max_short || config.max_short > longest) {
        ucs_error("comch: UCX_COMCH_SHORT_MAX is %u, it must be from %u to %u", config.max_short,
                  least_max_short, longest);
        return UCS_ERR_INVALID_PARAM;
    }
    if (!is_alignment(*params)) {
        return UCS_ERR_INVALID_PARAM;
    }
    auto iface = std::make_unique<Iface<Link>>();
    // (UCP's workers for several threads say "serialized": it has the lock.)
    const bool shared =
        reinterpret_cast<uct_priv_worker_t*>(worker)->thread_mode != UCS_THREAD_MODE_SINGLE;
    auto port = Link::Port::open(
        reinterpret_cast<Md*>(md)->device,
        {.face = "uct", .arrival_order = false, .one_way = true, .shared = shared});
    if (!port) {
        ucs_error("comch: %s", port.error().message.c_str());
        return to_ucs(port.error().code);
    }
    iface->port = std::move(*port);
    iface->scratch = std::make_unique<std::byte[]>(Link::max_message);
    iface->get_pool.reserve(most_kept_gets); // giving back never allocates
    iface->max_short = config.max_short;
    const bool for_ucp =
        (params->field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM) != 0 && params->rx_headroom != 0;
    iface->am_data_at = for_ucp ? ucp_header : 0;
    iface->speed = iface->port->speed();
    if (config.bandwidth > 0) { // else 0 or auto
        iface->speed.bandwidth = config.bandwidth;
    }
    if (config.latency != 0) {
        iface->speed.latency = config.latency;
    }
    iface->host_dpu_only = config.host_dpu_only != 0;
    iface->may_yield = !shared;
    const ucs_status_t status =
        init_base_iface(&iface->super, &ops, &internal_ops, md, worker, params, tl_config);
    if (status != UCS_OK) {
        return status;
    }
    *iface_p = &iface.release()->super.super;
    return UCS_OK;
}

} // namespace

ucs_status_t open_iface(uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                        const uct_iface_config_t* tl_config, uct_iface_h* iface_p) {
    return reinterpret_cast<Md*>(md)->domain->over_rdma()
               ? open_over<VerbsLink>(md, worker, params, tl_config, iface_p)
               : open_over<SoftLink>(md, worker, params, tl_config, iface_p);
}

ucs_status_t query_devices(uct_md_h md, uct_tl_device_resource_t** devices, unsigned* count) {
    // Named after the DPU on both sides: UCX tools name one device for the two ends of a test.
    // A network device: UCX hands only those addresses to processes that it takes to be on another
    // machine, as the two sides are (in other namespaces, on another computer).
    return uct_single_device_resource(
        md, reinterpret_cast<Md*>(md)->domain->description().dpu.name.c_str(), UCT_DEVICE_TYPE_NET,
        UCS_SYS_DEVICE_ID_UNKNOWN, devices, count);
}

} // namespace comch::uct
