// Two threads on two CPUs, started together: what every measurement here is made of.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "perftest/pinning.hpp"

namespace comch::limits {

struct Cpus {
    int first = -1; ///< -1: wherever the system puts it
    int second = -1;
};

using perftest::pin_or_throw;

inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// Spinning that leaves the other hyper-thread alone.
inline void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

/// Runs `second` beside `first`, each on its CPU; an exception of either comes out here.
template <class First, class Second> void run_two(const Cpus& cpus, First first, Second second) {
    pin_or_throw(cpus.first); // before there is a thread that would have to be ended
    std::atomic<int> there{0};
    std::exception_ptr failed;
    std::thread other([&] {
        try {
            pin_or_throw(cpus.second);
            there.fetch_add(1);
            second();
        } catch (...) {
            failed = std::current_exception();
            there.fetch_add(2);
        }
    });
    while (there.load() == 0) {
        std::this_thread::yield();
    }
    if (there.load() == 1) {
        first();
    }
    other.join();
    if (failed) {
        std::rethrow_exception(failed);
    }
}

} // namespace comch::limits
