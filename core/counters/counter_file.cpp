#include "core/counters/counter_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/counters/process_counters.hpp"

namespace comch::counters {
namespace {

/// Slots that are read at once: the usual process needs one call, and has little to skip.
constexpr std::uint32_t batch = 32;

template <std::size_t N> std::string text_of(const char (&field)[N]) {
    return {field, ::strnlen(field, N)};
}

/// `count` objects from the file; false if it does not have them.
template <class T> bool read_at(int fd, T* to, std::size_t count, std::size_t offset) {
    const std::size_t size = count * sizeof(T);
    return ::pread(fd, static_cast<void*>(to), size, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(size);
}

Figures figures_of(const TxCounters& tx, const RxCounters& rx) {
    return {.tx_messages = tx.messages.get(),
            .tx_bytes = tx.bytes.get(),
            .tx_bulk_ring_bytes = tx.bulk_ring_bytes.get(),
            .tx_mapped_bytes = tx.mapped_bytes.get(),
            .tx_process_vm_bytes = tx.process_vm_bytes.get(),
            .tx_one_sided = tx.one_sided.get(),
            .credit_stalls = tx.credit_stalls.get(),
            .buffer_stalls = tx.buffer_stalls.get(),
            .rx_messages = rx.messages.get(),
            .rx_bytes = rx.bytes.get(),
            .rx_bulk_ring_bytes = rx.bulk_ring_bytes.get(),
            .one_sided_served = rx.one_sided_served.get(),
            .wakeups = rx.wakeups.get()};
}

ConnectionSample sample_of(const Slot& slot, std::uint32_t index) {
    return {.slot = index,
            .state = static_cast<SlotState>(slot.state.load(std::memory_order_relaxed)),
            .kind = static_cast<SlotKind>(slot.kind),
            .face = text_of(slot.face),
            .peer = text_of(slot.peer),
            .local_side = slot.local_side,
            .peer_side = slot.peer_side,
            .peer_pid = slot.peer_pid,
            .connection = slot.connection,
            .figures = figures_of(slot.tx, slot.rx),
            .in_flight = {}};
}

} // namespace

std::optional<CounterFile> CounterFile::open(const Domain& domain, const std::string& entry) {
    // O_NONBLOCK: what lies there may be a FIFO.
    UniqueFd fd(::openat(domain.directory_fd(), entry.c_str(),
                         O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < static_cast<off_t>(sizeof(File))) {
        return std::nullopt;
    }
    FileHeader header{};
    if (!read_at(fd.get(), &header, 1, 0) || header.magic != magic || header.version != version) {
        return std::nullopt;
    }
    const std::string suffix = process_suffix(header.process_id);
    if (!entry.ends_with("." + suffix) || !process_lives(domain, suffix)) {
        return std::nullopt;
    }
    return CounterFile(std::move(fd), header.process_id);
}

std::optional<ProcessSample> CounterFile::read() const {
    FileHeader header{};
    if (!read_at(fd_.get(), &header, 1, 0)) {
        return std::nullopt;
    }
    ProcessSample process;
    process.pid = header.pid;
    process.process_id = process_id_;
    process.program = text_of(header.program);
    process.ended = figures_of(header.closed_tx, header.closed_rx);
    const std::uint32_t slots = std::min(header.slot_count, max_slots);
    const auto buffer = std::make_unique<std::array<Slot, batch>>();
    for (std::uint32_t first = 0; first < slots; first += batch) {
        const std::uint32_t count = std::min(batch, slots - first);
        if (!read_at(fd_.get(), buffer->data(), count,
                     offsetof(File, slots) + first * sizeof(Slot))) {
            return std::nullopt;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            ConnectionSample connection = sample_of((*buffer)[i], first + i);
            if (connection.state == SlotState::free) {
                // Slots are taken in order: none has been used beyond the first free one, so the
                // shared one has not been either.
                return process;
            }
            if (connection.state > SlotState::failed) {
                return std::nullopt; // nobody writes that
            }
            process.connections.push_back(std::move(connection));
        }
    }
    if (header.overflow.state.load(std::memory_order_relaxed) !=
        static_cast<std::uint32_t>(SlotState::free)) {
        ConnectionSample shared = sample_of(header.overflow, max_slots);
        shared.connection = 0;
        process.connections.push_back(std::move(shared));
    }
    return process;
}

std::optional<ConnectionSample> CounterFile::read_slot(std::uint32_t index) const {
    Slot slot{};
    if (index >= max_slots ||
        !read_at(fd_.get(), &slot, 1, offsetof(File, slots) + index * sizeof(Slot))) {
        return std::nullopt;
    }
    return sample_of(slot, index);
}

} // namespace comch::counters
