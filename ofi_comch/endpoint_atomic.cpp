// Atomics: performed by the CPU of the memory's owner, when it progresses.
#include <algorithm>
#include <cstring>

#include "atomic_ops.hpp"
#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// Of operands; a number that is too large for one operation may come out smaller, but too large.
std::size_t total_count(const fi_ioc* ioc, std::size_t parts) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < parts; ++i) {
        count += std::min<std::size_t>(ioc[i].count, max_atomic_bytes + 1); // a sum could wrap
    }
    return count;
}

std::byte* gather_operands(std::byte* to, const fi_ioc* ioc, std::size_t parts, std::size_t size) {
    for (std::size_t i = 0; i < parts; ++i) {
        if (ioc[i].count != 0 && ioc[i].addr != nullptr) {
            std::memcpy(to, ioc[i].addr, ioc[i].count * size);
        }
        to += ioc[i].count * size;
    }
    return to;
}

} // namespace

ssize_t Endpoint::atomic(const AtomicRequest& call) {
    const bool fetches = call.result_count != 0;
    const bool compares = call.compare_count != 0;
    const AtomicCall kind = compares  ? AtomicCall::compare
                            : fetches ? AtomicCall::fetch
                                      : AtomicCall::plain;
    if (!atomic_is_valid(call.datatype, call.op, kind)) {
        return -FI_EOPNOTSUPP;
    }
    const std::size_t size = datatype_size(call.datatype);
    const bool reads_only = call.op == FI_ATOMIC_READ;
    const std::size_t count = reads_only ? total_count(call.results, call.result_count)
                                         : total_count(call.operands, call.operand_count);
    if (count > max_atomic_bytes / size) {
        return -FI_EMSGSIZE;
    }
    if (count == 0 || call.result_count > max_iov ||
        (fetches && total_count(call.results, call.result_count) != count) ||
        (compares && total_count(call.compares, call.compare_count) != count)) {
        return -FI_EINVAL;
    }
    const std::uint64_t flags = FI_ATOMIC | (fetches ? FI_READ : FI_WRITE);
    ssize_t error = 0;
    Conn* const to = route(call.to, error);
    if (to == nullptr) {
        return fail_call(call.inject, flags, call.context, error, fetches ? reads : writes);
    }
    if (must_wait(call.flags, *to) || to->asked > wire::max_unanswered) {
        return wait_for_answers();
    }
    wire::Remote remote{call.key, call.address, 0};
    const wire::Atomic atomic{static_cast<std::uint32_t>(count), static_cast<std::uint8_t>(call.op),
                              static_cast<std::uint8_t>(call.datatype), fetches, compares};
    // An injected one is not reported, but what the device does must not be fenced by less, and a
    // counter must not count what is refused later.
    Operation* operation = nullptr;
    if (!call.inject || goes_direct || counters[writes] != nullptr) {
        operation = &begin(fetches ? Operation::Kind::fetch : Operation::Kind::atomic, *to,
                           call.flags, error_context(call), call.report, remote.operation);
        operation->length = fetches ? count * size : 0;
        operation->count = call.result_count;
        expect_answer(*operation, operation->length);
        for (std::size_t i = 0; i < call.result_count; ++i) {
            operation->iov[i] = {call.results[i].addr, call.results[i].count * size};
        }
    }
    const std::size_t total = sizeof(remote) + sizeof(atomic) + (reads_only ? 0 : count * size) +
                              (compares ? count * size : 0);
    const Errc result = to->link->send_inline(
        static_cast<std::uint8_t>(wire::Kind::atomic), static_cast<std::uint32_t>(total),
        [&](std::byte* at) {
            std::memcpy(at, &remote, sizeof(remote));
            std::memcpy(at + sizeof(remote), &atomic, sizeof(atomic));
            at += sizeof(remote) + sizeof(atomic);
            if (!reads_only) {
                at = gather_operands(at, call.operands, call.operand_count, size);
            }
            if (compares) {
                (void)gather_operands(at, call.compares, call.compare_count, size);
            }
        });
    if (result != Errc::ok) {
        if (operation != nullptr) {
            forget(*operation);
        }
        return try_again(*to);
    }
    return 0;
}

bool Endpoint::take_atomic(Conn& from, std::uint8_t, Parser& parser) {
    wire::Remote remote{};
    wire::Atomic atomic{};
    if (!parser.take(remote) || !parser.take(atomic)) {
        return false;
    }
    const AtomicCall kind = atomic.compares != 0  ? AtomicCall::compare
                            : atomic.fetches != 0 ? AtomicCall::fetch
                                                  : AtomicCall::plain;
    const bool reads_only = atomic.op == FI_ATOMIC_READ;
    const std::size_t size = datatype_size(atomic.datatype);
    const std::size_t bytes = atomic.count * size;
    const std::size_t expected = (reads_only ? 0 : bytes) + (atomic.compares != 0 ? bytes : 0);
    if (!atomic_is_valid(atomic.datatype, atomic.op, kind) || atomic.count == 0 ||
        atomic.count > max_atomic_bytes || bytes > max_atomic_bytes || parser.left() != expected) {
        return false;
    }
    std::uint64_t access = 0;
    if (!reads_only) {
        access |= FI_REMOTE_WRITE;
    }
    if (atomic.fetches != 0) {
        access |= FI_REMOTE_READ;
    }
    Mr* mr = nullptr;
    std::byte* const target = domain->find(remote.key, remote.address, bytes, access, mr);
    if (target == nullptr || reinterpret_cast<std::uintptr_t>(target) % size != 0) {
        from.send_done(remote.operation,
                       target == nullptr ? Errc::not_permitted : Errc::invalid_argument, true);
        return true;
    }
    // Copied: a hostile peer could change an operand between two looks at it.
    std::byte operands[2 * max_atomic_bytes];
    std::byte old[max_atomic_bytes];
    std::memcpy(operands, parser.rest(), expected);
    perform_atomic(atomic.datatype, atomic.op, target, reads_only ? nullptr : operands,
                   atomic.compares != 0 ? operands + bytes : nullptr,
                   atomic.fetches != 0 ? old : nullptr, atomic.count);
    Cntr* const* const counter =
        atomic.fetches != 0 ? &counters[remote_reads] : &counters[remote_writes];
    if (*counter != nullptr) {
        (*counter)->count();
    }
    // (An endpoint counts those that fetch as reads. Memory tells of all that change it: fi_mr_bind.)
    if (mr->remote_write != nullptr && !reads_only) {
        mr->remote_write->count();
    }
    if (mr->remote_read != nullptr && atomic.fetches != 0) {
        mr->remote_read->count();
    }
    if (atomic.fetches != 0) {
        const wire::Reply reply{remote.operation};
        from.send_own(static_cast<std::uint8_t>(wire::Kind::read_reply), &reply, sizeof(reply), old,
                      bytes);
    } else if (remote.operation != 0) {
        from.send_done(remote.operation, Errc::ok);
    }
    return true;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
