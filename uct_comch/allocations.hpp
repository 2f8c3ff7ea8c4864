// What UCX has had allocated by comch in this process, to be found by address.
//
// UCP registers the buffer of every long message, also where it lies in memory that comch
// allocated. A registration of its own would be new to the peer each time; by the allocation's name
// the peer finds the mapping that it has. Its key then reaches all of the allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "core/memory/region_key.hpp"

namespace comch::uct {

/// Any thread.
class Allocations {
public:
    /// Those of this process.
    [[nodiscard]] static Allocations& instance();

    void add(const RegionKey& key);
    /// Before the memory is given back.
    void remove(const RegionKey& key);

    /// The key of the allocation that all of the range lies in, if no more is granted there
    /// than this access.
    [[nodiscard]] std::optional<RegionKey> around(std::uint64_t address, std::uint64_t length,
                                                  std::uint32_t access) const;

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, RegionKey> by_base_;
    /// Whoever asks about an allocation of its own knows that it is there: relaxed.
    std::atomic<bool> any_{false};
};

} // namespace comch::uct
