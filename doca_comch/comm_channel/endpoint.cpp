#include "doca_comch/comm_channel/endpoint.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

using AddressPool = HandlePool<doca_comm_channel_addr_t>;

/// More messages than one connection's ring holds: what a peer that died may have left there.
constexpr std::size_t slack_to_see_an_end = 4096;

/// How long connecting over RDMA waits to be told that nobody listens. That takes a round trip; a
/// service that does listen may take its time to accept, and is not waited for.
constexpr auto refusal_patience = std::chrono::seconds(2);

Peer* peer_of(const Connection& connection) noexcept {
    return reinterpret_cast<Peer*>(static_cast<std::uintptr_t>(connection.user_data()));
}

doca_error_t active_already(std::string_view name) {
    return refuse(DOCA_ERROR_NOT_PERMITTED,
                  fmt::format("cannot use the endpoint for '{}': it listens or is connected "
                              "already; take another endpoint",
                              name));
}

doca_error_t too_long(std::size_t length, std::uint32_t limit) {
    return refuse(
        DOCA_ERROR_INVALID_VALUE,
        fmt::format("cannot send {} bytes: the two ends agree on {} at most", length, limit));
}

} // namespace

Endpoint::Endpoint(std::unique_ptr<ProgressEngine> engine)
    : engine_(std::move(engine)), number_([] {
          static std::atomic<std::uint64_t> last{0};
          return ++last;
      }()) {}

Result<std::unique_ptr<Endpoint>> Endpoint::create() {
    auto engine = ProgressEngine::create();
    if (!engine) {
        return tl::unexpected(std::move(engine.error()));
    }
    return std::unique_ptr<Endpoint>(new Endpoint(std::move(*engine)));
}

Endpoint::~Endpoint() {
    if (server_) {
        OwnServices::instance().remove(own_service_);
    }
    for (const std::unique_ptr<Peer>& peer : peers_) {
        AddressPool::instance().give_back(peer->handle);
    }
}

ConnectionLimits Endpoint::limits() const noexcept {
    // Not the message size: the core wants both ends to say the same, and here each end has its
    // own, which the greetings tell.
    return {.message_size = 0,
            .send_queue = properties.send_queue,
            .recv_queue = properties.recv_queue};
}

Greeting Endpoint::greeting() const noexcept {
    return {.max_message = properties.max_message, .endpoint = number_, .attempt = attempts_};
}

// ---- connections -------------------------------------------------------------------------------

doca_error_t Endpoint::listen(std::string_view name) {
    if (active()) {
        return active_already(name);
    }
    const doca_dev* const device = properties.device.get();
    if (device == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot listen as '{}': no device is set", name));
    }
    if (device->info.device.side() != Side::dpu) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      fmt::format("cannot listen as '{}' on {}: services run on the DPU, and this "
                                  "device is the host's",
                                  name, device->info.device.function().name));
    }
    const doca_dev_rep* const representor = properties.representor.get();
    if (representor == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot listen as '{}': no representor is set", name));
    }
    listed_.reserve(comch::limits::clients_per_server);
    OwnServices::Service service{representor->info.representor.function().id, name};
    auto server = Server::open(*engine_, device->info.device, representor->info.representor, name,
                               {.limits = limits(), .deferred_accept = true}, server_handlers());
    if (!server) {
        return server.error().code == Errc::in_use
                   ? refuse(DOCA_ERROR_CONNECTION_ABORTED, server.error().message)
                   : refuse(server.error());
    }
    OwnServices::instance().add(service);
    own_service_ = std::move(service);
    server_ = std::move(*server);
    was_active_ = true;
    return DOCA_SUCCESS;
}

doca_error_t Endpoint::connect(std::string_view name, doca_comm_channel_addr_t** address) {
    if (active()) {
        return active_already(name);
    }
    const doca_dev* const device = properties.device.get();
    if (device == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      fmt::format("cannot connect to '{}': no device is set", name));
    }
    if (device->info.device.side() != Side::host) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      fmt::format("cannot connect to '{}' from {}: clients run on the host, and "
                                  "this device is the DPU's",
                                  name, device->info.device.function().name));
    }
    ++attempts_;
    Peer& peer = add_peer();
    const doca_error_t result =
        guarded([&] { return open_client(device->info.device, name, peer); });
    if (result != DOCA_SUCCESS) {
        client_.reset();
        remove_peer(peer);
        return result;
    }
    was_active_ = true;
    *address = peer.handle;
    settle(); // channels may be armed since an earlier connection
    return DOCA_SUCCESS;
}

