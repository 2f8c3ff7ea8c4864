#include "passive_endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/make_room.hpp"
#include "eq.hpp"
#include "guarded.hpp"
#include "info.hpp"
#include "provider.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

using link::ConnectDecision;
using link::ConnectRequest;

PassiveEndpoint& passive_of(void* fid) {
    return *object_of<PassiveEndpoint>(fid);
}

int close(fid* fid) {
    PassiveEndpoint* const passive = object_of<PassiveEndpoint>(fid);
    Fabric& fabric = *passive->fabric;
    const std::shared_ptr<Lock> lock = fabric.lock;
    {
        const Guard guard(*lock);
        delete passive;
        --fabric.references;
    }
    return 0;
}

int bind(fid* fid, struct fid* other, std::uint64_t) {
    PassiveEndpoint& passive = passive_of(fid);
    if (other->fclass != FI_CLASS_EQ || passive.eq != nullptr) {
        return -FI_EINVAL;
    }
    const Guard guard(*passive.fabric->lock);
    object_of<Eq>(other)->waiter.add(passive.station);
    passive.eq = object_of<Eq>(other);
    ++passive.eq->references;
    return 0;
}

int control(fid*, int command, void*) {
    return command == FI_BACKLOG ? 0 : -FI_ENOSYS; // requests wait for the program without limit
}

int get_name(fid* fid, void* to, std::size_t* length) {
    const PassiveEndpoint& passive = passive_of(fid);
    return passive.socket_addresses ? copy_address(socket_address(*passive.address), to, length)
                                    : copy_address(*passive.address, to, length);
}

/// Sets the address that it will listen under. False: it cannot be had.
bool take_address(PassiveEndpoint& passive, const std::optional<Address>& wanted) {
    if (!wanted) {
        return false;
    }
    const Address own =
        port_address(*passive.fabric->device.domain(), passive.station->port().address());
    const bool is_own = !passive.socket_addresses && port_of(*wanted) == port_of(own);
    if (wanted->named == 0 && is_chosen(*wanted) && !is_own) {
        return false; // only names can be chosen
    }
    passive.address = wanted->named == 0 && !passive.socket_addresses ? own : *wanted;
    return true;
}

int set_name(fid* fid, void* from, std::size_t length) {
    PassiveEndpoint& passive = passive_of(fid);
    if (passive.listening) {
        return -FI_EOPBADSTATE;
    }
    return take_address(passive, parse_address(passive.fabric->device, from, length)) ? 0
                                                                                      : -FI_EINVAL;
}

/// Takes the first number that nobody has, from somewhere among those that nobody chooses.
Result<void> listen_anywhere(PassiveEndpoint& passive) {
    constexpr unsigned first = 49152;
    constexpr unsigned count = 65536 - first;
    const comch::Domain& domain = *passive.fabric->device.domain();
    const auto begin = static_cast<unsigned>(::getpid());
    Result<void> result;
    for (unsigned i = 0; i < count; ++i) {
        passive.address = named_address(domain, passive.address->function,
                                        fmt::format("{}", first + (begin + i) % count));
        result = passive.station->port().listen(service_of(*passive.address));
        if (result || result.error().code != Errc::in_use) {
            break;
        }
    }
    return result;
}

int listen(fid_pep* fid) {
    PassiveEndpoint& passive = passive_of(fid);
    if (passive.eq == nullptr) {
        return -FI_ENOEQ;
    }
    const Guard guard(*passive.fabric->lock);
    if (passive.listening) {
        return -FI_EOPBADSTATE;
    }
    if (passive.address->named != 0 || passive.socket_addresses) {
        const auto result = passive.address->named != 0
                                ? passive.station->port().listen(service_of(*passive.address))
                                : listen_anywhere(passive);
        if (!result) {
            FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n", result.error().message.c_str());
            return -to_fi(result.error());
        }
    }
    passive.listening = true;
    passive.station->passive_endpoint = &passive;
    return 0;
}

