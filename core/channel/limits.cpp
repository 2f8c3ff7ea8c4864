#include "core/channel/limits.hpp"

#include <fmt/format.h>

namespace comch::channel {
namespace {

Result<void> at_most(std::string_view what, std::uint32_t value, std::uint32_t limit) {
    if (value > limit) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} {} is above the device's maximum, {}", what, value, limit));
    }
    return {};
}

} // namespace

Result<void> check_limits(const ConnectionLimits& wanted) {
    if (auto ok = at_most("message size", wanted.message_size, limits::message_size); !ok) {
        return ok;
    }
    if (auto ok = at_most("send queue depth", wanted.send_queue, limits::send_queue_depth); !ok) {
        return ok;
    }
    return at_most("receive queue depth", wanted.recv_queue, limits::recv_queue_depth);
}

Result<void> check_name(std::string_view name) {
    if (name.empty()) {
        return fail(Errc::invalid_argument, "a server's name must not be empty");
    }
    if (name.find('\0') != std::string_view::npos) {
        return fail(Errc::invalid_argument, "a server's name must not contain NUL bytes");
    }
    if (name.size() + 1 > limits::server_name_size) {
        return fail(Errc::invalid_argument,
                    fmt::format("server name '{}' is {} bytes long; at most {} are allowed", name,
                                name.size(), limits::server_name_size - 1));
    }
    return {};
}

} // namespace comch::channel