doca_error_t Endpoint::open_client(const Device& device, std::string_view name, Peer& peer) {
    const Greeting hello = greeting();
    auto client = Client::open(*engine_, device, name,
                               {.limits = limits(), .data = as_bytes(hello)}, client_handlers());
    if (!client) {
        return refuse(client.error());
    }
    if ((*client)->outcome() != Errc::in_progress && (*client)->outcome() != Errc::ok) {
        return refuse(DOCA_ERROR_CONNECTION_ABORTED, (*client)->error().message);
    }
    client_ = std::move(*client);
    peer.connection = &client_->connection();
    // A service of this process may be served by the very thread that would wait for it.
    if (device.domain()->description().transport == Transport::rdma &&
        !OwnServices::instance().has({device.function().id, std::string(name)})) {
        await_answer(peer);
    }
    if (peer.state == Peer::State::failed) {
        receive_event_ = send_event_ = service_event_ = false;
        return refuse(DOCA_ERROR_CONNECTION_ABORTED, client_->error().message);
    }
    return DOCA_SUCCESS;
}

/// The other link knows at once whether anybody listens.
void Endpoint::await_answer(const Peer& peer) {
    const auto deadline = std::chrono::steady_clock::now() + refusal_patience;
    while (peer.state == Peer::State::connecting && std::chrono::steady_clock::now() < deadline) {
        if (engine_->progress() == 0) {
            std::this_thread::yield();
        }
    }
}

Peer& Endpoint::add_peer() {
    auto peer = std::make_unique<Peer>(*this);
    peers_.reserve(peers_.size() + 1);
    peer->handle = AddressPool::instance().take(peer.get());
    peer->handle->owner = this;
    return *peers_.emplace_back(std::move(peer));
}

void Endpoint::remove_peer(Peer& peer) noexcept {
    backlog_.drop(&peer);
    peer.handle->owner = nullptr;
    AddressPool::instance().give_back(peer.handle);
    std::erase_if(peers_, [&](const auto& each) { return each.get() == &peer; });
}

void Endpoint::disconnect(Peer& peer) {
    if (server_) {
        if (peer.connection != nullptr) {
            peer.connection->set_user_data(0);
            // That it has ended already is no matter: it is to be ended.
            (void)server_->disconnect(*peer.connection);
        }
    } else {
        client_.reset(); // what was sent is still delivered
    }
    remove_peer(peer);
    settle();
}

/// The connection is established.
void Endpoint::meet(Peer& peer, Connection& connection) {
    const auto theirs = read_greeting(connection.peer_data());
    peer.max_message = std::min<std::uint32_t>(
        properties.max_message, theirs ? theirs->max_message : connection.max_message_size());
    peer.state = Peer::State::established;
}

bool Endpoint::is_connected_already(const Connection& request, const Greeting& theirs) const {
    // A later attempt of the same endpoint is a client that has disconnected and come back: that
    // its older connection is over will be seen in a moment.
    return std::any_of(peers_.begin(), peers_.end(), [&](const std::unique_ptr<Peer>& peer) {
        return peer->state == Peer::State::established && peer->endpoint == theirs.endpoint &&
               peer->process == request.peer().process_id && peer->attempt >= theirs.attempt;
    });
}

void Endpoint::accept_waiting() {
    while (Connection* const request = server_->next_pending()) {
        accept_next(*request);
    }
    requests_wait_ = false;
}

void Endpoint::accept_next(Connection& request) {
    const Greeting own = greeting();
    const auto theirs = read_greeting(request.peer_data());
    if (theirs && is_connected_already(request, *theirs)) {
        (void)server_->refuse(request); // reported as refused
        return;
    }
    Peer& peer = add_peer(); // first: an accepted client must not lack one
    try {
        if (!server_->accept(request, as_bytes(own))) {
            remove_peer(peer);
            return;
        }
    } catch (...) {
        remove_peer(peer);
        throw;
    }
    peer.connection = &request;
    peer.process = request.peer().process_id;
    peer.endpoint = theirs ? theirs->endpoint : 0;
    peer.attempt = theirs ? theirs->attempt : 0;
    request.set_user_data(reinterpret_cast<std::uintptr_t>(&peer));
    meet(peer, request);
    service_event_ = true;
}

