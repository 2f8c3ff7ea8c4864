// The entry points of reads and writes.
#include "endpoint.hpp"
#include "guarded.hpp"
#include "info.hpp"
#include "iov.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

Endpoint& endpoint_of(fid_ep* fid) {
    return *object_of<Endpoint>(fid);
}

struct Where {
    fi_addr_t peer;
    std::uint64_t address;
    std::uint64_t key;
};

ssize_t run(fid_ep* fid, bool is_write, const iovec* iov, std::size_t count, const Where& where,
            std::uint64_t data, std::uint64_t flags, void* context, bool inject) {
    Endpoint& endpoint = endpoint_of(fid);
    if (count > max_iov) {
        return -FI_EINVAL;
    }
    const iovec nothing{};
    if (count == 0) {
        iov = &nothing;
        count = 1;
    }
    const std::size_t length = total_length(iov, count);
    if (length > max_message_size ||
        (is_write && (inject || (flags & FI_INJECT) != 0) && length > max_inject)) {
        return -FI_EMSGSIZE;
    }
    const Guard guard(*endpoint.domain->lock);
    RmaCall call;
    call.to = where.peer;
    call.iov = iov;
    call.count = count;
    call.address = where.address;
    call.key = where.key;
    call.data = data;
    call.flags = flags;
    call.context = context;
    call.inject = inject;
    call.report = !inject && (!endpoint.tx_selective || (flags & FI_COMPLETION) != 0);
    return is_write ? endpoint.rma_write(call) : endpoint.rma_read(call);
}

ssize_t read(fid_ep* fid, void* buffer, std::size_t length, void*, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov{buffer, length};
    return run(fid, false, &iov, 1, {from, address, key}, 0, endpoint_of(fid).tx_op_flags, context,
               false);
}
ssize_t readv(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t from,
              std::uint64_t address, std::uint64_t key, void* context) {
    return run(fid, false, iov, count, {from, address, key}, 0, endpoint_of(fid).tx_op_flags,
               context, false);
}
ssize_t readmsg(fid_ep* fid, const fi_msg_rma* message, std::uint64_t flags) {
    if (message->rma_iov_count != 1 ||
        message->rma_iov->len != total_length(message->msg_iov, message->iov_count)) {
        return -FI_EINVAL;
    }
    return run(fid, false, message->msg_iov, message->iov_count,
               {message->addr, message->rma_iov->addr, message->rma_iov->key}, 0, flags,
               message->context, false);
}
ssize_t write(fid_ep* fid, const void* buffer, std::size_t length, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov{const_cast<void*>(buffer), length};
    return run(fid, true, &iov, 1, {to, address, key}, 0, endpoint_of(fid).tx_op_flags, context,
               false);
}
ssize_t writev(fid_ep* fid, const iovec* iov, void**, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, void* context) {
    return run(fid, true, iov, count, {to, address, key}, 0, endpoint_of(fid).tx_op_flags, context,
               false);
}
ssize_t writemsg(fid_ep* fid, const fi_msg_rma* message, std::uint64_t flags) {
    if (message->rma_iov_count != 1 ||
        message->rma_iov->len != total_length(message->msg_iov, message->iov_count)) {
        return -FI_EINVAL;
    }
    return run(fid, true, message->msg_iov, message->iov_count,
               {message->addr, message->rma_iov->addr, message->rma_iov->key}, message->data, flags,
               message->context, false);
}
ssize_t inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t to,
               std::uint64_t address, std::uint64_t key) {
    const iovec iov{const_cast<void*>(buffer), length};
    return run(fid, true, &iov, 1, {to, address, key}, 0, 0, nullptr, true);
}
ssize_t writedata(fid_ep* fid, const void* buffer, std::size_t length, void*, std::uint64_t data,
                  fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
    const iovec iov{const_cast<void*>(buffer), length};
    return run(fid, true, &iov, 1, {to, address, key}, data,
               endpoint_of(fid).tx_op_flags | FI_REMOTE_CQ_DATA, context, false);
}
ssize_t injectdata(fid_ep* fid, const void* buffer, std::size_t length, std::uint64_t data,
                   fi_addr_t to, std::uint64_t address, std::uint64_t key) {
    const iovec iov{const_cast<void*>(buffer), length};
    return run(fid, true, &iov, 1, {to, address, key}, data, FI_REMOTE_CQ_DATA, nullptr, true);
}

} // namespace

fi_ops_rma endpoint_rma_ops = {sizeof(fi_ops_rma), guarded<read>,   guarded<readv>,
                               guarded<readmsg>,   guarded<write>,  guarded<writev>,
                               guarded<writemsg>,  guarded<inject>, guarded<writedata>,
                               guarded<injectdata>};

} // namespace comch::ofi::inline COMCH_OFI_LINK
