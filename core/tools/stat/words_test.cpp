#include "core/tools/stat/words.hpp"

#include <gtest/gtest.h>

namespace comch::stat {
namespace {

TEST(Words, NumbersAreShort) {
    EXPECT_EQ(short_number(0), "0");
    EXPECT_EQ(short_number(0.25), "0.2");
    EXPECT_EQ(short_number(7), "7");
    EXPECT_EQ(short_number(9999), "9999");
    EXPECT_EQ(short_number(9999.6), "10.0k");
    EXPECT_EQ(short_number(12345), "12.3k");
    EXPECT_EQ(short_number(999'499), "999k");
    EXPECT_EQ(short_number(999'500), "1.00M");
    EXPECT_EQ(short_number(1.5e9), "1.50G");
    for (double value = 0.01; value < 1e19; value *= 1.07) {
        EXPECT_LE(short_number(value).size(), 5u) << value;
    }
}

TEST(Words, NamesDoNothingToATerminal) {
    EXPECT_EQ(printable("host_pf0"), "host_pf0");
    EXPECT_EQ(printable("\033[2J\a\x7f\n"), "?[2J???");
    EXPECT_EQ(printable("\xc3\xa4"), "??");
}

TEST(Words, WhatNobodyWritesIsUnknown) {
    EXPECT_STREQ(state_text(counters::SlotState::connected), "connected");
    EXPECT_STREQ(state_text(static_cast<counters::SlotState>(77)), "unknown");
    EXPECT_STREQ(side_text(0), "host");
    EXPECT_STREQ(side_text(1), "dpu");
    EXPECT_STREQ(side_text(2), "unknown");
}

} // namespace
} // namespace comch::stat
