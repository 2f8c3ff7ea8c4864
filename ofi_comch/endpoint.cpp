// Endpoints come and go: creation, binding, options.
#include "endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/memory/region_table.hpp"
#include "eq.hpp"
#include "guarded.hpp"
#include "passive_endpoint.hpp"
#include "progress_thread.hpp"
#include "provider.hpp"
#include "srx.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

Endpoint& endpoint_of(void* fid) {
    return *object_of<Endpoint>(fid);
}

int close(fid* fid) {
    Endpoint* const endpoint = object_of<Endpoint>(fid);
    Domain& domain = *endpoint->domain;
    const std::shared_ptr<Lock> lock = domain.lock;
    const Guard guard(*lock);
    Cq* const cq = endpoint->rx_cq;
    const bool is_kept = endpoint->type == FI_EP_MSG && cq != nullptr;
    if (is_kept) {
        cq->make_room_to_keep();
    }
    endpoint->close();
    --domain.references;
    // Who reads a message of a connection that has ended posts the next receive without a look, and
    // ofi_rxm does so after it has closed the endpoint: also when it closes it while it handles the
    // last completion that there is.
    if (is_kept) {
        endpoint->station.reset(); // its port is not kept
        cq->keep(std::unique_ptr<Endpoint>(endpoint));
    } else {
        delete endpoint;
    }
    return 0;
}

int bind_cq(Endpoint& endpoint, Cq& cq, std::uint64_t flags) {
    const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    if ((flags & (FI_TRANSMIT | FI_RECV)) == 0 ||
        ((flags & FI_TRANSMIT) != 0 && endpoint.tx_cq != nullptr) ||
        ((flags & FI_RECV) != 0 && endpoint.rx_cq != nullptr)) {
        return -FI_EINVAL;
    }
    cq.waiter.make_room(1);
    if ((flags & FI_TRANSMIT) != 0) {
        endpoint.tx_cq = &cq;
        endpoint.tx_selective = selective;
        ++cq.references;
        cq.waiter.add(endpoint.station);
    }
    if ((flags & FI_RECV) != 0) {
        endpoint.rx_cq = &cq;
        endpoint.rx_selective = selective;
        ++cq.references;
        cq.waiter.add(endpoint.station);
    }
    return 0;
}

int bind_cntr(Endpoint& endpoint, Cntr& cntr, std::uint64_t flags) {
    constexpr std::uint64_t events[Endpoint::kinds] = {FI_SEND,  FI_RECV,        FI_READ,
                                                       FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
    for (unsigned i = 0; i < Endpoint::kinds; ++i) {
        if ((flags & events[i]) != 0 && endpoint.counters[i] != nullptr) {
            return -FI_EINVAL;
        }
    }
    cntr.waiter.make_room(1);
    for (unsigned i = 0; i < Endpoint::kinds; ++i) {
        if ((flags & events[i]) != 0) {
            endpoint.counters[i] = &cntr;
            ++cntr.references;
            cntr.waiter.add(endpoint.station);
        }
    }
    return 0;
}

/// What peers do is counted from the beginning or not at all: their devices may be at it.
bool is_too_late(const Endpoint& endpoint, std::uint64_t flags) {
    return endpoint.enabled && (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0;
}

int bind_to(Endpoint& endpoint, struct fid* other, std::uint64_t flags) {
    switch (other->fclass) {
    case FI_CLASS_CQ:
        return bind_cq(endpoint, *object_of<Cq>(other), flags);
    case FI_CLASS_CNTR:
        return is_too_late(endpoint, flags) ? -FI_EOPBADSTATE
                                            : bind_cntr(endpoint, *object_of<Cntr>(other), flags);
    case FI_CLASS_AV:
        if (endpoint.type != FI_EP_RDM || endpoint.av != nullptr) {
            return -FI_EINVAL;
        }
        object_of<Av>(other)->endpoints.push_back(&endpoint);
        endpoint.av = object_of<Av>(other);
        ++endpoint.av->references;
        return 0;
    case FI_CLASS_EQ:
        if (endpoint.eq != nullptr) {
            return -FI_EINVAL;
        }
        endpoint.bind_eq(*object_of<Eq>(other));
        return 0;
    case FI_CLASS_SRX_CTX:
        if (endpoint.srx != nullptr || endpoint.enabled) {
            return -FI_EINVAL;
        }
        object_of<Srx>(other)->endpoints.push_back(&endpoint);
        endpoint.srx = object_of<Srx>(other);
        endpoint.queue = &endpoint.srx->queue;
        return 0;
    default:
        return -FI_EINVAL;
    }
}

int bind(fid* fid, struct fid* other, std::uint64_t flags) {
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.lock);
    const int result = bind_to(endpoint, other, flags);
    endpoint.choose_ways();
    return result;
}

int control(fid* fid, int command, void* argument) {
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.domain->lock);
    switch (command) {
    case FI_ENABLE:
        return endpoint.enable();
    case FI_GETOPSFLAG: {
        auto& flags = *static_cast<std::uint64_t*>(argument);
        if ((flags & FI_TRANSMIT) != 0 && (flags & FI_RECV) != 0) {
            return -FI_EINVAL;
        }
        flags = (flags & FI_TRANSMIT) != 0 ? endpoint.tx_op_flags : endpoint.rx_op_flags;
        return 0;
    }
    case FI_SETOPSFLAG: {
        const std::uint64_t flags = *static_cast<const std::uint64_t*>(argument);
        if ((flags & FI_TRANSMIT) != 0 && (flags & FI_RECV) != 0) {
            return -FI_EINVAL;
        }
        ((flags & FI_TRANSMIT) != 0 ? endpoint.tx_op_flags : endpoint.rx_op_flags) =
            flags & ~(std::uint64_t{FI_TRANSMIT} | FI_RECV);
        endpoint.choose_ways();
        return 0;
    }
    default:
        return -FI_ENOSYS;
    }
}

