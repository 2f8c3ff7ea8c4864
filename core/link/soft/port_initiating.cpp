// How a port connects to another.
#include "core/link/soft/port.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/link/soft/names.hpp"
#include "core/link/soft/peer_process.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {

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
    try {
        return begin_connect(c, entry, service, hello, std::move(*created), std::move(socket),
                             user);
    } catch (...) {
        discard(c);
        throw;
    }
}

Result<Connection*> Port::begin_connect(Connection& c, const std::string& entry,
                                        const ServiceName* service, const wire::Hello& hello,
                                        Pipe::Created created, UniqueFd socket, void* user) {
    c.user_ = user;
    // The socket itself: the name may be given up, or to somebody else, before there is an answer.
    c.entry_ = socket_entry(*device_.domain(), entry);
    c.memfd_ = std::move(created.memfd);
    c.pipe_ = std::move(created.pipe);
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
    c.pipe_.share_ways(ways_);
    if (const auto failed = try_connect(c)) {
        std::string text = std::move(c.error_text_);
        discard(c);
        return fail(failed == Reason::not_found ? Errc::not_found : Errc::io, std::move(text));
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
    const UniqueFd own = process_of_ours();
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
    if (!descriptors[0] || !tells_of_death(descriptors[0].get()) || answer.process_id == 0) {
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

} // namespace comch::link::soft
