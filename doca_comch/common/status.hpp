// The core's error codes as the API's, in one table, and their sentences in the log; exceptions as
// codes.
#pragma once

#include <new>
#include <string_view>
#include <system_error>

#include <comch/error.hpp>
#include <doca_error.h>

namespace comch::doca {

[[nodiscard]] constexpr doca_error_t to_doca(Errc code) noexcept {
    switch (code) {
    case Errc::ok:
        return DOCA_SUCCESS;
    case Errc::again:
        return DOCA_ERROR_AGAIN;
    case Errc::in_progress:
        return DOCA_ERROR_IN_PROGRESS;
    case Errc::invalid_argument:
        return DOCA_ERROR_INVALID_VALUE;
    case Errc::too_big:
        return DOCA_ERROR_TOO_BIG;
    case Errc::not_found:
        return DOCA_ERROR_NOT_FOUND;
    case Errc::in_use:
        return DOCA_ERROR_IN_USE;
    case Errc::not_permitted:
        return DOCA_ERROR_NOT_PERMITTED;
    case Errc::bad_state:
        return DOCA_ERROR_BAD_STATE;
    case Errc::not_connected:
        return DOCA_ERROR_NOT_CONNECTED;
    case Errc::connection_reset:
        return DOCA_ERROR_CONNECTION_RESET;
    case Errc::connection_aborted:
        return DOCA_ERROR_CONNECTION_ABORTED;
    case Errc::rejected:
        return DOCA_ERROR_CONNECTION_ABORTED;
    case Errc::version_mismatch:
        return DOCA_ERROR_UNSUPPORTED_VERSION;
    case Errc::no_memory:
        return DOCA_ERROR_NO_MEMORY;
    case Errc::unsupported:
        return DOCA_ERROR_NOT_SUPPORTED;
    case Errc::canceled:
        return DOCA_ERROR_SHUTDOWN; // a flushed task, or its consumer is gone
    case Errc::io:
        return DOCA_ERROR_OPERATING_SYSTEM;
    }
    return DOCA_ERROR_UNKNOWN;
}

/// Says what went wrong to the SDK's log and returns the code.
doca_error_t refuse(doca_error_t code, std::string_view sentence);

/// The same for what the core said.
doca_error_t refuse(const Error& error);

/// A thread that cannot be started, say.
doca_error_t refuse(const std::system_error& error);

/// Calls what may allocate or start a thread, for programs in C: where that fails they get a code.
/// As long as it does not, this costs nothing, so it is used on the data path, too. Exceptions of
/// other kinds are none of ours: callbacks in C++ may throw, and a thread that is cancelled unwinds.
template <class F> [[nodiscard]] doca_error_t guarded(F&& f) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return DOCA_ERROR_NO_MEMORY;
    } catch (const std::system_error& error) {
        return refuse(error);
    }
}

/// The same for a call that answers with something else: `otherwise` where it fails.
template <class T, class F> [[nodiscard]] T guarded_or(T otherwise, F&& f) {
    T result = otherwise;
    (void)guarded([&] {
        result = f();
        return DOCA_SUCCESS;
    });
    return result;
}

} // namespace comch::doca
