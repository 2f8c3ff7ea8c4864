#include "perftest/options.hpp"

#include <algorithm>
#include <functional>
#include <ostream>
#include <utility>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/tools/checks.hpp"
#include "perftest/protocol.hpp"

namespace comch::perftest {
namespace {

constexpr const char* description =
    R"(Measure a channel between the host and the DPU: latency, bandwidth, message rate.

Two processes take part. The server runs on the DPU and needs no options; the client
runs on the host, says what is measured, and prints the result:
    dpu$  comch_perftest --server
    host$ comch_perftest
For just a number, --both-sides starts the server too, on this machine:
    comch_perftest --both-sides)";

constexpr const char* footer = R"(Paths:
  fast     a producer sends into the buffers that a consumer has posted; each thread
           has one of both, and a progress engine of its own
  control  control messages of the connection, up to 4080 bytes, one thread

Modes:
  ping-pong  the client sends a message and waits for the answer; this is the one
             that measures latency
  one-way    the client sends, with up to --window messages under way; bandwidth and
             message rate
  two-way    both send like that at the same time; rates are the sum of both ways

Columns of ping-pong:
  Bytes        size of the message and of its answer
  Round trips  how many were measured, in all threads together
  /s           round trips in a second
  min ... max  latency in microseconds: half of a round trip. 99.9% = 1.5 says that
               999 of 1000 took at most 1.5. 99.99% means little with less than some
               100,000 round trips. Known to 0.1 %
Columns of one-way and two-way:
  Bytes        size of a message
  Messages     how many were measured, in all threads and directions together. One
               counts when its sender knows that it has arrived
  Seconds      from the end of the warm-up to the last of them
  M msg/s      million messages in a second
  MB/s, Gbit/s of their content; 1 MB = 1,000,000 bytes
  sent MB/s    two-way: what the client sent, and
  rec. MB/s    what it received
--format json has all of it at full precision, with the settings; csv the figures, in
lines. Both give times in seconds or microseconds as their names say.

What a message costs besides the channel: nothing is allocated for it, the clock is read
once a round trip and once in many messages in the other modes. Each message of a stream
has memory of its own, as a program's would, up to 32 MiB in all; --buffers 1 uses the
same again and again, as ucx_perftest does, so that it stays in the CPU's caches. So many
buffers are received into; a stream is sent from no more than --window of them, as json
and csv tell (buffers, send_buffers).
--verify writes and compares every byte, which takes time that counts: it is for being sure.

Environment: COMCH_DOMAIN, COMCH_DOMAIN_FILE, COMCH_DEVICE as in comch_info --help.
COMCH_SIDE need not be set: a server is on the DPU's side, a client on the host's.

Examples:
  comch_perftest --both-sides                          latency of 8 bytes
  comch_perftest --both-sides --cpus 0 --server-cpus 1 the same without migrations
  comch_perftest -b -s 8:4K                            8, 16, 32, ... 4096 bytes
  comch_perftest -b -m one-way -s 64,1K,1M -t 2        bandwidth with two threads
  comch_perftest -b -m one-way -s 8 -n 10000000        rate, over ten million messages
  comch_perftest -b -p control -m two-way -s 64:2Kx2   control messages both ways
  comch_perftest -b -m two-way -s 1:64M --verify       is every byte right?
  comch_perftest -b -s 8 -f json | jq .results[0].latency_us.p99_99
  comch_perftest --server --persistent                 on the DPU, for many clients

Exit status: 0; 1 when it could not be measured, with the reason on standard error;
2 when --verify found wrong data; above 100 when the command line is wrong.)";

[[noreturn]] void wrong(const std::string& text) {
    throw CLI::ValidationError(text);
}

/// What one of our parsers makes of a value, or its error as one of the command line.
template <class T> T parsed(std::string_view option, Result<T> value) {
    if (!value) {
        wrong(fmt::format("{}: {}", option, value.error().message));
    }
    return std::move(*value);
}

/// One of a few words. (CLI11's own way would print the values with to_string(), which ours are no
/// std::string.)
template <class T>
T choose(std::string_view option, const std::string& word,
         const std::vector<std::pair<std::string, T>>& choices) {
    std::string words;
    for (const auto& [name, value] : choices) {
        if (CLI::detail::to_lower(word) == name) {
            return value;
        }
        words += (words.empty() ? "" : ", ") + name;
    }
    wrong(fmt::format("{}: '{}' is none of {}", option, word, words));
}

void check_sizes(const Options& options) {
    const bool control = options.plan.path == Path::control;
    const std::uint64_t most = control ? limits::message_size : limits::fast_path_buffer_size;
    for (const std::uint64_t size : options.sizes) {
        if (size < 1 || size > most) {
            wrong(fmt::format("--sizes: {} bytes cannot be sent on the {} path; use 1 to {}{}",
                              size, to_string(options.plan.path), most,
                              control ? " (or --path fast for more)" : ""));
        }
    }
}

