#include "info.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "address.hpp"
#include "core/link/soft/tuning.hpp"
#include "core/link/verbs/tuning.hpp"
#include "provider.hpp"

namespace comch::ofi {
namespace {

struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

constexpr std::uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
constexpr std::uint64_t tx_modifiers = FI_SEND | FI_READ | FI_WRITE;
constexpr std::uint64_t rx_modifiers = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t modifiers = tx_modifiers | rx_modifiers;
constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::uint64_t tx_secondary_caps = FI_FENCE;
constexpr std::uint64_t rx_secondary_caps = FI_MULTI_RECV | FI_RMA_EVENT;
constexpr std::uint64_t secondary_caps = tx_secondary_caps | rx_secondary_caps | domain_caps;
/// Named explicitly only: they cost a little, or need an address vector.
constexpr std::uint64_t datagram_caps = FI_SOURCE | FI_DIRECTED_RECV;

constexpr std::uint64_t tx_op_flags = FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE |
                                      FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
                                      FI_MATCH_COMPLETE;
constexpr std::uint64_t rx_op_flags = FI_COMPLETION | FI_MULTI_RECV;

/// What is ordered with what: messages always; reads, writes and atomics up to max_ordered.
constexpr std::uint64_t message_order = FI_ORDER_SAS | order_of_memory;

/// Numbers with the highest bit are the providers' own.
constexpr std::uint32_t our_protocol = 0x80000000u | 0x434du;

constexpr std::size_t queue_size = 1024;
constexpr std::size_t many = 65536;

std::uint64_t caps_of(fi_ep_type type) {
    return primary_caps | modifiers | secondary_caps | (type == FI_EP_RDM ? datagram_caps : 0);
}

char* copy_text(const std::string& text) {
    return ::strdup(text.c_str());
}

/// Modifiers that the primary capabilities imply when a program names none.
std::uint64_t implied_modifiers(std::uint64_t caps) {
    std::uint64_t implied = 0;
    if ((caps & (FI_MSG | FI_TAGGED)) != 0) {
        implied |= FI_SEND | FI_RECV;
    }
    if ((caps & (FI_RMA | FI_ATOMIC)) != 0) {
        implied |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    }
    return implied;
}

std::uint64_t granted_caps(fi_ep_type type, const fi_info* hints) {
    if (hints == nullptr || hints->caps == 0) {
        return caps_of(type);
    }
    std::uint64_t caps = hints->caps;
    if ((caps & modifiers) == 0) {
        caps |= implied_modifiers(caps);
    }
    return caps | secondary_caps;
}

int granted_mr_mode(const Device& device, std::uint32_t version, const fi_info* hints) {
    // We need none of the modes; the two old words stand for sets of them, and are answered as
    // words. But it is good for RDMA devices if the pages of registered memory stay; and if its
    // keys are ours, for one that is not used again can be remembered.
    const int asked =
        hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->mr_mode : 0;
    if (asked == mr_basic) {
        return mr_basic;
    }
    if (asked == mr_scalable || (FI_VERSION_LT(version, FI_VERSION(1, 5)) && asked == 0)) {
        return mr_scalable;
    }
    if (!device.domain()->over_rdma() || (asked & FI_MR_ALLOCATED) == 0) {
        return 0;
    }
    return asked & (FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

/// All that we can keep, unless the devices could do the program's reads and writes: those they do
/// not keep in order with what the CPUs do, so then it is what the program asks for.
std::uint64_t granted_order(const Device& device, fi_ep_type type, int mr_mode,
                            std::uint64_t asked) {
    const bool devices_could =
        type == FI_EP_RDM && device.domain()->over_rdma() &&
        (mr_mode == mr_basic || mr_mode == (FI_MR_ALLOCATED | FI_MR_PROV_KEY));
    return devices_could ? FI_ORDER_SAS | asked : message_order;
}

/// By name, or by a size up to which it is to hold.
std::uint64_t asked_order(const fi_info* hints) {
    std::uint64_t order = 0;
    if (hints != nullptr && hints->tx_attr != nullptr) {
        order |= hints->tx_attr->msg_order;
    }
    if (hints != nullptr && hints->rx_attr != nullptr) {
        order |= hints->rx_attr->msg_order;
    }
    if (hints != nullptr && hints->ep_attr != nullptr) {
        const fi_ep_attr& sizes = *hints->ep_attr;
        order |= sizes.max_order_raw_size != 0 ? std::uint64_t{FI_ORDER_RAW} : 0;
        order |= sizes.max_order_war_size != 0 ? std::uint64_t{FI_ORDER_WAR} : 0;
        order |= sizes.max_order_waw_size != 0 ? std::uint64_t{FI_ORDER_WAW} : 0;
    }
    return order;
}

Info make_info(const Device& device, fi_ep_type type, bool socket_addresses, std::uint32_t version,
               const fi_info* hints) {
    Info info(fi_allocinfo());
    if (!info) {
        return info;
    }
    info->caps = granted_caps(type, hints);
    info->addr_format = socket_addresses ? std::uint32_t{FI_SOCKADDR_IN} : address_format;

    fi_tx_attr& tx = *info->tx_attr;
    tx.caps = info->caps & (primary_caps | tx_modifiers | tx_secondary_caps);
    tx.op_flags = 0;
    const int mr_mode = granted_mr_mode(device, version, hints);
    tx.msg_order = granted_order(device, type, mr_mode, asked_order(hints));
    tx.comp_order = 0;
    tx.inject_size = max_inject;
    tx.size = queue_size;
    tx.iov_limit = max_iov;
    tx.rma_iov_limit = 1;

    fi_rx_attr& rx = *info->rx_attr;
    rx.caps = info->caps & (primary_caps | rx_modifiers | rx_secondary_caps | datagram_caps);
    rx.op_flags = 0;
    rx.msg_order = tx.msg_order;
    rx.comp_order = 0;
    rx.total_buffered_recv = 0;
    rx.size = queue_size;
    rx.iov_limit = max_iov;

    if (hints != nullptr && hints->tx_attr != nullptr) {
        tx.op_flags = hints->tx_attr->op_flags;
        tx.size = std::max(tx.size, hints->tx_attr->size);
    }
    if (hints != nullptr && hints->rx_attr != nullptr) {
        rx.op_flags = hints->rx_attr->op_flags;
        rx.size = std::max(rx.size, hints->rx_attr->size);
    }

    fi_ep_attr& ep = *info->ep_attr;
    ep.type = type;
    ep.protocol = our_protocol;
    ep.protocol_version = 1;
    ep.max_msg_size = max_message_size;
    const std::size_t ordered = (tx.msg_order & order_of_memory) != 0 ? max_ordered(device) : 0;
    ep.max_order_raw_size = ep.max_order_war_size = ep.max_order_waw_size = ordered;
    ep.mem_tag_format = ~std::uint64_t{0};
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
    if (hints != nullptr && hints->ep_attr != nullptr &&
        hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {
        ep.rx_ctx_cnt = FI_SHARED_CONTEXT;
    }

    fi_domain_attr& domain = *info->domain_attr;
    domain.name = copy_text(device.function().name);
    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = FI_PROGRESS_MANUAL; // the cheaper; a thread only for who asks
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = FI_AV_UNSPEC;
    domain.mr_mode = mr_mode;
    domain.mr_key_size = sizeof(std::uint64_t);
    domain.cq_data_size = sizeof(std::uint64_t);
    domain.cq_cnt = domain.ep_cnt = domain.tx_ctx_cnt = domain.rx_ctx_cnt = many;
    domain.cntr_cnt = domain.mr_cnt = many;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.max_ep_stx_ctx = 0;
    domain.max_ep_srx_ctx = many;
    domain.mr_iov_limit = 1;
    domain.caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    if (hints != nullptr && hints->domain_attr != nullptr) {
        const fi_domain_attr& asked = *hints->domain_attr;
        if (asked.threading != FI_THREAD_UNSPEC) {
            domain.threading = asked.threading;
        }
        if (asked.av_type != FI_AV_UNSPEC) {
            domain.av_type = asked.av_type;
        }
        if (asked.control_progress == FI_PROGRESS_AUTO || asked.data_progress == FI_PROGRESS_AUTO) {
            domain.control_progress = domain.data_progress =
                FI_PROGRESS_AUTO; // one thread for both
        }
    }

    info->fabric_attr->name = copy_text(fabric_name(device));
    info->fabric_attr->prov_version = provider.version;
    info->fabric_attr->api_version = version;
    return info;
}

bool within(std::uint64_t asked, std::uint64_t offered) {
    return (asked & ~offered) == 0;
}

bool names(const char* asked, std::string_view offered) {
    return asked == nullptr || *asked == '\0' || offered == asked;
}

/// Does a list of provider names ("comch", "ofi_rxm;comch") have ours? One that excludes names
/// ("^tcp,udp") is for libfabric to apply.
bool names_us(const char* list) {
    if (list == nullptr || *list == '\0' || *list == '^') {
        return true;
    }
    const std::string_view text(list);
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find_first_of(";,", at), text.size());
        if (text.substr(at, end - at) == "comch") {
            return true;
        }
        at = end + 1;
    }
    return false;
}

bool accepts_fabric(const fi_fabric_attr& asked, const Device& device) {
    return names_us(asked.prov_name) && names(asked.name, fabric_name(device)) &&
           asked.prov_version <= provider.version;
}

bool accepts_domain(const fi_domain_attr& asked, const Device& device) {
    return names(asked.name, device.function().name) &&
           asked.cq_data_size <= sizeof(std::uint64_t) &&
           asked.mr_key_size <= sizeof(std::uint64_t) && asked.cq_cnt <= many &&
           asked.ep_cnt <= many && asked.tx_ctx_cnt <= many && asked.rx_ctx_cnt <= many &&
           asked.cntr_cnt <= many && asked.mr_iov_limit <= 1 && asked.max_ep_tx_ctx <= 1 &&
           asked.max_ep_rx_ctx <= 1 && asked.max_ep_stx_ctx == 0 && asked.max_ep_srx_ctx <= many &&
           asked.auth_key_size == 0 && within(asked.caps, FI_LOCAL_COMM | FI_REMOTE_COMM);
}

bool accepts_endpoint(const fi_ep_attr& asked, fi_ep_type type, std::size_t ordered) {
    return (asked.type == FI_EP_UNSPEC || asked.type == type) &&
           (asked.protocol == FI_PROTO_UNSPEC || asked.protocol == our_protocol) &&
           asked.protocol_version <= 1 && asked.max_msg_size <= max_message_size &&
           asked.max_order_raw_size <= ordered && asked.max_order_war_size <= ordered &&
           asked.max_order_waw_size <= ordered && asked.tx_ctx_cnt <= 1 &&
           (asked.rx_ctx_cnt <= 1 || asked.rx_ctx_cnt == FI_SHARED_CONTEXT) &&
           asked.auth_key_size == 0;
}

bool accepts_tx(const fi_tx_attr& asked, std::uint64_t caps) {
    return within(asked.caps, caps) && within(asked.op_flags, tx_op_flags) &&
           within(asked.msg_order, message_order) && asked.comp_order == 0 &&
           asked.inject_size <= max_inject && asked.size <= many && asked.iov_limit <= max_iov &&
           asked.rma_iov_limit <= 1;
}

bool accepts_rx(const fi_rx_attr& asked, std::uint64_t caps) {
    return within(asked.caps, caps) && within(asked.op_flags, rx_op_flags) &&
           within(asked.msg_order, message_order) && asked.comp_order == 0 && asked.size <= many &&
           asked.iov_limit <= max_iov;
}

/// Is what we offer what the program asks for?
bool accepts(const fi_info& hints, const Device& device, fi_ep_type type) {
    const std::uint64_t caps = caps_of(type);
    return within(hints.caps, caps) &&
           (hints.fabric_attr == nullptr || accepts_fabric(*hints.fabric_attr, device)) &&
           (hints.domain_attr == nullptr || accepts_domain(*hints.domain_attr, device)) &&
           (hints.ep_attr == nullptr ||
            accepts_endpoint(*hints.ep_attr, type, max_ordered(device))) &&
           (hints.tx_attr == nullptr || accepts_tx(*hints.tx_attr, caps)) &&
           (hints.rx_attr == nullptr || accepts_rx(*hints.rx_attr, caps));
}

/// Sockets' services are numbers.
bool is_port(std::string_view service) {
    std::uint16_t port = 0;
    const char* const end = service.data() + service.size();
    const auto [rest, error] = std::from_chars(service.data(), end, port);
    return error == std::errc() && rest == end && service != "0" &&
           fmt::format("{}", port) == service;
}

/// Who the endpoint is to be, and whom it is to talk to. False: not here.
bool resolve(const Device& device, const char* node, const char* service, std::uint64_t flags,
             bool socket_addresses, const fi_info* hints, std::optional<Address>& source,
             std::optional<Address>& dest) {
    const comch::Domain& domain = *device.domain();
    const bool is_source = (flags & FI_SOURCE) != 0;
    if (node != nullptr || service != nullptr) {
        const auto function = function_of_node(device, node != nullptr ? node : "");
        if (!function || (socket_addresses && service != nullptr && !is_port(service))) {
            return false;
        }
        if (service != nullptr) {
            (is_source ? source : dest) = named_address(domain, *function, service);
            if (!(is_source ? source : dest)) {
                return false;
            }
        }
    }
    if (hints == nullptr) {
        return true;
    }
    if (hints->src_addr != nullptr && !is_source) {
        source = parse_address(device, hints->src_addr, hints->src_addrlen);
        if (!source || (source->named == 0 && is_chosen(*source))) { // only names can be chosen
            return false;
        }
    }
    if (hints->dest_addr != nullptr && ((node == nullptr && service == nullptr) || is_source)) {
        dest = parse_address(device, hints->dest_addr, hints->dest_addrlen);
        if (!dest || !is_chosen(*dest)) {
            return false;
        }
    }
    return true;
}

} // namespace

std::size_t max_ordered(const Device& device) {
    constexpr std::size_t heads = 64;
    return (device.domain()->over_rdma() ? link::verbs::tuning::max_message
                                         : link::soft::tuning::max_message) -
           heads;
}

std::string fabric_name(const Device& device) {
    return "comch-" + device.domain()->id().to_string().substr(0, 12);
}

/// What libfabric's utility providers ask with, for something to layer on.
constexpr std::uint64_t core_provider_only = std::uint64_t{1} << 59;

bool set_address(void*& to, std::size_t& length, const Address& address, bool of_socket) {
    std::free(to);
    length = of_socket ? sizeof(sockaddr_in) : size_of(address);
    to = std::malloc(length);
    if (to == nullptr) {
        return false;
    }
    return (of_socket ? copy_address(socket_address(address), to, &length)
                      : copy_address(address, to, &length)) == 0;
}

namespace {

/// The form of the addresses of what is asked for; nothing if it is one that we do not have. The
/// utility providers know none but sockets'. What they make of us, libfabric would list before our
/// own endpoints, so they get it only where the user wants that.
std::optional<bool> wants_socket_addresses(const fi_info* hints, std::uint64_t flags) {
    const std::uint32_t format =
        hints != nullptr ? hints->addr_format : std::uint32_t{FI_FORMAT_UNSPEC};
    const bool for_utility = (flags & core_provider_only) != 0;
    if (for_utility && !settings().layering) {
        return std::nullopt;
    }
    if (is_socket_format(format) || (format == FI_FORMAT_UNSPEC && for_utility)) {
        return true;
    }
    if ((format == FI_FORMAT_UNSPEC || format == address_format) && !for_utility) {
        return false;
    }
    return std::nullopt;
}

} // namespace

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** out) {
    const auto socket_addresses = wants_socket_addresses(hints, flags);
    if (!socket_addresses) {
        return -FI_ENODATA;
    }
    if ((flags & FI_SOURCE) != 0 && node == nullptr && service == nullptr) {
        return -FI_EINVAL;
    }
    const auto device = open_device();
    if (!device) {
        FI_WARN(&provider, FI_LOG_CORE, "nothing is offered: %s\n", device.error().message.c_str());
        return -FI_ENODATA;
    }
    std::optional<Address> source;
    std::optional<Address> dest;
    if (!resolve(*device, node, service, flags, *socket_addresses, hints, source, dest)) {
        return -FI_ENODATA;
    }
    if (!source) {
        const bool is_named = (flags & FI_SOURCE) != 0 && node != nullptr; // resolved before
        source =
            unchosen_address(*device->domain(), *function_of_node(*device, is_named ? node : ""));
    }
    Info first;
    fi_info** tail = nullptr;
    for (const fi_ep_type type : {FI_EP_RDM, FI_EP_MSG}) {
        if ((hints != nullptr && !accepts(*hints, *device, type)) ||
            (*socket_addresses && type != FI_EP_MSG)) {
            continue;
        }
        Info info = make_info(*device, type, *socket_addresses, version, hints);
        if (!info || !set_address(info->src_addr, info->src_addrlen, *source, *socket_addresses) ||
            (dest && !set_address(info->dest_addr, info->dest_addrlen, *dest, *socket_addresses))) {
            return -FI_ENOMEM;
        }
        if (hints != nullptr && hints->handle != nullptr) {
            info->handle = hints->handle;
        }
        if (tail == nullptr) {
            first = std::move(info);
            tail = &first->next;
        } else {
            *tail = info.release();
            tail = &(*tail)->next;
        }
    }
    if (!first) {
        return -FI_ENODATA;
    }
    *out = first.release();
    return 0;
}

} // namespace comch::ofi
