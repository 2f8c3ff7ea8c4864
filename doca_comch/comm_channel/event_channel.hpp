// A descriptor that becomes readable once after each arming.
//
// While it is armed, it is readable whenever the endpoint's engine has something to do, since that
// may be the event; once the event is known to have happened it stays readable until it is armed
// again.
#pragma once

#include <comch/error.hpp>

#include "core/base/unique_fd.hpp"

namespace comch::doca {

class EventChannel {
public:
    [[nodiscard]] static Result<EventChannel> create(int engine_fd);

    EventChannel() = default; ///< not open
    explicit operator bool() const noexcept { return static_cast<bool>(epoll_); }

    [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
    [[nodiscard]] bool armed() const noexcept { return armed_; }

    void arm();
    /// The event has happened: readable, and not armed any more. Nothing if it is not armed.
    void ring();

private:
    void follow_engine(bool on);

    UniqueFd epoll_;
    UniqueFd bell_;
    int engine_fd_ = -1;
    bool armed_ = false;
};

} // namespace comch::doca
