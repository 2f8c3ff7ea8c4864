// What an RDMA device can do, for people: opened, asked, closed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace comch::link::verbs {

struct DeviceLimits {
    std::uint32_t queue_depth = 0;  ///< work requests of a queue pair
    std::uint32_t pieces = 0;       ///< of memory in a work request
    std::uint32_t shared_depth = 0; ///< of a shared receive queue
    std::uint32_t completions = 0;  ///< of a completion queue
    std::uint32_t max_message = 0;  ///< bytes in one message or RDMA operation
    std::uint32_t reads = 0;        ///< RDMA reads under way on one queue pair
    bool atomics = false;
    std::string unusable; ///< why comch cannot use the port; empty: it can
};

/// Those of a device by one of its ports. Nothing if there is none, or this user may not open it.
[[nodiscard]] std::optional<DeviceLimits> query_limits(const std::string& name, std::uint32_t port);

} // namespace comch::link::verbs
