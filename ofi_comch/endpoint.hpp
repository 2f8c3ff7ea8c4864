// Endpoints: reliable datagrams and connected. What they send, what they receive, and what became
// of it. All member functions are called with the domain's lock held.
//
// Reliable datagrams: an endpoint has one connection that it sends on for each peer: the first that
// either of the two has made. (Both may connect at once; then there are two, and each end stays
// with what it chose, so messages of one direction stay in order.) The first send to a peer
// connects and answers -FI_EAGAIN until that is through.
//
// Order: everything a peer gets from us goes through one ring, in the order of the calls. Long
// messages, writes and reads are announced there, in order; their data comes later, by the core's
// one-sided operations.
//
// Room: what the program sends is refused with -FI_EAGAIN when the ring is full; what we owe a peer
// (answers) waits in Conn::outbox.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "address.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "recv_queue.hpp"
#include "station.hpp"
#include "wire.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Eq;
struct Srx;

/// The process's endpoint at the other end of some connections.
struct Peer {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    std::uint64_t av_version = 0; ///< the vector had no address for it then
    link::PortAddress port{};     ///< zeros: not known yet, for it is found by name
    std::string name;             ///< what it says that it listens under (Av::name_key), or empty
    Conn* route = nullptr;        ///< what we send on
    Conn* connecting = nullptr;   ///< ours, not established yet
    unsigned conns = 0;
    Errc failure = Errc::ok; ///< why there is no route
    bool dead = false;       ///< and never will be
};

using Kept = KeptRegistrations::Kept;

/// Something of ours that the peer has yet to say `done` to, or to answer; or that the device is
/// at.
struct Operation : Awaited {
    Operation() : Awaited{true} {}

    enum class Kind : std::uint8_t { send, write, read, atomic, fetch };
    Conn* conn = nullptr;
    void* context = nullptr;
    std::uint64_t flags = 0;  ///< for its completion
    std::uint64_t region = 0; ///< our memory that is registered for it; 0: none
    std::uint64_t length = 0;
    std::uint64_t sent = 0;               ///< in parts: of `length`
    std::unique_ptr<std::byte[]> staging; ///< where `iov` has several parts and the data is long
    iovec iov[max_iov] = {};              ///< where the result goes; in parts: what is sent
    std::size_t count = 0;
    std::uint64_t answer = 0; ///< of Conn::asked
    std::uint32_t generation = 0;
    std::uint32_t index = 0; ///< its own
    Kind kind = Kind::send;
    bool active = false;
    bool report = false;
    bool direct = false;  ///< the device does it: the peer has no word in it
    bool closing = false; ///< the peer has said `done`; it ends when its window is closed
    Errc ended_with = Errc::ok;
    std::uint64_t window = 0; ///< through which alone the peer reaches our memory; 0: by `region`
    Mr* mr = nullptr;         ///< what our memory is part of, if the device knows it by that
    Kept* kept = nullptr;     ///< or else by this
};

/// Data of a peer's operation that we move with the core's one-sided operations, or that is coming.
struct Transfer : Awaited {
    enum class Kind : std::uint8_t { receive, write, read };
    Kind kind = Kind::receive;
    bool active = false;
    bool waiting = false; ///< in Conn::waiting
    Conn* conn = nullptr;
    Receive* receive = nullptr;  ///< null: a message that is not wanted
    std::byte* memory = nullptr; ///< where to or from
    std::size_t offset = 0;      ///< of `memory` in a multi-receive's buffer
    std::uint64_t length = 0;
    std::unique_ptr<std::byte[]> staging; ///< for a receive into several parts
    Mr* mr = nullptr;                     ///< of a write or read
    Kept* kept = nullptr;                 ///< of a receive
    Arrival arrival;
};

/// What a program asks to be sent.
struct SendCall {
    fi_addr_t to = FI_ADDR_UNSPEC;
    const iovec* iov = nullptr;
    std::size_t count = 0;
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    std::uint64_t flags = 0; ///< FI_TAGGED or FI_MSG; FI_REMOTE_CQ_DATA, FI_DELIVERY_COMPLETE, ...
    void* context = nullptr;
    bool report = false; ///< completes in the queue
    bool inject = false; ///< and never does
};

