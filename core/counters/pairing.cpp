#include "core/counters/pairing.hpp"

#include <map>

namespace comch::counters {

std::vector<std::pair<EndIndex, EndIndex>> pair_ends(const std::vector<ProcessSample>& processes) {
    std::map<std::uint64_t, std::vector<EndIndex>> ends;
    for (std::size_t p = 0; p < processes.size(); ++p) {
        for (std::size_t c = 0; c < processes[p].connections.size(); ++c) {
            if (const std::uint64_t number = processes[p].connections[c].connection; number != 0) {
                ends[number].push_back({p, c});
            }
        }
    }
    std::vector<std::pair<EndIndex, EndIndex>> pairs;
    for (const auto& [number, found] : ends) {
        if (found.size() == 2) {
            pairs.emplace_back(found[0], found[1]);
        }
    }
    return pairs;
}

std::optional<std::uint64_t> in_flight(const ConnectionSample& sender,
                                       const ConnectionSample& receiver) {
    if (!receiver.live()) {
        return std::nullopt;
    }
    const std::uint64_t sent = sender.figures.tx_messages;
    const std::uint64_t taken = receiver.figures.rx_messages;
    return sent > taken ? sent - taken : 0;
}

} // namespace comch::counters
