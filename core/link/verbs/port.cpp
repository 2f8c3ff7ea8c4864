#include "core/link/verbs/port.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/clock.hpp"
#include "core/base/ticks.hpp"
#include "core/device/function.hpp"
#include "core/link/bell.hpp"
#include "core/link/verbs/admission.hpp"
#include "core/link/verbs/conn_param.hpp"

namespace comch::link::verbs {
namespace {

/// PortAddress's bytes. The IP address is not among them: both ends' descriptions have it.
struct AddressLayout {
    std::uint64_t number;
    std::uint32_t function;
    std::uint16_t port;
    std::uint8_t side;
    std::uint8_t reserved;
};
static_assert(sizeof(AddressLayout) == sizeof(PortAddress));

std::uint64_t random_number() {
    std::uint64_t number = 0;
    while (number == 0) {
        if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
            number = static_cast<std::uint64_t>(monotonic_ns());
        }
    }
    return number;
}

/// The entry in the domain's directory by which a name is taken: a symbolic link to
/// <owner's process id>.<port>.
std::string name_entry(const ServiceName& service) {
    const XXH128_hash_t hash = XXH3_128bits(service.name.data(), service.name.size());
    return fmt::format("rdma-name.{:08x}.{:016x}{:016x}", service.function, hash.high64,
                       hash.low64);
}

} // namespace

// ---- opening -----------------------------------------------------------------------------------

Result<std::unique_ptr<Port>> Port::open(const Device& device, PortOptions options) {
    std::unique_ptr<Port> port(new Port(device, std::move(options)));
    if (auto started = port->start(); !started) {
        return tl::unexpected(std::move(started.error()));
    }
    return port;
}

Result<void> Port::start() {
    auto counters = ProcessCounters::open(device_.domain());
    if (!counters) {
        return tl::unexpected(std::move(counters.error()));
    }
    counters_ = std::move(*counters);
    auto channel = CmChannel::create();
    if (!channel) {
        return tl::unexpected(std::move(channel.error()));
    }
    cm_ = std::move(*channel);
    auto listener = add_listener(0);
    if (!listener) {
        return tl::unexpected(std::move(listener.error()));
    }
    device_port_ = (*listener)->id->port_num;
    auto rdma = RdmaDevice::of((*listener)->id->verbs, device_port_, device_.function().address);
    if (!rdma) {
        return tl::unexpected(std::move(rdma.error()));
    }
    rdma_ = std::move(*rdma);
    auto queues = Queues::create(rdma_, tuning::port_pipes);
    if (!queues) {
        return tl::unexpected(std::move(queues.error()));
    }
    queues_ = std::move(*queues);
    number_ = random_number();
    tcp_port_ = ntohs(::rdma_get_src_port((*listener)->id.get()));
    const AddressLayout layout{.number = number_,
                               .function = device_.function().id,
                               .port = tcp_port_,
                               .side = static_cast<std::uint8_t>(device_.side()),
                               .reserved = 0};
    std::memcpy(address_.bytes.data(), &layout, sizeof(layout));
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    (void)sleep_.make(); // looked at below, with the others
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    for (const int fd :
         {queues_->event_fd(), cm_.fd(), sleep_.fd(), timer_.get(), rdma_->event_fd()}) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        if (fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
            return fail_errno(Errc::no_memory, "cannot create the descriptors of a port", errno);
        }
    }
    rdma_->add_bell(sleep_.fd());
    return {};
}

Result<Port::Listener*> Port::add_listener(std::uint16_t port) {
    const Function& function = device_.function();
    const auto address = Address::parse(function.address, port);
    if (!address) {
        return fail(Errc::invalid_argument,
                    fmt::format("device {} has no address in domain description '{}'; over RDMA "
                                "each function needs one",
                                function.name, device_.domain()->description().source));
    }
    auto listener = std::make_unique<Listener>();
    auto id = CmId::create(cm_, &listener->watch, *address);
    if (!id) {
        return tl::unexpected(std::move(id.error()));
    }
    listener->id = std::move(*id);
    if (::rdma_listen(listener->id.get(), 1024) != 0) {
        return fail_errno(Errc::io,
                          fmt::format("cannot listen for RDMA connections at {}", function.address),
                          errno);
    }
    listeners_.push_back(std::move(listener));
    return listeners_.back().get();
}

