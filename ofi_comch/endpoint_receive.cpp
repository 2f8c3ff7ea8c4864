// Receiving messages.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/short_copy.hpp"
#include "core/device/process_id.hpp"
#include "core/memory/region_key.hpp"
#include "core/memory/remote_region.hpp"
#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "iov.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

void Endpoint::on_message(Conn& from, std::uint8_t id, const std::byte* data,
                          std::uint32_t length) {
    if (!take_plain(from, id, data, length)) [[unlikely]] {
        take_any(from, id, data, length);
    }
}

void Endpoint::take_any(Conn& from, std::uint8_t id, const std::byte* data,
                        std::uint32_t length) try {
    Parser parser(data, length);
    const auto kind = static_cast<wire::Kind>(id & wire::kind_mask);
    // A correct peer says nothing else before the program here, or there, has accepted.
    const bool in_time =
        state != State::connecting || kind == wire::Kind::accept || kind == wire::Kind::reject;
    bool fine = in_time && (kind == wire::Kind::message ? take_message(from, id, parser)
                                                        : handle(from, id, parser));
    fine = fine && from.owed <= wire::max_owed;
    if (!fine) [[unlikely]] {
        break_off(from);
    }
} catch (const std::bad_alloc&) {
    break_off(from, link::Reason::device_error);
}

inline bool Endpoint::take_plain(Conn& from, std::uint8_t id, const std::byte* data,
                                 std::uint32_t length) {
    constexpr auto fixed = static_cast<std::uint8_t>(wire::kind_mask | wire::wants_done);
    if ((id & fixed) != static_cast<std::uint8_t>(wire::Kind::message) || !arrives_plainly)
        [[unlikely]] {
        return false;
    }
    const bool tagged = (id & wire::has_tag) != 0;
    const bool has_data = (id & wire::has_data) != 0;
    const std::uint32_t head = 8 * (std::uint32_t{tagged} + has_data);
    if (length < head) [[unlikely]] {
        return false;
    }
    std::uint64_t tag = 0;
    std::uint64_t remote_data = 0;
    if (tagged) [[likely]] {
        std::memcpy(&tag, data, sizeof(tag));
    }
    if (has_data) {
        std::memcpy(&remote_data, data + head - sizeof(remote_data), sizeof(remote_data));
    }
    const fi_addr_t source = from.peer != nullptr ? from.peer->address : FI_ADDR_NOTAVAIL;
    RecvQueue& own = *queue;
    List<Receive>& posted = own.posted[tagged];
    Receive* receive = posted.first();
    // Mostly it is the first. Not many are looked at, for the general way begins anew.
    for (unsigned tries = 4; receive != nullptr; receive = receive->next) {
        if (--tries == 0) {
            return false;
        }
        if (tagged && !RecvQueue::matches(*receive, tag)) {
            continue;
        }
        if (receive->from == FI_ADDR_UNSPEC || receive->from == source) [[likely]] {
            break;
        }
        if (source == FI_ADDR_NOTAVAIL) {
            return false; // it must be looked up
        }
    }
    const std::uint32_t payload = length - head;
    if (receive == nullptr || receive->count != 1 || payload > receive->length ||
        (receive->flags & (FI_MULTI_RECV | must_ask)) != must_ask) [[unlikely]] {
        return false;
    }
    posted.remove(*receive);
    copy_short(static_cast<std::byte*>(receive->iov[0].iov_base), data + head, payload);
    rx_cq->add({receive->context,
                FI_RECV | (tagged ? FI_TAGGED : FI_MSG) |
                    (has_data ? std::uint64_t{FI_REMOTE_CQ_DATA} : 0),
                payload, nullptr, remote_data, tag},
               (caps & FI_SOURCE) != 0 ? address_of(from.peer) : FI_ADDR_NOTAVAIL);
    own.receives.give_back(*receive);
    return true;
}

