#include "core/link/soft/port.hpp"

#include <atomic>
#include <cerrno>

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/make_room.hpp"
#include "core/base/ticks.hpp"
#include "core/device/function.hpp"
#include "core/link/soft/membarrier.hpp"
#include "core/link/soft/names.hpp"
#include "core/link/soft/peer_process.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {
namespace {

std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> number{1};
    return number.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

// ---- opening and closing -----------------------------------------------------------------------

Port::Port(const Device& device, PortOptions options)
    : options_(std::move(options)), device_(device),
      events_(sizeof(epoll_event) * static_cast<std::size_t>(event_batch)) {}

Result<std::unique_ptr<Port>> Port::open(const Device& device, PortOptions options) {
    std::unique_ptr<Port> port(new Port(device, std::move(options)));
    auto counters = ProcessCounters::open(device.domain());
    if (!counters) {
        return tl::unexpected(counters.error());
    }
    port->counters_ = std::move(*counters);
    port->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    port->process_ = process_of_ours();
    port->keep_spare();
    if (!port->epoll_ || !port->process_ || !port->spare_ ||
        !port->sleep_.make(port->options_.shared) ||
        !port->watch(port->sleep_.fd(), port->bell_watch_)) {
        return fail_errno(Errc::no_memory, "cannot create the descriptors of a port", errno);
    }
    port->membarrier_ = membarrier_register();
    port->address_ = make_port_address(process_id(), next_number());
    if (auto listener = port->add_listener(port_entry(port->address_)); !listener) {
        return tl::unexpected(listener.error());
    }
    return port;
}

Port::~Port() {
    if (owner_ != process_id()) {
        return; // a forked child: the sockets, the files and what is shared are its parent's
    }
    for (const auto& listener : listeners_) {
        if (!listener->name_entry.empty()) {
            (void)device_.domain()->remove_entry(listener->name_entry);
        }
        (void)device_.domain()->remove_entry(listener->entry);
    }
    meet_latecomers();
    while (!connections_.empty()) {
        close(connections_.back().get());
    }
}

Result<Port::Listener*> Port::add_listener(std::string entry) {
    make_room(listeners_);
    closed_listeners_.reserve(closed_listeners_.size() + listeners_.capacity());
    auto listener = std::make_unique<Listener>();
    listener->entry = std::move(entry);
    listener->socket = make_socket();
    int error = !listener->socket
                    ? errno
                    : bind_to(listener->socket.get(), *device_.domain(), listener->entry);
    if (error == 0 && (::listen(listener->socket.get(), 4096) != 0 ||
                       !watch(listener->socket.get(), listener->watch))) {
        error = errno;
    }
    if (error != 0) {
        return fail_errno(Errc::io,
                          fmt::format("cannot listen on socket '{}' in domain directory '{}'",
                                      listener->entry, device_.domain()->path()),
                          error);
    }
    listeners_.push_back(std::move(listener));
    return listeners_.back().get();
}

Result<void> Port::listen(const ServiceName& service) {
    const Domain& domain = *device_.domain();
    if (auto checked = check_service_name(service.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    auto added = add_listener(service_entry(process_id(), next_number()));
    if (!added) {
        return tl::unexpected(added.error());
    }
    const auto give_up = [&] {
        (void)domain.remove_entry(listeners_.back()->entry);
        listeners_.pop_back();
    };
    try {
        Result<void> named = take_name(**added, service);
        if (!named) {
            give_up();
        }
        return named;
    } catch (...) {
        give_up();
        throw;
    }
}

Result<void> Port::take_name(Listener& listener, const ServiceName& service) {
    const Domain& domain = *device_.domain();
    std::string name = name_entry(service.function, service.name);
    ServiceName taken = service;
    const auto lock = domain.lock();
    if (!lock) {
        return tl::unexpected(lock.error());
    }
    while (::symlinkat(listener.entry.c_str(), domain.directory_fd(), name.c_str()) != 0) {
        if (errno != EEXIST) {
            const int error = errno;
            return fail_errno(
                Errc::io,
                fmt::format("cannot create '{}' in domain directory '{}'", name, domain.path()),
                error);
        }
        // Somebody has the name, or died with it.
        const UniqueFd probe = make_socket();
        const int error = connect_to(probe.get(), domain, name);
        if (error != ECONNREFUSED && error != ENOENT && owner_lives(domain, name)) {
            return fail(Errc::in_use,
                        fmt::format("a server named '{}' is already listening for function "
                                    "{}; stop it or choose another name",
                                    service.name, function_name(domain, service.function)));
        }
        (void)domain.remove_entry(name);
    }
    listener.name_entry = std::move(name);
    listener.service = std::move(taken);
    return {};
}

void Port::unlisten(const ServiceName& service) {
    const auto it = std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& listener) {
        return !listener->name_entry.empty() && listener->service.function == service.function &&
               listener->service.name == service.name;
    });
    if (it == listeners_.end()) {
        return;
    }
    (void)device_.domain()->remove_entry((*it)->name_entry);
    (void)device_.domain()->remove_entry((*it)->entry);
    accept_all_strangers(**it); // who has just connected is told that nobody listens, not reset
    unwatch((*it)->socket.get());
    (*it)->socket.reset();
    // Freed by the next slow poll: its event may be among those that are being handled.
    closed_listeners_.push_back(std::move(*it));
    listeners_.erase(it);
}

void Port::close(Connection* connection) {
    Connection& c = *connection;
    if (c.state_ < Connection::State::ended && owner_ == process_id()) { // else it is a parent's
        // A last attempt: what was sent early is still to be delivered.
        try {
            if (!c.hello_.empty()) {
                (void)try_connect(c);
            } else if (!c.answer_.empty()) {
                (void)send_answer(c);
            }
        } catch (const std::bad_alloc&) {
            // Its text, if it has failed.
        }
        shut_down(c, Errc::not_connected, Reason::closed);
    }
    c.state_ = Connection::State::closed;
    // Freed by the next slow poll: the caller may be inside a callback of this very connection.
    const std::size_t index = c.index_;
    closed_.push_back(std::move(connections_[index]));
    if (index + 1 != connections_.size()) {
        connections_[index] = std::move(connections_.back());
        connections_[index]->index_ = index;
    }
    connections_.pop_back();
}

void Port::shut_down(Connection& c, Errc code, Reason reason) {
    no_longer_unanswered(c);
    c.one_sided_.stop_copying(); // while the peer can be looked at
    if (c.pipe_.rx().control() != nullptr) {
        c.pipe_.rx().confirm();           // who answers a message by closing has had it
        (void)c.pipe_.rx().return_rest(); // what was not taken out is lost: its sender can tell
        c.pipe_.say_goodbye();
    }
    c.pipe_.break_off(code);
    c.pipe_.set_socket_ready(false); // its number will be somebody else's
    c.pipe_.peer_memory().forget();
    c.life_->end(code);
    for (const auto& asked : c.asked_) {
        asked.import->give_back_request();
    }
    c.asked_.clear();
    if (c.peer_.process_id != 0) {
        forget_imports_of(c.peer_.process_id);
    }
    make_cold(c);
    if (c.socket_) {
        unwatch(c.socket_.get());
        // A forked child may hold the socket open: closing it alone would not reach the peer.
        (void)::shutdown(c.socket_.get(), SHUT_RDWR);
    }
    if (c.process_) {
        unwatch(c.process_.get());
    }
    c.socket_.reset();
    c.process_.reset();
    c.memfd_.reset();
    c.hello_.clear();
    if (counters::Slot* slot = c.pipe_.slot(); slot != nullptr) {
        counters_->release_slot(slot, reason == Reason::closed ? counters::SlotState::closed
                                                               : counters::SlotState::failed);
    }
}

void Port::free_closed() {
    for (const auto& c : closed_) {
        if (c->working_) {
            std::erase(working_, c.get());
        }
    }
    closed_.clear();
    closed_listeners_.clear();
}

Connection* Port::new_connection() {
    // Here, so that nothing that happens to a connection has to find memory for its place in a list.
    make_room(connections_);
    make_room_for_all(hot_, connections_);
    const std::size_t all = connections_.capacity() + closed_.size(); // which are freed later
    working_.reserve(all);
    closed_.reserve(all);
    std::unique_ptr<Connection> connection(new Connection);
    connection->port_ = this;
    connection->index_ = connections_.size();
    connections_.push_back(std::move(connection));
    return connections_.back().get();
}

void Port::discard(Connection& c) {
    c.hello_.clear(); // no last attempt
    close(&c);
}

// ---- the hot and the working list --------------------------------------------------------------

void Port::make_hot(Connection& c) {
    if (!c.hot_) {
        c.hot_ = true;
        hot_.push_back(&c);
    }
    if (c.resting_) {
        c.resting_ = false;
        --resting_;
    }
}

void Port::make_cold(Connection& c) {
    if (c.hot_) {
        c.hot_ = false;
        std::erase(hot_, &c);
    }
    if (c.resting_) {
        c.resting_ = false;
        --resting_;
    }
}

void Port::rest_quiet_rings() {
    if (slow_poll_.now_ns() - last_rest_ns_ < tuning::rest_check_ns) {
        return;
    }
    last_rest_ns_ = slow_poll_.now_ns();
    std::size_t asked = 0;
    const std::size_t most = hot_.size() - tuning::always_hot;
    for (Connection* const c : hot_) {
        const std::uint64_t position = c->pipe_.rx().position();
        if (position != c->rest_position_ || c->state_ != Connection::State::established ||
            c->working_ || c->paused_ || c->peer_gone_) {
            c->rest_position_ = position;
            c->quiet_looks_ = 0;
        } else if (++c->quiet_looks_ >= c->rest_after_ && asked < most) {
            ++asked;
            c->resting_ = true;
            c->pipe_.ask_for_doorbell();
        }
    }
    if (asked == 0) {
        return;
    }
    // From here on every writer sees that it is asked; what was published before is there now.
    const bool seen_by_all = membarrier_all();
    std::erase_if(hot_, [&](Connection* const c) {
        if (c->resting_ && (!seen_by_all || c->pipe_.rx().ready())) {
            take_back_doorbell(*c);
            c->resting_ = false;
            c->quiet_looks_ = 0;
        }
        if (c->resting_) {
            c->hot_ = false;
            c->rest_since_ns_ = slow_poll_.now_ns();
            ++resting_;
        }
        return c->resting_;
    });
}

void Port::take_back_doorbell(Connection& c) noexcept {
    c.pipe_.take_back_doorbell();
    sleep_.wake_others(); // who sleeps asked for it, too
}

void Port::wake_ring(Connection& c) {
    if (!c.resting_) {
        return;
    }
    // One that is always woken soon after costs its writer a system call each time: it is left
    // alone for longer.
    const std::uint64_t rested = slow_poll_.now_ns() - c.rest_since_ns_;
    c.rest_after_ = rested < 16 * c.rest_after_ * tuning::rest_check_ns
                        ? std::min(2 * c.rest_after_, tuning::max_rest_after)
                        : 1;
    c.quiet_looks_ = 0;
    take_back_doorbell(c);
    make_hot(c);
}

void Port::wake_all_rings() {
    for (const auto& c : connections_) {
        wake_ring(*c);
    }
}

bool Port::has_work(const Connection& c) noexcept {
    if (c.state_ >= Connection::State::ended) {
        return false;
    }
    return c.state_ == Connection::State::connecting || c.one_sided_.busy() ||
           !c.map_requests_.empty() || !c.map_answers_.empty() || !c.answer_.empty();
}

// ---- events ------------------------------------------------------------------------------------

bool Port::watch(int fd, Watch& watch) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &watch;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Port::unwatch(int fd) noexcept {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

int Port::wait_events() {
    auto* events = reinterpret_cast<epoll_event*>(events_.data());
    const int n = ::epoll_wait(epoll_.get(), events, event_batch, 0);
    return n < 0 ? 0 : n;
}

Watch* Port::event(int i) noexcept {
    return static_cast<Watch*>(reinterpret_cast<epoll_event*>(events_.data())[i].data.ptr);
}

void Port::no_longer_unanswered(Connection& c) noexcept {
    if (c.unanswered_) {
        c.unanswered_ = false;
        --unanswered_;
    }
}

void Port::look_for_dead_listeners() {
    // A forked child can keep a dead server's socket open: connecting to it succeeds, and nobody
    // ever answers. The owner's lock tells.
    if (unanswered_ == 0 || slow_poll_.now_ns() - last_owner_check_ns_ < tuning::owner_check_ns) {
        return;
    }
    last_owner_check_ns_ = slow_poll_.now_ns();
    for (const auto& c : connections_) {
        if (c->unanswered_ && !owner_lives(*device_.domain(), c->entry_)) {
            c->error_text_ = fmt::format("the process that listened on '{}' is gone", c->entry_);
            c->peer_gone_ = true;
            slow_poll_.want_all();
        }
    }
}

bool Port::set_timer() {
    if (unanswered_ == 0 && !timer_) [[likely]] {
        return true;
    }
    // Of the others the process tells (watch_listener).
    const bool needed = std::any_of(connections_.begin(), connections_.end(),
                                    [](const auto& c) { return c->unanswered_ && !c->process_; });
    if (needed && !timer_) {
        UniqueFd made(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        if (!made || !watch(made.get(), timer_watch_)) {
            return false;
        }
        timer_ = std::move(made);
    }
    itimerspec when{};
    when.it_value.tv_nsec = needed ? long{tuning::owner_check_ns} : 0;
    return !timer_ || ::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

Errc Port::arm(bool for_credit) {
    // Whether this ends in a sleep or not, the next progress call has something to look at.
    slow_poll_.want();
    SleepBell::Arming arming(sleep_);
    pollfd pending{epoll_.get(), POLLIN, 0};
    if (::poll(&pending, 1, 0) > 0 || !set_timer()) {
        return Errc::again;
    }
    for (const auto& c : connections_) {
        if (c->state_ < Connection::State::ended) {
            // What waits here may have been refused before the room came that somebody else's
            // refusal has seen; so it is tried once more.
            if (c->peer_gone_ || c->pipe_.corrupt() || c->one_sided_.push_before_sleep() ||
                c->one_sided_.may_pass_by() || c->pipe_.take_refusal_with_room()) {
                return Errc::again;
            }
            if (c->may_ask() || !c->map_answers_.empty() || !c->answer_.empty() ||
                c->state_ == Connection::State::connecting) {
                return Errc::again; // the socket was full: there is no event for that
            }
            c->pipe_.arm(for_credit);
        }
    }
    if (!membarrier_all()) {
        return Errc::again;
    }
    for (const auto& c : connections_) {
        if (c->state_ == Connection::State::established &&
            c->pipe_.must_stay_awake(for_credit, c->paused_)) {
            return Errc::again;
        }
    }
    arming.fall_asleep();
    return Errc::ok;
}

} // namespace comch::link::soft
