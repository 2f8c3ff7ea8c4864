// The link contract: what every link kind (soft, verbs, fake) offers to the layers above.
//
// A link is modelled on a reliable connection of an RDMA device. The layers above are templates
// over it, so that the per-message path is inlined; nothing here is virtual.
//
//   Port        the local end: one per progress context. Owns listeners, connections and channels,
//               polls them, can be slept on. Belongs to one thread.
//   Connection  one established (or establishing) pipe to a peer, with the control channel.
//               Belongs to its port's thread.
//   Channel     an additional pair of rings (a queue pair) under an established connection, for one
//               producer-consumer pair. Either end may belong to a thread of its own.
//   Sink        what the layer above hands to progress(): its functions are called, inlined, for
//               each event.
//
// Promises of every link:
//   * messages are delivered once and in order while both ends live; then on_disconnected() is
//     called exactly once on each living end, at the latest 100 ms after its next progress call, or
//     within 100 ms of waking if it sleeps on the descriptor. Everything sent before an orderly
//     close, or confirmed, is delivered before that;
//   * every operation in flight completes, with an error if it must, before on_disconnected();
//   * a sender that would overrun is answered Errc::again at once; nothing is dropped and nothing
//     waits inside the library. The caller retries after progress;
//   * what a peer writes is copied, checked and only then used. A peer that breaks the protocol is
//     disconnected with Reason::protocol_error;
//   * a message handed to the sink lies in place: it is valid inside the call only, and (on the
//     soft link) a hostile peer may still change it there.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/side.hpp>

#include "core/memory/remote_region.hpp"

