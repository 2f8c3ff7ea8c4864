// An endpoint of the 2023 generation: a server or client of the core with the deferred manners of
// that interface.
//
//   * The core hands out what arrives while it is progressed; programs of this generation ask for
//     one message at a time. What arrived and was not asked for yet waits in a backlog, in the
//     order of its arrival over all clients. When that is full the core is not progressed, and the
//     senders are told `again`.
//   * A service accepts clients in receive() only.
//   * That the other end has left is kept from a client until it sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <comch/client.hpp>
#include <comch/progress.hpp>
#include <comch/server.hpp>
#include <doca_comm_channel.h>

#include "doca_comch/comm_channel/backlog.hpp"
#include "doca_comch/comm_channel/event_channel.hpp"
#include "doca_comch/comm_channel/greeting.hpp"
#include "doca_comch/comm_channel/handle.hpp"
#include "doca_comch/comm_channel/own_services.hpp"
#include "doca_comch/comm_channel/peer.hpp"
#include "doca_comch/comm_channel/properties.hpp"

namespace comch::doca {

class Endpoint {
public:
    [[nodiscard]] static Result<std::unique_ptr<Endpoint>> create();
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    /// Held by whoever calls anything below. Programs do send and receive in two threads.
    std::mutex mutex;

    Properties properties; ///< to be changed while not active
    [[nodiscard]] bool active() const noexcept { return server_ || client_; }

    [[nodiscard]] doca_error_t listen(std::string_view name);
    [[nodiscard]] doca_error_t connect(std::string_view name, doca_comm_channel_addr_t** address);
    void disconnect(Peer& peer);

    [[nodiscard]] doca_error_t send(Peer& peer, std::span<const std::byte> message);
    [[nodiscard]] doca_error_t receive(void* to, std::size_t* length,
                                       doca_comm_channel_addr_t** from);
    /// Takes the peer's snapshot.
    [[nodiscard]] doca_error_t update(Peer& peer);

    // ---- event channels (endpoint_events.cpp) --------------------------------------------------

    [[nodiscard]] doca_error_t event_channels(int* send, int* receive);
    [[nodiscard]] doca_error_t arm_send();
    [[nodiscard]] doca_error_t arm_receive();

    // ---- of a service (endpoint_events.cpp) ----------------------------------------------------

    [[nodiscard]] doca_error_t service_channel(int* channel);
    [[nodiscard]] doca_error_t update_service();
    [[nodiscard]] doca_error_t list_peers(doca_comm_channel_addr_t*** array, std::uint32_t* length);
    [[nodiscard]] doca_error_t count_pending(std::uint32_t* count);

private:
    explicit Endpoint(std::unique_ptr<ProgressEngine> engine);

    [[nodiscard]] ConnectionLimits limits() const noexcept;
    [[nodiscard]] Greeting greeting() const noexcept;
    [[nodiscard]] ServerHandlers server_handlers() noexcept;
    [[nodiscard]] ClientHandlers client_handlers() noexcept;

    [[nodiscard]] doca_error_t open_client(const Device& device, std::string_view name, Peer& peer);
    void await_answer(const Peer& peer);
    Peer& add_peer();
    void remove_peer(Peer& peer) noexcept;
    void meet(Peer& peer, Connection& connection);
    void accept_waiting();
    void accept_next(Connection& request);
    [[nodiscard]] bool is_connected_already(const Connection& request,
                                            const Greeting& greeting) const;

    void on_message(Peer* peer, std::span<const std::byte> message);
    void on_end(Peer& peer, bool orderly);
    [[nodiscard]] bool keep(Peer& peer, std::span<const std::byte> message);
    void fail(Peer& peer);
    void push_failure(Backlog::Kind kind, Peer* peer);
    void on_client_state(State state);

    /// Progresses the core, if there is room for what may arrive. `slack`: a little more room, for
    /// who must learn how things are. False: there is none.
    bool progress(std::size_t slack = 0);
    /// After anything that progressed: rings what has happened, and sees to it that the engine
    /// wakes the channels that are still armed.
    /// With an armed channel: reports events and lets the engine wake us. True if it has handled more.
    bool settle();
    void report_events();
    [[nodiscard]] bool any_armed() const noexcept;
    [[nodiscard]] bool has_news_for_send() const;
    void tell_confirmations();
    [[nodiscard]] doca_error_t open_channels();
    [[nodiscard]] doca_error_t check_service() const;

    const std::unique_ptr<ProgressEngine> engine_;
    const std::uint64_t number_; ///< unique in this process
    std::uint64_t attempts_ = 0;
    bool was_active_ = false;

    Backlog backlog_;
    std::vector<std::unique_ptr<Peer>> peers_;
    bool requests_wait_ = false;
    /// The service's snapshot. Never reallocated: programs read arrays that are void.
    std::vector<doca_comm_channel_addr_t*> listed_;
    std::uint32_t pending_ = 0;

    EventChannel send_channel_;
    EventChannel receive_channel_;
    EventChannel service_channel_;
    bool send_event_ = false;
    bool receive_event_ = false;
    bool service_event_ = false;

    OwnServices::Service own_service_; ///< that the server serves
    std::unique_ptr<Server> server_;   ///< the last: destroyed first
    std::unique_ptr<Client> client_;
};

} // namespace comch::doca

struct doca_comm_channel_ep_t : comch::doca::Handle<comch::doca::Endpoint, 0x2d646e6570636321> {};