Result<void> Port::listen(const ServiceName& service) {
    const Domain& domain = *device_.domain();
    if (rdma_ == nullptr) {
        return fail(Errc::io, "cannot listen: the RDMA device was removed or has failed");
    }
    if (auto checked = check_service_name(service.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    const std::string entry = name_entry(service);
    const auto lock = domain.lock();
    if (!lock) {
        return tl::unexpected(lock.error());
    }
    char holder[64] = {};
    const auto length =
        ::readlinkat(domain.directory_fd(), entry.c_str(), holder, sizeof(holder) - 1);
    if (length > 0) {
        const std::string text(holder, static_cast<std::size_t>(length));
        if (process_lives(domain, text.substr(0, text.find('.')))) {
            return fail(Errc::in_use,
                        fmt::format("a server named '{}' is already listening for function {}; "
                                    "stop it or choose another name",
                                    service.name, function_name(domain, service.function)));
        }
        (void)domain.remove_entry(entry);
    }
    const DomainDescription& description = domain.description();
    Listener* listener = nullptr;
    for (unsigned probe = 0; probe < tuning::name_probes && listener == nullptr; ++probe) {
        auto added = add_listener(wire::service_port(
            service.function, service.name, probe, description.first_port, description.port_count));
        if (added) {
            listener = *added;
        } else if (added.error().code != Errc::in_use) {
            return tl::unexpected(std::move(added.error()));
        }
    }
    if (listener == nullptr) {
        return fail(Errc::in_use,
                    fmt::format("no port is free for server '{}': the {} that its name may lie at "
                                "are taken; raise port_count in the [domain] table of '{}' on both "
                                "sides, or choose another name",
                                service.name, tuning::name_probes, description.source));
    }
    const std::string target = fmt::format("{}.{}", process_suffix(process_id()),
                                           ntohs(::rdma_get_src_port(listener->id.get())));
    if (::symlinkat(target.c_str(), domain.directory_fd(), entry.c_str()) != 0) {
        const int error = errno;
        listeners_.pop_back();
        return fail_errno(
            Errc::io,
            fmt::format("cannot create '{}' in domain directory '{}'", entry, domain.path()),
            error);
    }
    listener->service = service;
    listener->name_entry = entry;
    return {};
}

void Port::unlisten(const ServiceName& service) {
    const auto found = std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& l) {
        return !l->name_entry.empty() && l->service.function == service.function &&
               l->service.name == service.name;
    });
    if (found != listeners_.end()) {
        (void)device_.domain()->remove_entry((*found)->name_entry);
        listeners_.erase(found);
    }
}

// ---- connecting --------------------------------------------------------------------------------

Result<Connection*> Port::new_connection() {
    auto pipe = Pipe::create(*queues_);
    if (!pipe) {
        return tl::unexpected(std::move(pipe.error()));
    }
    std::unique_ptr<Connection> connection(new Connection(std::move(*pipe)));
    connection->port_ = this;
    connection->index_ = connections_.size();
    connection->token_ = random_number();
    connection->pipe_->set_owner(connection.get());
    connection->pipe_->set_sleep(&sleep_);
    connections_.push_back(std::move(connection));
    Connection& c = *connections_.back();
    c.pipe_->set_slot(counters_->take_slot(c.slot_info(counters::SlotState::connecting)));
    return &c;
}

bool Port::may_be_of(const PortAddress& address, const PeerInfo& peer) noexcept {
    AddressLayout layout{};
    std::memcpy(&layout, address.bytes.data(), sizeof(layout));
    return layout.function == peer.function && layout.side == static_cast<std::uint8_t>(peer.side);
}

Result<Connection*> Port::connect(const PortAddress& to, std::span<const std::byte> private_data,
                                  void* user) {
    AddressLayout layout{};
    std::memcpy(&layout, to.bytes.data(), sizeof(layout));
    const Function* const function = function_of(
        device_.domain()->description(), static_cast<Side>(layout.side & 1), layout.function);
    const auto address =
        function == nullptr ? std::nullopt : Address::parse(function->address, layout.port);
    if (!address) {
        return fail(Errc::not_found,
                    fmt::format("the peer's function {:#x} has no address in domain description "
                                "'{}'; both sides must be given the same functions",
                                layout.function, device_.domain()->description().source));
    }
    wire::Request request{};
    request.target = static_cast<std::uint8_t>(wire::Target::port);
    request.name = layout.number;
    return start_connect(*address, request, nullptr, private_data, user);
}

