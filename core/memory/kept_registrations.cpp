#include "core/memory/kept_registrations.hpp"

#include <algorithm>
#include <cstdint>

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
    if (length == 0 || end < begin) {
        return nullptr;
    }
    drop_stale();
    Kept* kept = find(begin, end, access);
    if (kept == nullptr) {
        if (!has_room() || !still_watches()) {
            return nullptr;
        }
        const std::uint64_t region = make(base, length, access);
        if (region == 0) {
            return nullptr; // and what is kept stays
        }
        drop_replaced(begin, end);
        kept = &make_room();
        kept->region_ = region;
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
    --kept.users_;
    drop_stale();
}

KeptRegistrations::Kept* KeptRegistrations::find(std::uintptr_t begin, std::uintptr_t end,
                                                 std::uint32_t access) noexcept {
    for (Kept& kept : ever_used()) {
        const std::uintptr_t first = kept.begin_.load(std::memory_order_relaxed);
        const std::uintptr_t last = kept.end_.load(std::memory_order_relaxed);
        const bool serves = access == 0 ? first <= begin && end <= last
                                        : first == begin && end == last && kept.access_ == access;
        if (kept.region_ != 0 && serves && !kept.stale_.load(std::memory_order_relaxed)) {
            return &kept;
        }
    }
    return nullptr;
}

void KeptRegistrations::drop_replaced(std::uintptr_t begin, std::uintptr_t end) {
    for (Kept& kept : ever_used()) {
        // (Those for peers are of use to nobody else: see find().)
        if (kept.region_ != 0 && kept.users_ == 0 && kept.access_ == 0 &&
            begin <= kept.begin_.load(std::memory_order_relaxed) &&
            kept.end_.load(std::memory_order_relaxed) <= end) {
            drop(kept);
        }
    }
}

void KeptRegistrations::drop_stale() {
    // Those in use are looked at again when they are given back.
    if (!any_stale_.load(std::memory_order_relaxed)) [[likely]] {
        return;
    }
    // Before the look: what becomes stale during it is seen by the next.
    (void)any_stale_.exchange(false, std::memory_order_acq_rel);
    for (Kept& kept : ever_used()) {
        if (kept.region_ == 0 || !kept.stale_.load(std::memory_order_relaxed)) {
            continue;
        }
        if (kept.users_ == 0) {
            drop(kept);
        } else {
            any_stale_.store(true, std::memory_order_relaxed);
        }
    }
}

bool KeptRegistrations::still_watches() {
    if (watch_ == nullptr || watch_->works()) {
        return true;
    }
    // What is kept may have been unmapped unseen.
    on_unmapped(0, UINTPTR_MAX);
    drop_stale();
    return false;
}

bool KeptRegistrations::has_room() noexcept {
    const auto used = ever_used();
    return used.size() < capacity || std::any_of(used.begin(), used.end(), [](const Kept& kept) {
               return kept.region_ == 0 || kept.users_ == 0;
           });
}

KeptRegistrations::Kept& KeptRegistrations::make_room() {
    Kept* free = nullptr;
    Kept* oldest = nullptr;
    for (Kept& kept : ever_used()) {
        if (kept.region_ == 0) {
            free = &kept;
        } else if (kept.users_ == 0 && (oldest == nullptr || kept.used_at_ < oldest->used_at_)) {
            oldest = &kept;
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
    return *free;
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
            any_stale_.store(true, std::memory_order_release); // behind what it tells of
        }
    }
}

} // namespace comch
