// The entry points of atomics.
#include "atomic_ops.hpp"
#include "endpoint.hpp"
#include "guarded.hpp"

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
struct Vector {
    const fi_ioc* parts = nullptr;
    std::size_t count = 0;
};

ssize_t run(fid_ep* fid, Vector operands, Vector compares, Vector results, const Where& where,
            fi_datatype datatype, fi_op op, std::uint64_t flags, void* context, bool inject) {
    if ((flags & FI_TAGGED) != 0) {
        return -FI_EOPNOTSUPP; // as fi_query_atomic says: `key` would be a tag
    }
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.domain->lock);
    AtomicRequest call;
    call.to = where.peer;
    call.operands = operands.parts;
    call.operand_count = operands.count;
    call.compares = compares.parts;
    call.compare_count = compares.count;
    call.results = results.parts;
    call.result_count = results.count;
    call.address = where.address;
    call.key = where.key;
    call.datatype = datatype;
    call.op = op;
    call.flags = flags;
    call.context = context;
    call.inject = inject;
    call.report = !inject && (!endpoint.tx_selective || (flags & FI_COMPLETION) != 0);
    return endpoint.atomic(call);
}

std::uint64_t default_flags(fid_ep* fid) {
    return endpoint_of(fid).tx_op_flags;
}

fi_ioc part(const void* buffer, std::size_t count) {
    return {const_cast<void*>(buffer), count};
}

bool one_target(const fi_msg_atomic* message) {
    return message->rma_iov_count == 1;
}
Where target_of(const fi_msg_atomic* message) {
    return {message->addr, message->rma_iov->addr, message->rma_iov->key};
}

ssize_t write(fid_ep* fid, const void* buffer, std::size_t count, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op op,
              void* context) {
    const fi_ioc operand = part(buffer, count);
    return run(fid, {&operand, 1}, {}, {}, {to, address, key}, datatype, op, default_flags(fid),
               context, false);
}
ssize_t writev(fid_ep* fid, const fi_ioc* parts, void**, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op op,
               void* context) {
    return run(fid, {parts, count}, {}, {}, {to, address, key}, datatype, op, default_flags(fid),
               context, false);
}
ssize_t writemsg(fid_ep* fid, const fi_msg_atomic* message, std::uint64_t flags) {
    return one_target(message)
               ? run(fid, {message->msg_iov, message->iov_count}, {}, {}, target_of(message),
                     message->datatype, message->op, flags, message->context, false)
               : -FI_EINVAL;
}
ssize_t inject(fid_ep* fid, const void* buffer, std::size_t count, fi_addr_t to,
               std::uint64_t address, std::uint64_t key, fi_datatype datatype, fi_op op) {
    const fi_ioc operand = part(buffer, count);
    return run(fid, {&operand, 1}, {}, {}, {to, address, key}, datatype, op, 0, nullptr, true);
}
ssize_t readwrite(fid_ep* fid, const void* buffer, std::size_t count, void*, void* result, void*,
                  fi_addr_t to, std::uint64_t address, std::uint64_t key, fi_datatype datatype,
                  fi_op op, void* context) {
    const fi_ioc operand = part(buffer, count);
    const fi_ioc fetched = part(result, count);
    return run(fid, {&operand, 1}, {}, {&fetched, 1}, {to, address, key}, datatype, op,
               default_flags(fid), context, false);
}
ssize_t readwritev(fid_ep* fid, const fi_ioc* parts, void**, std::size_t count, fi_ioc* results,
                   void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key, fi_datatype datatype, fi_op op, void* context) {
    return run(fid, {parts, count}, {}, {results, result_count}, {to, address, key}, datatype, op,
               default_flags(fid), context, false);
}
ssize_t readwritemsg(fid_ep* fid, const fi_msg_atomic* message, fi_ioc* results, void**,
                     std::size_t result_count, std::uint64_t flags) {
    return one_target(message) ? run(fid, {message->msg_iov, message->iov_count}, {},
                                     {results, result_count}, target_of(message), message->datatype,
                                     message->op, flags, message->context, false)
                               : -FI_EINVAL;
}
ssize_t compwrite(fid_ep* fid, const void* buffer, std::size_t count, void*, const void* compare,
                  void*, void* result, void*, fi_addr_t to, std::uint64_t address,
                  std::uint64_t key, fi_datatype datatype, fi_op op, void* context) {
    const fi_ioc operand = part(buffer, count);
    const fi_ioc compared = part(compare, count);
    const fi_ioc fetched = part(result, count);
    return run(fid, {&operand, 1}, {&compared, 1}, {&fetched, 1}, {to, address, key}, datatype, op,
               default_flags(fid), context, false);
}
ssize_t compwritev(fid_ep* fid, const fi_ioc* parts, void**, std::size_t count,
                   const fi_ioc* compares, void**, std::size_t compare_count, fi_ioc* results,
                   void**, std::size_t result_count, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key, fi_datatype datatype, fi_op op, void* context) {
    return run(fid, {parts, count}, {compares, compare_count}, {results, result_count},
               {to, address, key}, datatype, op, default_flags(fid), context, false);
}
ssize_t compwritemsg(fid_ep* fid, const fi_msg_atomic* message, const fi_ioc* compares, void**,
                     std::size_t compare_count, fi_ioc* results, void**, std::size_t result_count,
                     std::uint64_t flags) {
    return one_target(message)
               ? run(fid, {message->msg_iov, message->iov_count}, {compares, compare_count},
                     {results, result_count}, target_of(message), message->datatype, message->op,
                     flags, message->context, false)
               : -FI_EINVAL;
}

template <AtomicCall Call>
int is_valid(fid_ep*, fi_datatype datatype, fi_op op, std::size_t* count) {
    if (!atomic_is_valid(datatype, op, Call)) {
        return -FI_EOPNOTSUPP;
    }
    if (count != nullptr) {
        *count = max_atomic_bytes / datatype_size(datatype);
    }
    return 0;
}

} // namespace

fi_ops_atomic endpoint_atomic_ops = {sizeof(fi_ops_atomic),
                                     guarded<write>,
                                     guarded<writev>,
                                     guarded<writemsg>,
                                     guarded<inject>,
                                     guarded<readwrite>,
                                     guarded<readwritev>,
                                     guarded<readwritemsg>,
                                     guarded<compwrite>,
                                     guarded<compwritev>,
                                     guarded<compwritemsg>,
                                     is_valid<AtomicCall::plain>,
                                     is_valid<AtomicCall::fetch>,
                                     is_valid<AtomicCall::compare>};

} // namespace comch::ofi::inline COMCH_OFI_LINK