/// A read or write that a program asks for.
struct RmaCall {
    fi_addr_t to = FI_ADDR_UNSPEC;
    const iovec* iov = nullptr;
    std::size_t count = 0;
    std::uint64_t address = 0;
    std::uint64_t key = 0;
    std::uint64_t data = 0;
    std::uint64_t flags = 0;
    void* context = nullptr;
    bool report = false;
    bool inject = false;
};

struct AtomicRequest {
    fi_addr_t to = FI_ADDR_UNSPEC;
    const fi_ioc* operands = nullptr;
    std::size_t operand_count = 0;
    const fi_ioc* compares = nullptr;
    std::size_t compare_count = 0;
    const fi_ioc* results = nullptr;
    std::size_t result_count = 0;
    std::uint64_t address = 0;
    std::uint64_t key = 0;
    int datatype = 0;
    int op = 0;
    std::uint64_t flags = 0;
    void* context = nullptr;
    bool report = false;
    bool inject = false;
};

class Endpoint {
public:
    /// Index of a counter by what it counts.
    enum Count : unsigned { sends, receives, reads, writes, remote_reads, remote_writes, kinds };
    enum class State : std::uint8_t { idle, connecting, connected, ended };

    explicit Endpoint(Domain& of) : domain(&of), lock(of.lock.get()) {}
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    // ---- what a program does (endpoint_*.cpp) --------------------------------------------------

    [[nodiscard]] ssize_t send(const SendCall& call);
    /// Sends or posts by the short way (endpoint_plain.hpp). False: it takes the general one.
    template <std::uint64_t Kind, bool HasData, bool Inject>
    [[nodiscard]] bool send_plain(const void* buffer, std::size_t length, fi_addr_t to,
                                  std::uint64_t tag, std::uint64_t data, void* context,
                                  ssize_t& result);
    template <std::uint64_t Kind>
    [[nodiscard]] bool post_plain(void* buffer, std::size_t length, fi_addr_t from,
                                  std::uint64_t tag, std::uint64_t ignore, void* context);
    [[nodiscard]] ssize_t rma_write(const RmaCall& call);
    [[nodiscard]] ssize_t rma_read(const RmaCall& call);
    [[nodiscard]] ssize_t atomic(const AtomicRequest& call);

    // ---- what the port reports (station.cpp) ---------------------------------------------------

    [[nodiscard]] link::ConnectDecision on_connect_request(Connection& link,
                                                           const link::ConnectRequest& request);
    void on_connected(Conn& conn, std::span<const std::byte> reply);
    void on_message(Conn& conn, std::uint8_t id, const std::byte* data, std::uint32_t length);
    void on_transfer(Transfer& transfer, Errc status);
    void on_direct(Operation& operation, Errc status);
    void on_disconnected(Conn& conn, link::Reason reason, std::span<const std::byte> reply);
    /// Ends it from here: the peer sent what no correct one sends, or we have no memory for what it sent.
    void break_off(Conn& conn, link::Reason why = link::Reason::protocol_error);
    /// Reliable datagrams: the device is gone, and nobody's messages can come any more.
    void lose_device();

    /// True: started or done; false: there was no room, it is at the end of Conn::waiting.
    [[nodiscard]] bool start(Transfer& transfer);
    /// As many as there is room for of those that wait.
    unsigned send_more_parts(Conn& conn);

    // ---- receiving (endpoint_receive.cpp) -------------------------------------------------------

    /// Before it is taken from where it is: deliver() needs no memory then.
    void make_room_for(const Arrival& arrival) {
        if (!arrival.is_here()) {
            transfers_.make_room();
        }
    }
    /// The same for a receive that is posted. False: there is none, and the receive has ended with that.
    [[nodiscard]] bool can_deliver(Receive& receive, const Arrival& arrival);
    /// A message for a receive of this endpoint.
    void deliver(Receive& receive, const Arrival& arrival);
    /// Nobody wants it: its sender is told that it is done with.
    void discard(const Arrival& arrival);
    void complete_receive(Receive& receive, const Arrival& arrival, std::byte* where,
                          std::size_t room, Errc status);
    /// Ends a receive that is in no list any more.
    void end_receive(Receive& receive, Errc status);
    /// Ends all that are posted.
    void fail_receives(Errc status);
    /// How a receive ends that is posted now and finds no message: nothing can come for it any
    /// more. Ok: something can.
    [[nodiscard]] Errc end_of(fi_addr_t from);
    [[nodiscard]] fi_addr_t address_of(Peer* peer);
    /// Removes what a program does not use any more.
    void forget_address(fi_addr_t address);