Result<Connection*> Port::connect(const ServiceName& to, std::span<const std::byte> private_data,
                                  void* user) {
    if (auto checked = check_service_name(to.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    const DomainDescription& description = device_.domain()->description();
    const auto address = Address::parse(description.dpu.address, 0);
    if (!address) {
        return fail(Errc::not_found, fmt::format("the DPU has no address in domain description "
                                                 "'{}'",
                                                 description.source));
    }
    wire::Request request{};
    request.target = static_cast<std::uint8_t>(wire::Target::service);
    request.name = wire::service_hash(to.function, to.name);
    return start_connect(*address, request, &to, private_data, user);
}

Result<Connection*> Port::start_connect(Address remote, const wire::Request& request,
                                        const ServiceName* service,
                                        std::span<const std::byte> private_data, void* user) {
    if (auto checked = check_private_data(private_data.size()); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    if (rdma_ == nullptr || rdma_->gone() || queues_->broken()) {
        return fail(Errc::io, "cannot connect: the RDMA device was removed or has failed");
    }
    auto made = new_connection();
    if (!made) {
        return made;
    }
    Connection& c = **made;
    c.is_initiator_ = true;
    if (options_.one_way) {
        c.pipe_->order_reads();
    }
    c.user_ = user;
    c.remote_ = remote;
    c.request_ = request;
    c.request_.magic = wire::magic;
    c.request_.version = wire::version;
    c.request_.size = sizeof(wire::Request);
    std::memcpy(&c.request_.domain, device_.domain()->id().bytes.data(), sizeof(std::uint64_t));
    c.request_.process_id = process_id();
    c.request_.function = device_.function().id;
    c.request_.side = static_cast<std::uint8_t>(device_.side());
    c.request_.one_way = options_.one_way ? 1 : 0;
    c.pipe_->set_number(random_number());
    wire::Hello hello{};
    hello.process_id = process_id();
    hello.pid = static_cast<std::uint64_t>(::getpid());
    hello.token = c.token_;
    hello.number = c.pipe_->number();
    hello.credit = c.pipe_->credential();
    hello.port = tcp_port_;
    if (service != nullptr) {
        c.service_ = service->name;
        c.service_function_ = service->function;
        c.peer_name_ = service->name;
        hello.service_function = service->function;
        hello.service_length = static_cast<std::uint16_t>(service->name.size());
        std::memcpy(hello.service, service->name.data(), service->name.size());
    }
    hello.private_length = static_cast<std::uint16_t>(private_data.size());
    if (!private_data.empty()) {
        std::memcpy(hello.private_data, private_data.data(), private_data.size());
    }
    (void)c.pipe_->put_plain(wire::Control::hello, std::as_bytes(std::span(&hello, 1)));
    if (auto tried = try_address(c); !tried) {
        discard(c);
        return tl::unexpected(std::move(tried.error()));
    }
    slow_poll_.want();
    return &c;
}

Result<void> Port::try_address(Connection& c) {
    if (c.request_.target == static_cast<std::uint8_t>(wire::Target::service)) {
        const DomainDescription& description = device_.domain()->description();
        c.remote_.set_port(wire::service_port(c.service_function_, c.service_, c.probe_,
                                              description.first_port, description.port_count));
    }
    c.pipe_->unmake(); // an attempt before this one may have failed after it had a queue pair
    c.id_.reset();
    bool resolved = false;
    auto id = CmId::create_to(cm_, &c.watch_, *Address::parse(device_.function().address, 0),
                              c.remote_, tuning::resolve_at_once_ms, resolved);
    if (!id) {
        return tl::unexpected(std::move(id.error()));
    }
    c.id_ = std::move(*id);
    if (resolved && start_handshake(c)) {
        return fail(Errc::io, c.error_text_);
    }
    return {};
}

std::optional<Reason> Port::start_handshake(Connection& c) {
    if (auto made = c.pipe_->make_queue_pair(c.id_.get()); !made) {
        c.error_text_ = made.error().message;
        return Reason::device_error;
    }
    rdma_conn_param param = conn_param(rdma_->limits(), &c.request_, sizeof(c.request_));
    if (::rdma_connect(c.id_.get(), &param) != 0) {
        c.error_text_ = fmt::format("the peer at {} cannot be reached: {}", c.remote_.text(),
                                    std::strerror(errno));
        return Reason::not_found;
    }
    return std::nullopt;
}

std::optional<Reason> Port::take_event(Connection& c, const CmEvent& event) {
    const auto unreachable = [&](const char* what) {
        c.error_text_ = fmt::format("{} at {} ({})", what, c.remote_.text(),
                                    event.status < 0 ? std::strerror(-event.status) : "no answer");
        return Reason::not_found;
    };
    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (::rdma_resolve_route(c.id_.get(), tuning::resolve_timeout_ms) != 0) {
            return unreachable("there is no RDMA route to the peer");
        }
        return std::nullopt;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return start_handshake(c);
    case RDMA_CM_EVENT_ESTABLISHED: {
        if (!c.is_initiator_) {
            // From the initiator's progress, which sends Hello at once.
            c.deadline_ns_ = std::min(c.deadline_ns_, monotonic_ns() + tuning::hello_timeout_ns);
            return std::nullopt;
        }
        wire::Accept accept{};
        if (wire::read_private(event.private_data, event.private_length, accept) !=
                wire::Check::ok ||
            !c.pipe_->start(accept.credit)) {
            c.error_text_ = "the peer's acceptance is not one of this protocol";
            return Reason::protocol_error;
        }
        if (c.state_ == Connection::State::connecting) {
            c.state_ = Connection::State::waiting;
        } else { // closed meanwhile: what was sent before goes out now
            c.deadline_ns_ = monotonic_ns() + tuning::close_timeout_ns;
        }
        return std::nullopt;
    }
    case RDMA_CM_EVENT_REJECTED:
        return take_refusal(c, event);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return unreachable("the peer cannot be reached");
    case RDMA_CM_EVENT_UNREACHABLE:
        if (c.pipe_->started()) {
            // The neighbour's hardware address is not known for a moment, as when a link goes down
            // and up again. Whether that ends the connection its queue pair will tell.
            return std::nullopt;
        }
        return unreachable("the peer cannot be reached");
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return unreachable("the RDMA connection could not be made");
    case RDMA_CM_EVENT_DISCONNECTED:
        c.peer_gone_ = true;
        gone_.push_back(&c);
        return std::nullopt;
    default:
        return std::nullopt;
    }
}

std::optional<Reason> Port::take_refusal(Connection& c, const CmEvent& event) {
    if (!c.is_initiator_) {
        return Reason::not_found; // it asked, was accepted, and then did not want to
    }
    c.pipe_->unmake();
    if (takes_for_stale(event) && ++c.stale_attempts_ < tuning::stale_attempts && try_address(c)) {
        return std::nullopt;
    }
    wire::Refusal refusal{};
    const auto check = wire::read_private(event.private_data, event.private_length, refusal);
    if (check == wire::Check::other_version) {
        return Reason::version_mismatch;
    }
    // Without private data of ours it is the peer's kernel that refused: nobody listens there, or
    // he who did died meanwhile.
    const auto why =
        check == wire::Check::ok ? static_cast<wire::Why>(refusal.why) : wire::Why::nobody;
    switch (why) {
    case wire::Why::version_mismatch:
        return Reason::version_mismatch;
    case wire::Why::wrong_function:
        c.error_text_ = fmt::format("the address {} is not that of function '{}' in the peer's "
                                    "domain description, or the server is for another function",
                                    device_.function().address, device_.function().name);
        return Reason::rejected;
    case wire::Why::no_resources:
        c.error_text_ =
            "the peer has no room for another connection: its RDMA device is full, or its "
            "process may not lock more memory ('ulimit -l' there should say 'unlimited')";
        return Reason::rejected;
    case wire::Why::malformed:
        return Reason::protocol_error;
    default:
        break;
    }
    const bool by_name = c.request_.target == static_cast<std::uint8_t>(wire::Target::service);
    if (by_name && ++c.probe_ < tuning::name_probes && try_address(c)) {
        return std::nullopt;
    }
    return Reason::not_found;
}

Reason Port::reason_of_end(Connection& c) const {
    if (rdma_ != nullptr && rdma_->gone()) {
        return Reason::device_error;
    }
    if (c.state_ < Connection::State::waiting) {
        return Reason::not_found;
    }
    c.error_text_.clear(); // of something earlier that the connection survived
    if (c.canceled_) {
        c.error_text_ =
            "a transfer was canceled that the RDMA device was at; that ends the connection";
        return Reason::device_error;
    }
    switch (c.pipe_->failure()) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        c.error_text_ = c.pipe_->device_said();
        if (c.error_text_.empty()) {
            c.error_text_ = "an RDMA device refused what the other end sent, or access to memory";
        }
        return Reason::protocol_error;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_FATAL_ERR:
        c.error_text_ = c.pipe_->device_said();
        if (c.error_text_.empty()) {
            c.error_text_ = fmt::format("the RDMA device refused a request: {}",
                                        ::ibv_wc_status_str(c.pipe_->failure()));
        }
        return Reason::device_error;
    default:
        return Reason::peer_died;
    }
}

// ---- being connected to ------------------------------------------------------------------------

wire::Why Port::judge(const CmEvent& event, wire::Request& request, Connection*& parent) {
    switch (wire::read_private(event.private_data, event.private_length, request)) {
    case wire::Check::other_version:
        return wire::Why::version_mismatch;
    case wire::Check::foreign:
        return wire::Why::malformed;
    case wire::Check::ok:
        break;
    }
    if (event.listener == nullptr || event.listener->context == nullptr) {
        return wire::Why::nobody;
    }
    // What a device may have under way, as its end told rdma_cm: with none, no read of ours would
    // ever be sent, nor what is behind it.
    if (event.responder_resources == 0 || event.initiator_depth == 0) {
        return wire::Why::malformed;
    }
    const std::string address = Address::of(::rdma_get_peer_addr(event.id)).text();
    if (const wire::Why claim = check_claim(*device_.domain(), request, address);
        claim != wire::Why::none) {
        return claim;
    }
    const auto& listener =
        *static_cast<Listener*>(static_cast<Watch*>(event.listener->context)->object);
    switch (static_cast<wire::Target>(request.target)) {
    case wire::Target::port:
        return listener.service.name.empty() && request.name == number_ ? wire::Why::none
                                                                        : wire::Why::nobody;
    case wire::Target::service:
        return !listener.service.name.empty() &&
                       request.name ==
                           wire::service_hash(listener.service.function, listener.service.name)
                   ? wire::Why::none
                   : wire::Why::other_name;
    case wire::Target::channel: {
        const auto found = std::find_if(connections_.begin(), connections_.end(),
                                        [&](const auto& c) { return c->token_ == request.name; });
        if (found == connections_.end() || (*found)->state_ >= Connection::State::ended) {
            return wire::Why::closing;
        }
        // 0: the peer's answer has not been taken out here yet; looked at again then.
        if ((*found)->peer_.process_id != 0 && (*found)->peer_.process_id != request.process_id) {
            return wire::Why::nobody;
        }
        parent = found->get();
        return wire::Why::none;
    }
    }
    return wire::Why::malformed;
}

void Port::admit(CmId id, const CmEvent& event, const wire::Request& request) {
    auto made = rdma_ != nullptr ? new_connection()
                                 : Result<Connection*>(fail(Errc::not_found, "no device"));
    if (!made) {
        refuse(id.get(), wire::Why::no_resources);
        return;
    }
    Connection& c = **made;
    c.state_ = Connection::State::meeting;
    // Until it is connected. Whether that comes to be its kernel tells, if it tells the truth.
    c.deadline_ns_ = monotonic_ns() + tuning::accepted_timeout_ns;
    c.peer_one_way_ = request.one_way != 0;
    c.peer_.side = static_cast<Side>(request.side);
    c.peer_.function = request.function;
    c.request_ = request;
    const auto& listener =
        *static_cast<Listener*>(static_cast<Watch*>(event.listener->context)->object);
    c.expected_service_ = listener.service.name;
    c.service_function_ = listener.service.function;
    c.remote_ = Address::of(::rdma_get_peer_addr(id.get()));
    const wire::Accept accept{.magic = wire::magic,
                              .version = wire::version,
                              .size = sizeof(wire::Accept),
                              .reserved = 0,
                              .credit = c.pipe_->credential()};
    rdma_conn_param param = accept_param(rdma_->limits(), event, &accept, sizeof(accept));
    if (!c.pipe_->make_queue_pair(id.get())) {
        refuse(id.get(), wire::Why::no_resources);
        discard(c);
        return;
    }
    id->context = &c.watch_;
    c.id_ = std::move(id);
    if (::rdma_accept(c.id_.get(), &param) != 0) {
        discard(c);
    }
}

bool Port::take_hello(Connection& c, const wire::Hello& hello) {
    const std::string_view service(hello.service,
                                   std::min<std::size_t>(hello.service_length, max_service_name));
    if (hello.service_length > max_service_name || hello.private_length > max_private_data ||
        hello.process_id != c.request_.process_id || hello.process_id == 0 || hello.port == 0) {
        return false;
    }
    // Where two names have one hash, this is where it shows.
    if (service != c.expected_service_ ||
        (!service.empty() && hello.service_function != c.service_function_)) {
        return false;
    }
    c.peer_.process_id = hello.process_id;
    c.peer_.pid = hello.pid;
    c.pipe_->set_number(hello.number);
    if (!c.pipe_->start(hello.credit)) {
        return false;
    }
    let_channels_open(c, hello.token, hello.port);
    const Function* const function = device_.domain()->find_function(c.peer_.function);
    c.peer_name_ = function != nullptr ? function->name : std::string();
    counters_->describe_slot(c.pipe_->slot(), c.slot_info(counters::SlotState::connecting));
    return true;
}

void Port::let_channels_open(Connection& c, std::uint64_t token, std::uint16_t port) {
    ConnectionLife::Way way{.device = rdma_,
                            .local = *Address::parse(device_.function().address, 0),
                            .peer = c.remote_,
                            .request = {}};
    way.peer.set_port(port);
    wire::Request& request = way.request;
    request.magic = wire::magic;
    request.version = wire::version;
    request.size = sizeof(request);
    request.target = static_cast<std::uint8_t>(wire::Target::channel);
    std::memcpy(&request.domain, device_.domain()->id().bytes.data(), sizeof(request.domain));
    request.name = token;
    request.process_id = process_id();
    request.function = device_.function().id;
    request.side = static_cast<std::uint8_t>(device_.side());
    c.life_->open(way);
}

void Port::welcome(Connection& c, const ConnectDecision& decision) {
    wire::Welcome welcome{};
    welcome.process_id = process_id();
    welcome.pid = static_cast<std::uint64_t>(::getpid());
    welcome.token = c.token_;
    welcome.function = device_.function().id;
    welcome.port = tcp_port_;
    welcome.side = static_cast<std::uint8_t>(device_.side());
    welcome.code = static_cast<std::int8_t>(decision.code);
    welcome.private_length =
        static_cast<std::uint16_t>(std::min(decision.reply.size(), max_private_data));
    if (welcome.private_length != 0) {
        std::memcpy(welcome.private_data, decision.reply.data(), welcome.private_length);
    }
    (void)c.pipe_->put_plain(wire::Control::welcome, std::as_bytes(std::span(&welcome, 1)));
    if (decision.code != Errc::ok) {
        close(&c);
        return;
    }
    c.user_ = decision.user;
    c.state_ = Connection::State::established;
    counters_->describe_slot(c.pipe_->slot(), c.slot_info(counters::SlotState::connected));
}

bool Port::take_welcome(Connection& c, const wire::Welcome& welcome) {
    c.error_text_.clear(); // of an address that was tried before
    if (welcome.private_length > max_private_data || welcome.process_id == 0 || welcome.port == 0 ||
        welcome.side > 1) {
        return false;
    }
    // As for who connects (check_claim): it is whose address it has.
    const Function* const claimed = function_of(device_.domain()->description(),
                                                static_cast<Side>(welcome.side), welcome.function);
    if (claimed == nullptr || claimed->address != c.remote_.text()) {
        return false;
    }
    c.peer_.side = static_cast<Side>(welcome.side);
    c.peer_.function = welcome.function;
    c.peer_.process_id = welcome.process_id;
    c.peer_.pid = welcome.pid;
    if (static_cast<Errc>(welcome.code) != Errc::ok) {
        return true;
    }
    let_channels_open(c, welcome.token, welcome.port);
    if (c.peer_name_.empty()) {
        const Function* const function = device_.domain()->find_function(c.peer_.function);
        c.peer_name_ = function != nullptr ? function->name : std::string();
    }
    c.state_ = Connection::State::established;
    counters_->describe_slot(c.pipe_->slot(), c.slot_info(counters::SlotState::connected));
    return true;
}

// ---- ending ------------------------------------------------------------------------------------

void Port::close(Connection* connection) {
    Connection& c = *connection;
    if (c.state_ >= Connection::State::ended) {
        c.state_ = Connection::State::closed;
        retire(c, closed_);
        return;
    }
    c.drop_operations();
    c.state_ = Connection::State::closed;
    c.life_->end(Errc::not_connected);
    c.pipe_->say_goodbye();
    c.deadline_ns_ = monotonic_ns();
    if (c.pipe_->started()) {
        c.deadline_ns_ += tuning::close_timeout_ns;
    } else if (c.pipe_->sent() != 0) { // else there is nothing to deliver
        c.deadline_ns_ += tuning::unmade_close_timeout_ns;
    }
    counters_->release_slot(c.pipe_->slot(), counters::SlotState::closed);
    retire(c, closing_);
    slow_poll_.want();
}

void Port::shut_down(Connection& c, Errc code, Reason reason) {
    c.pipe_->break_off(code);
    c.life_->end(code);
    if (c.peer_.process_id != 0) {
        forget_imports_of(c.peer_.process_id);
    }
    tear_down(c);
    counters_->release_slot(c.pipe_->slot(), reason == Reason::closed
                                                 ? counters::SlotState::closed
                                                 : counters::SlotState::failed);
}

void Port::tear_down(Connection& c) noexcept {
    if (c.id_ && c.pipe_->started()) {
        (void)::rdma_disconnect(c.id_.get());
    }
    c.pipe_->stop();
    c.transfers_.clear();
    if (c.id_) {
        c.id_->context = nullptr; // what rdma_cm says of it is of no interest any more
        c.drain_deadline_ns_ = monotonic_ns() + tuning::drain_timeout_ns;
    }
    if (c.is_initiator_ && !c.pipe_->started()) {
        let_go(c); // the peer was never able to send
    }
    c.paused_ = false; // what still comes is not kept
    for (const Queues::Arrival& arrival : c.deferred_) {
        queues_->give_back(arrival.slot);
    }
    c.deferred_.clear();
    for (const auto& [id, event] : c.early_channels_) {
        refuse(id.get(), wire::Why::closing);
    }
    c.early_channels_.clear();
}

void Port::discard(Connection& c) {
    if (c.state_ < Connection::State::ended) {
        c.state_ = Connection::State::ended;
        shut_down(c, Errc::not_connected, Reason::closed);
    }
    close(&c);
}

void Port::retire(Connection& c, std::vector<std::unique_ptr<Connection>>& to) {
    const std::size_t index = c.index_;
    to.push_back(std::move(connections_[index]));
    if (index + 1 != connections_.size()) {
        connections_[index] = std::move(connections_.back());
        connections_[index]->index_ = index;
    }
    connections_.pop_back();
}

void Port::tend_closing() {
    const std::uint64_t now = monotonic_ns();
    for (std::size_t i = 0; i < closing_.size();) {
        Connection& c = *closing_[i];
        if (!c.peer_gone_ && now < c.deadline_ns_ && !c.pipe_->goodbye_arrived()) {
            ++i;
            continue;
        }
        tear_down(c);
        closed_.push_back(std::move(closing_[i]));
        closing_[i] = std::move(closing_.back());
        closing_.pop_back();
    }
}

void Port::let_go(Connection& c) noexcept {
    c.pipe_->detach();
    c.id_.reset();
}

void Port::free_closed() {
    if (closed_.empty()) {
        return;
    }
    // A queue pair that is destroyed while it holds buffers of the shared receive queue takes them
    // along, for good.
    if (rdma_ != nullptr) {
        rdma_->look_at_events();
    }
    const std::uint64_t now = monotonic_ns();
    std::erase_if(closed_, [&](const auto& c) {
        if (c->id_ && !c->pipe_->drained() && now < c->drain_deadline_ns_) {
            return false;
        }
        let_go(*c);
        std::erase(working_, c.get());
        std::erase(owing_, c.get());
        std::erase(gone_, c.get());
        return true;
    });
}

void Port::release_names() {
    for (const auto& listener : listeners_) {
        // Once: it may be somebody else's from then on.
        if (const std::string entry = std::exchange(listener->name_entry, {}); !entry.empty()) {
            (void)device_.domain()->remove_entry(entry);
        }
    }
}

void Port::abandon_device() {
    if (rdma_ == nullptr) {
        return;
    }
    rdma_->remove_bell(sleep_.fd());
    for (auto* list : {&connections_, &closing_, &closed_}) {
        for (const auto& c : *list) {
            c->transfers_.clear();
            c->deferred_.clear();
            c->early_channels_.clear();
            c->pipe_->abandon();
            c->id_.reset();
        }
    }
    release_names();
    listeners_.clear();
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rdma_->event_fd(), nullptr);
    tend_channels();
    queues_->abandon();
    rdma_.reset();
}

