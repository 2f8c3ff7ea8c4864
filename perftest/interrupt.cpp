#include "perftest/interrupt.hpp"

#include <atomic>
#include <csignal>

namespace comch::perftest::interrupt {
namespace {

std::atomic<bool> requested_{false};
std::atomic<ProgressEngine*> engine_{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<ProgressEngine*>::is_always_lock_free);

void on_signal(int /*signal*/) {
    requested_.store(true, std::memory_order_relaxed);
    if (ProgressEngine* const engine = engine_.load(std::memory_order_acquire)) {
        engine->wake(); // may be called from a signal handler
    }
}

} // namespace

void catch_signals(ProgressEngine& engine) {
    engine_.store(&engine, std::memory_order_release);
    for (const int signal : {SIGINT, SIGTERM}) {
        struct sigaction action = {};
        action.sa_handler = on_signal;
        // SA_RESETHAND: who asks twice does not want to wait.
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        sigemptyset(&action.sa_mask);
        (void)::sigaction(signal, &action, nullptr);
    }
}

void release() noexcept {
    engine_.store(nullptr, std::memory_order_release);
}

bool requested() noexcept {
    return requested_.load(std::memory_order_relaxed);
}

} // namespace comch::perftest::interrupt
