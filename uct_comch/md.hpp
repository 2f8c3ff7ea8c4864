// The memory domain: which device this process is, and memory that peers may reach.
#pragma once

#include <memory>

#include <comch/device.hpp>

#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"
#include "core/memory/shared_memory.hpp"
#include "registration_cache.hpp"
#include "ucx_compat.hpp"

namespace comch::uct {

struct MdConfig {
    uct_md_config_t super;
    char* domain;                   ///< "", a name or a path: as COMCH_DOMAIN
    char* side;                     ///< "", "host", "dpu": as COMCH_SIDE
    char* device;                   ///< "", name or PCI address: as COMCH_DEVICE
    ucs_ternary_auto_value_t keeps; ///< registrations with a device
    uct_md_rcache_config_t kept;    ///< how many, and when they are let go
};
extern ucs_config_field_t md_config_table[];

/// A uct_md_h of ours points here.
struct Md {
    uct_md_t super;
    std::shared_ptr<Domain> domain;
    Device device;
    std::unique_ptr<RegistrationCache> cache; ///< null: a device's registrations are not kept
    double lookup_cost = 0;                   ///< seconds, of finding one
};

/// A uct_mem_h of ours points here: memory that was registered, or allocated by us.
struct Memory {
    RegionKey key;                           ///< of the allocation, where it is a part of one
    SharedMemory shared;                     ///< empty when it was only registered
    RegistrationCache::Kept* kept = nullptr; ///< what the device knows it by, if that is kept
    RegionTable::Region part{}; ///< what was registered of something that stays, an allocation or
                                ///< what is kept; else empty
    RegionKey revocable{};      ///< of the part, if that was wanted; region 0: not yet
    [[nodiscard]] bool is_part() const noexcept { return part.base != nullptr; }
};

[[nodiscard]] ucs_status_t open_md(uct_component_t* component, const char* name,
                                   const uct_md_config_t* config, uct_md_h* md);
/// One domain where the device can be opened; none, and a warning that says why, where it cannot.
[[nodiscard]] ucs_status_t query_md_resources(uct_component_t* component,
                                              uct_md_resource_desc_t** resources, unsigned* count);
/// An unpacked key is a RemoteRegion.
[[nodiscard]] ucs_status_t unpack_rkey(uct_component_t* component, const void* buffer,
                                       uct_rkey_t* rkey, void** handle);
[[nodiscard]] ucs_status_t release_rkey(uct_component_t* component, uct_rkey_t rkey, void* handle);

} // namespace comch::uct