void Port::refuse_latecomers() {
    CmEvent event;
    while (cm_ && next_event(cm_, event)) {
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            CmId id(event.id);
            id->context = nullptr;
            wire::Request request{};
            Connection* parent = nullptr;
            const wire::Why why = judge(event, request, parent);
            refuse(id.get(), why != wire::Why::none ? why
                             : parent != nullptr    ? wire::Why::closing
                                                    : wire::Why::nobody);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            if (rdma_ != nullptr) {
                rdma_->set_gone();
            }
        } else if (event.id != nullptr && event.id->context != nullptr &&
                   static_cast<Watch*>(event.id->context)->kind == Watch::Kind::connection) {
            auto& c = *static_cast<Connection*>(static_cast<Watch*>(event.id->context)->object);
            if (take_event(c, event)) {
                c.deadline_ns_ = 0;
            }
        }
    }
}

Port::~Port() {
    if (owner_ != process_id()) {
        // A forked child: all of it is its parent's.
        (void)queues_.release();
        for (auto* list : {&connections_, &closing_, &closed_}) {
            for (auto& c : *list) {
                (void)c.release();
            }
        }
        for (auto& listener : listeners_) {
            (void)listener.release();
        }
        (void)new CmChannel(std::move(cm_));
        return;
    }
    if (rdma_ != nullptr && queues_ != nullptr) {
        refuse_latecomers();
        release_names();
        const bool had_connections = !connections_.empty();
        while (!connections_.empty()) {
            close(connections_.back().get());
        }
        const std::uint64_t latest = monotonic_ns() + tuning::unmade_last_words_ns;
        for (const auto& c : closing_) {
            if (!c->pipe_->started()) {
                c->deadline_ns_ = std::min(c->deadline_ns_, latest);
            }
        }
        for (;;) {
            refuse_latecomers();
            if (rdma_->gone()) {
                break;
            }
            (void)queues_->fetch();
            while (queues_->front() != nullptr) {
                queues_->pop();
            }
            tend_closing();
            if (closing_.empty()) {
                break;
            }
            ::usleep(20);
        }
        finish_channels(monotonic_ns() + tuning::close_timeout_ns / 20);
        if (had_connections) {
            // Who has just asked for a channel is told that this is an orderly end.
            ::usleep(tuning::latecomers_us);
            refuse_latecomers();
        }
        abandon_device();
    }
}

