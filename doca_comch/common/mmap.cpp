#include "doca_comch/common/mmap.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>

#include <fmt/format.h>

#include "core/transfer/descriptor.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/mmap_handles.hpp"
#include "doca_comch/common/process_memory.hpp"
#include "doca_comch/common/status.hpp"

using comch::MemoryMap;
using comch::doca::guarded;
using comch::doca::refuse;

namespace {

constexpr std::uint32_t known_access =
    DOCA_ACCESS_FLAG_LOCAL_READ_WRITE | DOCA_ACCESS_FLAG_RDMA_READ | DOCA_ACCESS_FLAG_RDMA_WRITE |
    DOCA_ACCESS_FLAG_RDMA_ATOMIC | DOCA_ACCESS_FLAG_PCI_READ_ONLY |
    DOCA_ACCESS_FLAG_PCI_READ_WRITE | DOCA_ACCESS_FLAG_PCI_RELAXED_ORDERING;

std::uint32_t permissions_of(std::uint32_t access) {
    std::uint32_t permissions = comch::local_read;
    if ((access & DOCA_ACCESS_FLAG_LOCAL_READ_WRITE) != 0) {
        permissions |= comch::local_write;
    }
    if ((access & DOCA_ACCESS_FLAG_PCI_READ_ONLY) != 0) {
        permissions |= comch::peer_read;
    }
    if ((access & DOCA_ACCESS_FLAG_PCI_READ_WRITE) != 0) {
        permissions |= comch::peer_read | comch::peer_write | comch::local_write;
    }
    return permissions;
}

/// Whether a setting may be changed now.
doca_error_t settable(const doca_mmap* mmap) {
    if (mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (mmap->imported()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "an imported memory map cannot be changed");
    }
    if (mmap->started() || mmap->collects) {
        return refuse(DOCA_ERROR_BAD_STATE, "the memory map is started: stop it to change it");
    }
    return DOCA_SUCCESS;
}

bool is_exported(const doca_mmap& mmap) {
    return std::any_of(mmap.devices.begin(), mmap.devices.end(),
                       [](const doca_mmap::Device& each) { return !each.exported.empty(); }) ||
           std::any_of(mmap.chunks.begin(), mmap.chunks.end(),
                       [](const auto& chunk) { return is_exported(*chunk); });
}

/// The same for its devices: those of a map of chunks come and go while it is started.
doca_error_t devices_settable(const doca_mmap* mmap) {
    if (mmap == nullptr || !mmap->collects) {
        return settable(mmap);
    }
    return is_exported(*mmap) ? refuse(DOCA_ERROR_NOT_PERMITTED, "the memory map is exported")
                              : DOCA_SUCCESS;
}

/// The map, and its chunks.
std::vector<doca_mmap*> with_chunks(doca_mmap& mmap) {
    std::vector<doca_mmap*> all{&mmap};
    for (const auto& chunk : mmap.chunks) {
        all.push_back(chunk.get());
    }
    return all;
}

bool is_range(const void* address, std::size_t length) {
    return address != nullptr && length != 0 &&
           reinterpret_cast<std::uintptr_t>(address) + length >= length;
}

bool overlap(const doca_mmap& chunk, const void* address, std::size_t length) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const auto other = reinterpret_cast<std::uintptr_t>(chunk.address);
    return begin < other + chunk.length && other < begin + length;
}

doca_error_t unused(const doca_mmap& mmap) {
    for (const auto& chunk : mmap.chunks) {
        if (const doca_error_t result = unused(*chunk); result != DOCA_SUCCESS) {
            return result;
        }
    }
    if (mmap.buffers.load(std::memory_order_acquire) != 0) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "buffers of the memory map are not given back");
    }
    if (mmap.consumers.load(std::memory_order_acquire) != 0) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "consumers that receive into the memory map are not idle");
    }
    return DOCA_SUCCESS;
}

