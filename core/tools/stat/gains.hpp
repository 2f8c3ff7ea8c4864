// What connections counted between two readings: the rates.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/counters/samples.hpp"

namespace comch::stat {

using counters::ConnectionSample;
using counters::Figures;
using counters::ProcessSample;

class Gains {
public:
    /// `before`: a reading made `seconds` before the one whose connections are asked for.
    Gains(const std::vector<ProcessSample>& before, double seconds);

    [[nodiscard]] double seconds() const noexcept { return seconds_; }

    /// What it has counted since; all of it if it is younger than that. Never negative.
    [[nodiscard]] Figures of(const ProcessSample& process,
                             const ConnectionSample& connection) const;

private:
    // A slot is taken again after its connection's end: its number tells the two apart.
    using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;
    static Key key_of(const ProcessSample& process, const ConnectionSample& connection) {
        return {process.process_id, connection.slot, connection.connection};
    }

    std::map<Key, Figures> before_;
    double seconds_;
};

} // namespace comch::stat