/// `endpoint`: that tells of it; null: there is no queue yet that it could be told in.
ssize_t cancel_in(Endpoint* endpoint, RecvQueue& queue, void* context) {
    for (List<Receive>& list : queue.posted) {
        for (Receive* receive = list.first(); receive != nullptr; receive = receive->next) {
            if (receive->context != context) {
                continue;
            }
            list.remove(*receive);
            if (endpoint != nullptr) {
                endpoint->end_receive(*receive, Errc::canceled);
            } else {
                queue.receives.give_back(*receive);
            }
            return 0;
        }
    }
    return -FI_ENOENT;
}

ssize_t cancel(fid* fid, void* context) {
    if (fid->fclass == FI_CLASS_SRX_CTX) {
        Srx& srx = *object_of<Srx>(fid);
        const Guard guard(*srx.domain->lock);
        return cancel_in(srx.endpoints.empty() ? nullptr : srx.endpoints.front(), srx.queue,
                         context);
    }
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.domain->lock);
    return cancel_in(&endpoint, *endpoint.queue, context);
}

std::size_t* multi_recv_option(fid* fid) {
    return fid->fclass == FI_CLASS_SRX_CTX ? &object_of<Srx>(fid)->min_multi_recv
                                           : &endpoint_of(fid).min_multi_recv;
}

int get_option(fid* fid, int level, int name, void* value, std::size_t* length) {
    if (level != FI_OPT_ENDPOINT ||
        (name != FI_OPT_MIN_MULTI_RECV && name != FI_OPT_CM_DATA_SIZE)) {
        return -FI_ENOPROTOOPT;
    }
    if (*length < sizeof(std::size_t)) {
        return -FI_ETOOSMALL;
    }
    *length = sizeof(std::size_t);
    *static_cast<std::size_t*>(value) =
        name == FI_OPT_CM_DATA_SIZE ? wire::max_connection_data : *multi_recv_option(fid);
    return 0;
}

int set_option(fid* fid, int level, int name, const void* value, std::size_t length) {
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) {
        return -FI_ENOPROTOOPT;
    }
    if (length != sizeof(std::size_t)) {
        return -FI_EINVAL;
    }
    std::memcpy(multi_recv_option(fid), value, length);
    return 0;
}

fi_ops fid_ops = operations_of_fid(guarded<close>, guarded<control>, guarded<bind>);

