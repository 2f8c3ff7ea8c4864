#include "core/link/verbs/connection.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/link/verbs/channel.hpp"
#include "core/link/verbs/port.hpp"

namespace comch::link::verbs {

void Connection::needs_work() {
    port_->sleep_.wake(); // it has not been armed for this
    if (!working_) {
        working_ = true;
        port_->working_.push_back(this);
    }
}

bool Connection::can_go_direct(const RemoteRegion& region, std::uint32_t access) noexcept {
    // What travels as records must not be overtaken; what was not granted is left to the owner to
    // refuse, as the device would break the connection without saying why.
    return (region.key().link_data & has_remote_key) != 0 && pipe_->started() &&
           (region.key().access & access) == access && one_sided_.direct_allowed();
}

bool Connection::own_refuses(const RemoteRegion& region, std::uint64_t address,
                             std::uint64_t length, std::uint32_t access) noexcept {
    const RegionKey& key = region.key();
    if (key.process_id != process_id()) [[likely]] {
        return false;
    }
    const auto pin = RegionTable::instance().pin(key.region);
    return !pin || pin.range(address, length, access) == nullptr;
}

Errc Connection::refusal(const RemoteRegion& region, std::uint64_t address, std::uint64_t length,
                         std::uint32_t access) noexcept {
    if (!region.contains(address, length)) {
        return Errc::invalid_argument;
    }
    if (own_refuses(region, address, length, access)) {
        return Errc::not_permitted;
    }
    const bool waits = !transfers_.empty() && transfers_.back().remaining != 0;
    if (pipe_->broken() != Errc::ok || pipe_->held() || waits) {
        pipe_->note_refusal(Pipe::Short::neither);
        return pipe_->broken() != Errc::ok ? pipe_->broken() : Errc::again;
    }
    return Errc::ok;
}

Errc Connection::put(const void* local, std::size_t length, RemoteRegion& region,
                     std::uint64_t address, void* token, LocalMemory memory) {
    if (const Errc refused = refusal(region, address, length, access_remote_write);
        refused != Errc::ok) {
        return refused;
    }
    Errc result = Errc::ok;
    const auto* const from = static_cast<const std::byte*>(local);
    if (!can_go_direct(region, access_remote_write)) {
        result = one_sided_.put(from, length, region.key().region, address, token);
    } else if (length <= tuning::bounce_up_to) {
        result = write_copied(from, length, region, address, false);
    } else {
        result = start_transfer(false, const_cast<std::byte*>(from), length, region, address, token,
                                memory.region);
    }
    if (result == Errc::ok || result == Errc::in_progress) {
        pipe_->slot()->tx.one_sided.add(1);
    }
    if (result == Errc::in_progress) {
        needs_work();
    }
    return result;
}

Errc Connection::write(const void* local, std::size_t length, RemoteRegion& region,
                       std::uint64_t address, void* token, LocalMemory memory) {
    if (const Errc refused = refusal(region, address, length, access_remote_write);
        refused != Errc::ok) {
        return refused;
    }
    if (!can_go_direct(region, access_remote_write)) {
        return Errc::unsupported;
    }
    Errc result = Errc::ok;
    const auto* const from = static_cast<const std::byte*>(local);
    if (length <= tuning::bounce_up_to) {
        result = write_copied(from, length, region, address, true);
        if (result == Errc::ok) {
            Transfer transfer;
            transfer.token = token;
            transfer.last = pipe_->posted();
            transfers_.push_back(std::move(transfer));
            result = Errc::in_progress;
        }
    } else {
        result = start_transfer(false, const_cast<std::byte*>(from), length, region, address, token,
                                memory.region);
    }
    if (result == Errc::in_progress) {
        pipe_->slot()->tx.one_sided.add(1);
        needs_work();
    }
    return result;
}

Errc Connection::write_copied(const std::byte* from, std::size_t length, const RemoteRegion& region,
                              std::uint64_t address, bool signalled) noexcept {
    const Errc result =
        pipe_->write_copied(from, static_cast<std::uint32_t>(length), address,
                            static_cast<std::uint32_t>(region.key().link_data), signalled);
    if (result == Errc::ok) {
        last_write_ = pipe_->posted();
        last_write_behind_ = pipe_->tx().head();
        pipe_->slot()->tx.bytes.add(length);
    }
    return result;
}

Errc Connection::get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
                     void* token, LocalMemory memory) {
    if (const Errc refused = refusal(region, address, length, access_remote_read);
        refused != Errc::ok) {
        return refused;
    }
    Errc result = Errc::ok;
    auto* const to = static_cast<std::byte*>(local);
    if (!can_go_direct(region, access_remote_read) || length == 0) {
        result = one_sided_.get(to, length, region.key().region, address, token);
    } else if (length <= tuning::bounce_up_to) {
        Transfer transfer;
        transfer.is_get = true;
        transfer.token = token;
        result =
            pipe_->read_copied(to, static_cast<std::uint32_t>(length), address,
                               static_cast<std::uint32_t>(region.key().link_data), transfer.last);
        if (result == Errc::ok) {
            pipe_->slot()->tx.mapped_bytes.add(length); // as every RDMA read: nobody sends it
            transfers_.push_back(std::move(transfer));
            result = Errc::in_progress;
        }
    } else {
        result = start_transfer(true, to, length, region, address, token, memory.region);
    }
    if (result == Errc::in_progress) {
        pipe_->slot()->tx.one_sided.add(1);
        needs_work();
    }
    return result;
}

