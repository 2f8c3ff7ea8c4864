// Registrations with an RDMA device that outlive what they were made for.
//
// A device takes longer to get to know the buffer of a long message than to send it, and programs
// use the same buffers again. So a registration is kept until its memory is unmapped
// (unmap_watch.hpp), or its place is needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/memory/unmap_watch.hpp"

namespace comch {

/// One thread at a time, but for what the watch calls.
class KeptRegistrations final : private UnmapListener {
public:
    /// What is kept at most; then the one that was not used for longest makes room.
    static constexpr std::size_t capacity = 256;

    /// Memory that the watch tells of; what it calls reads this in its own threads. Empty: none.
    struct Followed {
        std::atomic<std::uintptr_t> begin{0};
        std::atomic<std::uintptr_t> end{0};
        std::atomic<bool> stale{false}; ///< (some of) the memory is gone
    };

    class Kept {
    public:
        /// RegionTable's; the device knows the memory by this.
        [[nodiscard]] std::uint64_t region() const noexcept { return region_; }

    private:
        friend class KeptRegistrations;
        Followed memory_;
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

    /// From now on what is unmapped is noticed. False: that cannot tell; nothing may be kept.
    [[nodiscard]] bool watch_by_kernel();
    [[nodiscard]] bool watch_by_hooks();

    /// A registration that holds all of the range until put(). One for peers is of the range alone,
    /// with this access alone: they reach all of it. Null: none can be had.
    [[nodiscard]] Kept* get(std::byte* base, std::uint64_t length, std::uint32_t access,
                            const Register& register_it);
    void put(Kept& kept);
    /// Lets go of memory that is gone, which else stays pinned until the next get or put. Cheap.
    void tidy() { drop_stale(); }

    /// Whatever is kept of [begin, end) is not used again. Any thread; neither waits nor allocates.
    void on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept override;
    [[nodiscard]] std::optional<AddressRange>
    first_followed(std::uintptr_t begin, std::uintptr_t end) const noexcept override;

private:
    class Making;

    [[nodiscard]] Kept* find(AddressRange memory, std::uint32_t access) noexcept;
    [[nodiscard]] Kept* make(AddressRange memory, std::uint32_t access,
                             const Register& register_it);
    /// A free place, or one that nobody uses just now.
    [[nodiscard]] bool has_room() noexcept;
    /// If there is: a free place; that of the one not used for longest, if there is no other.
    [[nodiscard]] Kept& make_room();
    /// Ends what nobody needs beside a registration of that memory.
    void drop_replaced(AddressRange memory);
    /// Ends what is stale, if something has become so: memory that is gone must not stay pinned.
    void drop_stale();
    void drop(Kept& kept);
    [[nodiscard]] std::span<Kept> ever_used() noexcept;

    std::array<Kept, capacity> places_;
    Followed being_made_;              ///< before it has a place
    std::atomic<std::size_t> used_{0}; ///< of them, ever
    std::atomic<bool> any_stale_{false};
    std::uint64_t clock_ = 0;
    std::unique_ptr<UnmapWatch> watch_;
};

} // namespace comch
