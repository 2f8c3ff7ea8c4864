// comch_stat: the live connections of a domain, from the counter files of its processes.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <comch/device.hpp>

#include "core/counters/counter_files.hpp"

namespace {

using comch::counters::ConnectionSample;
using comch::counters::Figures;
using comch::counters::ProcessSample;
using comch::counters::SlotState;
using Json = nlohmann::ordered_json;

constexpr const char* description =
    R"(Show the connections of a domain's processes: messages, bytes, and which way they went.

Reads the counter files of the running processes; the processes do not notice. Figures are
totals since a connection began; with --interval also rates, refreshed like top.)";

constexpr const char* footer = R"(
Columns:
  sent, received   messages, and their bytes (for one-sided operations: what left by ring)
  bulk             bytes sent through the bulk ring (two copies)
  mapped           bytes of one-sided operations on memory mapped from the peer (one copy)
  stalls           sends refused for want of room, to be tried again

Examples:
  comch_stat                  once, as a table
  comch_stat --interval 1     every second, until interrupted
  comch_stat --json | jq .    once, for scripts)";

const char* state_text(SlotState state) {
    switch (state) {
    case SlotState::connecting:
        return "connecting";
    case SlotState::connected:
        return "connected";
    case SlotState::closed:
        return "closed";
    case SlotState::failed:
        return "failed";
    case SlotState::free:
        break;
    }
    return "unknown";
}

const char* side_text(std::uint32_t side) { return side == 1 ? "dpu" : "host"; }

std::string bytes_text(double bytes) {
    const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < std::size(units)) {
        bytes /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

Json to_json(const std::vector<ProcessSample>& processes) {
    Json list = Json::array();
    for (const ProcessSample& process : processes) {
        Json connections = Json::array();
        for (const ConnectionSample& c : process.connections) {
            const Figures& f = c.figures;
            connections.push_back({{"slot", c.slot},
                                   {"state", state_text(c.state)},
                                   {"face", c.face},
                                   {"peer", c.peer},
                                   {"side", side_text(c.local_side)},
                                   {"peer_side", side_text(c.peer_side)},
                                   {"peer_pid", c.peer_pid},
                                   {"tx_messages", f.tx_messages},
                                   {"tx_bytes", f.tx_bytes},
                                   {"tx_bulk_ring_bytes", f.tx_bulk_ring_bytes},
                                   {"tx_mapped_bytes", f.tx_mapped_bytes},
                                   {"tx_process_vm_bytes", f.tx_process_vm_bytes},
                                   {"tx_one_sided", f.tx_one_sided},
                                   {"credit_stalls", f.credit_stalls},
                                   {"buffer_stalls", f.buffer_stalls},
                                   {"rx_messages", f.rx_messages},
                                   {"rx_bytes", f.rx_bytes},
                                   {"rx_bulk_ring_bytes", f.rx_bulk_ring_bytes},
                                   {"one_sided_served", f.one_sided_served},
                                   {"wakeups", f.wakeups}});
        }
        list.push_back({{"pid", process.pid},
                        {"process_id", fmt::format("{:016x}", process.process_id)},
                        {"program", process.program},
                        {"connections", std::move(connections)}});
    }
    return list;
}

using Key = std::pair<std::uint64_t, std::uint32_t>; // process id, slot
using Totals = std::map<Key, std::uint64_t>;         // bytes both ways

std::uint64_t moved(const Figures& f) {
    return f.tx_bytes + f.tx_mapped_bytes + f.tx_process_vm_bytes + f.rx_bytes;
}

void print_table(const std::vector<ProcessSample>& processes, const Totals& before,
                 double seconds) {
    fmt::print("{:>8} {:<16} {:<8} {:<5}{:<12}{:<11}{:>12} {:>11} {:>12} {:>11} {:>10} {:>10} {:>9}",
               "pid", "program", "face", "side", "peer", "state", "sent", "", "received", "", "bulk",
               "mapped", "stalls");
    fmt::print("{}\n", before.empty() ? "" : "      rate");
    for (const ProcessSample& process : processes) {
        for (const ConnectionSample& c : process.connections) {
            const Figures& f = c.figures;
            fmt::print("{:>8} {:<16} {:<8} {:<5}{:<12}{:<11}{:>12} {:>11} {:>12} {:>11} {:>10} "
                       "{:>10} {:>9}",
                       process.pid, process.program, c.face, side_text(c.local_side),
                       c.peer.empty() ? "-" : c.peer, state_text(c.state), f.tx_messages,
                       bytes_text(static_cast<double>(f.tx_bytes)), f.rx_messages,
                       bytes_text(static_cast<double>(f.rx_bytes)),
                       bytes_text(static_cast<double>(f.tx_bulk_ring_bytes)),
                       bytes_text(static_cast<double>(f.tx_mapped_bytes)), f.credit_stalls);
            if (const auto it = before.find({process.process_id, c.slot}); it != before.end()) {
                fmt::print("  {}/s",
                           bytes_text(static_cast<double>(moved(f) - it->second) / seconds));
            }
            fmt::print("\n");
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{description, "comch_stat"};
    app.footer(footer);
    comch::DomainOptions options;
    bool json = false;
    double interval = 0;
    app.add_option("--domain", options.directory, "the domain, as COMCH_DOMAIN");
    auto* json_flag = app.add_flag("--json", json, "print once, as JSON");
    app.add_option("--interval", interval, "refresh every so many seconds")
        ->check(CLI::Range(0.1, 3600.0))
        ->excludes(json_flag);
    CLI11_PARSE(app, argc, argv);

    const auto domain = comch::Domain::open(options);
    if (!domain) {
        fmt::print(stderr, "comch_stat: {}\n", domain.error().message);
        return 1;
    }
    Totals before;
    for (;;) {
        const auto processes = comch::counters::read_counter_files(**domain);
        if (!processes) {
            fmt::print(stderr, "comch_stat: {}\n", processes.error().message);
            return 1;
        }
        if (json) {
            fmt::print("{}\n", to_json(*processes).dump(2));
            return 0;
        }
        if (interval > 0) {
            fmt::print("\033[H\033[2J");
        }
        if (processes->empty()) {
            fmt::print("no process is in domain {}\n", (*domain)->path());
        } else {
            print_table(*processes, before, interval);
        }
        if (interval <= 0) {
            return 0;
        }
        std::fflush(stdout);
        before.clear();
        for (const ProcessSample& process : *processes) {
            for (const ConnectionSample& c : process.connections) {
                before[{process.process_id, c.slot}] = moved(c.figures);
            }
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(interval));
    }
}
