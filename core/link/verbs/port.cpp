#include "core/link/verbs/port.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/clock.hpp"
#include "core/base/ticks.hpp"
#include "core/device/function.hpp"
#include "core/link/bell.hpp"
#include "core/link/verbs/names.hpp"

namespace comch::link::verbs {

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
    address_ = make_port_address({.number = number_,
                                  .function = device_.function().id,
                                  .port = tcp_port_,
                                  .side = static_cast<std::uint8_t>(device_.side()),
                                  .reserved = 0});
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    (void)sleep_.make(options_.shared); // looked at below, with the others
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
    SleepBell::Arming arming(sleep_);
    sleep_.hear(); // it has been rung for the loss of the device, too
    drain(timer_.get());
    if (rdma_ == nullptr) {
        arming.fall_asleep(); // nothing will ever come, unless somebody calls wake()
        return Errc::ok;
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
                c->has_closed_windows() || (!c->deferred_.empty() && !c->one_sided_.owes());
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
    arming.fall_asleep();
    return Errc::ok;
}

} // namespace comch::link::verbs
