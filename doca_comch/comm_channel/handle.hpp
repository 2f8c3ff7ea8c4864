// Handles that programs hold: they stay readable for ever, so that one which is used after its end
// is found out rather than followed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "doca_comch/common/resting_handles.hpp"

namespace comch::doca {

/// What a handle leads to; null when it has ended. The mark is another one for each kind of handle:
/// programs in C are easily mistaken about what they hold.
template <class T, std::uint64_t Mark> struct Handle {
    using Base = Handle;

    const std::uint64_t mark = Mark;
    std::atomic<T*> object{nullptr};
    Handle* next_resting = nullptr;

    /// Null, too, of a null pointer and of what is no handle of this kind.
    [[nodiscard]] static T* object_of(const Handle* handle) noexcept {
        return handle != nullptr && handle->mark == Mark ? handle->object.load() : nullptr;
    }
};

/// Hands out handles of type H, derived from Handle.
template <class H> class HandlePool {
public:
    /// One per process, never destroyed.
    [[nodiscard]] static HandlePool& instance() {
        static HandlePool* const pool = new HandlePool;
        return *pool;
    }

    template <class Object> [[nodiscard]] H* take(Object* object) {
        const std::lock_guard lock(mutex_);
        H* handle = static_cast<H*>(ended_.take());
        if (handle == nullptr) {
            handle = &all_.emplace_back();
        }
        handle->object = object;
        return handle;
    }

    void give_back(H* handle) noexcept {
        const std::lock_guard lock(mutex_);
        handle->object = nullptr;
        ended_.push(*handle);
    }

private:
    HandlePool() = default;

    std::mutex mutex_;
    std::deque<H> all_;
    RestingHandles<typename H::Base, 1024> ended_;
};

} // namespace comch::doca
