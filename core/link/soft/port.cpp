#include "core/link/soft/port.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/ticks.hpp"
#include "core/device/function.hpp"
#include "core/link/soft/membarrier.hpp"
#include "core/link/soft/names.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {
namespace {

std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> number{1};
    return number.fetch_add(1, std::memory_order_relaxed);
}

UniqueFd make_socket() noexcept {
    return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool make_address(const Domain& domain, const std::string& entry, sockaddr_un& address) {
    const std::string path = domain.socket_path(entry);
    if (path.size() >= sizeof(address.sun_path)) {
        return false;
    }
    address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return true;
}

/// 0, or the errno of connect().
int connect_to(int socket, const Domain& domain, const std::string& entry) {
    sockaddr_un address{};
    if (!make_address(domain, entry, address)) {
        return ENAMETOOLONG;
    }
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
               ? 0
               : errno;
}

/// The socket that an entry is, or points to.
std::string socket_entry(const Domain& domain, const std::string& entry) {
    char target[128] = {};
    const auto n = ::readlinkat(domain.directory_fd(), entry.c_str(), target, sizeof(target) - 1);
    return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : entry;
}

/// Does the process live whose socket this entry is, or points to?
bool owner_lives(const Domain& domain, const std::string& entry) {
    const std::string socket = socket_entry(domain, entry);
    const auto first = socket.find('.');
    const auto second = socket.find('.', first + 1);
    return first == std::string::npos || second == std::string::npos ||
           process_lives(domain, socket.substr(first + 1, second - first - 1));
}

/// A peer's descriptor is watched for readability: it must mean a death.
bool is_process(int fd) noexcept {
    // Signal 0 is a question only. Whatever else it answers, EBADF says that this is no pidfd.
    return ::syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
}

/// For a peer, a file of its own: many would watch a shared one, each below several epoll sets (its
/// port's, its engine's, its program's), and of such paths the kernel allows a file 500, 100, 50.
UniqueFd pidfd_of_ours() noexcept {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

/// Of no use but to be given back.
UniqueFd spare_descriptor() noexcept {
    return UniqueFd(::eventfd(0, EFD_CLOEXEC));
}

bool is_our_user(int socket, std::uint64_t& pid) noexcept {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return false;
    }
    pid = peer.pid > 0 ? static_cast<std::uint64_t>(peer.pid) : 0;
    return peer.uid == ::geteuid();
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
    port->process_ = pidfd_of_ours();
    port->spare_ = spare_descriptor();
    if (!port->epoll_ || !port->process_ || !port->spare_ || !port->sleep_.make() ||
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

void Port::meet_latecomers() {
    for (const auto& listener : listeners_) {
        accept_all_strangers(*listener);
    }
    for (const auto& stranger : strangers_) {
        Introduction intro;
        if (!read_hello(*stranger, intro)) {
            continue;
        }
        if (intro.hello.service_length != 0) {
            refuse(stranger->socket.get(), Errc::not_found, {}); // as if it had come a moment later
            continue;
        }
        Connection& c = *new_connection();
        if (prepare(c, *stranger, intro)) {
            admit(c, {});
        }
    }
}

Result<Port::Listener*> Port::add_listener(std::string entry) {
    auto listener = std::make_unique<Listener>();
    listener->entry = std::move(entry);
    listener->socket = make_socket();
    sockaddr_un address{};
    if (!listener->socket || !make_address(*device_.domain(), listener->entry, address) ||
        ::bind(listener->socket.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) != 0 ||
        ::listen(listener->socket.get(), 4096) != 0 ||
        !watch(listener->socket.get(), listener->watch)) {
        return fail_errno(Errc::io,
                          fmt::format("cannot listen on socket '{}' in domain directory '{}'",
                                      listener->entry, device_.domain()->path()),
                          errno);
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
    Listener* const listener = *added;
    const auto give_up = [&](Errc code, std::string text) -> Result<void> {
        (void)domain.remove_entry(listener->entry);
        listeners_.pop_back();
        return fail(code, std::move(text));
    };
    const std::string name = name_entry(service.function, service.name);
    const auto lock = domain.lock();
    if (!lock) {
        return give_up(lock.error().code, lock.error().message);
    }
    while (::symlinkat(listener->entry.c_str(), domain.directory_fd(), name.c_str()) != 0) {
        if (errno != EEXIST) {
            return give_up(Errc::io, fmt::format("cannot create '{}' in domain directory '{}': {}",
                                                 name, domain.path(), std::strerror(errno)));
        }
        // Somebody has the name, or died with it.
        const UniqueFd probe = make_socket();
        const int error = connect_to(probe.get(), domain, name);
        if (error != ECONNREFUSED && error != ENOENT && owner_lives(domain, name)) {
            return give_up(Errc::in_use,
                           fmt::format("a server named '{}' is already listening for function "
                                       "{}; stop it or choose another name",
                                       service.name, function_name(domain, service.function)));
        }
        (void)domain.remove_entry(name);
    }
    listener->name_entry = name;
    listener->service = service;
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
        if (!c.hello_.empty()) {
            (void)try_connect(c);
        } else if (!c.answer_.empty()) {
            (void)send_answer(c);
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
            c->pipe_.take_back_doorbell();
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
    c.pipe_.take_back_doorbell();
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

int Port::wait_events() noexcept {
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

Errc Port::arm(bool for_credit) {
    // Whether this ends in a sleep or not, the next progress call has something to look at.
    slow_poll_.want();
    sleep_.get_up();
    pollfd pending{epoll_.get(), POLLIN, 0};
    if (::poll(&pending, 1, 0) > 0) {
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
    sleep_.fall_asleep();
    return Errc::ok;
}

// ---- accepting ---------------------------------------------------------------------------------

void Port::accept_strangers(Listener& listener) {
    for (int i = 0; i < event_batch; ++i) {
        UniqueFd socket(
            ::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if ((errno == EMFILE || errno == ENFILE) && refuse_without_descriptor(listener)) {
                continue;
            }
            return;
        }
        std::uint64_t pid = 0;
        if (!is_our_user(socket.get(), pid)) {
            refuse(socket.get(), Errc::not_permitted, {});
            continue;
        }
        auto stranger = std::make_unique<Stranger>();
        stranger->socket = std::move(socket);
        stranger->since_ns = monotonic_ns();
        if (!watch(stranger->socket.get(), stranger->watch)) {
            refuse(stranger->socket.get(), Errc::no_memory, {});
            continue;
        }
        if (strangers_waiting_ == tuning::max_strangers) {
            const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                             [](const auto& other) { return !other->done; });
            close_stranger(**oldest);
        }
        strangers_.push_back(std::move(stranger));
        ++strangers_waiting_;
    }
}

/// Whoever asks must hear that there is none left for him: the listener would stay readable, and he
/// would wait. The spare one is lent to him for that.
bool Port::refuse_without_descriptor(Listener& listener) {
    spare_.reset();
    UniqueFd socket(
        ::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool accepted = static_cast<bool>(socket);
    if (accepted) {
        // Its hello, which a close would answer with an error before the answer is read.
        std::byte byte{};
        (void)::recv(socket.get(), &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC);
        refuse(socket.get(), Errc::no_memory, {});
    }
    socket.reset();
    spare_ = spare_descriptor();
    return accepted;
}

void Port::accept_all_strangers(Listener& listener) {
    std::size_t before = 0;
    do {
        before = strangers_.size();
        accept_strangers(listener);
    } while (strangers_.size() != before);
}

void Port::close_stranger(Stranger& stranger) {
    if (stranger.socket) {
        unwatch(stranger.socket.get());
        stranger.socket.reset();
    }
    if (!stranger.done) {
        stranger.done = true; // freed by the next slow poll
        --strangers_waiting_;
    }
}

void Port::drop_old_strangers() {
    if (strangers_.empty()) {
        return;
    }
    const std::uint64_t now = slow_poll_.now_ns();
    for (const auto& stranger : strangers_) {
        if (!stranger->done && now - stranger->since_ns > tuning::stranger_timeout_ns &&
            now > stranger->since_ns) {
            close_stranger(*stranger);
        }
    }
    std::erase_if(strangers_, [](const auto& stranger) { return stranger->done; });
}

bool Port::read_hello(Stranger& stranger, Introduction& intro) {
    if (stranger.done) {
        return false;
    }
    wire::Hello& hello = intro.hello;
    Received packet =
        receive_packet(stranger.socket.get(), std::as_writable_bytes(std::span(&hello, 1)));
    if (packet.status == SocketStatus::again) {
        return false;
    }
    const auto refuse_with = [&](Errc code) {
        refuse(stranger.socket.get(), code, {});
        close_stranger(stranger);
        return false;
    };
    // Another version's hello may be longer than ours, and cut.
    const bool recognized = packet.length >= 16 && hello.magic == wire::hello_magic;
    if (recognized && hello.version != protocol_version) {
        return refuse_with(Errc::version_mismatch);
    }
    if (packet.status != SocketStatus::ok || !recognized) {
        close_stranger(stranger); // a probe, or no comch
        return false;
    }
    if (hello.size != sizeof(hello) || packet.length != sizeof(hello)) {
        return refuse_with(Errc::version_mismatch);
    }
    if (packet.misses_descriptor) {
        return refuse_with(Errc::no_memory);
    }
    if (packet.descriptors != 2 || hello.service_length > max_service_name ||
        hello.private_length > max_private_data || hello.side > 1 || hello.process_id == 0) {
        return refuse_with(Errc::invalid_argument);
    }
    if (std::memcmp(hello.domain, device_.domain()->id().bytes.data(), sizeof(hello.domain)) != 0) {
        return refuse_with(Errc::not_permitted);
    }
    // Services are addressed by name on their own socket; the full name decides, not the hash.
    for (const auto& listener : listeners_) {
        if (hello.service_length == 0
                ? listener->name_entry.empty()
                : listener->service.name == std::string_view(hello.service, hello.service_length) &&
                      listener->service.function == hello.service_function) {
            intro.listener = listener.get();
        }
    }
    if (intro.listener == nullptr) {
        return refuse_with(Errc::not_found);
    }
    // Of the host, only clients of the function that the representor stands for reach its servers.
    // Whether the DPU's own do is for the layer above to say.
    if (hello.service_length != 0 && hello.side == static_cast<std::uint8_t>(Side::host) &&
        hello.function != hello.service_function) {
        return refuse_with(Errc::not_permitted);
    }
    intro.memfd = std::move(packet.fd[0]);
    intro.process = std::move(packet.fd[1]);
    (void)is_our_user(stranger.socket.get(), intro.pid);
    return true;
}

wire::Answer Port::make_answer(Errc code, std::span<const std::byte> reply) const noexcept {
    wire::Answer answer{};
    answer.magic = wire::hello_magic;
    answer.version = protocol_version;
    answer.size = sizeof(answer);
    answer.process_id = process_id();
    answer.function = device_.function().id;
    answer.side = static_cast<std::uint8_t>(device_.side());
    answer.has_membarrier = membarrier_ ? 1 : 0;
    answer.code = static_cast<std::int8_t>(code);
    const std::size_t n = std::min(reply.size(), max_private_data);
    answer.private_length = static_cast<std::uint16_t>(n);
    if (n != 0) {
        std::memcpy(answer.private_data, reply.data(), n);
    }
    return answer;
}

void Port::refuse(int socket, Errc code, std::span<const std::byte> reply) {
    const wire::Answer answer = make_answer(code, reply);
    (void)send_packet(socket, std::as_bytes(std::span(&answer, 1)));
}

bool Port::prepare(Connection& c, Stranger& stranger, Introduction& intro) {
    const wire::Hello& hello = intro.hello;
    unwatch(stranger.socket.get());
    c.socket_ = std::move(stranger.socket);
    close_stranger(stranger);
    c.process_ = std::move(intro.process);
    auto pipe = Pipe::accept(intro.memfd.get());
    if (!pipe || !is_process(c.process_.get()) || !watch(c.socket_.get(), c.socket_watch_) ||
        !watch(c.process_.get(), c.process_watch_)) {
        refuse(c.socket_.get(), Errc::invalid_argument, {});
        discard(c);
        return false;
    }
    c.pipe_ = std::move(*pipe);
    c.state_ = Connection::State::waiting; // for the sink's answer
    c.peer_ = {static_cast<Side>(hello.side), hello.function, hello.process_id, intro.pid};
    c.one_sided_.set_peer(hello.process_id);
    c.pipe_.peer_memory().open(c.process_.get(), intro.pid);
    c.peer_one_way_ = hello.one_way != 0;
    if (const Function* function = device_.domain()->find_function(hello.function)) {
        c.peer_name_ = function->name;
    }
    c.pipe_.attach(c.socket_.get(),
                   counters_->take_slot(c.slot_info(counters::SlotState::connecting)),
                   !(membarrier_ && hello.has_membarrier != 0), &turns_, &sleep_);
    return true;
}

void Port::admit(Connection& c, std::span<const std::byte> reply) {
    c.pipe_.slot()->state.store(static_cast<std::uint32_t>(counters::SlotState::connected),
                                std::memory_order_release);
    c.state_ = Connection::State::established;

    const wire::Answer answer = make_answer(Errc::ok, reply);
    const auto bytes = std::as_bytes(std::span(&answer, 1));
    c.answer_.assign(bytes.begin(), bytes.end());
    if (!send_answer(c)) {
        c.needs_work();
    }
    make_hot(c);
}

bool Port::send_answer(Connection& c) {
    const UniqueFd own = pidfd_of_ours();
    const int descriptor = own ? own.get() : process_.get();
    // The socket is empty, but there may be more descriptors on their way than this user may have.
    // If the peer is gone, its pidfd will say so.
    if (send_packet(c.socket_.get(), c.answer_, std::span(&descriptor, 1)) == SocketStatus::again) {
        return false;
    }
    c.answer_ = {};
    // Not before: the peer takes the first packet for the answer.
    c.pipe_.set_socket_ready(true);
    c.let_channels_open();
    return true;
}

// ---- initiating --------------------------------------------------------------------------------

Result<Connection*> Port::connect(const PortAddress& to, std::span<const std::byte> private_data,
                                  void* user) {
    return start_connect(port_entry(to), nullptr, private_data, user);
}

Result<Connection*> Port::connect(const ServiceName& to, std::span<const std::byte> private_data,
                                  void* user) {
    if (auto checked = check_service_name(to.name); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    return start_connect(name_entry(to.function, to.name), &to, private_data, user);
}

Result<Connection*> Port::start_connect(const std::string& entry, const ServiceName* service,
                                        std::span<const std::byte> private_data, void* user) {
    if (auto checked = check_private_data(private_data.size()); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    UniqueFd socket = make_socket();
    if (!socket) {
        return fail_errno(Errc::no_memory, "cannot create the socket of a connection", errno);
    }
    auto created = Pipe::create();
    if (!created) {
        return tl::unexpected(created.error());
    }
    wire::Hello hello{};
    hello.magic = wire::hello_magic;
    hello.version = protocol_version;
    hello.size = sizeof(hello);
    hello.process_id = process_id();
    std::memcpy(hello.domain, device_.domain()->id().bytes.data(), sizeof(hello.domain));
    hello.function = device_.function().id;
    hello.side = static_cast<std::uint8_t>(device_.side());
    hello.has_membarrier = membarrier_ ? 1 : 0;
    hello.one_way = options_.one_way ? 1 : 0;
    if (service != nullptr) {
        hello.service_function = service->function;
        hello.service_length = static_cast<std::uint16_t>(service->name.size());
        std::memcpy(hello.service, service->name.data(), service->name.size());
    }
    hello.private_length = static_cast<std::uint16_t>(private_data.size());
    if (!private_data.empty()) {
        std::memcpy(hello.private_data, private_data.data(), private_data.size());
    }
    Connection& c = *new_connection();
    c.user_ = user;
    // The socket itself: the name may be given up, or to somebody else, before there is an answer.
    c.entry_ = socket_entry(*device_.domain(), entry);
    c.memfd_ = std::move(created->memfd);
    c.pipe_ = std::move(created->pipe);
    c.one_way_ = options_.one_way;
    c.socket_ = std::move(socket);
    const auto bytes = std::as_bytes(std::span(&hello, 1));
    c.hello_.assign(bytes.begin(), bytes.end());
    if (service != nullptr) {
        c.peer_name_ = service->name;
    }
    // Fenced until the answer says that the peer has membarrier too.
    c.pipe_.attach(c.socket_.get(),
                   counters_->take_slot(c.slot_info(counters::SlotState::connecting)), true,
                   &turns_, &sleep_);
    if (const auto failed = try_connect(c)) {
        const std::string text = c.error_text_;
        discard(c);
        return fail(failed == Reason::not_found ? Errc::not_found : Errc::io, text);
    }
    if (c.state_ == Connection::State::connecting) {
        c.needs_work();
    }
    c.unanswered_ = true;
    ++unanswered_;
    return &c;
}

std::optional<Reason> Port::try_connect(Connection& c) {
    const Domain& domain = *device_.domain();
    const int error = connect_to(c.socket_.get(), domain, c.entry_);
    if (error == EAGAIN) {
        return std::nullopt; // its backlog is full; tried again at the next progress
    }
    if (error != 0 && error != EISCONN) {
        c.error_text_ = error == ENOENT || error == ECONNREFUSED
                            ? fmt::format("nobody listens on '{}' in domain directory '{}'",
                                          c.entry_, domain.path())
                            : fmt::format("cannot connect to '{}' in domain directory '{}': {}",
                                          c.entry_, domain.path(), std::strerror(error));
        return error == ENOENT || error == ECONNREFUSED ? Reason::not_found : Reason::device_error;
    }
    if (!c.process_ && !watch_listener(c)) {
        c.error_text_ = fmt::format("the process that listened on '{}' in domain directory '{}' is "
                                    "gone",
                                    c.entry_, domain.path());
        return Reason::not_found;
    }
    const UniqueFd own = pidfd_of_ours();
    const std::array<int, 2> descriptors{c.memfd_.get(), own ? own.get() : process_.get()};
    switch (send_packet(c.socket_.get(), c.hello_, descriptors)) {
    case SocketStatus::ok:
        break;
    case SocketStatus::again:
        return std::nullopt;
    case SocketStatus::ended:
        break; // refused already; the answer may be on the socket
    case SocketStatus::failed:
        c.error_text_ = fmt::format("cannot send to '{}': {}", c.entry_, std::strerror(errno));
        return Reason::device_error;
    }
    c.memfd_.reset(); // mapped here, and on its way
    c.hello_ = {};
    c.state_ = Connection::State::waiting;
    c.pipe_.set_socket_ready(true);
    c.let_channels_open();
    if (!watch(c.socket_.get(), c.socket_watch_)) {
        c.error_text_ = "cannot watch the socket of a connection";
        return Reason::device_error;
    }
    return std::nullopt;
}

bool Port::watch_listener(Connection& c) {
    // A forked child can keep a dead listener's socket open: connecting to it succeeds, and nobody
    // ever answers. Seen from another PID namespace it has no number; then its lock is looked at
    // now and then (look_for_dead_listeners).
    std::uint64_t pid = 0;
    if (is_our_user(c.socket_.get(), pid) && pid != 0) {
        c.process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
        // (EINVAL: older kernels, such as 6.1, say so where the dead one led a group of processes
        // that has members yet, such as its child.)
        if (!c.process_ && (errno == ESRCH || errno == EINVAL)) {
            return false; // even if its lock says otherwise: a child that has not run yet holds it
        }
        if (c.process_ && !watch(c.process_.get(), c.process_watch_)) {
            c.process_.reset();
        }
    }
    // Asked after that: if it lives, the number was its own.
    return owner_lives(*device_.domain(), c.entry_);
}

std::optional<Reason> Port::take_answer(Connection& c, const wire::Answer& answer,
                                        std::size_t length, std::array<UniqueFd, 2>& descriptors) {
    if (length < 16 || answer.magic != wire::hello_magic) {
        c.error_text_ = "the peer does not answer as comch does";
        return Reason::protocol_error;
    }
    if (answer.version != protocol_version || length != sizeof(answer) ||
        answer.size != sizeof(answer)) {
        c.error_text_ =
            fmt::format("the peer speaks version {} of the soft link's protocol, this is version "
                        "{}; run the same comch on both ends",
                        answer.version, protocol_version);
        return Reason::version_mismatch;
    }
    const auto code = static_cast<Errc>(answer.code);
    if (answer.code < 0 || answer.code > static_cast<std::int8_t>(Errc::io) ||
        answer.private_length > max_private_data || answer.side > 1) {
        c.error_text_ = fmt::format("the peer's answer makes no sense: code {}, side {}, {} bytes "
                                    "of private data",
                                    answer.code, answer.side, answer.private_length);
        return Reason::protocol_error;
    }
    if (code != Errc::ok) {
        c.error_text_ = fmt::format("the peer refused the connection: {}", to_string(code));
        return code == Errc::version_mismatch ? Reason::version_mismatch
               : code == Errc::not_found      ? Reason::not_found
                                              : Reason::rejected;
    }
    if (!descriptors[0] || !is_process(descriptors[0].get()) || answer.process_id == 0) {
        c.error_text_ = "the peer accepted, but does not say which process it is";
        return Reason::protocol_error;
    }
    if (c.process_) {
        unwatch(c.process_.get()); // the listener's; a forked child may keep the descriptor
    }
    c.process_ = std::move(descriptors[0]);
    if (!watch(c.process_.get(), c.process_watch_)) {
        c.error_text_ = fmt::format("cannot watch the peer's process: {}", std::strerror(errno));
        return Reason::device_error;
    }
    std::uint64_t pid = 0;
    if (!is_our_user(c.socket_.get(), pid)) {
        c.error_text_ = "the peer belongs to another user";
        return Reason::rejected;
    }
    c.peer_ = {static_cast<Side>(answer.side), answer.function, answer.process_id, pid};
    c.one_sided_.set_peer(answer.process_id);
    c.pipe_.peer_memory().open(c.process_.get(), pid);
    if (c.peer_name_.empty()) {
        if (const Function* function = device_.domain()->find_function(answer.function)) {
            c.peer_name_ = function->name;
        }
    }
    c.pipe_.set_fenced(!(membarrier_ && answer.has_membarrier != 0));
    c.let_channels_open();
    c.state_ = Connection::State::established;
    counters_->describe_slot(c.pipe_.slot(), c.slot_info(counters::SlotState::connected));
    no_longer_unanswered(c);
    if (!c.one_way_ || c.one_sided_.awaits_reply()) {
        make_hot(c); // not before: a refused peer's ring must not speak
    }
    return std::nullopt;
}

// ---- packets of an established connection ------------------------------------------------------

Port::SocketResult Port::next_packet(Connection& c, wire::Answer& buffer, Received& packet) {
    packet.length = 0;
    if (!c.socket_ || c.state_ == Connection::State::connecting) {
        return SocketResult::fine;
    }
    packet = receive_packet(c.socket_.get(), std::as_writable_bytes(std::span(&buffer, 1)));
    switch (packet.status) {
    case SocketStatus::again:
        packet.length = 0;
        return SocketResult::fine;
    case SocketStatus::ended:
        return SocketResult::ended;
    case SocketStatus::failed:
        // Another version's answer may be longer than ours, and cut.
        if (c.state_ != Connection::State::waiting || packet.length < 16 ||
            buffer.version == protocol_version) {
            return SocketResult::broken;
        }
        break;
    case SocketStatus::ok:
        break;
    }
    return SocketResult::fine;
}

bool Port::does_without_descriptor(Connection& c, const wire::Answer& buffer,
                                   const Received& packet) {
    wire::Packet head{};
    std::memcpy(&head, &buffer, sizeof(head));
    // Memory that cannot be mapped is reached by records; a channel's opener finds it closed.
    if (c.state_ == Connection::State::established && packet.length == sizeof(head) &&
        (head.type == static_cast<std::uint32_t>(wire::Type::map_answer) ||
         head.type == static_cast<std::uint32_t>(wire::Type::channel))) {
        return true;
    }
    c.error_text_ =
        "the peer sent a descriptor, and this process has as many open as it may: raise "
        "the limit (ulimit -n)";
    return false;
}

bool Port::take_packet(Connection& c, const wire::Packet& packet,
                       std::array<UniqueFd, 2>& descriptors) {
    switch (static_cast<wire::Type>(packet.type)) {
    case wire::Type::doorbell:
        c.pipe_.slot()->rx.wakeups.add(1);
        wake_ring(c);
        return true;
    case wire::Type::bulk:
        return descriptors[0] && c.pipe_.accept_bulk(descriptors[0].get(), packet.value);
    case wire::Type::map_request:
        if (c.map_answers_.size() >= tuning::max_one_sided) {
            return false; // nobody asks for more at once (may_ask())
        }
        if (!c.answer_.empty() || !c.map_answers_.empty() || !answer_map_request(c, packet.value)) {
            c.map_answers_.push_back(packet.value);
            c.needs_work();
        }
        return true;
    case wire::Type::map_answer: {
        const auto asked = std::find_if(c.asked_.begin(), c.asked_.end(), [&](const auto& entry) {
            return entry.region == packet.value;
        });
        if (asked == c.asked_.end()) {
            return false; // nobody has asked
        }
        const std::shared_ptr<Import> import = std::move(asked->import);
        const bool fits = packet.extra <= asked->length; // else it is not what the key was for
        c.asked_.erase(asked);
        const bool writable = (packet.flags & wire::map_read_only) == 0;
        Result<Mapping> mapping =
            descriptors[0] && fits ? map_shared_memory(descriptors[0].get(), packet.extra, writable)
                                   : Result<Mapping>(fail(Errc::not_permitted, "refused"));
        if (mapping) {
            import->set_mapped(std::move(*mapping), writable);
        } else {
            import->set_refused();
        }
        return true;
    }
    default:
        return false;
    }
}

bool Port::answer_map_request(Connection& c, std::uint64_t region) {
    wire::Packet answer{static_cast<std::uint32_t>(wire::Type::map_answer), 0, region, 0};
    int descriptor = -1;
    UniqueFd read_only;
    const RegionTable::Pin pin = RegionTable::instance().pin(region);
    // Who has it mapped can read it, whatever else was granted.
    if (pin && pin.region().memfd >= 0 && (pin.region().access & access_remote_read) != 0) {
        descriptor = pin.region().memfd;
        answer.extra = pin.region().length;
        if ((pin.region().access & (access_remote_write | access_remote_atomic)) == 0) {
            const std::string path = fmt::format("/proc/thread-self/fd/{}", descriptor);
            read_only.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
            descriptor = read_only.get();
            answer.flags = wire::map_read_only;
        }
    }
    const auto packet = std::as_bytes(std::span(&answer, 1));
    if (descriptor >= 0) {
        const SocketStatus status =
            send_packet(c.socket_.get(), packet, std::span<const int>(&descriptor, 1));
        if (status != SocketStatus::failed) {
            return status != SocketStatus::again;
        }
        answer = {static_cast<std::uint32_t>(wire::Type::map_answer), 0, region,
                  0}; // refused, then
    }
    return send_packet(c.socket_.get(), packet) != SocketStatus::again;
}

void Port::send_waiting_packets(Connection& c) {
    if (!c.answer_.empty() && !send_answer(c)) {
        return;
    }
    while (!c.map_answers_.empty() && answer_map_request(c, c.map_answers_.front())) {
        c.map_answers_.erase(c.map_answers_.begin());
    }
    while (c.may_ask() && c.state_ == Connection::State::established) {
        const wire::Packet request{static_cast<std::uint32_t>(wire::Type::map_request), 0,
                                   c.map_requests_.front(), 0};
        if (send_packet(c.socket_.get(), std::as_bytes(std::span(&request, 1))) ==
            SocketStatus::again) {
            return;
        }
        c.map_requests_.erase(c.map_requests_.begin());
    }
}

bool Port::accept_channel(Connection& c, std::array<UniqueFd, 2>& descriptors, Channel& channel) {
    if (!descriptors[0] || !descriptors[1]) {
        return false;
    }
    // It must be a socket, or our doorbells would go to a file of the peer's choosing.
    const auto option = [&](int name) {
        int value = -1;
        socklen_t size = sizeof(value);
        return ::getsockopt(descriptors[1].get(), SOL_SOCKET, name, &value, &size) == 0 ? value
                                                                                        : -1;
    };
    if (option(SO_DOMAIN) != AF_UNIX || option(SO_TYPE) != SOCK_SEQPACKET ||
        option(SO_ACCEPTCONN) != 0) {
        return false;
    }
    auto pipe = Pipe::accept(descriptors[0].get());
    if (!pipe) {
        return false;
    }
    channel =
        Channel(std::move(*pipe), std::move(descriptors[1]), c.life_, counters_,
                c.slot_info(counters::SlotState::connected), !membarrier_ || c.pipe_.fenced());
    return true;
}

} // namespace comch::link::soft
