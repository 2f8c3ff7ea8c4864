// Errors of the core. The faces map these codes onto their own with one table each.
//
// Two forms, for two kinds of call:
//   Errc            what a data-path call returns: one byte, no allocation;
//   Result<T>       what a control-path call returns: the value, or an Error whose text names the
//                   object, the offending value and the way out.
// tl::expected is used because C++20 has no std::expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace comch {

enum class Errc : std::int8_t {
    ok = 0,
    again,              ///< no room or nothing there now; call again after progress
    in_progress,        ///< started; the outcome is reported later
    invalid_argument,   ///< a value is out of its range, a name is malformed
    too_big,            ///< longer than the limit that a capability states
    not_found,          ///< no such device, representor, server, consumer, file
    in_use,             ///< the name is taken, or something still depends on the object
    not_permitted,      ///< wrong side, wrong owner, missing access right
    bad_state,          ///< the object's state does not allow the call
    not_connected,      ///< there is no connection (any more)
    connection_reset,   ///< the peer died or broke the protocol, or the local device failed
    connection_aborted, ///< the connection was given up on this side
    rejected,           ///< the peer answered, and refused
    version_mismatch,   ///< the peer speaks another version of the protocol
    no_memory,          ///< memory or another limited resource of the system is used up
    unsupported,        ///< this device, kernel or build cannot do it
    canceled,           ///< ended by a stop, a flush or a disconnect before it was done
    io,                 ///< a system call failed in a way that has no better name
};

/// A stable, short English name ("not_found"); never null.
[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// What went wrong on a control path. `message` is one sentence for a person: what failed, on
/// which object, with which value, and what to do.
struct Error {
    Errc code = Errc::io;
    std::string message;
    /// What is used up is descriptors, of the process or of the system.
    bool out_of_descriptors = false;
};

template <class T> using Result = tl::expected<T, Error>;

/// `return fail(Errc::not_found, fmt::format(...));` from any function that returns a Result.
[[nodiscard]] inline tl::unexpected<Error> fail(Errc code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

/// As fail(), with errno's text appended: "cannot open domain directory '/x': Permission denied".
/// Where errno says that something is used up, io becomes no_memory.
[[nodiscard]] tl::unexpected<Error> fail_errno(Errc code, std::string what, int error_number);

} // namespace comch
