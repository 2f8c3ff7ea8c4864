// Which way a get takes: through the bulk ring, in two copies, both CPUs at the same time; in one copy, our
// CPU alone; or in one copy, both CPUs a part each. (The kernel makes that copy, or, of memory that is mapped
// here, we do.) Which is fastest depends on the CPUs' caches and where they lie, on the kernel, and on what
// else the owner has to do. So all are timed, for each length by itself.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "core/link/soft/known_ways.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class CopyWays {
public:
    enum class Way : std::uint8_t { ring, alone, joint };

    /// When the ring is a way, too.
    enum class Ring : std::uint8_t {
        never,
        later, ///< when much has been copied (tuning::before_ring), or ring_is_used()
        now,
    };
    explicit CopyWays(Ring ring = Ring::now) noexcept : ring_(ring) {}

    /// From now on this one and others that share `known` tell each other what they find; it outlives them.
    void share(KnownWays& known) noexcept { known_ = &known; }

    /// Shorter ones go through the ring.
    [[nodiscard]] static constexpr bool has_choice(std::uint64_t length) noexcept {
        return length >= shortest;
    }

    /// The way of the next get. `joint`: the owner may be asked to help.
    [[nodiscard]] Way choose(std::uint64_t length, bool joint = true) noexcept {
        Lengths& these = lengths_[index_of(length)];
        if (ring_ == Ring::later &&
            copied_ + tuning::alike_before_ring * length > tuning::before_ring) [[unlikely]] {
            ring_ = Ring::now;
        }
        if (these.trying == none
                ? --these.to_come == 0 || (these.ring_to_come && ring_ == Ring::now)
                : these.trying == 0 && !has_begun(these)) [[unlikely]] {
            begin_trial(these, length);
        }
        while (these.trying != none && !may_take(these, all[these.trying], true)) {
            these.ring_to_come |= all[these.trying] == Way::ring && ring_ == Ring::later;
            next_way(these, length);
        }
        if (these.trying == none) [[likely]] {
            return usual(these, joint);
        }
        // (What the owner cannot help with now is not left to it for later, either: that would disturb
        // the next.)
        const Way way = all[these.trying];
        return way == Way::joint && !joint ? Way::alone : way;
    }
    /// The one that a way was chosen for has not begun: it will be asked for again, and was none.
    void put_off(std::uint64_t length) noexcept {
        Lengths& these = lengths_[index_of(length)];
        if (these.trying == none) {
            ++these.to_come;
        }
    }
    /// The ring has its pages, so it is a way from now on, if it is one later.
    void ring_is_used() noexcept {
        if (ring_ == Ring::later) {
            ring_ = Ring::now;
        }
    }
    [[nodiscard]] bool may_use_ring() const noexcept { return ring_ == Ring::now; }
    /// The next get is to find out how fast its way is.
    [[nodiscard]] bool trying(std::uint64_t length) const noexcept {
        return lengths_[index_of(length)].trying != none;
    }

    /// What one took that did not succeed.
    static constexpr std::uint64_t in_vain = std::uint64_t{1} << 40;

    /// What one of `length` took, in any unit as long as it is always the same; where only a part of it
    /// went that way, what that took. (More than any can have taken, as of one that ended before it began
    /// by a counter that went back, is left out.)
    void took(Way way, std::uint64_t length, std::uint64_t time) noexcept {
        took(way, length, time, length);
    }
    void took(Way way, std::uint64_t length, std::uint64_t time, std::uint64_t part) noexcept {
        Lengths& these = lengths_[index_of(length)];
        if (time > in_vain) {
            return;
        }
        if (way != Way::ring) {
            // (What cannot be copied so is not tried again for the pages' sake.)
            copied_ += time == in_vain ? tuning::before_ring : part;
        }
        const bool trial = these.trying != none;
        if (trial && way != all[these.trying]) {
            // Begun before, or without asking which; or it stands in for what could not be tried. It is told
            // of all the same: the first of a way, which alone have been its trial, may have met new pages.
            if (way == these.latest) {
                (void)add(these, way, length, time, part);
            }
            if (all[these.trying] == Way::joint && ++these.stand_ins >= tuning::most_stand_ins) {
                next_way(these, length);
            }
        } else if (add(these, way, length, time, part)) {
            trial ? next_way(these, length) : doubt(these, length, time == in_vain);
        }
    }