/// The station that the endpoint will live on.
Result<std::shared_ptr<Station>> station_for(Domain& domain, fi_ep_type type, fid* handle) {
    const Device& device = domain.fabric->device;
    if (type == FI_EP_RDM) {
        return Station::open(device, domain.lock);
    }
    if (handle != nullptr && handle->fclass == FI_CLASS_CONNREQ) {
        if (const auto& its = reinterpret_cast<ConnectionRequest*>(handle)->station) {
            return its;
        }
    }
    // (A device that was removed may be here again.)
    if (auto shared = domain.station.lock(); shared && !shared->port().lost()) {
        return shared;
    }
    auto opened = Station::open(device, domain.lock);
    if (opened) {
        domain.station = *opened;
    }
    return opened;
}

/// A connection that was asked for becomes the endpoint's, to be accepted.
void take_over(Endpoint& endpoint, ConnectionRequest& request) {
    endpoint.conn = request.conn;
    endpoint.state = Endpoint::State::ended;
    if (request.conn != nullptr) {
        endpoint.state = Endpoint::State::connecting;
        request.conn->endpoint = &endpoint;
        request.conn->request = nullptr;
    }
    // A program that gives up may still reject it: it stays as long as the endpoint.
    endpoint.taken_request = request.use_up();
}

} // namespace

Endpoint::~Endpoint() {
    close();
    // Its connections end before the memory that peers, or the kernel for them, may be at.
    station.reset();
}

int Endpoint::enable() {
    if (type == FI_EP_RDM && av == nullptr) {
        return -FI_ENOAV;
    }
    const bool transmits = (caps & (FI_SEND | FI_READ | FI_WRITE)) != 0;
    const bool listens = (caps & FI_RECV) != 0;
    if (transmits && tx_cq == nullptr && counters[sends] == nullptr &&
        counters[writes] == nullptr && counters[reads] == nullptr) {
        return -FI_ENOCQ;
    }
    if (listens && rx_cq == nullptr && counters[receives] == nullptr) {
        return -FI_ENOCQ;
    }
    if (type == FI_EP_RDM && !enabled) {
        if (local_address->named != 0) {
            const auto result = station->port().listen(service_of(*local_address));
            if (!result) {
                FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n", result.error().message.c_str());
                return -to_fi(result.error());
            }
        }
        station->datagram_endpoint = this;
    }
    try {
        set_enabled();
    } catch (...) {
        if (type == FI_EP_RDM) {
            station->datagram_endpoint = nullptr;
            station->port().unlisten(service_of(*local_address)); // if it does
        }
        throw;
    }
    return 0;
}

void Endpoint::bind_eq(Eq& to) {
    if (type == FI_EP_MSG) { // others' ends are no events
        to.waiter.add(station);
    }
    eq = &to;
    ++eq->references;
}

void Endpoint::set_enabled() {
    if (!enabled) {
        if (eq == nullptr && domain->eq != nullptr) {
            bind_eq(*domain->eq);
        }
        if (domain->progress_thread != nullptr) {
            domain->progress_thread->make_room();
        }
        domain->add_enabled(*this);
        if (domain->progress_thread != nullptr) {
            domain->progress_thread->add(station);
        }
        enabled = true;
    }
    choose_ways();
}

void Endpoint::choose_ways() noexcept {
    // What may be asked for in all calls without changing what a short message takes.
    constexpr std::uint64_t harmless =
        FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
    const bool open = enabled && !closed;
    sends_plainly =
        open && tx_cq != nullptr && counters[sends] == nullptr && (tx_op_flags & ~harmless) == 0;
    reports_sends = !tx_selective || (tx_op_flags & FI_COMPLETION) != 0;
    is_directed = type == FI_EP_RDM && (caps & FI_DIRECTED_RECV) != 0;
    // Where a receive may have nobody left who serves it, that is asked of each.
    const bool may_be_late = state == State::ended || (is_directed && knows_dead);
    posts_plainly = open && !may_be_late && srx == nullptr &&
                    (rx_op_flags & ~std::uint64_t{FI_COMPLETION}) == 0;
    must_ask = rx_selective ? FI_COMPLETION : 0;
    const bool may_come = type == FI_EP_RDM || state == State::connected;
    arrives_plainly = open && may_come && rx_cq != nullptr && counters[receives] == nullptr;
}

