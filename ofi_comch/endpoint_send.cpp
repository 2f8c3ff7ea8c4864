// Sending messages, whatever is asked for, and what begins and ends an operation.
#include <algorithm>
#include <cstring>

#include "core/base/make_room.hpp"
#include "core/memory/region_table.hpp"
#include "endpoint.hpp"
#include "endpoint_plain.hpp"
#include "iov.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

constexpr std::size_t max_packed = tuning::max_message;

/// As far as the call has them; `id` says so then.
std::byte* put_tag_and_data(std::byte* at, const SendCall& call, std::uint8_t& id) noexcept {
    if ((call.flags & FI_TAGGED) != 0) {
        id |= wire::has_tag;
        at = put_word(at, call.tag);
    }
    if ((call.flags & FI_REMOTE_CQ_DATA) != 0) {
        id |= wire::has_data;
        at = put_word(at, call.data);
    }
    return at;
}

} // namespace

ssize_t Endpoint::send(const SendCall& call) {
    ssize_t error = 0;
    Conn* const to = route(call.to, error);
    if (to == nullptr) [[unlikely]] {
        return fail_call(call.inject, call.flags, call.context, error, sends);
    }
    if (must_wait(call.flags, *to)) [[unlikely]] {
        return wait_for_answers();
    }
    const std::size_t length =
        call.count == 1 ? call.iov->iov_len : total_length(call.iov, call.count);
    const bool tagged = (call.flags & FI_TAGGED) != 0;
    const bool data = (call.flags & FI_REMOTE_CQ_DATA) != 0;
    const bool confirm = (call.flags & FI_DELIVERY_COMPLETE) != 0;
    const std::size_t head = 8 * (std::size_t{tagged} + data + confirm);
    const std::size_t total = head + length;
    // (Only what is answered: the peer may answer when it has had another message.)
    const bool is_answered = confirm || (total > max_packed && length > eager_size);
    if (is_answered && to->unconfirmed > wire::max_unconfirmed) [[unlikely]] {
        return wait_for_answers();
    }
    if (total > max_packed) {
        return length <= eager_size ? send_in_parts(*to, call, length)
                                    : send_long(*to, call, length);
    }
    auto id = static_cast<std::uint8_t>(wire::Kind::message);
    id = static_cast<std::uint8_t>(id | (tagged ? wire::has_tag : 0) | (data ? wire::has_data : 0) |
                                   (confirm ? wire::wants_done : 0));
    std::uint64_t name = 0;
    Operation* operation = nullptr;
    if (confirm) [[unlikely]] {
        operation = &begin(Operation::Kind::send, *to, call.flags, call.context, call.report, name);
    }
    const auto fill = [&](std::byte* at) {
        if (tagged) {
            at = put_word(at, call.tag);
        }
        if (data) {
            at = put_word(at, call.data);
        }
        if (confirm) {
            at = put_word(at, name);
        }
        gather(at, call.iov, call.count);
    };
    const bool sent =
        total <= max_short
            ? to->link->send_inline(id, static_cast<std::uint32_t>(total), fill) == Errc::ok
            : to->link->send_packed(
                  id, static_cast<std::uint32_t>(total),
                  [&](std::byte* at) {
                      fill(at);
                      return static_cast<std::uint32_t>(total);
                  },
                  static_cast<std::uint32_t>(total - length)) >= 0;
    if (!sent) [[unlikely]] {
        if (operation != nullptr) {
            forget(*operation);
        }
        return try_again(*to);
    }
    if (!confirm) [[likely]] {
        complete(tx_cq, call.report, call.context, call.flags & (FI_TAGGED | FI_MSG | FI_SEND), 0,
                 sends);
    }
    return 0;
}

