#include "core/memory/kept_registrations.hpp"

#include <algorithm>
#include <cstdint>

#include <sys/resource.h>

#include "core/memory/region_table.hpp"

namespace comch {

// Who unmaps memory says so before, or is held up until it has been said, and who uses the addresses
// for a buffer again does so after: the program itself has put the two into an order, or the watch says
// that it is not up to date, so nothing here needs to. What a thread that tells of other memory reads
// of a place that is just being filled anew may be half old, half new: at worst it calls stale what is
// not.

namespace {

using Followed = KeptRegistrations::Followed;

// Acquire and release: who finds that memory has left one of two finds it in the other.
AddressRange range_of(const Followed& memory) noexcept {
    return {memory.begin.load(std::memory_order_acquire),
            memory.end.load(std::memory_order_acquire)};
}

void set(Followed& memory, AddressRange range) noexcept {
    memory.stale.store(false, std::memory_order_relaxed);
    if (range.end == 0) { // empty between the two stores, too
        memory.end.store(0, std::memory_order_release);
        memory.begin.store(0, std::memory_order_release);
    } else {
        memory.begin.store(range.begin, std::memory_order_release);
        memory.end.store(range.end, std::memory_order_release);
    }
}

bool is_stale(const Followed& memory) noexcept {
    return memory.stale.load(std::memory_order_relaxed);
}

bool overlap(AddressRange a, AddressRange b) noexcept {
    return a.begin < b.end && b.begin < a.end;
}

} // namespace

KeptRegistrations::~KeptRegistrations() {
    for (Kept& kept : ever_used()) {
        drop(kept);
    }
    watch_.reset();
}

bool KeptRegistrations::may_pin_much() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

bool KeptRegistrations::watch_by_kernel() {
    watch_ = comch::watch_by_kernel(*this);
    return watch_ != nullptr;
}

bool KeptRegistrations::watch_by_hooks() {
    watch_ = comch::watch_by_hooks(*this);
    return watch_ != nullptr;
}

std::span<KeptRegistrations::Kept> KeptRegistrations::ever_used() noexcept {
    return std::span(places_).first(used_.load(std::memory_order_acquire));
}

KeptRegistrations::Kept* KeptRegistrations::get(std::byte* base, std::uint64_t length,
                                                std::uint32_t access, const Register& register_it) {
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    const AddressRange memory{begin, begin + length};
    if (length == 0 || memory.end < memory.begin ||
        (watch_ != nullptr && !watch_->is_up_to_date())) {
        return nullptr;
    }
    drop_stale();
    Kept* kept = find(memory, access);
    if (kept == nullptr && has_room()) {
        kept = make(memory, access, register_it);
    }
    if (kept != nullptr) {
        ++kept->users_;
        kept->used_at_ = ++clock_;
    }
    return kept;
}

/// Memory that is followed but has no place yet; if it gets none, it is not followed any more.
class KeptRegistrations::Making {
public:
    Making(KeptRegistrations& all, AddressRange memory) : all_(all), memory_(memory) {
        set(all_.being_made_, memory);
        follows_ = all_.watch_ == nullptr || all_.watch_->follow(memory);
    }
    ~Making() {
        set(all_.being_made_, {}); // first: else the memory is held
        if (!has_place_ && all_.watch_ != nullptr) {
            all_.watch_->forget(memory_);
        }
    }
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

    [[nodiscard]] bool follows() const noexcept { return follows_; }
    void move_to(Kept& place) noexcept {
        set(place.memory_, memory_);
        has_place_ = true;
        // As in on_unmapped(): either it finds the place, or what it found before is found here.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (is_stale(all_.being_made_)) {
            place.memory_.stale.store(true, std::memory_order_relaxed);
            all_.any_stale_.store(true, std::memory_order_relaxed);
        }
    }

private:
    KeptRegistrations& all_;
    AddressRange memory_;
    bool follows_;
    bool has_place_ = false;
};

KeptRegistrations::Kept* KeptRegistrations::make(AddressRange memory, std::uint32_t access,
                                                 const Register& register_it) {
    Making making(*this, memory);
    if (!making.follows()) {
        drop_stale(); // perhaps nothing is told of any more
        return nullptr;
    }
    const std::uint64_t region =
        register_it(reinterpret_cast<std::byte*>(memory.begin), memory.end - memory.begin, access);
    if (region == 0) {
        return nullptr; // and what is kept stays
    }
    drop_replaced(memory);
    Kept& kept = make_room();
    kept.region_ = region;
    kept.access_ = access;
    making.move_to(kept);
    return &kept;
}

void KeptRegistrations::put(Kept& kept) {
    --kept.users_;
    drop_stale();
}

KeptRegistrations::Kept* KeptRegistrations::find(AddressRange memory,
                                                 std::uint32_t access) noexcept {
    for (Kept& kept : ever_used()) {
        const auto [begin, end] = range_of(kept.memory_);
        const bool serves =
            access == 0 ? begin <= memory.begin && memory.end <= end
                        : begin == memory.begin && end == memory.end && kept.access_ == access;
        if (kept.region_ != 0 && serves && !is_stale(kept.memory_)) {
            return &kept;
        }
    }
    return nullptr;
}

void KeptRegistrations::drop_replaced(AddressRange memory) {
    for (Kept& kept : ever_used()) {
        const auto [begin, end] = range_of(kept.memory_);
        // (Those for peers are of use to nobody else: see find().)
        if (kept.region_ != 0 && kept.users_ == 0 && kept.access_ == 0 && memory.begin <= begin &&
            end <= memory.end) {
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
        if (kept.region_ == 0 || !is_stale(kept.memory_)) {
            continue;
        }
        if (kept.users_ == 0) {
            drop(kept);
        } else {
            any_stale_.store(true, std::memory_order_relaxed);
        }
    }
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
        used_.store(used + 1, std::memory_order_release);
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
    const AddressRange memory = range_of(kept.memory_);
    set(kept.memory_, {});
    RegionTable::instance().remove(kept.region_);
    kept.region_ = 0;
    if (watch_ != nullptr) {
        watch_->forget(memory); // some of it may be there all the same
    }
}

void KeptRegistrations::on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const auto tell = [&](Followed& memory) {
        const bool is_gone = overlap(range_of(memory), {begin, end});
        if (is_gone) {
            memory.stale.store(true, std::memory_order_relaxed);
        }
        return is_gone;
    };
    (void)tell(being_made_);
    std::atomic_thread_fence(std::memory_order_seq_cst); // it may be moving to its place
    for (Kept& kept : ever_used()) {
        if (tell(kept.memory_)) {
            any_stale_.store(true, std::memory_order_release); // behind what it tells of
        }
    }
}

std::optional<AddressRange> KeptRegistrations::first_followed(std::uintptr_t begin,
                                                              std::uintptr_t end) const noexcept {
    std::optional<AddressRange> first;
    const auto look = [&](const Followed& memory) {
        const AddressRange range = range_of(memory);
        if (overlap(range, {begin, end}) && (!first || range.begin < first->begin)) {
            first = range;
        }
    };
    look(being_made_);
    for (const Kept& kept : std::span(places_).first(used_.load(std::memory_order_acquire))) {
        look(kept.memory_);
    }
    return first;
}

} // namespace comch
