#include "core/link/soft/line_sharing.hpp"

#include <algorithm>
#include <utility>

namespace comch::link::soft {
namespace {

template <class Times> std::uint64_t median_of(Times& times) noexcept {
    auto* const middle = times.data() + times.size() / 2;
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

} // namespace

void LineSharing::took(std::uint64_t position, std::uint64_t messages,
                       std::uint64_t now_ns) noexcept {
    const Lap lap{now_ns - std::exchange(began_, now_ns),
                  messages - std::exchange(messages_, messages)};
    lap_end_ = position + cells_;
    // What came now and then, or was not short messages, says nothing about streams of them.
    if (lap.time > tuning::sharing_slowest_lap_ns ||
        lap.messages < cells_ / tuning::sharing_most_cells) {
        settling_ = true;
        return;
    }
    if (trying_) {
        next_in_trial(lap);
    } else if (--to_come_ == 0) {
        begin_trial();
    }
}

void LineSharing::begin_trial() noexcept {
    trying_ = true;
    settling_ = true;
    sample_ = 0;
    now_ = share;
}

/// In turn, lap by lap: what changes meanwhile changes for both.
void LineSharing::next_in_trial(const Lap& lap) noexcept {
    if (std::exchange(settling_, false)) {
        return;
    }
    settling_ = true;
    times_[now_][sample_] = (lap.time << 10) / lap.messages;
    if (now_ == share) {
        now_ = fill;
        return;
    }
    now_ = share;
    if (++sample_ == samples) {
        end_trial();
    }
}

void LineSharing::end_trial() noexcept {
    const Way other = found_ == share ? fill : share;
    const std::uint64_t usual = median_of(times_[found_]);
    const bool changes = median_of(times_[other]) < usual - usual / tuning::sharing_gain;
    same_ = changes ? 0 : same_ + 1;
    now_ = found_ = changes ? other : found_;
    trying_ = false;
    to_come_ = tuning::period_after(same_, tuning::sharing_period);
}

} // namespace comch::link::soft
