#include "station.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/make_room.hpp"
#include "endpoint.hpp"
#include "passive_endpoint.hpp"
#include "progress_thread.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

using link::ConnectDecision;
using link::ConnectRequest;
using link::Reason;

/// What the port calls while a station progresses.
struct Sink {
    Station& station;

    ConnectDecision on_connect_request(Connection& connection, const ConnectRequest& request) try {
        if (station.datagram_endpoint != nullptr) {
            return station.datagram_endpoint->on_connect_request(connection, request);
        }
        if (station.passive_endpoint != nullptr) {
            return station.passive_endpoint->on_connect_request(connection, request);
        }
        return {Errc::not_found, nullptr, {}};
    } catch (const std::bad_alloc&) {
        return {Errc::no_memory, nullptr, {}};
    }
    void on_connected(Connection& connection, std::span<const std::byte> reply) {
        Conn& conn = *static_cast<Conn*>(connection.user());
        try {
            conn.endpoint->on_connected(conn, reply);
        } catch (const std::bad_alloc&) {
            conn.endpoint->break_off(conn, Reason::device_error);
        }
    }
    void on_message(Connection& connection, std::uint8_t id, const std::byte* data,
                    std::uint32_t length) {
        Conn& conn = *static_cast<Conn*>(connection.user());
        if (conn.endpoint != nullptr) [[likely]] {
            conn.endpoint->on_message(conn, id, data, length);
        }
        // Else: a peer that sends before it was accepted; a correct one waits.
    }
    void on_complete(Connection& connection, void* token, Errc status) {
        Conn& conn = *static_cast<Conn*>(connection.user());
        if (conn.endpoint != nullptr && token != nullptr) {
            auto* const awaited = static_cast<Awaited*>(token);
            if (awaited->is_operation) {
                conn.endpoint->on_direct(*static_cast<Operation*>(awaited), status);
            } else {
                conn.endpoint->on_transfer(*static_cast<Transfer*>(awaited), status);
            }
        }
    }
    void on_disconnected(Connection& connection, Reason reason, std::span<const std::byte> reply) {
        Conn* const conn = static_cast<Conn*>(connection.user());
        if (conn == nullptr) {
            station.port().close(&connection);
            return;
        }
        if (conn->endpoint != nullptr) {
            conn->endpoint->on_disconnected(*conn, reason, reply);
        } else if (conn->request != nullptr) {
            conn->request->conn = nullptr; // the program learns it when it answers
        }
        station.port().close(&connection);
        station.remove_conn(conn);
    }
    void on_channel(Connection&, std::uint64_t, Link::Channel&&) {}
};

} // namespace

void Conn::send_own(std::uint8_t id, const void* header, std::size_t header_size,
                    const void* payload, std::size_t payload_size) try {
    if (link == nullptr) {
        return;
    }
    const std::size_t size = header_size + payload_size;
    const auto fill = [&](std::byte* to) {
        std::memcpy(to, header, header_size);
        if (payload_size != 0) {
            std::memcpy(to + header_size, payload, payload_size);
        }
    };
    if (outbox.empty()) {
        if (size <= tuning::max_inline) {
            if (link->send_inline(id, static_cast<std::uint32_t>(size), fill) == Errc::ok) {
                return;
            }
        } else if (link->send_packed(id, static_cast<std::uint32_t>(size), [&](std::byte* to) {
                       fill(to);
                       return static_cast<std::uint32_t>(size);
                   }) >= 0) {
            return;
        }
    }
    Outgoing out{id, std::vector<std::byte>(size)};
    fill(out.bytes.data());
    outbox.push_back(std::move(out));
    owed += wire::answer_overhead + size;
    mark_busy();
} catch (const std::bad_alloc&) {
    out_of_memory = true;
    mark_busy();
}

void Conn::send_done(std::uint64_t operation, Errc status, bool of_atomic) {
    const wire::Done done{operation, static_cast<std::uint32_t>(status), of_atomic};
    send_own(static_cast<std::uint8_t>(wire::Kind::done), &done, sizeof(done));
}

void Conn::mark_busy() {
    if (!busy) {
        busy = true;
        station->busy_.push_back(this); // add_conn() has made room
        station->wake_sleepers();       // they have not asked for room
    }
}

Result<std::shared_ptr<Station>> Station::open(const Device& device, std::shared_ptr<Lock> lock) {
    auto port = Port::open(device, {.face = "ofi", .arrival_order = false, .one_way = false});
    if (!port) {
        return tl::unexpected(port.error());
    }
    return std::shared_ptr<Station>(new Station(device, std::move(*port), std::move(lock)));
}

Station::~Station() = default;

