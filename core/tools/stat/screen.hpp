// The terminal (or file) that comch_stat writes to, and its waiting.
//
// Nothing about the terminal is changed that would have to be changed back: frames are drawn over
// one another from the top left corner, and whenever the program ends, the last one stays.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "core/tools/stat/table.hpp"

namespace comch::stat {

class Screen {
public:
    /// From here on the signals that end the program are noticed by wait_until() alone.
    Screen();

    /// Room for lines; without limits if the output is no terminal.
    [[nodiscard]] Room room() const;

    /// Shows the lines instead of those that are shown; to what is no terminal, below them. False:
    /// nobody reads any more.
    [[nodiscard]] bool show(const std::vector<std::string>& lines);

    enum class Event : std::uint8_t { due, resized, quit };
    [[nodiscard]] Event wait_until(std::chrono::steady_clock::time_point time) const;

private:
    bool terminal_;
    bool first_ = true;
    sigset_t signals_{};
};

} // namespace comch::stat