bool Endpoint::handle(Conn& from, std::uint8_t id, Parser& parser) {
    switch (static_cast<wire::Kind>(id & wire::kind_mask)) {
    case wire::Kind::message:
    case wire::Kind::long_message:
        return take_message(from, id, parser);
    case wire::Kind::done:
        return take_done(from, parser);
    case wire::Kind::write:
        return take_write(from, id, parser, false);
    case wire::Kind::long_write:
        return take_write(from, id, parser, true);
    case wire::Kind::read:
        return take_read(from, id, parser, false);
    case wire::Kind::long_read:
        return take_read(from, id, parser, true);
    case wire::Kind::read_reply:
        return take_reply(from, parser);
    case wire::Kind::atomic:
        return take_atomic(from, id, parser);
    case wire::Kind::accept:
        return take_decision(from, parser, true);
    case wire::Kind::reject:
        return take_decision(from, parser, false);
    case wire::Kind::parts:
        return take_first_part(from, id, parser);
    case wire::Kind::part:
        return take_part(from, parser);
    case wire::Kind::region:
        return take_region(from, parser);
    case wire::Kind::name:
        return take_name(from, parser);
    }
    return false;
}

/// The words that follow the header of a message, as its id says.
bool Endpoint::take_words(std::uint8_t id, Parser& parser, Arrival& arrival) {
    arrival.flags = FI_RECV | ((id & wire::has_tag) != 0 ? FI_TAGGED : FI_MSG);
    if ((id & wire::has_tag) != 0 && !parser.take(arrival.tag)) {
        return false;
    }
    if ((id & wire::has_data) != 0) {
        arrival.flags |= FI_REMOTE_CQ_DATA;
        if (!parser.take(arrival.data)) {
            return false;
        }
    }
    // (A long one has a name in any case, in its header.)
    return (id & wire::wants_done) == 0 || (!arrival.is_long && parser.take(arrival.operation));
}

bool Endpoint::take_message(Conn& from, std::uint8_t id, Parser& parser) {
    Arrival arrival;
    arrival.conn = &from;
    arrival.peer = from.peer;
    if ((id & wire::kind_mask) == static_cast<std::uint8_t>(wire::Kind::long_message)) {
        wire::LongMessage announcement{};
        if (!parser.take(announcement)) {
            return false;
        }
        arrival.is_long = true;
        arrival.operation = announcement.operation;
        arrival.length = announcement.source.length;
        arrival.source = announcement.source;
    }
    if (!take_words(id, parser, arrival)) {
        return false;
    }
    if (!arrival.is_long) {
        arrival.payload = parser.rest();
        arrival.length = parser.left();
    }
    arrive(arrival);
    return true;
}

bool Endpoint::take_first_part(Conn& from, std::uint8_t id, Parser& parser) {
    wire::Length whole{};
    if (from.coming.length != 0 || !parser.take(whole) || whole.length > wire::max_in_parts ||
        whole.length <= parser.left()) {
        return false;
    }
    const std::uint64_t others = whole.length - parser.left(); // bytes, in the other parts
    Arrival arrival;
    arrival.conn = &from;
    arrival.peer = from.peer;
    arrival.is_coming = true;
    if (!take_words(id, parser, arrival)) {
        return false;
    }
    arrival.length = parser.left() + others;
    from.coming.length = arrival.length;
    if (Receive* const receive = receive_for(arrival)) {
        deliver(*receive, arrival);
    } else {
        from.coming.kept = &queue->keep(*this, arrival);
    }
    add_part(from, parser.rest(), parser.left());
    return true;
}

bool Endpoint::take_part(Conn& from, Parser& parser) {
    Coming& coming = from.coming;
    if (parser.left() == 0 || parser.left() > coming.length - coming.come) {
        return false;
    }
    add_part(from, parser.rest(), parser.left());
    if (coming.come != coming.length) {
        return true;
    }
    const Coming whole = std::exchange(coming, {});
    if (whole.to != nullptr) {
        on_transfer(*whole.to, Errc::ok);
    } else if (whole.kept != nullptr) {
        whole.kept->arrival.is_coming = false;
    } else if (whole.operation != 0) {
        from.send_done(whole.operation, whole.status);
    }
    return true;
}

void Endpoint::add_part(Conn& from, const std::byte* data, std::uint32_t length) {
    Coming& coming = from.coming;
    if (coming.to != nullptr) {
        // (What there is no room for is left out.)
        const std::uint64_t room = coming.to->length - std::min(coming.come, coming.to->length);
        if (const std::size_t size = std::min<std::uint64_t>(length, room); size != 0) {
            std::memcpy(coming.to->memory + coming.come, data, size);
        }
    } else if (coming.kept != nullptr && length != 0) {
        std::memcpy(coming.kept->buffer.bytes.get() + coming.come, data, length);
    }
    coming.come += length;
}

