// How comch_stat writes numbers and names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tools/stat/summary.hpp"

namespace comch::stat {

[[nodiscard]] const char* state_text(counters::SlotState state) noexcept;
[[nodiscard]] const char* side_text(std::uint32_t side) noexcept;

/// At most five characters: "0", "0.3", "9999", "12.3k", "999M", in powers of 1000.
[[nodiscard]] std::string short_number(double value);

/// `text` with whatever a terminal could take for a command, or a reader for another width,
/// replaced: names come from other processes.
[[nodiscard]] std::string printable(std::string_view text);

} // namespace comch::stat
