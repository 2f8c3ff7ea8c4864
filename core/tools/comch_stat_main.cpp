// comch_stat: the live connections of a domain, from the counter files of its processes.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <comch/device.hpp>

#include "core/counters/counter_files.hpp"
#include "core/device/settings.hpp"
#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"
#include "core/tools/stat/json.hpp"
#include "core/tools/stat/screen.hpp"
#include "core/tools/stat/table.hpp"

namespace {

using comch::Domain;
using comch::counters::ProcessSample;
using comch::stat::Gains;
using comch::stat::Screen;
using Clock = std::chrono::steady_clock;

constexpr const char* description =
    R"(Show the connections of a domain's processes: messages, bytes, and which way they went.

Reads the counter files of the running processes, which do not notice. Figures are totals since a
connection began; with --interval they are rates, refreshed as top does it, the busiest first.)";

constexpr const char* footer = R"(
Columns:
  face           who opened it: uct, ofi, channel, memory (exported memory of DOCA programs);
                 ch/pair is one producer-consumer pair
  peer           the other end: function or server, and process (as far as it can be seen)
  st             wait (connecting), open, end (orderly), fail
  out, B         messages sent and one-sided operations started, and their bytes
  in, B          messages received and operations executed for the peer, and bytes that came
                 (what the peer reads or writes in mapped memory is counted there, not here)
                 A message is what goes into the ring at once: of a producer's long message each
                 part counts, and what the consumer says of its buffers is messages, too.
  flight         messages sent that the other end has not taken out yet; -: it cannot be seen
  credit         attempts to send that found a ring full
  buffer         sends refused because the consumer had posted no buffer
  path           how most bytes went: inline (in the ring, with the message), bulk (through the
                 bulk ring, two copies), mapped (memory of the peer: one copy, or over RDMA none),
                 vm (by the kernel)

k, M, G are powers of 1000, of bytes too.

The totals are of connections that have ended, too; with --face only as long as their rows are
there, since nobody keeps whose the others were. What is open is counted as connections: one whose
both ends are rows is one, and the channels of a connection are none of their own.

JSON has all counters of every connection, under the names of comch/counters_layout.hpp. With
--interval there is one document on each line, with rates per second.

Examples:
  comch_stat                                   once, as a table
  comch_stat --interval 1                      every second, until Ctrl-C
  comch_stat --interval 5 --count 3 --face uct
  comch_stat --json | jq .totals               once, for scripts
  comch_stat --json --interval 1 >> log

Exit status: 0; 1 when there is no such domain or it cannot be read, with the reason on standard
error; above 100 when the command line is wrong.)";

struct Options {
    comch::DomainOptions domain;
    comch::stat::Filter filter;
    bool json = false;
    double interval = 0; ///< 0: once
    std::uint64_t count = 0;
};

/// What was read, and when.
struct Reading {
    std::vector<ProcessSample> processes;
    Clock::time_point time;
    bool filtered = false; ///< there were others
};

using comch::tools::output_status;

/// The directory that Domain::open() would create, if it is not there; else nothing.
std::optional<std::string> missing_directory(const comch::DomainOptions& options) {
    const auto directory = comch::domain_directory(options);
    struct stat status {};
    if (!directory || ::lstat(directory->path.c_str(), &status) == 0 || errno != ENOENT) {
        return std::nullopt; // Domain::open() says what is wrong, if anything is
    }
    return directory->path;
}

std::optional<Reading> read(const Domain& domain, const Options& options) {
    auto processes = comch::counters::read_counter_files(domain);
    if (!processes) {
        fmt::print(stderr, "comch_stat: {}\n", processes.error().message);
        return std::nullopt;
    }
    const std::size_t all = processes->size();
    comch::stat::apply(options.filter, *processes); // after the ends were paired
    const bool filtered = processes->size() != all;
    return Reading{std::move(*processes), Clock::now(), filtered};
}

