#include "core/counters/counter_files.hpp"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/unique_fd.hpp"
#include "core/memory/shared_memory.hpp"

namespace comch::counters {
namespace {

template <std::size_t N> std::string text_of(const char (&field)[N]) {
    return {field, ::strnlen(field, N)};
}

Figures figures_of(const TxCounters& tx, const RxCounters& rx) {
    return {tx.messages.get(),        tx.bytes.get(),
            tx.bulk_ring_bytes.get(), tx.mapped_bytes.get(),
            tx.process_vm_bytes.get(), tx.one_sided.get(),
            tx.credit_stalls.get(),   tx.buffer_stalls.get(),
            rx.messages.get(),        rx.bytes.get(),
            rx.bulk_ring_bytes.get(), rx.one_sided_served.get(),
            rx.wakeups.get()};
}

/// The file's bytes, if it has all of them and is of our version.
Mapping map_file(const Domain& domain, const std::string& entry) {
    const UniqueFd fd(::openat(domain.directory_fd(), entry.c_str(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size < static_cast<off_t>(sizeof(File))) {
        return {};
    }
    void* at = ::mmap(nullptr, sizeof(File), PROT_READ, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
        return {};
    }
    Mapping mapping(static_cast<std::byte*>(at), sizeof(File));
    const auto* header = reinterpret_cast<const FileHeader*>(mapping.data());
    if (header->magic != magic || header->version != version) {
        return {};
    }
    return mapping;
}

} // namespace

Result<std::vector<ProcessSample>> read_counter_files(const Domain& domain) {
    const auto entries = domain.list_entries("counters.");
    if (!entries) {
        return tl::unexpected(entries.error());
    }
    std::vector<ProcessSample> result;
    for (const std::string& entry : *entries) {
        const Mapping mapping = map_file(domain, entry);
        if (!mapping) {
            continue;
        }
        const auto* file = reinterpret_cast<const File*>(mapping.data());
        ProcessSample process;
        process.pid = file->header.pid;
        process.process_id = file->header.process_id;
        process.program = text_of(file->header.program);
        const std::uint32_t slots = std::min(file->header.slot_count, max_slots);
        for (std::uint32_t i = 0; i < slots; ++i) {
            const Slot& slot = file->slots[i];
            const auto state =
                static_cast<SlotState>(slot.state.load(std::memory_order_acquire));
            if (state == SlotState::free) {
                break; // slots are taken in order: none has been used beyond the first free one
            }
            process.connections.push_back({i, state, text_of(slot.face), text_of(slot.peer),
                                           slot.local_side, slot.peer_side, slot.peer_pid,
                                           figures_of(slot.tx, slot.rx)});
        }
        result.push_back(std::move(process));
    }
    return result;
}

} // namespace comch::counters
