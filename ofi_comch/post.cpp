#include "post.hpp"

#include <algorithm>
#include <cstring>

#include "iov.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

bool wanted(const Unexpected& message, fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
            bool tagged) {
    if (tagged && ((message.arrival.tag ^ tag) & ~ignore) != 0) {
        return false;
    }
    return from == FI_ADDR_UNSPEC || message.endpoint->address_of(message.arrival.peer) == from;
}

Unexpected* find(const Receiver& at, fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
                 bool tagged) {
    for (Unexpected* message = at.queue->unexpected[tagged].first(); message != nullptr;
         message = message->next) {
        if (wanted(*message, from, tag, ignore, tagged)) {
            return message;
        }
    }
    return nullptr;
}

void no_such_message(const Receiver& at, std::uint64_t tag, void* context) {
    Cq* const cq = at.endpoint != nullptr       ? at.endpoint->rx_cq
                   : !at.srx->endpoints.empty() ? at.srx->endpoints.front()->rx_cq
                                                : nullptr;
    if (cq == nullptr) {
        return;
    }
    Failure failure;
    failure.entry.op_context = context;
    failure.entry.flags = FI_RECV | FI_TAGGED;
    failure.entry.tag = tag;
    failure.entry.err = FI_ENOMSG;
    failure.entry.prov_errno = FI_ENOMSG;
    cq->add_failure(failure);
}

void report_found(Unexpected& message, void* context, void* buffer) {
    Endpoint& endpoint = *message.endpoint;
    const Arrival& arrival = message.arrival;
    if (endpoint.rx_cq != nullptr) {
        endpoint.rx_cq->add(
            {context, arrival.flags, arrival.length, buffer, arrival.data, arrival.tag},
            endpoint.address_of(arrival.peer));
    }
}

Receive& make_receive(const Receiver& to, const iovec* iov, std::size_t count, fi_addr_t from,
                      std::uint64_t tag, std::uint64_t ignore, std::uint64_t flags, void* context) {
    Receive& receive = to.queue->receives.take();
    receive.tag = tag;
    receive.ignore = ignore;
    receive.from = from;
    receive.context = context;
    receive.flags = flags & (FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_COMPLETION);
    receive.length = count == 1 ? iov->iov_len : total_length(iov, count);
    receive.used = 0;
    receive.least = std::max<std::size_t>(to.min_multi_recv, 1); // a full one takes no more
    receive.users = 0;
    receive.retired = false;
    receive.end = Errc::ok;
    receive.count = count;
    if (count == 1) [[likely]] {
        receive.iov[0] = *iov;
    } else {
        std::copy_n(iov, count, receive.iov);
    }
    return receive;
}

/// A message that has waited is handed to a receive that is in no list.
void serve(const Receiver& at, Unexpected& message, Receive& receive) {
    const bool tagged = message.arrival.tagged();
    at.queue->posted[tagged].append(receive); // where deliver() takes it from
    if (!message.arrival.is_here() && message.arrival.conn == nullptr) {
        at.queue->posted[tagged].remove(receive);
        message.endpoint->end_receive(receive, Errc::connection_reset);
    } else {
        message.endpoint->deliver(receive, message.arrival);
    }
    at.queue->free(message);
}

/// A receive that takes several messages gets those that have waited, the first of which is `message`, for
/// which make_room_for() was called. True: it takes no more. Else it is in no list.
bool fill(const Receiver& at, Receive& receive, Unexpected* message) {
    const bool tagged = message->arrival.tagged();
    at.queue->posted[tagged].append(receive); // where deliver() takes it from
    for (;;) {
        at.queue->unexpected[tagged].remove(*message);
        message->endpoint->deliver(receive, message->arrival);
        at.queue->free(*message);
        if (receive.retired) {
            return true;
        }
        message = find(at, receive.from, receive.tag, receive.ignore, tagged);
        if (message == nullptr) {
            at.queue->posted[tagged].remove(receive);
            return false;
        }
        if (!message->endpoint->can_deliver(receive, message->arrival)) {
            return true;
        }
    }
}

/// Ends a receive, in no list, that came too late to be failed with the others when its peer ended.
bool end_if_late(const Receiver& to, Receive& receive) {
    Endpoint* endpoint = to.endpoint;
    if (endpoint == nullptr) {
        if (to.srx->lost == 0 || to.srx->lost != to.srx->endpoints.size()) {
            return false;
        }
        endpoint = to.srx->endpoints.front(); // none of them has its device any more
    }
    const Errc end = endpoint->end_of(receive.from);
    if (end == Errc::ok) {
        return false;
    }
    endpoint->end_receive(receive, end);
    return true;
}

} // namespace

Lock& lock_of(fid_ep* fid) noexcept {
    return fid->fid.fclass == FI_CLASS_SRX_CTX ? *object_of<Srx>(fid)->domain->lock
                                               : *object_of<Endpoint>(fid)->lock;
}

