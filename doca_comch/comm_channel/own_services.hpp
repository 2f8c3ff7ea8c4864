// The services of this process. Any thread.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <comch/device.hpp>

namespace comch::doca {

class OwnServices {
public:
    /// A name, and the host function for whose clients it is.
    using Service = std::pair<FunctionId, std::string>;

    static OwnServices& instance() {
        static OwnServices all;
        return all;
    }
    void add(const Service& service) {
        const std::lock_guard lock(mutex_);
        all_.insert(service);
    }
    void remove(const Service& service) {
        const std::lock_guard lock(mutex_);
        if (const auto found = all_.find(service); found != all_.end()) {
            all_.erase(found);
        }
    }
    [[nodiscard]] bool has(const Service& service) {
        const std::lock_guard lock(mutex_);
        return all_.find(service) != all_.end();
    }

private:
    std::mutex mutex_;
    std::multiset<Service> all_; ///< each DPU function has names of its own
};

} // namespace comch::doca
