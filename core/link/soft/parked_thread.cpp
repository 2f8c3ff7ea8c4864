#include "core/link/soft/parked_thread.hpp"

#include <atomic>
#include <exception>
#include <memory>

#include <unistd.h>

#include "core/base/quiet_thread.hpp"
#include "core/device/per_process.hpp"

namespace comch::link::soft {
namespace {

/// Starts one, and waits until it has a number.
std::uint32_t park_a_thread() {
    // Shared: it may still be waking us when we have gone on.
    const auto number = std::make_shared<std::atomic<std::uint32_t>>(0);
    quiet_thread("comch-parked", [number = number]() mutable {
        number->store(static_cast<std::uint32_t>(::gettid()), std::memory_order_relaxed);
        number->notify_one();
        number.reset();
        while (true) {
            (void)::pause();
        }
    }).detach();
    number->wait(0, std::memory_order_relaxed);
    return number->load(std::memory_order_relaxed);
}

struct ParkedThread {
    std::uint32_t number = 0;

    ParkedThread() noexcept {
        try {
            number = park_a_thread();
        } catch (const std::exception&) { // no memory, or no more threads: there is none
        }
    }
};

} // namespace

std::uint32_t parked_thread() noexcept try {
#ifdef COMCH_SANITIZE_THREAD
    // In a child that was forked beside another thread it hands no signals out.
    return 0;
#endif
    static constinit PerProcess<ParkedThread> thread;
    return thread.get().number;
} catch (const std::exception&) { // no memory
    return 0;
}

} // namespace comch::link::soft
