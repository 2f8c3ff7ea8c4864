// Whom we wait for: a peer that attends, and one that was missing only after it has shown itself
// again.
#include <gtest/gtest.h>

#include "core/link/soft/attention.hpp"

namespace comch::link::soft {
namespace {

struct Peer {
    Attention attention;
    std::uint64_t signs = 0;

    /// Looks for as long as it takes to find out.
    void be_missing() {
        attention.asked();
        while (!attention.missing([this] { return signs; })) {
        }
    }
    bool is_absent_after_a_sign() { return attention.absent(++signs); }
};

TEST(Attention, WhoDoesSomethingNowAndThenIsWaitedFor) {
    Attention attention;
    attention.asked();
    const std::uint64_t end = monotonic_ns() + 20 * tuning::attention_ns;
    std::uint64_t signs = 0;
    while (monotonic_ns() < end) {
        ASSERT_FALSE(attention.missing([&] { return ++signs; }));
    }
    EXPECT_FALSE(attention.distrusted());
}

TEST(Attention, WhoWasAwayHimselfLooksOnceMore) {
    Attention attention;
    attention.asked();
    const auto look = [&] { // as often as it takes to look at the clock
        bool missing = false;
        for (unsigned i = 0; i < tuning::looks_for_attention; ++i) {
            missing = attention.missing([] { return 0; });
        }
        return missing;
    };
    const auto be_away = [] {
        const std::uint64_t end = monotonic_ns() + 2 * tuning::attention_ns;
        while (monotonic_ns() < end) {
        }
    };
    EXPECT_FALSE(look());
    be_away();
    EXPECT_FALSE(look()) << "what the peer did meanwhile has not been taken out";
    be_away();
    EXPECT_TRUE(attention.missing([] { return 0; })) << "nor has it been by the next look";
    EXPECT_TRUE(attention.absent(0));
}

TEST(Attention, MuchThatIsToBeCopiedIsWaitedForLonger) {
    constexpr std::uint64_t bytes = 64 << 20;
    constexpr tuning::Patience patience = tuning::patience(bytes, true);
    ASSERT_GT(patience.ns, 10 * tuning::attention_ns);
    EXPECT_EQ(tuning::patience(64 << 10, true).ns, tuning::attention_ns);
    EXPECT_GT(tuning::patience(64 << 10, false).ns, tuning::attention_ns);
    Attention attention;
    attention.asked();
    const std::uint64_t began = monotonic_ns();
    while (!attention.missing([] { return 0; }, [&] { return patience; })) {
    }
    EXPECT_GT(monotonic_ns() - began, patience.ns);
}

TEST(Attention, HoweverOftenOneLooksOneFindsOut) {
    for (const std::uint64_t ns : {100, 1'000, 2'000, 5'000, 15'000, 30'000}) {
        Attention attention;
        attention.asked();
        unsigned looks = 0;
        while (!attention.missing([] { return 0; })) {
            ASSERT_LT(++looks, 4 * tuning::looks_for_attention + 2 * tuning::attention_ns / ns)
                << ns;
            for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
            }
        }
    }
}

TEST(Attention, WhoWasMissingMustDoManyThings) {
    Peer peer;
    peer.be_missing();
    EXPECT_TRUE(peer.attention.absent(peer.signs)) << "nothing since";
    for (unsigned i = 1; i < tuning::signs_of_attention; ++i) {
        ASSERT_TRUE(peer.is_absent_after_a_sign()) << i;
    }
    EXPECT_FALSE(peer.is_absent_after_a_sign());
    EXPECT_FALSE(peer.attention.distrusted());
}

TEST(Attention, OrOneWhenItsWorkHasTakenLong) {
    Peer peer;
    peer.be_missing();
    peer.attention.passed_by(tuning::waits_to_try_again * tuning::attention_ns / 2);
    EXPECT_TRUE(peer.is_absent_after_a_sign());
    peer.attention.passed_by(1'000'000'000'000); // more than any wait
    EXPECT_TRUE(peer.attention.absent(peer.signs)) << "it is still away";
    EXPECT_FALSE(peer.is_absent_after_a_sign());
    // And the next time from the beginning.
    peer.be_missing();
    EXPECT_TRUE(peer.is_absent_after_a_sign());
}

TEST(Attention, WhoIsTrustedAgainHasTimeToBegin) {
    Peer peer;
    peer.be_missing();
    peer.attention.passed_by(1'000'000'000'000);
    ASSERT_FALSE(peer.is_absent_after_a_sign());
    // Nothing new is asked, something older still waits.
    for (unsigned i = 0; i < tuning::looks_for_attention; ++i) {
        ASSERT_FALSE(peer.attention.missing([&] { return peer.signs; })) << "of before";
    }
}

} // namespace
} // namespace comch::link::soft
