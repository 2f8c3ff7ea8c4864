// Does the peer attend to what we ask of it, or is it busy with something else? Known from what it does:
// takes records out, answers.
#pragma once

#include <cstdint>

#include "core/link/soft/clock.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class Attention {
public:
    /// Something new has been asked of the peer.
    void asked() noexcept { waiting_ = false; }

    /// Called again and again while something waits for the peer; `signs()` changes with everything
    /// that the peer does. True: it has done nothing for as long as it is waited for.
    template <class Signs> [[nodiscard]] bool missing(Signs&& signs) noexcept {
        if (++looks_ % tuning::looks_for_attention != 0) {
            return false;
        }
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
            since_ns_ = now;
        } else if (was_away && !excused_) {
            // It is us who did something else: what the peer has done meanwhile we have not seen
            // yet. (Who always does something else is not excused twice.)
            excused_ = true;
            return distrust_ != 0;
        } else if (now - since_ns_ > tuning::attention_ns) {
            distrust_ = tuning::signs_of_attention;
            passed_by_ns_ = 0;
        }
        excused_ = false;
        return distrust_ != 0;
    }

    /// It has been missing lately, and too few signs of it have come since.
    [[nodiscard]] bool absent(std::uint64_t signs) noexcept {
        if (distrust_ != 0 && signs != seen_) {
            seen_ = signs;
            distrust_ = passed_by_ns_ >= tuning::attention_again_ns ? 0 : distrust_ - 1;
        }
        return distrust_ != 0;
    }
    /// Something was done without it, and took so long.
    void passed_by(std::uint64_t ns) noexcept { passed_by_ns_ += ns; }
    [[nodiscard]] bool distrusted() const noexcept { return distrust_ != 0; }

private:
    std::uint64_t seen_ = 0;
    std::uint64_t since_ns_ = 0;
    std::uint64_t looked_ns_ = 0;
    std::uint64_t passed_by_ns_ = 0; ///< since it was found to be missing
    unsigned looks_ = 0;
    unsigned distrust_ = 0; ///< signs to come before it is waited for again
    bool waiting_ = false;
    bool excused_ = false; ///< at the last look
};

} // namespace comch::link::soft