Errc Connection::start_transfer(bool is_get, std::byte* local, std::size_t length,
                                RemoteRegion& region, std::uint64_t address, void* token,
                                std::uint64_t local_region) {
    Transfer transfer;
    transfer.is_get = is_get;
    transfer.local = local;
    transfer.remote = address;
    transfer.remaining = length;
    transfer.rkey = static_cast<std::uint32_t>(region.key().link_data);
    transfer.token = token;
    RdmaDevice& device = *port_->rdma_;
    RdmaDevice::RegionKeys keys;
    if (local_region != 0) {
        keys = device.keys_of(local_region);
    }
    if (keys.valid) {
        transfer.lkey = keys.lkey;
    } else {
        // For reading into, the memory must be writable; for writing from, it may be read-only.
        auto mr = device.register_memory(local, length, is_get ? IBV_ACCESS_LOCAL_WRITE : 0);
        if (!mr) {
            error_text_ = mr.error().message;
            return Errc::no_memory;
        }
        transfer.lkey = mr->lkey();
        transfer.mr = std::move(*mr);
    }
    transfers_.push_back(std::move(transfer));
    const bool moved = push_transfers();
    Transfer& last = transfers_.back();
    if (!moved && last.remaining == length) {
        transfers_.pop_back();
        return pipe_->broken() != Errc::ok ? pipe_->broken() : Errc::again;
    }
    pipe_->slot()->tx.mapped_bytes.add(length);
    return Errc::in_progress;
}

bool Connection::push_transfers() {
    bool moved = false;
    if (transfers_.empty()) {
        return moved;
    }
    Transfer& transfer = transfers_.back(); // nothing begins before all of it is posted
    while (transfer.remaining != 0) {
        const auto chunk = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(transfer.remaining, port_->rdma_->limits().rdma_length));
        const bool last = chunk == transfer.remaining;
        const Errc result = transfer.is_get
                                ? pipe_->read(transfer.local, chunk, transfer.lkey, transfer.remote,
                                              transfer.rkey, last, transfer.last)
                                : pipe_->write(transfer.local, chunk, transfer.lkey,
                                               transfer.remote, transfer.rkey, last, transfer.last);
        if (result != Errc::ok) {
            return moved;
        }
        moved = true;
        if (transfer.is_get && transfer.fenced) {
            pipe_->fence_reads();
        }
        transfer.local += chunk;
        transfer.remote += chunk;
        transfer.remaining -= chunk;
    }
    if (moved && transfer.fenced) {
        pipe_->release(Pipe::hold_transfer);
        pipe_->encourage();
    }
    return moved;
}

Errc Connection::atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t address,
                        void* token) {
    if ((request.size != 4 && request.size != 8) || (address & (request.size - 1u)) != 0) {
        return Errc::invalid_argument;
    }
    if (const Errc refused = refusal(region, address, request.size, access_remote_atomic);
        refused != Errc::ok) {
        return refused;
    }
    const Errc result = one_sided_.atomic(request, region.key().region, address, token);
    if (result == Errc::ok || result == Errc::in_progress) {
        pipe_->slot()->tx.one_sided.add(1);
        pipe_->slot()->tx.bytes.add(request.size);
    }
    if (result == Errc::in_progress) {
        needs_work();
    }
    return result;
}

std::uint64_t Connection::open_window(std::uint64_t region, const std::byte* base,
                                      std::uint64_t length, std::uint32_t access) {
    if (closing_.capacity() < closing_.size() + tuning::windows) {
        closing_.reserve(2 * (closing_.size() + tuning::windows)); // to close one takes no memory
    }
    auto memory = port_->rdma_->memory_of(region);
    if (memory == nullptr) {
        return 0;
    }
    const auto key =
        pipe_->open_window(std::move(memory), base, length, remote_access_flags(access));
    return key ? has_remote_key | *key : 0;
}

Errc Connection::close_window(std::uint64_t link_data, void* token) {
    if (token != nullptr) {
        needs_work();
    }
    const Pipe::Ticket ticket = pipe_->close_window(static_cast<std::uint32_t>(link_data));
    if (token == nullptr || ticket == 0) {
        return Errc::ok;
    }
    closing_.push_back({ticket, token});
    return Errc::in_progress;
}

