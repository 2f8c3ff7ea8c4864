// Checking what a program asks for, and the defaults for what it does not.
#pragma once

#include <cstdint>
#include <string_view>

#include <comch/capabilities.hpp>
#include <comch/channel.hpp>
#include <comch/error.hpp>

namespace comch::channel {

[[nodiscard]] constexpr ConnectionLimits with_defaults(ConnectionLimits wanted) noexcept {
    return {.message_size = wanted.message_size != 0 ? wanted.message_size : limits::message_size,
            .send_queue = wanted.send_queue != 0 ? wanted.send_queue : limits::send_queue_depth,
            .recv_queue = wanted.recv_queue != 0 ? wanted.recv_queue : limits::recv_queue_depth};
}

/// invalid_argument with the value and the limit, if one is exceeded.
[[nodiscard]] Result<void> check_limits(const ConnectionLimits& wanted);

/// A server's name: not empty, no NUL, not too long.
[[nodiscard]] Result<void> check_name(std::string_view name);

} // namespace comch::channel
