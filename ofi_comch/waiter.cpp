#include "waiter.hpp"

#include <algorithm>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace comch::ofi::inline COMCH_OFI_LINK {

Waiter::~Waiter() {
    for (const Source& source : sources_) {
        source.station->remove_sleeper(*this);
    }
}

void Waiter::add(const std::shared_ptr<Station>& station) {
    for (Source& source : sources_) {
        if (source.station == station) {
            ++source.uses;
            return;
        }
    }
    sources_.push_back({station, 1});
    if (epoll_) {
        epoll_event event{};
        event.events = EPOLLIN;
        (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, station->port().event_fd(), &event);
    }
    wake();
}

bool Waiter::remove(const Station& station) {
    const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) {
        return source.station.get() == &station;
    });
    if (found == sources_.end() || --found->uses != 0) {
        return false;
    }
    if (epoll_) {
        (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->station->port().event_fd(), nullptr);
    }
    found->station->remove_sleeper(*this);
    sources_.erase(found);
    return true;
}

int Waiter::fd() {
    if (epoll_) {
        return epoll_.get();
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (!epoll || !event || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &interest) != 0) {
        return -1;
    }
    for (const Source& source : sources_) {
        if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, source.station->port().event_fd(), &interest) !=
            0) {
            return -1;
        }
    }
    epoll_ = std::move(epoll);
    event_ = std::move(event);
    return epoll_.get();
}

void Waiter::wake() {
    if (event_) {
        const std::uint64_t one = 1;
        (void)!::write(event_.get(), &one, sizeof(one));
    }
    woken_ = sleepers_ != 0;
    if (polled_) {
        polled_ = false;
        told_ = true;
        may_leave_ = true; // not now: the station may be going through its list
    }
}

bool Waiter::arm_stations() {
    if (fd() < 0) {
        return false;
    }
    // Nobody needs it any more: callers look before they sleep, and who was woken has come back. A
    // program's own sleeper may not have: it is woken by what comes next.
    std::uint64_t value = 0;
    (void)!::read(event_.get(), &value, sizeof(value));
    if (std::exchange(told_, false)) {
        polled_ = true;
    }
    for (const Source& source : sources_) {
        source.station->add_sleeper(*this);
        if (source.station->arm() != Errc::ok) {
            return false;
        }
    }
    return true;
}

bool Waiter::arm() {
    if (woken_) {
        return false;
    }
    ++sleepers_;
    const bool armed = arm_stations();
    if (!armed) {
        disarm();
    }
    return armed;
}

void Waiter::disarm() {
    if (--sleepers_ == 0) {
        woken_ = false;
    }
    leave();
}

bool Waiter::arm_for_poll() {
    if (woken_) {
        return false;
    }
    const bool others = polled_ || told_;
    polled_ = true;
    const bool armed = arm_stations();
    if (!armed && !told_) {
        polled_ = others;
        leave();
    }
    return armed;
}

void Waiter::leave() {
    if (sleepers_ != 0 || polled_) {
        return;
    }
    for (const Source& source : sources_) {
        source.station->remove_sleeper(*this);
    }
}

void Waiter::sleep(int timeout_ms) {
    pollfd entry{epoll_.get(), POLLIN, 0};
    (void)::poll(&entry, 1, timeout_ms);
}

int control_wait(Waiter& waiter, fi_wait_obj kind, int command, void* argument) {
    if (argument == nullptr) {
        return -FI_EINVAL;
    }
    switch (command) {
    case FI_GETWAIT: {
        if (kind != FI_WAIT_FD && kind != FI_WAIT_UNSPEC) {
            return -FI_ENODATA;
        }
        const Guard guard(waiter.lock());
        const int fd = waiter.fd();
        if (fd < 0) {
            return -FI_ENOMEM;
        }
        *static_cast<int*>(argument) = fd;
        return 0;
    }
    case FI_GETWAITOBJ:
        *static_cast<fi_wait_obj*>(argument) = kind == FI_WAIT_UNSPEC ? FI_WAIT_FD : kind;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

int check_wait_object(fi_wait_obj kind) {
    switch (kind) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_YIELD:
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
