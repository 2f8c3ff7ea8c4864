// What is open: the handles that programs hold of devices, or of representors.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "doca_comch/common/never_destroyed.hpp"

namespace comch::doca {

/// Never destroyed: programs close at their exit, too.
template <class T> struct OpenTable {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> list; ///< guarded, as are the changes of `opened`

    [[nodiscard]] static OpenTable& instance() { return never_destroyed<OpenTable>(); }

    /// Under the lock.
    [[nodiscard]] auto find(const T* wanted) {
        return std::find_if(list.begin(), list.end(),
                            [&](const auto& each) { return each.get() == wanted; });
    }
    [[nodiscard]] bool has(const T* wanted) {
        const std::lock_guard lock(mutex);
        return find(wanted) != list.end();
    }
    /// Adds a user to one that is open.
    [[nodiscard]] bool hold(T* wanted) {
        const std::lock_guard lock(mutex);
        const bool found = find(wanted) != list.end();
        if (found) {
            wanted->users.fetch_add(1, std::memory_order_relaxed);
        }
        return found;
    }
};

} // namespace comch::doca
