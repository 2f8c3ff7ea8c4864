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

    /// Waits for its end; ends it, if it does not end by itself soon.
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

private:
    explicit ServerProcess(pid_t pid) noexcept : pid_(pid) {}
    [[nodiscard]] bool ended_within(int milliseconds) noexcept;

    pid_t pid_;
};

} // namespace comch::perftest
