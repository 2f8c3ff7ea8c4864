#include "allocations.hpp"

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
    const RegionKey& key = std::prev(behind)->second;
    const std::uint64_t offset = address - key.base;
    if (offset > key.length || length > key.length - offset || (key.access & access) != access) {
        return {};
    }
    return key;
}

} // namespace comch::uct
