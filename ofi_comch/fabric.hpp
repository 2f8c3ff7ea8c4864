// The fabric: comch's domain of one device, under whose lock connections are made.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <comch/device.hpp>

#include "libfabric.hpp"
#include "lock.hpp"
#include "over_link.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

class ProgressThread;
struct ConnectionRequest;

struct Fabric {
    fid_fabric fid{};
    Device device;
    std::shared_ptr<Lock> lock = std::make_shared<Lock>();
    /// Of the domains of connected endpoints that want one; while there are any.
    std::weak_ptr<ProgressThread> progress_thread;
    std::atomic<unsigned> references{0};
    /// The program has them, and their passive endpoint is closed.
    std::vector<std::shared_ptr<ConnectionRequest>> left_requests;
    /// Requests that the program has not answered, those included: there is room for all of them.
    std::size_t unanswered = 0;

    explicit Fabric(Device opened) : device(std::move(opened)) {}
};

/// On a device whose domain has this copy's link.
[[nodiscard]] int open_fabric(Device device, std::uint32_t version, fid_fabric** fabric,
                              void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
