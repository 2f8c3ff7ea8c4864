#include "perftest/histogram.hpp"

#include <random>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

constexpr double precision = 1.0 / 1024;

TEST(Histogram, SaysNothingOfNothing) {
    const Histogram empty;
    EXPECT_EQ(empty.count(), 0u);
    EXPECT_EQ(empty.min(), 0u);
    EXPECT_EQ(empty.max(), 0u);
    EXPECT_EQ(empty.mean(), 0.0);
    EXPECT_EQ(empty.percentile(50), 0u);
}

TEST(Histogram, SmallValuesAreExact) {
    Histogram h;
    for (std::uint64_t v = 1; v <= 1000; ++v) {
        h.record(v);
    }
    EXPECT_EQ(h.min(), 1u);
    EXPECT_EQ(h.max(), 1000u);
    EXPECT_DOUBLE_EQ(h.mean(), 500.5);
    EXPECT_EQ(h.percentile(0), 1u);
    EXPECT_EQ(h.percentile(50), 500u);
    EXPECT_EQ(h.percentile(99), 990u);
    EXPECT_EQ(h.percentile(99.9), 999u);
    EXPECT_EQ(h.percentile(99.99), 1000u);
    EXPECT_EQ(h.percentile(100), 1000u);
}

TEST(Histogram, TheRareValueIsWhereItBelongs) {
    Histogram h;
    for (int i = 0; i < 9999; ++i) {
        h.record(10);
    }
    h.record(500);
    EXPECT_EQ(h.percentile(99.99), 10u) << "9999 of 10000 are at most this";
    EXPECT_EQ(h.percentile(99.995), 500u);
    h.record(500);
    EXPECT_EQ(h.percentile(99.99), 500u);
}

TEST(Histogram, LargeValuesAreKnownToTheirPrecision) {
    for (std::uint64_t value = 1; value < std::uint64_t{1} << 41; value = value * 3 + 1) {
        Histogram h;
        h.record(1); // so that neither min nor max help
        h.record(value);
        h.record(std::uint64_t{1} << 41);
        const auto got = static_cast<double>(h.percentile(60));
        const auto want = static_cast<double>(value);
        EXPECT_GE(got, want);
        EXPECT_LE(got, want * (1 + precision)) << value;
    }
}

TEST(Histogram, BucketsAtPowersOfTwoDoNotOverlap) {
    for (unsigned bit = 9; bit < 42; ++bit) {
        const std::uint64_t power = std::uint64_t{1} << bit;
        Histogram h;
        h.record(1);
        h.record(power - 1);
        h.record(power);
        h.record(power * 2);
        EXPECT_EQ(h.percentile(50), power - 1);
        EXPECT_GE(h.percentile(75), power);
        EXPECT_LE(static_cast<double>(h.percentile(75)),
                  static_cast<double>(power) * (1 + precision));
    }
}

TEST(Histogram, WhatIsBeyondTheRangeIsStillTheMaximum) {
    Histogram h;
    h.record(5);
    h.record(~std::uint64_t{0} / 4);
    EXPECT_EQ(h.max(), ~std::uint64_t{0} / 4);
    EXPECT_EQ(h.percentile(100), ~std::uint64_t{0} / 4);
    EXPECT_EQ(h.percentile(50), 5u);
}

TEST(Histogram, AgreesWithSorting) {
    std::mt19937_64 draw(7);
    std::lognormal_distribution<double> law(8, 2);
    Histogram one;
    Histogram other;
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 100'000; ++i) {
        all.push_back(static_cast<std::uint64_t>(law(draw)) + 1);
        (i % 3 == 0 ? one : other).record(all.back());
    }
    one.merge(other);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(one.count(), all.size());
    EXPECT_EQ(one.min(), all.front());
    EXPECT_EQ(one.max(), all.back());
    for (const double percent : {1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99}) {
        const auto rank =
            static_cast<std::size_t>(percent / 100 * static_cast<double>(all.size()) + 0.5);
        const auto want = static_cast<double>(all[rank - 1]);
        const auto got = static_cast<double>(one.percentile(percent));
        EXPECT_GE(got, want) << percent;
        EXPECT_LE(got, want * (1 + precision)) << percent;
    }
    one.clear();
    EXPECT_EQ(one.count(), 0u);
    EXPECT_EQ(one.percentile(50), 0u);
}

} // namespace
} // namespace comch::perftest
