#include "core/tools/stat/words.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace comch::stat {

using counters::SlotState;

std::string short_number(double value) {
    if (value < 9999.5) {
        return value < 10 && value != std::floor(value) ? fmt::format("{:.1f}", value)
                                                        : fmt::format("{:.0f}", value);
    }
    const char* suffix = "kMGTPE";
    value /= 1000;
    while (value >= 999.5 && suffix[1] != '\0') {
        value /= 1000;
        ++suffix;
    }
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f}{}", value, decimals, *suffix);
}

const char* state_text(SlotState state) noexcept {
    switch (state) {
    case SlotState::connecting:
        return "connecting";
    case SlotState::connected:
        return "connected";
    case SlotState::closed:
        return "closed";
    case SlotState::failed:
        return "failed";
    case SlotState::free:
        break;
    }
    return "unknown";
}

const char* side_text(std::uint32_t side) noexcept {
    return side == 0 ? "host" : side == 1 ? "dpu" : "unknown";
}

std::string printable(std::string_view text) {
    std::string result;
    std::ranges::transform(text, std::back_inserter(result),
                           [](char c) { return c >= ' ' && c <= '~' ? c : '?'; });
    return result;
}

} // namespace comch::stat
