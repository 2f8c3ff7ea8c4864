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
    choose(fastest());
}

BulkSpan::Use BulkSpan::fastest() const noexcept {
    // Where it makes no difference it is the one that has room for more.
    unsigned best = 0;
    for (unsigned other = 1; other < uses; ++other) {
        const std::uint64_t before = std::min(medians_[best], medians_[best + uses]);
        const std::uint64_t with = std::max(medians_[other], medians_[other + uses]);
        if (with < before - before / tuning::span_gain) {
            best = other;
        }
    }
    return static_cast<Use>(best);
}

bool BulkSpan::is_worth_it(std::uint64_t now_ns) noexcept {
    const bool enough = looked_at_ != 0 && (now_ns - looked_at_) * tuning::span_bytes_per_ns <=
                                               written_ - looked_written_;
    looked_at_ = now_ns;
    looked_written_ = written_;
    return enough;
}

void BulkSpan::begin_trial() noexcept {
    use(static_cast<Use>(trial_ % uses));
    timing_ = false;
    sample_ = 0;
    next_ =
        written_ + std::max(use_ == Use::all ? size_ : 0, 2 * small); // then it is as it will be
}

void BulkSpan::begin_stretch(std::uint64_t now_ns) noexcept {
    timing_ = true;
    stretch_began_ = now_ns;
    stretch_written_ = written_;
    next_ = written_ + tuning::span_stretch;
}

void BulkSpan::choose(Use choice) noexcept {
    same_ = choice == found_ ? same_ + 1 : 0;
    found_ = choice;
    use(choice);
    trying_ = false;
    next_ = written_ + tuning::period_after(same_, tuning::span_period);
}

} // namespace comch::link::soft
