#include "perftest/long_enough.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

TEST(LongEnough, TheFirstRunIsNoResult) {
    std::vector<std::uint64_t> counts;
    const Timed result = run_long_enough(1, [&](std::uint64_t count) {
        counts.push_back(count);
        return counts.size() == 1 ? 60.0 : 2.0; // cold, and then warm
    });
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{2, 2}));
    EXPECT_EQ(result.count, 2u);
    EXPECT_DOUBLE_EQ(result.seconds, 2);
}

TEST(LongEnough, TheCountGrowsUntilItIs) {
    std::vector<std::uint64_t> counts;
    const Timed result = run_long_enough(1, [&](std::uint64_t count) {
        counts.push_back(count);
        return static_cast<double>(count) * 1e-3;
    });
    EXPECT_EQ(counts.size(), 5u) << "by 20 at most";
    EXPECT_EQ(result.count, counts.back());
    EXPECT_GE(result.seconds, 1);
    EXPECT_LE(result.seconds, 1.2);
}

} // namespace
} // namespace comch::perftest
