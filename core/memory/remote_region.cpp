#include "core/memory/remote_region.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "core/device/per_process.hpp"

namespace comch {
namespace {

/// Imports by owner and region, kept after their last RemoteRegion: rendezvous protocols unpack a key
/// for every message, and mapping costs a round trip and the page faults. An owner that frees memory
/// takes its pages back, so what is kept too long here is address space only.
struct ImportTable {
    static constexpr std::size_t max_kept = 256;

    struct Entry {
        std::shared_ptr<Import> import;
        std::uint64_t last_use = 0;
    };

    std::mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Entry> entries;
    std::uint64_t uses = 0;

    void evict_oldest_unused() {
        auto oldest = entries.end();
        for (auto it = entries.begin(); it != entries.end(); ++it) {
            if (it->second.import.use_count() == 1 &&
                (oldest == entries.end() || it->second.last_use < oldest->second.last_use)) {
                oldest = it;
            }
        }
        if (oldest != entries.end()) {
            entries.erase(oldest);
        }
    }
};

ImportTable& table() {
    static constinit PerProcess<ImportTable> instance;
    return instance.get();
}

} // namespace

void Import::set_mapped(Mapping mapping, bool writable) noexcept {
    mapping_ = std::move(mapping);
    writable_ = writable;
    // Release: pairs with data(). The state follows, for those who only ask.
    data_.store(mapping_.data(), std::memory_order_release);
    state_.store(State::mapped, std::memory_order_release);
}

RemoteRegion::RemoteRegion(const RegionKey& key) : key_(key) {
    // A memfd is handed out whole, so a region that does not begin with a page is a lie, and atomics
    // on its mapping would not be aligned.
    if (key.mappable == 0 || key.base % mapping_alignment != 0) {
        return;
    }
    ImportTable& imports = table();
    const std::lock_guard lock(imports.mutex);
    if (imports.entries.size() >= ImportTable::max_kept) {
        imports.evict_oldest_unused();
    }
    auto& entry = imports.entries[{key.process_id, key.region}];
    if (!entry.import) {
        entry.import = std::make_shared<Import>();
    }
    entry.last_use = ++imports.uses;
    import_ = entry.import;
}

void forget_imports_of(std::uint64_t process_id) {
    ImportTable& imports = table();
    const std::lock_guard lock(imports.mutex);
    const auto first = imports.entries.lower_bound({process_id, 0});
    auto last = first;
    while (last != imports.entries.end() && last->first.first == process_id) {
        ++last;
    }
    imports.entries.erase(first, last);
}

} // namespace comch
