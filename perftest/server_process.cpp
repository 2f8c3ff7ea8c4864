#include "perftest/server_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/unique_fd.hpp"

namespace comch::perftest {
namespace {

constexpr double start_timeout = 10; // seconds, or --timeout if that is longer
constexpr int end_timeout_ms = 3'000;

/// In the child: nothing that allocates or locks.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment,
                         pid_t parent) {
    // It has nothing to do without its client.
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
        ::_exit(1);
    }
    ::execve(program, arguments, environment);
    ::execve("/proc/self/exe", arguments, environment); // the file has been replaced, say
    ::_exit(127);
}

} // namespace

Result<std::unique_ptr<ServerProcess>>
ServerProcess::start(const Options& options, const std::string& name, const std::string& function) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return fail_errno(Errc::io, "cannot start the server: no pipe", errno);
    }
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    // The child inherits this one; the parent has no other thread that could start programs.
    (void)::fcntl(writing.get(), F_SETFD, 0);

    std::vector<std::string> words{
        "comch_perftest", "--server", "--name",     name,
        "--representor",  function,   "--ready-fd", std::to_string(writing.get())};
    if (!options.domain.directory.empty()) {
        words.insert(words.end(), {"--domain", options.domain.directory});
    }
    if (!options.domain.description_file.empty()) {
        words.insert(words.end(), {"--domain-file", options.domain.description_file});
    }
    std::vector<char*> arguments;
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    // The client's device and side are not the server's.
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (!text.starts_with("COMCH_SIDE=") && !text.starts_with("COMCH_DEVICE=")) {
            environment.push_back(*entry);
        }
    }
    environment.push_back(nullptr);

    // By its own path, which is what comch_stat shows.
    std::error_code unknown;
    const std::string program = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) {
        return fail_errno(Errc::io, "cannot start the server: fork", errno);
    }
    if (pid == 0) {
        become(program.c_str(), arguments.data(), environment.data(), parent);
    }
    std::unique_ptr<ServerProcess> process(new ServerProcess(pid));
    writing.reset();
    const double timeout = std::max(start_timeout, options.timeout);
    pollfd entry{.fd = reading.get(), .events = POLLIN, .revents = 0};
    int polled = 0;
    do {
        polled = ::poll(&entry, 1, static_cast<int>(timeout * 1000));
    } while (polled < 0 && errno == EINTR);
    char byte = 0;
    if (polled == 1 && ::read(reading.get(), &byte, 1) == 1) {
        return process;
    }
    return fail(Errc::io,
                polled == 0
                    ? fmt::format("the server that was started does not listen after {} s; "
                                  "--timeout allows for more",
                                  timeout)
                    : "the server that was started ended before it listened" + process->death());
}

std::string ServerProcess::death() {
    constexpr int patience_ms = 200;
    if (!ended_within(patience_ms) || !WIFSIGNALED(status_)) {
        return {};
    }
    const int signal = WTERMSIG(status_);
    return fmt::format("; the server that was started died of signal {} ({})", signal,
                       ::strsignal(signal));
}

bool ServerProcess::ended_within(int milliseconds) noexcept {
    if (ended_) {
        return true;
    }
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    if (fd >= 0) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        (void)::poll(&entry, 1, milliseconds);
        ::close(fd);
    }
    ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
}

ServerProcess::~ServerProcess() {
    for (const int signal : {SIGTERM, SIGKILL}) {
        if (ended_within(end_timeout_ms)) {
            return;
        }
        (void)::kill(pid_, signal);
    }
    (void)ended_within(end_timeout_ms);
}

} // namespace comch::perftest
