#include "core/link/fake/fake_link.hpp"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include <fmt/format.h>

#include "core/device/process_id.hpp"
#include "core/link/fake/network_state.hpp"
#include "core/memory/region_table.hpp"

namespace comch::link::fake {

using detail::Completion;
using detail::Lane;
using detail::Message;
using detail::Operation;
using detail::Request;
using detail::Wire;

namespace {

/// Why end `end` of a connection's wire is told that it ended; nothing while it lives.
std::optional<Reason> end_of(const Wire& wire, unsigned end) {
    if (wire.forced[end]) {
        return wire.forced[end];
    }
    if (wire.dead[1 - end]) {
        return Reason::peer_died;
    }
    if (wire.lane[1 - end].closed) {
        return Reason::closed;
    }
    return std::nullopt;
}

/// What changes the reader's memory and is not answered with a value.
bool has_writes(const Lane& lane) {
    return std::any_of(lane.queue.begin(), lane.queue.end(), [](const Message& message) {
        const Operation& operation = message.operation;
        return operation.kind == Operation::Kind::put ||
               (operation.kind == Operation::Kind::atomic && operation.atomic.result == nullptr);
    });
}

/// Messages that wait for more, at most.
constexpr std::size_t most_waiting = 15;

/// What waits is on its way.
void release(Wire& wire, unsigned end) {
    Lane& lane = wire.lane[end];
    if (!lane.waiting.empty()) {
        for (Message& message : lane.waiting) {
            if (message.from != nullptr) {
                std::memcpy(message.bytes.data(), message.from, message.bytes.size());
            }
        }
        std::move(lane.waiting.begin(), lane.waiting.end(), std::back_inserter(lane.queue));
        lane.waiting.clear();
        detail::ring(wire.bell[1 - end]);
    }
}

/// The state of end `end`, of a connection or of a channel under one.
Errc state_of(const Wire& wire, unsigned end) {
    if (wire.dead[end]) {
        return Errc::connection_reset; // we are dead ourselves
    }
    if (const std::optional<Reason> reason = end_of(wire, end)) {
        return status_after(*reason);
    }
    return Errc::ok;
}

Errc channel_state_of(const Wire& wire, unsigned end) {
    if (const Errc own = state_of(wire, end); own != Errc::ok) {
        return own;
    }
    const std::shared_ptr<Wire> parent = wire.parent.lock();
    if (!parent) {
        return Errc::not_connected;
    }
    const unsigned parent_end = end == 0 ? wire.parent_end : 1 - wire.parent_end;
    if (const Errc above = state_of(*parent, parent_end); above != Errc::ok) {
        return above;
    }
    return parent->lane[parent_end].closed ? Errc::not_connected : Errc::ok;
}

std::uint64_t load_word(const std::byte* at, std::uint8_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, size);
    return value;
}

std::uint64_t apply(const AtomicRequest& request, std::uint64_t old) {
    switch (request.op) {
    case AtomicOp::add:
        return old + request.operand;
    case AtomicOp::bit_and:
        return old & request.operand;
    case AtomicOp::bit_or:
        return old | request.operand;
    case AtomicOp::bit_xor:
        return old ^ request.operand;
    case AtomicOp::swap:
        return request.operand;
    case AtomicOp::compare_swap: {
        const std::uint64_t mask = request.size == 4 ? 0xffffffffu : ~std::uint64_t{0};
        return (old & mask) == (request.compare & mask) ? request.operand : old;
    }
    }
    return old;
}

/// The owner's CPU does what the requester asked. Answers what the requester is told.
/// The token of operations whose end is not reported.
char silent;

Errc perform(const Message& message) {
    const Operation& op = message.operation;
    if (op.kind == Operation::Kind::flush) {
        return Errc::ok;
    }
    const RegionTable::Pin pin = RegionTable::instance().pin(op.key.region);
    if (!pin) {
        return Errc::not_found;
    }
    const std::uint32_t access = op.kind == Operation::Kind::put   ? access_remote_write
                                 : op.kind == Operation::Kind::get ? access_remote_read
                                                                   : access_remote_atomic;
    std::byte* const at = pin.range(op.remote, op.length, access);
    if (at == nullptr) {
        return Errc::not_permitted;
    }
    switch (op.kind) {
    case Operation::Kind::put:
        std::memcpy(at, message.bytes.data(), op.length);
        break;
    case Operation::Kind::get:
        std::memcpy(op.local, at, op.length);
        break;
    case Operation::Kind::atomic: {
        const std::uint64_t old = load_word(at, op.atomic.size);
        const std::uint64_t updated = apply(op.atomic, old);
        std::memcpy(at, &updated, op.atomic.size);
        if (op.atomic.result != nullptr) {
            std::memcpy(op.atomic.result, &old, op.atomic.size);
        }
        break;
    }
    default:
        break;
    }
    return Errc::ok;
}

} // namespace

