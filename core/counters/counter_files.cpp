#include "core/counters/counter_files.hpp"

#include "core/counters/counter_file.hpp"
#include "core/counters/pairing.hpp"

namespace comch::counters {
namespace {

/// Both ends of a connection are read again, right after one another: between the two files of a
/// domain's first reading millions of messages may have passed.
void measure_in_flight(const CounterFile& file_a, ConnectionSample& a, const CounterFile& file_b,
                       ConnectionSample& b) {
    auto again_a = file_a.read_slot(a.slot);
    auto again_b = file_b.read_slot(b.slot);
    // Each receiver after its sender.
    const auto last_a = file_a.read_slot(a.slot);
    const auto same = [&](const auto& now) { return now && now->connection == a.connection; };
    if (!same(again_a) || !same(again_b) || !same(last_a)) {
        return; // a slot was taken again meanwhile: what was read first stays
    }
    again_a->figures.rx_messages = last_a->figures.rx_messages;
    again_a->in_flight = in_flight(*again_a, *again_b);
    again_b->in_flight = in_flight(*again_b, *again_a);
    a = std::move(*again_a);
    b = std::move(*again_b);
}

} // namespace

Result<std::vector<ProcessSample>> read_counter_files(const Domain& domain) {
    const auto entries = domain.list_entries("counters.");
    if (!entries) {
        return tl::unexpected(entries.error());
    }
    std::vector<CounterFile> files;
    std::vector<ProcessSample> processes;
    for (const std::string& entry : *entries) {
        auto file = CounterFile::open(domain, entry);
        if (!file) {
            continue;
        }
        if (auto process = file->read()) {
            files.push_back(std::move(*file));
            processes.push_back(std::move(*process));
        }
    }
    for (const auto& [a, b] : pair_ends(processes)) {
        measure_in_flight(files[a.process], processes[a.process].connections[a.connection],
                          files[b.process], processes[b.process].connections[b.connection]);
    }
    return processes;
}

} // namespace comch::counters
