#include <comch/memory.hpp>

#include <cstring>

#include <fmt/format.h>

#include "core/device/process_id.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch {
namespace {

/// What export_descriptor() gives: little-endian, fixed-width.
struct Descriptor {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t reserved;
    std::uint32_t permissions;
    std::uint32_t reserved2;
    RegionKey key;
};
static_assert(sizeof(Descriptor) == 16 + sizeof(RegionKey) && offsetof(Descriptor, key) == 16);

constexpr std::uint32_t descriptor_magic = 0x314d4d43; // "CMM1"
constexpr std::uint16_t descriptor_version = 1;
constexpr std::uint32_t all_permissions = local_read | local_write | peer_read | peer_write;

std::uint32_t access_of(std::uint32_t permissions) {
    std::uint32_t access = 0;
    if ((permissions & peer_read) != 0) {
        access |= access_remote_read;
    }
    if ((permissions & peer_write) != 0) {
        access |= access_remote_write;
    }
    if (access == (access_remote_read | access_remote_write)) {
        access |= access_remote_atomic; // which is both
    }
    return access;
}

} // namespace

Result<std::unique_ptr<MemoryMap>> MemoryMap::create(std::span<std::byte> range,
                                                     std::uint32_t permissions) {
    if (range.empty() || range.data() == nullptr) {
        return fail(Errc::invalid_argument, "cannot make a memory map of an empty range");
    }
    if (permissions == 0 || (permissions & ~all_permissions) != 0) {
        return fail(
            Errc::invalid_argument,
            fmt::format("cannot make a memory map with permissions {:#x}; give at least one "
                        "of local_read, local_write, peer_read, peer_write",
                        permissions));
    }
    std::unique_ptr<MemoryMap> map(new MemoryMap);
    map->address_ = range.data();
    map->size_ = range.size();
    map->permissions_ = permissions;
    return map;
}

Result<std::unique_ptr<MemoryMap>>
MemoryMap::import_descriptor(std::span<const std::byte> descriptor) {
    Descriptor copy{};
    if (descriptor.size() < offsetof(Descriptor, reserved)) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} bytes are not a memory map's descriptor", descriptor.size()));
    }
    std::memcpy(&copy, descriptor.data(), std::min(descriptor.size(), sizeof(copy)));
    if (copy.magic != descriptor_magic) {
        return fail(Errc::invalid_argument, "these bytes are not a memory map's descriptor");
    }
    if (copy.version != descriptor_version) {
        return fail(Errc::version_mismatch,
                    fmt::format("the memory map's descriptor is of version {}, and {} is "
                                "understood here; use the same version of comch on both sides",
                                copy.version, descriptor_version));
    }
    if (descriptor.size() != sizeof(Descriptor) || copy.key.length == 0 ||
        copy.key.base + copy.key.length < copy.key.base ||
        (copy.permissions & ~(peer_read | peer_write)) != 0 ||
        access_of(copy.permissions) != copy.key.access) {
        return fail(Errc::invalid_argument, "the memory map's descriptor is damaged");
    }
    std::unique_ptr<MemoryMap> map(new MemoryMap);
    map->address_ = reinterpret_cast<std::byte*>(copy.key.base);
    map->size_ = copy.key.length;
    map->permissions_ = copy.permissions;
    map->remote_ = std::make_unique<RemoteRegion>(copy.key);
    return map;
}

MemoryMap::~MemoryMap() {
    if (const std::uint64_t region = region_.load(std::memory_order_relaxed); region != 0) {
        RegionTable::instance().remove(region);
    }
}

Result<std::vector<std::byte>> MemoryMap::export_descriptor() {
    if (imported()) {
        return fail(Errc::not_permitted, "cannot export a memory map that was itself imported");
    }
    const std::uint32_t access = access_of(permissions_);
    if (access == 0) {
        return fail(Errc::not_permitted, "cannot export a memory map that grants the peer nothing; "
                                         "create it with peer_read or peer_write");
    }
    const std::uint64_t registered = region();
    if (registered == 0) {
        return fail(Errc::no_memory, "cannot export a memory map: all memory registrations of this "
                                     "process are in use; release some");
    }
    Descriptor descriptor{};
    descriptor.magic = descriptor_magic;
    descriptor.version = descriptor_version;
    descriptor.permissions = permissions_ & (peer_read | peer_write);
    descriptor.key = {.process_id = process_id(),
                      .region = registered,
                      .base = reinterpret_cast<std::uint64_t>(address_),
                      .length = size_,
                      .access = access};
    std::vector<std::byte> bytes(sizeof(descriptor));
    std::memcpy(bytes.data(), &descriptor, sizeof(descriptor));
    return bytes;
}

std::uint64_t MemoryMap::make_region() const {
    if (imported()) {
        return 0;
    }
    std::call_once(registered_, [this] {
        const auto key = RegionTable::instance().add(
            {.base = address_, .length = size_, .access = access_of(permissions_)});
        region_.store(key ? key->region : 0, std::memory_order_release);
    });
    return region_.load(std::memory_order_relaxed); // call_once() orders itself
}

} // namespace comch