void Endpoint::close() {
    if (std::exchange(closed, true)) {
        return;
    }
    choose_ways();
    if (enabled) {
        domain->remove_enabled(*this);
        if (domain->progress_thread != nullptr) {
            domain->progress_thread->remove(*station);
        }
    }
    // What is outstanding is dropped without a word. Receives of a shared context are not ours.
    release(tx_cq);
    for (unsigned i = 0; i < kinds; ++i) {
        if (srx == nullptr || i != receives) {
            release(counters[i]);
        }
    }
    if (srx == nullptr) {
        release(rx_cq);
    }
    if (type == FI_EP_MSG) {
        shut_down();
    } else {
        drain();
        if (srx != nullptr) {
            give_back_shared();
        }
    }
    for (const auto& operation : operations_) {
        let_go_of_memory(*operation);
    }
    for (std::size_t i = 0; i < transfers_.all().size(); ++i) {
        Transfer& transfer = *transfers_.all()[i];
        if (transfer.active && transfer.mr != nullptr) {
            --transfer.mr->users;
        }
        let_go(transfer.kept);
    }
    release(rx_cq);
    release(counters[receives]);
    if (av != nullptr) {
        std::erase(av->endpoints, this);
        --av->references;
    }
    if (eq != nullptr) {
        if (type == FI_EP_MSG) {
            eq->forget(&fid.fid);
            eq->waiter.remove(*station);
        }
        --eq->references;
    }
    if (srx != nullptr) {
        std::erase(srx->endpoints, this);
        srx->lost -= type == FI_EP_RDM && state == State::ended ? 1 : 0;
        for (List<Unexpected>* list :
             {&srx->queue.unexpected[0], &srx->queue.unexpected[1], &srx->queue.claimed}) {
            for (Unexpected* message = list->first(); message != nullptr;) {
                Unexpected* const next = message->next;
                if (message->endpoint == this) {
                    forget_coming(message->arrival);
                    list->remove(*message);
                    srx->queue.free(*message);
                }
                message = next;
            }
        }
    }
}

template <class Object> void Endpoint::release(Object*& bound) {
    if (bound != nullptr) {
        bound->waiter.remove(*station);
        --bound->references;
        bound = nullptr;
    }
}

void Endpoint::drain() {
    // What we owe others goes out as long as they take it; a program that closes its endpoint right
    // after its last receive must not leave its peers without their answers.
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(200);
    const auto owes = [&] {
        return type == FI_EP_MSG ? conn != nullptr && conn->busy : station->owes();
    };
    while (owes() && Clock::now() < end) {
        try {
            (void)station->progress();
        } catch (const std::bad_alloc&) {
            // It goes on when there is some; nothing of what follows needs any.
        }
    }
    if (type == FI_EP_RDM) {
        station->datagram_endpoint = nullptr;
    }
}

void Endpoint::give_back_shared() {
    // (The list grows in nothing that is called here.)
    for (std::size_t i = 0; i < transfers_.all().size(); ++i) {
        Transfer& transfer = *transfers_.all()[i];
        if (!transfer.active || transfer.kind != Transfer::Kind::receive) {
            continue;
        }
        if (transfer.conn->link != nullptr) { // nothing is written to it from now on
            station->port().close(std::exchange(transfer.conn->link, nullptr));
        }
        on_transfer(transfer, Errc::canceled);
    }
}

fi_ops_ep endpoint_ops = {sizeof(fi_ops_ep),
                          guarded<cancel>,
                          get_option,
                          set_option,
                          unsupported<decltype(fi_ops_ep::tx_ctx)>,
                          unsupported<decltype(fi_ops_ep::rx_ctx)>,
                          unsupported<decltype(fi_ops_ep::rx_size_left)>,
                          unsupported<decltype(fi_ops_ep::tx_size_left)>};

// (For FI_COLLECTIVE another provider is needed, but a program may call without asking.)
fi_ops_collective endpoint_collective_ops = all_unsupported<fi_ops_collective>;

