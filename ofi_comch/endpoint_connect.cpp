// Who is where: routes to peers, connections that come and end.
#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/memory/region_table.hpp"
#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "eq.hpp"
#include "provider.hpp"
#include "srx.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

using link::ConnectDecision;
using link::ConnectRequest;
using link::Reason;

Conn* Endpoint::find_route(fi_addr_t to, ssize_t& error) {
    if (!enabled) {
        error = -FI_EOPBADSTATE;
        return nullptr;
    }
    if (type == FI_EP_MSG) {
        // (Its one route is routes_[0], but programs may pass any address.)
        if (state == State::connected && conn != nullptr) {
            return conn;
        }
        error = state == State::ended ? -FI_ESHUTDOWN : -FI_ENOTCONN;
        return nullptr;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
        const Address* const address = av != nullptr ? av->find(to) : nullptr;
        if (address == nullptr) {
            error = -FI_EINVAL;
            return nullptr;
        }
        Peer& peer = peer_at(to, *address);
        if (peer.route != nullptr) {
            if (to >= routes_.size()) {
                routes_.resize(to + 1);
            }
            routes_[to] = peer.route;
            return peer.route;
        }
        if (peer.failure != Errc::ok) {
            error = -to_fi(peer.failure);
            if (!peer.dead) {
                peer.failure = Errc::ok; // the next attempt connects anew
            }
            return nullptr;
        }
        if (peer.connecting == nullptr) {
            if (const int result = connect(peer, *address); result != FI_SUCCESS) {
                error = -result;
                return nullptr;
            }
        }
        // A program that retries without progressing must get on as well.
        (void)station->progress();
    }
    error = -FI_EAGAIN;
    return nullptr;
}

Peer& Endpoint::peer_of(const link::PortAddress& port) {
    const auto known = peers_by_port_.find(port);
    if (known != peers_by_port_.end()) {
        return *known->second;
    }
    Peer& made = make_peer();
    made.port = port;
    peers_by_port_.emplace(port, &made);
    return made;
}

Peer& Endpoint::make_peer() {
    if (peers_.size() >= most_peers_) {
        drop_unused_peers();
        most_peers_ = std::max(2 * peers_.size(), most_peers_at_first);
    }
    peers_.push_back(std::make_unique<Peer>());
    return *peers_.back();
}

void Endpoint::drop_unused_peers() {
    std::unordered_set<const Peer*> named(peers_by_address_.begin(), peers_by_address_.end());
    for (const List<Unexpected>* list :
         {&queue->unexpected[0], &queue->unexpected[1], &queue->claimed}) {
        for (const Unexpected* message = list->first(); message != nullptr;
             message = message->next) {
            named.insert(message->arrival.peer);
        }
    }
    // (Connections have theirs, too, and are counted there; all else has a connection.)
    std::unordered_set<const Peer*> unused;
    std::size_t dead = 0;
    for (auto at = peers_.rbegin(); at != peers_.rend(); ++at) {
        Peer* const peer = at->get();
        if (peer->conns != 0 || named.contains(peer)) {
            continue;
        }
        // Who has died is remembered; of those whom the program does not know, the last.
        if (!peer->dead || (address_of(peer) == FI_ADDR_NOTAVAIL && ++dead > most_dead)) {
            unused.insert(peer);
        }
    }
    std::erase_if(peers_by_port_, [&](const auto& entry) { return unused.contains(entry.second); });
    std::erase_if(peers_, [&](const auto& peer) { return unused.contains(peer.get()); });
}

Peer& Endpoint::peer_at(fi_addr_t to, const Address& address) {
    if (to >= peers_by_address_.size()) {
        peers_by_address_.resize(to + 1);
    }
    Peer*& peer = peers_by_address_[to];
    if (peer == nullptr) {
        peer = address.named != 0 ? &make_peer() : &peer_of(port_of(address));
        peer->address = to;
    }
    return *peer;
}

