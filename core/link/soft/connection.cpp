#include "core/link/soft/connection.hpp"

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

#include "core/base/stream_copy.hpp"
#include "core/device/process_id.hpp"
#include "core/link/soft/channel.hpp"
#include "core/link/soft/port.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link::soft {

void Connection::needs_work() {
    if (state_ >= State::ended) {
        return; // by the sink, just now: it is in no list any more
    }
    port_->sleep_.wake(); // it has not been armed for this
    if (!working_) {
        working_ = true;
        port_->working_.push_back(this);
    }
    if (!hot_ && (one_sided_.awaits_reply() || pipe_.rx().ready())) { // it may be a refusal
        port_->make_hot(*this);
    }
}

Connection::Direct Connection::direct(RemoteRegion& region, std::uint64_t address,
                                      std::uint64_t length, std::uint32_t access) {
    if (pipe_.held()) {
        // Older operations wait in a queue, or for a fence: being quick must not mean being first.
        pipe_.note_refusal(Pipe::Short::neither);
        return {.refused = Errc::again};
    }
    const RegionKey& key = region.key();
    if (key.process_id == process_id()) {
        auto own = RegionTable::instance().pin(key.region);
        std::byte* const at = own ? own.range(address, length, access) : nullptr;
        if (at == nullptr) {
            return {.refused = Errc::not_permitted};
        }
        return one_sided_.direct_allowed() ? Direct{.at = at, .pin = std::move(own)} : Direct{};
    }
    std::byte* const base = region.mapped();
    if (base == nullptr) {
        if (region.import() != nullptr) [[unlikely]] {
            if (region.import()->state() == Import::State::unknown) {
                request_mapping(region);
            } else if (!asked_.empty() && (key.access & access_by_kernel) != 0 &&
                       needs_progress_for_mapping()) {
                return {.refused = Errc::again};
            }
        }
        return {};
    }
    const std::uint64_t offset = address - key.base;
    // What was not granted, or not handed out, is left to the owner to refuse.
    const bool reads = access == access_remote_read;
    if ((key.access & access) != access || !region.import()->covers(offset, length, !reads)) {
        return {};
    }
    const bool allowed = reads ? one_sided_.mapped_reads_allowed() : one_sided_.direct_allowed();
    return {.at = allowed ? base + offset : nullptr};
}

bool Connection::by_kernel(const RemoteRegion& region, std::uint32_t access) const noexcept {
    const RegionKey& key = region.key();
    return (key.access & (access | access_by_kernel)) == (access | access_by_kernel) &&
           key.process_id == peer_.process_id;
}

void Connection::request_mapping(RemoteRegion& region) {
    if (state_ != State::established || peer_.process_id != region.key().process_id ||
        !region.import()->claim_request()) {
        return;
    }
    asked_.push_back({region.key().region, region.key().length, region.import()});
    map_requests_.push_back(region.key().region);
    port_->send_waiting_packets(*this);
    if (!map_requests_.empty()) {
        needs_work();
    }
}

Errc Connection::put(const void* local, std::size_t length, RemoteRegion& region,
                     std::uint64_t address, void* token, LocalMemory) {
    if (!region.contains(address, length)) {
        return Errc::invalid_argument;
    }
    const Direct direct_access = direct(region, address, length, access_remote_write);
    if (direct_access.refused != Errc::ok) {
        return direct_access.refused;
    }
    if (std::byte* to = direct_access.at) {
        // Release: who sees these bytes sees what was put before, and what we have read has been
        // read. (A fence, for the bytes are no atomic; nothing but a barrier for the compiler on
        // x86.)
        std::atomic_thread_fence(std::memory_order_release);
        if (length != 0) {
            copy_part(to, static_cast<const std::byte*>(local), length, length);
        }
        pipe_.slot()->tx.mapped_bytes.add(length);
        pipe_.slot()->tx.one_sided.add(1);
        return Errc::ok;
    }
    const Errc result =
        one_sided_.put(static_cast<const std::byte*>(local), length, region.key().region, address,
                       token, by_kernel(region, access_remote_write));
    if (result == Errc::ok || result == Errc::in_progress) {
        pipe_.slot()->tx.one_sided.add(1);
    }
    if (result != Errc::ok && one_sided_.busy()) {
        needs_work();
    }
    return result;
}

Errc Connection::put_copy(const void* local, std::size_t length, RemoteRegion& region,
                          std::uint64_t address) {
    assert(length <= tuning::max_message);
    // At most one chunk, so it is through at once or not at all: but where there is no descriptor
    // for a bulk ring, chunks are shorter.
    const Errc result = put(local, length, region, address, nullptr);
    if (result != Errc::in_progress) [[likely]] {
        return result;
    }
    return one_sided_.keep_rest_of_put();
}

