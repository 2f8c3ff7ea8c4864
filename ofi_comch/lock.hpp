// One lock for everything that may touch a port from several threads: a domain's objects, and the
// fabric's where connections are made. Left out where the program promises to serialize.
#pragma once

#include <mutex>

namespace comch::ofi {

class Lock {
public:
    void lock() {
        if (on_) {
            mutex_.lock();
        }
    }
    void unlock() {
        if (on_) {
            mutex_.unlock();
        }
    }
    /// Before first use.
    void leave_out() noexcept { on_ = false; }

private:
    std::mutex mutex_;
    bool on_ = true;
};

using Guard = std::lock_guard<Lock>;

} // namespace comch::ofi