int Endpoint::connect(Peer& peer, const Address& address) {
    wire::Hello hello{};
    hello.magic = wire::hello_magic;
    hello.version = wire::version;
    hello.endpoint_type = FI_EP_RDM;
    const link::PortAddress own = station->port().address();
    std::memcpy(hello.port, own.bytes.data(), sizeof(hello.port));
    const auto made = station->connect(*this, &peer, address, std::as_bytes(std::span(&hello, 1)));
    if (!made) {
        log_no_connection(made.error());
        return to_fi(made.error());
    }
    peer.connecting = *made;
    ++peer.conns;
    return FI_SUCCESS;
}

ConnectDecision Endpoint::on_connect_request(Connection& link, const ConnectRequest& request) {
    wire::Hello hello{};
    if (request.private_data.size() != sizeof(hello)) {
        return {Errc::rejected, nullptr, {}};
    }
    std::memcpy(&hello, request.private_data.data(), sizeof(hello));
    if (hello.magic != wire::hello_magic || hello.endpoint_type != FI_EP_RDM) {
        return {Errc::rejected, nullptr, {}};
    }
    if (hello.version != wire::version) {
        return {Errc::version_mismatch, nullptr, {}};
    }
    if (settings().host_dpu_only && request.peer.side == station->device().side()) {
        return {Errc::not_permitted, nullptr, {}};
    }
    if (!request.service.empty() && request.peer.side == Side::host &&
        request.peer.function != request.service_function) {
        return {Errc::not_permitted, nullptr, {}}; // the name is another function's
    }
    link::PortAddress port;
    std::memcpy(port.bytes.data(), hello.port, sizeof(hello.port));
    if (!Port::may_be_of(port, request.peer)) {
        return {Errc::not_permitted, nullptr, {}}; // it would be taken for somebody else
    }
    Peer& peer = peer_of(port);
    Conn* const made = station->add_conn();
    made->endpoint = this;
    made->peer = &peer;
    made->link = &link;
    made->established = true;
    ++peer.conns;
    if (peer.route == nullptr) {
        peer.route = made;
        peer.failure = Errc::ok;
    }
    const link::PortAddress own = station->port().address();
    hello_reply_.magic = wire::hello_magic;
    hello_reply_.version = wire::version;
    std::memcpy(hello_reply_.port, own.bytes.data(), sizeof(hello_reply_.port));
    return {Errc::ok, made, std::as_bytes(std::span(&hello_reply_, 1))};
}

void Endpoint::on_connected(Conn& with, std::span<const std::byte> reply) {
    with.established = true;
    if (type == FI_EP_MSG) {
        return; // the program at the other end has yet to accept
    }
    wire::HelloReply hello{};
    if (reply.size() == sizeof(hello)) {
        std::memcpy(&hello, reply.data(), sizeof(hello));
    }
    if (hello.magic != wire::hello_magic || hello.version != wire::version) {
        break_off(with);
        return;
    }
    link::PortAddress port;
    std::memcpy(port.bytes.data(), hello.port, sizeof(hello.port));
    if (!Port::may_be_of(port, with.link->peer())) { // it would be taken for somebody else
        break_off(with);
        return;
    }
    Peer* peer = with.peer;
    Peer*& known = peers_by_port_[port];
    if (known == nullptr) {
        known = peer; // it was found by name
        peer->port = port;
    } else if (known != peer) {
        // Found by name, and it has connected to us: one and the same.
        for (Peer*& entry : peers_by_address_) {
            entry = entry == peer ? known : entry;
        }
        if (known->address == FI_ADDR_NOTAVAIL) {
            known->address = peer->address;
            arrive_again(*known);
        }
        peer->connecting = nullptr;
        --peer->conns;
        ++known->conns;
        with.peer = peer = known;
    }
    peer->connecting = peer->connecting == &with ? nullptr : peer->connecting;
    if (peer->route == nullptr) {
        peer->route = &with;
    }
    tell_name(with);
}

