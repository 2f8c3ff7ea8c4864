// comch_scaling: what many connections cost, and what they cost each other. Two processes on the
// soft link, one connection or many.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/link/soft/port.hpp"
#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"
#include "perftest/pinning.hpp"

namespace {

using namespace comch;
using link::soft::Connection;
using link::soft::Port;

constexpr const char* description =
    R"(Measure what many connections to one process cost, on the soft link below all APIs.)";

constexpr const char* footer = R"(
Measurements:
  quiet    ns of one way of a ping-pong on one of --connections; the others were used and fell quiet
  bulk     the same on one connection, while another streams messages of 32 KiB to the same process;
           and in turn with that, alone
  fan-in   million messages of 8 bytes per second through all of --connections in turn to one process
  connect  connections made and closed per second
  memory   bytes and descriptors that a connection costs a process that has --connections quiet ones

Example:
  comch_scaling quiet --connections 512 --cpus 0,1

Exit status: 0; 1 when it could not be measured, with the reason on standard error; 128 and the
signal's number when it was interrupted; otherwise above 100 when the command line is wrong.)";

volatile std::sig_atomic_t interrupted = 0; ///< by this signal

/// Ends the measurement then, so that its domain is removed.
struct Interrupted {};

void catch_signals() {
    for (const int signal : {SIGINT, SIGTERM}) {
        (void)std::signal(signal, [](int number) { interrupted = number; });
    }
}

/// What a message is.
enum Id : std::uint8_t { small, long_one };

/// One end: counts, and echoes small messages where it is told to.
struct Sink {
    std::vector<Connection*> accepted;
    std::uint64_t established = 0;
    std::uint64_t messages = 0;
    bool echoes = false;

    link::ConnectDecision on_connect_request(Connection& c, const link::ConnectRequest&) {
        accepted.push_back(&c);
        return {.code = Errc::ok, .user = nullptr, .reply = {}};
    }
    void on_connected(Connection&, std::span<const std::byte>) { ++established; }
    void on_disconnected(Connection& c, link::Reason reason, std::span<const std::byte>) {
        gone.push_back({&c, reason});
    }
    void on_message(Connection& c, std::uint8_t id, const std::byte* data, std::uint32_t length) {
        ++messages;
        if (echoes && id == small) {
            (void)c.send(small, {data, length});
        }
    }
    void on_complete(Connection&, void*, Errc) {}
    void on_channel(Connection&, std::uint64_t, link::soft::Channel&&) {}

    struct Gone {
        Connection* connection;
        link::Reason reason;
    };
    std::vector<Gone> gone; ///< to be closed by the owner
};

struct End {
    std::unique_ptr<Port> port;
    Sink sink;

    End(const std::shared_ptr<Domain>& domain, Side side) {
        auto opened = Port::open(devices(domain, side).at(0), {.face = "perf"});
        if (!opened) {
            throw std::runtime_error(opened.error().message);
        }
        port = std::move(*opened);
    }
    unsigned progress() {
        if (interrupted != 0) {
            throw Interrupted();
        }
        const unsigned events = port->progress(sink);
        for (const auto& [c, reason] : sink.gone) {
            const std::string text = c->error_text();
            port->close(c);
            if (reason != link::Reason::closed) {
                throw std::runtime_error(text.empty() ? std::string(to_string(reason)) : text);
            }
        }
        sink.gone.clear();
        return events;
    }
    template <class Done> void until(Done done) {
        while (!done()) {
            (void)progress();
        }
    }
};

/// The server: a process of its own, that ends with this one.
class Server {
public:
    Server(const std::string& directory, int cpu, bool echoes) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) {
            throw std::runtime_error("cannot make a pipe");
        }
        pid_ = ::fork();
        if (pid_ == 0) {
            ::close(ends[0]);
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            try {
                perftest::pin_or_throw(cpu);
                End end(Domain::open({.directory = directory, .description_file = {}}).value(),
                        Side::dpu);
                end.sink.echoes = echoes;
                const auto address = end.port->address();
                if (::write(ends[1], &address, sizeof(address)) != sizeof(address)) {
                    ::_exit(1);
                }
                for (;;) {
                    (void)end.progress();
                }
            } catch (const std::exception& error) {
                fmt::print(stderr, "error: {}\n", error.what());
            } catch (const Interrupted&) { // and so is the client
            }
            ::_exit(1);
        }
        ::close(ends[1]);
        const bool told = ::read(ends[0], &address_, sizeof(address_)) == sizeof(address_);
        ::close(ends[0]);
        if (!told) {
            throw std::runtime_error("the server did not start");
        }
    }
    ~Server() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    [[nodiscard]] const link::PortAddress& address() const { return address_; }