namespace comch::link {

// ---- naming an end ---------------------------------------------------------------------------

/// Where a port can be reached by peers of its domain. Opaque, fixed size, goes on the wire.
struct PortAddress {
    std::array<std::byte, 16> bytes;
    friend bool operator==(const PortAddress&, const PortAddress&) = default;
};

/// A named service: a server's name under one representor. The same name may exist under two.
struct ServiceName {
    FunctionId function; ///< the host function whose clients may connect
    std::string name;    ///< exact, case-sensitive, no NUL
};

/// What is known about the other end; identity fields were checked, claims were not.
struct PeerInfo {
    Side side{};
    FunctionId function{};          ///< the function the peer opened
    std::uint64_t process_id = 0;   ///< random, unique per process
    std::uint64_t pid = 0;          ///< for people; 0 if in an invisible PID namespace
};

/// Private data either end attaches to connection set-up.
inline constexpr std::size_t max_private_data = 256;
inline constexpr std::size_t max_service_name = 256;

/// Why a connection ended.
enum class Reason : std::uint8_t {
    closed,          ///< the peer closed it in an orderly way
    peer_died,       ///< the peer's process is gone
    protocol_error,  ///< the peer sent what no correct peer sends
    rejected,        ///< the peer's sink refused (before it was established)
    not_found,       ///< nobody listens there (before it was established)
    version_mismatch,///< the peer speaks another version (before it was established)
    device_error,    ///< the local device failed
};
[[nodiscard]] std::string_view to_string(Reason reason) noexcept;
/// What operations answer that a connection's end has cut short.
[[nodiscard]] Errc status_after(Reason reason) noexcept;

/// For every kind's listen() and connect(): invalid_argument and too_big.
[[nodiscard]] Result<void> check_service_name(std::string_view name);
[[nodiscard]] Result<void> check_private_data(std::size_t size);

/// A request to connect, as the accepting side's sink sees it. Valid inside the call only.
struct ConnectRequest {
    PeerInfo peer;
    std::string_view service;             ///< empty when the port itself was addressed
    FunctionId service_function{};        ///< meaningful when `service` is not empty
    std::span<const std::byte> private_data;
};

/// The sink's answer to a request.
struct ConnectDecision {
    Errc code = Errc::ok;                 ///< anything else refuses, and is told to the peer
    void* user = nullptr;                 ///< Connection::user() from now on
    std::span<const std::byte> reply{};   ///< private data for the peer, copied; also on refusal
};

// ---- one-sided operations -----------------------------------------------------------------------
// What can be reached is registered in RegionTable (core/memory/region_table.hpp) and named by a
// RegionKey; the requester unpacks the key into a RemoteRegion.

/// What the caller of a put or get knows of its own memory. A kind makes use of what helps it.
struct LocalMemory {
    std::uint64_t region = 0;       ///< it is a part of, in RegionTable, so that a device may know it already
    const RegionKey* key = nullptr; ///< of memory that the peer can map; valid during the call
};

enum class AtomicOp : std::uint8_t { add, bit_and, bit_or, bit_xor, swap, compare_swap };

/// One atomic operation on an aligned 4- or 8-byte word of the peer.
struct AtomicRequest {
    AtomicOp op;
    std::uint8_t size;            ///< 4 or 8
    std::uint64_t operand;        ///< the value, or the new value of a swap
    std::uint64_t compare = 0;    ///< compare_swap only
    void* result = nullptr;       ///< where the old value goes (`size` bytes); null: not wanted
};

// ---- options ---------------------------------------------------------------------------------------

struct PortOptions {
    /// Shown in counters: "uct", "ofi", "channel", "memory".
    std::string face;
    /// Messages sent by send_ordered() are handed out in order of arrival over all connections.
    bool arrival_order = false;
    /// Connections this port initiates carry messages one way only, away from it (as UCT's do);
    /// replies to one-sided operations still come back, and gets are answered before one-sided
    /// operations that come after them.
    bool one_way = false;
    /// Threads take turns at the port, and one may sleep while others have theirs: what ends a sleep
    /// does so although another thread's progress() or arm() has taken it.
    bool shared = false;
};

// ---- limits -------------------------------------------------------------------------------------------

/// What one connection can do; the same for all connections of a link kind on a device.
struct Limits {
    std::uint32_t max_inline;    ///< longest message for send() (copied in one go)
    std::uint32_t max_message;   ///< longest message for send_packed()
    std::uint32_t max_one_sided_in_flight;
};

/// What a layer above that weighs transports against each other is told of one message.
struct Speed {
    double latency;   ///< seconds from one side to the other
    double overhead;  ///< seconds of the sender's CPU
    double bandwidth; ///< bytes per second
    double copying;   ///< seconds for a byte of a message that both CPUs copy, beyond the bandwidth;
                      ///< one-sided operations go without
};

// ---- the contract ----------------------------------------------------------------------------------------

/// What progress() calls. `C` is the connection, `H` the channel type.
///
/// A sink may, inside any of these, send on and close any connection (the one at hand included) and
/// open others. It must not call progress().
template <class S, class C, class H>
concept Sink = requires(S sink, C& connection, H&& channel, const ConnectRequest& request,
                        std::uint8_t id, const std::byte* data, std::uint32_t length, void* token,
                        Errc status, Reason reason, std::span<const std::byte> private_data,
                        std::uint64_t tag) {
    /// A peer wants to connect to this port or to one of its services. If the answer is ok, the
    /// connection is established when this has returned, and can be sent on from then on.
    { sink.on_connect_request(connection, request) } -> std::same_as<ConnectDecision>;
    /// A connection that connect() started is established; the accepting sink's reply data.
    sink.on_connected(connection, private_data);
    /// The end of a connection, once; nothing of it is reported afterwards. Only close() remains
    /// to be called. `private_data` is the refusing sink's reply when reason is `rejected`.
    sink.on_disconnected(connection, reason, private_data);
    /// A message, in place. `id` is what the sender gave.
    sink.on_message(connection, id, data, length);
    /// A one-sided operation or a flush that was answered in_progress is done.
    sink.on_complete(connection, token, status);
    /// The peer opened a channel under this connection.
    sink.on_channel(connection, tag, std::move(channel));
};

// clang-format off
// Member functions that a link kind must have, stated once for all kinds. (They are checked by the
// contract tests, core/link/contract_test.hpp, which run over each kind.)
//
// struct Link {                             // soft::Link, fake::Link, verbs::Link
//     using Port = ...; using Connection = ...; using Channel = ...;
//     -- of those that UCX and libfabric run over:
//     static constexpr std::size_t max_message, max_inline;       as limits() says
//     static constexpr std::uint16_t version;                     of what is spoken
//     static constexpr bool has_devices;       that read and write without their peer's CPU
//     static constexpr std::size_t mappable_from;     a get of so much makes use of LocalMemory::key
//     static std::uint64_t link_data_of(const Device&, std::uint64_t region);    what a peer must
//                                      know to reach it, beside its key; 0: nothing
// };
//
// class Port {                                                    -- one thread, the owner
//     static Result<std::unique_ptr<Port>> open(const Device&, PortOptions);
//     ~Port();                         closes everything in an orderly way; no sink is called
//     PortAddress address() const;
//     static bool may_be_of(const PortAddress&, const PeerInfo&);   not where the address, which a
//                                      peer claims, shows another process or function than it has
//     Limits limits() const;
//     Speed speed() const;             of a port that is not lost
//     Result<void> listen(const ServiceName&);        in_use: the name is taken on that function
//     void unlisten(const ServiceName&);              connections live on
//     Result<Connection*> connect(const PortAddress&, std::span<const std::byte> private_data,
//                                 void* user);
//     Result<Connection*> connect(const ServiceName&, std::span<const std::byte> private_data,
//                                 void* user);
//           Both return at once; the connection is usable at once (messages are kept in order and
//           delivered if and when it is accepted); the outcome is on_connected/on_disconnected.
//           not_found may also be returned directly where it is known at once.
//     void close(Connection*);         orderly; the pointer is invalid afterwards. What was sent
//                                      before is still delivered. No sink call for it any more;
//                                      operations in flight are dropped silently (flush first):
//                                      what they fetch is not written any more, what they send may
//                                      still be read as long as it is there.
//     bool lost() const;               the device under it is gone, and with it all connections;
//                                      none will ever be made again. To be asked after progress
//     template <Sink S> unsigned progress(S&);        returns the number of events handled
//     int event_fd() const;            epoll-able; owned by the port; becomes readable when there
//                                      is something to progress, after arm() answered ok; stays so
//                                      until the next progress() or arm(); if the port is shared,
//                                      until an arm() answers ok
//     Errc arm(bool for_credit = false);   ok: may sleep now; again: something is there, progress
//                                      first. A sleep ends by whatever progress() would report; by
//                                      room on a connection that answered `again`; with
//                                      `for_credit` also by an advance of any confirmed(). What
//                                      is posted after it, and answered `again` or in_progress,
//                                      ends it, too, at once if it could not otherwise
//     void wake();                     ends a sleep: the next progress() is wanted
// };
//
// class Connection {                                              -- the port's thread
//     void* user() const;  void set_user(void*);
//     const PeerInfo& peer() const;    process_id is 0 until the peer has answered
//     bool established() const;
//     Errc send(std::uint8_t id, std::span<const std::byte>);                 <= max_inline
//     template <class Fill> Errc send_inline(std::uint8_t id, std::uint32_t length, Fill);
//           Fill: void(std::byte* to); writes exactly `length` bytes in place   <= max_inline
//     static constexpr std::uint32_t max_cell, max_line;      only where what fits into a cache line,
//     template <class Fill> bool send_cell(std::uint8_t id, std::uint32_t length, Fill);
//     template <class Fill> bool send_line(std::uint8_t id, std::uint32_t length, Fill);
//           or half of one, has a shorter way: as send_inline                    <= max_cell, max_line
//           False: not by this way, and nothing has happened; send_inline() says why.
//     bool answering() const;          then send_line() is better than send_cell(), also for short ones
//     template <class Pack>
//     Result-like send_packed(std::uint8_t id, std::uint32_t max, Pack, std::uint32_t data_at = 0);
//           Pack: std::uint32_t(std::byte* to); writes up to `max` (<= max_message) bytes in
//           place and returns how many; is not called at all when the answer is `again`.
//           What is much begins `data_at` bytes behind `to`: a hint, which a link may take to align it.
//           Answers the length, or a negative Errc: std::int64_t.
//     Errc send_ordered(std::uint8_t id, std::span<const std::byte>);         <= max_message
//           as send, and stamped for ports with arrival_order
//     std::uint64_t sent() const;      messages handed over by send*, so far
//     std::uint64_t confirmed() const; how many of them the peer has certainly taken out; up to
//                                      date when the peer's progress (a channel's poll) has found
//                                      no more that it could hand out a number of times, or sleeps
//     void confirm_received();         whoever receives what is sent from now on finds confirmed
//                                      what was handed out here, the message at hand included
//     void hurry_confirmation();       the caller waits for confirmed() to advance: the peer's
//                                      progress that hands out what was sent, if none before it,
//                                      says so. To be called again and again
//     -- one-sided: ok = done already; in_progress = on_complete(token) follows; again = no room.
//        They take effect in the order of the calls, but for gets (and one-way connections answer
//        those, too, before one-sided operations that came after them).
//     Errc put(const void* local, std::size_t, RemoteRegion&, std::uint64_t remote, void* token,
//              LocalMemory = {});
//     Errc put_copy(const void* local, std::size_t, RemoteRegion&, std::uint64_t remote);
//           of up to max_message bytes, which are the caller's again at once: never in_progress
//     Errc get(void* local, std::size_t, RemoteRegion&, std::uint64_t remote, void* token,
//              LocalMemory = {});
//           the region must outlive it
//     Errc write(const void* local, std::size_t, RemoteRegion&, std::uint64_t remote, void* token,
//                LocalMemory);         a put by the device alone; unsupported: it cannot be done so
//     bool may_open_window(std::uint64_t length);     open_window() is worth a try
//     std::uint64_t open_window(std::uint64_t region, const std::byte* base, std::uint64_t length,
//                               std::uint32_t access);
//           The peer of this connection, and no other, may reach [base, base + length), a part of a
//           region of this process with access_by_window, by RegionKey::link_data with this value. (Soft-
//           RoCE lets it reach all of that region.) What is sent next finds room. 0: not now, or
//           not with this device
//     Errc close_window(std::uint64_t link_data, void* token);     when the token is reported, with
//           whatever status, it may no longer; ok: it may not now. A null token is not reported
//     Errc atomic(const AtomicRequest&, RemoteRegion&, std::uint64_t remote, void* token);
//     Errc flush(void* token);         done when every one-sided operation and message before it
//                                      has taken effect at the peer. What was refused has not: that
//                                      is told before, by its completion or the connection's end
//           A null token is not remembered: in_progress means ask again.
//     Errc fence();                    later operations and messages take effect after earlier ones
//     template <class Done> void cancel(Done);        all one-sided operations and flushes in
//           flight end now: done(token, Errc::canceled). Where a device is at one of them, that
//           ends the connection: on_disconnected(device_error) follows. Of those that an end of the
//           connection has ended already, and the sink has not been told: how
//     bool lost_writes() const;        in on_disconnected: a put, or an atomic without a result,
//                                      may not have taken effect at the peer
//     void hold(bool);                 while on, sends answer again: older ones wait in a queue
//                                      above
//     bool may_retry() const;          has room come since the last again?
//     const std::string& error_text() const;     in on_disconnected: more of why, for people; may be
//                                      empty
//     Errc check();                    ok, or connection_reset if the peer is known to be gone
//     Result<Channel> open_channel(std::uint64_t tag);     any thread, while the connection lives
// };
//
// class Channel {                       movable; each end belongs to one thread at a time. The
//                                       opener may send at once. Outlives its connection and port
//                                       as an object: then check() says so and nothing is sent any
//                                       more
//     Errc send, send_inline, send_packed(..., bool more = false)
//           as above, to the other end; without data_at. With `more` the message may wait until
//           something is sent without it or is refused, or for one of ring(), arm(), tell_of() and
//           the channel's orderly end: so that a device hears of several at once.
//     void ring();                                          what waits for more goes out
//     std::uint64_t sent(), confirmed()
//     counters::Counter& buffer_stalls();   for the layer above to count what it could not send
//                                           here because the other end had posted no buffer (shown
//                                           in counters; written by this end's thread)
//     template <class F> unsigned poll(F on_message, unsigned budget);
//           F: bool(std::uint8_t id, const std::byte*, std::uint32_t length); false: leave this
//           message where it is and stop (it is handed out again by the next poll)
//     int event_fd() const; Errc arm();                     as on the port (room after `again` too)
//     Errc check();                                         connection_reset when the peer is gone,
//                                                           not_connected after an orderly end;
//                                                           what was sent before is polled first
//     bool peer_gone();                                     as the last check() saw, though what was
//                                                           sent before may not have been polled
//     bool was_refused();                                   check() says not_connected because the
//                                                           connection was over at the other end
//                                                           when the channel was asked for
//     static constexpr bool sends_packets;                  each message is a packet of its own, so
//                                                           what can wait for another should
//     static constexpr bool writes_directly;                if true, also what follows: writing
//                                                           into the peer's memory, without its CPU
//     using Ticket;                                         which write
//     bool local_key(std::uint64_t region, std::uint32_t& key);   of a region of RegionTable, for
//     bool remote_key(std::uint64_t region, std::uint64_t& key);  write() here, and at the other
//     end;
//                                                           false: it cannot be reached so
//     std::uint32_t max_write() const;                      bytes at a time
//     Errc write(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
//                std::uint64_t to, std::uint64_t remote_key);
//           Done at the peer before any message that is sent later is polled there. again: no room.
//           What the peer's end does not grant ends the channel.
//     Errc write_and_send(from, length, local_key, to, remote_key, std::uint8_t id, Ticket&);
//           the same, and an empty message `id`. The memory of this write, and of those before it,
//           must stay registered until written().
//     Errc send_from(std::uint8_t id, const std::byte* from, std::uint32_t length,
//                    std::uint32_t local_key, bool tell, bool more, Ticket&);
//           a message as send_inline()'s, of up to max_message bytes, that the device fetches from there:
//           the memory must stay registered, and the bytes as they are, until written(). That may
//           not say so without `tell`, before it does of a later one or tell_of() was called. The
//           ticket is Ticket{} if the message was copied.
//     bool tell_of(Ticket);                                 written() is going to say so, whatever
//                                                           is sent. False: no room to ask now
//     bool written(Ticket);                                 the device is done with that memory
//     bool settled(Ticket);                                 or has given it up
//     std::uint32_t written_length() const;                 in on_message: how much was written by
//                                                           the write_and_send() that it comes
//                                                           from; 0 if it comes from none
//           Places that the other end was told of before it had anything to write there can be
//           withdrawn without its help. They have numbers, which are claimed and withdrawn in
//           their order; what was withdrawn stays so.
//     bool claim(std::uint64_t place);                      by who is going to write there. False:
//                                                           it has been withdrawn
//     std::optional<std::uint64_t> withdraw(std::uint64_t place);
//           by who told of them: all up to this one. Nothing: to be called again. Else the last of
//           which something is, or will be, written there, or of which the claimer has found that
//           it was withdrawn; none behind it is claimed, or can be any more.
//     void cut();                                           ends the channel at once: neither end
//                                                           writes anything any more
// };
// clang-format on

} // namespace comch::link
