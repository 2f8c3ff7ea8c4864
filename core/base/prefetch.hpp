// Asking for a cache line that will be read or written soon.
#pragma once

namespace comch {

/// Fetches the line at `address`. Never faults, and may do nothing.
inline void prefetch_for_read(const void* address) noexcept {
    __builtin_prefetch(address);
}

/// Takes the line at `address` from whoever has it. Never faults, and may do nothing.
inline void prefetch_for_write(const void* address) noexcept {
#if defined(__x86_64__)
    // Compilers make a prefetch for reading of the builtin unless told that the CPU has this one. All
    // 64-bit CPUs take it, the oldest as no operation.
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

} // namespace comch
