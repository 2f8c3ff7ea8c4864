// The one table from the core's errors to libfabric's. Values are positive; calls answer -value.
#pragma once

#include <comch/error.hpp>

#include "core/link/link.hpp"
#include "libfabric.hpp"

namespace comch::ofi {

[[nodiscard]] constexpr int to_fi(Errc code) noexcept {
    switch (code) {
    case Errc::ok:
        return FI_SUCCESS;
    case Errc::again:
    case Errc::in_progress:
        return FI_EAGAIN;
    case Errc::invalid_argument:
        return FI_EINVAL;
    case Errc::too_big:
        return FI_EMSGSIZE;
    case Errc::not_found:
        return FI_EHOSTUNREACH;
    case Errc::in_use:
        return FI_EADDRINUSE;
    case Errc::not_permitted:
        return FI_EACCES;
    case Errc::rejected:
        return FI_ECONNREFUSED;
    case Errc::bad_state:
        return FI_EOPBADSTATE;
    case Errc::not_connected:
        return FI_ENOTCONN;
    case Errc::connection_reset:
        return FI_ECONNRESET;
    case Errc::connection_aborted:
        return FI_ECONNABORTED;
    case Errc::version_mismatch:
        return FI_EHOSTUNREACH;
    case Errc::no_memory:
        return FI_ENOMEM;
    case Errc::unsupported:
        return FI_EOPNOTSUPP;
    case Errc::canceled:
        return FI_ECANCELED;
    case Errc::io:
        return FI_EIO;
    }
    return FI_EIO;
}

/// Of calls that tell what went wrong: which limit it is that was reached.
[[nodiscard]] inline int to_fi(const Error& error) noexcept {
    return error.out_of_descriptors ? FI_EMFILE : to_fi(error.code);
}

/// What everything that was outstanding towards a peer ends with.
[[nodiscard]] constexpr Errc to_errc(link::Reason reason) noexcept {
    switch (reason) {
    case link::Reason::closed:
        return Errc::not_connected;
    case link::Reason::peer_died:
    case link::Reason::protocol_error:
        return Errc::connection_reset;
    case link::Reason::rejected:
        return Errc::rejected;
    case link::Reason::not_found:
        return Errc::not_found;
    case link::Reason::version_mismatch:
        return Errc::version_mismatch;
    case link::Reason::device_error:
        return Errc::io;
    }
    return Errc::io;
}

/// For fi_cq_strerror and fi_eq_strerror: what an error means here, and what to do about it. The
/// provider's error numbers are libfabric's.
[[nodiscard]] const char* error_text(int provider_errno) noexcept;
/// The same, copied to the caller's `length` bytes as well, if there are any.
const char* error_text(int provider_errno, char* to, std::size_t length) noexcept;

} // namespace comch::ofi
