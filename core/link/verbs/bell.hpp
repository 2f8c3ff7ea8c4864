// An eventfd that wakes whoever sleeps on it, from any thread.
#pragma once

#include <cstdint>

#include <unistd.h>

namespace comch::link::verbs {

inline void ring(int fd) noexcept {
    constexpr std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof(one));
}

/// It has been heard; also for a timerfd.
inline void drain(int fd) noexcept {
    std::uint64_t count = 0;
    (void)!::read(fd, &count, sizeof(count));
}

} // namespace comch::link::verbs
