// An object of which each process has one of its own: a forked child starts with a new one.
//
// What a child inherits of such an object may be half changed, by threads that it has not, its
// locks held for ever; and what is in it (registrations with devices, connections) is its parent's.
// To hold the locks around each fork instead would be a deadlock with whoever else does something
// before forks, and calls us there: UCX gives memory back then.
#pragma once

#include <atomic>

#include "core/device/process_id.hpp"

namespace comch {

/// To be declared static and constinit. The object is made at first use, and never destroyed: it
/// may be asked for by static destructors of other libraries. Any thread.
template <class T> class PerProcess {
public:
    constexpr PerProcess() = default;
    PerProcess(const PerProcess&) = delete;
    PerProcess& operator=(const PerProcess&) = delete;

    [[nodiscard]] T& get() {
        // Acquire: pairs with make(), which has constructed it.
        Own* const own = own_.load(std::memory_order_acquire);
        return own != nullptr && own->process == process_id() ? own->object : make(own);
    }

private:
    struct Own {
        ProcessId process;
        Own* of_parent; ///< so that nobody takes it for leaked: others may refer to what is in it
        T object;
        Own(ProcessId owner, Own* parents) : process(owner), of_parent(parents) {}
    };

    [[gnu::noinline]] T& make(Own* of_parent) {
        auto* const made = new Own(process_id(), of_parent);
        if (own_.compare_exchange_strong(of_parent, made, std::memory_order_acq_rel)) {
            return made->object;
        }
        delete made; // another thread was first
        return of_parent->object;
    }

    std::atomic<Own*> own_{nullptr};
};

} // namespace comch