unsigned Station::progress() {
    if (progress_thread != nullptr) [[unlikely]] {
        progress_thread->note_progress();
    }
    Sink sink{*this};
    unsigned count = port_->progress(sink);
    if (port_->lost() && !loss_told_) [[unlikely]] {
        count += tell_loss();
    }
    if (!busy_.empty()) [[unlikely]] {
        count += push_busy();
    }
    if (!sleepers_.empty()) [[unlikely]] {
        // The port's descriptor is quiet after a progress call; who sleeps on it must hear of what
        // comes next all the same.
        if (count != 0 || port_->arm() != Errc::ok) {
            wake_sleepers();
        }
    }
    return count;
}

void Station::tidy() {
    if (datagram_endpoint != nullptr && datagram_endpoint->domain->kept != nullptr) {
        datagram_endpoint->domain->kept->tidy();
    }
}

unsigned Station::tell_loss() {
    if (datagram_endpoint != nullptr) {
        datagram_endpoint->lose_device();
    } else if (passive_endpoint != nullptr) {
        passive_endpoint->lose_device();
    } else {
        return 0; // connected endpoints hear of their connection's end
    }
    loss_told_ = true;
    return 1;
}

unsigned Station::push_busy() {
    unsigned count = 0;
    for (std::size_t i = 0; i < busy_.size();) {
        Conn& conn = *busy_[i];
        if (conn.out_of_memory) [[unlikely]] {
            conn.endpoint->break_off(conn, Reason::device_error); // which takes it out of the list
            ++count;
            continue;
        }
        count += push(conn);
        if (conn.outbox.empty() && conn.waiting.empty() && conn.in_parts == nullptr &&
            !conn.out_of_memory) {
            conn.busy = false;
            busy_[i] = busy_.back();
            busy_.pop_back();
        } else {
            ++i;
        }
    }
    return count;
}

unsigned Station::push(Conn& conn) {
    unsigned count = 0;
    if (conn.link != nullptr && conn.in_parts != nullptr) {
        conn.link->hold(false);
    }
    while (conn.link != nullptr && !conn.outbox.empty()) {
        Outgoing& out = conn.outbox.front();
        const auto size = static_cast<std::uint32_t>(out.bytes.size());
        const bool sent = size <= tuning::max_inline
                              ? conn.link->send(out.id, out.bytes) == Errc::ok
                              : conn.link->send_packed(out.id, size, [&](std::byte* to) {
                                    std::memcpy(to, out.bytes.data(), size);
                                    return size;
                                }) >= 0;
        if (!sent) {
            break;
        }
        conn.owed -= wire::answer_overhead + size;
        conn.outbox.pop_front();
        ++count;
    }
    if (conn.link != nullptr && conn.outbox.empty() && conn.in_parts != nullptr) {
        count += conn.endpoint->send_more_parts(conn);
    }
    while (conn.link != nullptr && conn.outbox.empty() && !conn.waiting.empty()) {
        if (!conn.endpoint->start(*conn.waiting.front())) {
            conn.waiting.pop_back(); // start() has put it at the end; it is the first
            break;
        }
        conn.waiting.pop_front();
        ++count;
    }
    if (conn.link != nullptr && conn.in_parts != nullptr) {
        conn.link->hold(true);
    }
    return count;
}

Errc Station::arm() {
    // A held link refuses whatever is tried, and would take that for the last that was short of
    // room.
    if (!busy_.empty() && push_busy() != 0) {
        return Errc::again;
    }
    for (const Conn* const conn : busy_) {
        if (conn->link != nullptr && conn->link->may_retry()) {
            return Errc::again;
        }
    }
    return port_->arm();
}

void Station::wake_sleepers() {
    for (Waiter* const waiter : sleepers_) {
        waiter->notify();
    }
}

void Station::add_sleeper(Waiter& waiter) {
    if (std::find(sleepers_.begin(), sleepers_.end(), &waiter) == sleepers_.end()) {
        sleepers_.push_back(&waiter);
    }
}

void Station::remove_sleeper(Waiter& waiter) {
    std::erase(sleepers_, &waiter);
}

Conn* Station::add_conn() {
    make_room(conns_);
    make_room_for_all(busy_, conns_);
    conns_.push_back(std::make_unique<Conn>());
    conns_.back()->station = this;
    return conns_.back().get();
}

Result<Conn*> Station::connect(Endpoint& endpoint, Peer* peer, const Address& to,
                               std::span<const std::byte> private_data) {
    Conn* const made = add_conn();
    made->endpoint = &endpoint;
    made->peer = peer;
    try {
        auto link = to.named != 0 ? port_->connect(service_of(to), private_data, made)
                                  : port_->connect(port_of(to), private_data, made);
        if (link) {
            made->link = *link;
            return made;
        }
        remove_conn(made);
        return tl::unexpected(std::move(link.error()));
    } catch (...) {
        remove_conn(made);
        throw;
    }
}

void Station::remove_conn(Conn* conn) {
    std::erase(busy_, conn);
    std::erase_if(conns_, [&](const auto& other) { return other.get() == conn; });
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