// ---- polling and sleeping ----------------------------------------------------------------------

void Port::return_credit(bool all) noexcept {
    calls_since_look_ = 0;
    for (std::size_t i = 0; i < owing_.size();) {
        Connection& c = *owing_[i];
        // What is owed longer than from the last look to this one was not taken along by anything.
        // Remembered for each connection by itself: one that is busy must not keep the others
        // waiting.
        if (c.returned_at_look_ != c.pipe_->returned()) {
            c.returned_at_look_ = c.pipe_->returned();
            c.owed_at_look_ = false;
        }
        if (c.state_ < Connection::State::ended &&
            (all || (c.pipe_->peer_waits() && c.owed_at_look_))) {
            c.pipe_->idle();
        }
        c.owed_at_look_ = c.pipe_->peer_waits();
        if (c.state_ >= Connection::State::ended || !c.pipe_->owes_credit()) {
            c.owing_ = false;
            owing_[i] = owing_.back();
            owing_.pop_back();
        } else {
            ++i;
        }
    }
}

bool Port::makes_or_ends_connections() const noexcept {
    // (One that is closed before it was accepted may stay so for a long time.)
    return std::any_of(closing_.begin(), closing_.end(),
                       [](const auto& c) { return c->pipe_->started(); }) ||
           std::any_of(connections_.begin(), connections_.end(),
                       [](const auto& c) { return c->state_ < Connection::State::established; });
}

