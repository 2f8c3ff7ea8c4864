// The peer's records: its requests, and its answers to ours. Part of engine_impl.hpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/stream_copy.hpp"
#include "core/link/one_sided/engine.hpp"
#include "core/link/one_sided/heads.hpp"

namespace comch::link {

template <class Pipe>
bool OneSidedEngine<Pipe>::handle_record(Kind kind, const std::byte* payload, std::uint32_t length,
                                         Completion& completion) {
    OneSided request{};
    Reply reply{};
    switch (kind) {
    case Kind::put:
        return one_sided::read_head(payload, length, request) &&
               serve_put(request, payload + sizeof(request),
                         length - static_cast<std::uint32_t>(sizeof(request)));
    case Kind::put_bulk:
        if constexpr (Pipe::bulk_ring) {
            std::uint32_t size = 0;
            if (length != sizeof(request) + Pipe::bulk_ref ||
                !one_sided::read_head(payload, length, request)) {
                return false;
            }
            const std::byte* data = pipe_.bulk_payload(payload + sizeof(request), size);
            return data != nullptr && serve_put(request, data, size);
        }
        return false;
    case Kind::get:
        return length == sizeof(request) && one_sided::read_head(payload, length, request) &&
               serve_get(request);
    case Kind::atomic: {
        Atomic atomic{};
        if (length != sizeof(request) + sizeof(atomic) ||
            !one_sided::read_head(payload, length, request)) {
            return false;
        }
        std::memcpy(&atomic, payload + sizeof(request), sizeof(atomic));
        return serve_atomic(request, atomic);
    }
    case Kind::get_reply:
    case Kind::atomic_reply:
        return one_sided::read_head(payload, length, reply) &&
               accept_reply(reply, payload + sizeof(reply),
                            length - static_cast<std::uint32_t>(sizeof(reply)), completion);
    case Kind::get_reply_bulk:
        if constexpr (Pipe::bulk_ring) {
            std::uint32_t size = 0;
            if (length != sizeof(reply) + Pipe::bulk_ref ||
                !one_sided::read_head(payload, length, reply)) {
                return false;
            }
            const std::byte* data = pipe_.bulk_payload(payload + sizeof(reply), size);
            return data != nullptr && accept_reply(reply, data, size, completion);
        }
        return false;
    case Kind::joint_get:
        if constexpr (Pipe::kernel_copies) {
            Joint joint{};
            if (length != sizeof(request) + sizeof(joint) ||
                !one_sided::read_head(payload, length, request)) {
                return false;
            }
            std::memcpy(&joint, payload + sizeof(request), sizeof(joint));
            return serve_joint_get(request, joint);
        }
        return false;
    case Kind::error_reply:
        return length == sizeof(reply) && one_sided::read_head(payload, length, reply) &&
               accept_error(reply, completion);
    default:
        return false;
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::owe(Job job) {
    if (replies_waiting_ >= Pipe::max_operations) {
        return false;
    }
    jobs_.push_back(std::move(job));
    ++replies_waiting_;
    return true;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::serve_put(const OneSided& request, const std::byte* data,
                                     std::uint32_t length) {
    if constexpr (Pipe::kernel_copies) {
        if (!pipe_.begin_put()) {
            return true; // whoever sent it has it done
        }
    }
    pipe_.slot()->rx.one_sided_served.add(1);
    const RegionTable::Pin pin = RegionTable::instance().pin(request.region);
    std::byte* const to = pin ? pin.range(request.address, length, access_remote_write) : nullptr;
    const bool permitted = to != nullptr && request.length == length;
    if (permitted) {
        std::memcpy(to, data, length);
        pipe_.slot()->rx.bytes.add(length);
    } else if (!refuse_unanswered()) {
        return false;
    }
    if constexpr (Pipe::kernel_copies) {
        pipe_.end_put();
    }
    return true;
}

template <class Pipe> bool OneSidedEngine<Pipe>::refuse_unanswered() {
    Job job{.kind = Job::Kind::error_reply};
    job.offset = static_cast<std::uint64_t>(Errc::not_permitted);
    const typename Pipe::Bypass bypass(pipe_);
    const bool said = push_small_reply(job);
    if (!said) {
        pipe_.note_unsaid_refusal();
    }
    return said;
}

template <class Pipe> bool OneSidedEngine<Pipe>::serve_get(const OneSided& request) {
    pipe_.slot()->rx.one_sided_served.add(1);
    Job job{.kind = Job::Kind::get_reply};
    job.region = request.region;
    job.address = request.address;
    job.remaining = request.length;
    job.op = request.op;
    if constexpr (Pipe::kernel_copies) {
        job.position = pipe_.rx().position();
    }
    if (pipe_.tx().consumed() == pipe_.tx().head()) {
        job.chunk = Pipe::first_chunk; // the requester has nothing else to copy meanwhile
    }
    const RegionTable::Pin pin = RegionTable::instance().pin(request.region);
    if (!pin || pin.range(request.address, request.length, access_remote_read) == nullptr) {
        job.kind = Job::Kind::error_reply;
        job.offset = static_cast<std::uint64_t>(Errc::not_permitted);
    }
    const typename Pipe::Bypass bypass(pipe_);
    return (jobs_.empty() && push(job)) || owe(std::move(job));
}

template <class Pipe>
bool OneSidedEngine<Pipe>::serve_atomic(const OneSided& request, const Atomic& atomic) {
    pipe_.slot()->rx.one_sided_served.add(1);
    if ((atomic.size != 4 && atomic.size != 8) || request.length != atomic.size ||
        atomic.op > static_cast<std::uint8_t>(AtomicOp::compare_swap)) {
        return false;
    }
    Job job{.kind = Job::Kind::atomic_reply};
    job.op = request.op;
    const RegionTable::Pin pin = RegionTable::instance().pin(request.region);
    std::byte* const at =
        pin ? pin.range(request.address, atomic.size, access_remote_atomic) : nullptr;
    if (at == nullptr || (request.address & (atomic.size - 1u)) != 0) {
        if (request.op == 0) {
            return refuse_unanswered();
        }
        job.kind = Job::Kind::error_reply;
        job.offset = static_cast<std::uint64_t>(Errc::not_permitted);
        return owe(std::move(job));
    }
    pipe_.slot()->rx.bytes.add(atomic.size);
    job.address = execute_atomic(at, {static_cast<AtomicOp>(atomic.op), atomic.size, atomic.operand,
                                      atomic.compare, nullptr});
    if (request.op == 0) {
        return true;
    }
    // At once where there is room: somebody waits for the value.
    const typename Pipe::Bypass bypass(pipe_);
    return (jobs_.empty() && push_small_reply(job)) || owe(std::move(job));
}

template <class Pipe>
bool OneSidedEngine<Pipe>::accept_reply(const Reply& reply, const std::byte* data,
                                        std::uint32_t length, Completion& completion) {
    Operation* const operation = find(reply.op);
    if (operation == nullptr || operation->joint) { // no record answers a joint one
        return false;
    }
    ++answers_;
    if (operation->is_atomic) {
        if (length != sizeof(std::uint64_t)) {
            return false;
        }
        if (operation->canceled) {
            finish(*operation, Errc::canceled, completion);
            return true;
        }
        std::uint64_t value = 0;
        std::memcpy(&value, data, sizeof(value));
        const auto word = static_cast<std::uint32_t>(value);
        std::memcpy(operation->local,
                    operation->length == 4 ? static_cast<const void*>(&word)
                                           : static_cast<const void*>(&value),
                    operation->length);
        finish(*operation, Errc::ok, completion);
        return true;
    }
    // Chunks come in order and without gaps; anything else is not from a correct peer.
    if (reply.offset != operation->received || length > operation->length - operation->received) {
        return false;
    }
    if (length != 0 && !operation->canceled) {
        copy_part(operation->local + reply.offset, data, length, operation->length);
    }
    operation->received += length;
    pipe_.slot()->rx.bytes.add(length);
    if (operation->received == operation->length) {
        if (!operation->canceled) {
            note_time_of(*operation);
        }
        finish(*operation, Errc::ok, completion);
    }
    return true;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::accept_error(const Reply& reply, Completion& completion) {
    if (reply.op == 0) {
        // A put or a posted atomic was refused. Like any reliable connection, this one is broken
        // by it: the requester cannot be told which.
        return false;
    }
    Operation* const operation = find(reply.op);
    if (operation == nullptr || operation->joint) { // no record answers a joint one
        return false;
    }
    finish(*operation, Errc::not_permitted, completion);
    return true;
}

} // namespace comch::link