doca_error_t start(doca_mmap& mmap) {
    const std::uint32_t permissions = permissions_of(mmap.access);
    // A device would find that out when it registers the memory. Here the program would, when the
    // first message is copied there.
    const bool writable = (permissions & comch::local_write) != 0;
    if (!comch::doca::is_mapped(mmap.address, mmap.length, writable)) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      fmt::format("cannot start the memory map: not all of the {} bytes from {} on "
                                  "are memory that this process may {}",
                                  mmap.length, mmap.address, writable ? "write" : "read"));
    }
    auto map = MemoryMap::create({static_cast<std::byte*>(mmap.address), mmap.length}, permissions);
    if (!map) {
        return refuse(map.error());
    }
    mmap.map = std::move(*map);
    mmap.was_started = true;
    return DOCA_SUCCESS;
}

/// The other side's device reaches the memory without this program's help.
doca_error_t export_to(const comch::Device& device, const doca_mmap& mmap,
                       std::vector<std::byte>& exported) {
    auto descriptor = comch::transfer::export_memory(device, *mmap.map);
    if (!descriptor) {
        return refuse(descriptor.error());
    }
    exported = std::move(*descriptor);
    return DOCA_SUCCESS;
}

doca_error_t import_to(doca_dev& dev, std::span<const std::byte> exported,
                       const doca_data* user_data, doca_mmap*& mmap) {
    auto memory = comch::transfer::import_memory(exported);
    if (!memory) {
        return refuse(memory.error());
    }
    auto made = std::make_unique<doca_mmap>();
    made->address = memory->map->address();
    made->length = memory->map->size();
    made->map = std::move(memory->map);
    made->service = memory->service;
    made->importer = dev.info.device;
    made->devices.push_back({.device = dev.info.device, .exported = {}});
    if (user_data != nullptr) {
        made->user_data = *user_data;
    }
    mmap = made.release();
    return DOCA_SUCCESS;
}

/// Its range is the program's again.
void give_back(std::unique_ptr<doca_mmap> mmap) {
    for (auto& chunk : mmap->chunks) {
        give_back(std::move(chunk));
    }
    comch::doca::forget_handle(*mmap);
    mmap->map.reset();
    if (mmap->free_callback != nullptr && mmap->was_started) {
        mmap->free_callback(mmap->address, mmap->length, mmap->free_cookie);
    }
}

std::atomic<bool> populated = false; ///< some map, ever

doca_error_t populate(doca_mmap& mmap, void* address, std::size_t length,
                      doca_mmap_memrange_free_cb_t* free_callback, void* free_cookie) {
    auto chunk = std::make_unique<doca_mmap>();
    chunk->address = address;
    chunk->length = length;
    chunk->access = mmap.access | DOCA_ACCESS_FLAG_PCI_READ_WRITE;
    chunk->devices = mmap.devices;
    mmap.chunks.reserve(mmap.chunks.size() + 1);
    const doca_error_t result = start(*chunk);
    if (result == DOCA_SUCCESS) {
        chunk->free_callback = free_callback;
        chunk->free_cookie = free_cookie;
        mmap.chunks.push_back(std::move(chunk));
        populated.store(true, std::memory_order_relaxed);
    }
    return result;
}

} // namespace

namespace comch::doca {

bool ranges_were_populated() noexcept {
    return populated.load(std::memory_order_relaxed);
}

} // namespace comch::doca

doca_mmap* doca_mmap::chunk_of(const void* at, std::size_t size) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    for (const auto& chunk : chunks) {
        const auto first = reinterpret_cast<std::uintptr_t>(chunk->address);
        if (begin >= first && begin - first <= chunk->length &&
            size <= chunk->length - (begin - first)) {
            return chunk.get();
        }
    }
    return nullptr;
}

doca_mmap::Device* doca_mmap::find(const comch::Device& device) noexcept {
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const Device& each) {
        return comch::doca::is_same(each.device, device);
    });
    return found != devices.end() ? &*found : nullptr;
}

