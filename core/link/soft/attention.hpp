// Does the peer attend to what we ask of it, or is it busy with something else? Known from what it does:
// takes records out, answers.
#pragma once

#include <cstdint>

#include "core/base/clock.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class Attention {
public:
    /// Something new has been asked of the peer.
    void asked() noexcept { waiting_ = false; }

    /// Called again and again while something waits for the peer; `signs()` changes with everything
    /// that the peer does, and `patience()` says how long to wait (tuning::patience). True: it has
    /// done nothing for as long as it is waited for.
    template <class Signs, class Patience>
    [[nodiscard]] bool missing(Signs&& signs, Patience&& patience) noexcept {
        if (++looks_ % tuning::looks_for_attention != 0 && !look_now_) {
            return false;
        }
        look_now_ = false;
        const std::uint64_t seen = signs();
        if (absent(seen)) {
            return true;
        }
        const std::uint64_t now = monotonic_ns();
        const bool was_away = now - looked_ns_ > tuning::attention_ns;
        looked_ns_ = now;
        if (!waiting_ || seen != seen_) {
            waiting_ = true;
            seen_ = seen;
            began_ns_ = since_ns_ = now;
            excused_ = false;
        } else if (was_away && !excused_) {
            // Perhaps it is us who did something else, and what the peer has done meanwhile has not
            // been taken out: the next look tells, whenever that is. (Once in a wait: who is always
            // away would wait for ever.)
            excused_ = true;
            look_now_ = true;
            since_ns_ = now;
        } else if (const std::uint64_t waited = now - since_ns_; waited > tuning::attention_ns) {
            const tuning::Patience wait = patience();
            if (waited > wait.ns) {
                distrust_ = tuning::signs_of_attention;
                // Who is always away waits long.
                in_vain_ns_ = now - (was_away ? began_ns_ : since_ns_) - wait.worth_ns;
                passed_by_ns_ = 0;
            }
        }
        return distrust_ != 0;
    }

    template <class Signs> [[nodiscard]] bool missing(Signs&& signs) noexcept {
        return missing(signs, [] { return tuning::patience(0, true); });
    }

    /// It has been missing lately, and too few signs of it have come since.
    [[nodiscard]] bool absent(std::uint64_t signs) noexcept {
        if (distrust_ != 0 && signs != seen_) {
            seen_ = signs;
            waiting_ = false; // a new wait, if there is one
            const bool worth_it = passed_by_ns_ >= tuning::waits_to_try_again * in_vain_ns_;
            distrust_ = worth_it ? 0 : distrust_ - 1;
        }
        return distrust_ != 0;
    }
    /// A get was done without it, and took so long.
    void passed_by(std::uint64_t ns) noexcept { passed_by_ns_ += ns; }
    [[nodiscard]] bool distrusted() const noexcept { return distrust_ != 0; }

private:
    std::uint64_t seen_ = 0;
    std::uint64_t began_ns_ = 0; ///< to wait
    std::uint64_t since_ns_ = 0; ///< the same, or the last excuse
    std::uint64_t looked_ns_ = 0;
    std::uint64_t in_vain_ns_ = 0;   ///< waited for it, before it was found to be missing
    std::uint64_t passed_by_ns_ = 0; ///< since then
    unsigned looks_ = 0;
    unsigned distrust_ = 0; ///< signs to come before it is waited for again
    bool waiting_ = false;
    bool excused_ = false;  ///< in this wait
    bool look_now_ = false; ///< at the clock, with the next look
};

} // namespace comch::link::soft
