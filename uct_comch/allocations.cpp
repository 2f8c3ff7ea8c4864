#include "allocations.hpp"

#include <iterator>

#include "core/device/process_id.hpp"

namespace comch::uct {

Allocations& Allocations::instance() {
    // Never destroyed: memory may be given back by static destructors of other libraries.
    static auto* allocations = new Allocations;
    return *allocations;
}

void Allocations::add(const RegionKey& key) {
    const std::lock_guard lock(mutex_);
    by_base_.insert_or_assign(key.base, key);
    any_.store(true, std::memory_order_relaxed);
}

void Allocations::remove(const RegionKey& key) {
    const std::lock_guard lock(mutex_);
    by_base_.erase(key.base);
    any_.store(!by_base_.empty(), std::memory_order_relaxed);
}

std::optional<RegionKey> Allocations::around(std::uint64_t address, std::uint64_t length,
                                             std::uint32_t access) const {
    if (!any_.load(std::memory_order_relaxed)) {
        return {};
    }
    const std::lock_guard lock(mutex_);
    const auto behind = by_base_.upper_bound(address);
    if (behind == by_base_.begin()) {
        return {};
    }
    RegionKey key = std::prev(behind)->second;
    const std::uint64_t offset = address - key.base;
    const bool inside = length != 0 && offset < key.length && length <= key.length - offset;
    // (Whoever may write can as well do what atomics do.)
    constexpr std::uint32_t decisive = access_remote_read | access_remote_write;
    const bool granted =
        (key.access & decisive) == (access & decisive) && (key.access & access) == access;
    // (A forked child has the memory of its parent's allocations, but cannot hand it out.)
    if (!inside || !granted || key.process_id != process_id()) {
        return {};
    }
    key.access = access;
    return key;
}

} // namespace comch::uct
