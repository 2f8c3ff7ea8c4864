#include "core/tools/stat/gains.hpp"

namespace comch::stat {

using counters::figure_fields;

Gains::Gains(const std::vector<ProcessSample>& before, double seconds) : seconds_(seconds) {
    for (const ProcessSample& process : before) {
        for (const ConnectionSample& connection : process.connections) {
            before_.emplace(key_of(process, connection), connection.figures);
        }
    }
}

Figures Gains::of(const ProcessSample& process, const ConnectionSample& connection) const {
    const auto found = before_.find(key_of(process, connection));
    if (found == before_.end()) {
        return connection.figures;
    }
    Figures gained;
    for (const auto& field : figure_fields) {
        const std::uint64_t now = connection.figures.*field.member;
        const std::uint64_t then = found->second.*field.member;
        if (now < then) {
            return connection.figures; // counters only grow: it is another connection
        }
        gained.*field.member = now - then;
    }
    return gained;
}

} // namespace comch::stat
