#include "perftest/progress_line.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

namespace comch::perftest {

double part_of(const Amount& goal, std::uint64_t messages, double seconds) noexcept {
    const double part = goal.seconds > 0 ? seconds / goal.seconds
                        : goal.messages != 0
                            ? static_cast<double>(messages) / static_cast<double>(goal.messages)
                            : 1;
    return std::clamp(part, 0.0, 1.0);
}

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(std::uint64_t size, std::size_t number, std::size_t of,
                         const Amount& warm_up, const Amount& goal) {
    if (!enabled_) {
        return;
    }
    title_ = fmt::format("[{}/{}] {} bytes", number, of, size);
    warm_up_ = warm_up;
    goal_ = goal;
    phase_ = Phase::warm_up;
    began_ = last_ = std::chrono::steady_clock::now();
    last_messages_ = 0;
}

void ProgressLine::update(Phase phase, std::uint64_t messages) {
    if (!enabled_) {
        return;
    }
    const Time now = std::chrono::steady_clock::now();
    if (phase != phase_) {
        phase_ = phase;
        began_ = last_ = now;
        last_messages_ = 0;
    }
    const std::chrono::duration<double> since = now - last_;
    if (since < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(1000))) {
        return;
    }
    const std::chrono::duration<double> total = now - began_;
    const bool warms_up = phase == Phase::warm_up;
    const double part = part_of(warms_up ? warm_up_ : goal_, messages, total.count());
    const double rate =
        static_cast<double>(messages - std::min(messages, last_messages_)) / since.count();
    fmt::print(stderr, "{}{}: {}{:.0f} %, {} messages, {:.0f}/s{}", terminal_ ? "\r\033[K" : "",
               title_, warms_up ? "warm-up " : "", 100 * part, messages, rate,
               terminal_ ? "" : "\n");
    std::fflush(stderr);
    shown_ = true;
    last_ = now;
    last_messages_ = messages;
}

void ProgressLine::clear() {
    if (shown_ && terminal_) {
        fmt::print(stderr, "\r\033[K");
        std::fflush(stderr);
    }
    shown_ = false;
}

} // namespace comch::perftest
