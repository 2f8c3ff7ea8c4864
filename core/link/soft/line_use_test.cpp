// How the lines of a ring are used: as it is fastest with the traffic that there is.
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "core/link/soft/line_use.hpp"

namespace comch::link::soft {
namespace {

constexpr std::uint32_t cells = tuning::ring_cells;
constexpr std::size_t ways = LineUse::ways.size();

/// A stream of messages of half a line that laps its ring.
struct Stream {
    LineUse use{cells};
    std::uint64_t position = 0;
    std::uint64_t messages = 0;
    std::uint64_t now = 1'000'000;
    std::array<std::uint64_t, ways> laps{};

    [[nodiscard]] std::size_t way() const {
        return static_cast<std::size_t>(&use.now() - LineUse::ways.data());
    }
    /// Nanoseconds that a message takes.
    using Times = std::function<std::uint64_t(std::size_t way)>;
    void run(std::uint64_t count, const Times& takes, std::uint64_t per_lap = cells) {
        for (std::uint64_t lap = 0; lap < count; ++lap) {
            ++laps[way()];
            position += cells;
            messages += per_lap;
            now += per_lap * takes(way());
            ASSERT_TRUE(use.has_lapped(position));
            use.took(position, messages, now);
            ASSERT_FALSE(use.has_lapped(position + cells - 1));
        }
    }
    [[nodiscard]] std::uint64_t laps_of_others_than(std::size_t which) const {
        return std::accumulate(laps.begin(), laps.end(), std::uint64_t{0}) - laps[which];
    }
};

Stream::Times fastest(std::size_t which) {
    return [=](std::size_t way) { return way == which ? 20 : 30; };
}

/// Laps of one trial.
constexpr std::uint64_t trial = 2 * tuning::line_use_samples * ways;
/// (What began before the first lap is not known, so that one does not count.)
constexpr std::uint64_t enough_laps = 1 + tuning::line_use_first_trial + trial;

TEST(LineUse, IsTheFastest) {
    for (std::size_t which = 0; which < ways; ++which) {
        Stream stream;
        stream.run(enough_laps, fastest(which));
        EXPECT_EQ(stream.way(), which);
        const std::uint64_t others = stream.laps_of_others_than(which);
        stream.run(tuning::line_use_period - 1, fastest(which));
        EXPECT_EQ(stream.laps_of_others_than(which), others) << "until the next trial";
    }
}

TEST(LineUse, StaysWhereItMakesLittleDifference) {
    Stream stream;
    stream.run(enough_laps, [](std::size_t way) -> std::uint64_t { return way == 0 ? 100 : 96; });
    EXPECT_EQ(stream.way(), 0u);
    stream.run(tuning::line_use_period + trial, fastest(1));
    ASSERT_EQ(stream.way(), 1u);
    stream.run(tuning::line_use_period + trial,
               [](std::size_t way) -> std::uint64_t { return way == 1 ? 100 : 96; });
    EXPECT_EQ(stream.way(), 1u);
}

TEST(LineUse, IsLookedForAgain) {
    Stream stream;
    stream.run(enough_laps, fastest(1));
    ASSERT_EQ(stream.way(), 1u);
    stream.run(tuning::line_use_period + trial, fastest(2));
    EXPECT_EQ(stream.way(), 2u);
    // Less often the longer it stays the same, but not for ever.
    stream.run(20 * (tuning::line_use_period + trial), fastest(2));
    EXPECT_EQ(stream.way(), 2u);
    stream.run(tuning::longer_period * tuning::line_use_period + 2 * trial, fastest(0));
    EXPECT_EQ(stream.way(), 0u);
}

TEST(LineUse, LookingForItIsASmallPartOfAll) {
    Stream stream;
    const std::uint64_t all = 16 * tuning::line_use_period;
    stream.run(all, fastest(0));
    EXPECT_GT(stream.laps_of_others_than(0), 0u);
    EXPECT_LT(stream.laps_of_others_than(0), all * 3 / 100);
}

TEST(LineUse, WhoLosesTheCpuNowAndThenFindsItAllTheSame) {
    Stream stream;
    unsigned lap = 0;
    stream.run(2 * enough_laps, [&](std::size_t way) -> std::uint64_t {
        return ++lap % 7 == 0 ? 150 : lap % 11 == 0 ? 10'000 : way == 1 ? 20 : 30;
    });
    EXPECT_EQ(stream.way(), 1u);
}

TEST(LineUse, WhatIsNoStreamOfShortMessagesIsNotTimed) {
    Stream slow;
    slow.run(100 * enough_laps, [](std::size_t way) -> std::uint64_t {
        return tuning::line_use_slowest_lap_ns / cells + (way == 1 ? 1 : 100);
    });
    EXPECT_EQ(slow.laps_of_others_than(0), 0u) << "nothing was tried";
    Stream of_long;
    of_long.run(100 * enough_laps, fastest(1), cells / tuning::line_use_most_cells - 1);
    EXPECT_EQ(of_long.laps_of_others_than(0), 0u);
    of_long.run(enough_laps, fastest(1), cells / tuning::line_use_most_cells);
    EXPECT_EQ(of_long.way(), 1u);
}

TEST(LineUse, TheReadersPaceInTheFirstLapBelongsToTheTurnBefore) {
    Stream stream;
    std::size_t before = 0;
    stream.run(enough_laps, [&](std::size_t way) -> std::uint64_t {
        const bool first = std::exchange(before, way) != way;
        return first ? (way == 1 ? 90 : 10) : (way == 1 ? 20 : 30);
    });
    EXPECT_EQ(stream.way(), 1u);
}

} // namespace
} // namespace comch::link::soft
