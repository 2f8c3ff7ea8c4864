// Who wants to know when memory of this process is unmapped: in whatever way, by whatever library.
//
// UCX's memory hooks (libucm) tell of it, where UCX is installed. They are loaded with the first watch
// and stay, and they are not without side effects: of UCX 1.13, mremap() loses the new address of
// MREMAP_FIXED. So nobody gets them who has not asked for them.
#pragma once

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

    /// False: nobody can tell.
    [[nodiscard]] bool works() const noexcept { return works_; }
    /// What the hooks call.
    void unmapped(std::uintptr_t begin, std::uintptr_t end) const {
        on_unmapped_(self_, begin, end);
    }

private:
    OnUnmapped on_unmapped_;
    void* self_;
    bool works_ = false;
};

} // namespace comch
