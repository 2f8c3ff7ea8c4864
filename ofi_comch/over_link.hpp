// Which link this copy of the provider runs over.
//
// All that hangs on a connection is compiled once for each link, each copy in a namespace of its
// own: so the path of a message is inlined down to the ring or the queue pair, and nothing asks
// which one it is. Which copy serves a fabric is decided when the fabric is opened (provider.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <comch/device.hpp>

#include "core/memory/region_table.hpp"

#if COMCH_OFI_OVER_VERBS
#include "core/link/verbs/port.hpp"
#define COMCH_OFI_LINK over_verbs
#else
#include "core/link/soft/port.hpp"
#define COMCH_OFI_LINK over_soft
#endif

namespace comch::ofi::inline COMCH_OFI_LINK {

#if COMCH_OFI_OVER_VERBS
using Link = link::verbs::Link;
/// Up to here the sender need not wait until it is asked for it. A device takes longer to get to know the
/// memory of such a message than the CPUs to copy it: at both ends, for every message.
inline constexpr std::size_t default_eager_size = 65536;
namespace tuning = link::verbs::tuning;
inline constexpr std::uint32_t part_size = tuning::max_message;
#else
using Link = link::soft::Link;
/// Shorter than 64 KiB, what was just written takes 0.87 of the time so. From there on both CPUs may share the
/// copy, and what is never written again (benchmarks do so) takes half the time if it is asked for.
inline constexpr std::size_t default_eager_size = 65535;
namespace tuning = link::soft::tuning;
/// Short, so that the receiver copies one while the sender copies the next. Not a part of a power of two:
/// if all of a message lay in whole pages, the program's buffer and the ring would keep a distance that
/// CPUs take for a dependence between a store and the next load, and 64 KiB take twice as long.
inline constexpr std::uint32_t part_size = 257 * 64;
static_assert(part_size <= tuning::max_message);
#endif

/// A region for memory that the device reads from and writes to again and again, so that it need
/// not be registered each time. `device_only`: as RegionTable says. 0: the device cannot have it, or
/// there is none.
inline std::uint64_t own_region(const Device& device, std::byte* base, std::uint64_t length,
                                std::uint32_t access, bool device_only) {
    if constexpr (Link::has_devices) {
        RegionTable& table = RegionTable::instance();
        const auto key = table.add(
            {.base = base, .length = length, .access = access, .device_only = device_only});
        if (!key) {
            return 0;
        }
        const auto known = [&]() -> bool {
            try {
                return Link::link_data_of(device, key->region) != 0;
            } catch (const std::bad_alloc&) {
                return false;
            }
        };
        if (!known()) {
            table.remove(key->region);
            return 0;
        }
        return key->region;
    } else {
        return 0;
    }
}

using Port = Link::Port;
using Connection = Link::Connection;

} // namespace comch::ofi::inline COMCH_OFI_LINK
