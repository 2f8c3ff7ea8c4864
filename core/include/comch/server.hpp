// A server: listens under a name on the DPU, for the clients of one host function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <comch/channel.hpp>
#include <comch/connection.hpp>
#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/progress.hpp>

namespace comch {

struct ServerHandlers {
    void* user = nullptr;
    /// A connection is established.
    void (*connected)(void* user, Connection&) = nullptr;
    /// An established connection has ended, whoever ended it. Once for each `connected`.
    void (*disconnected)(void* user, Connection&, EndReason) = nullptr;
    /// A client was turned away, or went away before it was accepted. What `requested` gave of it
    /// is no more when this returns.
    void (*refused)(void* user, const Peer&, Refusal) = nullptr;
    /// With ServerOptions::deferred_accept: a client asks. Answer now or later with accept() or
    /// refuse(); peer_data() is what it attached.
    void (*requested)(void* user, Connection&) = nullptr;
    /// A control message. Messages of different clients come in the order of their arrival. The
    /// bytes are valid inside the call only.
    void (*message)(void* user, Connection&, std::span<const std::byte>) = nullptr;
    /// A consumer of the other side can be sent to from now on, or not any more.
    void (*consumer_added)(void* user, Connection&, std::uint32_t consumer) = nullptr;
    void (*consumer_removed)(void* user, Connection&, std::uint32_t consumer) = nullptr;
    void (*state_changed)(void* user, State) = nullptr;
};

struct ServerOptions {
    ConnectionLimits limits{};
    /// Clients at a time; 0 takes the device's maximum.
    std::uint32_t max_clients = 0;
    /// Clients wait, and see their connection in progress, until the program accepts them.
    bool deferred_accept = false;
};

class Server {
public:
    /// Starts to listen; running when this returns. not_permitted: the device is not the DPU's;
    /// in_use: the name is taken on this representor; invalid_argument: the name or an option is
    /// out of range, or the representor is another domain's; no_memory: descriptors, memory or room
    /// in the domain's directory are used up; io: the directory or the RDMA device cannot be used.
    [[nodiscard]] static Result<std::unique_ptr<Server>>
    open(ProgressEngine& engine, const Device& device, const Representor& representor,
         std::string_view name, const ServerOptions& options, const ServerHandlers& handlers);

    /// Disconnects whoever is left; no handler is called.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// A server whose device is gone stops by itself: stopping, when its connections have ended idle.
    [[nodiscard]] State state() const noexcept;

    /// Stops listening and disconnects all clients, who are told; idle after progress. in_use: a
    /// producer or consumer is open on one of the connections; bad_state: stopped already.
    [[nodiscard]] Result<void> stop();

    /// Ends one connection; the client is told. in_use: a producer or consumer is open on it;
    /// not_connected: it has ended already.
    [[nodiscard]] Result<void> disconnect(Connection& connection);

    /// Requests that wait for accept() or refuse().
    [[nodiscard]] std::uint32_t pending_connections() const noexcept;
    /// The one that waits longest; null if none does.
    [[nodiscard]] Connection* next_pending() const noexcept;
    /// Answers a request. bad_state: it does not wait for an answer. `data` goes to the client;
    /// too_big: there is more of it than max_connect_data.
    [[nodiscard]] Result<void> accept(Connection& connection, std::span<const std::byte> data = {});
    [[nodiscard]] Result<void> refuse(Connection& connection, std::span<const std::byte> data = {});

    /// The established connections.
    [[nodiscard]] std::vector<Connection*> connections() const;

    /// While on, its engine's event_fd() also becomes readable when the peer has received messages that were
    /// sent. Off at first.
    void wake_on_confirmation(bool on) noexcept;

private:
    Server(channel::LinkKind kind, void* core) noexcept : kind_(kind), core_(core) {}

    channel::LinkKind kind_;
    void* core_; ///< channel::ServerCore<Link>
};

} // namespace comch
