// The name of a registered range of a process's memory, as peers see it.
#pragma once

#include <cstdint>

namespace comch {

enum Access : std::uint32_t {
    access_remote_read = 1u << 0,
    access_remote_write = 1u << 1,
    access_remote_atomic = 1u << 2,
    access_remote_all = 7u,
    /// In a key: the owner does not end the registration while peers may use it, other than by ending
    /// the connection, so that they can have the kernel copy.
    access_by_kernel = 1u << 3,
    /// Of a region: peers reach it through windows that are opened for them (link.hpp), and by no other
    /// key.
    access_by_window = 1u << 4,
};

/// A mappable region begins at a multiple of this, the smallest page there is.
inline constexpr std::uint64_t mapping_alignment = 4096;

/// Plain data, fixed layout: the faces send it as their remote key.
struct RegionKey {
    std::uint64_t process_id = 0; ///< owner
    std::uint64_t region = 0;     ///< unique within the owner, never used again
    std::uint64_t base = 0;       ///< the owner's virtual address
    std::uint64_t length = 0;     ///< bytes
    std::uint32_t access = 0;     ///< Access bits
    std::uint32_t mappable = 0;   ///< 1: the owner can hand out a descriptor of this memory
    std::uint64_t link_data = 0;  ///< the link's own (a device's remote key); 0 on the soft link
};
static_assert(sizeof(RegionKey) == 48);

} // namespace comch