    // ---- connected endpoints (endpoint_cm.cpp) --------------------------------------------------

    [[nodiscard]] int connect_to(const Address& address, std::span<const std::byte> data);
    [[nodiscard]] int accept(std::span<const std::byte> data);
    /// Closes the connection and fails what was outstanding on it.
    void shut_down();

    /// Decides which calls may go the short way; after whatever that depends on has changed.
    void choose_ways() noexcept;

    /// 0 or a negative error: something that it needs is not bound.
    [[nodiscard]] int enable();
    /// Ready to use: from now on it is progressed.
    void set_enabled();
    void bind_eq(Eq& to);

    /// What the program's close does; calls on the endpoint fail afterwards.
    void close();

    // In the order of use.
    fid_ep fid{};
    Domain* domain;
    Lock* lock; ///< the domain's
    bool sends_plainly = false;
    bool posts_plainly = false;
    bool arrives_plainly = false;
    bool reports_sends = false; ///< of calls that take no flags
    bool is_directed = false;   ///< receives may name a source
    bool knows_dead = false;    ///< of peers: a source that is named may be one
    bool enabled = false;
    bool closed = false;
    /// FI_COMPLETION or 0: what a receive must have asked for to be reported.
    std::uint64_t must_ask = 0;
    std::uint64_t rx_op_flags = 0;
    Cq* tx_cq = nullptr;
    Cq* rx_cq = nullptr;
    RecvQueue* queue = nullptr; ///< own_queue, or the shared context's
    std::unique_ptr<RecvQueue> own_queue;
    std::uint64_t caps = 0;
    std::shared_ptr<Station> station;
    fi_ep_type type = FI_EP_RDM;
    bool tx_selective = false;
    bool rx_selective = false;
    std::uint64_t tx_op_flags = 0;
    std::size_t min_multi_recv = 64;
    std::size_t eager_size = 0; ///< messages up to this are sent at once, in parts if need be
    /// Reads and writes need not keep the order of the calls, so the device may do them.
    bool goes_direct = false;
    Cntr* counters[kinds] = {};
    Srx* srx = nullptr;
    Av* av = nullptr;
    Eq* eq = nullptr;

    State state = State::idle; ///< of reliable datagrams only idle, and ended without the device
    Errc ended_with = Errc::canceled; ///< once it has ended: what receives end with

    // Connected endpoints.
    Conn* conn = nullptr;
    /// That it was opened for; null: it connects by itself.
    std::shared_ptr<ConnectionRequest> taken_request;
    std::optional<Address> remote_address;
    std::optional<Address> local_address;
    FunctionId function = dpu_function_id; ///< the host function that its names lie under
    bool socket_addresses = false;         ///< the program wants addresses in that form
    std::uint16_t socket_port = 0;         ///< and what fi_getname tells

private:
    [[nodiscard]] Conn* route(fi_addr_t to, ssize_t& error) {
        if (to < routes_.size() && routes_[to] != nullptr) [[likely]] {
            return routes_[to];
        }
        return find_route(to, error);
    }
    /// Of a queue or counter that is bound.
    template <class Object> void release(Object*& bound);
    void drain();
    /// The shared context's receives that messages were still coming into fail.
    void give_back_shared();
    [[nodiscard]] Conn* find_route(fi_addr_t to, ssize_t& error);
    /// As libfabric's errors, positive.
    [[nodiscard]] int connect(Peer& peer, const Address& address);
    [[nodiscard]] Peer& peer_at(fi_addr_t to, const Address& address);
    [[nodiscard]] Peer& peer_of(const link::PortAddress& port);
    [[nodiscard]] Peer& make_peer();
    /// Those that have gone and that the program does not send to: a server may live for months.
    void drop_unused_peers();
    [[nodiscard]] fi_addr_t address_by_name(const Peer& peer) const;
    /// Whom messages that were sent there have found, or null.
    [[nodiscard]] Peer* found_at(fi_addr_t address) const;
    /// Is somebody connected whose messages come from there?
    [[nodiscard]] bool is_anybody_at(fi_addr_t address);
    /// The address whose receives nobody who is there can serve now that this peer has gone; or
    /// none.
    [[nodiscard]] fi_addr_t deserted_by(Peer& peer);
    /// Tells who is at the other end what we listen under.
    void tell_name(Conn& to) const;
    /// Fails what was outstanding on a connection.
    void lose(Conn& conn, link::Reason reason);
    /// From now on receives that only this peer could serve fail.
    void note_dead(Peer& peer);
    /// Fails the receives that only this peer could have served.
    void fail_directed(Peer& peer, Errc status);
    void fail_receive(const Receive& receive, Errc status);
    /// Tells a connected endpoint's program that its connection has ended.
    void end_connection(Errc status);

