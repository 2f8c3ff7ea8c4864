// What this end asks for, and what of it waits for room: part of engine_impl.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "core/base/ticks.hpp"
#include "core/link/one_sided/engine.hpp"
#include "core/link/one_sided/heads.hpp"

namespace comch::link {

template <class Pipe>
Errc OneSidedEngine<Pipe>::put(const std::byte* from, std::size_t length, std::uint64_t region,
                               std::uint64_t address, void* token, bool by_kernel) {
    if (by_kernel && put_by_kernel(from, length, address)) {
        return Errc::ok;
    }
    if (hold_ || puts_waiting_ != 0 || joints_active_ != 0) {
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
    make_room_to_end();
    jobs_.push_back(std::move(job));
    ++puts_waiting_;
    return Errc::in_progress;
}

template <class Pipe> Errc OneSidedEngine<Pipe>::keep_rest_of_put() {
    try {
        jobs_.back().keep();
        return Errc::ok;
    } catch (const std::bad_alloc&) {
        jobs_.pop_back(); // its caller's memory may go
        --puts_waiting_;
        return Errc::no_memory;
    }
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get(std::byte* to, std::size_t length, std::uint64_t region,
                               std::uint64_t address, void* token, bool by_kernel,
                               const RegionKey* into) {
    const std::size_t asked_for = length;
    if (by_kernel) {
        if (const auto result = get_by_kernel(to, length, region, address, token, into)) {
            return *result;
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
        if (by_kernel && Pipe::Ways::has_choice(length) && length == asked_for) {
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
    if (hold_ || puts_waiting_ != 0 || joints_active_ != 0 ||
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
    if (flush_reached(flush) && !defers_before(flush.sequence)) {
        return Errc::ok;
    }
    if (token != nullptr) {
        make_room_to_end();
        flushes_.push_back(flush);
        (void)peer_missing(); // to know the next time
        return Errc::in_progress;
    }
    // The caller asks again.
    asks_for_puts_ = Pipe::kernel_copies;
    return peer_missing() && withdraw_puts() && flush_reached(flush) &&
                   !defers_before(flush.sequence)
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
    job.chunk = std::min(2 * job.chunk, Pipe::max_chunk);
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

} // namespace comch::link
