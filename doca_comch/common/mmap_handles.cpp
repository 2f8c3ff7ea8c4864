#include "doca_comch/common/mmap_handles.hpp"

#include <map>
#include <mutex>

namespace comch::doca {
namespace {

struct Handles {
    std::mutex mutex;
    std::map<doca_dpa_dev_mmap_t, doca_mmap*> maps;
    doca_dpa_dev_mmap_t last = 0;

    static Handles& instance() {
        static Handles handles;
        return handles;
    }
};

} // namespace

doca_dpa_dev_mmap_t handle_of(doca_mmap& mmap) {
    Handles& handles = Handles::instance();
    const std::lock_guard lock(handles.mutex);
    for (const auto& [handle, map] : handles.maps) {
        if (map == &mmap) {
            return handle;
        }
    }
    handles.maps.emplace(++handles.last, &mmap);
    return handles.last;
}

doca_mmap* mmap_of(doca_dpa_dev_mmap_t handle) {
    Handles& handles = Handles::instance();
    const std::lock_guard lock(handles.mutex);
    const auto found = handles.maps.find(handle);
    return found == handles.maps.end() ? nullptr : found->second;
}

void forget_handle(doca_mmap& mmap) noexcept {
    Handles& handles = Handles::instance();
    const std::lock_guard lock(handles.mutex);
    std::erase_if(handles.maps, [&](const auto& entry) { return entry.second == &mmap; });
}

} // namespace comch::doca
