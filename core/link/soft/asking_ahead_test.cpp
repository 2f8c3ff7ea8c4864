// Whether the lines of the next answer are asked for: as it is faster, with the answers that there are.
#include <cstdint>
#include <functional>

#include <gtest/gtest.h>

#include "core/link/soft/asking_ahead.hpp"

namespace comch::link::soft {
namespace {

constexpr std::uint64_t trial = 2 * tuning::asking_samples; // stretches
constexpr std::uint64_t first_trial =
    1 + tuning::asking_first_trial + trial; // the first is not timed

/// One end of a ping-pong of answers.
struct Answers {
    AskingAhead asking;
    std::uint64_t now = 1'000'000;
    std::uint64_t asked = 0;

    /// Nanoseconds from one answer to the next.
    using Times = std::function<std::uint64_t(bool asks)>;
    void run(std::uint64_t stretches, const Times& takes) {
        for (std::uint64_t answer = 0; answer < stretches * tuning::asking_stretch; ++answer) {
            now += takes(asking.now());
            if (asking.answered()) {
                asking.took(now);
            }
            asked += asking.now() ? 1 : 0;
        }
    }
};

Answers::Times faster(bool asking) {
    return [=](bool asks) { return asks == asking ? 1000 : 1100; };
}

TEST(AskingAhead, IsDoneWhereItIsFaster) {
    Answers answers;
    answers.run(tuning::asking_first_trial, faster(true));
    EXPECT_EQ(answers.asked, 0u) << "before it was tried";
    answers.run(first_trial - tuning::asking_first_trial, faster(true));
    EXPECT_TRUE(answers.asking.now());
    const std::uint64_t asked = answers.asked;
    answers.run(tuning::asking_period, faster(true));
    EXPECT_EQ(answers.asked, asked + tuning::asking_period * tuning::asking_stretch)
        << "until the next trial";
}

TEST(AskingAhead, IsLeftOutWhereItIsSlower) {
    Answers answers;
    answers.run(first_trial, faster(false));
    EXPECT_FALSE(answers.asking.now());
    EXPECT_EQ(answers.asked, tuning::asking_samples * tuning::asking_stretch) << "it was not tried";
}

TEST(AskingAhead, StaysAsItIsWhereItMakesLittleDifference) {
    Answers answers;
    answers.run(first_trial, [](bool asks) { return asks ? 980 : 1000; });
    EXPECT_FALSE(answers.asking.now());
    answers.run(2 * tuning::asking_period + trial, faster(true));
    ASSERT_TRUE(answers.asking.now());
    answers.run(2 * tuning::asking_period + trial, [](bool asks) { return asks ? 1000 : 980; });
    EXPECT_TRUE(answers.asking.now());
}

TEST(AskingAhead, IsTriedAgain) {
    Answers answers;
    answers.run(first_trial, faster(true));
    ASSERT_TRUE(answers.asking.now());
    answers.run(2 * tuning::asking_period + trial, faster(false));
    EXPECT_FALSE(answers.asking.now());
    // Less often the longer it stays the same, but not for ever.
    answers.run(20 * (2 * tuning::asking_period + trial), faster(false));
    answers.run(2 * tuning::longer_period * tuning::asking_period + 2 * trial, faster(true));
    EXPECT_TRUE(answers.asking.now());
}

TEST(AskingAhead, TryingIsASmallPartOfAll) {
    Answers answers;
    const std::uint64_t all = 16 * tuning::asking_period;
    answers.run(all, faster(false));
    EXPECT_GT(answers.asked, tuning::asking_samples * tuning::asking_stretch) << "tried once only";
    EXPECT_LT(answers.asked, all * tuning::asking_stretch * 3 / 100);
}

TEST(AskingAhead, WhatNobodyWaitsForIsNotTimed) {
    Answers answers;
    answers.run(100 * first_trial, [](bool) {
        return tuning::asking_slowest_stretch_ns / tuning::asking_stretch + 1;
    });
    EXPECT_EQ(answers.asked, 0u);
}

TEST(AskingAhead, WhoLosesTheCpuNowAndThenFindsItAllTheSame) {
    Answers answers;
    unsigned answer = 0;
    answers.run(first_trial, [&](bool asks) -> std::uint64_t {
        return (++answer % 300 == 0 ? 5000 : 0) + (asks ? 1000 : 1100);
    });
    EXPECT_TRUE(answers.asking.now());
}

/// Both ends of a ping-pong have trials, which begin at different times. What either does takes both longer.
TEST(AskingAhead, BothEndsFindIt) {
    constexpr std::uint64_t stretches = 16 * (2 * tuning::asking_period + trial);
    for (const bool asking : {false, true}) {
        for (std::uint64_t later = 0; later <= trial; ++later) {
            Answers one;
            Answers other;
            other.run(later, faster(asking));
            one.now = other.now;     // one clock
            std::uint64_t wrong = 0; // in the latter half
            for (std::uint64_t stretch = 0; stretch < stretches; ++stretch) {
                const unsigned slower = (one.asking.now() != asking ? 1u : 0u) +
                                        (other.asking.now() != asking ? 1u : 0u);
                wrong += stretch < stretches / 2 ? 0 : slower;
                const std::uint64_t takes = 1000 + 100 * slower;
                one.run(1, [=](bool) { return takes; });
                other.run(1, [=](bool) { return takes; });
            }
            EXPECT_LT(wrong, stretches / 20) << "of twice " << stretches / 2 << ", " << later;
        }
    }
}

} // namespace
} // namespace comch::link::soft
