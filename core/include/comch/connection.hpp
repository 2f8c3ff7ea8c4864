// A connection between a client and a server.
//
// Connections are made by servers and clients and live until their `disconnected` handler has
// returned, or the client is destroyed; then as long as a producer or consumer is open on them.
// They belong to the thread of their server or client, except for opening producers and
// consumers, which any thread may do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <comch/channel.hpp>
#include <comch/error.hpp>

namespace comch {

namespace channel {
enum class LinkKind : std::uint8_t;
}

/// Control messages of one connection. (Fast-path messages are counted in the counter file.)
struct ConnectionStatistics {
    std::uint64_t sent_messages = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_messages = 0;
    std::uint64_t received_bytes = 0;
    /// Sent and not yet confirmed by the other end. What was confirmed is delivered even if this
    /// process ends now.
    std::uint64_t in_flight_messages = 0;
};

class Connection {
public:
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Sends a control message; it is copied, and delivered in order unless the connection fails.
    /// What was sent before a disconnect or stop of this side is still delivered.
    /// again: the send queue is full, or the connection is not established yet; retry after
    /// progress. invalid_argument: longer than max_message_size(). not_connected: the connection
    /// has ended; connection_reset: the peer is gone or broke the protocol, or the
    /// device failed.
    [[nodiscard]] Errc send(std::span<const std::byte> message);

    [[nodiscard]] ConnectionStatistics statistics() const;

    /// ok: established; in_progress: not yet; otherwise why it ended: not_connected in an orderly
    /// way, connection_reset by the peer's death or misbehaviour, or the device's failure.
    [[nodiscard]] Errc status() const noexcept { return status_; }

    [[nodiscard]] const Peer& peer() const noexcept { return peer_; }

    /// The longest control message, as agreed on by both ends.
    [[nodiscard]] std::uint32_t max_message_size() const noexcept { return max_message_size_; }

    /// Anything; 0 at first.
    [[nodiscard]] std::uint64_t user_data() const noexcept { return user_data_; }
    void set_user_data(std::uint64_t value) noexcept { user_data_ = value; }

    /// What the other end attached to its request or answer; empty once established with nothing.
    [[nodiscard]] std::span<const std::byte> peer_data() const noexcept { return peer_data_; }

    /// The consumers of the other side that are open now, in the order of their arrival. Any
    /// thread.
    [[nodiscard]] std::vector<std::uint32_t> remote_consumers() const;
    /// The id of a consumer that is to be opened later (ConsumerOptions::id). Any thread.
    [[nodiscard]] std::uint32_t reserve_consumer_id();

protected:
    explicit Connection(channel::LinkKind kind) noexcept : kind_(kind) {}
    ~Connection() = default;

    const channel::LinkKind kind_; ///< the link is resolved once, here
    Errc status_ = Errc::in_progress;
    std::uint32_t max_message_size_ = 0;
    std::uint64_t user_data_ = 0;
    Peer peer_;
    std::vector<std::byte> peer_data_;
    ConnectionStatistics statistics_; ///< but for in_flight_messages

    friend class Server;
    friend class Client;
    friend class Producer;
    friend class Consumer;
};

} // namespace comch
