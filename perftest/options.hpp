// The command line of comch_perftest.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <comch/device.hpp>

#include "perftest/plan.hpp"
#include "perftest/values.hpp"

namespace comch::perftest {

enum class Format : std::uint8_t { table, csv, json };

struct Options {
    // who this process is
    bool server = false;
    bool both_sides = false;
    bool persistent = false;
    // what is measured
    Plan plan;
    std::vector<std::uint64_t> sizes{8};
    Amount goal{.messages = 0, .seconds = 1};
    Amount warm_up{.messages = 0, .seconds = 0.1};
    std::uint32_t window = 0;  ///< 0: by size
    std::uint32_t buffers = 0; ///< 0: by size
    double timeout = 30;       ///< seconds
    // where it runs
    std::vector<std::uint32_t> cpus;
    std::vector<std::uint32_t> server_cpus;
    std::string name = "comch_perftest";
    std::string device;
    std::string representor;
    DomainOptions domain;
    // what is said
    Format format = Format::table;
    bool progress = false;
    int ready_fd = -1; ///< of a server that another process started: gets a byte when it listens
};

/// Fills `options`; or the exit status of a program that is over already (after --help, or because
/// the command line is wrong), having written why.
[[nodiscard]] std::optional<int> parse_options(int argc, const char* const* argv, Options& options,
                                               std::ostream& out, std::ostream& err);

} // namespace comch::perftest
