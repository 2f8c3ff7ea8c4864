// How tests let time pass.
#pragma once

#include <chrono>

namespace comch::test {

/// Calls `step` for that long, and at least a hundred times, also on a machine that runs somebody
/// else all the while: for what must not happen, and for what is freed later.
template <class Step> void for_a_while(std::chrono::milliseconds time, Step step) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    for (int rounds = 0; rounds < 100 || std::chrono::steady_clock::now() < deadline; ++rounds) {
        step();
    }
}

} // namespace comch::test
