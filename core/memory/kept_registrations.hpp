// Registrations with an RDMA device that outlive what they were made for.
//
// A device takes longer to get to know the buffer of a long message than to send it, and programs
// use the same buffers again. So a registration is kept until its memory is unmapped
// (unmap_events.hpp), or its place is needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/memory/unmap_events.hpp"

namespace comch {

/// One thread at a time, but for on_unmapped.
class KeptRegistrations {
public:
    /// What is kept at most; then the one that was not used for longest makes room.
    static constexpr std::size_t capacity = 256;

    class Kept {
    public:
        /// RegionTable's; the device knows the memory by this.
        [[nodiscard]] std::uint64_t region() const noexcept { return region_; }

    private:
        friend class KeptRegistrations;
        // Read by the threads that unmap memory.
        std::atomic<std::uintptr_t> begin_{0};
        std::atomic<std::uintptr_t> end_{0};
        std::atomic<bool> stale_{false}; ///< (some of) the memory is gone

        std::uint64_t region_ = 0; ///< 0: a free place
        std::uint64_t used_at_ = 0;
        std::uint32_t access_ = 0;
        unsigned users_ = 0;
    };

    /// Makes a region that a device knows of [base, base + length), for what peers may do to it
    /// (`access`; 0: it is not for peers). 0: it cannot be had.
    using Register =
        std::function<std::uint64_t(std::byte* base, std::uint64_t length, std::uint32_t access)>;

    KeptRegistrations() = default;
    /// Nothing is in use any more.
    ~KeptRegistrations();
    KeptRegistrations(const KeptRegistrations&) = delete;
    KeptRegistrations& operator=(const KeptRegistrations&) = delete;

    /// What is kept must not be in the way of what is needed: this process may pin all it likes.
    [[nodiscard]] static bool may_pin_much();

    /// From now on what is unmapped is noticed. False: nobody can tell; nothing may be kept.
    [[nodiscard]] bool watch();

    /// A registration that holds all of the range until put(). One for peers is of the range alone,
    /// with this access alone: they are shown its key. Null: none can be had.
    [[nodiscard]] Kept* get(std::byte* base, std::uint64_t length, std::uint32_t access,
                            const Register& make);
    void put(Kept& kept);

    /// Whatever is kept of [begin, end) is not used again. Any thread; neither waits nor allocates.
    void on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept;

private:
    [[nodiscard]] Kept* find(std::uintptr_t begin, std::uintptr_t end,
                             std::uint32_t access) noexcept;
    /// False: what is unmapped is not noticed any more, and nothing is kept.
    [[nodiscard]] bool still_watches();
    /// A free place, or one that nobody uses just now.
    [[nodiscard]] bool has_room() noexcept;
    /// If there is: a free place; that of the one not used for longest, if there is no other.
    [[nodiscard]] Kept& make_room();
    /// Ends what nobody needs beside a registration of [begin, end).
    void drop_replaced(std::uintptr_t begin, std::uintptr_t end);
    /// Ends what is stale, if something has become so: memory that is gone must not stay pinned.
    void drop_stale();
    static void drop(Kept& kept);
    [[nodiscard]] std::span<Kept> ever_used() noexcept;

    std::array<Kept, capacity> places_;
    std::atomic<std::size_t> used_{0}; ///< of them, ever
    std::atomic<bool> any_stale_{false};
    std::uint64_t clock_ = 0;
    std::unique_ptr<UnmapWatch> watch_;
};

} // namespace comch