// ---- Sender -------------------------------------------------------------------------------------

const Limits& Sender::limits() const noexcept {
    return network_->settings.limits;
}

Errc Sender::reserve() {
    if (!wire_) {
        return Errc::not_connected;
    }
    const std::lock_guard lock(network_->mutex);
    network_->step(wire_->port[end_]);
    const bool is_channel = wire_->connection[end_] == nullptr;
    const Errc state = is_channel ? channel_state_of(*wire_, end_) : state_of(*wire_, end_);
    if (state != Errc::ok) {
        return state;
    }
    Lane& lane = wire_->lane[end_];
    const bool scripted = network_->again_in != 0 && --network_->again_in == 0;
    if (scripted || lane.queue.size() + lane.waiting.size() >= network_->settings.queue_depth) {
        lane.blocked = true;
        release(*wire_, end_);
        return Errc::again;
    }
    return Errc::ok;
}

void Sender::commit(std::uint8_t id, std::vector<std::byte> bytes, How how) {
    const std::lock_guard lock(network_->mutex);
    if (network_->hook) {
        Transit transit{.from = detail::address_of(wire_->port[end_]),
                        .id = id,
                        .bytes = bytes,
                        .channel = wire_->connection[end_] == nullptr};
        network_->hook(transit);
    }
    if (network_->corrupt_in != 0 && --network_->corrupt_in == 0 &&
        network_->corrupt_offset < bytes.size()) {
        bytes[network_->corrupt_offset] ^= network_->corrupt_mask;
        how.from = nullptr; // to stay so
    }
    Lane& lane = wire_->lane[end_];
    ++lane.sent;
    if (!lane.abandoned) {
        Message message;
        message.id = id;
        message.stamp = how.ordered ? ++network_->clock : 0;
        message.bytes = std::move(bytes);
        message.written = how.written;
        message.from = how.from;
        lane.waiting.push_back(std::move(message));
    }
    if (!how.more || lane.waiting.size() > most_waiting) {
        release(*wire_, end_);
    }
}

Errc Sender::send(std::uint8_t id, std::span<const std::byte> message, bool more) {
    const auto fill = [&](std::byte* to) {
        if (!message.empty()) {
            std::memcpy(to, message.data(), message.size());
        }
    };
    return send_inline(id, static_cast<std::uint32_t>(message.size()), fill, more);
}

std::uint64_t Sender::sent() const {
    const std::lock_guard lock(network_->mutex);
    return wire_->lane[end_].sent;
}

std::uint64_t Sender::confirmed() const {
    const std::lock_guard lock(network_->mutex);
    Lane& lane = wire_->lane[end_];
    lane.confirmed_seen = lane.confirmed;
    return lane.confirmed;
}

// ---- Channel ------------------------------------------------------------------------------------

Channel::Channel(std::shared_ptr<detail::NetworkState> network, std::shared_ptr<Wire> wire,
                 unsigned end)
    : Sender(std::move(network), std::move(wire), end) {
    // The bells are made with the wire, by open_channel().
}

Channel& Channel::operator=(Channel&& other) noexcept {
    if (this != &other) {
        close();
        network_ = std::move(other.network_);
        wire_ = std::move(other.wire_);
        end_ = other.end_;
        sent_from_ = other.sent_from_;
        told_ = other.told_;
    }
    return *this;
}

Channel::~Channel() {
    close();
}

void Channel::close() noexcept {
    if (!wire_) {
        return;
    }
    {
        const std::lock_guard lock(network_->mutex);
        release(*wire_, end_);
        wire_->lane[end_].closed = true;
        wire_->lane[1 - end_].abandoned = true;
        wire_->lane[1 - end_].queue.clear();
        detail::ring(wire_->bell[1 - end_]);
    }
    wire_.reset();
}

