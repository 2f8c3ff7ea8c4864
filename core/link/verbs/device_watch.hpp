// What the device has said, on its own account, of one object of ours.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/link/verbs/rdma_device.hpp"

namespace comch::link::verbs {

/// From the making of a queue pair, completion queue or shared receive queue until just before it is
/// destroyed.
class DeviceWatch {
public:
    DeviceWatch(std::shared_ptr<RdmaDevice> device, const void* object)
        : device_(std::move(device)), object_(object) {
        device_->watch(object_, said_);
    }
    ~DeviceWatch() { device_->unwatch(object_); }
    DeviceWatch(const DeviceWatch&) = delete;
    DeviceWatch& operator=(const DeviceWatch&) = delete;

    /// The device has given the object up.
    [[nodiscard]] bool failed() const noexcept {
        return said_.error.load(std::memory_order_acquire) >= 0;
    }
    /// Why, for people; once it has failed.
    [[nodiscard]] std::string why() const {
        return ::ibv_event_type_str(
            static_cast<ibv_event_type>(said_.error.load(std::memory_order_acquire)));
    }
    /// Because of what the peer sent or asked for; once it has failed.
    [[nodiscard]] bool refused_peer() const noexcept {
        const int error = said_.error.load(std::memory_order_acquire);
        return error == IBV_EVENT_QP_REQ_ERR || error == IBV_EVENT_QP_ACCESS_ERR;
    }
    /// A queue pair that does not work any more has taken its last receive buffer.
    [[nodiscard]] bool last_receive() const noexcept {
        return said_.last_receive.load(std::memory_order_acquire);
    }

private:
    std::shared_ptr<RdmaDevice> device_;
    const void* object_;
    RdmaDevice::Said said_;
};

} // namespace comch::link::verbs
