// Who wants to know when memory of this process is unmapped: in whatever way, by whatever library.
//
// UCX's memory hooks (libucm) tell of it, where UCX is installed. They are loaded with the first watch
// and stay, and they are not without side effects: of UCX 1.13, mremap() loses the new address of
// MREMAP_FIXED. So nobody gets them who has not asked for them.
#pragma once

#include <atomic>
#include <cstdint>

namespace comch {

/// From its construction to its destruction; any thread.
class UnmapWatch {
public:
    /// Is told of [begin, end), whole pages, before they are unmapped (or emptied: madvise). In the
    /// thread that does so, in the midst of it: must not allocate, free, or wait for who may.
    using OnUnmapped = void (*)(void* self, std::uintptr_t begin, std::uintptr_t end);

    UnmapWatch(OnUnmapped on_unmapped, void* self);
    /// None of its calls is under way afterwards.
    ~UnmapWatch();
    UnmapWatch(const UnmapWatch&) = delete;
    UnmapWatch& operator=(const UnmapWatch&) = delete;

    /// Unmaps memory of its own and sees whether that is told of: another library may have put
    /// hooks of its own in the place of those. False: nobody can tell. One thread at a time;
    /// microseconds.
    [[nodiscard]] bool works() noexcept;
    /// What the hooks call.
    void unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept {
        // Relaxed: the test is in the thread that asks for it.
        if (const std::uintptr_t at = tested_.load(std::memory_order_relaxed);
            at != 0 && begin <= at && at < end) [[unlikely]] {
            told_.fetch_add(1, std::memory_order_relaxed);
        }
        on_unmapped_(self_, begin, end);
    }

private:
    OnUnmapped on_unmapped_;
    void* self_;
    [[maybe_unused]] bool hooked_ = false;
    std::atomic<std::uintptr_t> tested_{0}; ///< a page that works() unmaps
    std::atomic<unsigned> told_{0};         ///< how often that page was told of
};

} // namespace comch
