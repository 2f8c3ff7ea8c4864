#include "registration_cache.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>

#include <sys/mman.h>
#include <unistd.h>

#include "core/memory/region_table.hpp"
#include "status.hpp"

namespace comch::uct {
namespace {

/// What is asked for, as ucs_rcache hands it on to add().
struct Wanted {
    std::size_t length;
    unsigned flags;
};

RegistrationCache::Kept* kept_of(ucs_rcache_region_t* region) {
    return reinterpret_cast<RegistrationCache::Kept*>(region);
}

void describe(void*, ucs_rcache_t*, ucs_rcache_region_t* region, char* text, std::size_t size) {
    (void)std::snprintf(text, size, "region %llx",
                        static_cast<unsigned long long>(kept_of(region)->region));
}

} // namespace

// Called by UCX, in C and under its lock: no exception may leave them.

ucs_status_t RegistrationCache::add(void* self, ucs_rcache_t*, void* wanted_by,
                                    ucs_rcache_region_t* region, std::uint16_t rcache_flags) try {
    const Wanted& wanted = *static_cast<const Wanted*>(wanted_by);
    const std::size_t length = region->super.end - region->super.start;
    // This is how UCX says that it has joined what was asked for with others. It does without, if
    // that fails.
    const bool joined = (rcache_flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS) != 0;
    if (joined && length > std::max(longest_joined, 2 * wanted.length)) {
        return UCS_ERR_NO_RESOURCE;
    }
    RegionTable& table = RegionTable::instance();
    const auto key = table.add({.base = reinterpret_cast<std::byte*>(region->super.start),
                                .length = length,
                                .access = access_remote_read | access_remote_write,
                                .device_only = true});
    if (!key) {
        uct_md_log_mem_reg_error(wanted.flags, "comch: %s", key.error().message.c_str());
        return to_ucs(key.error().code);
    }
    // Now, and not when it is first used: what cannot be pinned must not be kept.
    bool known = false;
    try {
        known = static_cast<RegistrationCache*>(self)->make_known_(key->region);
    } catch (const std::exception&) {
        known = false;
    }
    if (!known) {
        table.remove(key->region);
        return UCS_ERR_IO_ERROR;
    }
    kept_of(region)->region = key->region;
    return UCS_OK;
} catch (const std::exception&) {
    return UCS_ERR_NO_MEMORY;
}

void RegistrationCache::remove(void*, ucs_rcache_t*, ucs_rcache_region_t* region) try {
    RegionTable::instance().remove(kept_of(region)->region);
} catch (const std::exception&) {
    // Its place in the table is lost; the registration has ended.
}

std::unique_ptr<RegistrationCache> RegistrationCache::create(const uct_md_rcache_config_t& config,
                                                             MakeKnown make_known) {
    static const ucs_rcache_ops_t ops = {
        .mem_reg = add, .mem_dereg = remove, .dump_region = describe};
    std::unique_ptr<RegistrationCache> made(new RegistrationCache(std::move(make_known)));
    ucs_rcache_params_t params{};
    uct_md_set_rcache_params(&params, &config);
    params.region_struct_size = sizeof(Kept);
    params.max_alignment = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    params.ucm_events = UCM_EVENT_VM_UNMAPPED;
    params.ops = &ops;
    params.context = made.get();
    if (ucs_rcache_create(&params, "comch", nullptr, &made->cache_) != UCS_OK) {
        made->cache_ = nullptr;
        made.reset();
    }
    return made;
}

RegistrationCache::~RegistrationCache() {
    if (cache_ != nullptr) {
        ucs_rcache_destroy(cache_);
    }
}

RegistrationCache::Kept* RegistrationCache::get(void* address, std::size_t length, unsigned flags) {
    Wanted wanted{length, flags};
    ucs_rcache_region_t* region = nullptr;
    if (ucs_rcache_get(cache_, address, length, PROT_READ | PROT_WRITE, &wanted, &region) !=
        UCS_OK) {
        return nullptr;
    }
    return kept_of(region);
}

void RegistrationCache::put(Kept* kept) {
    ucs_rcache_region_put(cache_, &kept->super);
}

} // namespace comch::uct
