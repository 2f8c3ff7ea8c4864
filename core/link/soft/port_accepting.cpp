// How a port is connected to.
#include "core/link/soft/port.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/make_room.hpp"
#include "core/base/ticks.hpp"
#include "core/link/soft/names.hpp"
#include "core/link/soft/peer_process.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {

void Port::accept_strangers(Listener& listener) {
    for (int i = 0; i < event_batch; ++i) {
        make_room(strangers_);
        auto stranger = std::make_unique<Stranger>();
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

void Port::keep_spare() noexcept {
    spare_.reset(::eventfd(0, EFD_CLOEXEC));
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
    keep_spare();
    return accepted;
}

void Port::accept_all_strangers(Listener& listener) noexcept try {
    std::size_t before = 0;
    do {
        before = strangers_.size();
        accept_strangers(listener);
    } while (strangers_.size() != before);
} catch (const std::bad_alloc&) {
    // They find a socket that closed.
}

void Port::meet_latecomers() noexcept try {
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
        if (Connection* const c = prepare(*stranger, intro)) {
            admit(*c, {});
        }
    }
} catch (const std::bad_alloc&) {
    // As above.
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

Connection* Port::prepare(Stranger& stranger, Introduction& intro) {
    unwatch(stranger.socket.get());
    UniqueFd socket = std::move(stranger.socket);
    close_stranger(stranger);
    Connection* c = nullptr;
    Errc failed = Errc::no_memory;
    try {
        c = new_connection();
        c->socket_ = std::move(socket);
        if (prepare(*c, intro)) {
            return c;
        }
        failed = Errc::invalid_argument;
    } catch (const std::bad_alloc&) {
        // Refused, too, but as no_memory.
    }
    refuse(c != nullptr ? c->socket_.get() : socket.get(), failed, {});
    if (c != nullptr) {
        discard(*c);
    }
    return nullptr;
}

bool Port::prepare(Connection& c, Introduction& intro) {
    const wire::Hello& hello = intro.hello;
    c.answer_.reserve(sizeof(wire::Answer)); // once the sink has accepted, nothing may fail
    c.process_ = std::move(intro.process);
    auto pipe = Pipe::accept(intro.memfd.get());
    if (!pipe || !tells_of_death(c.process_.get()) || !watch(c.socket_.get(), c.socket_watch_) ||
        !watch(c.process_.get(), c.process_watch_)) {
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
    c.pipe_.share_ways(ways_);
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
    const UniqueFd own = process_of_ours();
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

} // namespace comch::link::soft
