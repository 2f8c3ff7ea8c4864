// How much of a bulk ring is used: whatever is faster with the traffic that there is.
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "core/link/soft/bulk_span.hpp"

namespace comch::link::soft {
namespace {

constexpr std::uint32_t large = tuning::bulk_size;

/// Nanoseconds that a message of so many bytes takes with a span of so many.
using Cost = std::function<std::uint64_t(std::uint32_t length, std::uint32_t span)>;

Cost cost(std::uint64_t with_all, std::uint64_t with_the_beginning) {
    return [=](std::uint32_t length, std::uint32_t span) {
        return length * (span == large ? with_all : with_the_beginning) / 1000;
    };
}

struct Traffic {
    BulkSpan span{large};
    std::uint64_t now = 1000;
    std::uint64_t in_small = 0; ///< bytes that were written with the small one
    std::mt19937 random{7};

    void run(std::uint64_t bytes, const Cost& takes, std::uint32_t least = 8192,
             std::uint32_t most = 8192) {
        for (std::uint64_t written = 0; written < bytes;) {
            const auto length = static_cast<std::uint32_t>(least + random() % (most - least + 1));
            now += takes(length, span.bytes());
            in_small += span.bytes() == large ? 0 : length;
            if (span.wrote(length)) {
                span.took(now);
            }
            written += length;
        }
    }
};

/// More than the warm-up and all trials.
constexpr std::uint64_t enough = 2 * tuning::span_warm_up + 6 * std::uint64_t{large};

TEST(BulkSpan, IsTheFasterOne) {
    Traffic traffic;
    traffic.run(enough, cost(100, 80));
    EXPECT_EQ(traffic.span.bytes(), BulkSpan::small);
    Traffic other;
    other.run(enough, cost(80, 100));
    EXPECT_EQ(other.span.bytes(), large);
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
    EXPECT_GT(traffic.in_small, 0u);
    EXPECT_LT(traffic.in_small, 2 * tuning::span_warm_up + 8 * tuning::span_period / 32);
    const std::uint64_t before = traffic.in_small;
    traffic.run(8 * tuning::span_period, cost(80, 100));
    EXPECT_LT(traffic.in_small - before, 8 * tuning::span_period / 64) << "after a while";
}

TEST(BulkSpan, WhoLosesTheCpuNowAndThenFindsItAllTheSame) {
    for (const bool small_is_faster : {true, false}) {
        Traffic traffic;
        unsigned messages = 0;
        const Cost steady = small_is_faster ? cost(100, 80) : cost(80, 100);
        traffic.run(enough, [&](std::uint32_t length, std::uint32_t span) {
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
    for (std::uint64_t written = 0; written < enough; written += 8192) {
        strictly_small |= span.is_strict() && span.bytes() == BulkSpan::small;
        if (span.wrote(8192)) {
            span.took(1 + written / 10);
        }
    }
    EXPECT_TRUE(strictly_small);
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
