#include "core/link/soft/copy_ways.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace comch::link::soft {
namespace {

using Way = CopyWays::Way;

struct Costs {
    std::uint64_t ring;
    std::uint64_t kernel;
    std::uint64_t joint = CopyWays::in_vain;
    [[nodiscard]] std::uint64_t of(Way way) const {
        return way == Way::ring ? ring : way == Way::alone ? kernel : joint;
    }
};

/// So many gets of which each takes what its way costs; how many went that way.
int taken(Way which, CopyWays& ways, int count, std::uint64_t length, Costs costs) {
    int result = 0;
    for (int i = 0; i < count; ++i) {
        const Way way = ways.choose(length);
        ways.took(way, length, costs.of(way));
        result += way == which ? 1 : 0;
    }
    return result;
}
int by_kernel(CopyWays& ways, int count, std::uint64_t length, std::uint64_t ring,
              std::uint64_t kernel) {
    return taken(Way::alone, ways, count, length, {ring, kernel});
}

TEST(CopyWays, TheFastestOneIsTaken) {
    CopyWays ways;
    EXPECT_GT(taken(Way::joint, ways, 10'000, 1 << 20, {300'000, 200'000, 100'000}), 9'500);
    CopyWays others;
    EXPECT_GT(taken(Way::alone, others, 10'000, 1 << 20, {300'000, 200'000, 250'000}), 9'500);
}

TEST(CopyWays, OneThatIsPutOffIsNone) {
    CopyWays ways;
    (void)taken(Way::joint, ways, 1000, 1 << 20, {300'000, 200'000, 100'000});
    for (unsigned i = 0; i < 3 * tuning::pace_of_short.period; ++i) {
        ASSERT_EQ(ways.choose(1 << 20), Way::joint) << "a trial, of none, after " << i;
        ways.put_off(1 << 20);
    }
}

TEST(CopyWays, ThereMayBeNoRing) {
    CopyWays ways(CopyWays::Ring::never);
    EXPECT_EQ(taken(Way::ring, ways, 10'000, 1 << 20, {1, 200'000, 100'000}), 0);
    EXPECT_GT(taken(Way::joint, ways, 10'000, 1 << 20, {1, 200'000, 100'000}), 9'500);
    CopyWays others(CopyWays::Ring::never);
    EXPECT_GT(taken(Way::alone, others, 10'000, 1 << 20, {1, 200'000, 250'000}), 9'500);
    EXPECT_EQ(others.choose(1 << 20, false), Way::alone);
    others.ring_is_used();
    EXPECT_FALSE(others.may_use_ring()) << "by the peer's answers to others";
}

TEST(CopyWays, ARingDoesNotPayForLittle) {
    constexpr int before = (tuning::before_ring >> 20) - tuning::alike_before_ring;
    CopyWays ways(CopyWays::Ring::later);
    EXPECT_EQ(taken(Way::ring, ways, before, 1 << 20, {1, 200'000, 100'000}), 0);
    EXPECT_GT(taken(Way::ring, ways, 10'000, 1 << 20, {50'000, 200'000, 100'000}), 9'500);
    // In sum, whatever the lengths.
    EXPECT_GT(taken(Way::ring, ways, 1'000, 64 << 10, {1'000, 2'000}), 900);
    CopyWays used(CopyWays::Ring::later);
    used.ring_is_used();
    EXPECT_GT(taken(Way::ring, used, 1'000, 1 << 20, {50'000, 200'000, 100'000}), 900);
    CopyWays by_itself(CopyWays::Ring::later);
    EXPECT_EQ(by_itself.choose(tuning::before_ring / tuning::alike_before_ring + 1), Way::ring);
    CopyWays refused(CopyWays::Ring::later);
    refused.took(Way::alone, 64 << 10, CopyWays::in_vain);
    EXPECT_EQ(refused.choose(64 << 10), Way::ring) << "the kernel cannot copy it";
}

TEST(CopyWays, BothCopyBeforeARingPays) {
    CopyWays ways(CopyWays::Ring::later);
    EXPECT_GT(taken(Way::joint, ways, 100, 1 << 20, {50'000, 200'000, 100'000}), 70);
}

TEST(CopyWays, TheFirstAfterAChangeDoNotCount) {
    CopyWays ways;
    Way last = Way::ring;
    int joint = 0;
    for (int i = 0, since = 0; i < 10'000; ++i) {
        const Way way = ways.choose(1 << 20);
        since = way == last ? since + 1 : 0;
        last = way;
        // Both CPUs have to fetch what the other has in its cache, and their parts take unlike times.
        const bool cold = since < static_cast<int>(tuning::pace_of_short.skipped_jointly);
        ways.took(way, 1 << 20, Costs{300'000, 200'000, cold ? 900'000u : 150'000u}.of(way));
        joint += way == Way::joint ? 1 : 0;
    }
    EXPECT_GT(joint, 9'500);
}

TEST(CopyWays, ARingThatHasToWarmUpIsFoundAgain) {
    for (const std::uint64_t length : {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}) {
        CopyWays ways;
        std::uint64_t since = 0; // bytes that went by ring since something else did
        const auto got = [&](int count, std::uint64_t ring, std::uint64_t cold_ring) {
            std::uint64_t by_ring = 0;
            for (int i = 0; i < count; ++i) {
                const Way way = ways.choose(length);
                since = way == Way::ring ? since + length : 0;
                const bool cold = since <= 8 << 20;
                ways.took(way, length,
                          Costs{cold ? cold_ring : ring, 500'000, 300'000}.of(way) * length >> 20);
                by_ring += way == Way::ring ? 1 : 0;
            }
            return by_ring;
        };
        // Its beginning is bad, so the other is taken; later it would be the better one again.
        ASSERT_LT(got(500, 900'000, 900'000), 300u) << length;
        (void)got(5 * tuning::pace_of_short.period, 200'000, 900'000);
        EXPECT_GT(got(10'000, 200'000, 900'000), 9'000u) << length;
    }
}

TEST(CopyWays, OneThatWasInterruptedDoesNotDecideWhenItIsNew) {
    CopyWays ways;
    int joint = 0;
    for (unsigned i = 0; i < tuning::pace_of_short.period; ++i) {
        const Way way = ways.choose(1 << 20);
        joint += way == Way::joint ? 1 : 0;
        const bool interrupted =
            way == Way::joint && joint == static_cast<int>(tuning::pace_of_short.turn()) - 1;
        ways.took(way, 1 << 20,
                  interrupted ? 40'000'000 : Costs{300'000, 200'000, 100'000}.of(way));
    }
    EXPECT_GT(joint, 9 * static_cast<int>(tuning::pace_of_short.period) / 10);
}

TEST(CopyWays, WhatWasBegunBeforeATrialTellsOfItsWay) {
    // As a program has it that begins many at once: the first two meet new pages, and by then thirty others
    // have been begun the same way.
    constexpr std::uint64_t length = 64 << 20;
    constexpr std::uint64_t cold = 40'000'000;
    constexpr std::uint64_t warm = 8'000'000;
    constexpr std::uint64_t alone = 25'000'000;
    CopyWays ways;
    int first = 0;
    while (ways.choose(length) == Way::ring) {
        ways.took(Way::ring, length, cold);
        ASSERT_LT(++first, 100);
    }
    for (int i = 0; i < 30; ++i) {
        ways.took(Way::ring, length, warm);
    }
    EXPECT_LT(taken(Way::alone, ways, 100, length, {warm, alone, alone}), 10);
}

TEST(CopyWays, WhatTheKernelRefusesIsNotDoneTogetherEither) {
    CopyWays ways;
    EXPECT_EQ(taken(Way::joint, ways, 10'000, 1 << 20, {300'000, CopyWays::in_vain, 1}), 0);
}

TEST(CopyWays, WhatCannotBeDoneTogetherIsDoneByTheKernel) {
    CopyWays ways;
    EXPECT_GT(taken(Way::alone, ways, 10'000, 1 << 20, {300'000, 200'000, CopyWays::in_vain}),
              9'500);
}

TEST(CopyWays, TheFasterOneIsTaken) {
    CopyWays ways;
    EXPECT_GT(by_kernel(ways, 10'000, 1 << 20, 300'000, 200'000), 9'500);
    CopyWays others;
    EXPECT_LT(by_kernel(others, 10'000, 1 << 20, 200'000, 300'000), 500);
}

TEST(CopyWays, TheRingComesFirst) {
    CopyWays ways;
    EXPECT_EQ(by_kernel(ways, tuning::pace_of_short.samples, 1 << 20, 300'000, 1), 0);
    EXPECT_GT(by_kernel(ways, 1, 1 << 20, 300'000, 1), 0);
}

TEST(CopyWays, WhatHasBecomeFasterIsNoticed) {
    CopyWays ways;
    (void)by_kernel(ways, 5'000, 1 << 20, 200'000, 300'000);
    constexpr int periods = 4 * tuning::longer_period * tuning::pace_of_short.period;
    (void)by_kernel(ways, periods, 1 << 20, 200'000, 100'000);
    EXPECT_GT(by_kernel(ways, 10'000, 1 << 20, 200'000, 100'000), 9'500);
    (void)by_kernel(ways, periods, 1 << 20, 50'000, 100'000);
    EXPECT_LT(by_kernel(ways, 10'000, 1 << 20, 50'000, 100'000), 500);
}

TEST(CopyWays, WhatStaysTheSameIsLookedAtLessOften) {
    CopyWays ways;
    const Costs costs{200'000, 300'000};
    constexpr int period = tuning::pace_of_short.period;
    constexpr int turn = tuning::pace_of_short.samples + tuning::pace_of_short.skipped;
    // The first trial, and one at the end of the first period.
    EXPECT_LE(taken(Way::alone, ways, period + 3 * turn, 1 << 20, costs), 2 * turn);
    (void)taken(Way::alone, ways, 16 * period, 1 << 20, costs);
    EXPECT_LE(taken(Way::alone, ways, 16 * period, 1 << 20, costs), 5 * turn);
    EXPECT_GE(taken(Way::alone, ways, 16 * period, 1 << 20, costs), 3 * turn);
}

TEST(CopyWays, OneSlowCopyChangesNothing) {
    CopyWays ways;
    (void)by_kernel(ways, 1'000, 1 << 20, 200'000, 300'000);
    ways.took(Way::ring, 1 << 20, 1'000'000'000);
    EXPECT_LT(by_kernel(ways, 1'000, 1 << 20, 200'000, 500'000), 100);
}

TEST(CopyWays, OneThatIsSlowForAWhileIsTakenAgain) {
    CopyWays ways;
    const Costs usual{110'000, 200'000, 100'000};
    (void)taken(Way::joint, ways, 1'000, 1 << 20, usual);
    const Costs disturbed{330'000, 600'000, 300'000};
    (void)taken(Way::joint, ways, 20, 1 << 20, disturbed);
    EXPECT_GT(taken(Way::joint, ways, 500, 1 << 20, usual), 400);
}

TEST(CopyWays, OneThatFailsIsLeftAtOnce) {
    CopyWays ways;
    (void)taken(Way::joint, ways, 500, 1 << 20, {110'000, 200'000, 100'000});
    EXPECT_LT(taken(Way::joint, ways, 1'000, 1 << 20, {110'000, 200'000, CopyWays::in_vain}), 40);
}

TEST(CopyWays, WhatTheOwnerMissesDoesNotHideThatItBecameSlow) {
    CopyWays ways;
    (void)taken(Way::joint, ways, 500, 1 << 20, {110'000, 200'000, 100'000});
    int joint = 0;
    for (int i = 0; i < 1'500; ++i) {
        const Way way = ways.choose(1 << 20, i % 16 != 0);
        ways.took(way, 1 << 20, Costs{110'000, 200'000, 500'000}.of(way));
        joint += way == Way::joint ? 1 : 0;
    }
    EXPECT_LT(joint, 300);
}

TEST(CopyWays, ShortOnesAreNotCopiedByBoth) {
    CopyWays ways;
    EXPECT_EQ(taken(Way::joint, ways, 5'000, tuning::shortest_joint - 1, {2'000, 2'000, 1}), 0);
    EXPECT_GT(taken(Way::joint, ways, 5'000, tuning::shortest_joint, {2'000, 2'000, 1}), 4'500);
}

TEST(CopyWays, OneThatStaysSlowIsLeftBeforeTheNextTrial) {
    CopyWays ways;
    (void)taken(Way::joint, ways, 500, 1 << 20, {110'000, 200'000, 100'000});
    EXPECT_LT(taken(Way::joint, ways, 1'000, 1 << 20, {110'000, 200'000, 300'000}), 200);
}

TEST(CopyWays, WhatTheKernelRefusesIsLeftToTheRing) {
    CopyWays ways;
    EXPECT_LT(by_kernel(ways, 10'000, 1 << 20, 300'000, CopyWays::in_vain), 200);
}

TEST(CopyWays, SmallUnitsTellThemApart) {
    CopyWays ways; // three ticks, or four, for a KiB
    EXPECT_GT(by_kernel(ways, 10'000, 64 << 10, 64 * 4, 64 * 3), 9'300);
}

TEST(CopyWays, ACounterThatWentBackChangesNothing) {
    CopyWays ways;
    ways.took(Way::alone, 1 << 20, ~std::uint64_t{0} - 5);
    EXPECT_GT(by_kernel(ways, 10'000, 1 << 20, 300'000, 200'000), 9'500);
}

TEST(CopyWays, ABadBeginningIsForgotten) {
    CopyWays ways;
    (void)by_kernel(ways, tuning::pace_of_short.samples, 1 << 20, 10'000'000'000,
                    1); // it computed meanwhile
    (void)by_kernel(ways, 4 * tuning::pace_of_short.period, 1 << 20, 200'000, 300'000);
    EXPECT_LT(by_kernel(ways, 1'000, 1 << 20, 200'000, 300'000), 100);
}

TEST(CopyWays, EachLengthHasItsOwn) {
    CopyWays ways;
    (void)by_kernel(ways, 1'000, 64 << 10, 2'000, 3'000);
    (void)by_kernel(ways, 1'000, 8 << 20, 3'000'000, 2'000'000);
    EXPECT_LT(by_kernel(ways, 1'000, 64 << 10, 2'000, 3'000), 100);
    EXPECT_GT(by_kernel(ways, 1'000, 8 << 20, 3'000'000, 2'000'000), 900);
    constexpr std::uint64_t longest = std::uint64_t{1} << 34;
    EXPECT_GT(by_kernel(ways, 1'000, longest, 3 * longest, 2 * longest), 900);
}

/// A port's connections; each round is a get by each of them.
struct Siblings {
    KnownWays known;
    std::vector<CopyWays> connections;
    Siblings(std::size_t count, CopyWays::Ring ring) : connections(count, CopyWays(ring)) {
        for (CopyWays& each : connections) {
            each.share(known);
        }
    }
    /// How many did not go by `way`.
    int others_than(Way way, int rounds, Costs costs) {
        int result = 0;
        for (int i = 0; i < rounds; ++i) {
            for (CopyWays& each : connections) {
                result += 1 - taken(way, each, 1, 1 << 20, costs);
            }
        }
        return result;
    }
};
constexpr int way_turn = static_cast<int>(tuning::pace_of_short.turn());

TEST(CopyWays, OneOfAPortsConnectionsTriesForAll) {
    Siblings port(7, CopyWays::Ring::never);
    constexpr Costs costs{1, 200'000, 300'000};
    EXPECT_LE(port.others_than(Way::alone, 500, costs), way_turn);
    Siblings of_helpers(7, CopyWays::Ring::never);
    constexpr Costs with_help{1, 200'000, 100'000};
    (void)of_helpers.others_than(Way::joint, 3 * way_turn, with_help);
    EXPECT_EQ(of_helpers.others_than(Way::joint, 500, with_help), 0);
}

TEST(CopyWays, OneTriesTheRingForAllWhenItIsAWay) {
    Siblings port(7, CopyWays::Ring::later);
    constexpr Costs costs{300'000, 200'000, 250'000};
    constexpr int before = (tuning::before_ring >> 20) - tuning::alike_before_ring;
    EXPECT_LE(port.others_than(Way::alone, before, costs), way_turn);
    EXPECT_GT(port.others_than(Way::alone, 500, costs), 0) << "the trial";
    EXPECT_EQ(port.others_than(Way::alone, 500, costs), 0);
    Siblings fast(7, CopyWays::Ring::later);
    constexpr Costs with_ring{100'000, 200'000, 250'000};
    (void)fast.others_than(Way::ring, before + 4 * way_turn, with_ring);
    EXPECT_EQ(fast.others_than(Way::ring, 500, with_ring), 0);
}

TEST(CopyWays, OneThatStopsInItsTrialIsNotWaitedForForEver) {
    Siblings port(2, CopyWays::Ring::never);
    (void)port.connections[0].choose(1 << 20);
    constexpr int patience = static_cast<int>(tuning::most_waits * tuning::gets_to_wait);
    constexpr Costs costs{1, 200'000, 100'000};
    CopyWays& other = port.connections[1];
    EXPECT_EQ(taken(Way::joint, other, patience, 1 << 20, costs), 0);
    (void)taken(Way::joint, other, 2 * way_turn, 1 << 20, costs);
    EXPECT_EQ(taken(Way::joint, other, 500, 1 << 20, costs), 500);
}

TEST(CopyWays, WhatTheKernelRefusesToOneItMayNotRefuseToOthers) {
    Siblings port(2, CopyWays::Ring::now);
    (void)taken(Way::ring, port.connections[0], 500, 1 << 20, {300'000, CopyWays::in_vain});
    EXPECT_GT(by_kernel(port.connections[1], 1'000, 1 << 20, 300'000, 200'000), 700);
}

TEST(CopyWays, WhatOthersFoundIsLookedAtAgain) {
    Siblings port(2, CopyWays::Ring::never);
    (void)port.others_than(Way::alone, 200, {1, 200'000, 300'000});
    CopyWays& other = port.connections[1]; // its peer is another
    constexpr int period = static_cast<int>(tuning::pace_of_short.period);
    (void)taken(Way::joint, other, period + 2 * way_turn, 1 << 20, {1, 200'000, 100'000});
    EXPECT_EQ(taken(Way::joint, other, 500, 1 << 20, {1, 200'000, 100'000}), 500);
}

TEST(CopyWays, ShortOnesHaveNoChoice) {
    EXPECT_FALSE(CopyWays::has_choice(0));
    EXPECT_FALSE(CopyWays::has_choice(8191));
    EXPECT_TRUE(CopyWays::has_choice(8192));
}

} // namespace
} // namespace comch::link::soft