Errc Port::arm(bool for_credit) {
    sleep_.get_up();
    sleep_.hear(); // it has been rung for the loss of the device, too
    drain(timer_.get());
    if (rdma_ == nullptr) {
        return Errc::ok; // nothing will ever come
    }
    return_credit(true);
    // Whatever ends the sleep, the next progress call looks at everything.
    slow_poll_.want();
    if (rdma_->gone() || !gone_.empty() || queues_->broken()) {
        return Errc::again;
    }
    const std::uint64_t fetched = queues_->fetched();
    bool awake = false;
    for (Connection* const c : working_) {
        if (c->state_ >= Connection::State::ended) {
            continue;
        }
        awake = awake || c->one_sided_.push_before_sleep() || c->push_transfers() ||
                (!c->transfers_.empty() && c->transfers_.front().remaining == 0 &&
                 c->pipe_->done(c->transfers_.front().last)) ||
                (!c->flushes_.empty() && c->flush_reached(*c->flushes_.front())) ||
                (!c->deferred_.empty() && !c->one_sided_.owes());
    }
    if (awake) {
        return Errc::again;
    }
    const auto lives = [](const auto& c) { return c->state_ < Connection::State::ended; };
    for (const auto& c : connections_) {
        if (lives(c)) {
            c->pipe_->arm(for_credit);
        }
    }
    // What was taken meanwhile may concern who had been looked at before, and causes no event.
    if (queues_->arm() != Errc::ok || queues_->fetched() != fetched) {
        return Errc::again;
    }
    for (const auto& c : connections_) {
        awake = awake || (lives(c) && c->pipe_->must_stay_awake(for_credit));
    }
    if (awake) {
        return Errc::again;
    }
    const bool leftovers = !closing_.empty() || !closed_.empty();
    const std::uint64_t wait_ns = leftovers ? 10'000'000 : tuning::keepalive_ns;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(wait_ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(wait_ns % 1'000'000'000);
    if (connections_.empty() && !leftovers) {
        when = {}; // nobody to lose
    }
    (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
    sleep_.fall_asleep();
    return Errc::ok;
}

} // namespace comch::link::verbs
