#include "core/link/soft/peer_process.hpp"

#include <cerrno>

#include <sys/syscall.h>
#include <unistd.h>

namespace comch::link::soft {

UniqueFd process_of_ours() noexcept {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

bool is_process(int fd) noexcept {
    // Signal 0 is a question only. Whatever else it answers, EBADF says that this is no pidfd.
    return ::syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
}

} // namespace comch::link::soft
