// What the soft link's tests share: ports in a domain of their own, a sink that remembers what it
// is told, and other processes to talk to.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/test_descriptors.hpp"
#include "core/base/test_waiting.hpp"
#include "core/device/test_support.hpp"
#include "core/link/soft/port.hpp"

namespace comch::link::soft::test {

using comch::test::TempDir;

inline constexpr auto patience = std::chrono::seconds(20); ///< far more than anything takes

inline std::vector<std::byte> pattern(std::size_t length, std::uint32_t seed) {
    std::vector<std::byte> bytes(length);
    std::uint32_t state = seed * 2654435761u + 12345u;
    for (std::byte& b : bytes) {
        state = state * 1664525u + 1013904223u;
        b = static_cast<std::byte>(state >> 24);
    }
    return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

/// Remembers everything; `on_*` hooks where a test wants to act at once.
struct Watcher {
    struct Message {
        Connection* connection;
        std::uint8_t id;
        std::vector<std::byte> bytes;
    };
    struct End {
        Connection* connection;
        Reason reason;
        std::chrono::steady_clock::time_point when;
        std::size_t completions_before;
    };
    struct Completion {
        void* token;
        Errc status;
    };

    ConnectDecision on_connect_request(Connection& connection, const ConnectRequest& request) {
        if (request_hook) {
            request_hook(connection);
        }
        if (decision == Errc::ok) {
            accepted.push_back(&connection);
        }
        peers.push_back(request.peer);
        return {.code = decision, .user = nullptr, .reply = {}};
    }
    void on_connected(Connection& connection, std::span<const std::byte>) {
        connected.push_back(&connection);
    }
    void on_disconnected(Connection& connection, Reason reason, std::span<const std::byte>) {
        ends.push_back({&connection, reason, std::chrono::steady_clock::now(), completions.size()});
        if (end_hook) {
            end_hook(connection);
        }
    }
    void on_message(Connection& connection, std::uint8_t id, const std::byte* data,
                    std::uint32_t length) {
        ++message_count;
        if (message_hook) {
            message_hook(connection, id, data, length);
        } else {
            messages.push_back({&connection, id, {data, data + length}});
        }
    }
    void on_complete(Connection& connection, void* token, Errc status) {
        completions.push_back({token, status});
        if (completion_hook) {
            completion_hook(connection, token);
        }
    }
    void on_channel(Connection&, std::uint64_t tag, Channel&& channel) {
        channels.emplace_back(tag, std::move(channel));
    }

    Errc decision = Errc::ok;
    std::function<void(Connection&)> request_hook;
    std::function<void(Connection&, std::uint8_t, const std::byte*, std::uint32_t)> message_hook;
    std::function<void(Connection&, void*)> completion_hook;
    std::function<void(Connection&)> end_hook;
    std::uint64_t message_count = 0;
    std::vector<Connection*> accepted;
    std::vector<PeerInfo> peers;
    std::vector<Connection*> connected;
    std::vector<End> ends;
    std::vector<Message> messages;
    std::vector<Completion> completions;
    std::vector<std::pair<std::uint64_t, Channel>> channels;
};

/// A domain in a directory of its own.
struct Lab {
    TempDir directory;

    [[nodiscard]] std::string path() const { return directory / "domain"; }
    [[nodiscard]] std::shared_ptr<Domain> domain() const {
        const comch::test::CleanEnvironment clean;
        auto opened = Domain::open({.directory = path(), .description_file = {}});
        if (!opened) {
            throw std::runtime_error(opened.error().message);
        }
        return *opened;
    }
    /// Names in the directory, without those that belong to the domain itself.
    [[nodiscard]] std::vector<std::string> files() const {
        std::vector<std::string> result;
        const auto entries = domain()->list_entries("").value();
        for (const std::string& name : entries) {
            if (!name.starts_with("domain.")) {
                result.push_back(name);
            }
        }
        return result;
    }
};

inline Device device_of(const std::shared_ptr<Domain>& domain, Side side, unsigned number = 0) {
    return devices(domain, side).at(number);
}

/// A port and what it was told.
struct End {
    std::unique_ptr<Port> port;
    Watcher seen;

    End(const Lab& lab, Side side, unsigned number = 0, PortOptions options = {.face = "test"}) {
        auto opened = Port::open(device_of(lab.domain(), side, number), std::move(options));
        if (!opened) {
            throw std::runtime_error(opened.error().message);
        }
        port = std::move(*opened);
    }
    unsigned progress() { return port->progress(seen); }
};

/// Progresses all the ends until `done`; false after `patience`.
template <class Done, class... Ends> bool until(Done done, Ends&... ends) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if (((ends.progress()) + ... + 0u) == 0) {
            std::this_thread::yield();
            if (std::chrono::steady_clock::now() > deadline) {
                return false;
            }
        }
    }
    return true;
}