const Message* Channel::front() {
    if (!wire_) {
        return nullptr;
    }
    const std::lock_guard lock(network_->mutex);
    Lane& lane = wire_->lane[1 - end_];
    // The front stays where it is while the other end adds behind it.
    return lane.queue.empty() || wire_->dead[end_] ? nullptr : &lane.queue.front();
}

void Channel::pop() {
    const std::lock_guard lock(network_->mutex);
    network_->step(wire_->port[end_]);
    Lane& lane = wire_->lane[1 - end_];
    lane.queue.pop_front();
    ++lane.confirmed;
    detail::taken_out(*wire_, 1 - end_);
}

Errc Channel::write(const std::byte* from, std::uint32_t length, std::uint32_t, std::uint64_t to,
                    std::uint64_t remote_key) {
    const std::lock_guard lock(network_->mutex);
    network_->step(wire_->port[end_]);
    if (const Errc state = channel_state_of(*wire_, end_); state != Errc::ok) {
        return state;
    }
    const auto pin = RegionTable::instance().pin(remote_key);
    std::byte* const place = pin ? pin.range(to, length, access_remote_write) : nullptr;
    if (place == nullptr || wire_->lane[end_].abandoned) {
        return Errc::connection_reset; // as an RDMA device does
    }
    release(*wire_, end_);
    std::memcpy(place, from, length);
    return Errc::ok;
}

Errc Channel::write_and_send(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
                             std::uint64_t to, std::uint64_t remote_key, std::uint8_t id, Ticket&) {
    if (const Errc room = reserve(); room != Errc::ok) {
        return room;
    }
    const Errc result = write(from, length, local_key, to, remote_key);
    if (result == Errc::ok) {
        commit(id, {}, {.written = length});
    }
    return result;
}

Errc Channel::send_from(std::uint8_t id, const std::byte* from, std::uint32_t length, std::uint32_t,
                        bool tell, bool more, Ticket& ticket) {
    if (length > limits().max_message) {
        return Errc::too_big;
    }
    if (const Errc room = reserve(); room != Errc::ok) {
        return room;
    }
    commit(id, {from, from + length}, {.more = more, .from = from});
    ticket = ++sent_from_;
    told_ = tell ? ticket : told_;
    return Errc::ok;
}

bool Channel::written(Ticket ticket) const {
    const std::lock_guard lock(network_->mutex);
    return !network_->slow_devices && ticket <= told_ && wire_->lane[end_].waiting.empty();
}

void Channel::ring() noexcept {
    if (wire_) {
        const std::lock_guard lock(network_->mutex);
        release(*wire_, end_);
    }
}

bool Channel::claim(std::uint64_t place) {
    const std::lock_guard lock(network_->mutex);
    Lane& lane = wire_->lane[end_];
    lane.claimed = place;
    return lane.withdrawn < place;
}

std::optional<std::uint64_t> Channel::withdraw(std::uint64_t place) {
    const std::lock_guard lock(network_->mutex);
    Lane& lane = wire_->lane[1 - end_];
    if (lane.withdrawing != place) {
        lane.withdrawing = lane.withdrawn = place;
        ++network_->withdrawals;
        return std::nullopt; // the answer takes a moment, as a device's
    }
    lane.withdrawing = 0;
    return lane.claimed;
}

void Channel::cut() noexcept {
    const std::lock_guard lock(network_->mutex);
    wire_->lane[end_].waiting.clear();
    wire_->lane[1 - end_].abandoned = true;
}

int Channel::event_fd() const noexcept {
    return wire_->bell[end_]->fd.get();
}

Errc Channel::arm() {
    const std::lock_guard lock(network_->mutex);
    Lane& out = wire_->lane[end_];
    release(*wire_, end_);
    const bool room = out.blocked && out.queue.size() < network_->settings.queue_depth;
    if (!wire_->lane[1 - end_].queue.empty() || room ||
        channel_state_of(*wire_, end_) != Errc::ok) {
        out.blocked = out.blocked && !room;
        return Errc::again;
    }
    wire_->bell[end_]->quiet();
    wire_->bell[end_]->armed = true;
    return Errc::ok;
}

