#include "core/link/soft/connection_life.hpp"

#include <sys/socket.h>

namespace comch::link::soft {

void ConnectionLife::end(Errc state) noexcept {
    const std::lock_guard lock(mutex_);
    state_.store(state, std::memory_order_release);
    for (const int socket : sockets_) {
        // Only our own end of the pair: its owner's descriptor becomes readable.
        (void)::shutdown(socket, SHUT_RD);
    }
}

void ConnectionLife::open(int socket, bool fenced, const std::atomic<std::uint32_t>& goodbye) {
    const std::lock_guard lock(mutex_);
    connection_socket_ = socket;
    fenced_ = fenced;
    goodbye_ = &goodbye;
}

SocketStatus ConnectionLife::send(std::span<const std::byte> packet,
                                  std::span<const int> descriptors, bool& fenced) {
    // Under the lock: the socket's number must not be somebody else's by now.
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != Errc::ok) {
        return SocketStatus::ended;
    }
    if (connection_socket_ < 0) {
        return SocketStatus::again;
    }
    fenced = fenced_;
    return send_packet(connection_socket_, packet, descriptors);
}

bool ConnectionLife::peer_said_goodbye() {
    const std::lock_guard lock(mutex_);
    const Errc state = state_.load(std::memory_order_relaxed);
    if (state != Errc::ok) {
        return state == Errc::not_connected; // the port noticed while we asked
    }
    return goodbye_ != nullptr && goodbye_->load(std::memory_order_acquire) != 0;
}

void ConnectionLife::add_socket(int socket) {
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    if (state_.load(std::memory_order_relaxed) != Errc::ok) {
        (void)::shutdown(socket, SHUT_RD);
    }
}

void ConnectionLife::remove_socket(int socket) {
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, socket);
}

} // namespace comch::link::soft
