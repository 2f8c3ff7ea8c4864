// The fake link: the link contract inside one process, deterministic, with faults on demand.
//
// Ports join a Network. Nothing moves except by the calls of the ports' owners, in an order that
// depends on nothing else, so a test on one thread runs the same way every time. One mutex makes it
// safe (not fast) on several threads. Each port counts as a process of its own.
//
//     fake::Network network;
//     auto server = network.open_port(Side::dpu, dpu_function_id);
//     network.kill(server->address());
//
// A network may be bound to a Domain: then everything that is opened on devices of that domain,
// also through the public API, uses the network instead of real memory and sockets.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <comch/counters_layout.hpp>
#include <comch/device.hpp>
#include <comch/error.hpp>

#include "core/base/unique_fd.hpp"
#include "core/link/link.hpp"

namespace comch::link::fake {

class Port;
class Connection;
class Channel;

struct Link {
    using Port = fake::Port;
    using Connection = fake::Connection;
    using Channel = fake::Channel;
};

struct Settings {
    Limits limits{.max_inline = 4088, .max_message = 32768, .max_one_sided_in_flight = 128};
    /// Messages one way on one connection or channel that were not taken out yet.
    std::uint32_t queue_depth = 64;
    /// Messages that one progress call hands out.
    unsigned progress_budget = 64;
};

/// A message on its way, as Network::on_transit() sees it.
struct Transit {
    PortAddress from;
    std::uint8_t& id;
    std::vector<std::byte>& bytes;
    bool channel; ///< on a channel, not on a connection
};

namespace detail {

/// Ends the sleep of one port or channel. Guarded by the network's mutex but for the descriptor.
struct Bell {
    UniqueFd fd;
    bool armed = false;
    bool for_credit = false;

    Bell();
    void ring() noexcept;
    void quiet() noexcept;
};

/// One step of a one-sided operation or flush.
struct Operation {
    enum class Kind : std::uint8_t { none, put, get, atomic, flush };
    Kind kind = Kind::none;
    AtomicRequest atomic{};
    RegionKey key;
    std::uint64_t remote = 0;
    void* local = nullptr; ///< get: where the data goes
    std::size_t length = 0;
    void* token = nullptr;
};

struct Message {
    std::uint8_t id = 0;
    std::uint64_t stamp = 0; ///< of send_ordered(); 0: none
    std::vector<std::byte> bytes;
    Operation operation;
    std::uint32_t written = 0; ///< by the write that it comes from
    /// Where its bytes are fetched from once more, as by a device, when it goes out.
    const std::byte* from = nullptr;
};

/// One direction: from end i to the other.
struct Lane {
    std::deque<Message> queue;
    std::vector<Message> waiting; ///< for more, behind those in the queue
    std::uint64_t sent = 0;
    std::uint64_t confirmed = 0;
    std::uint64_t confirmed_seen = 0; ///< what confirmed() answered last
    bool blocked = false;             ///< its sender was answered `again`
    bool closed = false;              ///< its sender said goodbye
    bool abandoned = false;           ///< its reader closed: what is sent goes nowhere
    bool lost_writes = false;         ///< its reader closed with writes in it
    std::uint64_t claimed = 0;        ///< places, by its sender
    std::uint64_t withdrawn = 0;
    std::uint64_t withdrawing = 0; ///< a place: the next call knows
};

struct Completion {
    void* token = nullptr;
    Errc status = Errc::ok;
};

struct Wire;

struct PendingChannel {
    std::uint64_t tag = 0;
    std::shared_ptr<Wire> wire;
};

/// What both ends of a connection or channel share.
struct Wire {
    Lane lane[2];
    std::uint64_t port[2] = {0, 0};  ///< whose end it is
    std::shared_ptr<Bell> bell[2];   ///< null: that end does not exist (yet)
    bool dead[2] = {false, false};   ///< that end's process is gone
    std::optional<Reason> forced[2]; ///< that end is told that the connection ended so
    std::deque<Completion> completions[2];
    std::vector<void*> outstanding[2];              ///< tokens of operations not completed yet
    Connection* connection[2] = {nullptr, nullptr}; ///< null: a channel, or that end closed
    std::weak_ptr<Wire> parent;                     ///< of a channel: its connection
    unsigned parent_end = 0; ///< which end of `parent` the channel's end 0 belongs to
    std::vector<std::weak_ptr<Wire>> children;
    counters::Counter buffer_stalls[2]{};      ///< counted at each end
    std::deque<PendingChannel> early_channels; ///< opened before the peer has seen the request
};

struct Request {
    std::shared_ptr<Wire> wire;
    PeerInfo peer;
    std::string service;
    FunctionId function = 0;
    std::vector<std::byte> data;
};

struct NetworkState;

} // namespace detail

class Network {
public:
    explicit Network(const Settings& settings = {});
    /// Bound to `domain` until destroyed.
    explicit Network(const std::shared_ptr<Domain>& domain, const Settings& settings = {});
    ~Network();
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    [[nodiscard]] Result<std::unique_ptr<Port>> open_port(Side side, FunctionId function,
                                                          const PortOptions& options = {});

