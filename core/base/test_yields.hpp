// Counts how often a thread of this program yields. To be included once in a program.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/idle_rounds.hpp"

namespace comch::test {

inline thread_local unsigned yields = 0; ///< of this thread

/// How often it does while `round`, which finds nothing to do, is called often enough for two of them.
template <class Round> [[nodiscard]] unsigned yields_in_vain(Round&& round) {
    const unsigned before = yields;
    for (unsigned i = 0; i < 2 * idle_rounds_before_yield; ++i) {
        round();
    }
    return yields - before;
}

} // namespace comch::test

/// In place of the C library's.
extern "C" int sched_yield() noexcept {
    ++comch::test::yields;
    return static_cast<int>(::syscall(SYS_sched_yield));
}
