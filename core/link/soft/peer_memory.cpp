#include "core/link/soft/peer_memory.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <poll.h>
#include <sys/uio.h>

#include "core/base/clock.hpp"

namespace comch::link::soft {
namespace {

/// Below what the kernel copies in one call.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

/// A number that was a process's, or a thread's, so short a time ago is hardly another's already. (The
/// kernel gives the others first, unless its turn has just come round to that one.)
constexpr std::uint64_t number_is_kept_ns = 5'000'000;

struct CloseFile {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
};

} // namespace

bool PeerMemory::same_process() const noexcept {
    const std::unique_ptr<std::FILE, CloseFile> file(
        std::fopen(fmt::format("/proc/thread-self/fdinfo/{}", process_).c_str(), "re"));
    char line[128];
    while (file && std::fgets(line, sizeof(line), file.get()) != nullptr) {
        if (std::strncmp(line, "Pid:", 4) == 0) {
            return std::strtoull(line + 4, nullptr, 10) == pid_;
        }
    }
    return false;
}

bool PeerMemory::has_thread(std::uint64_t thread) const noexcept {
    // Signal 0 is a question only. Quicker than to ask for the process, whose other threads are at
    // work: it reads what the kernel knows of the one that sleeps.
    return ::tgkill(static_cast<pid_t>(pid_), static_cast<pid_t>(thread), 0) == 0;
}

void PeerMemory::renew_number() noexcept {
    const std::uint64_t now = monotonic_ns();
    if (now - number_since_ns_ >= number_is_kept_ns) {
        const std::uint32_t thread =
            thread_ == nullptr ? 0 : thread_->load(std::memory_order_relaxed); // a hint
        number_ = thread != 0 && has_thread(thread) ? thread : pid_;
        number_since_ns_ = now;
    }
}

bool PeerMemory::is_there() noexcept {
    if (number_ != pid_ && has_thread(number_)) {
        return true;
    }
    number_ = pid_;
    return lives();
}

bool PeerMemory::lives() noexcept {
    pollfd death{process_, POLLIN, 0};
    if (::poll(&death, 1, 0) > 0) { // a signal says nothing
        state_ = State::closed;
        return false;
    }
    seen_alive_ns_ = monotonic_ns();
    return true;
}

bool PeerMemory::copy(bool write, std::byte* local, std::uint64_t remote,
                      std::size_t length) noexcept {
    if (state_ == State::unknown) {
        state_ = same_process() ? State::open : State::closed;
    }
    while (state_ == State::open && length != 0) {
        const iovec here{local, length < most_at_once ? length : most_at_once};
        const iovec there{reinterpret_cast<void*>(remote), here.iov_len};
        const auto number = static_cast<pid_t>(number_);
        const ssize_t n = write ? ::process_vm_writev(number, &here, 1, &there, 1, 0)
                                : ::process_vm_readv(number, &here, 1, &there, 1, 0);
        if (n <= 0 && errno != EFAULT && number_ != pid_) {
            // Of that thread alone, whose rights may be others, or which may have ended.
            thread_ = nullptr;
            number_ = pid_;
            if (!lives()) {
                return false;
            }
            continue;
        }
        if (n <= 0) {
            if (n == 0 || errno != EFAULT) { // EFAULT is about this memory, all else about the peer
                state_ = State::closed;
            }
            return false;
        }
        local += n;
        remote += static_cast<std::uint64_t>(n);
        length -= static_cast<std::size_t>(n);
    }
    return state_ == State::open;
}

bool PeerMemory::read(std::byte* to, std::uint64_t from, std::size_t length) noexcept {
    renew_number();
    // Lives, or has died so lately that its number cannot be somebody else's.
    return copy(false, to, from, length) &&
           (monotonic_ns() - seen_alive_ns_ < number_is_kept_ns || lives());
}

bool PeerMemory::write(std::uint64_t to, const std::byte* from, std::size_t length,
                       std::uint64_t not_after_ns) noexcept {
    renew_number();
    return is_there() && monotonic_ns() <= not_after_ns &&
           copy(true, const_cast<std::byte*>(from), to, length);
}

} // namespace comch::link::soft
