// Which link this copy of the provider runs over.
//
// All that hangs on a connection is compiled once for each link, each copy in a namespace of its
// own: so the path of a message is inlined down to the ring or the queue pair, and nothing asks
// which one it is. Which copy serves a fabric is decided when the fabric is opened (provider.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include <comch/device.hpp>

#if COMCH_OFI_OVER_VERBS
#include "core/link/verbs/port.hpp"
#include "core/memory/region_table.hpp"
#define COMCH_OFI_LINK over_verbs
#else
#include "core/link/soft/port.hpp"
#define COMCH_OFI_LINK over_soft
#endif

namespace comch::ofi::inline COMCH_OFI_LINK {

#if COMCH_OFI_OVER_VERBS
using Link = link::verbs::Link;
namespace tuning = link::verbs::tuning;
/// A device takes longer to get to know the memory of such a message than the CPUs to copy it: at
/// both ends, for every message.
inline constexpr std::size_t default_eager_size = 65536;
inline constexpr std::uint32_t part_size = tuning::max_message;
inline std::uint64_t link_data_of(const Device& device, std::uint64_t region) {
    return link::verbs::link_data_of(device, region);
}
/// The device can carry out a read or write at the peer without the peer's CPU; it must know the
/// memory at both ends.
inline constexpr bool devices_write = true;
/// A region for memory that the device reads from and writes to again and again, so that it need
/// not be registered each time. `device_only`: as RegionTable says. 0: the device cannot have it.
inline std::uint64_t own_region(const Device& device, std::byte* base, std::uint64_t length,
                                std::uint32_t access, bool device_only) {
    RegionTable& table = RegionTable::instance();
    const auto key =
        table.add({.base = base, .length = length, .access = access, .device_only = device_only});
    if (key && link_data_of(device, key->region) == 0) {
        table.remove(key->region);
        return 0;
    }
    return key ? key->region : 0;
}
inline Errc put_from_own(Link::Connection& to, const std::byte* from, std::size_t length,
                         RemoteRegion& region, std::uint64_t address, void* token,
                         std::uint64_t own) {
    return to.put(from, length, region, address, token, own);
}
inline Errc get_into_own(Link::Connection& from, std::byte* to, std::size_t length,
                         RemoteRegion& region, std::uint64_t address, void* token,
                         std::uint64_t own) {
    return from.get(to, length, region, address, token, own);
}
inline Errc write_by_device(Link::Connection& to, const std::byte* from, std::size_t length,
                            RemoteRegion& region, std::uint64_t address, void* token,
                            std::uint64_t own) {
    return to.write(from, length, region, address, token, own);
}
#else
using Link = link::soft::Link;
namespace tuning = link::soft::tuning;
/// Up to here the sender need not wait until it is asked for it: 64 KiB take 0.86 of the time.
inline constexpr std::size_t default_eager_size = 65536;
/// Short, so that the receiver copies one while the sender copies the next. Not a part of a power of two:
/// if all of a message lay in whole pages, the program's buffer and the ring would keep a distance that
/// CPUs take for a dependence between a store and the next load, and 64 KiB take twice as long.
inline constexpr std::uint32_t part_size = 257 * 64;
static_assert(part_size <= tuning::max_message);
/// What a peer must know to reach the region over the link, beside its name.
inline std::uint64_t link_data_of(const Device&, std::uint64_t) {
    return 0;
}
/// No device is there to do so.
inline constexpr bool devices_write = false;
/// Our own memory is known as it is.
inline std::uint64_t own_region(const Device&, std::byte*, std::uint64_t, std::uint32_t, bool) {
    return 0;
}
inline Errc put_from_own(Link::Connection& to, const std::byte* from, std::size_t length,
                         RemoteRegion& region, std::uint64_t address, void* token, std::uint64_t) {
    return to.put(from, length, region, address, token);
}
inline Errc get_into_own(Link::Connection& from, std::byte* to, std::size_t length,
                         RemoteRegion& region, std::uint64_t address, void* token, std::uint64_t) {
    return from.get(to, length, region, address, token);
}
inline Errc write_by_device(Link::Connection&, const std::byte*, std::size_t, RemoteRegion&,
                            std::uint64_t, void*, std::uint64_t) {
    return Errc::unsupported;
}
#endif

using Port = Link::Port;
using Connection = Link::Connection;

} // namespace comch::ofi::inline COMCH_OFI_LINK
