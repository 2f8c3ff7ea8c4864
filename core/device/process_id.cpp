#include "process_id.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>

#include <pthread.h>
#include <sys/random.h>

namespace comch {
namespace {

std::atomic<ProcessId> current{0};

ProcessId draw() noexcept {
    ProcessId id = 0;
    while (id == 0) {
        // Up to 256 bytes come whole or, before the kernel's pool is ready, after a wait that a
        // signal can end. A kernel without getrandom() is older than everything else needed here.
        if (getrandom(&id, sizeof id, 0) != static_cast<ssize_t>(sizeof id))
            id = 0;
    }
    return id;
}

void forget_in_child() noexcept {
    current.store(0, std::memory_order_relaxed);
}

} // namespace

ProcessId process_id() noexcept {
    // Relaxed: the id is the whole message, nothing else is published with it.
    ProcessId id = current.load(std::memory_order_relaxed);
    if (id != 0)
        return id;

    static std::once_flag at_fork;
    std::call_once(at_fork, [] {
        // Failing here is out of memory at start; two processes with one id would be worse.
        if (pthread_atfork(nullptr, nullptr, forget_in_child) != 0)
            std::abort();
    });
    const ProcessId drawn = draw();
    if (current.compare_exchange_strong(id, drawn, std::memory_order_relaxed))
        return drawn;
    return id; // another thread was first
}

} // namespace comch