    [[nodiscard]] ssize_t send_long(Conn& conn, const SendCall& call, std::size_t length);
    /// What an error of it is reported with: fi_endpoint(3) has the endpoint's for what is injected.
    template <class Call> [[nodiscard]] void* error_context(const Call& call) const {
        return call.inject ? fid.fid.context : call.context;
    }
    /// For what the link has no room for. A program that tries again without progress must get on:
    /// also where the link is held.
    [[nodiscard]] static ssize_t try_again(Conn& conn) {
        if (conn.in_parts != nullptr) {
            (void)conn.station->push(conn);
        }
        return -FI_EAGAIN;
    }
    /// The same for what waits until the peer has answered. Connections may have ended when it returns.
    [[nodiscard]] ssize_t wait_for_answers() {
        (void)station->progress();
        return -FI_EAGAIN;
    }
    [[nodiscard]] ssize_t send_in_parts(Conn& conn, const SendCall& call, std::size_t length);
    [[nodiscard]] Operation& begin(Operation::Kind kind, Conn& conn, std::uint64_t flags,
                                   void* context, bool report, std::uint64_t& name);
    /// The peer will answer it with so many bytes of data.
    static void expect_answer(Operation& operation, std::uint64_t length);
    [[nodiscard]] Operation* find(std::uint64_t name, const Conn& conn);
    /// FI_FENCE: something before this operation is not done yet at the peer.
    [[nodiscard]] bool must_wait(std::uint64_t flags, const Conn& to) const {
        return (flags & FI_FENCE) != 0 && has_outstanding(to);
    }
    [[nodiscard]] bool has_outstanding(const Conn& conn) const;
    void finish(Operation& operation, Errc status);
    /// The peer is done with it. It is finished when the peer's device cannot reach its memory any more.
    void finish_answered(Operation& operation, Errc status);
    void forget(Operation& operation);
    class Parser;

    // Reads and writes that the device does by itself (endpoint_direct.cpp).
    /// Where our device finds the memory; null: it cannot. `asks`: but could, if the peer told it.
    [[nodiscard]] Reach* reach_of(Conn& to, const RmaCall& call, std::size_t length, bool is_write,
                                  bool& asks);
    /// True: `result` is the answer of the call. False: the peer's CPU has to do it.
    [[nodiscard]] bool go_direct(Conn& to, Reach& reach, const RmaCall& call, std::size_t length,
                                 bool is_write, ssize_t& result);
    void tell_region(Conn& to, Mr& mr);
    [[nodiscard]] bool take_region(Conn& from, Parser& parser);

    /// What the link's device knows the program's registration by; 0: it does not.
    [[nodiscard]] std::uint64_t device_region_of(Mr& mr);
    /// The same for a buffer of the program, until let_go(); null: it is registered by itself.
    [[nodiscard]] Kept* keep(std::byte* base, std::uint64_t length, std::uint32_t access);
    void let_go(Kept*& kept);
    /// Whatever of ours it was about: no peer reaches that any more.
    void let_go_of_memory(Operation& operation);
    /// Has the peer reach what is kept through a window; false: it cannot.
    [[nodiscard]] bool open_window(Operation& operation, std::byte* base, std::uint64_t length,
                                   std::uint32_t access);
    /// Makes our memory reachable for the time of an operation; false: no memory.
    [[nodiscard]] bool expose(Operation& operation, const iovec* iov, std::size_t count,
                              std::size_t length, std::uint32_t access, bool gather,
                              wire::Source& source);
    /// For an operation that cannot begin: the error to answer, or 0 and an error completion.
    [[nodiscard]] ssize_t fail_call(bool inject, std::uint64_t flags, void* context, ssize_t error,
                                    Count count);
    void add_failure(std::uint64_t flags, void* context, int error, Count count);