void Endpoint::direct_coming(Transfer& transfer) {
    Coming& coming = transfer.conn->coming;
    if (const std::size_t size = std::min(coming.come, transfer.length); size != 0) {
        std::memcpy(transfer.memory, coming.kept->buffer.bytes.get(), size);
    }
    coming.to = &transfer;
    coming.kept = nullptr;
}

void Endpoint::forget_coming(const Arrival& arrival) {
    if (arrival.is_coming && arrival.conn != nullptr) {
        arrival.conn->coming.to = nullptr;
        arrival.conn->coming.kept = nullptr;
    }
}

void Endpoint::give_up_coming(const Arrival& arrival, Errc status) {
    forget_coming(arrival);
    if (arrival.conn != nullptr) {
        arrival.conn->coming.operation = arrival.operation;
        arrival.conn->coming.status = status;
    }
}

Receive* Endpoint::receive_for(const Arrival& arrival) {
    const bool tagged = arrival.tagged();
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    bool looked = false;
    for (Receive* receive = queue->posted[tagged].first(); receive != nullptr;
         receive = receive->next) {
        if (tagged && !RecvQueue::matches(*receive, arrival.tag)) {
            continue;
        }
        if (receive->from != FI_ADDR_UNSPEC) {
            if (!looked) {
                looked = true;
                from = address_of(arrival.peer);
            }
            if (receive->from != from) {
                continue;
            }
        }
        return receive;
    }
    return nullptr;
}

void Endpoint::arrive(const Arrival& arrival) {
    if (Receive* const receive = receive_for(arrival)) {
        deliver(*receive, arrival);
    } else {
        queue->keep(*this, arrival);
    }
}

void Endpoint::arrive_again(const Peer& peer) {
    for (List<Unexpected>& list : queue->unexpected) {
        for (Unexpected* message = list.first(); message != nullptr;) {
            Unexpected* const next = message->next;
            const Arrival& arrival = message->arrival;
            if (message->endpoint == this && arrival.peer == &peer) {
                if (Receive* const receive = receive_for(arrival)) {
                    if (!can_deliver(*receive, arrival)) {
                        continue; // another receive may be for it
                    }
                    list.remove(*message);
                    deliver(*receive, arrival);
                    queue->free(*message);
                }
            }
            message = next;
        }
    }
}

fi_addr_t Endpoint::address_of(Peer* peer) {
    if (peer == nullptr) {
        return FI_ADDR_NOTAVAIL;
    }
    if (peer->address == FI_ADDR_NOTAVAIL && av != nullptr && peer->av_version != av->version()) {
        peer->av_version = av->version();
        peer->address = av->lookup(peer->port);
        if (peer->address == FI_ADDR_NOTAVAIL && !peer->name.empty()) {
            peer->address = address_by_name(*peer);
        }
    }
    return peer->address;
}

bool Endpoint::can_deliver(Receive& receive, const Arrival& arrival) {
    try {
        make_room_for(arrival);
        return true;
    } catch (const std::bad_alloc&) {
        queue->posted[arrival.tagged()].remove(
            receive); // what comes later must not come before this
        end_receive(receive, Errc::no_memory);
        return false;
    }
}

void Endpoint::deliver(Receive& receive, const Arrival& arrival) {
    // First, as there may be no memory for it.
    Transfer* const transfer =
        arrival.is_here() ? nullptr : &take_transfer(Transfer::Kind::receive, *arrival.conn);
    std::byte* where = nullptr;
    std::size_t room = receive.length;
    if ((receive.flags & FI_MULTI_RECV) != 0) {
        where = static_cast<std::byte*>(receive.iov[0].iov_base) + receive.used;
        room -= receive.used;
        receive.used += std::min<std::size_t>(arrival.length, room);
        if (receive.length - receive.used < receive.least) {
            queue->posted[arrival.tagged()].remove(receive);
            receive.retired = true;
        }
        ++receive.users;
    } else {
        queue->posted[arrival.tagged()].remove(receive);
        where = receive.count != 0 ? static_cast<std::byte*>(receive.iov[0].iov_base) : nullptr;
    }
    const std::size_t length = std::min<std::size_t>(arrival.length, room);
    if (transfer == nullptr) [[likely]] {
        if (receive.count == 1) [[likely]] {
            if (length != 0) {
                std::memcpy(where, arrival.payload, length);
            }
        } else {
            scatter(receive.iov, receive.count, arrival.payload, length);
        }
        if (arrival.operation != 0 && arrival.conn != nullptr) [[unlikely]] {
            arrival.conn->send_done(arrival.operation, Errc::ok);
        }
        complete_receive(receive, arrival, where, room, Errc::ok);
        return;
    }
    transfer->receive = &receive;
    transfer->arrival = arrival;
    transfer->memory = where;
    transfer->offset = room;
    transfer->length = length;
    if (receive.count > 1) {
        transfer->staging.reset(new (std::nothrow) std::byte[length]);
        if (transfer->staging == nullptr) {
            if (arrival.is_coming) {
                give_up_coming(arrival, Errc::no_memory);
                transfer->arrival.operation = 0;
            }
            on_transfer(*transfer, Errc::no_memory);
            return;
        }
        transfer->memory = transfer->staging.get();
    }
    if (arrival.is_coming) {
        direct_coming(*transfer);
        return;
    }
    if (receive.count <= 1 && (receive.flags & FI_MULTI_RECV) == 0) {
        // (Of a buffer for several messages each takes another part.)
        transfer->kept = keep(transfer->memory, length, 0);
    }
    (void)start(*transfer);
}

