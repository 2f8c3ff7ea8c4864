// comch_fi_perftest: tagged messages, writes and reads between two processes through libfabric,
// with any provider.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"
#include "fi_end.hpp"
#include "perftest/histogram.hpp"
#include "perftest/long_enough.hpp"
#include "perftest/pinning.hpp"
#include "perftest/used_data.hpp"

namespace {

using comch::perftest::FiEnd;
using comch::perftest::Silence;
using Clock = std::chrono::steady_clock;

constexpr const char* description =
    R"(Measure tagged messages, writes and reads through libfabric between two processes of this machine,
over comch (one process on the host's side, one on the DPU's) or over another provider for comparison.)";

constexpr const char* footer = R"(
Tests:
  lat   microseconds for a message in one direction: half of a ping-pong, the mean of them
  bw    messages and bytes per second, in windows that the receiver acknowledges
  write writes into the other process's memory and bytes per second, in windows that are waited for;
        the other process does nothing but progress
  read  the same for reads of it
Of each size a first, short run is not counted: it touches pages and registers memory.

Examples:
  FI_PROVIDER_PATH=build/lib/libfabric comch_fi_perftest lat --size 64 --cpus 0,1
  comch_fi_perftest lat --used --size 64K --provider shm
  comch_fi_perftest bw --size 1M --provider shm --json)";

struct Options {
    std::string test = "lat";
    std::string provider = "comch";
    std::vector<std::string> domains{"", ""};
    std::vector<std::size_t> sizes;
    std::vector<int> cpus{-1, -1};
    unsigned window = 64;
    unsigned buffers = 1;
    double seconds = 0.2;
    double timeout = 30; ///< seconds
    bool median = false;
    bool used = false; ///< messages of ping-pongs are written and read
};

struct Result {
    std::size_t size = 0;
    std::uint64_t messages = 0;
    double seconds = 0;
    double median_us = 0; ///< of ping-pongs, if asked for
};

/// Of the process that has one.
volatile std::sig_atomic_t child_has_ended = 0;

/// What the two processes say to each other beside libfabric.
class Wire {
public:
    Wire(int fd, double timeout) : fd_(fd), timeout_(timeout) {
        timeval time{};
        time.tv_sec = static_cast<time_t>(timeout);
        time.tv_usec = static_cast<suseconds_t>((timeout - std::floor(timeout)) * 1e6);
        (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    }
    ~Wire() { ::close(fd_); }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    void put(std::span<const std::byte> bytes) {
        if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(bytes.size())) {
            throw std::runtime_error("the other process has ended");
        }
    }
    [[nodiscard]] std::vector<std::byte> get() {
        std::vector<std::byte> bytes(512);
        const ssize_t length = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (length < 0 && errno == EAGAIN) {
            comch::perftest::throw_silent(timeout_);
        }
        if (length <= 0) {
            throw std::runtime_error("the other process has ended");
        }
        bytes.resize(static_cast<std::size_t>(length));
        return bytes;
    }
    void put_number(std::uint64_t number) { put(std::as_bytes(std::span(&number, 1))); }
    /// get() would not wait.
    [[nodiscard]] bool has_word() const {
        std::byte unused{};
        return ::recv(fd_, &unused, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
    }
    [[nodiscard]] std::uint64_t get_number() {
        const auto bytes = get();
        std::uint64_t number = 0;
        std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof(number)),
                    std::as_writable_bytes(std::span(&number, 1)).begin());
        return number;
    }

private:
    int fd_;
    double timeout_; ///< seconds
};

struct Role {
    FiEnd& end;
    Wire& wire;
    bool first; ///< sends first, and keeps the time
    std::byte* memory;
    std::size_t stride; ///< between buffers
    unsigned buffers;   ///< for the messages of a window, in turn; one more for acknowledgements
    bool used;          ///< ping_pong() writes and reads them

    [[nodiscard]] std::byte* buffer(unsigned i) const { return memory + i % buffers * stride; }
    [[nodiscard]] std::byte* last() const { return memory + buffers * stride; }
};

