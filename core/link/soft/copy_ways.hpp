// Which way a get takes: through the bulk ring, in two copies, both CPUs at the same time; in one copy, our
// CPU alone; or in one copy, both CPUs a part each. (The kernel makes that copy, or, of memory that is mapped
// here, we do.) Which is fastest depends on the CPUs' caches and where they lie, on the kernel, and on what
// else the owner has to do. So all are timed, for each length by itself.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class CopyWays {
public:
    enum class Way : std::uint8_t { ring, alone, joint };

    /// `ring`: that is a way, too.
    explicit CopyWays(bool ring = true) noexcept : ring_(ring) {}

    /// Shorter ones go through the ring.
    [[nodiscard]] static constexpr bool has_choice(std::uint64_t length) noexcept {
        return length >= shortest;
    }

    /// The way of the next get. `joint`: the owner may be asked to help.
    [[nodiscard]] Way choose(std::uint64_t length, bool joint = true) noexcept {
        Lengths& these = lengths_[index_of(length)];
        for (const Way way : all) {
            if (these.at(way).value == 0 && may_take(these, way, joint)) {
                return way;
            }
        }
        // At the end of each period, each of them.
        const tuning::WayPace& pace = tuning::way_pace(length);
        const Way best = best_of(these, joint);
        if (const Way usual = best_of(these, true); usual != these.found) {
            these.found = usual;
            these.same = 0;
            these.to_come = std::min<std::uint64_t>(these.to_come, pace.period);
        }
        if (these.to_come == 0) {
            these.to_come = tuning::period_after(++these.same, pace.period);
        }
        --these.to_come;
        if (these.to_come >= all.size() * pace.turn() + tuning::most_until_warm) [[likely]] {
            return best; // no division for most
        }
        std::uint64_t end = 0;
        for (const Way way : all) {
            end += pace.samples + skipped(way, length);
            if (these.to_come < end) {
                return may_take(these, way, joint) ? way : best;
            }
        }
        return best;
    }

    /// The fastest as far as is known. (Another than choose() answers is tried.)
    [[nodiscard]] Way best(std::uint64_t length, bool joint) noexcept {
        return best_of(lengths_[index_of(length)], joint);
    }

    /// What one took that did not succeed.
    static constexpr std::uint64_t in_vain = std::uint64_t{1} << 40;

    /// What one of `length` took, in any unit as long as it is always the same; where only a part of it
    /// went that way, what that took. (More than any can have taken, as the difference of a counter that
    /// went back, is left out.)
    void took(Way way, std::uint64_t length, std::uint64_t time) noexcept {
        took(way, length, time, length);
    }
    void took(Way way, std::uint64_t length, std::uint64_t time, std::uint64_t part) noexcept {
        Lengths& these = lengths_[index_of(length)];
        Cost& cost = these.at(way);
        if (time > in_vain) {
            return;
        }
        // The first after another way find the buffers in the other CPU's cache.
        if (these.latest != way) {
            these.latest = way;
            these.to_skip = skipped(way, length);
        }
        if (these.to_skip != 0 && time != in_vain) {
            --these.to_skip;
            return;
        }
        cost.time += time;
        cost.kib += part >> 10;
        if (++cost.samples < tuning::way_pace(length).samples) {
            return;
        }
        // Together: of several under way one may seem to take all the time and the others none.
        const std::uint64_t value = (cost.time << 10) / cost.kib + 1;
        // Nothing is fast by accident. Who lost the CPU meanwhile took very long; that alone must
        // not decide.
        cost.value = cost.value == 0 || value < cost.value
                         ? value
                         : (cost.value + std::min(value, 2 * cost.value)) / 2;
        cost.time = cost.kib = cost.samples = 0;
    }

private:
    /// After a change to that way.
    [[nodiscard]] static std::uint32_t skipped(Way way, std::uint64_t length) noexcept {
        const std::uint32_t few = tuning::way_pace(length).skipped;
        return way == Way::ring ? std::max(few, tuning::gets_until_warm(length)) : few;
    }

    static constexpr std::uint64_t shortest = 8 * 1024;
    static constexpr auto shortest_width = std::bit_width(shortest);

    struct Cost {
        std::uint64_t value = 0; ///< time for a MiB; 0: not known
        std::uint64_t time = 0;  ///< of the latest, together
        std::uint64_t kib = 0;
        std::uint64_t samples = 0;
    };
    static constexpr std::array all{Way::ring, Way::alone, Way::joint};
    /// More for a MiB than any that succeeded takes.
    static constexpr std::uint64_t hopeless = in_vain >> 10;

    struct Lengths {
        std::array<Cost, all.size()> costs{};
        std::uint64_t to_come = 0; ///< of the period
        Way found = Way::ring;     ///< to be the best
        unsigned same = 0;         ///< ends of periods since then
        Way latest = Way::ring;
        std::uint32_t to_skip = 0;
        Cost& at(Way way) noexcept { return costs[static_cast<std::size_t>(way)]; }
    };

    /// What the kernel alone could not do it cannot do together with the owner.
    [[nodiscard]] bool may_take(Lengths& these, Way way, bool joint) const noexcept {
        switch (way) {
        case Way::ring:
            return ring_;
        case Way::alone:
            return true;
        case Way::joint:
            return joint && these.at(Way::alone).value < hopeless;
        }
        return false;
    }
    [[nodiscard]] Way best_of(Lengths& these, bool joint) const noexcept {
        Way result = ring_ ? Way::ring : Way::alone;
        for (const Way way : all) {
            if (may_take(these, way, joint) && these.at(way).value != 0 &&
                these.at(way).value < these.at(result).value) {
                result = way;
            }
        }
        return result;
    }

    /// Lengths of the same power of two; all of the longest are one.
    [[nodiscard]] std::size_t index_of(std::uint64_t length) const noexcept {
        return std::min<std::size_t>(std::bit_width(length) - shortest_width, lengths_.size() - 1);
    }

    std::array<Lengths, 14> lengths_{}; ///< from 8 KiB up to 64 MiB
    bool ring_;
};

} // namespace comch::link::soft