Errc Connection::flush(void* token) {
    if (pipe_->broken() != Errc::ok) {
        return pipe_->broken();
    }
    Flush once;
    if (token != nullptr) { // before anybody knows it
        flushes_.push_back(std::make_unique<Flush>());
    }
    Flush& flush = token != nullptr ? *flushes_.back() : once;
    flush.token = token;
    flush.ticket = pipe_->posted();
    flush.transfers = transfers_.size();
    try {
        flush.records_done = one_sided_.flush(token != nullptr ? &flush : nullptr) == Errc::ok;
    } catch (...) {
        if (token != nullptr) {
            flushes_.pop_back();
        }
        throw;
    }
    if (flush_reached(flush)) {
        if (token != nullptr) {
            flushes_.pop_back();
        }
        return Errc::ok;
    }
    if (token != nullptr) {
        needs_work();
    }
    return Errc::in_progress;
}

bool Connection::flush_reached(Flush& flush) {
    if (!pipe_->done(flush.ticket)) {
        (void)pipe_->ask_for_completion(); // nobody may be told of it otherwise
        return false;
    }
    return flush.records_done && flush.transfers == 0;
}

bool Connection::is_flush(const Flushes& among, const void* token) noexcept {
    return token != nullptr && std::any_of(among.begin(), among.end(),
                                           [&](const auto& flush) { return flush.get() == token; });
}

Errc Connection::fence() {
    const Errc result = one_sided_.fence();
    pipe_->fence_reads();
    if (!transfers_.empty() && transfers_.back().remaining != 0) {
        // What of it is still to be posted: behind reads, and before all that is sent from now on.
        transfers_.back().fenced = true;
        pipe_->hold(Pipe::hold_transfer);
    }
    if (one_sided_.busy()) {
        needs_work();
    }
    return result;
}

std::vector<void*> Connection::take_own_operations() {
    std::vector<void*> tokens;
    Pipe::Ticket in_callers_memory = 0;
    for (Transfer& transfer : transfers_) {
        if (!transfer.reported) {
            tokens.push_back(transfer.token);
        }
        if (transfer.lkey != 0) {
            in_callers_memory = transfer.last;
        }
    }
    for (const auto& flush : flushes_) {
        tokens.push_back(flush->token);
    }
    for (Closing& closing : closing_) {
        if (closing.token != nullptr) { // nor reported already
            tokens.push_back(std::exchange(closing.token, nullptr));
        }
    }
    if (!pipe_->settled(in_callers_memory)) {
        take_back_memory(in_callers_memory);
    }
    pipe_->forget_copies();
    transfers_.clear();
    pipe_->release(Pipe::hold_transfer);
    return tokens;
}

void Connection::take_back_memory(Pipe::Ticket last) {
    // It is the caller's again when he is told: the device must not touch it any more.
    pipe_->stop();
    const std::uint64_t deadline = monotonic_ns() + tuning::stop_timeout_ns;
    while (!pipe_->settled(last) && !port_->rdma_->gone() && monotonic_ns() < deadline) {
        (void)port_->queues_->fetch();
    }
    if (!pipe_->settled(last)) {
        pipe_->detach(); // a queue pair that does not exist touches nothing for certain
        id_.reset();
    }
}

void Connection::drop_operations() {
    (void)one_sided_.fail_all(Errc::not_connected);
    flushes_.clear();
    closing_.clear();
    wait_at_end(pipe_->close_windows()); // if it takes longer, they are closed before the goodbye
    pipe_->forget_copies();
    Pipe::Ticket read = 0;
    for (Transfer& transfer : transfers_) {
        transfer.reported = true;
        transfer.remaining = 0;
        if (transfer.is_get && transfer.lkey != 0) {
            read = transfer.last;
        }
    }
    pipe_->release(Pipe::hold_transfer);
    wait_at_end(read);
    if (!pipe_->settled(read)) {
        take_back_memory(read);
    }
}

void Connection::wait_at_end(Pipe::Ticket ticket) noexcept {
    if (pipe_->settled(ticket)) {
        return;
    }
    (void)pipe_->ask_for_completion();
    const std::uint64_t deadline = monotonic_ns() + tuning::wait_at_end_ns;
    while (!pipe_->settled(ticket) && monotonic_ns() < deadline) {
        (void)port_->queues_->fetch();
    }
}

bool Connection::has_unfinished_writes() const noexcept {
    // A record that was sent after a write has come only when that has been done.
    const bool arrived = pipe_->done(last_write_) || pipe_->tx().consumed() > last_write_behind_;
    return !arrived ||
           std::any_of(transfers_.begin(), transfers_.end(), [this](const Transfer& transfer) {
               return !transfer.is_get && (transfer.remaining != 0 || !pipe_->done(transfer.last));
           });
}

SlotInfo Connection::slot_info(counters::SlotState state) const {
    return {.kind = counters::SlotKind::connection,
            .state = state,
            .face = port_->options_.face,
            .peer = peer_name_,
            .local_side = port_->device_.side(),
            .peer_side = peer_.side,
            .peer_pid = peer_.pid,
            .connection = pipe_->number()};
}

Result<Channel> Connection::open_channel(std::uint64_t tag) {
    return Channel::open(life_, port_->counters_, slot_info(counters::SlotState::connected), tag);
}

} // namespace comch::link::verbs
