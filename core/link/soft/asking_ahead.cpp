#include "core/link/soft/asking_ahead.hpp"

#include <utility>

#include "core/base/mix_bits.hpp"

namespace comch::link::soft {

namespace {

/// Up to twice the period. The peer has trials of its own, and what it does takes both ends longer: if both tried at
/// the same time again and again, neither would ever know whose doing it was.
std::uint64_t some_time_after(std::uint64_t period, std::uint64_t now_ns) noexcept {
    return period + mix_bits(now_ns) % period;
}

} // namespace

void AskingAhead::took(std::uint64_t now_ns) noexcept {
    const std::uint64_t time = now_ns - std::exchange(began_, now_ns);
    left_ = tuning::asking_stretch;
    if (time > tuning::asking_slowest_stretch_ns) {
        return; // nobody waits for these, or it was held up
    }
    if (trial_.running()) {
        if (trial_.took(time, tuning::asking_gain)) {
            to_come_ =
                some_time_after(tuning::period_after(trial_.same(), tuning::asking_period), now_ns);
        }
    } else if (--to_come_ == 0) {
        trial_.begin();
    }
    asks_ = trial_.now() == does;
}

} // namespace comch::link::soft