    // ---- faults ---------------------------------------------------------------------------------

    /// The next connect() is refused with this reason (not_found, rejected, version_mismatch).
    void refuse_next_connect(Reason reason);
    /// The port's progress finds nothing until it is released.
    void hold(const PortAddress& port);
    void release(const PortAddress& port);
    /// The port's process is gone, now or after it has handled or sent `steps` more things. Its
    /// owner can go on calling it and gets connection_reset, or nothing. kill_after() may name a
    /// port that is not open yet.
    void kill(const PortAddress& port);
    void kill_after(const PortAddress& port, unsigned steps);
    /// How many ports have been killed so far.
    [[nodiscard]] unsigned kills() const;
    /// The n-th send from now on (1: the next), of all ports, is answered `again`.
    void again_on_send(unsigned n);
    /// Both ends of all connections of the port are told that they ended so.
    void disconnect(const PortAddress& port, Reason reason);
    /// The port's device is gone: its connections end, and nobody finds its services any more.
    void lose_device(const PortAddress& port);
    /// While on, devices are not done with memory that was written from.
    void slow_down_devices(bool on);
    /// Sees every message when it is sent, and may change it. Must not call into the network.
    void on_transit(std::function<void(Transit&)> hook);
    /// Inverts the bits of `mask` in byte `offset` of the n-th message from now on.
    void corrupt_send(unsigned n, std::size_t offset, std::byte mask);

    // ---- counters -------------------------------------------------------------------------------

    /// The buffer stalls counted on all channels that are there.
    [[nodiscard]] std::uint64_t buffer_stalls() const;

    /// Places that were asked back (Channel::withdraw()), so far.
    [[nodiscard]] unsigned withdrawals() const;

    /// Whether a network is bound to the domain.
    [[nodiscard]] static bool bound_to(const Domain& domain) noexcept;

private:
    std::shared_ptr<detail::NetworkState> state_;
    const Domain* domain_ = nullptr;
};

/// Sending, for connections and channels.
class Sender {
public:
    Errc send(std::uint8_t id, std::span<const std::byte> message, bool more = false);
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill, bool more = false) {
        if (length > limits().max_inline) {
            return Errc::too_big;
        }
        if (const Errc room = reserve(); room != Errc::ok) {
            return room;
        }
        std::vector<std::byte> bytes(length);
        fill(bytes.data());
        commit(id, std::move(bytes), {.more = more});
        return Errc::ok;
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             std::uint32_t /*data_at*/ = 0) {
        return pack_and_commit(id, max, std::forward<Pack>(pack), false);
    }
    [[nodiscard]] std::uint64_t sent() const;
    [[nodiscard]] std::uint64_t confirmed() const;

protected:
    Sender() = default;
    Sender(std::shared_ptr<detail::NetworkState> network, std::shared_ptr<detail::Wire> wire,
           unsigned end)
        : network_(std::move(network)), wire_(std::move(wire)), end_(end) {}

    template <class Pack>
    std::int64_t pack_and_commit(std::uint8_t id, std::uint32_t max, Pack&& pack, bool more) {
        if (max > limits().max_message) {
            return -static_cast<std::int64_t>(Errc::too_big);
        }
        if (const Errc room = reserve(); room != Errc::ok) {
            return -static_cast<std::int64_t>(room);
        }
        std::vector<std::byte> bytes(max);
        const std::uint32_t length = pack(bytes.data());
        bytes.erase(bytes.begin() + length, bytes.end());
        commit(id, std::move(bytes), {.more = more});
        return length;
    }
    [[nodiscard]] const Limits& limits() const noexcept;
    /// ok if a message can be sent now. Only this end adds, so what was found holds.
    [[nodiscard]] Errc reserve();
    struct How {
        bool ordered = false;
        bool more = false; ///< it may wait for the next one
        std::uint32_t written = 0;
        const std::byte* from = nullptr;
    };
    void commit(std::uint8_t id, std::vector<std::byte> bytes, How how);

    std::shared_ptr<detail::NetworkState> network_;
    std::shared_ptr<detail::Wire> wire_;
    unsigned end_ = 0; ///< which end of the wire this is
};

class Channel : public Sender {
public:
    Channel() = default;
    Channel(Channel&& other) noexcept = default;
    Channel& operator=(Channel&& other) noexcept;
    ~Channel();

