#include "md.hpp"

#include <climits>
#include <cstring>
#include <mutex>
#include <utility>

#include <sys/mman.h>

#include "allocations.hpp"
#include "core/device/process_id.hpp"
#include "core/device/settings.hpp"
#include "core/link/verbs/rdma_device.hpp"
#include "core/memory/kept_registrations.hpp"
#include "guarded.hpp"
#include "status.hpp"

namespace comch::uct {

ucs_config_field_t md_config_table[] = {
    {"", "", nullptr, ucs_offsetof(MdConfig, super), UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"DOMAIN", "",
     "Domain in which processes of the host and of the DPU find each other: the absolute path of "
     "its directory, or a name N for /dev/shm/comch-<uid>-N.\n"
     "Empty: the environment's COMCH_DOMAIN, else /dev/shm/comch-<uid>.",
     ucs_offsetof(MdConfig, domain), UCS_CONFIG_TYPE_STRING},

    {"SIDE", "",
     "Side of the PCIe link that this process plays: host or dpu.\n"
     "Empty: the environment's COMCH_SIDE, else that of the device, else, over RDMA, the side\n"
     "whose addresses are this machine's, else host.",
     ucs_offsetof(MdConfig, side), UCS_CONFIG_TYPE_STRING},

    {"DEVICE", "",
     "Device to open, by name or PCI address (comch_info lists them). UCX is offered this one "
     "only.\n"
     "Empty: the environment's COMCH_DEVICE, else the first device of the side.",
     ucs_offsetof(MdConfig, device), UCS_CONFIG_TYPE_STRING},

    {"RCACHE", "try",
     "Keep the registrations of message buffers with an RDMA device until the memory is unmapped. "
     "A peer that was given a key may use it for as long.\n"
     "try: if UCX's memory hooks work and the limit of locked memory is infinite.",
     ucs_offsetof(MdConfig, keeps), UCS_CONFIG_TYPE_TERNARY},

    {"", "", nullptr, ucs_offsetof(MdConfig, kept),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_rcache_table)},

    {nullptr, nullptr, nullptr, 0, {}}};

