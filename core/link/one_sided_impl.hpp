// The definitions of OneSidedEngine: to be included where it is instantiated.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "core/base/stream_copy.hpp"
#include "core/base/ticks.hpp"
#include "core/link/one_sided.hpp"

namespace comch::link {
namespace one_sided {

/// The name of a put that may be done by the kernel as well: its requester finds it in its own
/// ring. Others have none.
inline constexpr std::uint64_t kernel_may_put = 1;

template <class T> bool read_head(const std::byte* payload, std::uint32_t length, T& out) {
    if (length < sizeof(T)) {
        return false;
    }
    std::memcpy(&out, payload, sizeof(T));
    return true;
}

} // namespace one_sided

// ---- requests ----------------------------------------------------------------------------------

template <class Pipe>
Errc OneSidedEngine<Pipe>::put(const std::byte* from, std::size_t length, std::uint64_t region,
                               std::uint64_t address, void* token, bool by_kernel) {
    if (by_kernel && put_by_kernel(from, length, address)) {
        return Errc::ok;
    }
    if (hold_ || puts_waiting_ != 0 || joint_ != 0) {
        // Behind another one that waits: the caller's queue keeps the order. Room that has come
        // since that one was refused is room for that one.
        pipe_.note_refusal(Pipe::Short::neither);
        return pipe_.broken() != Errc::ok ? pipe_.broken() : Errc::again;
    }
    Job job{.kind = Job::Kind::put};
    job.sequence = ++sequence_;
    job.from = from;
    job.region = region;
    job.address = address;
    job.remaining = length;
    job.op = by_kernel ? one_sided::kernel_may_put : 0;
    job.token = token;
    if (push(job)) {
        return Errc::ok;
    }
    if (pipe_.broken() != Errc::ok) {
        return pipe_.broken();
    }
    if (job.remaining == length) { // nothing of it is out
        asks_for_puts_ = by_kernel;
        return Errc::again;
    }
    jobs_.push_back(std::move(job));
    ++puts_waiting_;
    return Errc::in_progress;
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get(std::byte* to, std::size_t length, std::uint64_t region,
                               std::uint64_t address, void* token, bool by_kernel) {
    if (by_kernel) {
        const Errc result = get_by_kernel(to, length, region, address, token);
        if (result != Errc::again) {
            return result;
        }
    }
    std::uint64_t name = 0;
    Operation* operation = nullptr;
    if (hold_ || puts_waiting_ != 0 ||
        (operation = start(token, to, length, false, name)) == nullptr) {
        pipe_.note_refusal(Pipe::Short::neither);
        return pipe_.broken() != Errc::ok ? pipe_.broken() : Errc::again;
    }
    const OneSided request{region, address, length, name};
    const std::uint64_t begin = pipe_.tx().head();
    const Errc result = pipe_.put_record(Kind::get, 0, sizeof(request), [&](std::byte* at) {
        std::memcpy(at, &request, sizeof(request));
    });
    if (result != Errc::ok) {
        forget(name);
        return result;
    }
    note_unflushed(begin);
    operation->by_kernel = by_kernel;
    operation->address = address;
    operation->end = gets_end_;
    operation->after = direct_after_;
    if constexpr (Pipe::kernel_copies) {
        pipe_.attention().asked();
        if (by_kernel && Pipe::Ways::has_choice(length)) {
            operation->began = ticks();
        }
    }
    return Errc::in_progress;
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::atomic(const AtomicRequest& request, std::uint64_t region,
                                  std::uint64_t address, void* token) {
    const bool fetches = request.result != nullptr;
    std::uint64_t name = 0;
    if (hold_ || puts_waiting_ != 0 || joint_ != 0 ||
        (fetches && start(token, static_cast<std::byte*>(request.result), request.size, true,
                          name) == nullptr)) {
        pipe_.note_refusal(Pipe::Short::neither);
        return pipe_.broken() != Errc::ok ? pipe_.broken() : Errc::again;
    }
    const OneSided head{region, address, request.size, name};
    const Atomic body{
        request.operand, request.compare, static_cast<std::uint8_t>(request.op), request.size, {}};
    const Errc result =
        pipe_.put_record(Kind::atomic, 0, sizeof(head) + sizeof(body), [&](std::byte* at) {
            std::memcpy(at, &head, sizeof(head));
            std::memcpy(at + sizeof(head), &body, sizeof(body));
        });
    if (result != Errc::ok) {
        if (fetches) {
            forget(name);
        }
        return result;
    }
    direct_after_ = last_write_ = pipe_.tx().head();
    return fetches ? Errc::in_progress : Errc::ok;
}

template <class Pipe> Errc OneSidedEngine<Pipe>::flush(void* token) {
    // What was done directly on mapped memory is visible before what follows.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Flush flush;
    flush.sequence = sequence_;
    flush.token = token;
    // (What is done must have been reported, too.)
    if (flush_reached(flush) && deferred_.empty()) {
        return Errc::ok;
    }
    if (token != nullptr) {
        flushes_.push_back(flush);
        (void)peer_missing(); // to know the next time
        return Errc::in_progress;
    }
    // The caller asks again.
    asks_for_puts_ = Pipe::kernel_copies;
    return peer_missing() && withdraw_puts() && flush_reached(flush) && deferred_.empty()
               ? Errc::ok
               : Errc::in_progress;
}

template <class Pipe> Errc OneSidedEngine<Pipe>::fence() {
    std::atomic_thread_fence(std::memory_order_seq_cst); // for operations on mapped memory
    if (active_ != canceled_ || puts_waiting_ != 0) {
        hold_ = true;
        pipe_.hold(Pipe::hold_fence);
    }
    return Errc::ok;
}

template <class Pipe> bool OneSidedEngine<Pipe>::caught_up() {
    // What the peer took out it has done, except for a get: that is done when it is answered.
    if (hold_ || puts_waiting_ != 0 || active_ != canceled_) {
        return false;
    }
    if (done_until() < direct_after_) {
        pipe_.hurry(direct_after_);
        return false;
    }
    direct_after_ = 0;
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::release_if_out() {
    if (hold_ && active_ == canceled_ && puts_waiting_ == 0) {
        hold_ = false;
        pipe_.release(Pipe::hold_fence);
        pipe_.encourage();
    }
}

// ---- what waits for room -----------------------------------------------------------------------

template <class Pipe> bool OneSidedEngine<Pipe>::push(Job& job) {
    switch (job.kind) {
    case Job::Kind::put:
        do {
            if (!push_put_chunk(job)) {
                return false;
            }
        } while (job.remaining != 0);
        return true;
    case Job::Kind::get_reply:
        do {
            if (!push_get_chunk(job)) {
                return false;
            }
        } while (job.remaining != 0);
        return true;
    case Job::Kind::atomic_reply:
    case Job::Kind::error_reply:
        return push_small_reply(job);
    }
    return true;
}

/// Room in the bulk ring where `chunk` needs it; none where it goes in a record. Where no bulk ring
/// is to be had (a process without a descriptor left) the chunk becomes as long as a record may be.
/// False: no room now.
template <class Pipe>
bool OneSidedEngine<Pipe>::reserve_chunk(std::uint32_t head, std::uint32_t& chunk,
                                         std::byte*& bulk) {
    if constexpr (Pipe::bulk_ring) {
        if (chunk > Pipe::inline_data) {
            const Errc room = pipe_.reserve_bulk(chunk, head + Pipe::bulk_ref, bulk);
            if (room != Errc::no_memory) {
                return room == Errc::ok;
            }
            chunk = Pipe::inline_data;
        }
    }
    return true;
}

template <class Pipe> bool OneSidedEngine<Pipe>::push_put_chunk(Job& job) {
    auto chunk =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(job.remaining, Pipe::max_chunk));
    std::byte* bulk = nullptr;
    if (!reserve_chunk(sizeof(OneSided), chunk, bulk)) {
        return false;
    }
    const OneSided head{job.region, job.address, chunk, job.op};
    if (bulk == nullptr) {
        if (pipe_.put_record(Kind::put, 0, static_cast<std::uint32_t>(sizeof(head)) + chunk,
                             [&](std::byte* at) {
                                 std::memcpy(at, &head, sizeof(head));
                                 if (chunk != 0) {
                                     std::memcpy(at + sizeof(head), job.from, chunk);
                                 }
                             }) != Errc::ok) {
            return false;
        }
    } else if constexpr (Pipe::bulk_ring) {
        std::memcpy(bulk, job.from, chunk);
        pipe_.put_bulk_record(Kind::put_bulk, 0, std::as_bytes(std::span(&head, 1)), chunk);
    }
    pipe_.slot()->tx.bytes.add(chunk);
    job.from += chunk;
    job.address += chunk;
    job.remaining -= chunk;
    direct_after_ = last_write_ = pipe_.tx().head();
    if constexpr (Pipe::kernel_copies) {
        pipe_.attention().asked();
    }
    return true;
}

template <class Pipe> bool OneSidedEngine<Pipe>::push_get_chunk(Job& job) {
    if constexpr (Pipe::kernel_copies) {
        if (pipe_.get_withdrawn(job.position)) {
            job.kind = Job::Kind::error_reply;
            job.offset = static_cast<std::uint64_t>(Errc::canceled);
            job.remaining = 0;
            return push_small_reply(job);
        }
    }
    auto chunk = static_cast<std::uint32_t>(std::min<std::uint64_t>(job.remaining, job.chunk));
    // Looked up again for every chunk: the registration may have ended in between.
    const RegionTable::Pin pin = RegionTable::instance().pin(job.region);
    const std::byte* const from = pin ? pin.range(job.address, chunk, access_remote_read) : nullptr;
    if (from == nullptr) {
        job.kind = Job::Kind::error_reply;
        job.offset = static_cast<std::uint64_t>(Errc::not_permitted);
        job.remaining = 0;
        return push_small_reply(job);
    }
    std::byte* bulk = nullptr;
    if (!reserve_chunk(sizeof(Reply), chunk, bulk)) {
        return false;
    }
    const Reply head{job.op, job.offset};
    if (bulk == nullptr) {
        if (pipe_.put_record(Kind::get_reply, 0, static_cast<std::uint32_t>(sizeof(head)) + chunk,
                             [&](std::byte* at) {
                                 std::memcpy(at, &head, sizeof(head));
                                 std::memcpy(at + sizeof(head), from, chunk);
                             }) != Errc::ok) {
            return false;
        }
    } else if constexpr (Pipe::bulk_ring) {
        std::memcpy(bulk, from, chunk);
        pipe_.put_bulk_record(Kind::get_reply_bulk, 0, std::as_bytes(std::span(&head, 1)), chunk);
    }
    pipe_.slot()->tx.bytes.add(chunk);
    job.chunk = Pipe::max_chunk;
    job.address += chunk;
    job.offset += chunk;
    job.remaining -= chunk;
    return true;
}

template <class Pipe> bool OneSidedEngine<Pipe>::push_small_reply(const Job& job) {
    const bool error = job.kind == Job::Kind::error_reply;
    const Reply head{job.op, error ? job.offset : 0};
    const std::uint64_t value = job.address;
    return pipe_.put_record(error ? Kind::error_reply : Kind::atomic_reply, 0,
                            sizeof(head) + (error ? 0 : sizeof(value)), [&](std::byte* at) {
                                std::memcpy(at, &head, sizeof(head));
                                if (!error) {
                                    std::memcpy(at + sizeof(head), &value, sizeof(value));
                                }
                            }) == Errc::ok;
}

// ---- the peer's records ------------------------------------------------------------------------

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
    ++replies_waiting_;
    jobs_.push_back(std::move(job));
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
    if (at == nullptr || request.address % atomic.size != 0) {
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

// ---- the kernel's copies; a peer that does not answer --------------------------------------------

template <class Pipe>
bool OneSidedEngine<Pipe>::read_peer(std::byte* to, std::uint64_t address,
                                     std::size_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        // An owner that closes the connection may use its memory for something else from then on. It
        // says goodbye before: whoever has read something else will see that. (Pairs with the fence
        // in Pipe::say_goodbye().)
        const bool done = pipe_.peer_memory().read(to, address, length);
        std::atomic_thread_fence(std::memory_order_acquire);
        return done && !pipe_.peer_said_goodbye();
    }
    return false;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::read_past_peer(std::byte* to, std::uint64_t address,
                                          std::size_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (pipe_.attention().distrusted()) {
            const std::uint64_t began = pipe_.now_ns();
            const bool done = read_peer(to, address, length);
            pipe_.attention().passed_by(pipe_.now_ns() - began);
            return done;
        }
    }
    return read_peer(to, address, length);
}

template <class Pipe> std::uint64_t OneSidedEngine<Pipe>::signs_of_peer() noexcept {
    std::uint64_t signs = pipe_.tx().consumed() + answers_;
    if constexpr (Pipe::kernel_copies) {
        signs += pipe_.puts_executed(); // it takes long ones out many at a time
    }
    return signs;
}

template <class Pipe> bool OneSidedEngine<Pipe>::peer_missing() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // (Who copies for a get of ours takes nothing out meanwhile.)
        return joint_ == 0 && pipe_.peer_memory().usable() &&
               pipe_.attention().missing([this] { return signs_of_peer(); });
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::peer_absent() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (pipe_.attention().distrusted() && pipe_.attention().absent(signs_of_peer())) {
            probe_attention();
            return true;
        }
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::probe_attention() noexcept {
    if constexpr (Pipe::kernel_copies) {
        const std::uint64_t begin = pipe_.tx().head();
        // One at a time, and only where there is room.
        if (pipe_.tx().consumed() >= gets_end_ && pipe_.tx().reserve(0) != nullptr &&
            pipe_.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
            note_unflushed(begin);
        }
    }
}

template <class Pipe>
bool OneSidedEngine<Pipe>::put_by_kernel(const std::byte* from, std::size_t length,
                                         std::uint64_t address) noexcept {
    if constexpr (Pipe::kernel_copies) {
        return pipe_.peer_memory().usable() && peer_absent() && direct_allowed() &&
               write_peer(address, from, length);
    }
    return false;
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get_by_kernel(std::byte* to, std::size_t length, std::uint64_t region,
                                         std::uint64_t address, void* token) {
    if constexpr (Pipe::kernel_copies) {
        using Way = typename Pipe::Ways::Way;
        const bool timed = Pipe::Ways::has_choice(length);
        if ((!timed && !pipe_.attention().distrusted()) || !pipe_.peer_memory().usable() ||
            !writes_done()) {
            return Errc::again;
        }
        if (!peer_absent()) {
            const bool may_help = joint_ == 0 && pipe_.joint_copy().may_begin(length);
            const Way way = timed ? pipe_.ways().choose(length, may_help) : Way::ring;
            if (way == Way::ring) {
                return Errc::again;
            }
            if (way == Way::joint) {
                const Errc result = get_jointly(to, length, region, address, token);
                if (result != Errc::again) {
                    return result;
                }
            }
        }
        const std::uint64_t began = ticks();
        const bool done = read_past_peer(to, address, length);
        if (timed) {
            last_get_ended_ = ticks();
            pipe_.ways().took(Way::kernel, length,
                              done ? last_get_ended_ - began : Pipe::Ways::in_vain);
        }
        if (!done) {
            return Errc::again;
        }
        pipe_.slot()->tx.process_vm_bytes.add(length);
        return Errc::ok;
    }
    return Errc::again;
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get_jointly(std::byte* to, std::size_t length, std::uint64_t region,
                                       std::uint64_t address, void* token) {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        const OneSided request{region, address, length, 0};
        std::uint64_t name = 0;
        const std::uint64_t begin = pipe_.tx().head(); // before what a reservation may pad
        if (pipe_.tx().reserve(sizeof(request) + sizeof(Joint)) == nullptr) {
            return Errc::again;
        }
        Operation* const operation = start(token, to, length, false, name);
        if (operation == nullptr) {
            return Errc::again;
        }
        operation->joint = true;
        operation->address = address;
        operation->began = ticks();
        const Joint details{reinterpret_cast<std::uint64_t>(to), joint.begin(length)};
        (void)pipe_.put_record(Kind::joint_get, 0, sizeof(request) + sizeof(details),
                               [&](std::byte* at) {
                                   std::memcpy(at, &request, sizeof(request));
                                   std::memcpy(at + sizeof(request), &details, sizeof(details));
                               });
        note_unflushed(begin);
        joint_ = name;
        joint_token_ = token;
        joint_region_ = region;
        joint_refused_ = false;
        std::uint64_t part_began = operation->began;
        std::uint64_t part_ended = part_began;
        for (auto part = joint.take(); part.length != 0; part = joint.take()) {
            part_began = part_ended;
            if (!read_peer(to + part.offset, address + part.offset, part.length)) {
                joint_refused_ = true; // what the owner does of it may fail as well
                joint.give_up();
                break;
            }
            part_ended = ticks();
        }
        // The peer's last part is about as long as ours was. (But the counter may have jumped, and the
        // peer may be gone, which only progress finds out.)
        const std::uint64_t patience = 2 * (part_ended - part_began);
        for (unsigned looks = 0; looks == 0 || ticks() - part_ended < patience; ++looks) {
            if (joint_arrived()) {
                return Errc::ok;
            }
            if (joint_refused_ || looks == Pipe::joint_looks) {
                break;
            }
        }
        return Errc::in_progress;
    }
    return Errc::again;
}

template <class Pipe> bool OneSidedEngine<Pipe>::joint_arrived() noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        using Rest = typename std::remove_cvref_t<decltype(joint)>::Rest;
        Operation& operation = *find(joint_);
        if (joint.active()) {
            auto part = joint.take(); // nothing, unless the peer has spoilt the words
            const Rest rest = part.length != 0 ? Rest::ours : joint.rest(part);
            if (rest == Rest::coming) {
                return false;
            }
            joint.end();
            answers_ += joint.helped() ? 1 : 0;
            if (rest == Rest::ours && !joint_refused_) {
                joint_refused_ = !read_peer(operation.local + part.offset,
                                            operation.address + part.offset, part.length);
            }
            if (!joint_refused_) {
                const std::uint64_t claimed = joint.claimed_by_peer();
                const std::uint64_t by_peer = claimed - std::min(claimed, part.length);
                pipe_.slot()->tx.process_vm_bytes.add(operation.length - by_peer);
            }
            last_get_ended_ = ticks();
            pipe_.ways().took(Pipe::Ways::Way::joint, operation.length,
                              joint_refused_ ? Pipe::Ways::in_vain
                                             : last_get_ended_ - operation.began);
        }
        if (joint_refused_) {
            ask_owner(operation);
            return false;
        }
        joint_ = 0;
        operation.active = false;
        --active_;
        pipe_.encourage();
        release_if_out();
        return true;
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::ask_owner(Operation& operation) noexcept {
    const OneSided request{joint_region_, operation.address, operation.length, joint_};
    const std::uint64_t begin = pipe_.tx().head();
    const typename Pipe::Bypass bypass(pipe_);
    if (pipe_.put_record(Kind::get, 0, sizeof(request), [&](std::byte* at) {
            std::memcpy(at, &request, sizeof(request));
        }) == Errc::ok) { // else at the next progress
        note_unflushed(begin);
        operation.joint = false;
        joint_ = 0;
        if constexpr (Pipe::kernel_copies) {
            pipe_.attention().asked();
        }
        pipe_.encourage();
    }
}

template <class Pipe>
bool OneSidedEngine<Pipe>::serve_joint_get(const OneSided& request, const Joint& joint) {
    if constexpr (Pipe::kernel_copies) {
        auto& job = pipe_.joint_help();
        if (joint.generation > 0xffff) {
            return false;
        }
        job.begin(static_cast<std::uint16_t>(joint.generation), request.length);
        helped_ = request;
        helped_to_ = joint.to;
        helps_ = true;
        help();
    }
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::help() noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& job = pipe_.joint_help();
        const std::uint64_t not_after = pipe_.now_ns() + Pipe::joint_claim_ns;
        const auto part = job.take();
        helps_ = part.length != 0;
        if (!helps_) {
            return;
        }
        // Looked up again for every part: the registration may have ended in between.
        const RegionTable::Pin pin = RegionTable::instance().pin(helped_.region);
        const std::byte* const from =
            pin ? pin.range(helped_.address + part.offset, part.length, access_remote_read) : nullptr;
        if (from != nullptr && pipe_.peer_memory().usable() &&
            pipe_.peer_memory().write(helped_to_ + part.offset, from, part.length, not_after)) {
            job.copied();
            pipe_.slot()->tx.process_vm_bytes.add(part.length);
            pipe_.slot()->rx.one_sided_served.add(1);
        } else {
            job.failed(); // the requester knows what to do about it
            helps_ = false;
        }
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::end_joint(std::uint64_t patience_ns) noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        using Rest = typename std::remove_cvref_t<decltype(joint)>::Rest;
        if (joint_ != 0 && joint.active()) {
            joint.give_up();
            auto part = joint.take();
            const std::uint64_t began = pipe_.now_ns();
            while (joint.rest(part) == Rest::coming && pipe_.peer_memory().lives()) {
                if (pipe_.now_ns() - began > patience_ns) {
                    return false;
                }
            }
            joint.end();
        }
        joint_ = 0;
    }
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::give_up_joint() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (!end_joint(Pipe::joint_patience_ns)) {
            pipe_.joint_copy().end();
            joint_ = 0;
        }
    }
}

template <class Pipe> void OneSidedEngine<Pipe>::stop_copying() {
    if constexpr (Pipe::kernel_copies) {
        helps_ = false;
        give_up_joint();
        // What is taken back is ours to do, also if nobody waits for it any more.
        const std::uint64_t began = pipe_.now_ns();
        while (withdrawing_ && !withdraw_puts() && pipe_.peer_memory().lives() &&
               !pipe_.peer_said_goodbye() && pipe_.now_ns() - began < Pipe::joint_patience_ns) {
        }
        if (withdrawing_) { // the peer has taken them out, executed or not
            const std::uint64_t executed = pipe_.puts_executed();
            lost_writes_ = !pipe_.visit_puts(
                withdrawn_from_, [executed](std::uint64_t at, const OneSided&, const std::byte*) {
                    return at < executed;
                });
            withdrawing_ = false;
        }
        while (!jobs_.empty() && jobs_.front().data != nullptr && pipe_.broken() == Errc::ok &&
               push_past_holds(jobs_.front())) {
            jobs_.pop_front();
            --puts_waiting_;
        }
    }
}

template <class Pipe>
void OneSidedEngine<Pipe>::note_time_of(const Operation& operation) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (operation.began == 0) {
            return;
        }
        // Of several under way, what each adds.
        const std::uint64_t now = ticks();
        const std::uint64_t began = std::max(operation.began, last_get_ended_);
        last_get_ended_ = now;
        if (pipe_.peers_ring_is_warm()) {
            pipe_.ways().took(Pipe::Ways::Way::ring, operation.length, now - began);
        }
    }
}

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation* OneSidedEngine<Pipe>::oldest_get() noexcept {
    Operation* oldest = nullptr;
    for (Operation& operation : operations_) {
        if (operation.active && !operation.canceled && !operation.is_atomic &&
            (oldest == nullptr || operation.sequence < oldest->sequence)) {
            oldest = &operation;
        }
    }
    return oldest;
}

