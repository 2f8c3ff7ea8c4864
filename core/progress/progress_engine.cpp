#include <comch/progress.hpp>

#include <algorithm>
#include <cerrno>
#include <thread>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/base/idle_rounds.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/process_id.hpp"

namespace comch {

Result<std::unique_ptr<ProgressEngine>> ProgressEngine::create() {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) {
        return fail_errno(Errc::no_memory,
                          "cannot create an epoll descriptor for a progress engine", errno);
    }
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) {
        return fail_errno(Errc::no_memory, "cannot create an eventfd for a progress engine", errno);
    }
    std::unique_ptr<ProgressEngine> engine(new ProgressEngine(epoll.release(), wake.release()));
    const Result<void> watched = engine->watch(engine->wake_fd_);
    if (!watched) {
        return tl::unexpected(watched.error());
    }
    return engine;
}

ProgressEngine::ProgressEngine(int epoll_fd, int wake_fd) noexcept
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd), owner_(process_id()) {}

bool ProgressEngine::inherited() const noexcept {
    return owner_ != process_id();
}

ProgressEngine::~ProgressEngine() {
    ::close(wake_fd_);
    ::close(epoll_fd_);
}

unsigned ProgressEngine::progress() {
    if (in_progress_) {
        return 0;
    }
    const unsigned handled = progress_sources();
    if (is_time_to_yield(idle_rounds_, handled)) [[unlikely]] {
        std::this_thread::yield();
    }
    return handled;
}

unsigned ProgressEngine::progress_sources() {
    in_progress_ = true;
    struct Round { // also where a handler throws: the next one begins as ever
        ProgressEngine& engine;
        ~Round() {
            engine.in_progress_ = false;
            if (engine.has_holes_) [[unlikely]] {
                std::erase(engine.sources_, nullptr);
                engine.has_holes_ = false;
            }
        }
    } const round{*this};
    unsigned handled = 0;
    // By index: a handler may add sources (handled in this round too) and remove them.
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        if (ProgressSource* const source = sources_[i]; source != nullptr) [[likely]] {
            handled += source->progress(*source);
        }
    }
    return handled;
}

Errc ProgressEngine::arm() {
    if (in_progress_) {
        return Errc::again;
    }
    // First the bell, then what it stands for: whoever notifies us sets his flag first and rings
    // afterwards, so either we see the flag below, or the bell is heard in the coming sleep.
    std::uint64_t rung = 0;
    (void)!::read(wake_fd_, &rung, sizeof(rung));
    for (ProgressSource* const source : sources_) {
        if (source->arm(*source) != Errc::ok) {
            return Errc::again;
        }
    }
    return Errc::ok;
}

void ProgressEngine::wake() noexcept {
    const int saved = errno;
    const std::uint64_t one = 1;
    // Fails only when the bell has been rung 2^64 times and nobody looked: it is heard anyway.
    (void)!::write(wake_fd_, &one, sizeof(one));
    errno = saved;
}

void ProgressEngine::add(ProgressSource& source) {
    sources_.push_back(&source);
}

void ProgressEngine::remove(ProgressSource& source) noexcept {
    const auto found = std::find(sources_.begin(), sources_.end(), &source);
    if (found == sources_.end()) {
        return;
    }
    if (in_progress_) {
        *found = nullptr;
        has_holes_ = true;
    } else {
        sources_.erase(found);
    }
}

Result<void> ProgressEngine::watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
        return fail_errno(Errc::no_memory,
                          fmt::format("cannot watch descriptor {} for a progress engine", fd),
                          errno);
    }
    return {};
}

void ProgressEngine::unwatch(int fd) noexcept {
    if (inherited()) {
        return; // the kernel's list is the parent's as well
    }
    epoll_event event{};
    (void)::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, &event);
}

} // namespace comch
