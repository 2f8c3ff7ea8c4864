#include "core/link/soft/bulk_memory.hpp"

#include <atomic>

#include <sys/mman.h>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {
namespace {

// Counts only; nothing is ordered by it.
std::atomic<unsigned> large_rings{0};

[[nodiscard]] bool take_large() noexcept {
    if (large_rings.fetch_add(1, std::memory_order_relaxed) < tuning::large_bulk_rings) {
        return true;
    }
    large_rings.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

} // namespace

BulkMemory::BulkMemory(BulkMemory&& other) noexcept
    : mapping_(std::move(other.mapping_)), large_(std::exchange(other.large_, false)),
      has_pages_(other.has_pages_), head_(other.head_), since_ns_(other.since_ns_) {}

BulkMemory& BulkMemory::operator=(BulkMemory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(large_, other.large_);
    has_pages_ = other.has_pages_;
    head_ = other.head_;
    since_ns_ = other.since_ns_;
    return *this;
}

BulkMemory::~BulkMemory() {
    if (large_) {
        large_rings.fetch_sub(1, std::memory_order_relaxed);
    }
}

Result<BulkMemory::Created> BulkMemory::create() {
    Created result;
    result.memory.large_ = take_large();
    auto memory = create_shared_memory(
        "comch-bulk", result.memory.large_ ? tuning::bulk_size : tuning::bulk_size_of_many);
    if (!memory) {
        return tl::unexpected(std::move(memory.error()));
    }
    result.memory.mapping_ = std::move(memory->mapping);
    result.fd = std::move(memory->fd);
    return result;
}

bool BulkMemory::look(std::uint64_t head, bool empty, std::uint64_t now_ns) noexcept {
    if (head != head_ || !empty) {
        head_ = head;
        since_ns_ = now_ns;
        has_pages_ = true;
    } else if (has_pages_ && now_ns - since_ns_ >= tuning::bulk_keep_ns) {
        // A hole in the memfd: the peer's mapping lets go of the pages too. It reads nothing there
        // before the next payload has been written, and announced.
        (void)::madvise(mapping_.data(), mapping_.size(), MADV_REMOVE);
        has_pages_ = false;
        return true;
    }
    return false;
}

} // namespace comch::link::soft
