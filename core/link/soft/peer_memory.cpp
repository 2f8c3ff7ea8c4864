#include "core/link/soft/peer_memory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/clock.hpp"

namespace comch::link::soft {
namespace {

/// Below what the kernel copies in one call.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

/// The kernel gives a number again after all the others, tens of thousands at least, and each takes a
/// thread's begin and end.
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

std::uint64_t PeerMemory::best_number() const noexcept {
    const std::uint32_t thread =
        thread_ == nullptr ? 0 : thread_->load(std::memory_order_relaxed); // a hint, checked here
    if (thread == 0) {
        return pid_;
    }
    char path[64];
    *fmt::format_to_n(path, sizeof(path) - 1, "/proc/{}/task/{}", pid_, thread).out = '\0';
    return ::access(path, F_OK) == 0 ? thread : pid_;
}

bool PeerMemory::has_its_numbers() noexcept {
    return monotonic_ns() - seen_alive_ns_ < number_is_kept_ns || lives();
}

bool PeerMemory::lives() noexcept {
    pollfd death{process_, POLLIN, 0};
    if (::poll(&death, 1, 0) > 0) { // a signal says nothing
        state_ = State::closed;
        return false;
    }
    number_ = best_number();
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
    return copy(false, to, from, length) && has_its_numbers();
}

bool PeerMemory::write(std::uint64_t to, const std::byte* from, std::size_t length,
                       std::uint64_t not_after_ns) noexcept {
    return has_its_numbers() && monotonic_ns() <= not_after_ns &&
           copy(true, const_cast<std::byte*>(from), to, length);
}

} // namespace comch::link::soft