bool Channel::peer_gone() {
    if (!wire_) {
        return true;
    }
    const std::lock_guard lock(network_->mutex);
    return channel_state_of(*wire_, end_) != Errc::ok;
}

Errc Channel::check() {
    if (!wire_) {
        return Errc::not_connected;
    }
    const std::lock_guard lock(network_->mutex);
    if (!wire_->lane[1 - end_].queue.empty() && !wire_->dead[end_]) {
        return Errc::ok;
    }
    return channel_state_of(*wire_, end_);
}

// ---- Connection ---------------------------------------------------------------------------------

bool Connection::established() const {
    const std::lock_guard lock(network_->mutex);
    return stage_ == Stage::established;
}

std::optional<Reason> Connection::ended() const {
    return end_of(*wire_, end_);
}

Errc Connection::send_ordered(std::uint8_t id, std::span<const std::byte> message) {
    if (message.size() > limits().max_message) {
        return Errc::too_big;
    }
    if (const Errc room = reserve(); room != Errc::ok) {
        return room;
    }
    commit(id, {message.begin(), message.end()}, {.ordered = true});
    return Errc::ok;
}

Errc Connection::operate(Operation operation, std::span<const std::byte> bytes) {
    if (const Errc room = reserve(); room != Errc::ok) {
        return room;
    }
    const std::lock_guard lock(network_->mutex);
    if (wire_->outstanding[end_].size() >= network_->settings.limits.max_one_sided_in_flight) {
        return Errc::again;
    }
    wire_->outstanding[end_].push_back(operation.token);
    Message message;
    message.operation = operation;
    message.bytes.assign(bytes.begin(), bytes.end());
    outgoing().queue.push_back(std::move(message));
    detail::ring(wire_->bell[1 - end_]);
    return Errc::in_progress;
}

Errc Connection::put(const void* local, std::size_t length, RemoteRegion& region,
                     std::uint64_t remote, void* token, LocalMemory) {
    if (!region.contains(remote, length)) {
        return Errc::invalid_argument;
    }
    Operation operation;
    operation.kind = Operation::Kind::put;
    operation.key = region.key();
    operation.remote = remote;
    operation.length = length;
    operation.token = token;
    return operate(operation, {static_cast<const std::byte*>(local), length});
}

Errc Connection::put_copy(const void* local, std::size_t length, RemoteRegion& region,
                          std::uint64_t remote) {
    const Errc result = put(local, length, region, remote, &silent); // which copies always
    return result == Errc::in_progress ? Errc::ok : result;
}

Errc Connection::get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t remote,
                     void* token, LocalMemory) {
    if (!region.contains(remote, length)) {
        return Errc::invalid_argument;
    }
    Operation operation;
    operation.kind = Operation::Kind::get;
    operation.key = region.key();
    operation.remote = remote;
    operation.local = local;
    operation.length = length;
    operation.token = token;
    return operate(operation, {});
}

Errc Connection::atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t remote,
                        void* token) {
    if ((request.size != 4 && request.size != 8) || remote % request.size != 0 ||
        !region.contains(remote, request.size)) {
        return Errc::invalid_argument;
    }
    Operation operation;
    operation.kind = Operation::Kind::atomic;
    operation.atomic = request;
    operation.key = region.key();
    operation.remote = remote;
    operation.length = request.size;
    operation.token = token;
    return operate(operation, {});
}

Errc Connection::flush(void* token) {
    {
        const std::lock_guard lock(network_->mutex);
        if (const Errc state = state_of(*wire_, end_); state != Errc::ok) {
            return state;
        }
        // (What is refused is told of before.)
        if (outgoing().queue.empty() && outgoing().sent == outgoing().confirmed &&
            wire_->outstanding[end_].empty() && wire_->completions[end_].empty()) {
            return Errc::ok;
        }
    }
    if (token == nullptr) {
        return Errc::in_progress; // not remembered
    }
    Operation operation;
    operation.kind = Operation::Kind::flush;
    operation.token = token;
    return operate(operation, {});
}

Errc Connection::check() {
    const std::lock_guard lock(network_->mutex);
    return wire_->dead[end_] || wire_->dead[1 - end_] ? Errc::connection_reset : Errc::ok;
}

bool Connection::lost_writes() const {
    const std::lock_guard lock(network_->mutex);
    return outgoing().lost_writes || has_writes(outgoing());
}

