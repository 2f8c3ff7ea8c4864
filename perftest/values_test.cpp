#include "perftest/values.hpp"

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

using Sizes = std::vector<std::uint64_t>;
using Cpus = std::vector<std::uint32_t>;

TEST(Sizes, AreBytesOrPowersOf1024) {
    EXPECT_EQ(parse_size("0").value(), 0u);
    EXPECT_EQ(parse_size("8").value(), 8u);
    EXPECT_EQ(parse_size(" 64B ").value(), 64u);
    EXPECT_EQ(parse_size("4k").value(), 4096u);
    EXPECT_EQ(parse_size("4 KiB").value(), 4096u);
    EXPECT_EQ(parse_size("1M").value(), 1u << 20);
    EXPECT_EQ(parse_size("2GB").value(), std::uint64_t{2} << 30);
    EXPECT_EQ(parse_size("18446744073709551615").value(), ~std::uint64_t{0});
}

TEST(Sizes, NonsenseIsNamed) {
    for (const char* text : {"", " ", "x", "-1", "+1", "1.5K", "8X", "8KK", "K", "0x10", "1 2",
                             "18446744073709551616", "18446744073709551615K"}) {
        const auto size = parse_size(text);
        ASSERT_FALSE(size.has_value()) << text;
        EXPECT_EQ(size.error().code, Errc::invalid_argument);
        EXPECT_NE(size.error().message.find("is not a size"), std::string::npos);
    }
    EXPECT_NE(parse_sizes("8,12q").error().message.find("'12q'"), std::string::npos);
}

TEST(Sizes, ListsKeepTheirOrder) {
    EXPECT_EQ(parse_sizes("8,64,1K").value(), (Sizes{8, 64, 1024}));
    EXPECT_EQ(parse_sizes("64, 8 ,8").value(), (Sizes{64, 8, 8}));
    for (const char* text : {"", ",", "8,", ",8", "8,,9"}) {
        EXPECT_FALSE(parse_sizes(text).has_value()) << text;
    }
}

TEST(Sizes, RangesMultiplyOrAdd) {
    EXPECT_EQ(parse_sizes("1:16").value(), (Sizes{1, 2, 4, 8, 16}));
    EXPECT_EQ(parse_sizes("1:17 x2").value(), (Sizes{1, 2, 4, 8, 16}));
    EXPECT_EQ(parse_sizes("1:1Kx4").value(), (Sizes{1, 4, 16, 64, 256, 1024}));
    EXPECT_EQ(parse_sizes("3:100*10").value(), (Sizes{3, 30}));
    EXPECT_EQ(parse_sizes("0:30+10").value(), (Sizes{0, 10, 20, 30}));
    EXPECT_EQ(parse_sizes("1K:3K+1K,7").value(), (Sizes{1024, 2048, 3072, 7}));
    EXPECT_EQ(parse_sizes("5:5").value(), (Sizes{5}));
    EXPECT_EQ(parse_sizes("1:18446744073709551615").value().size(), 64u);
}

TEST(Sizes, RangesThatNeverEndOrAreTooLongAreRefused) {
    for (const char* text : {"8:1", "0:8", "1:8x1", "1:8x0", "1:8+0", "1:8x", "1:", ":8", "1:2:3",
                             "1:8y2", "1:1000000+1", "1:999+1,1:999+1"}) {
        EXPECT_FALSE(parse_sizes(text).has_value()) << text;
    }
    EXPECT_EQ(parse_sizes("1:1000+1").value().size(), 1000u);
}

TEST(Times, HaveUnits) {
    EXPECT_DOUBLE_EQ(parse_seconds("2").value(), 2);
    EXPECT_DOUBLE_EQ(parse_seconds("0.5s").value(), 0.5);
    EXPECT_DOUBLE_EQ(parse_seconds("250ms").value(), 0.25);
    EXPECT_DOUBLE_EQ(parse_seconds("100 us").value(), 1e-4);
    EXPECT_DOUBLE_EQ(parse_seconds("2m").value(), 120);
    for (const char* text : {"", "0", "0s", "-1", "1h", "nan", "inf", "1e9", "2 days", "ms"}) {
        EXPECT_FALSE(parse_seconds(text).has_value()) << text;
    }
}

TEST(Amounts, AreMessagesOrTimes) {
    EXPECT_EQ(parse_amount("1000").value(), (Amount{.messages = 1000}));
    EXPECT_EQ(parse_amount("10k").value(), (Amount{.messages = 10'000}));
    EXPECT_EQ(parse_amount("0").value(), Amount{});
    EXPECT_EQ(parse_amount("2s").value(), (Amount{.seconds = 2}));
    EXPECT_EQ(parse_amount("100ms").value().messages, 0u);
    for (const char* text : {"", "x", "-5", "0s", "18446744073709551615k"}) {
        EXPECT_FALSE(parse_amount(text).has_value()) << text;
    }
}

TEST(Amounts, OfTimeHaveAUnit) {
    EXPECT_EQ(parse_amount("1e4s").value(), (Amount{.seconds = 10'000}));
    for (const char* text : {"1e4", "0.5", ".5", "1e4 "}) {
        const auto amount = parse_amount(text);
        ASSERT_FALSE(amount.has_value()) << text << ": " << amount->seconds << " s";
        EXPECT_NE(amount.error().message.find("a time with its unit"), std::string::npos);
    }
}

TEST(Amounts, DoNotWrap) {
    EXPECT_EQ(parse_amount("281474976710656").value(), (Amount{.messages = max_messages}));
    for (const char* text : {"281474976710657", "281474976711k", "18446744073709551615"}) {
        const auto amount = parse_amount(text);
        ASSERT_FALSE(amount.has_value()) << text;
        EXPECT_NE(amount.error().message.find("more than 281474976710656"), std::string::npos);
    }
}

TEST(CpuLists, KeepTheirOrder) {
    EXPECT_EQ(parse_cpus("3").value(), (Cpus{3}));
    EXPECT_EQ(parse_cpus("0,2-5,1").value(), (Cpus{0, 2, 3, 4, 5, 1}));
    EXPECT_EQ(format_cpus({0, 2, 1}), "0,2,1");
    for (const char* text :
         {"", "a", "1-", "-1", "3-1", "1,,2", "1;2", "4096", "0-99999999", "4294967296"}) {
        EXPECT_FALSE(parse_cpus(text).has_value()) << text;
    }
}

} // namespace
} // namespace comch::perftest