namespace {

Md* md_of(uct_md_h md) {
    return reinterpret_cast<Md*>(md);
}

Result<Device> open_configured_device(const MdConfig& config) {
    const NamedSettings names(
        {.domain = "UCX_COMCH_DOMAIN", .side = "UCX_COMCH_SIDE", .device = "UCX_COMCH_DEVICE"});
    DomainOptions options;
    options.directory = config.domain;
    auto domain = Domain::open(options);
    if (!domain) {
        return tl::unexpected(domain.error());
    }
    return default_device(*domain, {config.side, config.device});
}

ucs_status_t close_md_checked(uct_md_h md) {
    delete md_of(md);
    return UCS_OK;
}
void close_md(uct_md_h md) {
    (void)close_md_checked(md);
}

ucs_status_t query_md(uct_md_h md, uct_md_attr_t* attr) {
    attr->cap.flags = UCT_MD_FLAG_ALLOC | UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY |
                      UCT_MD_FLAG_FIXED | UCT_MD_FLAG_INVALIDATE;
    if (md_of(md)->domain->over_rdma()) {
        // The device wants local memory registered, too; without this flag UCP leaves an operation's
        // memory handle as it finds it.
        attr->cap.flags |= UCT_MD_FLAG_NEED_MEMH;
    }
    attr->cap.max_alloc = ULONG_MAX;
    attr->cap.max_reg = ULONG_MAX;
    attr->cap.reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->cap.alloc_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->cap.access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    attr->cap.detect_mem_types = 0;
    // An entry in a table, whatever the size; an RDMA device also pins the pages, unless it has.
    attr->reg_cost = !md_of(md)->domain->over_rdma() ? ucs_linear_func_make(60e-9, 0)
                     : md_of(md)->cache != nullptr
                         ? ucs_linear_func_make(60e-9 + md_of(md)->lookup_cost, 0)
                         : ucs_linear_func_make(16e-6, 0.06e-9);
    attr->rkey_packed_size = sizeof(RegionKey);
    std::memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    return UCS_OK;
}

std::uint32_t access_of(unsigned flags) {
    std::uint32_t access = 0;
    if ((flags & UCT_MD_MEM_ACCESS_REMOTE_GET) != 0) {
        access |= access_remote_read;
    }
    if ((flags & UCT_MD_MEM_ACCESS_REMOTE_PUT) != 0) {
        access |= access_remote_write;
    }
    if ((flags & UCT_MD_MEM_ACCESS_REMOTE_ATOMIC) != 0) {
        access |= access_remote_atomic;
    }
    return access;
}

ucs_status_t add_region(Memory& memory, std::byte* base, std::size_t length, unsigned flags) {
    auto key =
        RegionTable::instance().add({base, length, access_of(flags), memory.shared.fd.get()});
    if (!key) {
        uct_md_log_mem_reg_error(flags, "comch: %s", key.error().message.c_str());
        return to_ucs(key.error().code);
    }
    memory.key = *key;
    return UCS_OK;
}

/// A key that deregistering the part ends, as that of what stays does not.
const RegionKey* revocable_key_of(Memory& part) {
    static std::mutex mutex; // UCP may pack one handle's key in several threads
    const std::lock_guard lock(mutex);
    if (part.revocable.region == 0) {
        auto key = RegionTable::instance().add(part.part);
        if (!key) {
            ucs_error("comch: %s", key.error().message.c_str());
            return nullptr;
        }
        part.revocable = *key;
    }
    return &part.revocable;
}

ucs_status_t allocate(uct_md_h, std::size_t* length, void** address, ucs_memory_type_t type,
                      unsigned flags, const char* name, uct_mem_h* memh) {
    if (type != UCS_MEMORY_TYPE_HOST) {
        return UCS_ERR_UNSUPPORTED;
    }
    auto shared = create_shared_memory(name != nullptr ? name : "comch", *length,
                                       (flags & UCT_MD_MEM_FLAG_FIXED) != 0 ? *address : nullptr);
    if (!shared) {
        uct_md_log_mem_reg_error(flags, "comch: %s", shared.error().message.c_str());
        return to_ucs(shared.error().code);
    }
    auto memory = std::make_unique<Memory>();
    memory->shared = std::move(*shared);
    const ucs_status_t status =
        add_region(*memory, memory->shared.mapping.data(), memory->shared.mapping.size(), flags);
    if (status != UCS_OK) {
        return status;
    }
    try {
        Allocations::instance().add(memory->key);
    } catch (...) {
        RegionTable::instance().remove(memory->key.region);
        throw;
    }
    *length = memory->shared.mapping.size();
    *address = memory->shared.mapping.data();
    *memh = memory.release();
    return UCS_OK;
}

ucs_status_t free_memory(uct_md_h, uct_mem_h memh) {
    auto* memory = static_cast<Memory*>(memh);
    Allocations::instance().remove(memory->key);
    RegionTable::instance().remove(memory->key.region);
    // Peers may have it mapped still: give the pages back now, not when the last of them lets go.
    // (In a forked child they are its parent's, who goes on with them.)
    if (memory->key.process_id == process_id()) {
        (void)::madvise(memory->shared.mapping.data(), memory->shared.mapping.size(), MADV_REMOVE);
    }
    delete memory;
    return UCS_OK;
}

/// Has the device know the memory by a registration that is kept. False: it cannot.
bool keep(const Md& md, const RegionTable::Region& part, unsigned flags, Memory& memory) {
    constexpr unsigned all = UCT_MD_MEM_ACCESS_ALL;
    if (md.cache == nullptr || (flags & all) != RegistrationCache::access || part.length == 0 ||
        part.base == nullptr || !link::verbs::is_open(md.device)) {
        return false; // (What the cache was refused it would remember, too.)
    }
    memory.kept = md.cache->get(part.base, part.length, flags);
    if (memory.kept == nullptr) {
        return false;
    }
    RegionTable::Region region = part;
    region.device_region = memory.kept->region;
    const auto let_go = [&] { md.cache->put(std::exchange(memory.kept, nullptr)); };
    const auto key = [&] {
        try {
            return RegionTable::instance().add(region);
        } catch (...) {
            let_go();
            throw;
        }
    }();
    if (!key) {
        let_go();
        return false;
    }
    memory.key = *key;
    return true;
}

ucs_status_t register_memory(uct_md_h md, void* address, std::size_t length, unsigned flags,
                             uct_mem_h* memh) {
    auto memory = std::make_unique<Memory>();
    const std::uint32_t access = access_of(flags);
    const RegionTable::Region part{
        .base = static_cast<std::byte*>(address), .length = length, .access = access};
    // Not over RDMA: a device would have to pin all of the allocation.
    const auto around = md_of(md)->domain->over_rdma()
                            ? std::nullopt
                            : Allocations::instance().around(
                                  reinterpret_cast<std::uint64_t>(address), length, access);
    if (around) {
        memory->key = *around;
        memory->part = part;
    } else if (keep(*md_of(md), part, flags, *memory)) {
        memory->part = part;
    } else if (const ucs_status_t status =
                   add_region(*memory, static_cast<std::byte*>(address), length, flags);
               status != UCS_OK) {
        return status;
    }
    *memh = memory.release();
    return UCS_OK;
}

ucs_status_t deregister_memory(uct_md_h md, const uct_md_mem_dereg_params_t* params) {
    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 1);
    auto* memory = static_cast<Memory*>(params->memh);
    // After this no operation by a revocable key touches the memory: what is registered by itself
    // is never mapped by peers, and the table has waited for those that were under way. Other keys
    // allow more: of a part of an allocation, which is mapped and stays; of the rest, what the
    // kernel copies without us. Who has given such a key away has promised not to end before its
    // use.
    // (What is kept ends here but for the device's part.)
    if (memory->revocable.region != 0) {
        RegionTable::instance().remove(memory->revocable.region);
    }
    if (memory->kept != nullptr || !memory->is_part()) {
        RegionTable::instance().remove(memory->key.region);
    }
    if (memory->kept != nullptr) {
        md_of(md)->cache->put(memory->kept);
    }
    delete memory;
    if ((UCT_MD_MEM_DEREG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0) &
         UCT_MD_MEM_DEREG_FLAG_INVALIDATE) != 0) {
        uct_invoke_completion(params->comp, UCS_OK);
    }
    return UCS_OK;
}