    void complete(Cq* cq, bool report, void* context, std::uint64_t flags, std::size_t length,
                  Count count) {
        if (counters[count] != nullptr) [[unlikely]] {
            counters[count]->count();
        }
        if (report && cq != nullptr) [[likely]] {
            cq->add({context, flags, length, nullptr, 0, 0}, FI_ADDR_NOTAVAIL);
        }
    }

    /// The general way. Where there is no memory for it, the connection ends.
    void take_any(Conn& conn, std::uint8_t id, const std::byte* data, std::uint32_t length);
    [[nodiscard]] bool handle(Conn& conn, std::uint8_t id, Parser& parser);
    /// A short message whose receive is posted and plain. False: it takes the general way.
    [[nodiscard]] bool take_plain(Conn& conn, std::uint8_t id, const std::byte* data,
                                  std::uint32_t length);
    [[nodiscard]] bool take_message(Conn& conn, std::uint8_t id, Parser& parser);
    [[nodiscard]] bool take_first_part(Conn& conn, std::uint8_t id, Parser& parser);
    [[nodiscard]] bool take_part(Conn& conn, Parser& parser);
    /// The next bytes of what is coming.
    void add_part(Conn& conn, const std::byte* data, std::uint32_t length);
    /// Its payload goes into that from now on.
    static void direct_coming(Transfer& transfer);
    /// What is still to come of it goes nowhere.
    static void forget_coming(const Arrival& arrival);
    /// The same, and its sender will be told.
    static void give_up_coming(const Arrival& arrival, Errc status);
    [[nodiscard]] static bool take_words(std::uint8_t id, Parser& parser, Arrival& arrival);
    [[nodiscard]] bool take_done(Conn& conn, Parser& parser);
    [[nodiscard]] bool take_write(Conn& conn, std::uint8_t id, Parser& parser, bool is_long);
    [[nodiscard]] bool take_read(Conn& conn, std::uint8_t id, Parser& parser, bool is_long);
    [[nodiscard]] bool take_reply(Conn& conn, Parser& parser);
    [[nodiscard]] bool take_atomic(Conn& conn, std::uint8_t id, Parser& parser);
    [[nodiscard]] bool take_decision(Conn& conn, Parser& parser, bool accepted);
    [[nodiscard]] bool take_name(Conn& conn, Parser& parser);
    void report_remote_write(Conn& from, Mr& mr, bool has_data, std::uint64_t data,
                             std::uint64_t length, std::uint64_t kind);
    void arrive(const Arrival& arrival);
    /// The first posted receive that takes it, or null.
    [[nodiscard]] Receive* receive_for(const Arrival& arrival);
    /// A peer has got its address: posted receives take what came from it before.
    void arrive_again(const Peer& peer);
    [[nodiscard]] Transfer& take_transfer(Transfer::Kind kind, Conn& conn);
    void free_transfer(Transfer& transfer);

    std::vector<Conn*> routes_; ///< by fi_addr_t; null: not known to be usable
    std::vector<Peer*> peers_by_address_;
    std::unordered_map<link::PortAddress, Peer*, PortHash> peers_by_port_;
    /// Where messages only came from: how the last one who was there has died.
    std::unordered_map<fi_addr_t, Errc> dead_;
    std::vector<std::unique_ptr<Peer>> peers_;
    static constexpr std::size_t most_peers_at_first = 64;
    static constexpr std::size_t most_dead = 1024; ///< that the program does not know
    std::size_t most_peers_ = most_peers_at_first; ///< then it is worth looking for unused ones
    std::vector<std::unique_ptr<Operation>> operations_;
    std::vector<std::uint32_t> free_operations_;
    Pool<Transfer> transfers_;
    wire::HelloReply hello_reply_{};
    std::vector<std::byte> refusal_; ///< what came with a refusal
};

[[nodiscard]] int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint,
                                void* context);

// Operation tables.
extern fi_ops_ep endpoint_ops;
extern fi_ops_cm endpoint_cm_ops;
extern fi_ops_msg endpoint_msg_ops;
extern fi_ops_tagged endpoint_tagged_ops;
extern fi_ops_rma endpoint_rma_ops;
extern fi_ops_atomic endpoint_atomic_ops;
extern fi_ops_collective endpoint_collective_ops; ///< of shared contexts, too
extern fi_ops_msg srx_msg_ops;
extern fi_ops_tagged srx_tagged_ops;

} // namespace comch::ofi::inline COMCH_OFI_LINK
