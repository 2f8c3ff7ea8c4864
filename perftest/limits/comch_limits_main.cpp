// comch_limits: what this machine can do at best between two of its CPUs.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"
#include "limits.hpp"

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* description =
    R"(Measure what this machine can do at best between two of its CPUs, with nothing above it:
the limits that a transport's figures are held against.)";

constexpr const char* footer = R"(
Measurements:
  hand-over   ns for a cache line to get from one CPU to the other
  line-rate   million records of one cache line per second through a small ring
  memcpy      GB/s of one copy of --size bytes into shared memory
  stream      GB/s of messages of --size bytes, copied into a small ring and out of it by two CPUs
  process-vm  GB/s of process_vm_writev() of --size bytes into another process

Examples:
  comch_limits hand-over --cpus 0,1
  comch_limits memcpy stream --size 64K --size 1M --json

Exit status: 0; 1 when it could not be measured, with the reason on standard error; above 100 when
the command line is wrong.)";

struct Options {
    std::vector<std::string> what;
    std::vector<std::size_t> sizes;
    std::vector<int> cpus{-1, -1};
    double duration = 0.2;
};

Json measure(const std::string& what, std::size_t size, const Options& options) {
    const comch::limits::Cpus cpus{options.cpus[0], options.cpus[1]};
    const double duration = options.duration;
    if (what == "hand-over") {
        return {
            {"what", what}, {"value", comch::limits::hand_over_ns(cpus, duration)}, {"unit", "ns"}};
    }
    if (what == "line-rate") {
        return {{"what", what},
                {"value", comch::limits::line_rate(cpus, duration) / 1e6},
                {"unit", "M/s"}};
    }
    const double rate = what == "memcpy" ? comch::limits::memcpy_rate(cpus.first, size, duration)
                        : what == "stream"
                            ? comch::limits::stream_rate(cpus, size, duration)
                            : comch::limits::process_vm_rate(cpus.first, size, duration);
    return {{"what", what}, {"bytes", size}, {"value", rate / 1e9}, {"unit", "GB/s"}};
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{description, "comch_limits"};
    comch::tools::add_version(app);
    app.footer(footer);
    Options options;
    bool json = false;
    app.add_option("what", options.what, "which measurements")
        ->required()
        ->check(CLI::IsMember({"hand-over", "line-rate", "memcpy", "stream", "process-vm"}));
    app.add_option("--size", options.sizes, "bytes; may be given several times (default: 64K, 1M)")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--cpus", options.cpus, "the two CPUs, as 0,1 (default: not pinned)")
        ->delimiter(',')
        ->expected(2)
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seconds", options.duration, "for each measurement")
        ->check(comch::tools::number_between(0.001, 60))
        ->capture_default_str();
    app.add_flag("--json", json, "as JSON");
    app.final_callback([&options] {
        if (std::find(options.sizes.begin(), options.sizes.end(), 0u) != options.sizes.end()) {
            throw CLI::ValidationError("--size", "0: there is nothing to copy; give at least 1");
        }
        for (const std::string& what : options.what) {
            const bool two = what != "memcpy" && what != "process-vm";
            if (two && options.cpus[0] >= 0 && options.cpus[0] == options.cpus[1]) {
                throw CLI::ValidationError("--cpus",
                                           fmt::format("{},{}: {} needs two different CPUs",
                                                       options.cpus[0], options.cpus[1], what));
            }
        }
    });
    CLI11_PARSE(app, argc, argv);
    if (options.sizes.empty()) {
        options.sizes = {64 * 1024, 1024 * 1024};
    }
    try {
        Json results = Json::array();
        for (const std::string& what : options.what) {
            const bool sized = what != "hand-over" && what != "line-rate";
            for (std::size_t i = 0; i < (sized ? options.sizes.size() : 1); ++i) {
                results.push_back(measure(what, options.sizes[i], options));
            }
        }
        if (json) {
            fmt::print("{}\n", results.dump(2));
            results.clear();
        }
        for (const Json& result : results) {
            fmt::print("{:<11}{:>12}  {:10.2f} {}\n", result["what"].get<std::string>(),
                       result.contains("bytes")
                           ? fmt::format("{} B", result["bytes"].get<std::size_t>())
                           : "",
                       result["value"].get<double>(), result["unit"].get<std::string>());
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return 1;
    }
    return comch::tools::output_status("error");
}
