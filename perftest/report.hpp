// Results for people and programs.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <comch/error.hpp>

#include "perftest/options.hpp"
#include "perftest/result.hpp"

namespace comch::perftest {

/// Who took part.
struct Parties {
    std::string client_device;
    std::string server_name;
    std::uint64_t client_pid = 0; ///< 0: not known
    std::uint64_t server_pid = 0;
};

/// A result in the units that are printed.
struct Figures {
    std::uint64_t size = 0;
    std::uint32_t window = 0;
    std::uint64_t messages = 0; ///< ping-pong: round trips
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    double seconds = 0;
    double messages_per_second = 0;
    double bytes_per_second = 0;
    double sent_bytes_per_second = 0;
    double received_bytes_per_second = 0;
    struct Latency { ///< microseconds, half of a round trip
        double min = 0, mean = 0, p50 = 0, p90 = 0, p99 = 0, p99_9 = 0, p99_99 = 0, max = 0;
    } latency;
    std::uint64_t wrong = 0;

    explicit Figures(const RoundResult& result);
};

class Report {
public:
    virtual ~Report() = default;
    virtual void begin(const Options& options, const Parties& parties) = 0;
    virtual void row(const RoundResult& result) = 0;
    /// Once, after the last row. Not `complete`: there would have been more.
    virtual void end(bool complete) = 0;
};

[[nodiscard]] std::unique_ptr<Report> make_report(Format format, std::FILE* out);

/// Prints what went wrong, and answers the exit status for it.
int complain(const Error& error);

} // namespace comch::perftest