/// `count` ping-pongs. `times`: takes the nanoseconds of each, if not null.
double ping_pong(Role& role, std::size_t size, std::uint64_t count,
                 comch::perftest::Histogram* times) {
    std::uint64_t number = 0;
    const auto send = [&] {
        if (role.used) {
            comch::perftest::write_message({role.memory, size}, number);
        }
        role.end.send(role.memory, size);
    };
    const auto receive = [&] {
        role.end.await_receives(1);
        if (role.used && !comch::perftest::read_message({role.last(), size}, number)) {
            throw std::runtime_error(
                fmt::format("message {} of {} bytes has come with wrong data", number, size));
        }
    };
    const auto begin = Clock::now();
    auto last = begin;
    for (; number < count; ++number) {
        role.end.post_receive(role.last(), size);
        if (role.first) {
            send();
            receive();
        } else {
            receive();
            send();
        }
        role.end.await_sends();
        if (times != nullptr) {
            const auto now = Clock::now();
            times->record(static_cast<std::uint64_t>((now - last).count()));
            last = now;
        }
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// `count` windows, each acknowledged.
double stream(Role& role, std::size_t size, unsigned window, std::uint64_t count) {
    const auto begin = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        if (role.first) {
            role.end.post_receive(role.last(), 1);
            for (unsigned k = 0; k < window; ++k) {
                role.end.send(role.buffer(k), size);
            }
            role.end.await_sends();
            role.end.await_receives(1);
        } else {
            for (unsigned k = 0; k < window; ++k) {
                role.end.post_receive(role.buffer(k), size);
            }
            role.end.await_receives(window);
            role.end.send(role.last(), 1);
            role.end.await_sends();
        }
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// `count` windows of writes or reads, each waited for. The other end sees it through.
double access(Role& role, std::size_t size, unsigned window, std::uint64_t count, bool write) {
    const auto begin = Clock::now();
    if (!role.first) {
        while (!role.wire.has_word()) {
            for (unsigned i = 0; i < 64; ++i) { // the question is a system call
                role.end.progress();
            }
        }
        (void)role.wire.get_number();
        return 0;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        for (unsigned k = 0; k < window; ++k) {
            if (write) {
                role.end.write(role.buffer(k), size);
            } else {
                role.end.read(role.buffer(k), size);
            }
        }
        role.end.await_sends();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    role.wire.put_number(1);
    return seconds;
}

[[nodiscard]] bool is_access(const Options& options) {
    return options.test == "write" || options.test == "read";
}

/// Both ends know each count beforehand.
Result measure(Role& role, const Options& options, std::size_t size) {
    const bool is_latency = options.test == "lat";
    comch::perftest::Histogram times;
    const auto run = [&](std::uint64_t count) {
        times.clear();
        if (is_access(options)) {
            return access(role, size, options.window, count, options.test == "write");
        }
        return is_latency ? ping_pong(role, size, count, options.median ? &times : nullptr)
                          : stream(role, size, options.window, count);
    };
    Result result;
    result.size = size;
    if (!role.first) {
        for (;;) {
            Silence silence(options.timeout);
            // Nobody else notices that a device goes away, and lets go of it.
            while (!role.wire.has_word()) {
                role.end.progress();
                silence.look(0);
            }
            const std::uint64_t count = role.wire.get_number();
            if (count == 0) {
                break;
            }
            (void)run(count);
        }
        return result;
    }
    const auto timed = comch::perftest::run_long_enough(options.seconds, [&](std::uint64_t count) {
        role.wire.put_number(count);
        return run(count);
    });
    role.wire.put_number(0);
    result.seconds = timed.seconds;
    result.messages = timed.count * (is_latency ? 2 : options.window);
    result.median_us = static_cast<double>(times.percentile(50)) / 2e3;
    return result;
}

/// For one of the two processes.
std::size_t most_memory() {
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    const auto page = ::sysconf(_SC_PAGESIZE);
    return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / 4;
}

using Report = std::function<void(const std::vector<Result>&)>;

void play(const Options& options, int fd, bool first, const Report& report) {
    comch::perftest::pin_or_throw(options.cpus[first ? 1 : 0]);
    Wire wire(fd, options.timeout);
    FiEnd end(options.provider, options.domains[first ? 1 : 0], is_access(options), options.timeout,
              child_has_ended);
    wire.put(end.name());
    end.meet(wire.get());
    const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
    const std::size_t stride = (std::max<std::size_t>(largest, 1) + 4095) / 4096 * 4096;
    std::vector<std::byte> memory(stride * (options.buffers + 1) + 4096, std::byte{1});
    auto* const aligned = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
    end.use({aligned, stride * (options.buffers + 1)});
    if (is_access(options)) {
        wire.put_number(end.target().address);
        wire.put_number(end.target().key);
        const std::uint64_t address = wire.get_number();
        end.reach({.address = address, .key = wire.get_number()});
    }
    Role role{end, wire, first, aligned, stride, options.buffers, options.used};
    std::vector<Result> results;
    for (const std::size_t size : options.sizes) {
        results.push_back(measure(role, options, size));
    }
    // Nobody leaves while the other may still want an answer.
    wire.put_number(1);
    (void)wire.get_number();
    report(results); // before anything is closed: a provider may fail at that
}

void print(const Options& options, const std::vector<Result>& results, bool as_json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Result& result : results) {
        const double rate = static_cast<double>(result.messages) / result.seconds;
        const double bytes = rate * static_cast<double>(result.size);
        if (as_json) {
            all.push_back({{"test", options.test},
                           {"provider", options.provider},
                           {"bytes", result.size},
                           {"messages_per_second", rate},
                           {"bytes_per_second", bytes}});
            if (options.test == "lat") {
                all.back()["latency_us"] = 1e6 / rate;
            }
            if (options.median) {
                all.back()["median_latency_us"] = result.median_us;
            }
        } else if (options.test == "lat") {
            fmt::print("{:>10} B  {:10.3f} us\n", result.size,
                       options.median ? result.median_us : 1e6 / rate);
        } else {
            fmt::print("{:>10} B  {:10.3f} M/s  {:10.3f} GB/s\n", result.size, rate / 1e6,
                       bytes / 1e9);
        }
    }
    if (as_json) {
        fmt::print("{}\n", all.dump(2));
    }
}

/// The other process. Never returns.
[[noreturn]] void play_second(const Options& options, int fd) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("COMCH_SIDE", "dpu", 1);
    int code = 0;
    try {
        play(options, fd, false, [](const auto&) {});
    } catch (const std::exception& error) {
        fmt::print(stderr, "error: the receiving process: {}\n", error.what());
        code = 1;
    }
    std::exit(code);
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{description, "comch_fi_perftest"};
    comch::tools::add_version(app);
    app.footer(footer);
    Options options;
    bool json = false;
    app.add_option("test", options.test, "lat, bw, write or read")
        ->required()
        ->check(CLI::IsMember({"lat", "bw", "write", "read"}));
    app.add_option("--provider", options.provider, "libfabric's name of it")->capture_default_str();
    app.add_option("--domains", options.domains,
                   "receiver's and sender's device, as rxe0,rxe1 (default: libfabric's choice)")
        ->delimiter(',')
        ->expected(2);
    app.add_option("--size", options.sizes, "bytes (64, 64K, 1M); may be given several times")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--window", options.window, "messages in a window of bw, write and read")
        ->check(CLI::Range(1u, 4096u))
        ->capture_default_str();
    app.add_option("--buffers", options.buffers, "that those send from and receive into, in turn")
        ->check(CLI::Range(1u, 4096u))
        ->capture_default_str();
    app.add_option("--cpus", options.cpus,
                   "receiver's and sender's CPU, as 0,1 (default: not pinned)")
        ->delimiter(',')
        ->expected(2)
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seconds", options.seconds, "for each measurement, at least")
        ->check(comch::tools::number_between(0.001, 60))
        ->capture_default_str();
    app.add_option("--timeout", options.timeout,
                   "seconds after which to give up when nothing moves")
        ->check(comch::tools::number_between(0.1, 86400))
        ->capture_default_str();
    app.add_flag(
        "--median", options.median,
        "lat tells the median instead of the mean (in JSON both); takes the time of each message");
    app.add_flag("--used", options.used,
                 "lat writes each message before it sends it and reads what has come, as programs "
                 "do; the time for that counts");
    app.add_flag("--json", json, "as JSON");
    CLI11_PARSE(app, argc, argv);
    if (options.sizes.empty()) {
        options.sizes = {8, 64, 4096, 65536, 1 << 20};
    }
    if (options.median && options.test != "lat") {
        fmt::print(stderr, "error: --median is of lat; {} has no latencies\n", options.test);
        return 2;
    }
    if (options.used && options.test != "lat") {
        fmt::print(stderr, "error: --used is of lat; {} sends what there is\n", options.test);
        return 2;
    }
    const std::size_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
    if (const std::size_t most = most_memory(); largest > most / (options.buffers + 1) - 4096) {
        fmt::print(
            stderr,
            "error: --size {} with --buffers {} takes more memory on each side than {} bytes, "
            "a quarter of the machine's; use a smaller --size or fewer --buffers\n",
            largest, options.buffers, most);
        return 2;
    }
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        fmt::print(stderr, "error: socketpair: {}\n", std::strerror(errno));
        return 1;
    }
    struct sigaction note_end {};
    note_end.sa_handler = [](int) { child_has_ended = 1; };
    note_end.sa_flags = SA_RESTART | SA_NOCLDSTOP;
    (void)::sigaction(SIGCHLD, &note_end, nullptr);
    // Before libfabric's first use, so that each process has providers of its own.
    const pid_t child = ::fork();
    if (child < 0) {
        fmt::print(stderr, "error: fork: {}\n", std::strerror(errno));
        return 1;
    }
    ::close(fds[child == 0 ? 0 : 1]);
    if (child == 0) {
        play_second(options, fds[1]);
    }
    ::setenv("COMCH_SIDE", "host", 1);
    int code = 0;
    try {
        play(options, fds[0], true, [&](const auto& results) {
            print(options, results, json);
            code = comch::tools::output_status("error");
        });
    } catch (const std::exception& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        (void)::kill(child, SIGKILL);
        code = 1;
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    return code != 0 || status != 0 ? 1 : 0;
}