void Endpoint::tell_name(Conn& to) const {
    if (local_address->named == 0) {
        return;
    }
    const wire::Name name{local_address->function};
    static_assert(wire::max_name < sizeof(local_address->name));
    to.send_own(static_cast<std::uint8_t>(wire::Kind::name), &name, sizeof(name),
                local_address->name, local_address->name_length);
}

bool Endpoint::take_name(Conn& from, Parser& parser) {
    wire::Name name{};
    if (from.peer == nullptr || !parser.take(name) || parser.left() == 0 ||
        parser.left() > wire::max_name) {
        return false;
    }
    const link::PeerInfo& sender = from.link->peer();
    if (sender.side == Side::host && name.function != sender.function) {
        return true; // the name is another function's: it is not believed
    }
    from.peer->name =
        Av::name_key(name.function, {reinterpret_cast<const char*>(parser.rest()), parser.left()});
    from.peer->av_version = 0; // address_of() has yet to look for it
    return true;
}

Peer* Endpoint::found_at(fi_addr_t address) const {
    Peer* const peer = address < peers_by_address_.size() ? peers_by_address_[address] : nullptr;
    // (One that has left in order has given its name up: sends go to whoever has it now.)
    const bool is_there = peer != nullptr && (peer->conns != 0 || peer->dead);
    return is_there && peer->port != link::PortAddress{} ? peer : nullptr;
}

fi_addr_t Endpoint::address_by_name(const Peer& peer) const {
    const fi_addr_t address = av->lookup(peer.name);
    // What the peer says decides whose messages these are, not where ours go: the core finds the
    // one that listens. And an address stays that of the process that it has found.
    const Peer* const found = found_at(address);
    return found != nullptr && found != &peer ? FI_ADDR_NOTAVAIL : address;
}

void Endpoint::forget_address(fi_addr_t address) {
    if (address < routes_.size()) {
        routes_[address] = nullptr;
    }
    if (address < peers_by_address_.size()) {
        peers_by_address_[address] = nullptr;
    }
    dead_.erase(address);
    for (const auto& peer : peers_) {
        if (peer->address == address) {
            peer->address = FI_ADDR_NOTAVAIL;
        }
    }
}

void Endpoint::break_off(Conn& with, Reason why) {
    FI_WARN(&provider, FI_LOG_EP_DATA, "%s\n",
            why == Reason::protocol_error
                ? "a peer sent what no correct peer sends"
                : "there is no memory for what a peer sent, so its connection is closed");
    Station& at = *with.station;
    Connection* const link = std::exchange(with.link, nullptr);
    link->set_user(nullptr);
    at.port().close(link); // before operations end: whoever copies for them stops
    on_disconnected(with, why, {});
    at.remove_conn(&with);
}

void Endpoint::on_disconnected(Conn& with, Reason reason, std::span<const std::byte>) {
    if (reason != Reason::closed) {
        const char* const detail = with.link != nullptr ? with.link->error_text().c_str() : "";
        const std::string_view why = link::to_string(reason);
        FI_INFO(&provider, FI_LOG_EP_CTRL, "a connection ended: %.*s%s%s\n",
                static_cast<int>(why.size()), why.data(), *detail == '\0' ? "" : "; ", detail);
    }
    lose(with, reason);
    if (type == FI_EP_MSG) {
        end_connection(to_errc(reason));
    }
}

