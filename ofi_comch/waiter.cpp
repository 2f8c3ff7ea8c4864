#include "waiter.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/make_room.hpp"
#include "provider.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// How long a thread that armed, was woken and does not come back is waited for: it may never have
/// gone to sleep, and never call again.
constexpr std::chrono::seconds patience{1};

} // namespace

void Waiter::Bell::ring() const {
    const std::uint64_t one = 1;
    (void)!::write(event.get(), &one, sizeof(one));
}

void Waiter::Bell::quiet() const {
    std::uint64_t value = 0;
    (void)!::read(event.get(), &value, sizeof(value));
}

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
    for (const Bell* const bell : {&own_, &program_}) {
        if (bell->epoll) {
            epoll_event event{};
            event.events = EPOLLIN;
            (void)::epoll_ctl(bell->epoll.get(), EPOLL_CTL_ADD, station->port().event_fd(), &event);
        }
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
    for (const Bell* const bell : {&own_, &program_}) {
        if (bell->epoll) {
            (void)::epoll_ctl(bell->epoll.get(), EPOLL_CTL_DEL, found->station->port().event_fd(),
                              nullptr);
        }
    }
    found->station->remove_sleeper(*this);
    sources_.erase(found);
    return true;
}

bool Waiter::make(Bell& bell) const {
    if (bell.epoll) {
        return true;
    }
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event interest{};
    interest.events = EPOLLIN;
    if (!epoll || !event || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &interest) != 0) {
        return false;
    }
    for (const Source& source : sources_) {
        if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, source.station->port().event_fd(), &interest) !=
            0) {
            return false;
        }
    }
    bell = {std::move(epoll), std::move(event)};
    return true;
}

int Waiter::fd() {
    return make(program_) ? program_.epoll.get() : -1;
}

void Waiter::wake() {
    if (own_.event) {
        own_.ring();
    }
    woken_ = sleepers_ != 0;
    if (polled_) {
        program_.ring();
        polled_ = false;
        told_ = true;
        may_leave_ = true; // not now: the station may be going through its list
        if (!pollers_.empty()) {
            rung_at_ = Clock::now();
            for (Poller& poller : pollers_) {
                poller.woken = true;
            }
        }
    }
}

void Waiter::tidy() {
    for (const Source& source : sources_) {
        source.station->tidy();
    }
}

bool Waiter::arm_stations() {
    tidy(); // it may be a long sleep
    for (const Source& source : sources_) {
        source.station->add_sleeper(*this);
        if (source.station->arm() != Errc::ok) {
            return false;
        }
    }
    return true;
}

bool Waiter::arm() {
    if (woken_ || !make(own_)) {
        return false;
    }
    own_.quiet(); // callers look before they sleep, and who was woken has come back
    ++sleepers_;
    bool armed = false;
    try {
        armed = arm_stations();
    } catch (const std::bad_alloc&) {
        // As if there were something: who cannot sleep looks again.
    }
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

bool Waiter::arm_for_poll(bool for_all) {
    come_back();
    if (!make(program_) || (for_all && may_leave_)) { // others have yet to see it
        return false;
    }
    // Others of the program may still sleep: they are woken by what comes next.
    const bool others = polled_ || std::exchange(told_, false);
    program_.quiet();
    polled_ = true;
    bool armed = false;
    try {
        comch::make_room(pollers_);
        armed = arm_stations();
    } catch (const std::bad_alloc&) {
        // As in arm().
    }
    if (!armed) {
        polled_ = others;
        leave();
        return false;
    }
    if (for_all) {
        pollers_.push_back({std::this_thread::get_id()});
    }
    return true;
}

void Waiter::come_back() {
    may_leave_ = false;
    if (pollers_.empty()) {
        return;
    }
    const std::thread::id self = std::this_thread::get_id();
    const bool late = Clock::now() - rung_at_ > patience;
    std::erase_if(pollers_, [&](const Poller& poller) {
        return poller.thread == self || (poller.woken && late);
    });
    may_leave_ = std::any_of(pollers_.begin(), pollers_.end(),
                             [](const Poller& poller) { return poller.woken; });
}

void Waiter::leave() {
    if (sleepers_ != 0 || polled_) {
        return;
    }
    for (const Source& source : sources_) {
        source.station->remove_sleeper(*this);
    }
}

bool Waiter::sleep(int timeout_ms) {
    pollfd entry{own_.epoll.get(), POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) >= 0 || errno != EINTR;
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
            const Error error =
                fail_errno(Errc::no_memory, "cannot create the descriptors to wait with", errno)
                    .value();
            FI_WARN(&provider, FI_LOG_CORE, "%s\n", error.message.c_str());
            return -to_fi(error);
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
