// The entry points of messages, tagged and not.
#include "endpoint_plain.hpp"
#include "info.hpp"
#include "iov.hpp"
#include "post.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

Endpoint& endpoint_of(fid_ep* fid) {
    return *object_of<Endpoint>(fid);
}

// The general ways, which may find no memory. What goes the short ways allocates nothing, and what an
// exception would have to be caught for in the same function takes a register.

/// `Kind` is FI_MSG or FI_TAGGED.
template <std::uint64_t Kind>
[[gnu::noinline]] ssize_t send_vector(fid_ep* fid, const iovec* iov, std::size_t count,
                                      fi_addr_t to, std::uint64_t tag, std::uint64_t data,
                                      std::uint64_t flags, void* context, bool inject) try {
    Endpoint& endpoint = endpoint_of(fid);
    if (count > max_iov) [[unlikely]] {
        return -FI_EINVAL;
    }
    const std::size_t length = count == 1 ? iov->iov_len : total_length(iov, count);
    if (length > max_inject && (length > max_message_size || inject || (flags & FI_INJECT) != 0))
        [[unlikely]] {
        return -FI_EMSGSIZE;
    }
    const Guard guard(*endpoint.domain->lock);
    SendCall call;
    call.to = to;
    call.iov = iov;
    call.count = count;
    call.tag = tag;
    call.data = data;
    call.flags = flags | Kind | FI_SEND;
    if ((flags & FI_MATCH_COMPLETE) != 0) { // what has been matched is delivered at once
        call.flags |= FI_DELIVERY_COMPLETE;
    }
    call.context = context;
    call.report = !inject && (!endpoint.tx_selective || (flags & FI_COMPLETION) != 0);
    call.inject = inject;
    if (inject) {
        call.flags &= ~std::uint64_t{FI_DELIVERY_COMPLETE};
    }
    return endpoint.send(call);
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

template <std::uint64_t Kind, bool HasData, bool Inject>
ssize_t send_buffer(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t to,
                    std::uint64_t tag, std::uint64_t data, void* context) {
    Endpoint& endpoint = endpoint_of(fid);
    {
        const Guard guard(*endpoint.lock);
        ssize_t result = 0;
        if (endpoint.send_plain<Kind, HasData, Inject>(buffer, length, to, tag, data, context,
                                                       result)) [[likely]] {
            return result;
        }
    }
    const iovec iov{const_cast<void*>(buffer), length};
    return send_vector<Kind>(fid, &iov, 1, to, tag, data,
                             endpoint.tx_op_flags | (HasData ? FI_REMOTE_CQ_DATA : 0), context,
                             Inject);
}

template <std::uint64_t Kind>
[[gnu::noinline]] ssize_t receive_vector(fid_ep* fid, const iovec* iov, std::size_t count,
                                         fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
                                         std::uint64_t flags, bool use_default_flags,
                                         void* context) try {
    const Guard guard(lock_of(fid));
    const Receiver receiver = receiver_of(fid);
    return post_receive(receiver, iov, count, from, tag, ignore,
                        Kind | flags | (use_default_flags ? receiver.op_flags : 0), context);
} catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
}

/// Of an endpoint, not of a shared context.
template <std::uint64_t Kind>
ssize_t receive_buffer(fid_ep* fid, void* buffer, std::size_t length, fi_addr_t from,
                       std::uint64_t tag, std::uint64_t ignore, void* context) {
    Endpoint& endpoint = endpoint_of(fid);
    {
        const Guard guard(*endpoint.lock);
        if (endpoint.post_plain<Kind>(buffer, length, from, tag, ignore, context)) [[likely]] {
            return 0;
        }
    }
    const iovec iov{buffer, length};
    return receive_vector<Kind>(fid, &iov, 1, from, tag, ignore, 0, true, context);
}

// ---- not tagged ---------------------------------------------------------------------------------

ssize_t recv(fid_ep* fid, void* buffer, std::size_t length, void*, fi_addr_t from, void* context) {
    return receive_buffer<FI_MSG>(fid, buffer, length, from, 0, 0, context);
}
ssize_t shared_recv(fid_ep* fid, void* buffer, std::size_t length, void*, fi_addr_t from,
                    void* context) {
    const iovec iov{buffer, length};
    return receive_vector<FI_MSG>(fid, &iov, 1, from, 0, 0, 0, true, context);
}
ssize_t recvv(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              void* context) {
    return receive_vector<FI_MSG>(fid, iov, count, from, 0, 0, 0, true, context);
}
ssize_t recvmsg(fid_ep* fid, const fi_msg* message, std::uint64_t flags) {
    return receive_vector<FI_MSG>(fid, message->msg_iov, message->iov_count, message->addr, 0, 0,
                                  flags, false, message->context);
}
ssize_t send(fid_ep* fid, const void* buffer, std::size_t length, void*, fi_addr_t to,
             void* context) {
    return send_buffer<FI_MSG, false, false>(fid, buffer, length, to, 0, 0, context);
}
ssize_t sendv(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t to,
              void* context) {
    return send_vector<FI_MSG>(fid, iov, count, to, 0, 0, endpoint_of(fid).tx_op_flags, context,
                               false);
}
ssize_t sendmsg(fid_ep* fid, const fi_msg* message, std::uint64_t flags) {
    return send_vector<FI_MSG>(fid, message->msg_iov, message->iov_count, message->addr, 0,
                               message->data, flags, message->context, false);
}
ssize_t inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t to) {
    return send_buffer<FI_MSG, false, true>(fid, buffer, length, to, 0, 0, nullptr);
}
ssize_t senddata(fid_ep* fid, const void* buffer, std::size_t length, void*, std::uint64_t data,
                 fi_addr_t to, void* context) {
    return send_buffer<FI_MSG, true, false>(fid, buffer, length, to, 0, data, context);
}
ssize_t injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                   fi_addr_t to) {
    return send_buffer<FI_MSG, true, true>(fid, buffer, length, to, 0, data, nullptr);
}

