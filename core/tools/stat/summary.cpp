#include "core/tools/stat/summary.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace comch::stat {

namespace {

/// The first of the largest, or none if all are 0.
template <std::size_t N>
Path largest(const std::array<std::pair<Path, std::uint64_t>, N>& paths) noexcept {
    const auto& most =
        *std::max_element(paths.begin(), paths.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
    return most.second == 0 ? Path::none : most.first;
}

/// Both ends of a connection have its number, as far as it is known.
class Connections {
public:
    void add(const ConnectionSample& end) {
        if (!end.live() || end.kind == counters::SlotKind::channel) {
            return;
        }
        if (end.connection == 0) {
            ++unknown_;
        } else {
            known_.insert(end.connection);
        }
    }
    [[nodiscard]] std::size_t count() const { return known_.size() + unknown_; }

private:
    std::set<std::uint64_t> known_;
    std::size_t unknown_ = 0;
};

std::uint64_t bulk_bytes(const Figures& f) noexcept {
    return f.tx_bulk_ring_bytes + f.rx_bulk_ring_bytes;
}

} // namespace

void apply(const Filter& filter, std::vector<ProcessSample>& processes) {
    const auto contains = [](const auto& list, const auto& value) {
        return list.empty() || std::ranges::find(list, value) != list.end();
    };
    for (ProcessSample& process : processes) {
        if (!filter.faces.empty()) {
            process.ended = {}; // whose they were is not known any more
        }
        std::erase_if(process.connections, [&](const ConnectionSample& connection) {
            return !contains(filter.faces, connection.face);
        });
    }
    std::erase_if(processes, [&](const ProcessSample& process) {
        return !contains(filter.pids, process.pid) ||
               (!filter.faces.empty() && process.connections.empty());
    });
}

Totals total(const std::vector<ProcessSample>& processes, const Gains* gains) {
    Totals totals;
    totals.processes = processes.size();
    if (gains != nullptr) {
        totals.gained.emplace();
    }
    Connections connections;
    for (const ProcessSample& process : processes) {
        add(totals.figures, process.ended);
        if (gains != nullptr) {
            add(*totals.gained, gains->of_ended(process));
        }
        for (const ConnectionSample& connection : process.connections) {
            connections.add(connection);
            add(totals.figures, connection.figures);
            totals.in_flight += connection.in_flight.value_or(0);
            if (gains != nullptr) {
                add(*totals.gained, gains->of(process, connection));
            }
        }
    }
    totals.connections = connections.count();
    return totals;
}

std::uint64_t operations_out(const Figures& f) noexcept {
    return f.tx_messages + f.tx_one_sided;
}
std::uint64_t operations_in(const Figures& f) noexcept {
    return f.rx_messages + f.one_sided_served;
}
std::uint64_t bytes_out(const Figures& f) noexcept {
    return f.tx_bytes + f.tx_mapped_bytes + f.tx_process_vm_bytes;
}
std::uint64_t bytes_in(const Figures& f) noexcept {
    return f.rx_bytes;
}

Path main_path(const Figures& f) noexcept {
    const std::uint64_t all = f.tx_bytes + f.rx_bytes;
    const std::uint64_t bulk = bulk_bytes(f);
    // Counted one after the other, so between two looks bulk may be ahead.
    return largest(
        std::array<std::pair<Path, std::uint64_t>, 4>{{{Path::in_line, all > bulk ? all - bulk : 0},
                                                       {Path::bulk_ring, bulk},
                                                       {Path::mapped, f.tx_mapped_bytes},
                                                       {Path::process_vm, f.tx_process_vm_bytes}}});
}

Path bulk_path(const Figures& f) noexcept {
    return largest(
        std::array<std::pair<Path, std::uint64_t>, 3>{{{Path::bulk_ring, bulk_bytes(f)},
                                                       {Path::mapped, f.tx_mapped_bytes},
                                                       {Path::process_vm, f.tx_process_vm_bytes}}});
}

} // namespace comch::stat
