// What the channels under a connection share with it: whether the peer lives. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include <comch/error.hpp>

#include "core/device/process_id.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {

class ConnectionLife {
public:
    /// ok while the connection lives, not_connected after an orderly end, connection_reset after
    /// the peer's death.
    [[nodiscard]] Errc state() const noexcept { return state_.load(std::memory_order_acquire); }

    /// The connection is over: wakes every channel's owner.
    void end(Errc state) noexcept;
    /// The connection's socket takes packets from now on; `goodbye` is its peer's, and valid until
    /// the end.
    void open(int socket, bool fenced, const std::atomic<std::uint32_t>& goodbye);
    /// Sends a packet on the connection's socket; `fenced` is what a pipe under it must be.
    [[nodiscard]] SocketStatus send(std::span<const std::byte> packet,
                                    std::span<const int> descriptors, bool& fenced);
    /// Has the connection's peer closed it, even if its port has not noticed yet?
    [[nodiscard]] bool peer_said_goodbye();
    /// Are we a forked child of the process whose connection it is?
    [[nodiscard]] bool inherited() const noexcept { return owner_ != process_id(); }
    void add_socket(int socket);
    void remove_socket(int socket);

private:
    ProcessId owner_ = process_id();
    std::atomic<Errc> state_{Errc::ok};
    std::mutex mutex_; ///< a channel's begin and end, not its use
    int connection_socket_ = -1;
    bool fenced_ = true;
    const std::atomic<std::uint32_t>* goodbye_ = nullptr;
    std::vector<int> sockets_;
};

} // namespace comch::link::soft