    /// F: bool(std::uint8_t id, const std::byte*, std::uint32_t length)
    template <class F> unsigned poll(F&& on_message, unsigned budget) {
        unsigned handled = 0;
        while (handled < budget) {
            const detail::Message* const message = front();
            written_ = message != nullptr ? message->written : 0;
            if (message == nullptr ||
                !on_message(message->id, message->bytes.data(),
                            static_cast<std::uint32_t>(message->bytes.size()))) {
                break;
            }
            pop();
            ++handled;
        }
        return handled;
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack, bool more = false) {
        return pack_and_commit(id, max, std::forward<Pack>(pack), more);
    }
    void ring() noexcept;
    static constexpr bool sends_packets = true;
    static constexpr bool writes_directly = true;
    using Ticket = std::uint64_t;
    /// The region itself is the key.
    [[nodiscard]] bool local_key(std::uint64_t region, std::uint32_t& key) const noexcept {
        key = 0;
        return region != 0;
    }
    [[nodiscard]] bool remote_key(std::uint64_t region, std::uint64_t& key) const noexcept {
        key = region;
        return region != 0;
    }
    [[nodiscard]] std::uint32_t max_write() const noexcept { return 4 * limits().max_message; }
    Errc write(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
               std::uint64_t to, std::uint64_t remote_key);
    Errc write_and_send(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
                        std::uint64_t to, std::uint64_t remote_key, std::uint8_t id,
                        Ticket& ticket);
    Errc send_from(std::uint8_t id, const std::byte* from, std::uint32_t length,
                   std::uint32_t local_key, bool tell, bool more, Ticket& ticket);
    [[nodiscard]] bool tell_of(Ticket ticket) noexcept {
        ring();
        told_ = std::max(told_, ticket);
        return true;
    }
    [[nodiscard]] bool written(Ticket) const;
    [[nodiscard]] bool settled(Ticket ticket) const { return written(ticket); }
    [[nodiscard]] std::uint32_t written_length() const noexcept { return written_; }
    [[nodiscard]] bool claim(std::uint64_t place);
    [[nodiscard]] std::optional<std::uint64_t> withdraw(std::uint64_t place);
    void cut() noexcept;

    [[nodiscard]] int event_fd() const noexcept;
    [[nodiscard]] counters::Counter& buffer_stalls() noexcept { return wire_->buffer_stalls[end_]; }
    [[nodiscard]] Errc arm();
    [[nodiscard]] Errc check();
    [[nodiscard]] bool peer_gone();
    [[nodiscard]] static constexpr bool was_refused() noexcept { return false; }

private:
    friend class Connection;
    friend class Port;
    Channel(std::shared_ptr<detail::NetworkState> network, std::shared_ptr<detail::Wire> wire,
            unsigned end);
    [[nodiscard]] const detail::Message* front();
    void pop();
    void close() noexcept;

    std::uint32_t written_ = 0; ///< by the write that the message at hand comes from
    Ticket sent_from_ = 0;      ///< messages, ever
    Ticket told_ = 0;           ///< of these, up to which written() says that they are done
};

class Connection : public Sender {
public:
    ~Connection() = default;

    [[nodiscard]] void* user() const noexcept { return user_; }
    [[nodiscard]] static const std::string& error_text() noexcept {
        static const std::string nothing;
        return nothing;
    }
    void set_user(void* user) noexcept { user_ = user; }
    [[nodiscard]] const PeerInfo& peer() const noexcept { return peer_; }
    [[nodiscard]] bool established() const;

    Errc send_ordered(std::uint8_t id, std::span<const std::byte> message);
    void confirm_received() noexcept {} // whatever is handed out is confirmed before
    void hurry_confirmation() noexcept {}

    Errc put(const void* local, std::size_t length, RemoteRegion& region, std::uint64_t remote,
             void* token, LocalMemory memory = {});
    Errc put_copy(const void* local, std::size_t length, RemoteRegion& region,
                  std::uint64_t remote);
    Errc get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t remote,
             void* token, LocalMemory memory = {});
    Errc atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t remote,
                void* token);
    Errc flush(void* token);
    Errc fence() noexcept { return Errc::ok; } // one queue, served in order
    [[nodiscard]] Errc check();
    [[nodiscard]] bool lost_writes() const;
    [[nodiscard]] Result<Channel> open_channel(std::uint64_t tag);

private:
    friend class Port;
    friend struct detail::NetworkState;
    enum class Stage : std::uint8_t { connecting, established, ended };

    Connection(std::shared_ptr<detail::NetworkState> network, std::shared_ptr<detail::Wire> wire,
               unsigned end, void* user)
        : Sender(std::move(network), std::move(wire), end), user_(user) {}

    Errc operate(detail::Operation operation, std::span<const std::byte> bytes);
    [[nodiscard]] detail::Lane& outgoing() const { return wire_->lane[end_]; }
    [[nodiscard]] detail::Lane& incoming() const { return wire_->lane[1 - end_]; }
    /// Why it ended, or nothing while it lives.
    [[nodiscard]] std::optional<Reason> ended() const;

    void* user_ = nullptr;
    PeerInfo peer_;
    // Guarded by the network's mutex:
    std::optional<std::vector<std::byte>> accepted_; ///< the answer, not handed out yet
    std::optional<Reason> refused_;
    std::vector<std::byte> refusal_;
    std::deque<detail::PendingChannel> channels_;
    Stage stage_ = Stage::connecting;
};