ssize_t Endpoint::send_in_parts(Conn& to, const SendCall& call, std::size_t length) {
    const bool confirm = (call.flags & FI_DELIVERY_COMPLETE) != 0;
    std::uint64_t name = 0;
    Operation& operation =
        begin(Operation::Kind::send, to, call.flags, call.context, call.report, name);
    std::copy_n(call.iov, call.count, operation.iov);
    operation.count = call.count;
    operation.length = length;

    std::byte head[sizeof(wire::Length) + 3 * 8];
    std::byte* end = head + sizeof(wire::Length);
    auto id = static_cast<std::uint8_t>(wire::Kind::parts);
    end = put_tag_and_data(end, call, id);
    if (confirm) {
        id |= wire::wants_done;
        end = put_word(end, name);
    }
    const auto head_size = static_cast<std::size_t>(end - head);
    const wire::Length whole{head_size - sizeof(wire::Length) + length};
    std::memcpy(head, &whole, sizeof(whole));
    operation.sent = part_size - head_size;
    if (to.link->send_packed(
            id, part_size,
            [&](std::byte* at) {
                std::memcpy(at, head, head_size);
                gather_part(at + head_size, operation.iov, operation.count, 0, operation.sent);
                return part_size;
            },
            static_cast<std::uint32_t>(head_size)) < 0) {
        forget(operation);
        return try_again(to);
    }
    to.in_parts = &operation;
    (void)send_more_parts(to);
    if (to.in_parts != nullptr) {
        to.link->hold(true);
        to.mark_busy();
    }
    return 0;
}

unsigned Endpoint::send_more_parts(Conn& to) {
    Operation& operation = *to.in_parts;
    unsigned count = 0;
    while (operation.sent != operation.length) {
        const auto size = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(part_size, operation.length - operation.sent));
        const auto fill = [&](std::byte* at) {
            gather_part(at, operation.iov, operation.count, operation.sent, size);
            return size;
        };
        if (to.link->send_packed(static_cast<std::uint8_t>(wire::Kind::part), size, fill) < 0) {
            return count;
        }
        operation.sent += size;
        ++count;
    }
    to.in_parts = nullptr;
    if ((operation.flags & FI_DELIVERY_COMPLETE) == 0) {
        finish(operation, Errc::ok);
    } // else the peer says when it is done
    return count + 1;
}

ssize_t Endpoint::send_long(Conn& to, const SendCall& call, std::size_t length) {
    std::uint64_t name = 0;
    Operation& operation =
        begin(Operation::Kind::send, to, call.flags, call.context, call.report, name);
    wire::Source source{};
    if (!expose(operation, call.iov, call.count, length, access_remote_read, true, source)) {
        forget(operation);
        return -FI_ENOMEM;
    }
    const wire::LongMessage announcement{name, source};
    auto id = static_cast<std::uint8_t>(wire::Kind::long_message);
    std::byte bytes[sizeof(announcement) + 16];
    std::memcpy(bytes, &announcement, sizeof(announcement));
    std::byte* end = bytes + sizeof(announcement);
    end = put_tag_and_data(end, call, id);
    if (to.link->send(id, {bytes, end}) != Errc::ok) {
        forget(operation);
        return try_again(to);
    }
    return 0;
}

