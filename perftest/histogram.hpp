// A histogram of positive integers over a wide range with a bounded relative error, after the idea
// of HdrHistogram: buckets are linear inside a power of two and logarithmic over them. Debian 12
// packages no C or C++ implementation, and recording must be a handful of instructions in line.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace comch::perftest {

class Histogram {
public:
    /// 2^10 buckets for each power of two: a value is known to 1/1024, better than 0.1 %.
    static constexpr unsigned precision_bits = 10;
    /// What is longer counts as this long (and exactly in max() and mean()).
    static constexpr unsigned range_bits = 42;

    Histogram() : buckets_((range_bits - precision_bits + 1) << precision_bits) {}

    void record(std::uint64_t value) noexcept {
        ++buckets_[index_of(value)];
        ++count_;
        sum_ += value;
        min_ = std::min(min_, value);
        max_ = std::max(max_, value);
    }

    void merge(const Histogram& other) noexcept;
    void clear() noexcept;

    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] std::uint64_t min() const noexcept { return count_ == 0 ? 0 : min_; }
    [[nodiscard]] std::uint64_t max() const noexcept { return max_; }
    [[nodiscard]] double mean() const noexcept;

    /// The smallest recorded value (to the precision) that at least `percent` of all values do not
    /// exceed. 0 when nothing was recorded.
    [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;

private:
    static constexpr std::uint64_t linear = std::uint64_t{1} << precision_bits;

    [[nodiscard]] static std::size_t index_of(std::uint64_t value) noexcept {
        value = std::min(value, (std::uint64_t{1} << range_bits) - 1);
        if (value < linear) {
            return value;
        }
        // The highest set bit says which power of two, the ten bits below it which bucket.
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - precision_bits;
        return (std::size_t{shift} << precision_bits) + (value >> shift);
    }
    /// The largest value that falls into a bucket.
    [[nodiscard]] static std::uint64_t highest_in(std::size_t index) noexcept;

    std::vector<std::uint64_t> buckets_;
    std::uint64_t count_ = 0;
    std::uint64_t sum_ = 0;
    std::uint64_t min_ = ~std::uint64_t{0};
    std::uint64_t max_ = 0;
};

} // namespace comch::perftest
