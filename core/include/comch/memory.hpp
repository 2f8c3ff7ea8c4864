// Memory maps: ranges of memory that the device, and so the other side, may reach.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <comch/error.hpp>

namespace comch {

/// What may be done to the memory, and by whom.
enum Permission : std::uint32_t {
    local_read = 1u << 0,
    local_write = 1u << 1,
    peer_read = 1u << 2, ///< by the other side, over PCIe
    peer_write = 1u << 3,
};

class RemoteRegion;

/// One range of memory and its permissions: this process's own, or imported from the other side.
/// Any thread may use it; it must not be destroyed while buffers from it are posted or being sent.
class MemoryMap {
public:
    /// `range` stays the caller's, and must outlive the map. invalid_argument: it is empty, or
    /// `permissions` has none, or one that does not exist.
    [[nodiscard]] static Result<std::unique_ptr<MemoryMap>> create(std::span<std::byte> range,
                                                                   std::uint32_t permissions);

    /// From the bytes that export_descriptor() gave on the other side. invalid_argument: they are
    /// not such bytes; version_mismatch.
    [[nodiscard]] static Result<std::unique_ptr<MemoryMap>>
    import_descriptor(std::span<const std::byte> descriptor);

    ~MemoryMap();
    MemoryMap(const MemoryMap&) = delete;
    MemoryMap& operator=(const MemoryMap&) = delete;

    /// The owner's addresses, also for an imported map (where they cannot be dereferenced).
    [[nodiscard]] std::byte* address() const noexcept { return address_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint32_t permissions() const noexcept { return permissions_; }
    [[nodiscard]] bool imported() const noexcept { return remote_ != nullptr; }

    /// ok; invalid_argument: not all of [address, address + size) is inside (nothing, at a
    /// null address, is); not_permitted: a permission is missing.
    [[nodiscard]] Errc check(const void* address, std::size_t size,
                             std::uint32_t needed) const noexcept {
        const auto begin = reinterpret_cast<std::uintptr_t>(address_);
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        const bool nothing = address == nullptr && size == 0;
        if (!nothing && (at < begin || at - begin > size_ || size > size_ - (at - begin))) {
            return Errc::invalid_argument;
        }
        return (permissions_ & needed) == needed ? Errc::ok : Errc::not_permitted;
    }

    /// Opaque bytes, to be sent to a process of the other side by any means. The memory can be
    /// reached from there from now on, within what peer_read and peer_write grant, until the map is
    /// destroyed (by DOCA programs; what this API sends, it sends as messages). not_permitted:
    /// neither is granted, or the map is itself imported; no_memory: it cannot be registered.
    [[nodiscard]] Result<std::vector<std::byte>> export_descriptor();

    /// This process's memory in its region table, so that devices can be told of it; from the first
    /// call until the map is destroyed. 0: it cannot be registered, or is the other side's.
    [[nodiscard]] std::uint64_t region() const {
        // Acquire: what the thread that registered it has put into the table is there.
        const std::uint64_t known = region_.load(std::memory_order_acquire);
        return known != 0 ? known : make_region();
    }

    /// The other side's memory as links reach it; null for a local map.
    [[nodiscard]] RemoteRegion* remote() const noexcept { return remote_.get(); }

private:
    MemoryMap() = default;
    [[nodiscard]] std::uint64_t make_region() const;

    std::byte* address_ = nullptr;
    std::size_t size_ = 0;
    std::uint32_t permissions_ = 0;
    mutable std::once_flag registered_; ///< region_ was tried
    mutable std::atomic<std::uint64_t> region_{0};
    std::unique_ptr<RemoteRegion> remote_;
};

} // namespace comch
