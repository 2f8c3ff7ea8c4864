// Whether short messages share lines: as it is faster with the traffic that there is.
#include <array>
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "core/link/soft/line_sharing.hpp"

namespace comch::link::soft {
namespace {

constexpr std::uint32_t cells = tuning::ring_cells;

/// A stream of messages of half a line that laps its ring.
struct Stream {
    LineSharing sharing{cells};
    std::uint64_t position = 0;
    std::uint64_t messages = 0;
    std::uint64_t now = 1'000'000;
    std::array<std::uint64_t, 2> laps{}; ///< that shared lines, that filled them

    /// Nanoseconds that a message takes.
    using Times = std::function<std::uint64_t(bool fills)>;
    void run(std::uint64_t count, const Times& takes, std::uint64_t per_lap = cells) {
        for (std::uint64_t lap = 0; lap < count; ++lap) {
            ++laps[sharing.fills() ? 1 : 0];
            position += cells;
            messages += per_lap;
            now += per_lap * takes(sharing.fills());
            ASSERT_TRUE(sharing.has_lapped(position));
            sharing.took(position, messages, now);
            ASSERT_FALSE(sharing.has_lapped(position + cells - 1));
        }
    }
};

std::uint64_t fills_faster(bool fills) {
    return fills ? 20 : 30;
}
std::uint64_t shares_faster(bool fills) {
    return fills ? 30 : 20;
}

/// Laps of one trial.
constexpr std::uint64_t trial = 2 * tuning::sharing_samples * 2;
/// (What began before the first lap is not known, so that one does not count.)
constexpr std::uint64_t enough = 1 + tuning::sharing_first_trial + trial;

TEST(LineSharing, IsTheFaster) {
    for (const bool fills : {false, true}) {
        Stream stream;
        stream.run(enough, fills ? fills_faster : shares_faster);
        EXPECT_EQ(stream.sharing.fills(), fills);
        stream.run(tuning::sharing_period - 1, fills ? fills_faster : shares_faster);
        EXPECT_EQ(stream.sharing.fills(), fills) << "until the next trial";
        EXPECT_EQ(stream.laps[1], trial / 2 + (fills ? tuning::sharing_period - 1 : 0));
    }
}

TEST(LineSharing, StaysWhereItMakesLittleDifference) {
    Stream stream;
    stream.run(enough, [](bool fills) -> std::uint64_t { return fills ? 96 : 100; });
    EXPECT_FALSE(stream.sharing.fills());
    stream.run(tuning::sharing_period + trial, fills_faster);
    ASSERT_TRUE(stream.sharing.fills());
    stream.run(tuning::sharing_period + trial,
               [](bool fills) -> std::uint64_t { return fills ? 100 : 96; });
    EXPECT_TRUE(stream.sharing.fills());
}

TEST(LineSharing, IsLookedForAgain) {
    Stream stream;
    stream.run(enough, fills_faster);
    ASSERT_TRUE(stream.sharing.fills());
    stream.run(tuning::sharing_period + trial, shares_faster);
    EXPECT_FALSE(stream.sharing.fills());
    // Less often the longer it stays the same, but not for ever.
    stream.run(20 * (tuning::sharing_period + trial), shares_faster);
    EXPECT_FALSE(stream.sharing.fills());
    stream.run(tuning::longer_period * tuning::sharing_period + 2 * trial, fills_faster);
    EXPECT_TRUE(stream.sharing.fills());
}

TEST(LineSharing, LookingForItIsASmallPartOfAll) {
    Stream stream;
    const std::uint64_t all = 16 * tuning::sharing_period;
    stream.run(all, shares_faster);
    EXPECT_GT(stream.laps[1], 0u);
    EXPECT_LT(stream.laps[1], all * 2 / 100);
}

TEST(LineSharing, WhoLosesTheCpuNowAndThenFindsItAllTheSame) {
    Stream stream;
    unsigned lap = 0;
    stream.run(2 * enough, [&](bool fills) -> std::uint64_t {
        return ++lap % 7 == 0 ? 150 : lap % 11 == 0 ? 10'000 : fills ? 20 : 30;
    });
    EXPECT_TRUE(stream.sharing.fills());
}

TEST(LineSharing, WhatIsNoStreamOfShortMessagesIsNotTimed) {
    Stream slow;
    slow.run(100 * enough, [](bool fills) -> std::uint64_t {
        return tuning::sharing_slowest_lap_ns / cells + (fills ? 1 : 100);
    });
    EXPECT_EQ(slow.laps[1], 0u) << "nothing was tried";
    Stream of_long;
    of_long.run(100 * enough, fills_faster, cells / tuning::sharing_most_cells - 1);
    EXPECT_EQ(of_long.laps[1], 0u);
    of_long.run(enough, fills_faster, cells / tuning::sharing_most_cells);
    EXPECT_TRUE(of_long.sharing.fills());
}

TEST(LineSharing, TheReadersPaceInTheFirstLapBelongsToTheTurnBefore) {
    Stream stream;
    bool before = false;
    stream.run(enough, [&](bool fills) -> std::uint64_t {
        const bool first = std::exchange(before, fills) != fills;
        return first ? (fills ? 90 : 10) : (fills ? 20 : 30);
    });
    EXPECT_TRUE(stream.sharing.fills());
}

} // namespace
} // namespace comch::link::soft
