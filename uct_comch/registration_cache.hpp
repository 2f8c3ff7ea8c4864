// Registrations with an RDMA device that outlive what they were made for.
//
// UCP registers the buffer of every long message and ends that after it, and a device takes longer to
// pin the pages than to send them. So the device's registration is kept: until the memory is unmapped,
// which UCX's memory hooks tell of, or too much is kept. It is UCX's own cache, which also joins
// ranges that overlap.
//
// What UCP gets is a registration of its own all the same: our table's, for exactly its range, which
// ends when UCP says so. Only the device's keys are the kept one's. They let a peer that has been
// given one write there until the memory is unmapped; who does not want that asks for a key that can
// be revoked, or switches this off (UCX_COMCH_RCACHE).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "ucx_compat.hpp"

namespace comch::uct {

/// Any thread.
class RegistrationCache {
public:
    /// What it keeps: both reading and writing, for peers; nothing else is asked for message by
    /// message.
    static constexpr unsigned access = UCT_MD_MEM_ACCESS_RMA;

    struct Kept {
        ucs_rcache_region_t super;
        std::uint64_t region; ///< RegionTable's; the device knows the memory by this
    };

    /// Ranges that overlap are joined up to this length, or twice that of the one at hand. Of an
    /// array that is sent in slices, many of them under way, each would be joined to all before it,
    /// and those be pinned once more.
    static constexpr std::size_t longest_joined = std::size_t{64} << 20;

    /// Has the device know a region; false: it cannot.
    using MakeKnown = std::function<bool(std::uint64_t region)>;

    /// Null where UCX cannot tell when memory is unmapped.
    [[nodiscard]] static std::unique_ptr<RegistrationCache>
    create(const uct_md_rcache_config_t& config, MakeKnown make_known);
    ~RegistrationCache();
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;

    /// Holds all of the range until put(); null if it cannot be kept.
    [[nodiscard]] Kept* get(void* address, std::size_t length, unsigned flags);
    void put(Kept* kept);

private:
    explicit RegistrationCache(MakeKnown make_known) : make_known_(std::move(make_known)) {}

    static ucs_status_t add(void* self, ucs_rcache_t* cache, void* flags,
                            ucs_rcache_region_t* region, std::uint16_t rcache_flags);
    static void remove(void* self, ucs_rcache_t* cache, ucs_rcache_region_t* region);

    MakeKnown make_known_;
    ucs_rcache_t* cache_ = nullptr;
};

} // namespace comch::uct
