// Devices and representors as the API hands them out.
#pragma once

#include <atomic>
#include <cstdint>

#include <comch/device.hpp>
#include <doca_dev.h>

struct doca_devinfo {
    comch::Device device;
};

struct doca_devinfo_rep {
    comch::Representor representor;
};

struct doca_dev {
    doca_devinfo info;
    unsigned opened = 1;                  ///< guarded by the table's mutex
    std::atomic<std::uint32_t> users = 0; ///< contexts created on it
};

struct doca_dev_rep {
    doca_devinfo_rep info;
    std::atomic<std::uint32_t> users = 0; ///< servers created on it
};

namespace comch::doca {

/// Adds a user, if it is open: what a program hands over may have been closed, or be something
/// else. Whoever gives it up takes the user off again.
[[nodiscard]] bool hold(doca_dev* device);
[[nodiscard]] bool hold(doca_dev_rep* representor);
/// Not null, and not closed.
[[nodiscard]] bool is_open(const doca_dev* device);
[[nodiscard]] bool is_open(const doca_dev_rep* representor);
/// The same function of the same domain, seen from the same side.
[[nodiscard]] bool is_same(const Device& a, const Device& b);

} // namespace comch::doca
