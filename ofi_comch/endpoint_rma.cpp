// Reads and writes of a peer's memory, and serving the peers'.
#include <atomic>
#include <cstring>

#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "iov.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

constexpr std::size_t max_packed = tuning::max_message;
constexpr std::size_t max_short = 2048;

template <class Fill> bool send_record(Conn& to, std::uint8_t id, std::size_t size, Fill&& fill) {
    const auto length = static_cast<std::uint32_t>(size);
    if (size <= max_short) {
        return to.link->send_inline(id, length, fill) == Errc::ok;
    }
    return to.link->send_packed(id, length, [&](std::byte* at) {
        fill(at);
        return length;
    }) >= 0;
}

} // namespace

ssize_t Endpoint::rma_write(const RmaCall& call) {
    ssize_t error = 0;
    Conn* const to = route(call.to, error);
    if (to == nullptr) {
        return fail_call(call.inject, FI_RMA | FI_WRITE, call.context, error, writes);
    }
    if (must_wait(call.flags, *to) || to->asked > wire::max_unanswered) {
        return wait_for_answers();
    }
    const std::size_t length = total_length(call.iov, call.count);
    bool asks = false;
    if (Reach* const reach = reach_of(*to, call, length, true, asks);
        reach != nullptr && go_direct(*to, *reach, call, length, true, error)) {
        return error;
    }
    const bool data = (call.flags & FI_REMOTE_CQ_DATA) != 0;
    const std::size_t head = sizeof(wire::Remote) + (data ? 8 : 0);
    wire::Remote remote{call.key, call.address, 0};
    // A write is complete when the peer has said that its memory holds it, or refused it. An
    // injected one, which is not reported, is complete when it is in the ring; but what the device
    // does must not be fenced by less, and a counter must not count what is refused later.
    Operation* operation = nullptr;
    if (!call.inject || head + length > max_packed || goes_direct || counters[writes] != nullptr) {
        operation = &begin(Operation::Kind::write, *to, call.flags, error_context(call),
                           call.report, remote.operation);
    }
    const auto id_of = [&](wire::Kind kind) {
        return static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) |
                                         (data ? wire::has_data : 0) |
                                         (asks ? wire::wants_region : 0));
    };
    bool sent = false;
    if (head + length <= max_packed) {
        sent = send_record(*to, id_of(wire::Kind::write), head + length, [&](std::byte* at) {
            std::memcpy(at, &remote, sizeof(remote));
            if (data) {
                std::memcpy(at + sizeof(remote), &call.data, 8);
            }
            gather(at + head, call.iov, call.count);
        });
    } else {
        wire::Source source{};
        if (!expose(*operation, call.iov, call.count, length, access_remote_read, true, source)) {
            forget(*operation);
            return -FI_ENOMEM;
        }
        sent = send_record(*to, id_of(wire::Kind::long_write), head + sizeof(source),
                           [&](std::byte* at) {
                               std::memcpy(at, &remote, sizeof(remote));
                               std::memcpy(at + sizeof(remote), &source, sizeof(source));
                               if (data) {
                                   std::memcpy(at + sizeof(remote) + sizeof(source), &call.data, 8);
                               }
                           });
    }
    if (!sent) {
        if (operation != nullptr) {
            forget(*operation);
        }
        return try_again(*to);
    }
    return 0;
}

ssize_t Endpoint::rma_read(const RmaCall& call) {
    ssize_t error = 0;
    Conn* const to = route(call.to, error);
    if (to == nullptr) {
        return fail_call(false, FI_RMA | FI_READ, call.context, error, reads);
    }
    if (must_wait(call.flags, *to) || to->asked > wire::max_unanswered) {
        return wait_for_answers();
    }
    const std::size_t length = total_length(call.iov, call.count);
    bool asks = false;
    if (Reach* const reach = reach_of(*to, call, length, false, asks);
        reach != nullptr && go_direct(*to, *reach, call, length, false, error)) {
        return error;
    }
    const auto id_of = [&](wire::Kind kind) {
        return static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) |
                                         (asks ? wire::wants_region : 0));
    };
    wire::Remote remote{call.key, call.address, 0};
    Operation& operation =
        begin(Operation::Kind::read, *to, call.flags, call.context, call.report, remote.operation);
    std::copy_n(call.iov, call.count, operation.iov);
    operation.count = call.count;
    operation.length = length;
    bool sent = false;
    if (length <= max_packed - sizeof(wire::Reply)) {
        const wire::Length wanted{length};
        expect_answer(operation, length);
        sent = send_record(*to, id_of(wire::Kind::read), sizeof(remote) + sizeof(wanted),
                           [&](std::byte* at) {
                               std::memcpy(at, &remote, sizeof(remote));
                               std::memcpy(at + sizeof(remote), &wanted, sizeof(wanted));
                           });
    } else {
        wire::Source source{};
        if (!expose(operation, call.iov, call.count, length, access_remote_write, false, source)) {
            forget(operation);
            return -FI_ENOMEM;
        }
        sent = send_record(*to, id_of(wire::Kind::long_read), sizeof(remote) + sizeof(source),
                           [&](std::byte* at) {
                               std::memcpy(at, &remote, sizeof(remote));
                               std::memcpy(at + sizeof(remote), &source, sizeof(source));
                           });
    }
    if (!sent) {
        forget(operation);
        return try_again(*to);
    }
    return 0;
}

