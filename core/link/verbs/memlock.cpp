#include "core/link/verbs/memlock.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

namespace comch::link::verbs {

tl::unexpected<Error> fail_pinning(std::string what, int error_number) {
    rlimit limit{};
    if ((error_number == ENOMEM || error_number == EAGAIN || error_number == EPERM) &&
        ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return fail(Errc::no_memory,
                    fmt::format("{}: the limit of locked memory is {} KiB; raise it with 'ulimit "
                                "-l unlimited', memlock in /etc/security/limits.conf, or "
                                "LimitMEMLOCK=infinity of a service",
                                what, limit.rlim_cur / 1024));
    }
    return fail_errno(Errc::no_memory, std::move(what), error_number);
}

} // namespace comch::link::verbs
