// A moment of waiting for another CPU, some tens of nanoseconds long.
#pragma once

namespace comch {

inline void cpu_pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory"); // "yield" takes no time on most of them
#endif
}

} // namespace comch
