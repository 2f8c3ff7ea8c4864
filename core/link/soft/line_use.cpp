#include "core/link/soft/line_use.hpp"

#include <utility>

namespace comch::link::soft {

void LineUse::took(std::uint64_t position, std::uint64_t messages, std::uint64_t now_ns) noexcept {
    const std::uint64_t time = now_ns - std::exchange(began_, now_ns);
    const std::uint64_t sent = messages - std::exchange(messages_, messages);
    lap_end_ = position + cells_;
    // What came now and then, or was not short messages, says nothing about streams of them.
    if (time > tuning::line_use_slowest_lap_ns || sent < cells_ / tuning::line_use_most_cells) {
        settling_ = true;
        return;
    }
    if (!trial_.running()) {
        if (--to_come_ == 0) {
            trial_.begin();
            settling_ = true;
        }
    } else if (!std::exchange(settling_, false)) {
        settling_ = true;
        if (trial_.took((time << 10) / sent, tuning::line_use_gain)) {
            to_come_ = tuning::period_after(trial_.same(), tuning::line_use_period);
        }
    }
}

} // namespace comch::link::soft