doca_error_t doca_mmap_create(doca_mmap** mmap) {
    if (mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *mmap = new doca_mmap;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_mmap_destroy(doca_mmap* mmap) {
    if (mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = unused(*mmap); result != DOCA_SUCCESS) {
        return result;
    }
    give_back(std::unique_ptr<doca_mmap>(mmap));
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_memrange(doca_mmap* mmap, void* addr, size_t len) {
    if (!is_range(addr, len)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = settable(mmap); result != DOCA_SUCCESS) {
        return result;
    }
    if (mmap->address != nullptr) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "the memory map has its range already");
    }
    mmap->address = addr;
    mmap->length = len;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_set_permissions(doca_mmap* mmap, uint32_t access_mask) {
    constexpr std::uint32_t exclusive =
        DOCA_ACCESS_FLAG_PCI_READ_ONLY | DOCA_ACCESS_FLAG_PCI_READ_WRITE;
    if ((access_mask & ~known_access) != 0 || (access_mask & exclusive) == exclusive) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = settable(mmap);
    if (result == DOCA_SUCCESS) {
        mmap->access = access_mask;
    }
    return result;
}

doca_error_t doca_mmap_set_max_num_devices(doca_mmap* mmap, uint32_t max_num_devices) {
    if (max_num_devices == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = settable(mmap);
    if (result == DOCA_SUCCESS) {
        mmap->max_devices = max_num_devices;
    }
    return result;
}

doca_error_t doca_mmap_set_free_cb(doca_mmap* mmap, doca_mmap_memrange_free_cb_t* free_cb,
                                   void* cookie) {
    const doca_error_t result = settable(mmap);
    if (result == DOCA_SUCCESS) {
        mmap->free_callback = free_cb;
        mmap->free_cookie = cookie;
    }
    return result;
}

doca_error_t doca_mmap_enable_thread_safety(doca_mmap* mmap) {
    return settable(mmap); // what threads share of a started map is safe anyway
}

doca_error_t doca_mmap_set_user_data(doca_mmap* mmap, doca_data user_data) {
    if (mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    mmap->user_data = user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_add_dev(doca_mmap* mmap, doca_dev* dev) {
    if (!comch::doca::is_open(dev)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = devices_settable(mmap); result != DOCA_SUCCESS) {
        return result;
    }
    if (mmap->find(dev->info.device) != nullptr) {
        return refuse(DOCA_ERROR_ALREADY_EXIST, "the memory map has this device already");
    }
    if (mmap->devices.size() >= mmap->max_devices) {
        return refuse(DOCA_ERROR_NO_MEMORY, "the memory map has as many devices as it was set to "
                                            "have (doca_mmap_set_max_num_devices)");
    }
    return guarded([&] {
        const auto all = with_chunks(*mmap);
        for (doca_mmap* const each : all) {
            each->devices.reserve(each->devices.size() + 1);
        }
        for (doca_mmap* const each : all) {
            each->devices.push_back({.device = dev->info.device, .exported = {}});
        }
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_mmap_rm_dev(doca_mmap* mmap, doca_dev* dev) {
    if (!comch::doca::is_open(dev)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = devices_settable(mmap); result != DOCA_SUCCESS) {
        return result;
    }
    const auto remove = [&](doca_mmap& from) {
        return std::erase_if(from.devices, [&](const doca_mmap::Device& each) {
            return comch::doca::is_same(each.device, dev->info.device);
        });
    };
    for (const auto& chunk : mmap->chunks) {
        remove(*chunk);
    }
    return remove(*mmap) != 0 ? DOCA_SUCCESS : DOCA_ERROR_NOT_FOUND;
}

doca_error_t doca_mmap_start(doca_mmap* mmap) {
    if (const doca_error_t result = settable(mmap); result != DOCA_SUCCESS) {
        return result;
    }
    if (mmap->of_2023 && mmap->address == nullptr) {
        mmap->collects = true;
        return DOCA_SUCCESS;
    }
    if (mmap->address == nullptr || mmap->devices.empty()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the memory map: it needs a range "
                                            "(doca_mmap_set_memrange) and a device "
                                            "(doca_mmap_add_dev)");
    }
    return guarded([&] { return start(*mmap); });
}

doca_error_t doca_mmap_stop(doca_mmap* mmap) {
    if (mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!mmap->started() && !mmap->collects) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot stop the memory map: it is not started");
    }
    if (mmap->imported()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "an imported memory map cannot be stopped, only "
                                                "destroyed");
    }
    const doca_error_t result = unused(*mmap);
    if (result == DOCA_SUCCESS) {
        comch::doca::forget_handle(*mmap);
        mmap->map.reset();
        mmap->collects = false; // the chunks stay
        for (doca_mmap::Device& each : mmap->devices) {
            each.exported.clear();
        }
    }
    return result;
}

doca_error_t doca_mmap_get_memrange(const doca_mmap* mmap, void** addr, size_t* len) {
    if (mmap == nullptr || addr == nullptr || len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (mmap->address == nullptr) {
        return DOCA_ERROR_BAD_STATE;
    }
    *addr = mmap->address;
    *len = mmap->length;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_max_num_devices(const doca_mmap* mmap, uint32_t* max_num_devices) {
    if (mmap == nullptr || max_num_devices == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_devices = mmap->max_devices;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_num_bufs(const doca_mmap* mmap, uint32_t* num_bufs) {
    if (mmap == nullptr || num_bufs == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_bufs = mmap->buffers.load(std::memory_order_relaxed);
    for (const auto& chunk : mmap->chunks) {
        *num_bufs += chunk->buffers.load(std::memory_order_relaxed);
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_user_data(const doca_mmap* mmap, doca_data* user_data) {
    if (mmap == nullptr || user_data == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *user_data = mmap->user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_exported(const doca_mmap* mmap, uint8_t* exported) {
    if (mmap == nullptr || exported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *exported = is_exported(*mmap) ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_get_from_export(const doca_mmap* mmap, uint8_t* from_export) {
    if (mmap == nullptr || from_export == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *from_export = mmap->imported() ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_export_pci(doca_mmap* mmap, const doca_dev* dev, const void** export_desc,
                                  size_t* export_desc_len) {
    if (mmap == nullptr || !comch::doca::is_open(dev) || export_desc == nullptr ||
        export_desc_len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (mmap->collects && mmap->chunks.size() == 1) {
        return doca_mmap_export_pci(mmap->chunks.front().get(), dev, export_desc, export_desc_len);
    }
    if (mmap->chunks.size() > 1) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED,
                      "cannot export the memory map: it has several ranges");
    }
    if (!mmap->started()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "cannot export the memory map: it is not started");
    }
    if (mmap->imported()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "cannot export an imported memory map");
    }
    doca_mmap::Device* const found = mmap->find(dev->info.device);
    if (found == nullptr) {
        return refuse(DOCA_ERROR_NOT_FOUND,
                      "cannot export the memory map to a device that it does not have");
    }
    if (found->exported.empty()) {
        const doca_error_t result =
            guarded([&] { return export_to(dev->info.device, *mmap, found->exported); });
        if (result != DOCA_SUCCESS) {
            return result;
        }
    }
    *export_desc = found->exported.data();
    *export_desc_len = found->exported.size();
    return DOCA_SUCCESS;
}

doca_error_t doca_mmap_export_rdma(doca_mmap* mmap, const doca_dev* dev, const void** export_desc,
                                   size_t* export_desc_len) {
    return mmap == nullptr || dev == nullptr || export_desc == nullptr || export_desc_len == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : refuse(DOCA_ERROR_NOT_SUPPORTED, "there is no RDMA here: export the memory map "
                                                  "with doca_mmap_export_pci");
}

doca_error_t(doca_mmap_create_from_export)(const doca_data* user_data, const void* export_desc,
                                           size_t export_desc_len, doca_dev* dev,
                                           doca_mmap** mmap) {
    if (export_desc == nullptr || export_desc_len == 0 || !comch::doca::is_open(dev) ||
        mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        return import_to(*dev, {static_cast<const std::byte*>(export_desc), export_desc_len},
                         user_data, *mmap);
    });
}

doca_error_t doca_mmap_cap_is_export_pci_supported(const doca_devinfo* devinfo,
                                                   uint8_t* mmap_export) {
    return comch::doca::fixed_capability(devinfo, mmap_export, 1);
}

doca_error_t doca_mmap_cap_is_create_from_export_pci_supported(const doca_devinfo* devinfo,
                                                               uint8_t* from_export) {
    return comch::doca::fixed_capability(devinfo, from_export, 1);
}

doca_error_t doca_mmap_dev_get_dpa_handle(doca_mmap* mmap, const doca_dev* dev,
                                          doca_dpa_dev_mmap_t* dpa_mmap) {
    if (mmap == nullptr || !comch::doca::is_open(dev) || dpa_mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!mmap->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (mmap->find(dev->info.device) == nullptr) {
        return refuse(DOCA_ERROR_NOT_FOUND, "the memory map does not have this device");
    }
    return guarded([&] {
        *dpa_mmap = comch::doca::handle_of(*mmap);
        return DOCA_SUCCESS;
    });
}

// ---- 2023 and before ----------------------------------------------------------------------------

doca_error_t doca_mmap_create_2023(const doca_data* user_data, doca_mmap** mmap) {
    const doca_error_t result = doca_mmap_create(mmap);
    if (result == DOCA_SUCCESS) {
        (*mmap)->of_2023 = true;
        (*mmap)->user_data = user_data != nullptr ? *user_data : doca_data{};
    }
    return result;
}

doca_error_t doca_mmap_populate(doca_mmap* mmap, void* addr, size_t len, size_t pg_sz,
                                doca_mmap_memrange_free_cb_t* free_cb, void* opaque) {
    if (mmap == nullptr || !is_range(addr, len) || pg_sz < 4096 || !std::has_single_bit(pg_sz)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!mmap->collects) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot populate the memory map: it was not started without a range");
    }
    if (is_exported(*mmap)) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "cannot populate the memory map: it is exported");
    }
    if (std::any_of(mmap->chunks.begin(), mmap->chunks.end(),
                    [&](const auto& chunk) { return overlap(*chunk, addr, len); })) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot populate the memory map: it has some of this range already");
    }
    if (mmap->chunks.size() >= mmap->max_chunks) {
        return refuse(DOCA_ERROR_NO_MEMORY, "the memory map has as many ranges as it was set to "
                                            "have (doca_mmap_set_max_num_chunks)");
    }
    return guarded([&] { return populate(*mmap, addr, len, free_cb, opaque); });
}

doca_error_t doca_mmap_set_max_num_chunks(doca_mmap* mmap, uint32_t max_num_chunks) {
    if (max_num_chunks == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = settable(mmap);
    if (result == DOCA_SUCCESS) {
        mmap->max_chunks = max_num_chunks;
    }
    return result;
}

doca_error_t doca_mmap_get_max_num_chunks(const doca_mmap* mmap, uint32_t* max_num_chunks) {
    if (mmap == nullptr || max_num_chunks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_chunks = mmap->max_chunks;
    return DOCA_SUCCESS;
}

doca_error_t(doca_mmap_export)(doca_mmap* mmap, const doca_dev* dev, void** export_desc,
                               size_t* export_desc_len) {
    if (export_desc == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const void* exported = nullptr;
    const doca_error_t result = doca_mmap_export_pci(mmap, dev, &exported, export_desc_len);
    if (result != DOCA_SUCCESS) {
        return result;
    }
    void* const copy = std::malloc(*export_desc_len);
    if (copy == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    *export_desc = std::memcpy(copy, exported, *export_desc_len);
    return DOCA_SUCCESS;
}
