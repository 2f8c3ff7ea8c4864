#include "perftest/progress_line.hpp"

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

TEST(ProgressLine, AGoalHasOneUnit) {
    EXPECT_DOUBLE_EQ(part_of({.messages = 200}, 50, 7), 0.25);
    EXPECT_DOUBLE_EQ(part_of({.messages = 200}, 300, 7), 1);
    EXPECT_DOUBLE_EQ(part_of({.seconds = 4}, 50, 1), 0.25);
    EXPECT_DOUBLE_EQ(part_of({.seconds = 4}, 50, 5), 1);
    EXPECT_DOUBLE_EQ(part_of({}, 0, 0), 1) << "nothing to do";
}

} // namespace
} // namespace comch::perftest
