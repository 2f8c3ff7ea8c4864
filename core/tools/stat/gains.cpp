#include "core/tools/stat/gains.hpp"

#include <algorithm>

namespace comch::stat {

using counters::figure_fields;

void add(Figures& sum, const Figures& figures) {
    for (const auto& field : figure_fields) {
        sum.*field.member += figures.*field.member;
    }
}

Gains::Gains(const std::vector<ProcessSample>& before, double seconds) : seconds_(seconds) {
    for (const ProcessSample& process : before) {
        Figures& sum = sums_[process.process_id];
        add(sum, process.ended);
        for (const ConnectionSample& connection : process.connections) {
            before_.emplace(key_of(process, connection), connection.figures);
            add(sum, connection.figures);
        }
    }
}

const Figures* Gains::before(const ProcessSample& process,
                             const ConnectionSample& connection) const {
    const auto found = before_.find(key_of(process, connection));
    if (found == before_.end()) {
        return nullptr;
    }
    for (const auto& field : figure_fields) {
        if (connection.figures.*field.member < found->second.*field.member) {
            return nullptr; // counters only grow: it is another connection
        }
    }
    return &found->second;
}

Figures Gains::of(const ProcessSample& process, const ConnectionSample& connection) const {
    Figures gained = connection.figures;
    if (const Figures* const then = before(process, connection)) {
        for (const auto& field : figure_fields) {
            gained.*field.member -= then->*field.member;
        }
    }
    return gained;
}

Figures Gains::of_ended(const ProcessSample& process) const {
    // Whatever was there before, but for the connections that go on, is among the ended by now.
    Figures then;
    if (const auto found = sums_.find(process.process_id); found != sums_.end()) {
        then = found->second;
    }
    for (const ConnectionSample& connection : process.connections) {
        if (const Figures* const goes_on = before(process, connection)) {
            for (const auto& field : figure_fields) {
                then.*field.member -= goes_on->*field.member;
            }
        }
    }
    Figures gained;
    for (const auto& field : figure_fields) {
        const std::uint64_t now = process.ended.*field.member;
        // Read at another moment than the connections, and without them if only some are wanted.
        gained.*field.member = now - std::min(now, then.*field.member);
    }
    return gained;
}

} // namespace comch::stat
