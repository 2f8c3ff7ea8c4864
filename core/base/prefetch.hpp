// Asking for a cache line that will be read or written soon.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// What `each` does to one line, for all lines of `length` bytes.
template <class Each>
void for_each_line(const void* address, std::size_t length, Each&& each) noexcept {
    constexpr std::size_t line = 64;
    const auto* const begin = static_cast<const char*>(address);
    const auto* at = begin - reinterpret_cast<std::uintptr_t>(begin) % line;
    for (const char* const end = begin + length; at < end; at += line) {
        each(at);
    }
}
inline void prefetch_for_read(const void* address, std::size_t length) noexcept {
    for_each_line(address, length, [](const void* line) { prefetch_for_read(line); });
}
inline void prefetch_for_write(const void* address, std::size_t length) noexcept {
    for_each_line(address, length, [](const void* line) { prefetch_for_write(line); });
}

} // namespace comch
