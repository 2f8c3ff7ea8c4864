// What a round measured.
#pragma once

#include <cstdint>
#include <string>

#include "perftest/histogram.hpp"
#include "perftest/plan.hpp"

namespace comch::perftest {

/// Messages that were not as they should be.
struct Wrong {
    std::uint64_t messages = 0;
    std::string first; ///< in words

    void add(std::uint64_t count, const std::string& text) {
        if (messages == 0) {
            first = text;
        }
        messages += count;
    }
};

/// One size, as the client saw it: without the warm-up.
struct RoundResult {
    Load load;
    std::uint64_t sent = 0;     ///< messages; in a ping-pong the round trips
    std::uint64_t received = 0; ///< two-way: from the server meanwhile
    double seconds = 0;
    Histogram round_trips{}; ///< ping-pong: ticks of Clock
    Wrong wrong{};           ///< on either side, the warm-up included
};

} // namespace comch::perftest