// ---- tagged -------------------------------------------------------------------------------------

ssize_t trecv(fid_ep* fid, void* buffer, std::size_t length, void*, fi_addr_t from,
              std::uint64_t tag, std::uint64_t ignore, void* context) {
    return receive_buffer<FI_TAGGED>(fid, buffer, length, from, tag, ignore, context);
}
ssize_t shared_trecv(fid_ep* fid, void* buffer, std::size_t length, void*, fi_addr_t from,
                     std::uint64_t tag, std::uint64_t ignore, void* context) {
    const iovec iov{buffer, length};
    return receive_vector<FI_TAGGED>(fid, &iov, 1, from, tag, ignore, 0, true, context);
}
ssize_t trecvv(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t from,
               std::uint64_t tag, std::uint64_t ignore, void* context) {
    return receive_vector<FI_TAGGED>(fid, iov, count, from, tag, ignore, 0, true, context);
}
ssize_t trecvmsg(fid_ep* fid, const fi_msg_tagged* message, std::uint64_t flags) {
    return receive_vector<FI_TAGGED>(fid, message->msg_iov, message->iov_count, message->addr,
                                     message->tag, message->ignore, flags, false, message->context);
}
ssize_t tsend(fid_ep* fid, const void* buffer, std::size_t length, void*, fi_addr_t to,
              std::uint64_t tag, void* context) {
    return send_buffer<FI_TAGGED, false, false>(fid, buffer, length, to, tag, 0, context);
}
ssize_t tsendv(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t to,
               std::uint64_t tag, void* context) {
    return send_vector<FI_TAGGED>(fid, iov, count, to, tag, 0, endpoint_of(fid).tx_op_flags,
                                  context, false);
}
ssize_t tsendmsg(fid_ep* fid, const fi_msg_tagged* message, std::uint64_t flags) {
    return send_vector<FI_TAGGED>(fid, message->msg_iov, message->iov_count, message->addr,
                                  message->tag, message->data, flags, message->context, false);
}
ssize_t tinject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t to,
                std::uint64_t tag) {
    return send_buffer<FI_TAGGED, false, true>(fid, buffer, length, to, tag, 0, nullptr);
}
ssize_t tsenddata(fid_ep* fid, const void* buffer, std::size_t length, void*, std::uint64_t data,
                  fi_addr_t to, std::uint64_t tag, void* context) {
    return send_buffer<FI_TAGGED, true, false>(fid, buffer, length, to, tag, data, context);
}
ssize_t tinjectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                    fi_addr_t to, std::uint64_t tag) {
    return send_buffer<FI_TAGGED, true, true>(fid, buffer, length, to, tag, data, nullptr);
}

} // namespace

fi_ops_msg endpoint_msg_ops = {
    sizeof(fi_ops_msg), recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata};
fi_ops_tagged endpoint_tagged_ops = {sizeof(fi_ops_tagged),
                                     trecv,
                                     trecvv,
                                     trecvmsg,
                                     tsend,
                                     tsendv,
                                     tsendmsg,
                                     tinject,
                                     tsenddata,
                                     tinjectdata};
fi_ops_msg srx_msg_ops = {sizeof(fi_ops_msg),
                          shared_recv,
                          recvv,
                          recvmsg,
                          unsupported<decltype(fi_ops_msg::send)>,
                          unsupported<decltype(fi_ops_msg::sendv)>,
                          unsupported<decltype(fi_ops_msg::sendmsg)>,
                          unsupported<decltype(fi_ops_msg::inject)>,
                          unsupported<decltype(fi_ops_msg::senddata)>,
                          unsupported<decltype(fi_ops_msg::injectdata)>};
fi_ops_tagged srx_tagged_ops = {sizeof(fi_ops_tagged),
                                shared_trecv,
                                trecvv,
                                trecvmsg,
                                unsupported<decltype(fi_ops_tagged::send)>,
                                unsupported<decltype(fi_ops_tagged::sendv)>,
                                unsupported<decltype(fi_ops_tagged::sendmsg)>,
                                unsupported<decltype(fi_ops_tagged::inject)>,
                                unsupported<decltype(fi_ops_tagged::senddata)>,
                                unsupported<decltype(fi_ops_tagged::injectdata)>};

} // namespace comch::ofi::inline COMCH_OFI_LINK
