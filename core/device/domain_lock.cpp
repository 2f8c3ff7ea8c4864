// The domain's lock: flock() on a file in the directory.
//
// flock() belongs to the open file, which a forked child would share: were the parent killed, the
// child would hold the lock for as long as it lives. So a process-wide mutex is held together
// with the lock, and fork() takes that mutex: no child is ever born with the lock.
#include <comch/device.hpp>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/unique_fd.hpp"
#include "domain_files.hpp"

namespace comch {
namespace {

std::mutex held_in_this_process;

void register_fork_handlers() {
    static std::once_flag once;
    std::call_once(once, [] {
        // Out of memory at start is the only failure; the lock then still works, only the
        // protection against a fork in that very moment is missing.
        (void)pthread_atfork([] { held_in_this_process.lock(); },
                             [] { held_in_this_process.unlock(); },
                             [] { held_in_this_process.unlock(); });
    });
}

} // namespace

DomainLock::DomainLock(DomainLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DomainLock& DomainLock::operator=(DomainLock&& other) noexcept {
    if (this != &other) {
        release();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}

DomainLock::~DomainLock() {
    release();
}

void DomainLock::release() noexcept {
    if (fd_ < 0)
        return;
    flock(fd_, LOCK_UN); // not only close(): a raw clone() may have copied the descriptor
    close(std::exchange(fd_, -1));
    held_in_this_process.unlock();
}

Result<DomainLock> Domain::lock(std::chrono::milliseconds timeout) const {
    register_fork_handlers();
    UniqueFd file(openat(fd_, lock_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) {
        if (errno == ENOENT) // O_CREAT fails so only where the directory itself is gone
            return fail(Errc::not_found,
                        fmt::format("the domain directory '{}' has been removed while this "
                                    "process had it open; start the process again",
                                    path_));
        return fail_errno(Errc::io, fmt::format("cannot open '{}/{}'", path_, lock_file), errno);
    }

    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + timeout;
    // Tried again and again instead of waited for, so that a stopped process cannot hang everybody
    // and fork() waits only while this process has the lock, not while it wants it.
    auto pause = std::chrono::microseconds(50);
    for (;;) {
        if (held_in_this_process.try_lock()) {
            if (flock(file.get(), LOCK_EX | LOCK_NB) == 0)
                return DomainLock(file.release());
            const int error = errno;
            held_in_this_process.unlock();
            if (error != EWOULDBLOCK && error != EINTR)
                return fail_errno(Errc::io, fmt::format("cannot lock '{}/{}'", path_, lock_file),
                                  error);
        }
        if (Clock::now() >= deadline)
            return fail(Errc::in_use,
                        fmt::format("the lock '{}/{}' was not had within {} ms; it is held for "
                                    "microseconds only, so look for a stopped process with "
                                    "'fuser -v {}/{}'",
                                    path_, lock_file, timeout.count(), path_, lock_file));
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(2000));
    }
}

} // namespace comch