private:
    pid_t pid_ = -1;
    link::PortAddress address_{};
};

struct Options {
    std::string what;
    unsigned connections = 1;
    std::vector<int> cpus{-1, -1};
    double seconds = 0.2;
};

rlim_t descriptor_limit() {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/// One more connection, established. `number`: which one it is, for the message.
Connection* connect(End& end, const Server& server, std::uint64_t number) {
    constexpr std::uint64_t patience_ns = 5'000'000'000;
    const auto failed = [&](std::string_view why) {
        return std::runtime_error(
            fmt::format("connection {} cannot be made: {}; it takes descriptors in both processes, "
                        "each of which may have {} (ulimit -n)",
                        number, why, descriptor_limit()));
    };
    auto made = end.port->connect(server.address(), {}, nullptr);
    if (!made) {
        throw failed(made.error().message);
    }
    const std::uint64_t before = end.sink.established;
    const std::uint64_t deadline = monotonic_ns() + patience_ns;
    try {
        end.until([&] {
            if (monotonic_ns() > deadline) {
                throw std::runtime_error(
                    fmt::format("the server has not answered for {} s", patience_ns / 1000000000));
            }
            return end.sink.established != before;
        });
    } catch (const std::exception& error) {
        throw failed(error.what());
    }
    return *made;
}

std::vector<Connection*> connect_all(End& end, const Server& server, unsigned count) {
    std::vector<Connection*> connections;
    for (unsigned i = 0; i < count; ++i) {
        connections.push_back(connect(end, server, i + 1));
    }
    return connections;
}

double quiet(End& end, const Server& server, const Options& options) {
    const auto connections = connect_all(end, server, options.connections);
    const std::array<std::byte, 8> message{};
    const auto ping = [&](Connection& c) {
        const std::uint64_t before = end.sink.messages;
        (void)c.send(small, message);
        end.until([&] { return end.sink.messages != before; });
    };
    for (Connection* const c : connections) {
        ping(*c);
    }
    Connection& one = *connections[connections.size() / 2];
    const auto play = [&](double seconds) {
        std::vector<double> times;
        const std::uint64_t end_ns = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
        for (std::uint64_t now = monotonic_ns(); now < end_ns;) {
            constexpr unsigned batch = 200;
            for (unsigned i = 0; i < batch; ++i) {
                ping(one);
            }
            const std::uint64_t then = monotonic_ns();
            times.push_back(static_cast<double>(then - now) / (2.0 * batch));
            now = then;
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
    };
    (void)play(0.05); // the others fall quiet
    return play(options.seconds);
}

double percentile(std::vector<double>& values, double part) {
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

nlohmann::ordered_json bulk(End& end, const Server& server, const Options& options) {
    constexpr std::uint64_t under_way = 8;
    constexpr unsigned batch = 100;
    constexpr std::uint32_t length = 32 * 1024;
    const auto connections = connect_all(end, server, 2);
    Connection& one = *connections[0];
    Connection& stream = *connections[1];
    const std::array<std::byte, 8> message{};
    std::uint64_t streamed = 0;
    const auto go_on = [&] {
        if (stream.sent() - stream.confirmed() < under_way &&
            stream.send_packed(long_one, length, [&](std::byte* to) {
                std::memset(to, 1, length);
                return length;
            }) > 0) {
            ++streamed;
        }
    };
    std::uint64_t time_of_stream = 0;
    std::array<std::vector<double>, 2> times; // alone, and not
    const auto play = [&](bool with_stream) {
        const std::uint64_t begin = monotonic_ns();
        std::uint64_t now = begin;
        for (unsigned i = 0; i < batch; ++i) {
            const std::uint64_t before = end.sink.messages;
            (void)one.send(small, message);
            end.until([&] {
                if (with_stream) {
                    go_on();
                }
                return end.sink.messages != before;
            });
            const std::uint64_t then = monotonic_ns();
            times[with_stream ? 1 : 0].push_back(static_cast<double>(then - now) / 2);
            now = then;
        }
        if (with_stream) {
            time_of_stream += now - begin;
        }
        end.until([&] { return stream.confirmed() == stream.sent(); });
    };
    const auto play_for = [&](double seconds) {
        const std::uint64_t end_ns = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
        while (monotonic_ns() < end_ns) {
            play(false);
            play(true);
        }
    };
    play_for(0.05); // rings are attached, and the fastest way is found
    times = {};
    streamed = time_of_stream = 0;
    play_for(options.seconds);
    return {{"value", percentile(times[1], 0.5)},
            {"unit", "ns"},
            {"p99", percentile(times[1], 0.99)},
            {"alone", percentile(times[0], 0.5)},
            {"alone_p99", percentile(times[0], 0.99)},
            {"stream_bytes_per_second",
             static_cast<double>(streamed) * length / (static_cast<double>(time_of_stream) / 1e9)}};
}

double fan_in(End& end, const Server& server, const Options& options) {
    const auto connections = connect_all(end, server, options.connections);
    const std::array<std::byte, 8> message{};
    const std::uint64_t begin = monotonic_ns();
    const std::uint64_t end_ns = begin + static_cast<std::uint64_t>(options.seconds * 1e9);
    std::uint64_t sent = 0;
    std::uint64_t now = begin;
    while (now < end_ns) {
        for (unsigned i = 0; i < 4096;) {
            for (Connection* const c : connections) {
                while (c->send(small, message) != Errc::ok) {
                    (void)end.progress();
                }
                ++i;
                ++sent;
            }
        }
        (void)end.progress();
        now = monotonic_ns();
    }
    for (Connection* const c : connections) {
        end.until([&] { return c->confirmed() == c->sent(); });
    }
    return static_cast<double>(sent) / (static_cast<double>(monotonic_ns() - begin) / 1e9);
}

double connect_rate(End& end, const Server& server, const Options& options) {
    const std::uint64_t begin = monotonic_ns();
    const std::uint64_t end_ns = begin + static_cast<std::uint64_t>(options.seconds * 1e9);
    std::uint64_t made = 0;
    while (monotonic_ns() < end_ns) {
        Connection* const c = connect(end, server, ++made);
        end.port->close(c);
        (void)end.progress();
    }
    return static_cast<double>(made) / (static_cast<double>(monotonic_ns() - begin) / 1e9);
}

std::size_t descriptors() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// Private memory and what is mapped shared, of this process: all pages that are there, in bytes.
std::size_t resident() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string line;
    while (std::getline(file, line)) {
        std::size_t kib = 0;
        if (std::sscanf(line.c_str(), "Rss: %zu", &kib) == 1) {
            return kib * 1024;
        }
    }
    throw std::runtime_error("cannot read /proc/self/smaps_rollup");
}

nlohmann::ordered_json run(const Options& options, const std::string& directory) {
    const Server server(directory, options.cpus[1],
                        options.what != "fan-in" && options.what != "connect");
    perftest::pin_or_throw(options.cpus[0]);
    End end(Domain::open({.directory = directory, .description_file = {}}).value(), Side::host);
    if (options.what == "quiet") {
        return {{"value", quiet(end, server, options)}, {"unit", "ns"}};
    }
    if (options.what == "bulk") {
        return bulk(end, server, options);
    }
    if (options.what == "fan-in") {
        return {{"value", fan_in(end, server, options) / 1e6}, {"unit", "M/s"}};
    }
    if (options.what == "connect") {
        return {{"value", connect_rate(end, server, options)}, {"unit", "1/s"}};
    }
    // One connection first: what is needed once is not counted.
    (void)connect_all(end, server, 1);
    const std::size_t bytes_before = resident();
    const std::size_t descriptors_before = descriptors();
    Options more = options;
    more.seconds = 0.01;
    (void)quiet(end, server, more);
    const auto each = [&](std::size_t before, std::size_t now) {
        return static_cast<double>(now - before) / options.connections;
    };
    return {{"value", each(bytes_before, resident())},
            {"unit", "bytes"},
            {"descriptors", each(descriptors_before, descriptors())}};
}

void print(const Options& options, const nlohmann::ordered_json& result, bool json) {
    if (json) {
        fmt::print("{}\n", result.dump(2));
        return;
    }
    if (options.what == "bulk") {
        fmt::print("bulk: {:.1f} ns beside a stream of {:.2f} GB/s, alone {:.1f} ns (99 %: "
                   "{:.1f}, {:.1f})\n",
                   result["value"].get<double>(),
                   result["stream_bytes_per_second"].get<double>() / 1e9,
                   result["alone"].get<double>(), result["p99"].get<double>(),
                   result["alone_p99"].get<double>());
        return;
    }
    if (options.what == "connect") {
        fmt::print("connect: {:.1f} {}\n", result["value"].get<double>(),
                   result["unit"].get<std::string>());
        return;
    }
    fmt::print("{} with {} connection{}: {:.1f} {}", options.what, options.connections,
               options.connections == 1 ? "" : "s", result["value"].get<double>(),
               result["unit"].get<std::string>());
    if (result.contains("descriptors")) {
        fmt::print(", {:.2f} descriptors", result["descriptors"].get<double>());
    }
    fmt::print("\n");
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{description, "comch_scaling"};
    comch::tools::add_version(app);
    app.footer(footer);
    Options options;
    bool json = false;
    app.add_option("what", options.what, "which measurement")
        ->required()
        ->check(CLI::IsMember({"quiet", "bulk", "fan-in", "connect", "memory"}));
    const CLI::Option* const connections =
        app.add_option("--connections", options.connections, "how many (quiet, fan-in, memory)")
            ->check(CLI::Range(1, 4000))
            ->capture_default_str();
    app.add_option("--cpus", options.cpus,
                   "client's and server's CPU, as 0,1 (default: not pinned)")
        ->delimiter(',')
        ->expected(2)
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seconds", options.seconds, "how long")
        ->check(tools::number_between(0.01, 60))
        ->capture_default_str();
    app.add_flag("--json", json, "as JSON");
    CLI11_PARSE(app, argc, argv);
    if (connections->count() != 0 && (options.what == "bulk" || options.what == "connect")) {
        fmt::print(stderr,
                   "error: --connections is of quiet, fan-in and memory; {} has a number of "
                   "its own\n",
                   options.what);
        return 2;
    }
    catch_signals();
    std::string directory =
        (std::filesystem::temp_directory_path() / "comch-scaling-XXXXXX").string();
    if (::mkdtemp(directory.data()) == nullptr) {
        fmt::print(stderr, "error: cannot make a directory like '{}'\n", directory);
        return 1;
    }
    int code = 0;
    try {
        const auto result = run(options, directory);
        print(options, result, json);
        code = tools::output_status("error");
    } catch (const Interrupted&) {
    } catch (const std::exception& error) {
        if (interrupted == 0) { // or else the server was interrupted as well, and is missed
            fmt::print(stderr, "error: {}\n", error.what());
        }
        code = 1;
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return interrupted != 0 ? 128 + interrupted : code;
}
