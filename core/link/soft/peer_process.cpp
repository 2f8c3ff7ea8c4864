#include "core/link/soft/peer_process.hpp"

#include <atomic>
#include <cerrno>
#include <mutex>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace comch::link::soft {
namespace {

/// The end that is kept open, and nothing is written to. Known by more than its number, which the program may
/// have closed and used again.
struct KeptEnd {
    std::mutex lock;
    int fd = -1;
    ino_t inode = 0;

    /// Or -1.
    [[nodiscard]] int get() const noexcept {
        struct stat now {};
        const bool is_it =
            fd >= 0 && ::fstat(fd, &now) == 0 && S_ISFIFO(now.st_mode) && now.st_ino == inode;
        return is_it ? fd : -1;
    }
} kept_end;

/// A child's copy would outlive its parent.
void close_in_child() noexcept {
    if (const int fd = kept_end.get(); fd >= 0) {
        ::close(fd);
    }
    kept_end.fd = -1;
}
/// When the library is loaded, as nobody can hold the lock then. (If it fails, a child that lives longer makes
/// its parent seem alive.)
[[gnu::constructor]] void close_in_children() {
    (void)::pthread_atfork([] { kept_end.lock.lock(); }, [] { kept_end.lock.unlock(); },
                           [] {
                               close_in_child();
                               kept_end.lock.unlock();
                           });
}

UniqueFd pipe_of_ours() noexcept {
    const std::lock_guard held(kept_end.lock);
    int kept = kept_end.get();
    if (kept < 0) {
        int ends[2];
        struct stat made {};
        if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
            return {};
        }
        ::close(ends[0]); // each peer gets a file of its own
        kept = ends[1];
        (void)::fstat(kept, &made);
        kept_end.inode = made.st_ino;
        kept_end.fd = kept;
    }
    char path[32];
    *fmt::format_to_n(path, sizeof(path) - 1, "/proc/self/fd/{}", kept).out = '\0';
    return UniqueFd(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

} // namespace

UniqueFd process_of_ours() noexcept {
    // Asked once: valgrind prints five lines each time.
    static std::atomic<bool> there_are_none{false};
    if (!there_are_none.load(std::memory_order_relaxed)) {
        UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
        if (pidfd || (errno != ENOSYS && errno != EPERM)) { // (some forbid what they do not know)
            return pidfd;
        }
        there_are_none.store(true, std::memory_order_relaxed);
    }
    return pipe_of_ours();
}

bool tells_of_death(int fd) noexcept {
    // Signal 0 is a question only. Whatever else it answers, EBADF says that this is no pidfd.
    return ::fcntl(fd, F_GETPIPE_SZ) > 0 ||
           ::syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0) == 0 || errno != EBADF;
}

} // namespace comch::link::soft
