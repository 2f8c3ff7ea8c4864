// How other threads reach the thread that a context belongs to.
//
// The flag is looked at on every progress call, so it must cost no more than a load; what it stands
// for is guarded by a mutex elsewhere. Shared by the context and by whoever may notify it, so that
// neither needs to know how long the other lives.
#pragma once

#include <atomic>
#include <mutex>

#include <comch/progress.hpp>

namespace comch::channel {

class Notifier {
public:
    explicit Notifier(ProgressEngine& engine) noexcept : engine_(&engine) {}

    /// Any thread. What is to be found is in place already.
    void notify() noexcept {
        // Release: who sees the flag sees what was put in place before it.
        pending_.store(true, std::memory_order_release);
        const std::lock_guard lock(mutex_);
        if (engine_ != nullptr) {
            engine_->wake();
        }
    }

    /// The owner's thread: was somebody here since the last time?
    [[nodiscard]] bool take() noexcept {
        // Relaxed first: a plain load in the usual case. Acquire: pairs with notify().
        return pending_.load(std::memory_order_relaxed) &&
               pending_.exchange(false, std::memory_order_acquire);
    }
    [[nodiscard]] bool pending() const noexcept { return pending_.load(std::memory_order_relaxed); }

    /// The owner goes away; notify() does nothing from now on.
    void detach() noexcept {
        const std::lock_guard lock(mutex_);
        engine_ = nullptr;
    }

private:
    std::atomic<bool> pending_{false};
    std::mutex mutex_; ///< of engine_ only; a leaf: nothing is locked under it
    ProgressEngine* engine_;
};

} // namespace comch::channel
