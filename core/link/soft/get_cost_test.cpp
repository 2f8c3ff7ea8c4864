#include "core/link/soft/get_cost.hpp"

#include <gtest/gtest.h>

namespace comch::link::soft {
namespace {

class GetCosts : public ::testing::Test {
protected:
    GetCost cost;

    void SetUp() override { (void)cost.of(900, 1000); }
};

TEST_F(GetCosts, CountWhatFollowsTheOneBefore) {
    EXPECT_EQ(cost.of(1100, 1200), 200u);
    EXPECT_EQ(cost.of(1210, 1300), 100u);
}

TEST_F(GetCosts, OfSeveralUnderWayAreWhatEachAdds) {
    EXPECT_EQ(cost.of(900, 1200), 200u);
    EXPECT_EQ(cost.of(900, 1210), 10u);
}

TEST_F(GetCosts, OfRareOnesAreInProportionToWhatTheyTook) {
    constexpr std::uint64_t most = tuning::most_between_gets;
    EXPECT_EQ(cost.of(1'000'000, 1'000'100), most * 100);
    EXPECT_EQ(cost.of(2'000'000, 2'000'200), most * 200);
}

TEST_F(GetCosts, MayBeTheirOwnTimeAlone) {
    EXPECT_EQ(cost.of(1400, 1500, true), 100u);
    EXPECT_EQ(cost.of(1400, 1600, true), 100u) << "and not what another took";
    EXPECT_EQ(cost.of(1700, 1800), 200u);
}

TEST_F(GetCosts, OfTheSlowerWayAreNeverLess) {
    // Whatever the caller does between two: the slower are some of them dense, the faster rare.
    for (std::uint64_t between = 0; between < 1000; ++between) {
        GetCost fast;
        GetCost slow;
        std::uint64_t values[2] = {};
        for (std::uint64_t now = 1000; const auto length : {100u, 140u}) {
            GetCost& one = length == 100 ? fast : slow;
            (void)one.of(now - length, now);
            values[length == 100 ? 0 : 1] = one.of(now + between, now + between + length);
        }
        ASSERT_LT(values[0], values[1]) << between;
    }
}

TEST_F(GetCosts, OfAWayThatSlowsDownWhatFollowsAreMore) {
    // 64 KiB of a ping-pong whose messages are written and read: both ends copy faster, and the reader finds
    // half of it in the other CPU's cache. In tens of nanoseconds.
    GetCost jointly;
    GetCost by_ring;
    (void)jointly.of(0, 450);
    (void)by_ring.of(0, 850);
    EXPECT_GT(jointly.of(450 + 2330, 450 + 2330 + 450), by_ring.of(850 + 1430, 850 + 1430 + 850));
}

TEST_F(GetCosts, OfACounterThatWentBackAreMoreThanAnyCanHaveTaken) {
    EXPECT_GT(cost.of(500, 400), std::uint64_t{1} << 40);
}

} // namespace
} // namespace comch::link::soft
