#include "core/memory/kept_registrations.hpp"

#include <sys/resource.h>

#include "core/memory/region_table.hpp"

namespace comch {

// Who unmaps memory says so before, and who uses the addresses for a buffer again does so after:
// the program itself has put the two into an order, so nothing here needs to. What a thread that
// unmaps other memory reads of a place that is just being filled anew may be half old, half new: at
// worst it calls stale what is not.

KeptRegistrations::~KeptRegistrations() {
    watch_.reset();
    for (Kept& kept : ever_used()) {
        drop(kept);
    }
}

bool KeptRegistrations::may_pin_much() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

bool KeptRegistrations::watch() {
    watch_ = std::make_unique<UnmapWatch>(
        [](void* self, std::uintptr_t begin, std::uintptr_t end) {
            static_cast<KeptRegistrations*>(self)->on_unmapped(begin, end);
        },
        this);
    return watch_->works();
}

std::span<KeptRegistrations::Kept> KeptRegistrations::ever_used() noexcept {
    return std::span(places_).first(used_.load(std::memory_order_relaxed));
}

KeptRegistrations::Kept* KeptRegistrations::get(std::byte* base, std::uint64_t length,
                                                std::uint32_t access, const Register& make) {
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    const std::uintptr_t end = begin + length;
    Kept* kept = find(begin, end, access);
    if (kept == nullptr) {
        kept = make_room(begin, end, access);
        if (kept == nullptr) {
            return nullptr;
        }
        kept->region_ = make(base, length, access);
        if (kept->region_ == 0) {
            return nullptr;
        }
        kept->access_ = access;
        kept->stale_.store(false, std::memory_order_relaxed);
        kept->begin_.store(begin, std::memory_order_relaxed);
        kept->end_.store(end, std::memory_order_relaxed);
    }
    ++kept->users_;
    kept->used_at_ = ++clock_;
    return kept;
}

void KeptRegistrations::put(Kept& kept) {
    if (--kept.users_ == 0 && kept.stale_.load(std::memory_order_relaxed)) {
        drop(kept);
    }
}

KeptRegistrations::Kept* KeptRegistrations::find(std::uintptr_t begin, std::uintptr_t end,
                                                 std::uint32_t access) noexcept {
    for (Kept& kept : ever_used()) {
        if (kept.region_ != 0 && kept.begin_.load(std::memory_order_relaxed) <= begin &&
            end <= kept.end_.load(std::memory_order_relaxed) && (kept.access_ & access) == access &&
            !kept.stale_.load(std::memory_order_relaxed)) {
            return &kept;
        }
    }
    return nullptr;
}

KeptRegistrations::Kept* KeptRegistrations::make_room(std::uintptr_t begin, std::uintptr_t end,
                                                      std::uint32_t access) {
    Kept* free = nullptr;
    Kept* oldest = nullptr;
    for (Kept& kept : ever_used()) {
        if (kept.region_ != 0 && kept.users_ == 0) {
            const bool replaced = begin <= kept.begin_.load(std::memory_order_relaxed) &&
                                  kept.end_.load(std::memory_order_relaxed) <= end &&
                                  (kept.access_ & ~access) == 0;
            if (replaced || kept.stale_.load(std::memory_order_relaxed)) {
                drop(kept);
            } else if (oldest == nullptr || kept.used_at_ < oldest->used_at_) {
                oldest = &kept;
            }
        }
        if (kept.region_ == 0) {
            free = &kept;
        }
    }
    const std::size_t used = used_.load(std::memory_order_relaxed);
    if (free == nullptr && used < capacity) {
        free = &places_[used];
        used_.store(used + 1, std::memory_order_relaxed);
    }
    if (free == nullptr && oldest != nullptr) {
        drop(*oldest);
        free = oldest;
    }
    return free;
}

void KeptRegistrations::drop(Kept& kept) {
    if (kept.region_ == 0) {
        return;
    }
    kept.begin_.store(0, std::memory_order_relaxed);
    kept.end_.store(0, std::memory_order_relaxed);
    RegionTable::instance().remove(kept.region_);
    kept.region_ = 0;
}

void KeptRegistrations::on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (Kept& kept : ever_used()) {
        if (kept.begin_.load(std::memory_order_relaxed) < end &&
            begin < kept.end_.load(std::memory_order_relaxed)) {
            kept.stale_.store(true, std::memory_order_relaxed);
        }
    }
}

} // namespace comch
