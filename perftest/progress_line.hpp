// How far a measurement is, on standard error: one line that is written over on a terminal, else a
// line every second. Warm-up and measurement are two things, each with its own goal and its own
// per cent; messages are what that goal counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "perftest/values.hpp"

namespace comch::perftest {

enum class Phase : std::uint8_t { warm_up, measurement };

/// Of a goal, between 0 and 1, after so many messages and seconds.
[[nodiscard]] double part_of(const Amount& goal, std::uint64_t messages, double seconds) noexcept;

class ProgressLine {
public:
    explicit ProgressLine(bool enabled);
    ~ProgressLine() { clear(); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    /// A size begins; both with their messages summed up over all threads.
    void begin(std::uint64_t size, std::size_t number, std::size_t of, const Amount& warm_up,
               const Amount& goal);
    /// So many messages in this phase so far. To be called as often as one likes.
    void update(Phase phase, std::uint64_t messages);
    void clear();

private:
    using Time = std::chrono::steady_clock::time_point;

    bool enabled_;
    bool terminal_;
    bool shown_ = false;
    std::string title_;
    Amount warm_up_;
    Amount goal_;
    Phase phase_ = Phase::warm_up;
    Time began_; ///< the phase
    Time last_;
    std::uint64_t last_messages_ = 0;
};

} // namespace comch::perftest
