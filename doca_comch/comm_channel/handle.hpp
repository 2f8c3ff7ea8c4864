// Handles that programs hold: they stay readable for ever, so that one which is used after its end
// is found out rather than followed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace comch::doca {

/// What a handle leads to; null when it has ended. The mark is another one for each kind of handle:
/// programs in C are easily mistaken about what they hold.
template <class T, std::uint64_t Mark> struct Handle {
    const std::uint64_t mark = Mark;
    std::atomic<T*> object{nullptr};

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
        H* handle = nullptr;
        if (ended_.size() > rest) {
            handle = ended_.front();
            ended_.pop_front();
        } else {
            handle = &all_.emplace_back();
        }
        handle->object = object;
        return handle;
    }

    void give_back(H* handle) {
        const std::lock_guard lock(mutex_);
        handle->object = nullptr;
        ended_.push_back(handle);
    }

private:
    HandlePool() = default;
    /// An ended handle rests while this many others end, before it means something else.
    static constexpr std::size_t rest = 1024;

    std::mutex mutex_;
    std::deque<H> all_;
    std::deque<H*> ended_;
};

} // namespace comch::doca
