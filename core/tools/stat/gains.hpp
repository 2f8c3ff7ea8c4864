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

void add(Figures& sum, const Figures& figures);

class Gains {
public:
    /// `before`: a reading made `seconds` before the one whose connections are asked for.
    Gains(const std::vector<ProcessSample>& before, double seconds);

    [[nodiscard]] double seconds() const noexcept { return seconds_; }

    /// What it has counted since; all of it if it is younger than that. Never negative.
    [[nodiscard]] Figures of(const ProcessSample& process,
                             const ConnectionSample& connection) const;
    /// What it has counted since on connections whose slots were taken again by now.
    [[nodiscard]] Figures of_ended(const ProcessSample& process) const;

private:
    // A slot is taken again after its connection's end: its number tells the two apart.
    using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;
    static Key key_of(const ProcessSample& process, const ConnectionSample& connection) {
        return {process.process_id, connection.slot, connection.connection};
    }

    /// What the same connection had counted before; null if it is younger.
    [[nodiscard]] const Figures* before(const ProcessSample& process,
                                        const ConnectionSample& connection) const;

    std::map<Key, Figures> before_;
    std::map<std::uint64_t, Figures> sums_; ///< all of a process, ended connections too, before
    double seconds_;
};

} // namespace comch::stat
