#include "core/link/soft/channel.hpp"

#include <sys/socket.h>

#include "core/counters/process_counters.hpp"
#include "core/link/soft/membarrier.hpp"
#include "core/link/soft/socket.hpp"
#include "core/link/soft/wire.hpp"

namespace comch::link::soft {

Channel::Channel(Pipe pipe, UniqueFd socket, std::shared_ptr<ConnectionLife> life,
                 std::shared_ptr<ProcessCounters> counters, const SlotInfo& parent, bool fenced)
    : pipe_(std::make_unique<Pipe>(std::move(pipe))), socket_(std::move(socket)),
      life_(std::move(life)), counters_(std::move(counters)) {
    SlotInfo info = parent;
    info.kind = counters::SlotKind::channel;
    info.state = counters::SlotState::connected;
    info.connection = pipe_->number();
    pipe_->attach(socket_.get(), counters_->take_slot(info), fenced);
    pipe_->set_socket_ready(true);
    life_->add_socket(socket_.get());
}

Channel::~Channel() {
    if (pipe_ == nullptr || life_->inherited()) {
        return;
    }
    life_->remove_socket(socket_.get());
    if (!failed_) { // else it is no orderly end, and the peer may try again
        pipe_->say_goodbye();
    }
    // A forked child may hold the socket open: closing it alone would not reach the peer.
    (void)::shutdown(socket_.get(), SHUT_RDWR);
    counters_->release_slot(pipe_->slot(),
                            failed_ ? counters::SlotState::failed : counters::SlotState::closed);
}

Channel& Channel::operator=(Channel&& other) noexcept {
    Channel old(std::move(*this)); // ends the channel that was here
    pipe_ = std::move(other.pipe_);
    socket_ = std::move(other.socket_);
    life_ = std::move(other.life_);
    counters_ = std::move(other.counters_);
    data_ = std::exchange(other.data_, nullptr);
    length_ = other.length_;
    peer_gone_ = other.peer_gone_;
    failed_ = other.failed_;
    return *this;
}

bool Channel::prepare(const RingReader::Record& record) {
    if (data_ != nullptr) {
        return true; // looked at before, and left
    }
    switch (static_cast<Kind>(record.header.kind)) {
    case Kind::data:
        data_ = record.payload;
        length_ = record.header.length;
        return true;
    case Kind::data_bulk:
        if (record.header.length != sizeof(BulkRef)) {
            return false;
        }
        data_ = pipe_->bulk_payload(record.payload, length_);
        return data_ != nullptr;
    case Kind::pad:
        return true;
    case Kind::bulk_attach:
        return drain_socket() && pipe_->has_bulk();
    default:
        return false;
    }
}

bool Channel::drain_socket() {
    for (;;) {
        wire::Packet packet{};
        const Received received =
            receive_packet(socket_.get(), std::as_writable_bytes(std::span(&packet, 1)));
        if (received.status == SocketStatus::again) {
            return true;
        }
        if (received.status == SocketStatus::ended) {
            peer_gone_ = true;
            return true;
        }
        if (received.status == SocketStatus::failed || received.length != sizeof(packet)) {
            return false;
        }
        switch (static_cast<wire::Type>(packet.type)) {
        case wire::Type::doorbell:
            pipe_->slot()->rx.wakeups.add(1);
            break;
        case wire::Type::bulk:
            if (!received.fd[0] || !pipe_->accept_bulk(received.fd[0].get(), packet.value)) {
                return false;
            }
            break;
        default:
            return false;
        }
    }
}

void Channel::fail() noexcept {
    failed_ = true;
    pipe_->break_off(Errc::connection_reset);
}

Errc Channel::arm() {
    if (!drain_socket() || pipe_->corrupt()) {
        fail();
    }
    if (peer_gone_ || failed_ || life_->state() != Errc::ok) {
        return Errc::again; // poll what is left, then check()
    }
    if (pipe_->take_refusal_with_room()) {
        return Errc::again;
    }
    pipe_->arm(false);
    const bool seen_by_all = membarrier_all();
    return !seen_by_all || pipe_->must_stay_awake(false) ? Errc::again : Errc::ok;
}

Errc Channel::check() {
    if (failed_) {
        return Errc::connection_reset;
    }
    if (pipe_->corrupt() || (!peer_gone_ && !drain_socket())) {
        fail();
        return Errc::connection_reset;
    }
    const Errc life = life_->state();
    if (!peer_gone_ && life == Errc::ok) {
        pipe_->look_at_bulk(monotonic_ns());
        return Errc::ok;
    }
    const bool orderly = life == Errc::ok ? pipe_->peer_said_goodbye() || life_->peer_said_goodbye()
                                          : life == Errc::not_connected;
    const Errc end = orderly ? Errc::not_connected : Errc::connection_reset;
    pipe_->break_off(end); // nobody would read it
    return pipe_->rx().ready() ? Errc::ok : end;
}

} // namespace comch::link::soft