int open_endpoint(fid_domain* domain_fid, fi_info* info, fid_ep** out, void* context) {
    Domain& domain = *object_of<Domain>(domain_fid);
    if (info == nullptr || info->ep_attr == nullptr ||
        (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_MSG)) {
        return -FI_EINVAL;
    }
    if (info->handle != nullptr && info->handle->fclass == ConnectionRequest::used_class) {
        return -FI_EINVAL; // an endpoint has it already
    }
    const fi_ep_type type = info->ep_attr->type;
    if (type == FI_EP_MSG && domain.lock != domain.fabric->lock) {
        FI_WARN(&provider, FI_LOG_EP_CTRL,
                "a connected endpoint (FI_EP_MSG) shares the fabric's lock, but this domain was "
                "opened for reliable datagrams and has its own: open another domain with the "
                "endpoint's fi_info\n");
        return -FI_EINVAL;
    }
    const comch::Domain& core_domain = *domain.fabric->device.domain();
    const std::shared_ptr<Lock> lock = domain.lock;
    const Guard guard(*lock);
    auto station = station_for(domain, type, info->handle);
    if (!station) {
        FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n", station.error().message.c_str());
        return -to_fi(station.error());
    }
    auto endpoint = std::make_unique<Endpoint>(domain);
    endpoint->station = std::move(*station);
    endpoint->fid.fid = {FI_CLASS_EP, context, &fid_ops};
    endpoint->fid.ops = &endpoint_ops;
    endpoint->fid.cm = &endpoint_cm_ops;
    endpoint->fid.msg = &endpoint_msg_ops;
    endpoint->fid.tagged = &endpoint_tagged_ops;
    endpoint->fid.rma = &endpoint_rma_ops;
    endpoint->fid.atomic = &endpoint_atomic_ops;
    endpoint->fid.collective = &endpoint_collective_ops;
    endpoint->type = type;
    endpoint->caps = info->caps;
    endpoint->tx_op_flags = info->tx_attr != nullptr ? info->tx_attr->op_flags : 0;
    endpoint->rx_op_flags = info->rx_attr != nullptr ? info->rx_attr->op_flags : 0;
    endpoint->eager_size = std::min<std::size_t>(settings().eager_size.value_or(default_eager_size),
                                                 wire::max_payload_in_parts);
    // A program that leaves the attributes out has been promised all the orders there are.
    endpoint->goes_direct = Link::has_devices && type == FI_EP_RDM && info->tx_attr != nullptr &&
                            (info->tx_attr->msg_order & order_of_memory) == 0;
    endpoint->own_queue = std::make_unique<RecvQueue>();
    endpoint->queue = endpoint->own_queue.get();
    endpoint->local_address = port_address(core_domain, endpoint->station->port().address());
    if (info->src_addr != nullptr && type == FI_EP_RDM) {
        const auto own = parse_address(domain.fabric->device, info->src_addr, info->src_addrlen);
        if (!own || (own->named == 0 && is_chosen(*own))) {
            return -FI_EINVAL; // only names can be chosen
        }
        if (own->named != 0) {
            endpoint->local_address = own;
        }
    }
    endpoint->socket_addresses = is_socket_format(info->addr_format);
    endpoint->function = *function_of_node(domain.fabric->device, "");
    if (info->src_addr != nullptr && endpoint->socket_addresses) {
        const auto own = parse_address(domain.fabric->device, info->src_addr, info->src_addrlen);
        if (!own) {
            return -FI_EINVAL;
        }
        endpoint->function = own->function;
        endpoint->socket_port = ntohs(socket_address(*own).sin_port);
    }
    if (endpoint->socket_addresses && info->handle != nullptr &&
        info->handle->fclass == FI_CLASS_PEP) { // named by a passive endpoint that it replaces
        const auto& passive = *object_of<PassiveEndpoint>(info->handle);
        endpoint->function = passive.address->function;
        endpoint->socket_port = ntohs(socket_address(*passive.address).sin_port);
    }
    if (info->dest_addr != nullptr) {
        endpoint->remote_address =
            parse_address(domain.fabric->device, info->dest_addr, info->dest_addrlen);
    }
    if (info->handle != nullptr && info->handle->fclass == FI_CLASS_CONNREQ) {
        take_over(*endpoint, *reinterpret_cast<ConnectionRequest*>(info->handle));
    }
    ++domain.references;
    *out = &endpoint.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