void Endpoint::discard(const Arrival& arrival) {
    if (arrival.is_coming) {
        give_up_coming(arrival, Errc::ok);
    } else if (arrival.operation != 0 && arrival.conn != nullptr) {
        arrival.conn->send_done(arrival.operation, Errc::ok);
    }
}

void Endpoint::complete_receive(Receive& receive, const Arrival& arrival, std::byte* where,
                                std::size_t room, Errc status) {
    const bool multi = (receive.flags & FI_MULTI_RECV) != 0;
    bool last = !multi;
    std::uint64_t flags = arrival.flags;
    if (multi) {
        --receive.users;
        last = receive.retired && receive.users == 0;
        flags |= last && receive.end == Errc::ok ? FI_MULTI_RECV : 0;
    }
    const bool truncated = status == Errc::ok && arrival.length > room;
    void* const buffer = multi ? where : nullptr;
    if (status == Errc::ok && !truncated) [[likely]] {
        if (counters[receives] != nullptr) [[unlikely]] {
            counters[receives]->count();
        }
        if (((receive.flags & must_ask) == must_ask || (flags & FI_MULTI_RECV) != 0) &&
            rx_cq != nullptr) [[likely]] {
            rx_cq->add({receive.context, flags, arrival.length, buffer, arrival.data, arrival.tag},
                       (caps & FI_SOURCE) != 0 ? address_of(arrival.peer) : FI_ADDR_NOTAVAIL);
        }
    } else {
        if (counters[receives] != nullptr) {
            counters[receives]->count_error();
        }
        if (rx_cq != nullptr) {
            const int error = truncated ? FI_ETRUNC : to_fi(status);
            Failure failure;
            failure.entry.op_context = receive.context;
            failure.entry.flags = flags;
            failure.entry.len = std::min<std::size_t>(arrival.length, room);
            failure.entry.buf = buffer;
            failure.entry.data = arrival.data;
            failure.entry.tag = arrival.tag;
            failure.entry.olen = truncated ? arrival.length - room : 0;
            failure.entry.err = error;
            failure.entry.prov_errno = error;
            failure.source = address_of(arrival.peer);
            rx_cq->add_failure(failure);
        }
    }
    if (last) {
        if (receive.end != Errc::ok) {
            fail_receive(receive, receive.end);
        }
        queue->receives.give_back(receive);
    }
}

void Endpoint::fail_receives(Errc status) {
    for (List<Receive>& list : queue->posted) {
        while (Receive* const receive = list.first()) {
            list.remove(*receive);
            end_receive(*receive, status);
        }
    }
}

void Endpoint::end_receive(Receive& receive, Errc status) {
    if (receive.users != 0) { // the last of the messages on their way into it reports the end
        receive.retired = true;
        receive.end = status;
        return;
    }
    fail_receive(receive, status);
    queue->receives.give_back(receive);
}

void Endpoint::fail_receive(const Receive& receive, Errc status) {
    if (counters[receives] != nullptr) {
        counters[receives]->count_error();
    }
    if (rx_cq == nullptr) {
        return;
    }
    Failure failure;
    failure.entry.op_context = receive.context;
    failure.entry.flags = FI_RECV | (receive.flags & (FI_TAGGED | FI_MSG | FI_MULTI_RECV));
    failure.entry.tag = receive.tag;
    failure.entry.err = to_fi(status);
    failure.entry.prov_errno = to_fi(status);
    rx_cq->add_failure(failure);
}

