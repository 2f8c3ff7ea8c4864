// The fabric: comch's domain of one device, under whose lock connections are made.
#pragma once

#include <atomic>
#include <memory>

#include <comch/device.hpp>

#include "libfabric.hpp"
#include "lock.hpp"

namespace comch::ofi {

struct Fabric {
    fid_fabric fid{};
    Device device;
    std::shared_ptr<Lock> lock = std::make_shared<Lock>();
    std::atomic<unsigned> references{0};

    explicit Fabric(Device opened) : device(std::move(opened)) {}
};

[[nodiscard]] int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context);

} // namespace comch::ofi
