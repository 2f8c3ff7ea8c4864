// A port of the core, and what hangs on it: the connections, and who takes requests to connect.
//
// A reliable-datagram endpoint has a station of its own; so has a passive endpoint, with all
// endpoints accepted from it; the connecting endpoints of a domain share one. Everything here is
// called with the station's lock held.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "address.hpp"
#include "core/memory/remote_region.hpp"
#include "libfabric.hpp"
#include "lock.hpp"
#include "over_link.hpp"
#include "wire.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

class Endpoint;
class PassiveEndpoint;
class ProgressThread;
class Station;
class Waiter;
struct Operation;
struct Peer;
struct Transfer;
struct Unexpected;
struct ConnectionRequest;

/// What a one-sided operation of the core is told of its end by: an Operation or a Transfer.
struct Awaited {
    bool is_operation = false;
};

/// Memory of a peer's program that our device may be at by itself.
struct Reach {
    RemoteRegion region;
    std::uint64_t address; ///< of its first byte, as the peer's programs name it
};

/// A message of our own that found no room in the ring: it must go out, so it waits here.
struct Outgoing {
    std::uint8_t id = 0;
    std::vector<std::byte> bytes;
};

/// A message that comes in parts, as far as it has come. (Neither `to` nor `kept`: nobody wants it.)
struct Coming {
    std::uint64_t length = 0; ///< 0: there is none
    std::uint64_t come = 0;   ///< of it
    Transfer* to = nullptr;   ///< into a receive
    Unexpected* kept = nullptr;
    /// Given up: what its sender is told, and of which operation (0: none), when the rest is here. Not
    /// before: who is still sending it takes an answer for a lie.
    std::uint64_t operation = 0;
    Errc status = Errc::ok;
};

/// One connection. Freed when it has ended and everything that used it has been failed.
struct Conn {
    Station* station = nullptr;
    Connection* link = nullptr;
    Endpoint* endpoint = nullptr;         ///< whose messages come; null until accepted
    ConnectionRequest* request = nullptr; ///< passive side, until accepted or rejected
    Peer* peer = nullptr;                 ///< reliable datagrams: who is at the other end
    bool established = false;
    bool busy = false; ///< in the station's list
    /// There was none for something that must go out: the station ends it.
    bool out_of_memory = false;
    std::deque<Outgoing> outbox;
    std::uint64_t owed = 0;        ///< in the outbox, as wire::max_unanswered counts
    std::uint64_t asked = 0;       ///< of the peer, likewise
    std::uint64_t unconfirmed = 0; ///< messages of ours that the peer is still to answer
    std::deque<Transfer*> waiting; ///< transfers that the link had no room for
    /// A message of ours in parts, some of which the link had no room for. Until they are on it the
    /// link is held: nothing of the program's goes between them.
    Operation* in_parts = nullptr;
    Coming coming;                                    ///< one of the peer's
    std::unordered_map<std::uint64_t, Reach> reaches; ///< by key
    Reach* last_reach = nullptr;                      ///< the one used last, of last_key
    std::uint64_t last_key = 0;
    std::size_t direct = 0; ///< operations of ours that the device is at by itself

    /// Sends `header`, then `payload`, now or as soon as there is room.
    void send_own(std::uint8_t id, const void* header, std::size_t header_size,
                  const void* payload = nullptr, std::size_t payload_size = 0);
    /// Says how a named operation of the peer ended.
    void send_done(std::uint64_t operation, Errc status, bool of_atomic = false);
    void mark_busy();
};

class Station {
public:
    [[nodiscard]] static Result<std::shared_ptr<Station>> open(const Device& device,
                                                               std::shared_ptr<Lock> lock);
    ~Station();
    Station(const Station&) = delete;
    Station& operator=(const Station&) = delete;

    [[nodiscard]] Port& port() noexcept { return *port_; }
    [[nodiscard]] Lock& lock() noexcept { return *lock_; }
    [[nodiscard]] const Device& device() const noexcept { return device_; }

    unsigned progress();

    /// For who has time: what need not be done at once.
    void tidy();

    /// Answers to peers wait for room.
    [[nodiscard]] bool owes() const noexcept { return !busy_.empty(); }

    /// Sends what waits for room on one connection, as far as there is some.
    unsigned push(Conn& conn);

    /// Ok: the port's descriptor ends a sleep. Again: progress first.
    [[nodiscard]] Errc arm();
    /// Who sleeps must be woken if somebody else progresses, which disarms the port.
    void add_sleeper(Waiter& waiter);
    void remove_sleeper(Waiter& waiter);
    /// They progress, and arm anew.
    void wake_sleepers();

    [[nodiscard]] Conn* add_conn();
    void remove_conn(Conn* conn);
    /// Connects an endpoint to a port, or to who listens under a name.
    [[nodiscard]] Result<Conn*> connect(Endpoint& endpoint, Peer* peer, const Address& to,
                                        std::span<const std::byte> private_data);

    Endpoint* datagram_endpoint = nullptr;
    PassiveEndpoint* passive_endpoint = nullptr;
    ProgressThread* progress_thread = nullptr; ///< where the program asks for one

private:
    friend struct Conn;
    Station(const Device& device, std::unique_ptr<Port> port, std::shared_ptr<Lock> lock)
        : lock_(std::move(lock)), device_(device), port_(std::move(port)) {}

    unsigned push_busy();
    /// The port is lost; its connections have ended by themselves.
    unsigned tell_loss();

    std::shared_ptr<Lock> lock_;
    Device device_;
    std::unique_ptr<Port> port_;
    bool loss_told_ = false; ///< of the port, to the endpoint that listens on it
    std::vector<std::unique_ptr<Conn>> conns_;
    std::vector<Conn*> busy_;
    std::vector<Waiter*> sleepers_;
};

} // namespace comch::ofi::inline COMCH_OFI_LINK