ucs_status_t pack_rkey(uct_md_h md, uct_mem_h memh, const uct_md_mkey_pack_params_t* params,
                       void* buffer) {
    auto& memory = *static_cast<Memory*>(memh);
    RegionKey key = memory.key;
    const bool ends_early = params != nullptr &&
                            (params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS) != 0 &&
                            (params->flags & UCT_MD_MKEY_PACK_FLAG_INVALIDATE) != 0;
    if (!ends_early) {
        key.access |= access_by_kernel;
    } else if (memory.is_part()) {
        const RegionKey* const revocable = revocable_key_of(memory);
        if (revocable == nullptr) {
            return UCS_ERR_NO_MEMORY;
        }
        key = *revocable;
    }
    if (md_of(md)->domain->over_rdma()) {
        // Without a device's key (no interface is open yet) operations go by the owner's CPU.
        key.link_data = link::verbs::link_data_of(md_of(md)->device, key.region);
    }
    std::memcpy(buffer, &key, sizeof(key));
    return UCS_OK;
}

ucs_status_t query_memory(uct_md_h, const void*, size_t, uct_md_mem_attr_t*) {
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t detect_memory_type(uct_md_h, const void*, size_t, ucs_memory_type_t*) {
    return UCS_ERR_UNSUPPORTED;
}

uct_md_ops_t make_md_ops() {
    uct_md_ops_t ops{};
    ops.close = close_md;
    ops.query = query_md;
    ops.mem_alloc = guarded<allocate>;
    ops.mem_free = free_memory;
    ops.mem_reg = guarded<register_memory>;
    ops.mem_dereg = deregister_memory;
    ops.mem_query = query_memory;
    ops.mkey_pack = guarded<pack_rkey>;
    ops.detect_memory_type = detect_memory_type;
    // UCX calls these without looking whether they are there, or at what the domain says it can.
    ops.mem_advise = [](uct_md_h, uct_mem_h, void*, size_t, unsigned) {
        return UCS_ERR_UNSUPPORTED;
    };
    ops.is_sockaddr_accessible = [](uct_md_h, const ucs_sock_addr_t*,
                                    uct_sockaddr_accessibility_t) { return 0; };
    return ops;
}

} // namespace

ucs_status_t open_md(uct_component_t* component, const char*, const uct_md_config_t* config,
                     uct_md_h* md) {
    static uct_md_ops_t ops = make_md_ops();
    const auto& settings = *reinterpret_cast<const MdConfig*>(config);
    auto device = open_configured_device(settings);
    if (!device) {
        ucs_error("comch: %s", device.error().message.c_str());
        return to_ucs(device.error().code);
    }
    auto made = std::make_unique<Md>(Md{{&ops, component}, device->domain(), *device, {}, 0});
    if (made->domain->over_rdma() && settings.keeps != UCS_NO) {
        const bool may = KeptRegistrations::may_pin_much();
        if (may) {
            made->cache =
                RegistrationCache::create(settings.kept, [device = *device](std::uint64_t region) {
                    return link::verbs::make_known(device, region);
                });
            made->lookup_cost = uct_md_rcache_overhead(&settings.kept);
        }
        if (made->cache == nullptr && settings.keeps == UCS_YES) {
            ucs_error("comch: UCX_COMCH_RCACHE=y, and %s; or set UCX_COMCH_RCACHE=try",
                      may ? "UCX cannot tell when memory is unmapped: see UCX_MEM_MMAP_HOOK_MODE"
                          : "the limit of locked memory is finite: raise it with 'ulimit -l "
                            "unlimited'");
            return UCS_ERR_UNSUPPORTED;
        }
    }
    *md = &made.release()->super;
    return UCS_OK;
}

ucs_status_t query_md_resources(uct_component_t* component, uct_md_resource_desc_t** resources,
                                unsigned* count) {
    return uct_md_query_single_md_resource(component, resources, count);
}

ucs_status_t unpack_rkey(uct_component_t*, const void* buffer, uct_rkey_t* rkey, void** handle) {
    RegionKey key;
    std::memcpy(&key, buffer, sizeof(key));
    *rkey = reinterpret_cast<uct_rkey_t>(new RemoteRegion(key));
    *handle = nullptr;
    return UCS_OK;
}

ucs_status_t release_rkey(uct_component_t*, uct_rkey_t rkey, void*) {
    delete reinterpret_cast<RemoteRegion*>(rkey);
    return UCS_OK;
}

} // namespace comch::uct
