#include "core/link/soft/bulk_span.hpp"

#include <algorithm>

namespace comch::link::soft {

void BulkSpan::took(std::uint64_t now) noexcept {
    if (!trying_) {
        trying_ = true;
        trial_ = 0;
        begin_trial();
        return;
    }
    if (!timing_) {
        begin_stretch(now);
        return;
    }
    if (++attempt_ == attempts) {
        choose(size_); // there is too much under way for less
        return;
    }
    if (!beyond_ || uses_all(trial_)) {
        // Who lost the CPU meanwhile took too long, and so it seems where the counter went back.
        constexpr std::uint64_t longest = std::uint64_t{1} << 40;
        const std::uint64_t time = std::min(now - stretch_began_, longest);
        samples_[sample_++] = (time << 10) / ((written_ - stretch_written_) >> 10);
    }
    if (sample_ != samples) {
        begin_stretch(now);
        return;
    }
    auto* const middle = samples_.begin() + samples / 2;
    std::nth_element(samples_.begin(), middle, samples_.end());
    medians_[trial_] = *middle;
    if (++trial_ != trials) {
        begin_trial();
        return;
    }
    const std::uint64_t all = std::min(medians_[0], medians_[2]);
    const std::uint64_t beginning = std::max(medians_[1], medians_[3]);
    // Where it makes no difference all of it is used: that has room for more.
    choose(beginning < all - all / tuning::span_gain ? small : size_);
}

void BulkSpan::begin_trial() noexcept {
    span_ = uses_all(trial_) ? size_ : small;
    timing_ = false;
    attempt_ = 0;
    sample_ = 0;
    next_ = written_ + std::max(span_, 2 * small); // from then on it is as it will be
}

void BulkSpan::begin_stretch(std::uint64_t now) noexcept {
    timing_ = true;
    beyond_ = false;
    stretch_began_ = now;
    stretch_written_ = written_;
    next_ = written_ + tuning::span_stretch;
}

void BulkSpan::choose(std::uint32_t span) noexcept {
    same_ = span == found_ ? same_ + 1 : 0;
    span_ = found_ = span;
    trying_ = false;
    next_ = written_ + tuning::period_after(same_, tuning::span_period);
}

} // namespace comch::link::soft
