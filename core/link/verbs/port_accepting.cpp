// How a port is connected to.
#include "core/link/verbs/port.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/clock.hpp"
#include "core/link/verbs/admission.hpp"
#include "core/link/verbs/conn_param.hpp"

namespace comch::link::verbs {

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

} // namespace comch::link::verbs
