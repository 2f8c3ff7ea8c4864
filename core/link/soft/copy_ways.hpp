// Which way a get takes: through the bulk ring, both CPUs copying at the same time, or by the kernel, our
// CPU alone, in one copy. Which is faster depends on the CPUs' caches and where they lie, on the kernel,
// and on what else the owner has to do. So both are timed, for each length by itself.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class CopyWays {
public:
    enum class Way : std::uint8_t { ring, kernel };

    /// Shorter ones go through the ring.
    [[nodiscard]] static constexpr bool has_choice(std::uint64_t length) noexcept {
        return length >= shortest;
    }

    /// The way of the next get.
    [[nodiscard]] Way choose(std::uint64_t length) noexcept {
        Lengths& these = lengths_[index_of(length)];
        for (const Way way : {Way::ring, Way::kernel}) {
            if (these.at(way).value == 0) {
                return way;
            }
        }
        const bool again = ++these.chosen % tuning::way_period < tuning::way_samples;
        return again ? other(these.better()) : these.better();
    }

    /// What one took that did not succeed.
    static constexpr std::uint64_t in_vain = std::uint64_t{1} << 40;

    /// What one took, in any unit as long as it is always the same. (More than any can have taken, as
    /// the difference of a counter that went back, is left out.)
    void took(Way way, std::uint64_t length, std::uint64_t time) noexcept {
        Cost& cost = lengths_[index_of(length)].at(way);
        if (time > in_vain) {
            return;
        }
        cost.time += time;
        cost.kib += length >> 10;
        if (++cost.samples < tuning::way_samples) {
            return;
        }
        // Together: of several under way one may seem to take all the time and the others none.
        // Who lost the CPU meanwhile took very long; that alone must not decide, nor for long.
        const std::uint64_t value = (cost.time << 10) / cost.kib + 1;
        cost.value = cost.value == 0 ? value
                                     : (std::min(cost.value, 4 * value) +
                                        std::min(value, 2 * cost.value)) /
                                           2;
        cost.time = cost.kib = cost.samples = 0;
    }

private:
    static constexpr std::uint64_t shortest = 8 * 1024;
    static constexpr auto shortest_width = std::bit_width(shortest);

    struct Cost {
        std::uint64_t value = 0; ///< time for a MiB; 0: not known
        std::uint64_t time = 0;  ///< of the latest, together
        std::uint64_t kib = 0;
        std::uint64_t samples = 0;
    };
    struct Lengths {
        Cost ring;
        Cost kernel;
        std::uint64_t chosen = 0;
        Cost& at(Way way) noexcept { return way == Way::ring ? ring : kernel; }
        [[nodiscard]] Way better() const noexcept {
            return kernel.value != 0 && kernel.value < ring.value ? Way::kernel : Way::ring;
        }
    };

    [[nodiscard]] static constexpr Way other(Way way) noexcept {
        return way == Way::ring ? Way::kernel : Way::ring;
    }
    /// Lengths of the same power of two; all of the longest are one.
    [[nodiscard]] std::size_t index_of(std::uint64_t length) const noexcept {
        return std::min<std::size_t>(std::bit_width(length) - shortest_width, lengths_.size() - 1);
    }

    std::array<Lengths, 14> lengths_{}; ///< from 8 KiB up to 64 MiB
};

} // namespace comch::link::soft
