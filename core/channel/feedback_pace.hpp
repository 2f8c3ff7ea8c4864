// When to tell a producer what was handled, over a link where that is a packet of its own.
//
// A producer that waits for one message to be handled before it sends the next wants to hear at
// once. One that gets an answer from the program at the other end, or goes on sending, does not:
// for it every feedback is a packet more, on the way of its messages. The consumer is not told
// which it is, but can see: feedback is withheld now and then, and if the next message comes all
// the same, nobody waited for it.
//
// While messages keep coming it is said after a number of them. Many, if the producer has more
// under way than that; but one that has not stops, and that is in vain, too.
//
// Time is counted in polls. Withholding in vain costs the producer some round trips, so it is tried
// more and more seldom where it was in vain.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/channel/tuning.hpp"

namespace comch::channel {

class FeedbackPace {
public:
    /// From here on the messages are of one record, or long: those may take a while by themselves.
    void is_of_records() noexcept {
        kind_ = &tuning::pace::of_records;
        slow_ns_ = 0;
    }
    void is_of_writes(std::uint64_t now_ns) noexcept {
        kind_ = &tuning::pace::of_writes;
        // As gap_, in time.
        slow_ns_ =
            std::max(std::min(now_ns - written_ns_, tuning::pace::longest_while_more_come_ns),
                     slow_ns_ - slow_ns_ / 8);
        written_ns_ = now_ns;
    }
    /// Messages have been handled. True: say so as soon as there is nothing more to be taken out.
    [[nodiscard]] bool arrived() noexcept {
        // Some come late, by accident: a long gap counts for a while.
        gap_ = std::max(std::min(polls_, tuning::pace::longest_gap), gap_ - gap_ / 8);
        polls_ = 0;
        if (small_left_ != 0) {
            --small_left_;
        }
        if (eager_left_ != 0) {
            --eager_left_;
            return true;
        }
        if (withheld_) {
            ++welcome_;
            doubt_ -= doubt_ != 0 ? 1 : 0;
        } else {
            withheld_ = true;
            since_ns_ = 0;
        }
        return false;
    }
    /// A poll found nothing, or no whole message. True: say now what there is to say. `now_ns` tells
    /// the time.
    template <class Clock> [[nodiscard]] bool idle(Clock&& now_ns) noexcept {
        polls_ += polls_ < patience() ? 1 : 0;
        if (!withheld_) {
            return true;
        }
        if (polls_ < patience()) {
            if (!looks_at_clock()) {
                return false;
            }
            const std::uint64_t now = now_ns();
            heard_ns_ = polls_ == 1 ? now : heard_ns_;
            since_ns_ = since_ns_ == 0 ? now : since_ns_;
            if (now - heard_ns_ < longest_ns()) {
                if (now - since_ns_ < tuning::pace::longest_while_more_come_ns) {
                    return false;
                }
                withheld_ = false; // said because of the time, not in vain
                return true;
            }
        }
        polls_ = 0; // who waited for it sends from now on
        was_in_vain();
        welcome_ = 0;
        withheld_ = false;
        return true;
    }
    /// The same, while as many messages are known to be on their way as there are to be told of:
    /// nobody waits, and nothing is found out; but slow ones must not keep it back for ever.
    template <class Clock> [[nodiscard]] bool passed(bool unsaid, Clock&& now_ns) noexcept {
        ++polls_;
        if (!unsaid || !(std::has_single_bit(polls_) || polls_ % tuning::pace::looks_apart == 0)) {
            return false;
        }
        const std::uint64_t now = now_ns();
        since_ns_ = since_ns_ == 0 ? now : since_ns_;
        return now - since_ns_ >= tuning::pace::longest_while_more_come_ns;
    }
    /// So many messages have been handled since it was said last. True: say it now, although more
    /// come.
    [[nodiscard]] bool is_enough(std::uint64_t unsaid) noexcept {
        if (small_left_ != 0) {
            return unsaid >= tuning::pace::small_batch;
        }
        if (unsaid < tuning::pace::large_batch) {
            return false;
        }
        small_for_ = tuning::pace::least_small; // the producer goes on
        return true;
    }
    /// It was said, for whatever reason.
    void told() noexcept {
        withheld_ = false;
        since_ns_ = 0;
    }

private:
    /// It was withheld, and no message came. A producer that waits for it stops every time; one
    /// that was stopped by accident, now and then: one accident is no reason to say more.
    void was_in_vain() noexcept {
        alike_ = welcome_ == welcome_before_ ? std::min(alike_ + 1, tuning::pace::proof) : 0;
        welcome_before_ = welcome_;
        doubt_ = std::min(doubt_ + kind_->each, kind_->most());
        if (welcome_ >= kind_->many) {
            eager_for_ = tuning::pace::few;
        } else if (doubt_ >= kind_->enough() || alike_ == tuning::pace::proof) {
            eager_left_ = eager_for_;
            eager_for_ = std::min(2 * eager_for_, tuning::pace::seldom);
        }
        if (alike_ == tuning::pace::proof && small_left_ == 0) {
            small_left_ = small_for_;
            small_for_ = std::min(2 * small_for_, tuning::pace::longest_small);
        }
    }
    /// Reading it takes as long as all else that an idle poll does, so it is read after 1, 4, 16, 64
    /// and so on of them: who polls seldom says it after four times as long, or four polls, at the
    /// worst.
    [[nodiscard]] bool looks_at_clock() const noexcept {
        return std::has_single_bit(polls_) && std::countr_zero(polls_) % 2 == 0;
    }
    /// Where a message takes a millisecond, that it has not come by then says nothing.
    [[nodiscard]] std::uint64_t longest_ns() const noexcept {
        return std::clamp(4 * slow_ns_, tuning::pace::longest_ns,
                          tuning::pace::longest_while_more_come_ns);
    }
    [[nodiscard]] std::uint32_t patience() const noexcept {
        return tuning::pace::least_patience + tuning::pace::gaps_of_patience * gap_;
    }

    std::uint32_t polls_ = 0; ///< that found nothing, since the last message or what was withheld
    std::uint32_t gap_ = 0;   ///< such polls between messages, usually
    std::uint64_t heard_ns_ = 0; ///< of the first such poll after a message
    std::uint64_t since_ns_ = 0; ///< of the first one since it is withheld; 0: none yet
    std::uint32_t eager_for_ = tuning::pace::few;
    std::uint32_t eager_left_ = tuning::pace::few;
    std::uint32_t small_for_ = tuning::pace::least_small;
    std::uint32_t small_left_ = tuning::pace::least_small;
    std::uint32_t welcome_ = 0; ///< messages that came while it was withheld, since it was in vain
    std::uint32_t welcome_before_ = 0; ///< the time before
    std::uint32_t alike_ = 0;          ///< how often that was the same
    std::uint32_t doubt_ = 0;
    const tuning::pace::Doubt* kind_ = &tuning::pace::of_records;
    std::uint64_t written_ns_ = 0; ///< the last long message
    std::uint64_t slow_ns_ = 0;    ///< between two of them, usually
    bool withheld_ = false;
};

} // namespace comch::channel