int reject(fid_pep* fid, struct fid* handle, const void* data, std::size_t length) {
    PassiveEndpoint& passive = passive_of(fid);
    const Guard guard(*passive.fabric->lock);
    auto* const request = reinterpret_cast<ConnectionRequest*>(handle);
    if (handle == nullptr || handle->fclass != FI_CLASS_CONNREQ) {
        return -FI_EINVAL;
    }
    if (Conn* const conn = request->conn) {
        // A close does not take back what was sent before it.
        (void)conn->link->send(static_cast<std::uint8_t>(wire::Kind::reject),
                               connection_data(data, length));
        conn->station->port().close(conn->link);
        conn->station->remove_conn(conn);
    }
    (void)request->use_up();
    return 0;
}

int get_option(fid*, int level, int name, void* value, std::size_t* length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) {
        return -FI_ENOPROTOOPT;
    }
    if (*length < sizeof(std::size_t)) {
        return -FI_ETOOSMALL;
    }
    *length = sizeof(std::size_t);
    *static_cast<std::size_t*>(value) = wire::max_connection_data;
    return 0;
}

fi_ops fid_ops = operations_of_fid(close, control, guarded<bind>);
/// A request is answered, by fi_accept or fi_reject, and not closed.
fi_ops request_ops = operations_of_fid(unsupported<decltype(fi_ops::close)>);
fi_ops_ep ep_ops = {sizeof(fi_ops_ep),
                    unsupported<decltype(fi_ops_ep::cancel)>,
                    get_option,
                    unsupported<decltype(fi_ops_ep::setopt)>,
                    unsupported<decltype(fi_ops_ep::tx_ctx)>,
                    unsupported<decltype(fi_ops_ep::rx_ctx)>,
                    unsupported<decltype(fi_ops_ep::rx_size_left)>,
                    unsupported<decltype(fi_ops_ep::tx_size_left)>};
fi_ops_cm cm_ops = {sizeof(fi_ops_cm),
                    guarded<set_name>,
                    get_name,
                    unsupported<decltype(fi_ops_cm::getpeer)>,
                    unsupported<decltype(fi_ops_cm::connect)>,
                    guarded<listen>,
                    unsupported<decltype(fi_ops_cm::accept)>,
                    guarded<reject>,
                    unsupported<decltype(fi_ops_cm::shutdown)>,
                    unsupported<decltype(fi_ops_cm::join)>};

} // namespace

PassiveEndpoint::~PassiveEndpoint() {
    station->passive_endpoint = nullptr;
    if (listening && address->named != 0) {
        station->port().unlisten(service_of(*address));
    }
    for (const auto& request : requests) {
        if (Conn* const conn = request->conn) {
            station->port().close(conn->link);
            station->remove_conn(conn);
        }
        request->conn = nullptr;
        request->passive = nullptr;
        // Without the one that listens nobody progresses it; closed, it refuses who comes late.
        request->station.reset();
        if (eq->has_request(request->fid)) { // nobody will ever read it
            --fabric->unanswered;
        } else {                                      // the program has, and may answer
            fabric->left_requests.push_back(request); // for which there is room
        }
    }
    if (eq != nullptr) {
        eq->forget(&fid.fid);
        eq->waiter.remove(*station);
        --eq->references;
    }
    fi_freeinfo(info);
}

std::shared_ptr<ConnectionRequest> ConnectionRequest::use_up() {
    auto& all = passive != nullptr ? passive->requests : fabric->left_requests;
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& other) { return other.get() == this; });
    std::shared_ptr<ConnectionRequest> self = std::move(*found);
    all.erase(found);
    --fabric->unanswered;
    fid.fclass = used_class;
    conn = nullptr;
    return self;
}

void PassiveEndpoint::lose_device() {
    fi_eq_err_entry failure{};
    failure.fid = &fid.fid;
    failure.context = fid.fid.context;
    failure.err = to_fi(Errc::io);
    failure.prov_errno = failure.err;
    eq->add_failure(failure);
}