// ---- serving ------------------------------------------------------------------------------------

bool Endpoint::take_done(Conn& from, Parser& parser) {
    wire::Done done{};
    if (!parser.take(done)) {
        return false;
    }
    const Errc status = done.status <= static_cast<std::uint32_t>(Errc::io)
                            ? static_cast<Errc>(done.status)
                            : Errc::io;
    Operation* const operation = find(done.operation, from);
    if (operation != nullptr && operation == from.in_parts) {
        return false; // it is not even there whole
    }
    if (operation != nullptr) {
        finish_answered(*operation, status);
    } else if (status != Errc::ok && done.operation == 0) {
        // Something injected was refused. It has no context of its own; fi_endpoint(3) names this
        // one.
        const std::uint64_t kind = done.of_atomic != 0 ? FI_ATOMIC : FI_RMA;
        add_failure(kind | FI_WRITE, fid.fid.context, to_fi(status), writes);
    }
    return true;
}

void Endpoint::report_remote_write(Conn& from, Mr& mr, bool has_data, std::uint64_t data,
                                   std::uint64_t length, std::uint64_t kind) {
    if (counters[remote_writes] != nullptr) {
        counters[remote_writes]->count();
    }
    if (mr.remote_write != nullptr) {
        mr.remote_write->count();
    }
    if (has_data && rx_cq != nullptr) {
        rx_cq->add({nullptr, kind | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, length, nullptr, data, 0},
                   (caps & FI_SOURCE) != 0 ? address_of(from.peer) : FI_ADDR_NOTAVAIL);
    }
}

bool Endpoint::take_write(Conn& from, std::uint8_t id, Parser& parser, bool is_long) {
    wire::Remote remote{};
    wire::Source source{};
    std::uint64_t data = 0;
    const bool has_data = (id & wire::has_data) != 0;
    if (!parser.take(remote) || (is_long && !parser.take(source)) ||
        (has_data && !parser.take(data))) {
        return false;
    }
    const std::uint64_t length = is_long ? source.length : parser.left();
    Mr* mr = nullptr;
    std::byte* const to = domain->find(remote.key, remote.address, length, FI_REMOTE_WRITE, mr);
    if (to == nullptr) {
        from.send_done(remote.operation, Errc::not_permitted);
        return true;
    }
    if ((id & wire::wants_region) != 0) {
        tell_region(from, *mr);
    }
    if (is_long) {
        Transfer& transfer = take_transfer(Transfer::Kind::write, from);
        transfer.memory = to;
        transfer.length = length;
        transfer.mr = mr;
        ++mr->users;
        transfer.arrival.operation = remote.operation;
        transfer.arrival.source = source;
        transfer.arrival.data = data;
        transfer.arrival.flags = has_data ? FI_REMOTE_CQ_DATA : 0;
        (void)start(transfer);
        return true;
    }
    // Release: another thread of the program that sees these bytes sees those of writes before.
    std::atomic_thread_fence(std::memory_order_release);
    if (length != 0) {
        std::memcpy(to, parser.rest(), length);
    }
    report_remote_write(from, *mr, has_data, data, length, FI_RMA);
    if (remote.operation != 0) {
        from.send_done(remote.operation, Errc::ok);
    }
    return true;
}

bool Endpoint::take_read(Conn& from, std::uint8_t id, Parser& parser, bool is_long) {
    wire::Remote remote{};
    wire::Source source{};
    wire::Length wanted{};
    if (!parser.take(remote) || !(is_long ? parser.take(source) : parser.take(wanted))) {
        return false;
    }
    const std::uint64_t length = is_long ? source.length : wanted.length;
    Mr* mr = nullptr;
    std::byte* const memory = domain->find(remote.key, remote.address, length, FI_REMOTE_READ, mr);
    if (memory == nullptr || (!is_long && length > max_packed - sizeof(wire::Reply))) {
        from.send_done(remote.operation, Errc::not_permitted);
        return true;
    }
    if ((id & wire::wants_region) != 0) {
        tell_region(from, *mr);
    }
    if (is_long) {
        Transfer& transfer = take_transfer(Transfer::Kind::read, from);
        transfer.memory = memory;
        transfer.length = length;
        transfer.mr = mr;
        ++mr->users;
        transfer.arrival.operation = remote.operation;
        transfer.arrival.source = source;
        (void)start(transfer);
        return true;
    }
    const wire::Reply reply{remote.operation};
    from.send_own(static_cast<std::uint8_t>(wire::Kind::read_reply), &reply, sizeof(reply), memory,
                  length);
    if (counters[remote_reads] != nullptr) {
        counters[remote_reads]->count();
    }
    if (mr->remote_read != nullptr) {
        mr->remote_read->count();
    }
    return true;
}

bool Endpoint::take_reply(Conn& from, Parser& parser) {
    wire::Reply reply{};
    if (!parser.take(reply)) {
        return false;
    }
    Operation* const operation = find(reply.operation, from);
    if (operation == nullptr) {
        return true; // an answer to what was given up
    }
    const bool expected =
        operation->kind == Operation::Kind::read || operation->kind == Operation::Kind::fetch;
    if (!expected || operation->count == 0 || parser.left() != operation->length) {
        return false;
    }
    scatter(operation->iov, operation->count, parser.rest(), parser.left());
    finish_answered(*operation, Errc::ok);
    return true;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