Result<Channel> Connection::open_channel(std::uint64_t tag) {
    const std::lock_guard lock(network_->mutex);
    if (const Errc state = state_of(*wire_, end_); state != Errc::ok) {
        return fail(state, "cannot open a channel: the connection has ended");
    }
    const std::shared_ptr<Wire> wire = network_->make_wire();
    wire->port[0] = wire_->port[end_];
    wire->port[1] = wire_->port[1 - end_];
    wire->bell[0] = std::make_shared<detail::Bell>();
    wire->bell[1] = std::make_shared<detail::Bell>();
    wire->parent = wire_;
    wire->parent_end = end_;
    wire_->children.push_back(wire);
    if (Connection* const peer = wire_->connection[1 - end_]) {
        peer->channels_.push_back({tag, wire});
        detail::ring(wire_->bell[1 - end_]);
    } else {
        wire_->early_channels.push_back({tag, wire});
    }
    return Channel(network_, wire, 0);
}

// ---- Port ---------------------------------------------------------------------------------------

Port::Port(std::shared_ptr<detail::NetworkState> network, std::uint64_t number, Side side,
           FunctionId function, PortOptions options)
    : network_(std::move(network)), number_(number), side_(side), function_(function),
      options_(std::move(options)), bell_(std::make_shared<detail::Bell>()) {}

Port::~Port() {
    while (!connections_.empty()) {
        close(connections_.back().get());
    }
    const std::lock_guard lock(network_->mutex);
    std::erase_if(network_->services, [this](const auto& entry) { return entry.second == this; });
    network_->ports.erase(number_);
    for (const Request& request : requests_) {
        if (Connection* const initiator = request.wire->connection[0]) {
            initiator->refused_ = Reason::not_found;
            detail::ring(request.wire->bell[0]);
        }
    }
}

PortAddress Port::address() const noexcept {
    return detail::address_of(number_);
}

const Limits& Port::limits() const noexcept {
    return network_->settings.limits;
}

unsigned Port::budget() const noexcept {
    return network_->settings.progress_budget;
}