// ---- data that we move --------------------------------------------------------------------------

Transfer& Endpoint::take_transfer(Transfer::Kind kind, Conn& with) {
    Transfer& transfer = transfers_.take();
    transfer.kind = kind;
    transfer.active = true;
    transfer.waiting = false;
    transfer.conn = &with;
    transfer.receive = nullptr;
    transfer.mr = nullptr;
    transfer.kept = nullptr;
    transfer.offset = 0;
    transfer.arrival = {};
    return transfer;
}

void Endpoint::free_transfer(Transfer& transfer) {
    transfer.active = false;
    transfer.staging.reset();
    transfers_.give_back(transfer);
}

bool Endpoint::start(Transfer& transfer) try {
    Conn& with = *transfer.conn;
    const Arrival& arrival = transfer.arrival;
    RegionKey key;
    key.process_id = with.link->peer().process_id;
    key.region = arrival.source.region;
    key.base = arrival.source.address;
    key.length = transfer.length;
    // What we read is exposed until we say that it is done, or the connection ends.
    key.access = access_remote_all |
                 (transfer.kind == Transfer::Kind::read ? 0u : std::uint32_t{access_by_kernel});
    key.link_data = arrival.source.link_data;
    RemoteRegion region(key);
    const std::uint64_t own = transfer.mr != nullptr     ? device_region_of(*transfer.mr)
                              : transfer.kept != nullptr ? transfer.kept->region()
                                                         : 0;
    Awaited* const token = &transfer;
    const Errc result = transfer.kind == Transfer::Kind::read
                            ? with.link->put(transfer.memory, transfer.length, region, key.base,
                                             token, {.region = own})
                            : with.link->get(transfer.memory, transfer.length, region, key.base,
                                             token, {.region = own});
    transfer.waiting = result == Errc::again;
    if (transfer.waiting) {
        with.waiting.push_back(&transfer);
        with.mark_busy();
        return false;
    }
    if (result == Errc::in_progress) {
        // Who sleeps did so without it, and it may end without an event.
        with.station->wake_sleepers();
    } else {
        on_transfer(transfer, result);
    }
    return true;
} catch (const std::bad_alloc&) { // of the link, or where it would have waited
    transfer.waiting = false;
    on_transfer(transfer, Errc::no_memory);
    return true;
}

void Endpoint::on_transfer(Transfer& transfer, Errc status) {
    const Arrival arrival = transfer.arrival;
    Conn& with = *transfer.conn;
    if (with.coming.to == &transfer) {
        with.coming.to = nullptr; // it ends before it is whole
    }
    if (transfer.mr != nullptr) {
        --transfer.mr->users;
    }
    let_go(transfer.kept);
    switch (transfer.kind) {
    case Transfer::Kind::receive: {
        Receive& receive = *transfer.receive;
        if (transfer.staging && status == Errc::ok) {
            scatter(receive.iov, receive.count, transfer.staging.get(), transfer.length);
        }
        std::byte* const where = transfer.memory;
        const std::size_t room = transfer.offset;
        free_transfer(transfer);
        // A sender leaves its memory alone until we say done: where it is this process's own and gone, so
        // is the sender.
        const bool deserted = status == Errc::not_connected ||
                              (status == Errc::not_permitted && with.link != nullptr &&
                               with.link->peer().process_id == process_id());
        complete_receive(receive, arrival, where, room, deserted ? Errc::connection_reset : status);
        break;
    }
    case Transfer::Kind::write: {
        Mr& mr = *transfer.mr;
        const std::uint64_t length = transfer.length;
        free_transfer(transfer);
        if (status == Errc::ok) {
            report_remote_write(with, mr, (arrival.flags & FI_REMOTE_CQ_DATA) != 0, arrival.data,
                                length, FI_RMA);
        }
        break;
    }
    case Transfer::Kind::read: {
        Mr& mr = *transfer.mr;
        free_transfer(transfer);
        if (status == Errc::ok && counters[remote_reads] != nullptr) {
            counters[remote_reads]->count();
        }
        if (status == Errc::ok && mr.remote_read != nullptr) {
            mr.remote_read->count();
        }
        break;
    }
    }
    if (arrival.operation != 0) {
        with.send_done(arrival.operation, status);
    }
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
