#include "core/link/verbs/cm.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include "core/link/verbs/conn_param.hpp"

namespace comch::link::verbs {

// ---- Address -----------------------------------------------------------------------------------

std::optional<Address> Address::parse(const std::string& text, std::uint16_t port) {
    Address address;
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
    } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
    } else {
        return std::nullopt;
    }
    address.set_port(port);
    return address;
}

Address Address::of(const sockaddr* from) {
    Address address;
    if (from != nullptr) {
        std::memcpy(&address.storage, from,
                    from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    }
    return address;
}

std::string Address::text() const {
    std::array<char, INET6_ADDRSTRLEN> form{};
    const void* bytes = &reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
    int family = storage.ss_family;
    if (family == AF_INET6) {
        const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
        bytes = &v6;
        if (IN6_IS_ADDR_V4MAPPED(&v6)) {
            family = AF_INET;
            bytes = v6.s6_addr + 12;
        }
    }
    return ::inet_ntop(family, bytes, form.data(), form.size()) == nullptr ? std::string()
                                                                           : form.data();
}

std::uint16_t Address::port() const noexcept {
    return ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

void Address::set_port(std::uint16_t port) noexcept {
    if (storage.ss_family == AF_INET6) {
        reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
    } else {
        reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
    }
}

// ---- CmChannel and events ----------------------------------------------------------------------

CmChannel::~CmChannel() {
    if (channel_ != nullptr) {
        ::rdma_destroy_event_channel(channel_);
    }
}

namespace {

/// Before anything of a device is in memory that a fork would have copied while the device goes on
/// with the old. The kernel sees to that from 5.12 on; before, registered pages are not there in a
/// child, which takes from it whatever else is in them.
void protect_from_forks() noexcept {
    static std::once_flag once;
    std::call_once(once, [] {
        if (::ibv_is_fork_initialized() == IBV_FORK_DISABLED) {
            (void)::ibv_fork_init();
        }
    });
}

} // namespace

Result<CmChannel> CmChannel::create() {
    protect_from_forks();
    CmChannel channel;
    channel.channel_ = ::rdma_create_event_channel();
    if (channel.channel_ == nullptr) {
        return fail_errno(Errc::unsupported,
                          "cannot open /dev/infiniband/rdma_cm (is an RDMA device here, the "
                          "module rdma_ucm loaded, and the file readable for this user?)",
                          errno);
    }
    const int flags = ::fcntl(channel.fd(), F_GETFL);
    if (flags < 0 || ::fcntl(channel.fd(), F_SETFL, flags | O_NONBLOCK) != 0) {
        return fail_errno(Errc::io, "cannot make an rdma_cm channel non-blocking", errno);
    }
    return channel;
}

// Of InfiniBand's reasons to reject.

bool takes_for_stale(const CmEvent& event) noexcept {
    constexpr int stale_connection = 10;
    return event.type == RDMA_CM_EVENT_REJECTED && event.status == stale_connection;
}

bool finds_nobody(const CmEvent& event) noexcept {
    constexpr int invalid_service_id = 8;
    return event.type == RDMA_CM_EVENT_REJECTED && event.status == invalid_service_id;
}

bool next_event(const CmChannel& channel, CmEvent& event) {
    rdma_cm_event* got = nullptr;
    if (::rdma_get_cm_event(channel.get(), &got) != 0) {
        return false;
    }
    event.type = got->event;
    event.id = got->id;
    event.listener = got->listen_id;
    event.status = got->status;
    event.private_length = 0;
    const rdma_conn_param& connection = got->param.conn;
    if (connection.private_data != nullptr &&
        (got->event == RDMA_CM_EVENT_CONNECT_REQUEST || got->event == RDMA_CM_EVENT_ESTABLISHED ||
         got->event == RDMA_CM_EVENT_REJECTED)) {
        event.private_length =
            std::min<std::size_t>(connection.private_data_len, sizeof(event.private_data));
        std::memcpy(event.private_data, connection.private_data, event.private_length);
    }
    event.responder_resources = connection.responder_resources;
    event.initiator_depth = connection.initiator_depth;
    (void)::rdma_ack_cm_event(got);
    return true;
}

// ---- CmId --------------------------------------------------------------------------------------

Result<CmId> CmId::create(const CmChannel& channel, void* context, Address local) {
    rdma_cm_id* made = nullptr;
    if (::rdma_create_id(channel.get(), &made, context, RDMA_PS_TCP) != 0) {
        return fail_errno(Errc::no_memory, "cannot create an rdma_cm identifier", errno);
    }
    CmId id(made);
    if (::rdma_bind_addr(made, local.get()) != 0) {
        const int error = errno;
        return fail_errno(error == EADDRINUSE ? Errc::in_use : Errc::not_found,
                          fmt::format("cannot use address {}, port {}, for RDMA (is it the address "
                                      "of an interface here that has an RDMA device? 'rdma link' "
                                      "shows them)",
                                      local.text(), local.port()),
                          error);
    }
    if (made->verbs == nullptr) {
        return fail(Errc::not_found,
                    fmt::format("no RDMA device is behind address {}; 'rdma link' shows those that "
                                "are here and their interfaces",
                                local.text()));
    }
    return id;
}

Result<CmId> CmId::create_to(const CmChannel& channel, void* context, Address local, Address remote,
                             int patience_ms, bool& resolved) {
    // On a channel of its own, so that nobody else's events come in between.
    auto own = CmChannel::create();
    if (!own) {
        return tl::unexpected(std::move(own.error()));
    }
    auto id = create(*own, context, local);
    if (!id) {
        return id;
    }
    set_ack_timeout(id->get());
    if (::rdma_resolve_addr(id->get(), nullptr, remote.get(), tuning::resolve_timeout_ms) != 0) {
        return fail_errno(Errc::not_found, fmt::format("cannot resolve {} for RDMA", remote.text()),
                          errno);
    }
    resolved = false;
    pollfd entry{.fd = own->fd(), .events = POLLIN, .revents = 0};
    while (!resolved && ::poll(&entry, 1, patience_ms) == 1) {
        CmEvent event;
        if (!next_event(*own, event)) {
            continue;
        }
        if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
            if (::rdma_resolve_route(id->get(), tuning::resolve_timeout_ms) != 0) {
                return fail_errno(Errc::not_found,
                                  fmt::format("there is no RDMA route to {}", remote.text()),
                                  errno);
            }
        } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
            resolved = true;
        } else {
            return fail(Errc::not_found,
                        fmt::format("{} cannot be reached by RDMA from {}: {}", remote.text(),
                                    local.text(), ::rdma_event_str(event.type)));
        }
    }
    if (::rdma_migrate_id(id->get(), channel.get()) != 0) {
        return fail_errno(Errc::io, "cannot move an rdma_cm identifier", errno);
    }
    return id;
}

void CmId::reset() noexcept {
    if (id_ == nullptr) {
        return;
    }
    if (id_->qp != nullptr) {
        ::rdma_destroy_qp(id_);
    }
    (void)::rdma_destroy_id(id_);
    id_ = nullptr;
}

} // namespace comch::link::verbs
