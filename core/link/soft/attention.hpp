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
        if (!waiting_ || seen != seen_) {
            waiting_ = true;
            seen_ = seen;
            since_ns_ = now;
        } else if (now - since_ns_ > tuning::attention_ns) {
            distrust_ = tuning::signs_of_attention;
        }
        return distrust_ != 0;
    }

    /// It has been missing lately, and too few signs of it have come since.
    [[nodiscard]] bool absent(std::uint64_t signs) noexcept {
        if (distrust_ != 0 && signs != seen_) {
            seen_ = signs;
            --distrust_;
        }
        return distrust_ != 0;
    }
    [[nodiscard]] bool distrusted() const noexcept { return distrust_ != 0; }

private:
    std::uint64_t seen_ = 0;
    std::uint64_t since_ns_ = 0;
    unsigned looks_ = 0;
    unsigned distrust_ = 0; ///< signs to come before it is waited for again
    bool waiting_ = false;
};

} // namespace comch::link::soft
