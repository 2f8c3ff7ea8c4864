// Who wants to know when memory of this process is unmapped: in whatever way, by whatever library.
//
// There are two who can tell.
//
// The kernel (userfaultfd, of which only the reports are used: memory is registered for write
// protection and never protected, so no access ever faults). It tells whoever unmaps, moves or empties, by
// what library or none; not of shmat(SHM_REMAP) and of guard pages (MADV_GUARD_INSTALL), which nobody puts
// into a buffer. It takes one thread. It needs a kernel that can write-protect, and headers that know:
// x86-64 from 5.18 on, aarch64 from 6.10 on; containers may forbid it.
//
// UCX's memory hooks (libucm), where UCX is installed. They are loaded with the first watch and stay,
// and they are not without side effects: of UCX 1.13, mremap() loses the new address of
// MREMAP_FIXED. So nobody gets them who has not asked for them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace comch {

struct AddressRange {
    std::uintptr_t begin;
    std::uintptr_t end;
};

/// What a watch asks and tells.
class UnmapListener {
public:
    /// [begin, end), whole pages, is unmapped, moved, or emptied (madvise). In any thread, in the midst
    /// of it: must not allocate, free, or wait for who may.
    virtual void on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept = 0;
    /// Of what it follows in [begin, end), what begins first. Any thread; like on_unmapped.
    [[nodiscard]] virtual std::optional<AddressRange>
    first_followed(std::uintptr_t begin, std::uintptr_t end) const noexcept = 0;

protected:
    ~UnmapListener() = default;
};

/// Its calls: one thread at a time. The listener outlives it, and hears nothing afterwards.
class UnmapWatch {
public:
    virtual ~UnmapWatch() = default;

    /// From now on the listener is told of this memory; it says already that it follows it. False:
    /// nobody can tell, or not of all of it; it is to be forgotten.
    [[nodiscard]] virtual bool follow(AddressRange memory) = 0;
    /// Who followed it does not any more.
    virtual void forget(AddressRange memory) noexcept = 0;
    /// Whoever has mapped memory before this call did so where the listener has been told of all that
    /// was unmapped. False: not yet.
    [[nodiscard]] virtual bool is_up_to_date() noexcept = 0;
};

/// Null: this kernel does not tell.
[[nodiscard]] std::unique_ptr<UnmapWatch> watch_by_kernel(UnmapListener& listener);
/// Null: there are no hooks, or they do not work.
[[nodiscard]] std::unique_ptr<UnmapWatch> watch_by_hooks(UnmapListener& listener);

} // namespace comch
