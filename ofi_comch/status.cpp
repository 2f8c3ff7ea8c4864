#include "status.hpp"

#include <cstring>

namespace comch::ofi {

const char* error_text(int provider_errno) noexcept {
    switch (provider_errno < 0 ? -provider_errno : provider_errno) {
    case FI_ECONNRESET:
        return "the peer's process is gone, or broke the protocol";
    case FI_EIO:
        return "the device was removed or has failed, or a call to the system did";
    case FI_EHOSTUNREACH:
        return "nobody listens at that address: is the peer running, in the same comch domain?";
    case FI_ENOTCONN:
        return "the peer closed the connection";
    case FI_ECONNREFUSED:
        return "the peer refused the connection, or nobody listens under that name";
    case FI_EACCES:
        return "the peer's memory is not registered under that key, or not for this access, or the "
               "range is outside of it";
    case FI_EINVAL:
        return "the operation's address is not aligned to its datatype";
    case FI_ETRUNC:
        return "the message was longer than the receive's buffer";
    case FI_ECANCELED:
        return "the operation was canceled";
    case FI_ENOMEM:
        return "memory, or another resource of the system, is used up; with FI_LOG_LEVEL=warn the "
               "log says which";
    case FI_EMFILE:
        return "as many descriptors are open as may be: raise the limit, see 'ulimit -n'";
    case FI_ENOMSG:
        return "no such message has arrived";
    default:
        return fi_strerror(provider_errno < 0 ? -provider_errno : provider_errno);
    }
}

const char* error_text(int provider_errno, char* to, std::size_t length) noexcept {
    const char* const text = error_text(provider_errno);
    if (to != nullptr && length != 0) {
        std::strncpy(to, text, length - 1);
        to[length - 1] = '\0';
    }
    return text;
}

} // namespace comch::ofi
