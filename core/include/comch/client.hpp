// A client: connects from a host function to a server on the DPU, by its exact name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <comch/channel.hpp>
#include <comch/connection.hpp>
#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/progress.hpp>

namespace comch {

struct ClientHandlers {
    void* user = nullptr;
    /// running: connected; stopping: the connection has ended and producers or consumers are still
    /// open on it; idle: over, see Client::outcome().
    void (*state_changed)(void* user, State) = nullptr;
    /// A control message. The bytes are valid inside the call only.
    void (*message)(void* user, Connection&, std::span<const std::byte>) = nullptr;
    /// A consumer of the other side can be sent to from now on, or not any more.
    void (*consumer_added)(void* user, Connection&, std::uint32_t consumer) = nullptr;
    void (*consumer_removed)(void* user, Connection&, std::uint32_t consumer) = nullptr;
};

struct ClientOptions {
    ConnectionLimits limits{};
    /// For the server's `requested` handler, Connection::peer_data() there. <= max_connect_data
    std::span<const std::byte> data{};
};

class Client {
public:
    /// Starts to connect; progress does the rest. Errors are about the arguments (not_permitted:
    /// the device is not a host's; invalid_argument) or about what this process and its device can
    /// have (no_memory, io, unsupported); how the attempt went is outcome()'s to say, which may know
    /// at once that nobody listens.
    [[nodiscard]] static Result<std::unique_ptr<Client>>
    open(ProgressEngine& engine, const Device& device, std::string_view name,
         const ClientOptions& options, const ClientHandlers& handlers);

    /// Disconnects; no handler is called.
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    [[nodiscard]] State state() const noexcept;

    /// in_progress: not decided yet; ok: connected; not_found: nobody listens under the name;
    /// rejected: see refusal() and Connection::peer_data(); version_mismatch; once it is over:
    /// not_connected (the server ended it, orderly), connection_reset (the server died or broke
    /// the protocol, or the device failed), canceled (stop() did).
    [[nodiscard]] Errc outcome() const noexcept;
    [[nodiscard]] Refusal refusal() const noexcept;
    /// outcome() in words, for people.
    [[nodiscard]] Error error() const;

    [[nodiscard]] Connection& connection() noexcept;

    /// Disconnects, or gives the attempt up; idle after progress. What was sent is still delivered.
    /// in_use: a producer or consumer is open on the connection; bad_state: stopped already.
    [[nodiscard]] Result<void> stop();

    /// As Server::wake_on_confirmation().
    void wake_on_confirmation(bool on) noexcept;

private:
    Client(channel::LinkKind kind, void* core) noexcept : kind_(kind), core_(core) {}

    channel::LinkKind kind_;
    void* core_; ///< channel::ClientCore<Link>
};

} // namespace comch
