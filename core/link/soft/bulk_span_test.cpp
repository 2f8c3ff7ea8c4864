// How much of a bulk ring is used: whatever is faster with the traffic that there is.
#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "core/link/soft/bulk_span.hpp"

namespace comch::link::soft {
namespace {

constexpr std::uint32_t large = tuning::bulk_size;

/// Nanoseconds that a message of so many bytes takes.
using Cost = std::function<std::uint64_t(std::uint32_t length, const BulkSpan& span)>;

bool is_beginning(const BulkSpan& span) {
    return span.bytes() == BulkSpan::small;
}
bool is_all(const BulkSpan& span) {
    return !is_beginning(span) && !span.few_lines();
}

Cost cost(std::uint64_t with_all, std::uint64_t with_the_beginning, std::uint64_t with_few_lines) {
    return [=](std::uint32_t length, const BulkSpan& span) {
        return length *
               (is_all(span)         ? with_all
                : is_beginning(span) ? with_the_beginning
                                     : with_few_lines) /
               1000;
    };
}
Cost cost(std::uint64_t with_all, std::uint64_t with_the_beginning) {
    return cost(with_all, with_the_beginning, std::max(with_all, with_the_beginning));
}

struct Traffic {
    BulkSpan span{large};
    std::uint64_t now = 1000;
    std::uint64_t not_in_all = 0; ///< bytes that were written while that was not the choice
    std::mt19937 random{7};