Errc Connection::get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
                     void* token, LocalMemory memory) {
    if (!region.contains(address, length)) {
        return Errc::invalid_argument;
    }
    const Direct direct_access = direct(region, address, length, access_remote_read);
    if (direct_access.refused != Errc::ok) {
        return direct_access.refused;
    }
    const RegionKey& key = region.key();
    auto* const to = static_cast<std::byte*>(local);
    Errc result = Errc::ok;
    if (const std::byte* from = direct_access.at) {
        // By our CPU alone, if it is our own memory, pinned no longer than this call, or another peer's.
        if (by_kernel(region, access_remote_read) && !direct_access.pin) {
            result =
                one_sided_.get_mapped(to, from, length, key.region, address, token, memory.key);
        } else {
            one_sided_.copy_mapped(to, from, length);
        }
        // Acquire: done already, so what is read or written next must not overtake it.
        std::atomic_thread_fence(std::memory_order_acquire);
    } else {
        result = one_sided_.get(to, length, key.region, address, token,
                                by_kernel(region, access_remote_read), memory.key);
    }
    if (result == Errc::ok || result == Errc::in_progress) {
        pipe_.slot()->tx.one_sided.add(1);
    }
    if (result == Errc::in_progress) {
        needs_work();
    }
    return result;
}

Errc Connection::atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t address,
                        void* token) {
    if ((request.size != 4 && request.size != 8) || (address & (request.size - 1u)) != 0 ||
        !region.contains(address, request.size)) {
        return Errc::invalid_argument;
    }
    const Direct direct_access = direct(region, address, request.size, access_remote_atomic);
    if (direct_access.refused != Errc::ok) {
        return direct_access.refused;
    }
    if (std::byte* at = direct_access.at) {
        one_sided_.make_room_to_end(); // it may be deferred when it is done
        const std::uint64_t old = execute_atomic(at, request);
        if (request.result != nullptr) {
            const auto word = static_cast<std::uint32_t>(old);
            std::memcpy(request.result,
                        request.size == 4 ? static_cast<const void*>(&word)
                                          : static_cast<const void*>(&old),
                        request.size);
        }
        pipe_.slot()->tx.mapped_bytes.add(request.size);
        pipe_.slot()->tx.one_sided.add(1);
        if (request.result != nullptr && token != nullptr && spins_without_progress()) {
            one_sided_.defer(token);
            needs_work();
            return Errc::in_progress;
        }
        return Errc::ok;
    }
    const Errc result = one_sided_.atomic(request, region.key().region, address, token);
    if (result == Errc::ok || result == Errc::in_progress) {
        pipe_.slot()->tx.one_sided.add(1);
        pipe_.slot()->tx.bytes.add(request.size);
    }
    if (result == Errc::in_progress) {
        needs_work();
    }
    return result;
}

bool Connection::spins_without_progress() noexcept {
    // Somebody who waits for a lock by fetching it again and again, and is answered at once every
    // time, never progresses; but whoever holds the lock may need just that to give it back. So
    // now and then the answer is left to the next progress call.
    if (progress_seen_ != port_->slow_poll_.calls()) {
        progress_seen_ = port_->slow_poll_.calls();
        fetches_since_progress_ = 0;
    }
    return ++fetches_since_progress_ % tuning::fetches_without_progress == 0;
}

bool Connection::needs_progress_for_mapping() noexcept {
    // Whom the kernel serves at every call has no reason to progress, and would never take the
    // mapping that the peer has sent meanwhile.
    if (++served_without_mapping_ % tuning::copies_without_progress != 0) {
        return false;
    }
    pipe_.note_refusal_with_room();
    port_->slow_poll_.want();
    return true;
}

Errc Connection::flush(void* token) {
    if (pipe_.broken() != Errc::ok) {
        return pipe_.broken();
    }
    const Errc result = one_sided_.flush(token);
    if (result == Errc::in_progress) {
        needs_work();
    }
    return result;
}

Errc Connection::fence() {
    const Errc result = one_sided_.fence();
    if (one_sided_.busy()) {
        needs_work();
    }
    return result;
}

Errc Connection::check() noexcept {
    if (pipe_.broken() != Errc::ok) {
        return pipe_.broken();
    }
    return Errc::ok; // progress notices a death before anybody can ask
}

SlotInfo Connection::slot_info(counters::SlotState state) const {
    return {.kind = counters::SlotKind::connection,
            .state = state,
            .face = port_->options_.face,
            .peer = peer_name_,
            .local_side = port_->device_.side(),
            .peer_side = peer_.side,
            .peer_pid = peer_.pid,
            .connection = pipe_.number()};
}

Result<Channel> Connection::open_channel(std::uint64_t tag) {
    auto created = Pipe::create();
    if (!created) {
        return tl::unexpected(created.error());
    }
    int pair[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        return fail_errno(Errc::no_memory, "cannot create the socket pair of a channel", errno);
    }
    UniqueFd ours(pair[0]);
    const UniqueFd theirs(pair[1]);
    const wire::Packet packet{static_cast<std::uint32_t>(wire::Type::channel), 0, tag, 0};
    const std::array<int, 2> descriptors{created->memfd.get(), theirs.get()};
    bool fenced = true;
    switch (life_->send(std::as_bytes(std::span(&packet, 1)), descriptors, fenced)) {
    case SocketStatus::ok:
        break;
    case SocketStatus::again:
        return fail(Errc::again, "the connection's socket is full; try again after progress");
    case SocketStatus::ended:
    case SocketStatus::failed: // which the port may not have noticed yet
        return life_->peer_said_goodbye()
                   ? fail(Errc::not_connected, "the peer has closed the connection")
                   : fail(Errc::connection_reset, "the connection is gone");
    }
    // Could the packet be sent, then the connection is established: who the peer is stays as it is.
    return Channel(std::move(created->pipe), std::move(ours), life_, port_->counters_,
                   slot_info(counters::SlotState::connected), fenced);
}

} // namespace comch::link::soft
