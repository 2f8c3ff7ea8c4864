// A server that the client started itself, for --both-sides.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

#include "perftest/options.hpp"

namespace comch::perftest {

class ServerProcess {
public:
    /// Returns when it listens, as `name`, for the clients of `function`.
    [[nodiscard]] static Result<std::unique_ptr<ServerProcess>>
    start(const Options& options, const std::string& name, const std::string& function);

    /// "; the server that was started died of signal 9 (Killed)", if it did; else nothing. A death
    /// that another has just seen may still be on its way here.
    [[nodiscard]] std::string death();

    /// Waits for its end; ends it, if it does not end by itself soon.
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

private:
    explicit ServerProcess(pid_t pid) noexcept : pid_(pid) {}
    [[nodiscard]] bool ended_within(int milliseconds) noexcept;

    pid_t pid_;
    int status_ = 0; ///< as waitpid() tells it, once it has ended
    bool ended_ = false;
};

} // namespace comch::perftest
