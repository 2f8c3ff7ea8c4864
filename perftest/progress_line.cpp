#include "perftest/progress_line.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

namespace comch::perftest {

ProgressLine::ProgressLine(bool enabled)
    : enabled_(enabled), terminal_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(std::uint64_t size, std::size_t number, std::size_t of,
                         const Amount& goal) {
    if (!enabled_) {
        return;
    }
    title_ = fmt::format("[{}/{}] {} bytes", number, of, size);
    goal_ = goal;
    began_ = last_ = std::chrono::steady_clock::now();
    last_messages_ = 0;
}

void ProgressLine::update(std::uint64_t messages) {
    if (!enabled_) {
        return;
    }
    const Time now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    if (since < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(1000))) {
        return;
    }
    const std::chrono::duration<double> total = now - began_;
    const double part = goal_.messages != 0
                            ? static_cast<double>(messages) / static_cast<double>(goal_.messages)
                            : total.count() / goal_.seconds;
    const double rate =
        static_cast<double>(messages - std::min(messages, last_messages_)) / since.count();
    // The warm-up counts too, so that it can be a little more than all.
    fmt::print(stderr, "{}{}: {:.0f} %, {} messages, {:.0f}/s{}", terminal_ ? "\r\033[K" : "",
               title_, 100 * std::clamp(part, 0.0, 1.0), messages, rate, terminal_ ? "" : "\n");
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
