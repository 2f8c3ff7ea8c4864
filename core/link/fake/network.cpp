#include <atomic>
#include <cstring>

#include <sys/eventfd.h>

#include "core/link/fake/network_state.hpp"

namespace comch::link::fake {
namespace detail {

Bell::Bell() : fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::ring() noexcept {
    if (armed) {
        const std::uint64_t one = 1;
        (void)!::write(fd.get(), &one, sizeof(one));
        armed = false;
        for_credit = false;
    }
}

void Bell::quiet() noexcept {
    std::uint64_t value = 0;
    (void)!::read(fd.get(), &value, sizeof(value));
}

PortAddress address_of(std::uint64_t number) noexcept {
    PortAddress address{};
    std::memcpy(address.bytes.data(), &number, sizeof(number));
    return address;
}

std::uint64_t number_of(const PortAddress& address) noexcept {
    std::uint64_t number = 0;
    std::memcpy(&number, address.bytes.data(), sizeof(number));
    return number;
}

void ring(const std::shared_ptr<Bell>& bell) noexcept {
    if (bell) {
        bell->ring();
    }
}

void taken_out(Wire& wire, unsigned sender) noexcept {
    Lane& lane = wire.lane[sender];
    const std::shared_ptr<Bell>& bell = wire.bell[sender];
    // Who does not sleep yet is told by arm(), which finds `blocked`, and room.
    if (bell && bell->armed && (lane.blocked || bell->for_credit)) {
        lane.blocked = false;
        bell->ring();
    }
}

void ring_all(Wire& wire) noexcept {
    ring(wire.bell[0]);
    ring(wire.bell[1]);
    for (const std::weak_ptr<Wire>& child : wire.children) {
        if (const std::shared_ptr<Wire> alive = child.lock()) {
            ring_all(*alive);
        }
    }
}

std::shared_ptr<Wire> NetworkState::make_wire() {
    std::erase_if(wires, [](const std::weak_ptr<Wire>& wire) { return wire.expired(); });
    auto wire = std::make_shared<Wire>();
    wires.push_back(wire);
    return wire;
}

void NetworkState::step(std::uint64_t number) {
    const auto script = kill_after.find(number);
    if (script == kill_after.end()) {
        return;
    }
    if (script->second > 0) {
        --script->second;
        return;
    }
    if (Port* const p = port(number); p != nullptr && !p->killed_) {
        kill(*p);
    }
}

void NetworkState::kill(Port& dying) {
    dying.killed_ = true;
    ++kills;
    std::erase_if(services, [&](const auto& entry) { return entry.second == &dying; });
    for (Request& request : dying.requests_) {
        request.wire->dead[1] = true;
        ring(request.wire->bell[0]);
    }
    dying.requests_.clear();
    for (const std::weak_ptr<Wire>& weak : wires) {
        if (const std::shared_ptr<Wire> wire = weak.lock()) {
            for (const unsigned end : {0u, 1u}) {
                if (wire->port[end] == dying.number_) {
                    wire->dead[end] = true;
                    ring_all(*wire);
                }
            }
        }
    }
}

} // namespace detail

namespace {

// Which networks stand in for the real link of a domain.
std::mutex bound_mutex;
std::map<const Domain*, std::weak_ptr<detail::NetworkState>>& bound_networks() {
    static std::map<const Domain*, std::weak_ptr<detail::NetworkState>> networks;
    return networks;
}
std::atomic<unsigned> bound_count{0}; // so that real programs never take the mutex

} // namespace

Network::Network(const Settings& settings) : state_(std::make_shared<detail::NetworkState>()) {
    state_->settings = settings;
}

Network::Network(const std::shared_ptr<Domain>& domain, const Settings& settings)
    : Network(settings) {
    domain_ = domain.get();
    const std::lock_guard lock(bound_mutex);
    bound_networks()[domain_] = state_;
    bound_count.fetch_add(1, std::memory_order_relaxed);
}

Network::~Network() {
    if (domain_ != nullptr) {
        const std::lock_guard lock(bound_mutex);
        bound_networks().erase(domain_);
        bound_count.fetch_sub(1, std::memory_order_relaxed);
    }
}

std::uint64_t Network::buffer_stalls() const {
    const std::lock_guard lock(state_->mutex);
    std::uint64_t sum = 0;
    for (const std::weak_ptr<detail::Wire>& weak : state_->wires) {
        if (const std::shared_ptr<detail::Wire> wire = weak.lock()) {
            sum += wire->buffer_stalls[0].get() + wire->buffer_stalls[1].get();
        }
    }
    return sum;
}

bool Network::bound_to(const Domain& domain) noexcept {
    if (bound_count.load(std::memory_order_relaxed) == 0) [[likely]] {
        return false;
    }
    const std::lock_guard lock(bound_mutex);
    return bound_networks().contains(&domain);
}

Result<std::unique_ptr<Port>> Network::open_port(Side side, FunctionId function,
                                                 const PortOptions& options) {
    const std::lock_guard lock(state_->mutex);
    const std::uint64_t number = state_->next_port++;
    std::unique_ptr<Port> port(new Port(state_, number, side, function, options));
    state_->ports[number] = port.get();
    return port;
}

Result<std::unique_ptr<Port>> Port::open(const Device& device, const PortOptions& options) {
    std::shared_ptr<detail::NetworkState> network;
    {
        const std::lock_guard lock(bound_mutex);
        const auto found = bound_networks().find(device.domain().get());
        if (found != bound_networks().end()) {
            network = found->second.lock();
        }
    }
    if (!network) {
        return fail(Errc::bad_state, "no fake network is bound to domain '" +
                                         device.domain()->path() + "'; create one first");
    }
    const std::lock_guard lock(network->mutex);
    const std::uint64_t number = network->next_port++;
    std::unique_ptr<Port> port(
        new Port(network, number, device.side(), device.function().id, options));
    network->ports[number] = port.get();
    return port;
}

void Network::refuse_next_connect(Reason reason) {
    const std::lock_guard lock(state_->mutex);
    state_->refuse_next = reason;
}

void Network::hold(const PortAddress& address) {
    const std::lock_guard lock(state_->mutex);
    if (Port* const port = state_->port(detail::number_of(address))) {
        port->held_ = true;
    }
}

void Network::release(const PortAddress& address) {
    const std::lock_guard lock(state_->mutex);
    if (Port* const port = state_->port(detail::number_of(address))) {
        port->held_ = false;
        port->bell_->ring();
    }
}

void Network::kill(const PortAddress& address) {
    const std::lock_guard lock(state_->mutex);
    if (Port* const port = state_->port(detail::number_of(address))) {
        state_->kill(*port);
    }
}

void Network::kill_after(const PortAddress& address, unsigned steps) {
    const std::lock_guard lock(state_->mutex);
    state_->kill_after[detail::number_of(address)] = steps;
}

void Network::slow_down_devices(bool on) {
    const std::lock_guard lock(state_->mutex);
    state_->slow_devices = on;
}

unsigned Network::withdrawals() const {
    const std::lock_guard lock(state_->mutex);
    return state_->withdrawals;
}

unsigned Network::kills() const {
    const std::lock_guard lock(state_->mutex);
    return state_->kills;
}

void Network::again_on_send(unsigned n) {
    const std::lock_guard lock(state_->mutex);
    state_->again_in = n;
}

void Network::corrupt_send(unsigned n, std::size_t offset, std::byte mask) {
    const std::lock_guard lock(state_->mutex);
    state_->corrupt_in = n;
    state_->corrupt_offset = offset;
    state_->corrupt_mask = mask;
}

void Network::on_transit(std::function<void(Transit&)> hook) {
    const std::lock_guard lock(state_->mutex);
    state_->hook = std::move(hook);
}

void Network::disconnect(const PortAddress& address, Reason reason) {
    const std::uint64_t number = detail::number_of(address);
    const std::lock_guard lock(state_->mutex);
    for (const std::weak_ptr<detail::Wire>& weak : state_->wires) {
        const std::shared_ptr<detail::Wire> wire = weak.lock();
        if (wire && (wire->port[0] == number || wire->port[1] == number)) {
            wire->forced[0] = reason;
            wire->forced[1] = reason;
            detail::ring_all(*wire);
        }
    }
}

void Network::lose_device(const PortAddress& address) {
    disconnect(address, Reason::device_error);
    const std::lock_guard lock(state_->mutex);
    if (Port* const port = state_->port(detail::number_of(address))) {
        std::erase_if(state_->services, [&](const auto& entry) { return entry.second == port; });
        port->lost_.store(true, std::memory_order_release);
        port->bell_->ring();
    }
}

} // namespace comch::link::fake
