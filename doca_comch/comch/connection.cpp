#include "doca_comch/comch/connection.hpp"

#include <deque>
#include <memory>

#include "doca_comch/comch/control.hpp"
#include "doca_comch/common/resting_handles.hpp"

namespace comch::doca {

/// All handles there are, and those that are over.
struct Handles {
    std::mutex mutex;
    std::deque<std::unique_ptr<ConnectionHandle>> all;
    RestingHandles<ConnectionHandle, 256> over;

    static Handles& instance() {
        // Never destroyed: programs may hold handles until they end.
        static Handles* const handles = new Handles;
        return *handles;
    }

    ConnectionHandle& take() {
        const std::lock_guard lock(mutex);
        if (ConnectionHandle* const oldest = over.take(); oldest != nullptr) {
            return *oldest;
        }
        all.push_back(std::unique_ptr<ConnectionHandle>(new ConnectionHandle));
        return *all.back();
    }
};

ConnectionHandle& ConnectionHandle::make(ControlContext& owner, Connection* core) {
    ConnectionHandle& handle = Handles::instance().take();
    const std::lock_guard lock(handle.mutex_);
    handle.core_ = core;
    handle.attached_ = 0;
    handle.user_data = {};
    handle.snapshot = {};
    handle.status = core != nullptr ? Errc::ok : Errc::not_connected;
    handle.busy = false;
    handle.disconnecting_ = false;
    handle.owner_.store(&owner, std::memory_order_release);
    return handle;
}

void ConnectionHandle::end(Errc why) noexcept {
    const std::lock_guard lock(mutex_);
    core_ = nullptr;
    disconnecting_ = false;
    status = why;
}

bool ConnectionHandle::begin_disconnect() noexcept {
    const std::lock_guard lock(mutex_);
    disconnecting_ = attached_ == 0;
    return disconnecting_;
}

void ConnectionHandle::cease_disconnecting() noexcept {
    const std::lock_guard lock(mutex_);
    disconnecting_ = false;
}

void ConnectionHandle::retire() noexcept {
    {
        const std::lock_guard lock(mutex_);
        core_ = nullptr;
        attached_ = 0;
        generation_.fetch_add(1, std::memory_order_acq_rel);
        owner_.store(nullptr, std::memory_order_release);
    }
    Handles& handles = Handles::instance();
    const std::lock_guard lock(handles.mutex);
    handles.over.push(*this);
}

void ConnectionHandle::detach(std::uint32_t generation) noexcept {
    const std::lock_guard lock(mutex_);
    if (generation == this->generation() && attached_ != 0) {
        --attached_;
    }
}

bool ConnectionHandle::has_attached() const noexcept {
    const std::lock_guard lock(mutex_);
    return attached_ != 0;
}

} // namespace comch::doca
