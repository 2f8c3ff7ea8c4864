#include "core/link/link.hpp"

#include <fmt/format.h>

namespace comch::link {

std::string_view to_string(Reason reason) noexcept {
    switch (reason) {
    case Reason::closed:
        return "closed by the peer";
    case Reason::peer_died:
        return "the peer's process ended without closing the connection";
    case Reason::protocol_error:
        return "the peer broke the protocol";
    case Reason::rejected:
        return "refused by the peer";
    case Reason::not_found:
        return "nobody listens there";
    case Reason::version_mismatch:
        return "the peer speaks another version of the protocol";
    case Reason::device_error:
        return "the local device failed";
    }
    return "unknown";
}

Errc status_after(Reason reason) noexcept {
    return reason == Reason::closed     ? Errc::not_connected
           : reason == Reason::rejected ? Errc::rejected
                                        : Errc::connection_reset;
}

Result<void> check_service_name(std::string_view name) {
    if (name.empty() || name.size() > max_service_name) {
        return fail(Errc::invalid_argument,
                    fmt::format("a service name has 1 to {} bytes, '{}' has {}", max_service_name,
                                name, name.size()));
    }
    return {};
}

Result<void> check_private_data(std::size_t size) {
    if (size > max_private_data) {
        return fail(Errc::too_big, fmt::format("private data of a connection has at most {} bytes, "
                                               "not {}",
                                               max_private_data, size));
    }
    return {};
}

} // namespace comch::link
