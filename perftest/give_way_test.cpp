#include "perftest/give_way.hpp"

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

TEST(GiveWay, IsSeldomWhereNobodyTakesTheCpu) {
    GiveWay give_way;
    EXPECT_EQ(give_way.interval(), GiveWay::least);
    give_way.note(false);
    EXPECT_EQ(give_way.interval(), 2 * GiveWay::least);
    for (int i = 0; i < 100; ++i) {
        give_way.note(false);
    }
    EXPECT_EQ(give_way.interval(), GiveWay::most);
}

TEST(GiveWay, IsFrequentAgainAsSoonAsSomebodyDoes) {
    GiveWay give_way;
    for (int i = 0; i < 100; ++i) {
        give_way.note(false);
    }
    give_way.note(true);
    EXPECT_EQ(give_way.interval(), GiveWay::least);
}

} // namespace
} // namespace comch::perftest
