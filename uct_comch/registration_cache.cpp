#include "registration_cache.hpp"

#include <algorithm>
#include <cstdio>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/memory/region_table.hpp"
#include "status.hpp"

namespace comch::uct {
namespace {

RegistrationCache::Kept* kept_of(ucs_rcache_region_t* region) {
    return reinterpret_cast<RegistrationCache::Kept*>(region);
}

ucs_status_t add(void*, ucs_rcache_t*, void* flags, ucs_rcache_region_t* region, std::uint16_t) {
    const auto key =
        RegionTable::instance().add({.base = reinterpret_cast<std::byte*>(region->super.start),
                                     .length = region->super.end - region->super.start,
                                     .access = access_remote_read | access_remote_write});
    if (!key) {
        uct_md_log_mem_reg_error(*static_cast<unsigned*>(flags), "comch: %s",
                                 key.error().message.c_str());
        return to_ucs(key.error().code);
    }
    kept_of(region)->region = key->region;
    return UCS_OK;
}

void remove(void*, ucs_rcache_t*, ucs_rcache_region_t* region) {
    RegionTable::instance().remove(kept_of(region)->region);
}

void describe(void*, ucs_rcache_t*, ucs_rcache_region_t* region, char* text, std::size_t size) {
    (void)std::snprintf(text, size, "region %llx",
                        static_cast<unsigned long long>(kept_of(region)->region));
}

/// Of the memory that this process may pin, what is in use needs some, too.
std::size_t share_of_what_may_be_pinned() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY
               ? SIZE_MAX
               : limit.rlim_cur / 2;
}

} // namespace

std::unique_ptr<RegistrationCache> RegistrationCache::create(const uct_md_rcache_config_t& config) {
    static const ucs_rcache_ops_t ops = {
        .mem_reg = add, .mem_dereg = remove, .dump_region = describe};
    ucs_rcache_params_t params{};
    uct_md_set_rcache_params(&params, &config);
    params.region_struct_size = sizeof(Kept);
    params.max_alignment = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    params.ucm_events = UCM_EVENT_VM_UNMAPPED;
    params.ops = &ops;
    params.max_size = std::min(params.max_size, share_of_what_may_be_pinned());
    ucs_rcache_t* cache = nullptr;
    if (ucs_rcache_create(&params, "comch", nullptr, &cache) != UCS_OK) {
        return nullptr;
    }
    return std::unique_ptr<RegistrationCache>(new RegistrationCache(cache));
}

RegistrationCache::~RegistrationCache() {
    ucs_rcache_destroy(cache_);
}

RegistrationCache::Kept* RegistrationCache::get(void* address, std::size_t length, unsigned flags) {
    ucs_rcache_region_t* region = nullptr;
    if (ucs_rcache_get(cache_, address, length, PROT_READ | PROT_WRITE, &flags, &region) !=
        UCS_OK) {
        return nullptr;
    }
    return kept_of(region);
}

void RegistrationCache::put(Kept* kept) {
    ucs_rcache_region_put(cache_, &kept->super);
}

} // namespace comch::uct