void check_combination(const Options& options, const CLI::App& app) {
    const auto given = [&](const char* name) { return app.count(name) != 0; };
    if (options.server && options.both_sides) {
        wrong("--server and --both-sides exclude each other: --both-sides is a client that starts "
              "the server too");
    }
    if (options.server) {
        for (const char* name :
             {"--path", "--mode", "--sizes", "--count", "--duration", "--warm-up", "--window",
              "--buffers", "--threads", "--verify", "--sleep", "--cpus", "--server-cpus",
              "--format", "--timeout", "--progress", "--no-progress"}) {
            if (given(name)) {
                wrong(fmt::format("{} is given to the client, which tells the server", name));
            }
        }
        return;
    }
    if (options.both_sides) {
        // The server gets a name that no other has: with the client's process id, 2^22 at most.
        constexpr std::size_t most =
            limits::server_name_size - 1 - std::string_view("-4194304").size();
        if (options.name.size() > most) {
            wrong(fmt::format("--name: {} bytes are too long; with --both-sides at most {}, as the "
                              "process id is appended",
                              options.name.size(), most));
        }
    }
    if (given("--count") && given("--duration")) {
        wrong("--count excludes --duration: measure so many messages or so long");
    }
    if (given("--progress") && given("--no-progress")) {
        wrong("--progress excludes --no-progress");
    }
    if (options.persistent) {
        wrong("--persistent is a server's; use it with --server");
    }
    if (given("--representor")) {
        wrong("--representor is a server's; a client says with --device which function it is on");
    }
    check_sizes(options);
    if (options.plan.path == Path::control) {
        if (options.plan.threads != 1) {
            wrong("--threads: control messages belong to one thread; several are for --path fast");
        }
        if (given("--buffers")) {
            wrong("--buffers: control messages are copied, they have no buffers of the program's");
        }
    }
    if (options.plan.mode == Mode::ping_pong && given("--window")) {
        wrong("--window: in a ping-pong one message is under way; a window is for one-way and "
              "two-way");
    }
    if (options.plan.verify && given("--buffers")) {
        wrong("--buffers: verified messages must not share their memory; leave out --buffers or "
              "--verify");
    }
    if (given("--server-cpus") && options.server_cpus.size() > protocol::max_cpus) {
        wrong(fmt::format("--server-cpus: more than {} CPUs", protocol::max_cpus));
    }
    if (options.goal.messages == 0 && options.goal.seconds <= 0) {
        wrong("--count must be at least 1");
    }
}

/// An option whose text `take` makes something of.
void add_text(CLI::App& group, const char* names, const char* type, const char* text,
              std::function<void(const std::string&)> take) {
    group.add_option_function<std::string>(names, take, text)->type_name(type);
}

void add_who(CLI::App& app, Options& options) {
    CLI::App& who = *app.add_option_group("Who")->description("Who this process is");
    who.add_flag("-S,--server", options.server, "The DPU's side: wait for a client");
    who.add_flag("--persistent", options.persistent, "Server: serve one client after another");
    who.add_flag("-b,--both-sides", options.both_sides, "Be the client, and start the server too");
    app.add_option("--ready-fd", options.ready_fd)->group(""); // --both-sides' own
}

void set_count(Options& options, const std::string& value) {
    options.goal = parsed("--count", parse_amount(value));
    if (options.goal.messages == 0) {
        wrong("--count: '" + value +
              "' is not a number of messages above 0; for a time use --duration");
    }
}

