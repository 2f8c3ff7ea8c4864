#include "core/memory/region_table.hpp"

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include <sys/random.h>

#include <fmt/format.h>

#include "core/base/make_room.hpp"
#include "core/base/mix_bits.hpp"
#include "core/device/per_process.hpp"

namespace comch {
namespace {

constexpr unsigned generation_bits = 42;
constexpr unsigned state_shift = 64 - generation_bits;
constexpr std::uint64_t live_bit = std::uint64_t{1} << (state_shift - 1);
constexpr std::uint64_t pin_mask = live_bit - 1;

/// Every value once, in an order that only `keys` tell: four rounds of a Feistel network.
std::uint64_t shuffled(std::uint64_t value, const std::array<std::uint64_t, 4>& keys) {
    constexpr unsigned half = generation_bits / 2;
    constexpr std::uint64_t mask = (std::uint64_t{1} << half) - 1;
    std::uint64_t left = value >> half & mask;
    std::uint64_t right = value & mask;
    for (const std::uint64_t key : keys) {
        left = std::exchange(right, left ^ (mix_bits(right + key) >> 33 & mask));
    }
    return left << half | right;
}

} // namespace

RegionTable& RegionTable::instance() {
    static constinit PerProcess<RegionTable> table;
    return table.get();
}

RegionTable::RegionTable() : chunks_(new std::atomic<Slot*>[chunk_count]) {
    for (std::uint64_t i = 0; i < chunk_count; ++i) {
        chunks_[i].store(nullptr, std::memory_order_relaxed);
    }
}

std::uint64_t RegionTable::next_generation(std::uint64_t index, std::uint64_t used) const noexcept {
    // Every slot has a sequence of its own.
    auto keys = keys_;
    keys.front() += index * 0x9e3779b97f4a7c15u;
    return shuffled(used, keys);
}

RegionTable::Slot* RegionTable::slot(std::uint64_t index) const noexcept {
    // Acquire: the chunk's slots are constructed before its address is seen.
    Slot* chunk = chunks_[index / chunk_slots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % chunk_slots;
}

Result<RegionKey> RegionTable::add(const Region& region) {
    if (region.length == 0 || region.base == nullptr) {
        return fail(Errc::invalid_argument, "cannot register an empty range of memory");
    }
    if (region.memfd >= 0 &&
        reinterpret_cast<std::uint64_t>(region.base) % mapping_alignment != 0) {
        return fail(Errc::invalid_argument,
                    fmt::format("peers map a memfd as a whole, so memory that is registered with "
                                "one must begin with a page, not at {}",
                                static_cast<const void*>(region.base)));
    }
    const std::lock_guard lock(mutex_);
    if (!has_keys_) [[unlikely]] {
        // (std::random_device asks the CPU for each word: in a virtual machine, milliseconds.)
        if (::getrandom(keys_.data(), sizeof(keys_), 0) != static_cast<ssize_t>(sizeof(keys_))) {
            return fail_errno(Errc::io, "cannot get random numbers", errno);
        }
        has_keys_ = true;
    }
    std::uint32_t index = 0;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else {
        if (used_ == chunk_count * chunk_slots) {
            return fail(Errc::no_memory, fmt::format("all {} memory registrations of this process "
                                                     "are in use; release some",
                                                     chunk_count * chunk_slots));
        }
        index = used_;
        if (index % chunk_slots == 0) {
            make_room(owned_);
            free_.reserve(std::size_t{index} + chunk_slots); // remove() finds room
            owned_.push_back(std::make_unique<Slot[]>(chunk_slots));
            // Release: pairs with slot().
            chunks_[index / chunk_slots].store(owned_.back().get(), std::memory_order_release);
        }
        ++used_;
    }
    Slot& s = *slot(index);
    std::uint64_t generation = next_generation(index, s.uses++);
    if (generation == 0) {
        generation = next_generation(index, s.uses++); // no name is 0
    }
    s.region = region;
    // Release: the region is complete before its generation can be pinned. Stale pins that are
    // being taken back right now keep their count: hence the add of a difference, not a store.
    const std::uint64_t last = s.state.load(std::memory_order_relaxed) >> state_shift;
    s.state.fetch_add(((generation - last) << state_shift) + live_bit, std::memory_order_release);
    RegionKey key;
    key.process_id = process_id();
    key.region = index | generation << slot_bits;
    key.base = reinterpret_cast<std::uint64_t>(region.base);
    key.length = region.length;
    key.access = region.access;
    key.mappable = region.memfd >= 0 ? 1 : 0;
    return key;
}

void RegionTable::remove(std::uint64_t region_id) {
    const std::uint64_t index = region_id & ((std::uint64_t{1} << slot_bits) - 1);
    const std::lock_guard lock(mutex_);
    Slot* s = slot(index);
    if (s == nullptr) {
        return;
    }
    const std::uint64_t state = s->state.load(std::memory_order_relaxed);
    if (state >> state_shift != region_id >> slot_bits || (state & live_bit) == 0) {
        return;
    }
    s->state.fetch_sub(live_bit, std::memory_order_relaxed);
    // Acquire: pairs with the pins' release, so the range is quiet when we return.
    while ((s->state.load(std::memory_order_acquire) & pin_mask) != 0) {
        std::this_thread::yield();
    }
    {
        const std::lock_guard observers_lock(observers_mutex_);
        for (const auto& [observer, self] : observers_) {
            observer(self, region_id);
        }
    }
    free_.push_back(static_cast<std::uint32_t>(index));
}

void RegionTable::add_observer(Observer observer, void* self) {
    const std::lock_guard lock(observers_mutex_);
    observers_.emplace_back(observer, self);
}

void RegionTable::remove_observer(void* self) {
    const std::lock_guard lock(observers_mutex_);
    std::erase_if(observers_, [self](const auto& entry) { return entry.second == self; });
}

RegionTable::Pin RegionTable::pin(std::uint64_t region_id) noexcept {
    Pin result;
    const std::uint64_t index = region_id & ((std::uint64_t{1} << slot_bits) - 1);
    Slot* s = slot(index);
    if (s == nullptr) {
        return result;
    }
    // Acquire: the region's fields are read after its generation.
    const std::uint64_t before = s->state.fetch_add(1, std::memory_order_acquire);
    if ((before & live_bit) == 0 || before >> state_shift != region_id >> slot_bits) {
        s->state.fetch_sub(1, std::memory_order_relaxed);
        return result;
    }
    result.pins_ = &s->state;
    result.region_ = &s->region;
    return result;
}

} // namespace comch
