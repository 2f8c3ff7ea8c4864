#include "core/link/soft/line_use.hpp"

#include <utility>

#include "core/base/median.hpp"

namespace comch::link::soft {

void LineUse::took(std::uint64_t position, std::uint64_t messages, std::uint64_t now_ns) noexcept {
    const Lap lap{now_ns - std::exchange(began_, now_ns),
                  messages - std::exchange(messages_, messages)};
    lap_end_ = position + cells_;
    // What came now and then, or was not short messages, says nothing about streams of them.
    if (lap.time > tuning::line_use_slowest_lap_ns ||
        lap.messages < cells_ / tuning::line_use_most_cells) {
        settling_ = true;
        return;
    }
    if (trying_) {
        next_in_trial(lap);
    } else if (--to_come_ == 0) {
        begin_trial();
    }
}

void LineUse::begin_trial() noexcept {
    trying_ = true;
    settling_ = true;
    sample_ = 0;
    current_ = 0;
}

/// In turn, lap by lap: what changes meanwhile changes for all.
void LineUse::next_in_trial(const Lap& lap) noexcept {
    if (std::exchange(settling_, false)) {
        return;
    }
    settling_ = true;
    times_[current_][sample_] = (lap.time << 10) / lap.messages;
    if (++current_ != ways.size()) {
        return;
    }
    current_ = 0;
    if (++sample_ == samples) {
        end_trial();
    }
}

void LineUse::end_trial() noexcept {
    std::size_t best = found_;
    std::uint64_t least = median_of(times_[found_]);
    least -= least / tuning::line_use_gain;
    for (std::size_t way = 0; way < ways.size(); ++way) {
        if (way == found_) {
            continue;
        }
        if (const std::uint64_t median = median_of(times_[way]); median < least) {
            best = way;
            least = median;
        }
    }
    same_ = best == found_ ? same_ + 1 : 0;
    current_ = found_ = best;
    trying_ = false;
    to_come_ = tuning::period_after(same_, tuning::line_use_period);
}

} // namespace comch::link::soft
