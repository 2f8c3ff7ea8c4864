#include "core/tools/stat/screen.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace comch::stat {

Screen::Screen() : terminal_(::isatty(STDOUT_FILENO) == 1) {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction action {};
        // Who started us with it ignored (nohup) wants it ignored.
        if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) {
            ::sigaddset(&signals_, signal);
        }
    }
    ::sigaddset(&signals_, SIGWINCH);
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
}

Room Screen::room() const {
    if (!terminal_) {
        return {};
    }
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
        return {};
    }
    return {.columns = size.ws_col, .rows = size.ws_row};
}

bool Screen::show(const std::vector<std::string>& lines) {
    std::string frame;
    if (terminal_) {
        frame = first_ ? "\033[2J\033[H" : "\033[H";
    } else if (!first_) {
        frame = "\n";
    }
    for (const std::string& line : lines) {
        frame += line;
        frame += terminal_ ? "\033[K\n" : "\n"; // and nothing of a longer line before
    }
    if (terminal_) {
        frame += "\033[J";
    }
    first_ = false;
    return std::fwrite(frame.data(), 1, frame.size(), stdout) == frame.size() &&
           std::fflush(stdout) == 0;
}

Screen::Event Screen::wait_until(std::chrono::steady_clock::time_point time) const {
    for (;;) {
        const auto left =
            std::max(std::chrono::nanoseconds(0),
                     std::chrono::nanoseconds(time - std::chrono::steady_clock::now()));
        const timespec limit{.tv_sec = static_cast<std::time_t>(left.count() / 1'000'000'000),
                             .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
        switch (::sigtimedwait(&signals_, nullptr, &limit)) {
        case SIGWINCH:
            return Event::resized;
        case -1:
            if (std::chrono::steady_clock::now() >= time) {
                return Event::due;
            }
            break; // stopped and continued, perhaps
        default:
            if (terminal_ && !first_) {
                std::fputc('\n', stdout); // behind the terminal's "^C"
            }
            return Event::quit;
        }
    }
}

} // namespace comch::stat
