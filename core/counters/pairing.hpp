// Which two slots are the two ends of one connection, and what is on its way between them.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/counters/samples.hpp"

namespace comch::counters {

/// One end: an index into the processes, and one into that process's connections.
struct EndIndex {
    std::size_t process = 0;
    std::size_t connection = 0;
    friend bool operator==(const EndIndex&, const EndIndex&) = default;
};

/// The connections of which both ends are there. (Both may be in one process. A number that more
/// than two slots have pairs none of them.)
[[nodiscard]] std::vector<std::pair<EndIndex, EndIndex>>
pair_ends(const std::vector<ProcessSample>& processes);

/// Messages on their way. What the sender counts should be read first: then it is never more than
/// there were, and never negative; what went through in between is not counted as on its way.
[[nodiscard]] std::optional<std::uint64_t> in_flight(const ConnectionSample& sender,
                                                     const ConnectionSample& receiver);

} // namespace comch::counters
