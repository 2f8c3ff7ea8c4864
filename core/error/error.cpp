#include <comch/error.hpp>

#include <cerrno>
#include <system_error>

namespace comch {

std::string_view to_string(Errc code) noexcept {
    switch (code) {
    case Errc::ok:
        return "ok";
    case Errc::again:
        return "again";
    case Errc::in_progress:
        return "in_progress";
    case Errc::invalid_argument:
        return "invalid_argument";
    case Errc::too_big:
        return "too_big";
    case Errc::not_found:
        return "not_found";
    case Errc::in_use:
        return "in_use";
    case Errc::not_permitted:
        return "not_permitted";
    case Errc::bad_state:
        return "bad_state";
    case Errc::not_connected:
        return "not_connected";
    case Errc::connection_reset:
        return "connection_reset";
    case Errc::connection_aborted:
        return "connection_aborted";
    case Errc::rejected:
        return "rejected";
    case Errc::version_mismatch:
        return "version_mismatch";
    case Errc::no_memory:
        return "no_memory";
    case Errc::unsupported:
        return "unsupported";
    case Errc::canceled:
        return "canceled";
    case Errc::io:
        return "io";
    }
    return "unknown"; // a code that came from a peer of another build
}

tl::unexpected<Error> fail_errno(Errc code, std::string what, int error_number) {
    what += ": ";
    what += std::generic_category().message(error_number);
    const bool none_left = error_number == EMFILE || error_number == ENFILE;
    if (none_left) {
        what += " (as many descriptors are open as may be: raise the limit, see 'ulimit -n')";
    }
    if (code == Errc::io && (none_left || error_number == ENOMEM)) {
        code = Errc::no_memory;
    }
    tl::unexpected<Error> failed = fail(code, std::move(what));
    failed.value().out_of_descriptors = none_left;
    return failed;
}

} // namespace comch
