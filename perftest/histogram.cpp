#include "perftest/histogram.hpp"

#include <cmath>

namespace comch::perftest {

void Histogram::merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        buckets_[i] += other.buckets_[i];
    }
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
}

void Histogram::clear() noexcept {
    std::fill(buckets_.begin(), buckets_.end(), 0);
    count_ = 0;
    sum_ = 0;
    min_ = ~std::uint64_t{0};
    max_ = 0;
}

double Histogram::mean() const noexcept {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t Histogram::highest_in(std::size_t index) noexcept {
    if (index < 2 * linear) {
        return index;
    }
    const std::size_t shift = (index >> precision_bits) - 1;
    const std::uint64_t sub = index - (shift << precision_bits);
    return ((sub + 1) << shift) - 1;
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
    if (count_ == 0) {
        return 0;
    }
    // 99.99 % is no exact double: 9999 of 10000 must not become 9999.000000001 of them.
    const double exact = percent / 100 * static_cast<double>(count_);
    const auto rank = static_cast<std::uint64_t>(std::ceil(exact * (1 - 1e-12)));
    const std::uint64_t wanted = std::clamp<std::uint64_t>(rank, 1, count_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        seen += buckets_[i];
        if (seen >= wanted) {
            // The last bucket also holds what is beyond the range.
            return i + 1 == buckets_.size() ? max_ : std::clamp(highest_in(i), min_, max_);
        }
    }
    return max_;
}

} // namespace comch::perftest
