// A domain: the scope of endpoints, queues and registered memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/memory/kept_registrations.hpp"
#include "fabric.hpp"
#include "libfabric.hpp"
#include "lock.hpp"
#include "over_link.hpp"
#include "station.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Cntr;
struct Domain;
struct Eq;
class Endpoint;

/// Registered memory.
struct Mr {
    fid_mr fid{};
    Domain* domain = nullptr;
    std::byte* base = nullptr;
    std::uint64_t length = 0;
    std::uint64_t access = 0;
    unsigned users = 0;           ///< transfers, and operations of ours, that are touching it
    Cntr* remote_write = nullptr; ///< bound for FI_RMA_EVENT
    Cntr* remote_read = nullptr;
    std::uint64_t flags = 0;
    std::uint64_t region = 0; ///< by which the link's device knows it, or 0
    bool shown = false;       ///< it was to get to know it
    bool told = false;        ///< peers may have their devices at it
};

struct Domain {
    fid_domain fid{};
    Fabric* fabric = nullptr;
    std::shared_ptr<Lock> lock;
    std::shared_ptr<ProgressThread> progress_thread; ///< FI_PROGRESS_AUTO
    std::atomic<unsigned> references{0};
    bool virtual_addresses = false; ///< peers name memory by its address, not by an offset
    bool own_keys = false;          ///< keys are ours to choose
    bool pages_stay = false;        ///< registered memory has its pages, and keeps them
    std::uint64_t next_key = 1;
    std::unordered_map<std::uint64_t, Mr*> regions;
    std::multimap<const std::byte*, Mr*> regions_by_base;
    Eq* eq = nullptr; ///< of endpoints that are bound to none
    /// Of the connecting endpoints; while there are any.
    std::weak_ptr<Station> station;
    std::unique_ptr<KeptRegistrations> kept; ///< of the program's buffers; null: none are
    /// Peers reach registered memory through any of these, so each progresses with every counter
    /// of memory.
    std::vector<Endpoint*> enabled_endpoints;
    std::vector<Cntr*> memory_counters; ///< once for each binding

    /// With the lock held, as the others.
    void add_memory_counter(Cntr& cntr);
    void remove_memory_counter(Cntr& cntr);
    void add_enabled(Endpoint& endpoint);
    void remove_enabled(Endpoint& endpoint);

    /// The memory that a peer names, if it may do `access` to it.
    [[nodiscard]] std::byte* find(std::uint64_t key, std::uint64_t address, std::uint64_t length,
                                  std::uint64_t access, Mr*& mr) noexcept {
        const auto found = regions.find(key);
        if (found == regions.end()) {
            return nullptr;
        }
        mr = found->second;
        const std::uint64_t base =
            virtual_addresses ? reinterpret_cast<std::uint64_t>(mr->base) : 0;
        if ((mr->access & access) != access || address < base || address - base > mr->length ||
            length > mr->length - (address - base)) {
            return nullptr;
        }
        return mr->base + (address - base);
    }
    /// What the program has registered around its own buffer; null: nothing that is easy to find.
    [[nodiscard]] Mr* around(const std::byte* at, std::uint64_t length) const noexcept {
        auto found = regions_by_base.upper_bound(at);
        if (found == regions_by_base.begin()) {
            return nullptr;
        }
        Mr* const mr = (--found)->second;
        const auto offset = static_cast<std::uint64_t>(at - mr->base);
        return offset <= mr->length && length <= mr->length - offset ? mr : nullptr;
    }
};

[[nodiscard]] int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain,
                              void* context);

/// Entries of the domain's table of operations on memory.
extern fi_ops_mr mr_ops;

} // namespace comch::ofi::inline COMCH_OFI_LINK
