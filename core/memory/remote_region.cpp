#include "core/memory/remote_region.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace comch {
namespace {

/// Imports by owner and region. They die with their last RemoteRegion; the entry goes with them.
struct ImportTable {
    std::mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<Import>> entries;
};

ImportTable& table() {
    // Never destroyed: keys may be released by static destructors of other libraries.
    static auto* instance = new ImportTable;
    return *instance;
}

} // namespace

void Import::set_mapped(Mapping mapping) noexcept {
    mapping_ = std::move(mapping);
    // Release: pairs with data(). The state follows, for those who only ask.
    data_.store(mapping_.data(), std::memory_order_release);
    state_.store(State::mapped, std::memory_order_release);
}

RemoteRegion::RemoteRegion(const RegionKey& key) : key_(key) {
    if (key.mappable == 0) {
        return;
    }
    ImportTable& imports = table();
    const std::lock_guard lock(imports.mutex);
    auto& entry = imports.entries[{key.process_id, key.region}];
    import_ = entry.lock();
    if (!import_) {
        const std::pair<std::uint64_t, std::uint64_t> name{key.process_id, key.region};
        import_ = std::shared_ptr<Import>(new Import, [name](Import* import) {
            {
                ImportTable& all = table();
                const std::lock_guard guard(all.mutex);
                const auto it = all.entries.find(name);
                if (it != all.entries.end() && it->second.expired()) {
                    all.entries.erase(it);
                }
            }
            delete import;
        });
        entry = import_;
    }
}

std::shared_ptr<Import> find_import(std::uint64_t process_id, std::uint64_t region) {
    ImportTable& imports = table();
    const std::lock_guard lock(imports.mutex);
    const auto it = imports.entries.find({process_id, region});
    return it == imports.entries.end() ? nullptr : it->second.lock();
}

} // namespace comch