Result<void> Port::listen(const ServiceName& service) {
    if (auto checked = check_service_name(service.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    const std::lock_guard lock(network_->mutex);
    const bool added =
        network_->services.try_emplace({service.function, service.name}, this).second;
    if (!added) {
        return fail(Errc::in_use, fmt::format("a server named '{}' exists already on function {}; "
                                              "stop it or choose another name",
                                              service.name, service.function));
    }
    return {};
}

void Port::unlisten(const ServiceName& service) {
    const std::lock_guard lock(network_->mutex);
    const auto found = network_->services.find({service.function, service.name});
    if (found != network_->services.end() && found->second == this) {
        network_->services.erase(found);
    }
}

Result<Connection*> Port::connect(const PortAddress& address,
                                  std::span<const std::byte> private_data, void* user) {
    const std::lock_guard lock(network_->mutex);
    Request request;
    request.data.assign(private_data.begin(), private_data.end());
    Port* target = network_->port(detail::number_of(address));
    return start_connect(target, std::move(request), "the port's address", user);
}

Result<Connection*> Port::connect(const ServiceName& service,
                                  std::span<const std::byte> private_data, void* user) {
    if (auto checked = check_service_name(service.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    const std::lock_guard lock(network_->mutex);
    Request request;
    request.service = service.name;
    request.function = service.function;
    request.data.assign(private_data.begin(), private_data.end());
    const auto found = network_->services.find({service.function, service.name});
    Port* const target = found == network_->services.end() ? nullptr : found->second;
    return start_connect(target, std::move(request), service.name, user);
}

Result<Connection*> Port::start_connect(Port* target, Request request, std::string_view what,
                                        void* user) {
    if (auto checked = check_private_data(request.data.size()); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    if (target == nullptr || target->killed_) {
        return fail(Errc::not_found, fmt::format("nobody listens at {}", what));
    }
    const std::shared_ptr<Wire> wire = network_->make_wire();
    connections_.push_back(std::unique_ptr<Connection>(new Connection(network_, wire, 0, user)));
    Connection* const connection = connections_.back().get();
    connection->peer_ = {.side = target->side_, .function = target->function_};
    wire->port[0] = number_;
    wire->port[1] = target->number_;
    wire->bell[0] = bell_;
    wire->connection[0] = connection;
    if (network_->refuse_next) {
        connection->refused_ = *std::exchange(network_->refuse_next, std::nullopt);
        return connection;
    }
    request.wire = wire;
    request.peer = {.side = side_,
                    .function = function_,
                    .process_id = process_id() + number_,
                    .pid = static_cast<std::uint64_t>(::getpid())};
    target->requests_.push_back(std::move(request));
    target->bell_->ring();
    return connection;
}

void Port::close(Connection* connection) {
    {
        const std::lock_guard lock(network_->mutex);
        Wire& wire = *connection->wire_;
        const unsigned end = connection->end_;
        wire.lane[end].closed = true;
        Lane& incoming = wire.lane[1 - end];
        incoming.abandoned = true;
        incoming.lost_writes = has_writes(incoming);
        incoming.queue.clear();
        wire.connection[end] = nullptr;
        wire.bell[end].reset();
        detail::ring_all(wire);
    }
    bury(*connection);
}

void Port::bury(Connection& connection) {
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [&](const auto& owned) { return owned.get() == &connection; });
    if (found == connections_.end()) {
        return;
    }
    if (in_progress_) {
        graveyard_.push_back(std::move(*found));
    }
    connections_.erase(found);
}

void Port::serve(Connection& connection) {
    Lane& lane = connection.incoming();
    while (!lane.queue.empty() && lane.queue.front().operation.kind != Operation::Kind::none) {
        const Message message = std::move(lane.queue.front());
        lane.queue.pop_front();
        const Errc status = perform(message);
        const unsigned requester = 1 - connection.end_;
        std::vector<void*>& outstanding = connection.wire_->outstanding[requester];
        const auto found =
            std::find(outstanding.begin(), outstanding.end(), message.operation.token);
        if (found != outstanding.end()) {
            outstanding.erase(found);
            if (message.operation.token != &silent) {
                connection.wire_->completions[requester].push_back(
                    {message.operation.token, status});
            }
            detail::ring(connection.wire_->bell[requester]);
        }
        detail::taken_out(*connection.wire_, requester);
    }
}

bool Port::next(Event& event) {
    const std::lock_guard lock(network_->mutex);
    network_->step(number_);
    if (held_ || killed_) {
        return false;
    }
    while (!requests_.empty()) {
        event.request = std::move(requests_.front());
        requests_.pop_front();
        Wire& wire = *event.request.wire;
        if (wire.dead[0]) {
            continue; // the initiator's process is gone
        }
        connections_.push_back(
            std::unique_ptr<Connection>(new Connection(network_, event.request.wire, 1, nullptr)));
        event.connection = connections_.back().get();
        event.connection->peer_ = event.request.peer;
        wire.bell[1] = bell_;
        wire.connection[1] = event.connection;
        std::swap(event.connection->channels_, wire.early_channels);
        event.kind = Event::Kind::request;
        return true;
    }
    for (const auto& owned : connections_) {
        Connection& c = *owned;
        event.connection = &c;
        if (c.refused_) {
            event.kind = Event::Kind::disconnected;
            event.reason = *c.refused_;
            event.data = std::move(c.refusal_);
            c.refused_.reset();
            c.stage_ = Connection::Stage::ended;
            return true;
        }
        if (c.accepted_) {
            event.kind = Event::Kind::connected;
            event.data = std::move(*c.accepted_);
            c.accepted_.reset();
            c.stage_ = Connection::Stage::established;
            return true;
        }
        std::deque<Completion>& completions = c.wire_->completions[c.end_];
        if (!completions.empty() && c.stage_ == Connection::Stage::established) {
            event.kind = Event::Kind::complete;
            event.completion = completions.front();
            completions.pop_front();
            return true;
        }
        if (!c.channels_.empty() && c.stage_ == Connection::Stage::established) {
            event.kind = Event::Kind::channel;
            event.channel = std::move(c.channels_.front());
            c.channels_.pop_front();
            return true;
        }
    }
    return next_message(event) || next_end(event);
}

bool Port::next_message(Event& event) {
    Connection* chosen = nullptr;
    for (const auto& owned : connections_) {
        Connection& c = *owned;
        if (c.stage_ != Connection::Stage::established) {
            continue;
        }
        serve(c);
        if (c.incoming().queue.empty()) {
            continue;
        }
        if (!options_.arrival_order) {
            // One connection after the other: nobody may rely on anything better.
            chosen = chosen != nullptr ? chosen : &c;
        } else if (chosen == nullptr ||
                   c.incoming().queue.front().stamp < chosen->incoming().queue.front().stamp) {
            chosen = &c;
        }
    }
    if (chosen == nullptr) {
        return false;
    }
    event.kind = Event::Kind::message;
    event.connection = chosen;
    event.message = std::move(chosen->incoming().queue.front());
    chosen->incoming().queue.pop_front();
    return true;
}

bool Port::next_end(Event& event) {
    for (const auto& owned : connections_) {
        Connection& c = *owned;
        if (c.stage_ == Connection::Stage::ended) {
            continue;
        }
        const std::optional<Reason> reason = c.ended();
        if (!reason) {
            continue;
        }
        event.connection = &c;
        std::vector<void*>& outstanding = c.wire_->outstanding[c.end_];
        std::erase(outstanding, static_cast<void*>(&silent));
        if (!outstanding.empty()) {
            event.kind = Event::Kind::complete;
            event.completion = {outstanding.front(), status_after(*reason)};
            outstanding.erase(outstanding.begin());
            return true;
        }
        event.kind = Event::Kind::disconnected;
        event.reason = *reason;
        event.data.clear();
        c.stage_ = Connection::Stage::ended;
        return true;
    }
    return false;
}

bool Port::anything() const {
    if (held_ || killed_) {
        return false;
    }
    if (!requests_.empty()) {
        return true;
    }
    return std::any_of(connections_.begin(), connections_.end(), [](const auto& owned) {
        const Connection& c = *owned;
        if (c.refused_ || c.accepted_) {
            return true;
        }
        const bool established = c.stage_ == Connection::Stage::established;
        return (established && (!c.wire_->completions[c.end_].empty() || !c.channels_.empty() ||
                                !c.incoming().queue.empty())) ||
               (c.stage_ != Connection::Stage::ended && c.ended().has_value());
    });
}

Errc Port::arm(bool for_credit) {
    const std::lock_guard lock(network_->mutex);
    bool news = false;
    for (const auto& owned : connections_) {
        Lane& lane = owned->outgoing();
        if (lane.blocked && lane.queue.size() < network_->settings.queue_depth) {
            lane.blocked = false;
            news = true;
        }
        // Once: who looks only after its sleep has been told.
        if (for_credit && std::exchange(lane.confirmed_seen, lane.confirmed) != lane.confirmed) {
            news = true;
        }
    }
    if (news || anything() || (lost_ && !loss_seen_)) {
        return Errc::again;
    }
    bell_->quiet();
    bell_->armed = true;
    bell_->for_credit = for_credit;
    return Errc::ok;
}

void Port::wake() noexcept {
    const std::lock_guard lock(network_->mutex);
    bell_->ring();
}

void Port::decide(Event& event, const ConnectDecision& decision) {
    Connection& accepted = *event.connection;
    bool refused = false;
    {
        const std::lock_guard lock(network_->mutex);
        Wire& wire = *accepted.wire_;
        Connection* const initiator = wire.connection[0];
        if (decision.code == Errc::ok) {
            accepted.user_ = decision.user;
            accepted.stage_ = Connection::Stage::established;
            if (initiator != nullptr) {
                initiator->accepted_.emplace(decision.reply.begin(), decision.reply.end());
                initiator->peer_.process_id = process_id() + number_;
                initiator->peer_.pid = static_cast<std::uint64_t>(::getpid());
            }
        } else {
            refused = true;
            wire.connection[1] = nullptr;
            wire.bell[1].reset();
            if (initiator != nullptr) {
                initiator->refused_ = Reason::rejected;
                initiator->refusal_.assign(decision.reply.begin(), decision.reply.end());
            }
        }
        detail::ring(wire.bell[0]);
    }
    if (refused) {
        bury(accepted);
    }
}

void Port::confirm(Connection& connection) {
    const std::lock_guard lock(network_->mutex);
    Wire& wire = *connection.wire_;
    const unsigned sender = 1 - connection.end_;
    ++wire.lane[sender].confirmed;
    detail::taken_out(wire, sender);
}

} // namespace comch::link::fake