void Endpoint::lose(Conn& with, Reason reason) {
    Errc status = to_errc(reason);
    // Who waits for something has not got it, however orderly the end was.
    const Errc pending = status == Errc::not_connected ? Errc::connection_reset : status;
    for (const auto& operation : operations_) {
        if (operation->active && operation->conn == &with) {
            finish(*operation, operation->closing ? operation->ended_with : pending);
        }
    }
    with.waiting.clear();
    with.in_parts = nullptr;
    with.coming = {};
    for (std::size_t i = 0; i < transfers_.all().size(); ++i) {
        Transfer& transfer = *transfers_.all()[i];
        if (transfer.active && transfer.conn == &with) {
            on_transfer(transfer, pending);
        }
    }
    for (List<Unexpected>* list : {&queue->unexpected[0], &queue->unexpected[1], &queue->claimed}) {
        for (Unexpected* message = list->first(); message != nullptr;) {
            Unexpected* const next = message->next;
            if (message->arrival.conn == &with) {
                message->arrival.conn = nullptr;
                if (!message->arrival.is_here() && list != &queue->claimed) {
                    list->remove(*message);
                    queue->free(*message);
                }
            }
            message = next;
        }
    }
    Peer* const peer = with.peer;
    if (peer == nullptr) {
        return;
    }
    --peer->conns;
    peer->connecting = peer->connecting == &with ? nullptr : peer->connecting;
    if (peer->route == &with) {
        peer->route = nullptr;
        std::replace(routes_.begin(), routes_.end(), &with, static_cast<Conn*>(nullptr));
    }
    if (reason == Reason::closed && with.established) {
        return; // the next send asks whether it is still there
    }
    if (peer->route == nullptr && peer->conns == 0) {
        peer->failure = pending;
        peer->dead = reason == Reason::peer_died && with.established;
        if (peer->dead) {
            note_dead(*peer);
        }
    }
    if (with.established && peer->conns == 0) {
        fail_directed(*peer, pending);
    }
}

bool Endpoint::is_anybody_at(fi_addr_t address) {
    return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
        const bool is_here = peer->conns > (peer->connecting != nullptr ? 1u : 0u);
        return is_here && address_of(peer.get()) == address;
    });
}

fi_addr_t Endpoint::deserted_by(Peer& peer) {
    const fi_addr_t address = address_of(&peer);
    const Peer* const found = found_at(address);
    const bool is_anothers = found != nullptr ? found != &peer : is_anybody_at(address);
    return is_anothers ? FI_ADDR_NOTAVAIL : address;
}

void Endpoint::note_dead(Peer& peer) {
    const fi_addr_t address = deserted_by(peer);
    if (address != FI_ADDR_NOTAVAIL) {
        try {
            dead_[address] = peer.failure;
        } catch (const std::bad_alloc&) {
            // Receives that only it could have served, and are posted later, wait.
        }
    }
    knows_dead = true;
    choose_ways();
}

Errc Endpoint::end_of(fi_addr_t from) {
    if (state == State::ended) {
        return ended_with;
    }
    if (from == FI_ADDR_UNSPEC || !knows_dead) {
        return Errc::ok; // a connected endpoint never knows of any
    }
    const Peer* peer = found_at(from);
    const Address* const address = av->find(from);
    if (peer == nullptr && address != nullptr && address->named == 0) {
        const auto found = peers_by_port_.find(port_of(*address)); // it died before it was inserted
        peer = found == peers_by_port_.end() ? nullptr : found->second;
    }
    if (peer != nullptr) {
        return peer->dead ? peer->failure : Errc::ok;
    }
    const auto dead = dead_.find(from);
    return dead == dead_.end() || is_anybody_at(from) ? Errc::ok : dead->second;
}

void Endpoint::fail_directed(Peer& peer, Errc status) {
    const fi_addr_t address = deserted_by(peer);
    if (srx != nullptr || address == FI_ADDR_NOTAVAIL) {
        return;
    }
    for (List<Receive>& list : queue->posted) {
        for (Receive* receive = list.first(); receive != nullptr;) {
            Receive* const next = receive->next;
            if (receive->from == address) {
                list.remove(*receive);
                end_receive(*receive, status);
            }
            receive = next;
        }
    }
}

void Endpoint::lose_device() {
    state = State::ended;
    ended_with = Errc::io;
    choose_ways();
    // Others may share its receives on a device that is here again.
    if (srx == nullptr || ++srx->lost == srx->endpoints.size()) {
        fail_receives(ended_with);
    }
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