void add_what(CLI::App& app, Options& options) {
    CLI::App& what = *app.add_option_group("What")->description("What is measured (client)");
    add_text(what, "-p,--path", "PATH", "fast or control (default: fast)", [&](const auto& value) {
        options.plan.path =
            choose<Path>("--path", value, {{"fast", Path::fast}, {"control", Path::control}});
    });
    add_text(what, "-m,--mode", "MODE", "ping-pong, one-way or two-way (default: ping-pong)",
             [&](const auto& value) {
                 options.plan.mode = choose<Mode>("--mode", value,
                                                  {{"ping-pong", Mode::ping_pong},
                                                   {"one-way", Mode::one_way},
                                                   {"two-way", Mode::two_way}});
             });
    add_text(what, "-s,--sizes", "LIST",
             "Bytes: 8,64,1K; 1:1M doubles; 1:1Mx4; 64:512+64 (default: 8)",
             [&](const auto& value) { options.sizes = parsed("--sizes", parse_sizes(value)); });
    add_text(what, "-n,--count", "N",
             "Messages to measure, each size and thread (two-way: the client's)",
             [&](const auto& value) { set_count(options, value); });
    add_text(what, "-d,--duration", "TIME", "How long to measure each size (default: 1s)",
             [&](const auto& value) {
                 options.goal = {.messages = 0,
                                 .seconds = parsed("--duration", parse_seconds(value))};
             });
    add_text(
        what, "-w,--warm-up", "N|TIME",
        "Before that, not measured: 1000 or 50ms (default: a tenth, at most 100000 or 1s)",
        [&](const auto& value) { options.warm_up = parsed("--warm-up", parse_amount(value)); });
    what.add_option("-W,--window", options.window,
                    "Messages under way (default: 256, but 2 to 32 MiB in all)")
        ->type_name("N")
        ->check(CLI::Range(1u, max_window).description(""));
    what.add_option("-B,--buffers", options.buffers,
                    "Buffers to cycle through (default: each message's its own; in a ping-pong 4, "
                    "above 1 MiB 2)")
        ->type_name("N")
        ->check(CLI::Range(1u, limits::consumer_tasks).description(""));
    what.add_option("-t,--threads", options.plan.threads, "Threads on each side (default: 1)")
        ->type_name("N")
        ->check(CLI::Range(1u, max_threads).description(""));
    what.add_flag("-v,--verify", options.plan.verify, "Compare every byte that arrives");
    what.add_flag("--sleep", options.plan.sleep,
                  "Both sides sleep when there is nothing to do, not poll");
    add_text(
        what, "--timeout", "TIME", "Give up when nothing moves for so long (default: 30s)",
        [&](const auto& value) { options.timeout = parsed("--timeout", parse_seconds(value)); });
}

void add_where(CLI::App& app, Options& options) {
    CLI::App& where = *app.add_option_group("Where")->description("Where it runs");
    add_text(where, "-c,--cpus", "LIST",
             "CPUs of the client's threads, in turn: 0,2-5 (default: any)",
             [&](const auto& value) { options.cpus = parsed("--cpus", parse_cpus(value)); });
    add_text(where, "-C,--server-cpus", "LIST",
             "CPUs of the server's threads; given to the client, too", [&](const auto& value) {
                 options.server_cpus = parsed("--server-cpus", parse_cpus(value));
             });
    where.add_option("--name", options.name, "The server's name (default: comch_perftest)")
        ->type_name("NAME");
    where
        .add_option("--device", options.device,
                    "Device's name or PCI address, instead of COMCH_DEVICE's")
        ->type_name("DEVICE");
    where
        .add_option("--representor", options.representor,
                    "Server: whose clients to serve (default: the first host function)")
        ->type_name("FUNCTION");
    where.add_option("--domain", options.domain.directory, "Domain, instead of COMCH_DOMAIN's")
        ->type_name("PATH|NAME");
    where
        .add_option("--domain-file", options.domain.description_file,
                    "Description, instead of COMCH_DOMAIN_FILE's")
        ->type_name("FILE");
}

void add_output(CLI::App& app, Options& options) {
    CLI::App& output = *app.add_option_group("Output")->description("What is said");
    add_text(output, "-f,--format", "FORMAT", "table, csv or json (default: table)",
             [&](const auto& value) {
                 options.format = choose<Format>(
                     "--format", value,
                     {{"table", Format::table}, {"csv", Format::csv}, {"json", Format::json}});
             });
    output.add_flag("--progress", options.progress,
                    "Show on standard error how far it is (default: if a terminal)");
    output.add_flag("--no-progress")->description("Do not show it");
}

/// A tenth of what is measured, but no more than it takes to fill every ring and cache.
Amount default_warm_up(const Amount& goal) {
    return {.messages = std::min<std::uint64_t>((goal.messages + 9) / 10, 100'000),
            .seconds = std::min(goal.seconds / 10, 1.0)};
}

} // namespace

std::optional<int> parse_options(int argc, const char* const* argv, Options& options,
                                 std::ostream& out, std::ostream& err) {
    CLI::App app(description, "comch_perftest");
    comch::tools::add_version(app);
    app.footer(footer);
    app.get_formatter()->column_width(28);
    add_who(app, options);
    add_what(app, options);
    add_where(app, options);
    add_output(app, options);
    try {
        app.parse(argc, argv);
        if (app.count("--warm-up") == 0) {
            options.warm_up = default_warm_up(options.goal);
        }
        check_combination(options, app);
        if (!options.progress) {
            options.progress =
                app.count("--no-progress") == 0 && !options.server && ::isatty(STDERR_FILENO) == 1;
        }
    } catch (const CLI::ParseError& error) {
        return app.exit(error, out, err);
    }
    return std::nullopt;
}

} // namespace comch::perftest
