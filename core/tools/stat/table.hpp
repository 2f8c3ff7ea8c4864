// A reading as a table for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tools/stat/summary.hpp"

namespace comch::stat {

inline constexpr std::size_t table_width = 100; ///< what it takes; names grow into more

/// Room on the screen; longer lines and more rows are cut.
struct Room {
    std::size_t columns = table_width;
    std::size_t rows = SIZE_MAX;
};

/// The lines: headings, totals, and a row for each connection, the busiest first. With `gains` the
/// figures are per second, without they are totals since the connection began.
[[nodiscard]] std::vector<std::string> table(const std::vector<ProcessSample>& processes,
                                             const Gains* gains, const Room& room);

} // namespace comch::stat
