#include "core/link/soft/pipe.hpp"

#include <algorithm>
#include <atomic>
#include <new>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/link/soft/membarrier.hpp"
#include "core/link/soft/socket.hpp"
#include "core/link/soft/wire.hpp"

namespace comch::link::soft {
namespace {

std::size_t segment_size(std::uint32_t cells) noexcept {
    return ring_offset + 2 * std::size_t{cells} * cell_size;
}

std::byte* ring(std::byte* segment, std::uint32_t cells, unsigned direction) noexcept {
    return segment + ring_offset + std::size_t{direction} * cells * cell_size;
}

/// The segment's inode: the kernel numbers all memfds of a machine in one row.
std::uint64_t number_of(int memfd) noexcept {
    struct stat status {};
    return ::fstat(memfd, &status) == 0 ? status.st_ino : 0;
}

/// The time, for Port::poll_in_order(): later than any that this process has taken, for a CPU's
/// counter may stand still for 40 ns.
std::uint64_t take_stamp() noexcept {
    // What this thread has sent before, on whatever connection, is to be seen by all who read a
    // later clock: without the fence it might wait in the store buffer while the clock is read.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    static std::atomic<std::uint64_t> last = 0;
    std::uint64_t before = last.load(std::memory_order_relaxed);
    for (;;) {
        const std::uint64_t stamp = std::max(monotonic_ns(), before + 1);
        if (last.compare_exchange_weak(before, stamp, std::memory_order_relaxed)) {
            return stamp;
        }
    }
}

} // namespace

Result<Pipe::Created> Pipe::create() {
    constexpr std::uint32_t cells = tuning::ring_cells;
    auto memory = create_shared_memory("comch-channel", segment_size(cells));
    if (!memory) {
        return tl::unexpected(memory.error());
    }
    std::byte* const base = memory->mapping.data();
    auto* control = reinterpret_cast<SegmentControl*>(base);
    control->header.version = protocol_version;
    control->header.cells = cells;
    control->header.magic = segment_magic;
    Created result;
    result.pipe.tx_ = RingWriter(&control->direction[0], ring(base, cells, 0), cells);
    result.pipe.rx_ = RingReader(&control->direction[1], ring(base, cells, 1), cells);
    result.pipe.attach_joint(control->direction[0], control->direction[1]);
    result.pipe.withdrawal_ = PutWithdrawal(&control->direction[0].puts);
    result.pipe.put_owner_ = PutOwner(&control->direction[1].puts);
    result.pipe.segment_ = std::move(memory->mapping);
    result.pipe.number_ = number_of(memory->fd.get());
    result.memfd = std::move(memory->fd);
    return result;
}

Result<Pipe> Pipe::accept(int memfd) {
    // Page by page: what the header says decides how much there must be.
    auto head = map_shared_memory(memfd, ring_offset, true);
    if (!head) {
        return tl::unexpected(head.error());
    }
    SegmentHeader header{};
    std::memcpy(&header, head->data(), sizeof(header));
    if (header.magic != segment_magic || header.version != protocol_version ||
        !std::has_single_bit(header.cells) ||
        header.cells < tuning::ring_cells || // the longest message could never fit
        header.cells > 131072) {
        return fail(Errc::version_mismatch, "the peer's shared memory has an unknown layout");
    }
    auto all = map_shared_memory(memfd, segment_size(header.cells), true);
    if (!all) {
        return tl::unexpected(all.error());
    }
    std::byte* const base = all->data();
    auto* control = reinterpret_cast<SegmentControl*>(base);
    Pipe pipe;
    pipe.rx_ = RingReader(&control->direction[0], ring(base, header.cells, 0), header.cells);
    pipe.tx_ = RingWriter(&control->direction[1], ring(base, header.cells, 1), header.cells);
    pipe.attach_joint(control->direction[1], control->direction[0]);
    pipe.put_owner_ = PutOwner(&control->direction[0].puts);
    pipe.withdrawal_ = PutWithdrawal(&control->direction[1].puts);
    pipe.segment_ = std::move(*all);
    pipe.number_ = number_of(memfd);
    return pipe;
}

Errc Pipe::send_ordered(std::uint8_t id, std::span<const std::byte> message) noexcept {
    constexpr auto stamped = [](Kind kind) {
        return static_cast<Kind>(static_cast<std::uint8_t>(kind) | kind_stamped);
    };
    const auto length = static_cast<std::uint32_t>(message.size());
    Errc result = Errc::ok;
    if (message.size() > tuning::max_message) {
        return Errc::too_big;
    }
    if (message.size() + sizeof(std::uint64_t) <= tuning::max_inline) {
        result = put_record(stamped(Kind::data), id, length + 8, [&](std::byte* to) {
            const std::uint64_t now = take_stamp();
            std::memcpy(to, &now, sizeof(now));
            if (length != 0) {
                std::memcpy(to + sizeof(now), message.data(), length);
            }
        });
    } else {
        std::byte* bulk = nullptr;
        result = reserve_bulk(length, sizeof(std::uint64_t) + sizeof(BulkRef), bulk);
        if (result == Errc::ok) {
            std::memcpy(bulk, message.data(), length);
            const std::uint64_t now = take_stamp();
            put_bulk_record(stamped(Kind::data_bulk), id, std::as_bytes(std::span(&now, 1)),
                            length);
        }
    }
    if (result == Errc::ok) {
        count_sent(length);
    }
    return result;
}

std::uint64_t Pipe::confirmed() noexcept {
    const std::uint64_t taken = tx_.control()->consumer.messages.load(std::memory_order_acquire);
    confirmed_seen_ = taken <= sent() ? taken : 0; // a lie counts for nothing
    return confirmed_seen_;
}

bool Pipe::accept_bulk(int memfd, std::uint64_t size) noexcept {
    if (bulk_rx_ || !std::has_single_bit(size) || size < line_size || size > (1u << 30)) {
        return false;
    }
    auto mapping = map_shared_memory(memfd, size, false);
    if (!mapping) {
        return false;
    }
    bulk_rx_ = std::move(*mapping);
    rx_.set_bulk_size(static_cast<std::uint32_t>(size));
    return true;
}

bool Pipe::can_withdraw() noexcept {
    return membarrier_all();
}

void Pipe::begin_withdrawal() noexcept {
    hold(hold_withdrawal);
    withdrawal_.withdraw(tx_.head());
    // Where the peer does not take part in it, it has a fence of its own. It was tried just now.
    (void)membarrier_all();
}

Errc Pipe::no_room(Short what) noexcept {
    if (broken_ != Errc::ok) {
        return broken_;
    }
    // Held back, it is not for want of credit.
    const Short missing = tx_.stopped() ? Short::neither : what;
    if (missing != Short::neither) {
        slot_->tx.credit_stalls.add(1);
    }
    note_refusal(missing);
    return Errc::again;
}

Errc Pipe::attach_bulk() noexcept {
    if (!socket_ready_) {
        return no_room(Short::neither);
    }
    if (tx_.reserve(0) == nullptr) {
        return no_room(Short::ring);
    }
    if (!bulk_tx_memory_) {
        auto made = BulkMemory::create();
        if (!made) {
            return Errc::no_memory;
        }
        const wire::Packet packet{static_cast<std::uint32_t>(wire::Type::bulk), 0,
                                  made->memory.size(), 0};
        const int fd = made->fd.get();
        const auto sent =
            send_packet(socket_, std::as_bytes(std::span(&packet, 1)), std::span(&fd, 1));
        refused_with_room_ = sent == SocketStatus::again;
        if (sent != SocketStatus::ok) {
            return no_room(Short::neither);
        }
        bulk_tx_memory_ = std::move(made->memory);
    }
    (void)put_record(Kind::bulk_attach, 0, 0, [](std::byte*) {});
    bulk_tx_ = BulkWriter(tx_.control(), bulk_tx_memory_.data(), bulk_tx_memory_.size());
    return Errc::ok;
}

void Pipe::ring_doorbell() noexcept {
    // Take the flag back, so that one sleep costs one packet. Relaxed is enough: the packet orders.
    if (tx_.control()->doorbell.armed.exchange(0, std::memory_order_relaxed) != 0) {
        send_doorbell();
    }
}

void Pipe::wake_for_credit() noexcept {
    if (rx_.control()->producer.wants_credit.exchange(0, std::memory_order_relaxed) != 0) {
        send_doorbell();
    }
}

void Pipe::send_doorbell() noexcept {
    if (!socket_ready_) {
        return; // the peer looks at the ring when it accepts
    }
    const wire::Packet packet{static_cast<std::uint32_t>(wire::Type::doorbell), 0, 0, 0};
    // When the socket is full there is something in it to wake the peer; when it is gone, so is he.
    (void)send_packet(socket_, std::as_bytes(std::span(&packet, 1)));
}

} // namespace comch::link::soft
