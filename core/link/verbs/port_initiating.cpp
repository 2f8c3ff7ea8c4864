// How a port connects to another.
#include "core/link/verbs/port.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/clock.hpp"
#include "core/link/verbs/admission.hpp"
#include "core/link/verbs/conn_param.hpp"
#include "core/link/verbs/names.hpp"

namespace comch::link::verbs {

bool Port::may_be_of(const PortAddress& address, const PeerInfo& peer) noexcept {
    const PortName name = name_of(address);
    return name.function == peer.function && name.side == static_cast<std::uint8_t>(peer.side);
}

Result<Connection*> Port::connect(const PortAddress& to, std::span<const std::byte> private_data,
                                  void* user) {
    const PortName name = name_of(to);
    const Function* const function = function_of(device_.domain()->description(),
                                                 static_cast<Side>(name.side & 1), name.function);
    const auto address =
        function == nullptr ? std::nullopt : Address::parse(function->address, name.port);
    if (!address) {
        return fail(Errc::not_found,
                    fmt::format("the peer's function {:#x} has no address in domain description "
                                "'{}'; both sides must be given the same functions",
                                name.function, device_.domain()->description().source));
    }
    wire::Request request{};
    request.target = static_cast<std::uint8_t>(wire::Target::port);
    request.name = name.number;
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

} // namespace comch::link::verbs
