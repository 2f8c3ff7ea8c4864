// comch_doca_perf: the producer-to-consumer path of the DOCA face, measured as comch_perftest
// measures the core's, with the same loads; perftest/compare puts the two beside each other.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doca_log.h>

#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"
#include "perftest/clock.hpp"
#include "perftest/doca/check.hpp"
#include "perftest/doca/end.hpp"
#include "perftest/doca/worker.hpp"
#include "perftest/pinning.hpp"
#include "perftest/values.hpp"

namespace {

using namespace comch::perftest;

struct Options {
    Plan plan;
    std::string size = "8";
    std::uint64_t count = 100000;
    std::uint32_t window = 0;
    int client_cpu = -1;
    int server_cpu = -1;

    [[nodiscard]] std::uint64_t warm_up() const noexcept { return count / 10; }
};

Load load_of(const Options& options) {
    const auto size = parse_size(options.size);
    if (!size) {
        throw std::runtime_error("--size: " + size.error().message);
    }
    if (*size < 1 || *size > comch::limits::fast_path_buffer_size) {
        throw std::runtime_error(
            fmt::format("--size: {} bytes cannot be sent; at least 1, at most {}", *size,
                        comch::limits::fast_path_buffer_size));
    }
    return make_load(options.plan, *size, options.window, 0);
}

int run_server(const Options& options, int ready) {
    pin_or_throw(options.server_cpu);
    DocaEnd end(false);
    end.start();
    if (write(ready, "!", 1) != 1) {
        return EXIT_FAILURE;
    }
    end.wait_until_connected();
    {
        DocaWorker worker(end, options.plan, load_of(options));
        worker.serve(options.warm_up() + options.count);
    }
    end.disconnect();
    return EXIT_SUCCESS;
}

nlohmann::json run_client(const Options& options) {
    pin_or_throw(options.client_cpu);
    Clock::calibrate();
    DocaEnd end(true);
    end.start();
    end.wait_until_connected();
    const Load load = load_of(options);
    nlohmann::json result{{"bytes", load.size}, {"messages", options.count}};
    {
        DocaWorker worker(end, options.plan, load);
        const DocaWorker::Measured measured = worker.run(options.warm_up(), options.count);
        const double rate = static_cast<double>(options.count) / measured.seconds;
        result["messages_per_second"] = rate;
        result["bytes_per_second"] = rate * static_cast<double>(load.size);
        if (options.plan.mode == Mode::ping_pong) {
            const auto microseconds = [](double ticks) { return Clock::nanoseconds(ticks) / 2e3; };
            const auto percentile = [&](double percent) {
                return microseconds(static_cast<double>(measured.round_trips.percentile(percent)));
            };
            result["latency_us"] = {{"mean", microseconds(measured.round_trips.mean())},
                                    {"p50", percentile(50)},
                                    {"p99", percentile(99)},
                                    {"p99.9", percentile(99.9)}};
        }
    }
    end.disconnect();
    return result;
}

/// The server is a child process; it listens when this has returned.
pid_t start_server(const Options& options) {
    int ready[2];
    if (pipe(ready) != 0) {
        throw std::runtime_error("cannot create a pipe");
    }
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        try {
            std::exit(run_server(options, ready[1]));
        } catch (const std::exception& error) {
            std::fprintf(stderr, "error: server: %s\n", error.what());
            std::exit(EXIT_FAILURE);
        }
    }
    close(ready[1]);
    char byte = 0;
    const bool listens = child > 0 && read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    if (!listens) {
        throw std::runtime_error("the server did not start");
    }
    return child;
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Measures the DOCA face's fast path: a server (a child process) and a client on "
                 "this machine, each with a consumer and a producer. The result is JSON.",
                 "comch_doca_perf");
    comch::tools::add_version(app);
    std::string mode = "ping-pong";
    app.add_option("-m,--mode", mode, "ping-pong (default) or one-way")
        ->check(CLI::IsMember({"ping-pong", "one-way"}));
    app.add_option("-s,--size", options.size, "Bytes: 8, 4K, 1M (default: 8)");
    app.add_option("-n,--count", options.count,
                   "Messages to measure, after a tenth of warm-up (default: 100000)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
    app.add_option("-W,--window", options.window,
                   "One-way: messages under way (default: 256, but "
                   "2 to 32 MiB in all)")
        ->check(CLI::Range(1u, max_window));
    app.add_option("-c,--cpu", options.client_cpu, "CPU of the client (default: any)")
        ->check(CLI::NonNegativeNumber);
    app.add_option("-C,--server-cpu", options.server_cpu, "CPU of the server (default: any)")
        ->check(CLI::NonNegativeNumber);
    CLI11_PARSE(app, argc, argv);
    options.plan.mode = mode == "one-way" ? Mode::one_way : Mode::ping_pong;
    try {
        (void)load_of(options);
        const pid_t server = start_server(options);
        const nlohmann::json result = run_client(options);
        int status = -1;
        waitpid(server, &status, 0);
        std::printf("%s\n", result.dump(1).c_str());
        if (comch::tools::output_status("error") != 0) {
            return EXIT_FAILURE;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