template <class Pipe> bool OneSidedEngine<Pipe>::may_pass_by() noexcept {
    if constexpr (Pipe::kernel_copies) {
        const Operation* const operation =
            active_ != canceled_ && pipe_.peer_memory().usable() ? oldest_get() : nullptr;
        if (operation != nullptr && may_be_fetched(*operation)) {
            return true;
        }
        if (!withdrawing_ && !(waits_for_puts() && may_withdraw())) {
            return false;
        }
        // Attention knows soon, and so does an owner that is at a put. Unless it is stopped there,
        // or lies: then it is the credit that wakes us, if it comes.
        if (const std::uint64_t now = direct_after_ + done_until(); awake_for_ != now) {
            awake_for_ = now;
            looks_awake_ = 0;
        }
        return ++looks_awake_ < Pipe::looks_before_sleep;
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::may_withdraw() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if ((done_until() >= direct_after_ && puts_waiting_ == 0) || // there is none
            refused_until_ == direct_after_) {
            return false;
        }
        const auto by_kernel = [](std::uint64_t op) { return op == one_sided::kernel_may_put; };
        return active_ == canceled_ && joint_ == 0 && pipe_.peer_memory().usable() &&
               std::all_of(jobs_.begin(), jobs_.end(),
                           [&](const Job& job) {
                               return job.kind != Job::Kind::put || by_kernel(job.op);
                           }) &&
               pipe_.visit_puts(done_until(), [&](std::uint64_t, const OneSided& head,
                                                  const std::byte*) { return by_kernel(head.op); });
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::kernel_permits_puts() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // It permits to write where it permits to read. What is not there is left to its owner to
        // refuse.
        std::byte any{};
        const auto may_reach = [&](std::uint64_t address, std::uint64_t length) {
            return length == 0 || read_peer(&any, address, sizeof(any));
        };
        return pipe_.visit_puts(done_until(), [&](std::uint64_t, const OneSided& head,
                                                  const std::byte*) {
            return may_reach(head.address, head.length);
        }) && std::all_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
                   return job.kind != Job::Kind::put || may_reach(job.address, job.remaining);
               });
    }
    return false;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::write_peer(std::uint64_t to, const std::byte* from,
                                      std::uint64_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (length == 0) {
            return true;
        }
        if (pipe_.peer_said_goodbye() || !pipe_.peer_memory().write(to, from, length)) {
            return false;
        }
        pipe_.slot()->tx.process_vm_bytes.add(length);
        // The kernel's stores are seen before the goodbye is looked for once more.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return !pipe_.peer_said_goodbye();
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::withdraw_puts() {
    if constexpr (Pipe::kernel_copies) {
        if (!withdrawing_) {
            if (!may_withdraw()) {
                return false;
            }
            if (!kernel_permits_puts() || !pipe_.can_withdraw()) {
                refused_until_ = direct_after_;
                return false;
            }
            withdrawn_from_ = done_until(); // the peer takes them out from now on as it likes
            withdrawing_ = true;
            pipe_.begin_withdrawal();
        }
        if (!pipe_.withdrawal_decided()) {
            return false;
        }
        const std::uint64_t executed = pipe_.puts_executed();
        const std::uint64_t end = pipe_.tx().head();
        std::uint64_t failed = end;
        bool done = pipe_.visit_puts(
            withdrawn_from_, [&](std::uint64_t at, const OneSided& head, const std::byte* data) {
                if (at < executed || write_peer(head.address, data, head.length)) {
                    return true;
                }
                failed = at;
                return false;
            });
        const bool changed = !done && failed == end; // since may_withdraw(), and not by us
        // There is at most one, whose first parts are those.
        const auto waiting = std::find_if(
            jobs_.begin(), jobs_.end(), [](const Job& job) { return job.kind == Job::Kind::put; });
        done = done && (waiting == jobs_.end() ||
                        write_peer(waiting->address, waiting->from, waiting->remaining));
        if (!done) {
            if (pipe_.peer_said_goodbye() || !pipe_.peer_memory().lives()) {
                return false; // the connection ends
            }
            if (changed || !give_back_puts(failed)) {
                pipe_.note_scribble(); // and so it does here
                withdrawing_ = false;
                asks_for_puts_ = false;
                pipe_.end_withdrawal();
                return false;
            }
        } else if (waiting != jobs_.end()) {
            deferred_.push_back(waiting->token);
            jobs_.erase(waiting);
            --puts_waiting_;
        }
        passed_by_ = pipe_.tx().head();
        withdrawing_ = false;
        asks_for_puts_ = false;
        pipe_.end_withdrawal();
        pipe_.encourage();
        release_if_out();
        return done;
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::give_back_puts(std::uint64_t from) {
    if constexpr (Pipe::kernel_copies) {
        // Copied, for the peer frees the place where they lie. In front of what waits.
        std::deque<Job> again;
        std::uint64_t room = pipe_.rings_size(); // the lengths are what the peer says by now
        const bool unchanged =
            pipe_.visit_puts(from, [&](std::uint64_t, const OneSided& head, const std::byte* data) {
                if (head.length > room) {
                    return false;
                }
                room -= head.length;
                Job job{.kind = Job::Kind::put};
                job.data = std::make_unique_for_overwrite<std::byte[]>(head.length);
                std::memcpy(job.data.get(), data, head.length);
                job.from = job.data.get();
                job.region = head.region;
                job.address = head.address;
                job.remaining = head.length;
                again.push_back(std::move(job));
                return true;
            });
        if (!unchanged) {
            return false;
        }
        puts_waiting_ += static_cast<std::uint32_t>(again.size());
        jobs_.insert(jobs_.begin(), std::move_iterator(again.begin()),
                     std::move_iterator(again.end()));
        for (Flush& flush : flushes_) {
            flush.positioned = false; // those are before it
        }
        refused_until_ = direct_after_;
        if (puts_waiting_ != 0) { // messages that were sent behind them must stay behind
            hold_ = true;
            pipe_.hold(Pipe::hold_fence);
        }
    }
    return true;
}

template <class Pipe> bool OneSidedEngine<Pipe>::fetch_missing() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // The oldest first: withdrawing one withdraws those before it.
        Operation* const operation = oldest_get();
        if (operation == nullptr || !may_be_fetched(*operation)) {
            return false;
        }
        // What of it has come already is here. If the peer should begin to answer meanwhile, it
        // writes what we write.
        const std::uint64_t missing = operation->length - operation->received;
        if (!read_past_peer(operation->local + operation->received,
                            operation->address + operation->received, missing)) {
            operation->by_kernel = false; // left to the owner, who can say what is wrong with it
            return false;
        }
        note_time_of(*operation); // this is what asking the owner comes to
        pipe_.slot()->tx.process_vm_bytes.add(missing);
        pipe_.withdraw_gets(operation->end);
        fetched_ = operation->token;
        operation->canceled = true; // what still comes of it goes nowhere
        ++canceled_;
        pipe_.encourage();
        release_if_out();
        return true;
    }
    return false;
}

// ---- bookkeeping -------------------------------------------------------------------------------

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation*
OneSidedEngine<Pipe>::start(void* token, std::byte* local, std::uint64_t length, bool is_atomic,
                            std::uint64_t& name) {
    if (active_ == operations_.size()) {
        if (active_ == Pipe::max_operations) {
            return nullptr;
        }
        operations_.emplace_back();
    }
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        const std::size_t index = (sequence_ + i) % operations_.size();
        Operation& operation = operations_[index];
        if (operation.active) {
            continue;
        }
        const std::uint32_t generation = operation.generation + 1;
        operation = Operation{};
        operation.local = local;
        operation.length = length;
        operation.sequence = ++sequence_;
        operation.token = token;
        operation.generation = generation;
        operation.active = true;
        operation.is_atomic = is_atomic;
        ++active_;
        name = (index + 1) | std::uint64_t{generation} << 32;
        return &operation;
    }
    return nullptr;
}

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation* OneSidedEngine<Pipe>::find(std::uint64_t name) {
    const std::uint64_t index = (name & 0xffffffffu) - 1;
    if (index >= operations_.size()) {
        return nullptr;
    }
    Operation& operation = operations_[index];
    return operation.active && operation.generation == name >> 32 ? &operation : nullptr;
}