    void run(std::uint64_t bytes, const Cost& takes, std::uint32_t least = 8192,
             std::uint32_t most = 8192) {
        for (std::uint64_t written = 0; written < bytes;) {
            const auto length = static_cast<std::uint32_t>(least + random() % (most - least + 1));
            now += takes(length, span);
            not_in_all += is_all(span) ? 0 : length;
            if (span.wrote(length)) {
                span.took(now);
            }
            written += length;
        }
    }
};

/// More than the warm-up and all trials.
constexpr std::uint64_t enough = 2 * tuning::span_warm_up + 8 * std::uint64_t{large};

TEST(BulkSpan, IsTheFasterOne) {
    Traffic traffic;
    traffic.run(enough, cost(100, 80));
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
    Traffic other;
    other.run(enough, cost(80, 100));
    EXPECT_EQ(other.span.bytes(), large);
}

TEST(BulkSpan, IsFewLinesWhereTheyAreTheFastest) {
    for (const auto& [steady, few] : {std::pair{cost(100, 110, 80), true},
                                      {cost(100, 80, 70), true},
                                      {cost(100, 80, 80), false},
                                      {cost(80, 100, 100), false},
                                      {cost(100, 100, 100), false},
                                      {cost(60, 100, 80), false},
                                      {cost(100, 60, 80), false}}) {
        Traffic traffic;
        traffic.run(enough, steady);
        EXPECT_EQ(traffic.span.few_lines(), few);
        EXPECT_FALSE(traffic.span.is_strict());
    }
    Traffic traffic;
    traffic.run(enough, cost(100, 90, 80));
    ASSERT_TRUE(traffic.span.few_lines());
    EXPECT_EQ(traffic.span.bytes(), large) << "where they do not do there is the rest";
    traffic.run(tuning::span_period + enough, cost(100, 80, 90));
    EXPECT_FALSE(traffic.span.few_lines());
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
    traffic.span.begin_anew();
    traffic.run(enough, cost(100, 90, 80));
    ASSERT_TRUE(traffic.span.few_lines());
    traffic.span.begin_anew();
    EXPECT_FALSE(traffic.span.few_lines()) << "of what has no pages";
}

TEST(BulkSpan, IsAllWhereItMakesNoDifference) {
    Traffic traffic;
    traffic.run(enough, cost(100, 100));
    EXPECT_EQ(traffic.span.bytes(), large);
    Traffic little;
    little.run(enough, cost(100, 96));
    EXPECT_EQ(little.span.bytes(), large) << "all of it has room for more";
}

TEST(BulkSpan, IsLookedForAgain) {
    Traffic traffic;
    traffic.run(enough, cost(100, 80));
    ASSERT_EQ(traffic.span.bytes(), BulkSpan::small);
    traffic.run(tuning::span_period + enough, cost(80, 100));
    EXPECT_EQ(traffic.span.bytes(), large);
    traffic.run(tuning::span_period + enough, cost(100, 80));
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
    // Less often the longer it stays the same, but not for ever.
    traffic.run(20 * tuning::span_period, cost(100, 80));
    traffic.run(tuning::longer_period * tuning::span_period + enough, cost(80, 100));
    EXPECT_EQ(traffic.span.bytes(), large);
}

TEST(BulkSpan, LookingForItIsASmallPartOfAll) {
    Traffic traffic;
    traffic.run(8 * tuning::span_period, cost(80, 100));
    EXPECT_GT(traffic.not_in_all, 0u);
    EXPECT_LT(traffic.not_in_all, 2 * tuning::span_warm_up + 8 * tuning::span_period / 16);
    const std::uint64_t before = traffic.not_in_all;
    traffic.run(8 * tuning::span_period, cost(80, 100));
    EXPECT_LT(traffic.not_in_all - before, 8 * tuning::span_period / 32) << "after a while";
}

TEST(BulkSpan, WhoLosesTheCpuNowAndThenFindsItAllTheSame) {
    for (const bool small_is_faster : {true, false}) {
        Traffic traffic;
        unsigned messages = 0;
        const Cost steady = small_is_faster ? cost(100, 80) : cost(80, 100);
        traffic.run(enough, [&](std::uint32_t length, const BulkSpan& span) {
            return steady(length, span) + (++messages % 40 == 0 ? 200'000 : 0);
        });
        EXPECT_EQ(traffic.span.bytes() == BulkSpan::small, small_is_faster);
    }
}

TEST(BulkSpan, IsTheBeginningWhereThereIsLittleTraffic) {
    Traffic traffic;
    traffic.run(2 * tuning::span_warm_up - 8192, cost(80, 100));
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
    Traffic slow;
    slow.run(tuning::span_period, cost(1000, 1100));
    EXPECT_EQ(slow.span.bytes(), BulkSpan::small) << "much, but in a long time";
    slow.run(enough, cost(80, 100));
    EXPECT_EQ(slow.span.bytes(), large);
    slow.span.begin_anew();
    slow.run(2 * tuning::span_warm_up - 8192, cost(80, 100));
    EXPECT_EQ(slow.span.bytes(), BulkSpan::small);
    slow.run(enough, cost(80, 100));
    EXPECT_EQ(slow.span.bytes(), large);
}

TEST(BulkSpan, IsStrictWhileItIsTried) {
    BulkSpan span(large);
    bool strictly_small = false;
    bool strictly_few_lines = false;
    for (std::uint64_t written = 0; written < enough; written += 8192) {
        strictly_small |= span.is_strict() && span.bytes() == BulkSpan::small;
        strictly_few_lines |= span.is_strict() && span.few_lines();
        if (span.wrote(8192)) {
            span.took(1 + written / 10);
        }
    }
    EXPECT_TRUE(strictly_small);
    EXPECT_TRUE(strictly_few_lines);
    EXPECT_FALSE(span.is_strict());
}

TEST(BulkSpan, LengthsMayDiffer) {
    Traffic traffic;
    traffic.run(enough, cost(100, 80), 300, 32 * 1024);
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
}

TEST(BulkSpan, TheSmallestRingIsUsedAsItIs) {
    BulkSpan span(BulkSpan::small);
    for (unsigned i = 0; i < 1'000'000; ++i) {
        ASSERT_FALSE(span.wrote(32 * 1024));
    }
    EXPECT_EQ(span.bytes(), BulkSpan::small);
}

} // namespace
} // namespace comch::link::soft