Receiver receiver_of(fid_ep* fid) noexcept {
    Receiver receiver;
    if (fid->fid.fclass == FI_CLASS_SRX_CTX) {
        Srx& srx = *object_of<Srx>(fid);
        receiver.queue = &srx.queue;
        receiver.srx = &srx;
        receiver.op_flags = srx.op_flags;
        receiver.min_multi_recv = srx.min_multi_recv;
        return receiver;
    }
    Endpoint& endpoint = *object_of<Endpoint>(fid);
    receiver.queue = endpoint.queue;
    receiver.endpoint = &endpoint;
    receiver.op_flags = endpoint.rx_op_flags;
    receiver.min_multi_recv = endpoint.min_multi_recv;
    return receiver;
}

ssize_t post_receive(const Receiver& to, const iovec* iov, std::size_t count, fi_addr_t from,
                     std::uint64_t tag, std::uint64_t ignore, std::uint64_t flags, void* context) {
    if (to.endpoint != nullptr) {
        if (to.endpoint->closed) {
            return -FI_EOPBADSTATE;
        }
        if (to.endpoint->srx != nullptr) {
            return -FI_EOPBADSTATE; // receives are posted to the shared context
        }
        if (!to.endpoint->enabled && to.endpoint->type == FI_EP_RDM) {
            return -FI_EOPBADSTATE;
        }
    }
    const bool is_directed =
        to.endpoint == nullptr
            ? to.srx->is_directed
            : to.endpoint->type != FI_EP_MSG && (to.endpoint->caps & FI_DIRECTED_RECV) != 0;
    if (!is_directed) {
        from = FI_ADDR_UNSPEC; // the source is ignored
    }
    if (count > max_iov || ((flags & FI_MULTI_RECV) != 0 && count != 1)) {
        return -FI_EINVAL;
    }
    const bool tagged = (flags & FI_TAGGED) != 0;
    if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) != 0) {
        return tagged ? look_for(to, iov, count, from, tag, ignore, flags, context) : -FI_EBADFLAGS;
    }
    // What may find no memory comes before what it would be too late to refuse.
    Unexpected* message = nullptr;
    if (!to.queue->unexpected[tagged].empty()) [[unlikely]] {
        message = find(to, from, tag, ignore, tagged);
        if (message != nullptr) {
            message->endpoint->make_room_for(message->arrival);
        }
    }
    Receive& receive = make_receive(to, iov, count, from, tag, ignore, flags, context);
    if (message != nullptr) [[unlikely]] {
        if ((flags & FI_MULTI_RECV) == 0) {
            to.queue->unexpected[tagged].remove(*message);
            serve(to, *message, receive);
            return 0;
        }
        if (fill(to, receive, message)) {
            return 0;
        }
    }
    if (!end_if_late(to, receive)) {
        to.queue->posted[tagged].append(receive);
    }
    return 0;
}

ssize_t look_for(const Receiver& at, const iovec* iov, std::size_t count, fi_addr_t from,
                 std::uint64_t tag, std::uint64_t ignore, std::uint64_t flags, void* context) {
    if ((flags & FI_PEEK) == 0) {
        // A message that was claimed with this context.
        Unexpected* message = at.queue->claimed.first();
        while (message != nullptr && message->claimed != context) {
            message = message->next;
        }
        if ((flags & FI_CLAIM) == 0 || message == nullptr) {
            return -FI_EINVAL;
        }
        if ((flags & FI_DISCARD) != 0) {
            at.queue->claimed.remove(*message);
            message->endpoint->discard(message->arrival);
            report_found(*message, context, nullptr);
            at.queue->free(*message);
            return 0;
        }
        message->endpoint->make_room_for(message->arrival);
        Receive& receive =
            make_receive(at, iov, count, from, message->arrival.tag, 0, flags, context);
        at.queue->claimed.remove(*message);
        serve(at, *message, receive);
        return 0;
    }
    Unexpected* message = find(at, from, tag, ignore, true);
    if (message == nullptr) { // it may be at the door
        if (at.endpoint != nullptr) {
            (void)at.endpoint->station->progress();
        } else {
            for (std::size_t i = 0; i < at.srx->endpoints.size(); ++i) {
                (void)at.srx->endpoints[i]->station->progress();
            }
        }
        message = find(at, from, tag, ignore, true);
    }
    if (message == nullptr) {
        no_such_message(at, tag, context);
        return 0;
    }
    void* buffer = nullptr;
    if (message->arrival.is_here() && count != 0 && iov[0].iov_base != nullptr &&
        (flags & FI_DISCARD) == 0) {
        scatter(iov, count, message->arrival.payload, message->arrival.length);
        buffer = iov[0].iov_base;
    }
    report_found(*message, context, buffer);
    if ((flags & FI_DISCARD) != 0) {
        at.queue->unexpected[1].remove(*message);
        message->endpoint->discard(message->arrival);
        at.queue->free(*message);
    } else if ((flags & FI_CLAIM) != 0) {
        at.queue->unexpected[1].remove(*message);
        message->claimed = context;
        at.queue->claimed.append(*message);
    }
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
