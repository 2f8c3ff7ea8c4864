#include "perftest/buffers.hpp"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

namespace comch::perftest {

Result<std::unique_ptr<Buffers>> Buffers::create(std::uint64_t size, std::uint32_t count) {
    // Small ones on cache lines of their own, large ones on pages.
    const std::uint64_t unit = size < 4096 ? 64 : 4096;
    const std::uint64_t stride = (size + unit - 1) / unit * unit;
    const std::uint64_t total = stride * count; // at most 2^31 * 2^13
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    const auto page = ::sysconf(_SC_PAGESIZE);
    const auto memory = static_cast<std::uint64_t>(pages > 0 ? pages : 0) *
                        static_cast<std::uint64_t>(page > 0 ? page : 0);
    if (memory != 0 && total > memory / 2) {
        return fail(
            Errc::no_memory,
            fmt::format("{} buffers of {} bytes are {} MiB, more than half of this machine's "
                        "memory, {} MiB; use a smaller --window or --buffers",
                        count, size, total >> 20, memory >> 20));
    }
    void* const base =
        ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return fail_errno(
            Errc::no_memory,
            fmt::format("cannot have {} MiB for {} buffers of {} bytes; use a smaller "
                        "--window or --buffers",
                        total >> 20, count, size),
            errno);
    }
    std::unique_ptr<Buffers> buffers(new Buffers);
    buffers->base_ = static_cast<std::byte*>(base);
    buffers->stride_ = stride;
    buffers->total_ = total;
    buffers->count_ = count;
    auto map = MemoryMap::create({buffers->base_, total}, local_read | local_write | peer_write);
    if (!map) {
        return tl::unexpected(std::move(map.error()));
    }
    buffers->map_ = std::move(*map);
    return buffers;
}

Buffers::~Buffers() {
    map_.reset();
    if (base_ != nullptr) {
        (void)::munmap(base_, total_);
    }
}

void Buffers::touch() noexcept {
    std::memset(base_, 0x5a, total_);
}

} // namespace comch::perftest
