#include "core/link/link.hpp"

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

} // namespace comch::link