// ---- messages ----------------------------------------------------------------------------------

doca_error_t Endpoint::send(Peer& peer, std::span<const std::byte> message) {
    if (message.size() > properties.max_message) {
        return too_long(message.size(), properties.max_message); // whatever the other end takes
    }
    // Not while somebody sleeps on the engine: that would have to be arranged anew. It will be
    // told.
    if (!any_armed()) {
        progress();
    }
    peer.refused.reset();
    Errc result = Errc::again;
    Peer::Look looked{}; // before the last attempt
    // AGAIN is what was found after the last look: who arms a channel then and sleeps must not sleep
    // beside what an earlier one has brought.
    constexpr int rounds = 64;
    for (int round = 0; round < rounds; ++round) {
        if (peer.state == Peer::State::departed) {
            peer.state = Peer::State::failed; // the moment at which a client finds out
            receive_event_ = true;
        }
        if (peer.state == Peer::State::failed) {
            settle();
            return DOCA_ERROR_CONNECTION_RESET;
        }
        if (round != 0) {
            looked = peer.look();
        }
        if (peer.state == Peer::State::established) {
            if (message.size() > peer.max_message) {
                if (round != 0) {
                    settle(); // what that round has taken may be another channel's event
                }
                return too_long(message.size(), peer.max_message);
            }
            result = peer.connection->send(message);
            if (result == Errc::ok) {
                // The core wakes for what was under way when it was armed; and what the other round
                // has taken wakes nobody any more.
                if (send_channel_.armed() || (round != 0 && any_armed())) {
                    settle();
                }
                return DOCA_SUCCESS;
            }
        }
        if (round == 0) {
            // Full, in progress, or ended without our knowing.
            progress(slack_to_see_an_end);
        } else if (!settle()) {
            break;
        }
    }
    if (result != Errc::again) {
        return DOCA_ERROR_CONNECTION_RESET;
    }
    peer.refused = looked;
    return DOCA_ERROR_AGAIN;
}

doca_error_t Endpoint::receive(void* to, std::size_t* length, doca_comm_channel_addr_t** from) {
    if (!active()) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    const bool look = backlog_.empty();
    if (look) {
        progress();
    }
    const bool accept = requests_wait_;
    if (accept) {
        accept_waiting();
        progress(); // the answer goes out
    }
    if (look || accept) {
        settle();
    }
    if (backlog_.empty()) {
        if (client_ && peers_.front()->state == Peer::State::failed) {
            *from = peers_.front()->handle;
            return DOCA_ERROR_CONNECTION_RESET;
        }
        return DOCA_ERROR_AGAIN;
    }
    const Backlog::Entry entry = backlog_.front();
    doca_error_t result = DOCA_SUCCESS;
    *from = nullptr;
    switch (entry.kind) {
    case Backlog::Kind::message:
        if (*length < entry.bytes.size()) {
            const std::size_t room = std::exchange(*length, entry.bytes.size());
            return refuse(DOCA_ERROR_INVALID_VALUE,
                          fmt::format("cannot receive a message of {} bytes into a buffer of {}",
                                      entry.bytes.size(), room));
        }
        std::copy(entry.bytes.begin(), entry.bytes.end(), static_cast<std::byte*>(to));
        *length = entry.bytes.size();
        ++entry.peer->received_messages;
        entry.peer->received_bytes += entry.bytes.size();
        *from = entry.peer->handle;
        break;
    case Backlog::Kind::failed_peer:
        *from = entry.peer->handle;
        result = DOCA_ERROR_CONNECTION_RESET;
        break;
    default:
        result = DOCA_ERROR_CONNECTION_ABORTED;
        break;
    }
    backlog_.pop();
    return result;
}

doca_error_t Endpoint::update(Peer& peer) {
    // Who waits for this peer's messages to be confirmed must see its end, and may not receive.
    progress(slack_to_see_an_end);
    settle();
    const std::uint64_t confirmed = peer.confirmed();
    const bool confirmed_more = confirmed != peer.updated_confirmed;
    peer.snapshot = peer.statistics();
    peer.updated_confirmed = confirmed;
    const bool waits =
        peer.state == Peer::State::connecting || peer.snapshot.in_flight_messages != 0;
    peer.updated = waits ? std::optional(peer.look()) : std::nullopt;
    peer.acceptance_untold = false; // as we answer
    switch (peer.state) {
    case Peer::State::connecting:
        return DOCA_ERROR_CONNECTION_INPROGRESS;
    case Peer::State::established:
        return DOCA_SUCCESS;
    case Peer::State::departed:
        // Who waits until a client has taken his last messages hears of that before its leaving.
        return server_ && !confirmed_more ? DOCA_ERROR_CONNECTION_ABORTED : DOCA_SUCCESS;
    case Peer::State::failed:
        break;
    }
    return DOCA_ERROR_CONNECTION_ABORTED;
}

