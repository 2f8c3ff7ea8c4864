// Other processes for tests: forked before anything is open, spoken to over a socket.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace comch::test {

/// One end of a two-way line between two processes; messages keep their bounds.
class Line {
public:
    explicit Line(int fd) : fd_(fd) {}
    Line(Line&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    ~Line() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }

    static std::pair<Line, Line> make() {
        int ends[2] = {-1, -1};
        if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            throw std::runtime_error("no socket pair");
        }
        return {Line(ends[0]), Line(ends[1])};
    }

    template <class T> void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        if (::send(fd_, &value, sizeof(value), MSG_NOSIGNAL) != sizeof(value)) {
            throw std::runtime_error("the other process does not listen any more");
        }
    }
    [[nodiscard]] bool has_something(int wait_ms = 0) const {
        pollfd entry{fd_, POLLIN, 0};
        return ::poll(&entry, 1, wait_ms) > 0;
    }
    template <class T> T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        if (!has_something(60'000) || ::recv(fd_, &value, sizeof(value), 0) != sizeof(value)) {
            throw std::runtime_error("the other process says nothing");
        }
        return value;
    }
    void put_bytes(const std::vector<char>& bytes) {
        if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(bytes.size())) {
            throw std::runtime_error("the other process does not listen any more");
        }
    }
    std::vector<char> get_bytes() {
        std::vector<char> bytes(65536);
        const ssize_t n = has_something(60'000) ? ::recv(fd_, bytes.data(), bytes.size(), 0) : -1;
        if (n <= 0) {
            throw std::runtime_error("the other process says nothing");
        }
        bytes.resize(static_cast<std::size_t>(n));
        return bytes;
    }

private:
    int fd_;
};

/// A child process that runs `body`; killed, if it still lives, with this object. Its failed
/// expectations count: wait() answers 0 only if there was none.
class Process {
public:
    explicit Process(const std::function<void(Line&)>& body) : Process(Line::make(), body) {}
    ~Process() { kill(); }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    [[nodiscard]] Line& line() { return line_; }
    [[nodiscard]] pid_t pid() const { return pid_; }

    /// The exit code, 0 if all was well; -1 if a signal ended it; -2 if there is no such child.
    int wait() {
        int status = 0;
        if (pid_ <= 0 || ::waitpid(std::exchange(pid_, -1), &status, 0) < 0) {
            return -2;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    void kill() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            (void)wait();
        }
    }

private:
    Process(std::pair<Line, Line> lines, const std::function<void(Line&)>& body)
        : line_(std::move(lines.first)) {
        std::fflush(nullptr);
        pid_ = ::fork();
        if (pid_ != 0) {
            return;
        }
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        int code = 0;
        try {
            { Line parents_end(std::move(line_)); }
            body(lines.second);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "process %d: %s\n", ::getpid(), error.what());
            code = 1;
        }
        if (testing::Test::HasFailure()) {
            code = 1;
        }
        std::fflush(nullptr);
        ::_exit(code);
    }

    Line line_;
    pid_t pid_ = -1;
};

} // namespace comch::test