/// Progresses for a while: for what must not happen, and for what is freed later.
template <class... Ends> void settle(std::chrono::milliseconds time, Ends&... ends) {
    comch::test::for_a_while(time, [&] { ((void)ends.progress(), ...); });
}

/// Waits for a descriptor; false after `limit`.
inline bool readable(int fd, std::chrono::milliseconds limit = patience) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(limit.count())) == 1;
}

/// Sleeps, rather than polls, between progress calls until `done`.
template <class Done> bool sleep_until(End& end, Done done) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if (end.progress() == 0 && !done() && end.port->arm() == Errc::ok &&
            !readable(end.port->event_fd())) {
            return false;
        }
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
    }
    return true;
}

struct Connected {
    Connection* initiator = nullptr;
    Connection* acceptor = nullptr;
};
inline Connected connect(End& from, End& to) {
    Connected pair;
    auto started = from.port->connect(to.port->address(), {}, nullptr);
    if (!started) {
        ADD_FAILURE() << started.error().message;
        return pair;
    }
    const std::size_t before = from.seen.connected.size();
    EXPECT_TRUE(until([&] { return from.seen.connected.size() > before; }, from, to));
    pair.initiator = *started;
    pair.acceptor = to.seen.accepted.back();
    return pair;
}

/// Bytes from one process to another, in order. Made before the fork.
class Line {
public:
    Line() {
        if (::pipe2(ends_, O_CLOEXEC) != 0) {
            throw std::runtime_error("no pipe");
        }
    }
    ~Line() {
        ::close(ends_[0]);
        ::close(ends_[1]);
    }
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    template <class T> void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (::write(ends_[1], &value, sizeof(value)) != sizeof(value)) {
            std::abort();
        }
    }
    /// False if nothing comes.
    template <class T> [[nodiscard]] bool get(T& value) {
        return readable(ends_[0]) && ::read(ends_[0], &value, sizeof(value)) == sizeof(value);
    }
    template <class T> [[nodiscard]] T get() {
        T value{};
        if (!get(value)) {
            std::fprintf(stderr, "process %d: nothing came\n", ::getpid());
            std::abort();
        }
        return value;
    }
    [[nodiscard]] bool has_something() const {
        return readable(ends_[0], std::chrono::milliseconds(0));
    }

private:
    int ends_[2] = {-1, -1};
};

/// Another process that runs `body`; killed with this object, and with it all that it has forked.
/// Its expectations count: wait() tells. Fork before this process has threads or ports of its own.
class Process {
public:
    explicit Process(const std::function<void()>& body) {
        std::fflush(nullptr);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::setpgid(0, 0);
            int code = 0;
            try {
                body();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "process %d: %s\n", ::getpid(), error.what());
                code = 1;
            }
            if (::testing::Test::HasFailure()) {
                code = 1;
            }
            std::fflush(nullptr);
            ::_exit(code);
        }
        ::setpgid(pid_, pid_);
        group_ = pid_;
    }
    ~Process() {
        (void)::kill(-group_, SIGKILL);
        kill();
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The exit code; -1: killed.
    int wait() {
        int status = 0;
        if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) {
            return -2;
        }
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    /// Has it ended? It is still to be waited for.
    [[nodiscard]] bool ended() const {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == pid_;
    }
    void signal(int number) const { ::kill(pid_, number); }
    void kill() {
        if (pid_ > 0) {
            signal(SIGKILL);
            (void)wait();
        }
    }

private:
    pid_t pid_ = -1;
    pid_t group_ = -1;
};

/// What a process holds: for leaks.
struct Holdings {
    std::size_t descriptors = 0;
    std::size_t shared_mappings = 0; ///< of memfds

    static Holdings now() {
        Holdings result;
        DIR* directory = ::opendir("/proc/self/fd");
        while (::readdir(directory) != nullptr) {
            ++result.descriptors;
        }
        ::closedir(directory);
        std::FILE* maps = std::fopen("/proc/self/maps", "re");
        char line[1024];
        while (std::fgets(line, sizeof(line), maps) != nullptr) {
            if (std::strstr(line, "memfd:comch") != nullptr) {
                ++result.shared_mappings;
            }
        }
        std::fclose(maps);
        return result;
    }
    friend bool operator==(const Holdings&, const Holdings&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Holdings& holdings) {
        return out << holdings.descriptors << " descriptors, " << holdings.shared_mappings
                   << " mappings";
    }
};

/// Progresses until this process holds what it held before; false after `patience`. Counting costs
/// the kernel milliseconds when much is mapped, so it is not done at every call.
inline bool comes_to_hold(const Holdings& before, End& end) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        settle(std::chrono::milliseconds(1), end);
        if (Holdings::now() == before) {
            return true;
        }
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

using comch::test::NoDescriptorLeft;

} // namespace comch::link::soft::test