private:
    static constexpr std::uint64_t shortest = 8 * 1024;
    static constexpr auto shortest_width = std::bit_width(shortest);
    static constexpr std::array all{Way::ring, Way::alone, Way::joint};
    static constexpr std::size_t none = all.size();
    /// More for a MiB than any that succeeded takes.
    static constexpr std::uint64_t hopeless = in_vain >> 10;

    struct Cost {
        std::uint64_t value = 0; ///< time for a MiB; 0: not known
        std::uint64_t first = 0; ///< the same of the first half of the latest
        std::uint64_t time = 0;  ///< of the others, together
        std::uint64_t kib = 0;
        std::uint64_t samples = 0;
    };
    struct Lengths {
        std::array<Cost, all.size()> costs{};
        std::size_t trying = 0;      ///< in a trial: index of the way whose turn it is; or none
        std::uint32_t stand_ins = 0; ///< gets that went another way since then
        std::uint64_t to_come = 0;   ///< until the next trial
        Way found = Way::ring;       ///< to be the best
        unsigned same = 0;           ///< ends of trials since then
        unsigned doubts = 0;         ///< times in a row that another seemed to be, between trials
        bool ring_to_come = false;   ///< it was no way yet in the last trial
        Way latest = Way::ring;
        std::uint32_t to_skip = 0;
        std::array<bool, 2>
            begun{}; ///< trials without and with the ring: own ones, or another's were taken over
        unsigned waited = 0; ///< times, for another's
        Cost& at(Way way) noexcept { return costs[static_cast<std::size_t>(way)]; }
    };

    /// True: with this one there are enough of them, and the value is new.
    [[nodiscard]] static bool add(Lengths& these, Way way, std::uint64_t length, std::uint64_t time,
                                  std::uint64_t part) noexcept {
        Cost& cost = these.at(way);
        // The first after another way find the buffers in the other CPU's cache.
        if (these.latest != way) {
            these.latest = way;
            these.to_skip = skipped(way, length, these.trying != none);
        }
        if (these.to_skip != 0 && time != in_vain) {
            --these.to_skip;
            return false;
        }
        cost.time += time;
        cost.kib += part >> 10;
        if (++cost.samples < tuning::way_pace(length).samples / 2) {
            return false;
        }
        // Together: of several under way one may seem to take all the time and the others none.
        std::uint64_t value = (cost.time << 10) / cost.kib + 1;
        cost.time = cost.kib = cost.samples = 0;
        if (cost.first == 0) {
            cost.first = value;
            return false;
        }
        // Nothing is fast by accident. Who lost the CPU meanwhile, or got new pages, took very long; that
        // alone must not decide: neither one of the first ones, when nothing else is known, nor later.
        value = std::min(value, std::exchange(cost.first, 0));
        cost.value = cost.value == 0 || value < cost.value
                         ? value
                         : (cost.value + std::min(value, 2 * cost.value)) / 2;
        return true;
    }
    /// After a change to that way. (Between trials the parts of a joint copy are as long as they should be.)
    [[nodiscard]] static std::uint32_t skipped(Way way, std::uint64_t length, bool trial) noexcept {
        const tuning::WayPace& pace = tuning::way_pace(length);
        switch (way) {
        case Way::ring:
            return std::max(pace.skipped, tuning::gets_until_warm(length));
        case Way::alone:
            return pace.skipped;
        case Way::joint:
            return trial ? pace.skipped_jointly : pace.skipped;
        }
        return 0;
    }

    /// Its first one of this kind, without or with the ring; where nobody tells, it does not matter.
    [[nodiscard]] bool has_begun(const Lengths& these) const noexcept {
        return known_ == nullptr || these.begun[may_use_ring() ? 1 : 0];
    }
    /// The first without and with the ring: unless another has had it.
    void begin_trial(Lengths& these, std::uint64_t length) noexcept {
        these.ring_to_come = false;
        if (!has_begun(these)) {
            const bool ring = may_use_ring();
            KnownWays::Found& found = known_->at(index_of(length), ring);
            if (!found.known && found.being_tried && these.waited != tuning::most_waits) {
                ++these.waited;
                these.trying = none;
                these.to_come = tuning::gets_to_wait;
                return;
            }
            these.begun[ring ? 1 : 0] = true;
            these.waited = 0;
            if (found.known) {
                take_over(these, found);
                these.trying = none;
                these.to_come = tuning::way_pace(length).period;
                return;
            }
            found.being_tried = true;
        }
        these.trying = 0;
        these.stand_ins = 0;
    }
    void take_over(Lengths& these, const KnownWays::Found& found) noexcept {
        for (std::size_t i = 0; i < these.costs.size(); ++i) {
            if (found.costs[i] != 0) {
                these.costs[i].value = found.costs[i];
            }
        }
        these.found = best_of(these, true);
        these.doubts = 0;
        these.ring_to_come = ring_ == Ring::later;
    }
    /// What the kernel refuses here it may not refuse elsewhere: that is told to nobody.
    void tell(Lengths& these, std::uint64_t length) noexcept {
        if (known_ == nullptr || these.at(Way::alone).value >= hopeless) {
            return;
        }
        KnownWays::Found& found = known_->at(index_of(length), these.at(Way::ring).value != 0);
        for (std::size_t i = 0; i < these.costs.size(); ++i) {
            found.costs[i] = these.costs[i].value;
        }
        found.known = true;
    }

    void next_way(Lengths& these, std::uint64_t length) noexcept {
        these.stand_ins = 0;
        if (++these.trying != none) {
            return;
        }
        const std::uint64_t period = tuning::way_pace(length).period;
        note_best(these, length);
        tell(these, length);
        these.to_come = tuning::period_after(++these.same, period);
    }
    void note_best(Lengths& these, std::uint64_t length) noexcept {
        these.doubts = 0;
        if (const Way best = best_of(these, true); best != these.found) {
            these.found = best;
            these.same = 0;
            these.to_come = std::min<std::uint64_t>(these.to_come, tuning::way_pace(length).period);
        }
    }
    /// Between trials. Who is interrupted for a millisecond is slow for that long, and what the other ways took
    /// is not known any better: that alone must not decide for a whole period.
    void doubt(Lengths& these, std::uint64_t length, bool failed) noexcept {
        if (best_of(these, true) == these.found) {
            these.doubts = 0;
        } else if (++these.doubts == tuning::doubts_to_leave || failed) {
            note_best(these, length);
        }
    }
    [[nodiscard]] Way usual(Lengths& these, bool joint) const noexcept {
        return may_take(these, these.found, joint) ? these.found : best_of(these, joint);
    }

    /// What the kernel alone could not do it cannot do together with the owner; and what is short is copied
    /// sooner than the owner has begun.
    [[nodiscard]] bool may_take(Lengths& these, Way way, bool joint) const noexcept {
        switch (way) {
        case Way::ring:
            return may_use_ring();
        case Way::alone:
            return true;
        case Way::joint:
            return joint && these.at(Way::alone).value < hopeless &&
                   &these >= &lengths_[index_of(tuning::shortest_joint)];
        }
        return false;
    }
    [[nodiscard]] Way best_of(Lengths& these, bool joint) const noexcept {
        Way result = may_use_ring() ? Way::ring : Way::alone;
        for (const Way way : all) {
            const std::uint64_t value = these.at(way).value;
            const std::uint64_t so_far = these.at(result).value;
            if (may_take(these, way, joint) && value != 0 && (so_far == 0 || value < so_far)) {
                result = way;
            }
        }
        return result;
    }

    /// Lengths of the same power of two; all of the longest are one.
    [[nodiscard]] std::size_t index_of(std::uint64_t length) const noexcept {
        return std::min<std::size_t>(std::bit_width(length) - shortest_width, lengths_.size() - 1);
    }

    static_assert(all.size() == KnownWays::ways);
    std::array<Lengths, KnownWays::lengths> lengths_{}; ///< from 8 KiB up to 64 MiB
    std::uint64_t copied_ = 0;                          ///< not by the ring
    KnownWays* known_ = nullptr;
    Ring ring_;
};

} // namespace comch::link::soft
