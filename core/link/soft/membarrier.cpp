#include "core/link/soft/membarrier.hpp"

#include <atomic>

#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace comch::link::soft {
namespace {

long membarrier(int command) noexcept {
    return ::syscall(SYS_membarrier, command, 0, 0);
}

/// When comch is loaded: later, with threads in the process, the kernel takes some ten milliseconds
/// to register it, and a program's start would take twice as long.
[[gnu::constructor]] void register_early() noexcept {
    if (__libc_single_threaded) {
        (void)membarrier_register();
    }
}

} // namespace

bool membarrier_register() noexcept {
    static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    return registered;
}

bool membarrier_all() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Without it every connection has fences, so that it does not matter here.
    const bool done = membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0 || !membarrier_register();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return done;
}

} // namespace comch::link::soft