class Port {
public:
    /// On the network that the device's domain is bound to.
    [[nodiscard]] static Result<std::unique_ptr<Port>> open(const Device& device,
                                                            const PortOptions& options);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    [[nodiscard]] PortAddress address() const noexcept;
    [[nodiscard]] bool lost() const noexcept { return loss_seen_; }
    [[nodiscard]] const Limits& limits() const noexcept;
    [[nodiscard]] static constexpr Speed speed() noexcept { return {1e-6, 1e-6, 1e9, 0}; }
    [[nodiscard]] Result<void> listen(const ServiceName& service);
    void unlisten(const ServiceName& service);
    [[nodiscard]] Result<Connection*> connect(const PortAddress& address,
                                              std::span<const std::byte> private_data, void* user);
    [[nodiscard]] Result<Connection*> connect(const ServiceName& service,
                                              std::span<const std::byte> private_data, void* user);
    void close(Connection* connection);

    template <class S> unsigned progress(S& sink) {
        unsigned handled = 0;
        in_progress_ = true;
        loss_seen_ = lost_.load(std::memory_order_acquire);
        Event event;
        while (handled < budget() && next(event)) {
            ++handled;
            deliver(sink, event);
        }
        in_progress_ = false;
        graveyard_.clear();
        return handled;
    }
    [[nodiscard]] int event_fd() const noexcept { return bell_->fd.get(); }
    [[nodiscard]] Errc arm(bool for_credit = false);
    void wake() noexcept;

private:
    friend class Network;
    friend struct detail::NetworkState;

    struct Event {
        enum class Kind : std::uint8_t {
            request,
            connected,
            disconnected,
            message,
            complete,
            channel
        };
        Kind kind{};
        Connection* connection = nullptr;
        detail::Request request;
        detail::Message message;
        std::vector<std::byte> data;
        Reason reason{};
        detail::Completion completion;
        detail::PendingChannel channel;
    };

    Port(std::shared_ptr<detail::NetworkState> network, std::uint64_t number, Side side,
         FunctionId function, PortOptions options);

    [[nodiscard]] unsigned budget() const noexcept;
    [[nodiscard]] bool next(Event& event);
    [[nodiscard]] bool next_message(Event& event);
    [[nodiscard]] bool next_end(Event& event);
    [[nodiscard]] bool anything() const;
    void serve(Connection& connection);
    void decide(Event& event, const ConnectDecision& decision);
    void confirm(Connection& connection);
    [[nodiscard]] Result<Connection*> start_connect(Port* target, detail::Request request,
                                                    std::string_view what, void* user);
    void bury(Connection& connection);

    template <class S> void deliver(S& sink, Event& event) {
        static_assert(Sink<S, Connection, Channel>);
        switch (event.kind) {
        case Event::Kind::request: {
            const ConnectRequest request{.peer = event.request.peer,
                                         .service = event.request.service,
                                         .service_function = event.request.function,
                                         .private_data = event.request.data};
            decide(event, sink.on_connect_request(*event.connection, request));
            break;
        }
        case Event::Kind::connected:
            sink.on_connected(*event.connection, std::span<const std::byte>(event.data));
            break;
        case Event::Kind::disconnected:
            sink.on_disconnected(*event.connection, event.reason,
                                 std::span<const std::byte>(event.data));
            break;
        case Event::Kind::message:
            confirm(*event.connection); // before the sink may close the connection
            sink.on_message(*event.connection, event.message.id, event.message.bytes.data(),
                            static_cast<std::uint32_t>(event.message.bytes.size()));
            break;
        case Event::Kind::complete:
            sink.on_complete(*event.connection, event.completion.token, event.completion.status);
            break;
        case Event::Kind::channel:
            sink.on_channel(*event.connection, event.channel.tag,
                            Channel(network_, std::move(event.channel.wire), 1));
            break;
        }
    }

    std::shared_ptr<detail::NetworkState> network_;
    std::uint64_t number_;
    Side side_;
    FunctionId function_;
    PortOptions options_;
    std::shared_ptr<detail::Bell> bell_;
    bool in_progress_ = false;
    std::atomic<bool> lost_ = false;
    bool loss_seen_ = false;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<std::unique_ptr<Connection>> graveyard_; ///< closed inside progress
    // Guarded by the network's mutex:
    std::deque<detail::Request> requests_;
    bool held_ = false;
    bool killed_ = false;
};

} // namespace comch::link::fake