template <class Pipe>
void OneSidedEngine<Pipe>::finish(Operation& operation, Errc status, Completion& completion) {
    if (operation.canceled) {
        --canceled_;
    } else {
        completion = {true, operation.token, status};
    }
    operation.active = false;
    --active_;
    pipe_.encourage();
    release_if_out();
}

template <class Pipe> void OneSidedEngine<Pipe>::forget(std::uint64_t name) {
    if (Operation* operation = find(name); operation != nullptr) {
        operation->active = false;
        --active_;
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::push_before_sleep() {
    const unsigned pushed = push_jobs([this](void* token, Errc) { deferred_.push_back(token); });
    const bool flushed = std::any_of(flushes_.begin(), flushes_.end(),
                                     [this](Flush& flush) { return flush_reached(flush); });
    // (Nobody wakes who waits for the peer's part of a copy: it comes at once.)
    return pushed != 0 || flushed || !deferred_.empty() || helps_ || joint_ != 0;
}

template <class Pipe>
void OneSidedEngine<Pipe>::end_waiting(Errc status, std::vector<std::pair<void*, Errc>>& ended) {
    for (const Job& job : jobs_) {
        if (job.kind == Job::Kind::put && job.data == nullptr) {
            ended.emplace_back(job.token, status);
        }
    }
    puts_waiting_ -= static_cast<std::uint32_t>(std::erase_if(
        jobs_, [](const Job& job) { return job.kind == Job::Kind::put && job.data == nullptr; }));
    for (void* const token : deferred_) {
        ended.emplace_back(token, Errc::ok); // they are done, only not reported
    }
    deferred_.clear();
    for (const Flush& flush : flushes_) {
        ended.emplace_back(flush.token, status);
    }
    flushes_.clear();
}

template <class Pipe> bool OneSidedEngine<Pipe>::operations_before(std::uint64_t sequence) const {
    if (active_ == canceled_) {
        return false;
    }
    return std::any_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
        return operation.active && !operation.canceled && operation.sequence <= sequence;
    });
}

