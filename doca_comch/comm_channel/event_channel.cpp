#include "doca_comch/comm_channel/event_channel.hpp"

#include <cerrno>
#include <cstdint>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace comch::doca {
namespace {

bool add(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

} // namespace

Result<EventChannel> EventChannel::create(int engine_fd) {
    EventChannel channel;
    channel.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    channel.bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    channel.engine_fd_ = engine_fd;
    // The engine's descriptor is tried once: later there is nobody to tell that it does not work.
    if (!channel.epoll_ || !channel.bell_ || !add(channel.epoll_.get(), channel.bell_.get()) ||
        !add(channel.epoll_.get(), engine_fd)) {
        return fail_errno(Errc::no_memory, "cannot create an event channel", errno);
    }
    channel.follow_engine(false);
    return channel;
}

void EventChannel::follow_engine(bool on) {
    if (on) {
        (void)add(epoll_.get(), engine_fd_);
    } else {
        (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, engine_fd_, nullptr);
    }
}

void EventChannel::arm() {
    std::uint64_t rung = 0;
    (void)!::read(bell_.get(), &rung, sizeof(rung));
    if (!armed_) {
        armed_ = true;
        follow_engine(true);
    }
}

void EventChannel::ring() {
    if (armed_) {
        armed_ = false;
        follow_engine(false);
        const std::uint64_t one = 1;
        (void)!::write(bell_.get(), &one, sizeof(one));
    }
}

} // namespace comch::doca
