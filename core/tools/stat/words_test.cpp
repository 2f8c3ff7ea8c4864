#include "core/tools/stat/words.hpp"

#include <gtest/gtest.h>

namespace comch::stat {
namespace {

TEST(Words, NumbersAreShort) {
    EXPECT_EQ(short_count(0), "0");
    EXPECT_EQ(short_count(0.25), "0.2");
    EXPECT_EQ(short_count(7), "7");
    EXPECT_EQ(short_count(9999), "9999");
    EXPECT_EQ(short_count(9999.6), "10.0k");
    EXPECT_EQ(short_count(12345), "12.3k");
    EXPECT_EQ(short_count(999'499), "999k");
    EXPECT_EQ(short_count(999'500), "1.00M");
    EXPECT_EQ(short_count(1.5e9), "1.50G");
    EXPECT_EQ(short_bytes(9999), "9999");
    EXPECT_EQ(short_bytes(10240), "10.0k");
    EXPECT_EQ(short_bytes(1023.0 * 1024), "1.00M");
    EXPECT_EQ(short_bytes(1.5 * 1024 * 1024 * 1024), "1.50G");
    for (double value = 0.01; value < 1e19; value *= 1.07) {
        EXPECT_LE(short_count(value).size(), 5u) << value;
        EXPECT_LE(short_bytes(value).size(), 5u) << value;
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
