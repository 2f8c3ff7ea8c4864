// How far a measurement is, on standard error: one line that is written over on a terminal, else a
// line every second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "perftest/values.hpp"

namespace comch::perftest {

class ProgressLine {
public:
    explicit ProgressLine(bool enabled);
    ~ProgressLine() { clear(); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    /// A size begins; `goal` with its messages summed up over all threads.
    void begin(std::uint64_t size, std::size_t number, std::size_t of, const Amount& goal);
    /// So many messages so far, the warm-up's among them. To be called as often as one likes.
    void update(std::uint64_t messages);
    void clear();

private:
    using Time = std::chrono::steady_clock::time_point;

    bool enabled_;
    bool terminal_;
    bool shown_ = false;
    std::string title_;
    Amount goal_;
    Time began_;
    Time last_;
    std::uint64_t last_messages_ = 0;
};

} // namespace comch::perftest
