#include "core/link/soft/membarrier.hpp"

#include <atomic>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace comch::link::soft {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

} // namespace

bool membarrier_register() noexcept {
    static const bool registered =
        membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    return registered;
}

void membarrier_all() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    (void)membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

} // namespace comch::link::soft
