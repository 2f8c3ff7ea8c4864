#include "perftest/buffers.hpp"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

namespace comch::perftest {

namespace {

/// Small ones on cache lines of their own, large ones on pages.
std::uint64_t stride_of(std::uint64_t size) {
    const std::uint64_t unit = size < 4096 ? 64 : 4096;
    return (size + unit - 1) / unit * unit;
}

} // namespace

Result<void> check_memory(std::uint64_t size, std::uint64_t count) {
    const std::uint64_t total = stride_of(size) * count;
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    const auto page = ::sysconf(_SC_PAGESIZE);
    const auto memory = static_cast<std::uint64_t>(pages > 0 ? pages : 0) *
                        static_cast<std::uint64_t>(page > 0 ? page : 0);
    // Both sides may be on this machine, and others too.
    if (memory != 0 && total > memory / 4) {
        return fail(
            Errc::no_memory,
            fmt::format("{} buffers of {} bytes are {} MiB on one side, more than a quarter "
                        "of its machine's memory, {} MiB; use a smaller --window, --buffers "
                        "or --threads",
                        count, size, total >> 20, memory >> 20));
    }
    return {};
}

Result<std::unique_ptr<Buffers>> Buffers::create(std::uint64_t size, std::uint32_t count) {
    const std::uint64_t stride = stride_of(size);
    const std::uint64_t total = stride * count; // at most 2^31 * 2^13
    void* const base =
        ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return fail_errno(
            Errc::no_memory,
            fmt::format("cannot have {} MiB for {} buffers of {} bytes; use fewer or smaller ones",
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

void Buffers::touch(std::uint32_t i) noexcept {
    std::memset(at(i), 0x5a, stride_);
}

} // namespace comch::perftest