std::vector<std::string> table_of(const Domain& domain, const Reading& reading, const Gains* gains,
                                  comch::stat::Room room, double interval) {
    std::vector<std::string> lines;
    if (interval > 0) {
        lines.push_back(fmt::format("{:%H:%M:%S}, every {} s, domain {}",
                                    fmt::localtime(std::time(nullptr)), interval, domain.path()));
        lines.back().resize(std::min(lines.back().size(), room.columns));
    }
    if (reading.processes.empty()) {
        lines.push_back(reading.filtered
                            ? fmt::format("no process in domain {} is one of those asked for with "
                                          "--pid or --face",
                                          domain.path())
                            : fmt::format("no process is in domain {}", domain.path()));
        return lines;
    }
    // The line below the last one is the cursor's.
    room.rows -= std::min(room.rows, lines.size() + 1);
    const auto more = comch::stat::table(reading.processes, gains, room);
    lines.insert(lines.end(), more.begin(), more.end());
    return lines;
}

int show_once(const Domain& domain, const Options& options) {
    const auto reading = read(domain, options);
    if (!reading) {
        return 1;
    }
    if (options.json) {
        fmt::print("{}\n", comch::stat::to_json(domain, reading->processes, nullptr, 2));
    } else {
        for (const std::string& line : table_of(domain, *reading, nullptr, {}, 0)) {
            fmt::print("{}\n", line);
        }
    }
    return output_status("comch_stat");
}

int watch(const Domain& domain, const Options& options) {
    Screen screen;
    auto before = read(domain, options);
    if (!before) {
        return 1;
    }
    const auto interval = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(options.interval));
    // A person should not wait long for something to look at.
    auto due = before->time +
               (options.json ? interval
                             : std::min<Clock::duration>(interval, std::chrono::milliseconds(500)));
    std::optional<Reading> now;
    std::optional<Gains> gains;
    const auto draw = [&] {
        if (options.json) {
            const std::string document = comch::stat::to_json(domain, now->processes, &*gains, -1);
            return std::puts(document.c_str()) >= 0 && std::fflush(stdout) == 0;
        }
        return screen.show(table_of(domain, *now, &*gains, screen.room(), options.interval));
    };
    for (std::uint64_t shown = 0; options.count == 0 || shown < options.count;) {
        const Screen::Event event = screen.wait_until(due);
        if (event == Screen::Event::quit) {
            break;
        }
        if (event == Screen::Event::resized) {
            if (now && !options.json && !draw()) {
                return 1;
            }
            continue;
        }
        if (now) {
            before = std::move(now);
        }
        now = read(domain, options);
        if (!now) {
            return 1;
        }
        gains.emplace(before->processes,
                      std::chrono::duration<double>(now->time - before->time).count());
        if (!draw()) {
            return output_status("comch_stat");
        }
        ++shown;
        due = std::max(due + interval, now->time); // the times that were missed are gone
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{description, "comch_stat"};
    comch::tools::add_version(app);
    app.footer(footer);
    Options options;
    app.add_option("--domain", options.domain.directory, "the domain, as COMCH_DOMAIN");
    app.add_flag("--json", options.json, "print JSON");
    auto* const interval =
        app.add_option("--interval", options.interval, "refresh every so many seconds")
            ->check(comch::tools::number_between(0.1, 3600));
    app.add_option("--count", options.count, "stop after so many refreshes")
        ->check(CLI::PositiveNumber)
        ->needs(interval);
    app.add_option("--pid", options.filter.pids, "only this process; may be given several times");
    app.add_option("--face", options.filter.faces, "only connections of this face; may be repeated")
        ->check(CLI::IsMember({"uct", "ofi", "channel", "memory"}));
    CLI11_PARSE(app, argc, argv);

    const comch::NamedSettings names({.domain = "--domain"});
    if (const auto missing = missing_directory(options.domain)) {
        fmt::print(
            stderr,
            "comch_stat: there is no such domain: no directory '{}'; a program that uses comch "
            "creates it, and --domain or COMCH_DOMAIN names another\n",
            *missing);
        return 1;
    }
    const auto domain = Domain::open(options.domain);
    if (!domain) {
        fmt::print(stderr, "comch_stat: {}\n", domain.error().message);
        return 1;
    }
    return options.interval > 0 ? watch(**domain, options) : show_once(**domain, options);
}
