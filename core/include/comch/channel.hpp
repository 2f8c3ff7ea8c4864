// Words that servers, clients, connections, producers and consumers share.
//
// How handlers are given: a struct of plain function pointers and one `user` pointer. They cross
// the compiled boundary that keeps link kinds out of these headers (which a template visitor could
// not), cost one well-predicted indirect call per event and no allocation, and bind to C as they
// are. A handler that is null is not called.
//
// What may be done inside a handler: everything except calling progress() and destroying the object
// whose handler it is. Stopping it, disconnecting any connection, sending and posting are all fine.
#pragma once

#include <cstdint>
#include <string_view>

#include <comch/device.hpp>
#include <comch/side.hpp>

namespace comch {

/// Of a server, client, producer or consumer.
///
///     open ─► starting ─► running ─► stopping ─► idle      servers and producers skip `starting`
///
/// idle is where everything ends: what is idle makes no more calls and can be destroyed.
enum class State : std::uint8_t { idle, starting, running, stopping };
[[nodiscard]] std::string_view to_string(State state) noexcept;

/// Why an established connection ended.
enum class EndReason : std::uint8_t {
    local,          ///< this side disconnected or stopped
    closed,         ///< the peer did, in an orderly way
    peer_died,      ///< the peer's process is gone
    protocol_error, ///< the peer sent what no correct peer sends
    device_error,   ///< the local device failed, or this process has run out of descriptors
};
[[nodiscard]] std::string_view to_string(EndReason reason) noexcept;

/// Why a server refused a client.
enum class Refusal : std::uint8_t {
    none = 0,
    by_program,       ///< Server::refuse()
    message_size,     ///< both ends set a maximum message size, and not the same
    too_many_clients, ///< the server has as many as it may
    wrong_function, ///< the client is not on the function that the server's representor stands for
    stopping,       ///< the server is going away
    malformed,      ///< the request is not one of this protocol
};
[[nodiscard]] std::string_view to_string(Refusal refusal) noexcept;

/// The process at the other end. Side and function are checked; the pid is for people.
struct Peer {
    Side side = Side::host;
    FunctionId function = dpu_function_id;
    std::uint64_t process_id = 0; ///< random, unique per process
    std::uint64_t pid = 0;        ///< 0 if it is in a PID namespace that cannot be seen
};

/// Longest data that a client can attach to its request, and a server to its answer.
inline constexpr std::uint32_t max_connect_data = 192;

/// Queue depths and message size of a connection. 0 takes the default.
struct ConnectionLimits {
    /// The longest control message. When both ends set it, it must be the same; when one end does,
    /// both go by it.
    std::uint32_t message_size = 0;
    /// Control messages sent and not yet confirmed.
    std::uint32_t send_queue = 0;
    /// Control messages that the peer may have under way to this end.
    std::uint32_t recv_queue = 0;
};

} // namespace comch
