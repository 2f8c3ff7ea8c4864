// When a thread that polls lets others have its CPU.
#pragma once

#include <cstdint>

namespace comch {

/// Some 30 us of polling in vain, a hundred times as long as to yield where nobody else wants the CPU. (What
/// is polled may be one of many things that a program polls, so not every further round yields.)
inline constexpr std::uint32_t idle_rounds_before_yield = 1024;

/// Of a round that handled so many events; `idle_rounds` are those in a row, before it and now, that handled none.
/// True: yield. Who is waited for may be a process that waits for this CPU, and which would else get it only when the
/// kernel takes it away: with two of them on a CPU a message takes 4 ms then.
[[nodiscard]] inline bool is_time_to_yield(std::uint32_t& idle_rounds, unsigned handled) noexcept {
    if (handled != 0) [[likely]] {
        idle_rounds = 0;
        return false;
    }
    return ++idle_rounds % idle_rounds_before_yield == 0;
}

} // namespace comch