bool Endpoint::progress(std::size_t slack) {
    if (backlog_.size() >= properties.recv_queue + slack) {
        return false;
    }
    (void)engine_->progress();
    return true;
}

// ---- what the core reports ---------------------------------------------------------------------

ServerHandlers Endpoint::server_handlers() noexcept {
    return {.user = this,
            .disconnected =
                [](void* user, Connection& connection, EndReason reason) {
                    if (Peer* const peer = peer_of(connection)) {
                        static_cast<Endpoint*>(user)->on_end(*peer, reason == EndReason::closed);
                    }
                },
            .refused =
                [](void* user, const comch::Peer&, Refusal) {
                    auto& self = *static_cast<Endpoint*>(user);
                    if (!self.backlog_.ends_with(Backlog::Kind::failed_client)) {
                        self.push_failure(Backlog::Kind::failed_client, nullptr);
                    }
                    self.receive_event_ = true;
                },
            .requested =
                [](void* user, Connection&) {
                    auto& self = *static_cast<Endpoint*>(user);
                    self.requests_wait_ = true;
                    self.receive_event_ = true;
                    self.service_event_ = true;
                },
            .message =
                [](void* user, Connection& connection, std::span<const std::byte> message) {
                    static_cast<Endpoint*>(user)->on_message(peer_of(connection), message);
                },
            .state_changed =
                [](void* user, State) {
                    // Its device is gone: programs do not stop a service but by destroying it.
                    static_cast<Endpoint*>(user)->service_event_ = true;
                }};
}

ClientHandlers Endpoint::client_handlers() noexcept {
    return {
        .user = this,
        .state_changed = [](void* user,
                            State state) { static_cast<Endpoint*>(user)->on_client_state(state); },
        .message =
            [](void* user, Connection&, std::span<const std::byte> message) {
                auto& self = *static_cast<Endpoint*>(user);
                self.on_message(self.peers_.front().get(), message);
            }};
}

void Endpoint::on_message(Peer* peer, std::span<const std::byte> message) {
    if (peer == nullptr || peer->state != Peer::State::established) {
        return;
    }
    // For one that is longer than what the peer was told that we take, a program has no room, and
    // would never come to the messages behind it. Nor must one be left out.
    if (message.size() > properties.max_message || !keep(*peer, message)) {
        fail(*peer);
    }
    receive_event_ = true;
}

/// False: there is no memory for it.
bool Endpoint::keep(Peer& peer, std::span<const std::byte> message) {
    return guarded_or(false, [&] {
        backlog_.push(Backlog::Kind::message, &peer, message);
        return true;
    });
}

void Endpoint::fail(Peer& peer) {
    peer.state = Peer::State::failed;
    send_event_ = receive_event_ = service_event_ = true;
    if (server_) {
        push_failure(Backlog::Kind::failed_peer, &peer);
    }
}

void Endpoint::push_failure(Backlog::Kind kind, Peer* peer) {
    (void)guarded([&] {
        backlog_.push(kind, peer); // else who sends to the peer, or looks at it, finds out
        return DOCA_SUCCESS;
    });
}

void Endpoint::on_end(Peer& peer, bool orderly) {
    const bool failed_before = peer.state == Peer::State::failed;
    peer.end(orderly);
    service_event_ = true;
    if (peer.state == Peer::State::failed && !failed_before) {
        send_event_ = true;
        receive_event_ = true;
        if (server_) {
            push_failure(Backlog::Kind::failed_peer, &peer);
        }
    }
}

void Endpoint::on_client_state(State state) {
    Peer& peer = *peers_.front();
    if (state == State::running) {
        meet(peer, client_->connection());
        receive_event_ = true; // who slept until he was accepted
        peer.acceptance_untold = true;
    } else if (state == State::idle) {
        on_end(peer, client_->outcome() == Errc::not_connected);
    }
}

} // namespace comch::doca
