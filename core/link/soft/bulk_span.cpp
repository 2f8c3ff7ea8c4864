#include "core/link/soft/bulk_span.hpp"

#include <algorithm>

#include "core/base/median.hpp"

namespace comch::link::soft {

void BulkSpan::took(std::uint64_t now_ns) noexcept {
    if (!trying_) {
        if (!is_worth_it(now_ns)) {
            next_ = written_ + tuning::span_warm_up;
            return;
        }
        trying_ = true;
        trial_ = 0;
        begin_trial();
        return;
    }
    if (!timing_) {
        begin_stretch(now_ns);
        return;
    }
    samples_[sample_++] = ((now_ns - stretch_began_) << 10) / ((written_ - stretch_written_) >> 10);
    if (sample_ != samples) {
        begin_stretch(now_ns);
        return;
    }
    medians_[trial_] = median_of(samples_);
    if (++trial_ != trials) {
        begin_trial();
        return;
    }
    const std::uint64_t all = std::min(medians_[0], medians_[2]);
    const std::uint64_t beginning = std::max(medians_[1], medians_[3]);
    // Where it makes no difference all of it is used: that has room for more.
    choose(beginning < all - all / tuning::span_gain ? small : size_);
}

bool BulkSpan::is_worth_it(std::uint64_t now_ns) noexcept {
    const bool enough = looked_at_ != 0 && (now_ns - looked_at_) * tuning::span_bytes_per_ns <=
                                               written_ - looked_written_;
    looked_at_ = now_ns;
    looked_written_ = written_;
    return enough;
}

void BulkSpan::begin_trial() noexcept {
    span_ = uses_all(trial_) ? size_ : small;
    timing_ = false;
    sample_ = 0;
    next_ = written_ + std::max(span_, 2 * small); // from then on it is as it will be
}

void BulkSpan::begin_stretch(std::uint64_t now_ns) noexcept {
    timing_ = true;
    stretch_began_ = now_ns;
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