bool Endpoint::expose(Operation& operation, const iovec* iov, std::size_t count, std::size_t length,
                      std::uint32_t access, bool take, wire::Source& source) try {
    auto* base = static_cast<std::byte*>(iov[0].iov_base);
    if (count > 1) {
        operation.staging.reset(new (std::nothrow) std::byte[length]);
        if (operation.staging == nullptr) {
            return false;
        }
        base = operation.staging.get();
        if (take) {
            gather(base, iov, count);
        }
    }
    // A key that is kept is for reading alone: what peers write to they cannot any longer once the
    // operation has ended. (Nor does a copy of ours come twice, so it is not kept at all.)
    if (count == 1 && access == access_remote_read) {
        operation.kept = keep(base, length, access);
    }
    const std::uint64_t known_by = operation.kept != nullptr ? operation.kept->region() : 0;
    const auto key = RegionTable::instance().add({base, length, access, -1, known_by});
    if (!key) {
        return false;
    }
    operation.region = key->region;
    operation.length = length;
    // Last: of one that is open the peer is told by what is sent next.
    const bool by_window =
        count == 1 && operation.kept == nullptr && open_window(operation, base, length, access);
    source = {length, key->region, reinterpret_cast<std::uint64_t>(base),
              by_window ? operation.window : Link::link_data_of(station->device(), key->region)};
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

Operation& Endpoint::begin(Operation::Kind kind, Conn& to, std::uint64_t flags, void* context,
                           bool report, std::uint64_t& name) {
    if (free_operations_.empty()) {
        make_room(operations_);
        make_room_for_all(free_operations_, operations_); // giving back never allocates
        operations_.push_back(std::make_unique<Operation>());
        free_operations_.push_back(static_cast<std::uint32_t>(operations_.size() - 1));
    }
    const std::uint32_t index = free_operations_.back();
    free_operations_.pop_back();
    Operation& operation = *operations_[index];
    operation.kind = kind;
    operation.conn = &to;
    operation.flags = flags;
    operation.context = context;
    operation.report = report;
    operation.active = true;
    operation.region = 0;
    operation.length = 0;
    operation.count = 0;
    operation.direct = false;
    operation.closing = false;
    operation.window = 0;
    // (Messages wait for the program there: they must not keep it from what it waits for.)
    operation.answer = kind == Operation::Kind::send ? 0 : wire::answer_overhead;
    to.asked += operation.answer;
    to.unconfirmed += kind == Operation::Kind::send ? 1 : 0;
    ++operation.generation;
    operation.index = index;
    name = (std::uint64_t{index} + 1) | std::uint64_t{operation.generation} << 32;
    return operation;
}

void Endpoint::expect_answer(Operation& operation, std::uint64_t length) {
    operation.answer += length;
    operation.conn->asked += length;
}

Operation* Endpoint::find(std::uint64_t name, const Conn& from) {
    const std::uint64_t index = (name & 0xffffffffu) - 1;
    if (index >= operations_.size()) {
        return nullptr;
    }
    Operation& operation = *operations_[index];
    return operation.active && !operation.direct && !operation.closing && operation.conn == &from &&
                   operation.generation == name >> 32
               ? &operation
               : nullptr;
}

bool Endpoint::has_outstanding(const Conn& to) const {
    return std::any_of(operations_.begin(), operations_.end(), [&](const auto& operation) {
        return operation->active && operation->conn == &to;
    });
}

void Endpoint::forget(Operation& operation) {
    let_go_of_memory(operation);
    if (operation.direct) {
        --operation.conn->direct;
    }
    operation.conn->asked -= operation.answer;
    operation.conn->unconfirmed -= operation.kind == Operation::Kind::send ? 1 : 0;
    operation.staging.reset();
    operation.active = false;
    free_operations_.push_back(operation.index);
}

void Endpoint::finish_answered(Operation& operation, Errc status) {
    if (operation.window != 0 && operation.conn->link != nullptr) {
        Awaited* const token = &operation;
        const Errc closing = operation.conn->link->close_window(operation.window, token);
        operation.window = 0;
        if (closing == Errc::in_progress) {
            operation.closing = true;
            operation.ended_with = status;
            return;
        }
    }
    finish(operation, status);
}

void Endpoint::finish(Operation& operation, Errc status) {
    Count count = sends;
    std::uint64_t flags = FI_SEND | (operation.flags & (FI_TAGGED | FI_MSG));
    switch (operation.kind) {
    case Operation::Kind::send:
        break;
    case Operation::Kind::write:
        count = writes;
        flags = FI_RMA | FI_WRITE;
        break;
    case Operation::Kind::read:
        count = reads;
        flags = FI_RMA | FI_READ;
        break;
    case Operation::Kind::atomic:
        count = writes;
        flags = FI_ATOMIC | FI_WRITE;
        break;
    case Operation::Kind::fetch:
        count = reads;
        flags = FI_ATOMIC | FI_READ;
        break;
    }
    if (operation.kind == Operation::Kind::read && operation.staging && status == Errc::ok) {
        scatter(operation.iov, operation.count, operation.staging.get(), operation.length);
    }
    void* const context = operation.context;
    const bool report = operation.report;
    forget(operation);
    if (status == Errc::ok) {
        complete(tx_cq, report, context, flags, 0, count);
        return;
    }
    add_failure(flags, context, to_fi(status), count);
}

ssize_t Endpoint::fail_call(bool inject, std::uint64_t flags, void* context, ssize_t error,
                            Count count) {
    // What can be tried again, was wrong from the start, or has no context to be reported with, is
    // answered at once; anything else is an operation that failed.
    if (error == -FI_EAGAIN || error == -FI_EINVAL || error == -FI_EOPBADSTATE || inject) {
        return error;
    }
    add_failure(flags, context, static_cast<int>(-error), count);
    return 0;
}

void Endpoint::add_failure(std::uint64_t flags, void* context, int error, Count count) {
    if (counters[count] != nullptr) {
        counters[count]->count_error();
    }
    if (tx_cq == nullptr) {
        return;
    }
    Failure failure;
    failure.entry.op_context = context;
    failure.entry.flags =
        flags & (FI_TAGGED | FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE);
    failure.entry.err = error;
    failure.entry.prov_errno = error;
    tx_cq->add_failure(failure);
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