ConnectDecision PassiveEndpoint::on_connect_request(Connection& link,
                                                    const ConnectRequest& request) {
    wire::Hello hello{};
    if (request.private_data.size() < sizeof(hello)) {
        return {Errc::rejected, nullptr, {}};
    }
    std::memcpy(&hello, request.private_data.data(), sizeof(hello));
    const std::span<const std::byte> data = request.private_data.subspan(sizeof(hello));
    if (hello.magic != wire::hello_magic || hello.endpoint_type != FI_EP_MSG ||
        data.size() != hello.data_length) {
        return {Errc::rejected, nullptr, {}};
    }
    if (hello.version != wire::version) {
        return {Errc::version_mismatch, nullptr, {}};
    }
    if (settings().host_dpu_only && request.peer.side == fabric->device.side()) {
        return {Errc::not_permitted, nullptr, {}};
    }
    // The name lies under one host function: clients of any other have no business here.
    if (!request.service.empty() && request.peer.side == Side::host &&
        request.peer.function != request.service_function) {
        return {Errc::not_permitted, nullptr, {}};
    }
    return offer_to_program(link, hello, data);
}

ConnectDecision PassiveEndpoint::offer_to_program(Connection& link, const wire::Hello& hello,
                                                  std::span<const std::byte> data) {
    std::unique_ptr<fi_info, decltype(&fi_freeinfo)> offer(fi_dupinfo(info), fi_freeinfo);
    if (offer == nullptr || eq->is_overrun()) {
        return {Errc::no_memory, nullptr, {}};
    }
    const comch::Domain& domain = *fabric->device.domain();
    link::PortAddress port;
    std::memcpy(port.bytes.data(), hello.port, sizeof(hello.port));
    const Address peer =
        socket_addresses ? unchosen_address(domain, hello.function) : port_address(domain, port);
    // (A socket's address of the endpoint to be is the one that was called.)
    if (!set_address(offer->dest_addr, offer->dest_addrlen, peer, socket_addresses) ||
        (socket_addresses && !set_address(offer->src_addr, offer->src_addrlen, *address, true))) {
        return {Errc::no_memory, nullptr, {}};
    }
    make_room(requests);
    auto& left = fabric->left_requests; // where those may go that are read and not answered
    left.reserve(fabric->unanswered + 1);
    auto made = std::make_shared<ConnectionRequest>();
    Conn* const conn = station->add_conn();
    conn->link = &link;
    conn->established = true;
    conn->request = made.get();
    made->fid.fclass = FI_CLASS_CONNREQ;
    made->fid.ops = &request_ops;
    made->fabric = fabric;
    made->passive = this;
    made->station = station;
    made->conn = conn;
    offer->handle = &made->fid;
    struct {
        struct fid* fid;
        fi_info* info;
    } const entry{&fid.fid, offer.get()};
    static_assert(sizeof(entry) == sizeof(fi_eq_cm_entry));
    try {
        eq->try_add(FI_CONNREQ, entry, data);
    } catch (...) {
        station->remove_conn(conn);
        throw;
    }
    (void)offer.release(); // the event's now
    requests.push_back(std::move(made));
    ++fabric->unanswered;
    return {Errc::ok, conn, {}};
}

int open_passive_endpoint(fid_fabric* fabric_fid, fi_info* info, fid_pep** out, void* context) {
    Fabric& fabric = *object_of<Fabric>(fabric_fid);
    if (info == nullptr || info->ep_attr == nullptr || info->ep_attr->type != FI_EP_MSG) {
        return -FI_EINVAL;
    }
    auto station = Station::open(fabric.device, fabric.lock);
    if (!station) {
        FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n", station.error().message.c_str());
        return -to_fi(station.error());
    }
    const comch::Domain& domain = *fabric.device.domain();
    auto passive = std::make_unique<PassiveEndpoint>();
    passive->station = std::move(*station);
    passive->fid.fid = {FI_CLASS_PEP, context, &fid_ops};
    passive->fid.ops = &ep_ops;
    passive->fid.cm = &cm_ops;
    passive->fabric = &fabric;
    passive->info = fi_dupinfo(info);
    if (passive->info == nullptr) {
        return -FI_ENOMEM;
    }
    passive->socket_addresses = is_socket_format(info->addr_format);
    const auto wanted = info->src_addr != nullptr
                            ? parse_address(fabric.device, info->src_addr, info->src_addrlen)
                            : unchosen_address(domain, *function_of_node(fabric.device, ""));
    if (!take_address(*passive, wanted)) { // fi_setname may follow
        return -FI_EINVAL;
    }
    ++fabric.references;
    *out = &passive.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