template <class Pipe> bool OneSidedEngine<Pipe>::flush_reached(Flush& flush) {
    if (!flush.positioned) {
        const bool waiting = std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
            return job.kind == Job::Kind::put && job.sequence <= flush.sequence;
        });
        if (waiting) {
            return false;
        }
        flush.position = pipe_.tx().head() == gets_end_ ? gets_begin_ : pipe_.tx().head();
        flush.positioned = true;
    }
    if (done_until() < flush.position) {
        pipe_.hurry(flush.position);
        pipe_.note_refusal(Pipe::Short::lines);
        return false;
    }
    return heard_of_refusals(std::min(flush.position, last_write_)) &&
           !operations_before(flush.sequence);
}

template <class Pipe>
void OneSidedEngine<Pipe>::take_reached_flushes(std::vector<std::pair<void*, Errc>>& done) {
    std::erase_if(flushes_, [&](Flush& flush) {
        if (!flush_reached(flush)) {
            return false;
        }
        done.emplace_back(flush.token, Errc::ok);
        return true;
    });
}

template <class Pipe> bool OneSidedEngine<Pipe>::heard_of_refusals(std::uint64_t position) {
    while (position > heard_until_) {
        if (listens_until_ == heard_until_) {
            listens_until_ = done_until();
            listens_to_ = pipe_.arrived();
        }
        if (!pipe_.has_handled(listens_to_)) {
            return false;
        }
        heard_until_ = listens_until_;
    }
    return true;
}

} // namespace comch::link
