// The one table from the core's errors to UCX's.
#pragma once

#include <comch/error.hpp>

#include "ucx_compat.hpp"

namespace comch::uct {

/// The peer has died or gone. (UCX has statuses that say so in clearer words, but what UCP is asked
/// of an endpoint that has failed it answers with this one, and programs compare that with what
/// their error handler was told.)
inline constexpr ucs_status_t peer_gone = UCS_ERR_ENDPOINT_TIMEOUT;

[[nodiscard]] constexpr ucs_status_t to_ucs(Errc code) noexcept {
    switch (code) {
    case Errc::ok:
        return UCS_OK;
    case Errc::again:
        return UCS_ERR_NO_RESOURCE;
    case Errc::in_progress:
        return UCS_INPROGRESS;
    case Errc::invalid_argument:
        return UCS_ERR_INVALID_PARAM;
    case Errc::too_big:
        return UCS_ERR_EXCEEDS_LIMIT;
    case Errc::not_found:
        return UCS_ERR_UNREACHABLE;
    case Errc::in_use:
        return UCS_ERR_BUSY;
    case Errc::not_permitted:
    case Errc::rejected:
        return UCS_ERR_REJECTED;
    case Errc::bad_state:
        return UCS_ERR_INVALID_PARAM;
    case Errc::not_connected:
    case Errc::connection_reset:
    case Errc::connection_aborted:
        return peer_gone;
    case Errc::version_mismatch:
        return UCS_ERR_UNREACHABLE;
    case Errc::no_memory:
        return UCS_ERR_NO_MEMORY;
    case Errc::unsupported:
        return UCS_ERR_UNSUPPORTED;
    case Errc::canceled:
        return UCS_ERR_CANCELED;
    case Errc::io:
        return UCS_ERR_IO_ERROR;
    }
    return UCS_ERR_IO_ERROR;
}

} // namespace comch::uct
