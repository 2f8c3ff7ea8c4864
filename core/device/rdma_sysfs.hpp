// The RDMA devices of this machine as sysfs shows them, and what it tells of the side that they are on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <comch/device.hpp>

namespace comch {

struct RdmaPortInfo {
    std::uint32_t number = 1;
    std::string state;                   ///< "ACTIVE", "DOWN", ...
    std::vector<std::string> interfaces; ///< network interfaces that carry it
    std::vector<std::string> addresses;  ///< IP addresses that it can be reached at
};

struct RdmaDeviceInfo {
    std::string name;
    std::string pci_address; ///< full form; a scalable function's is that of its PF; empty: none
    std::vector<RdmaPortInfo> ports;
    /// Where its hardware says it is: on the DPU if its embedded switch has representors of host
    /// functions here, on the host if it is a BlueField's function without; nothing otherwise.
    std::optional<Side> side;
    /// On the DPU: the representors' interfaces, by what they stand for ("c1pf0", "pf0hpf", "pf0vf1").
    std::vector<std::string> representors;
};

/// `root`: where sysfs is mounted. Empty where there are none.
[[nodiscard]] std::vector<RdmaDeviceInfo> read_rdma_devices(const std::string& root = "/sys");

/// The description's function whose address one of the device's ports has, or null. What is
/// described comes before what the hardware says.
[[nodiscard]] const Function* function_of(const RdmaDeviceInfo& device,
                                          const DomainDescription& description);

/// Whether a port of one of the devices has the function's address, so that it can be opened here.
[[nodiscard]] bool is_here(const Function& function, const std::vector<RdmaDeviceInfo>& devices);

/// The side that this machine is on: whose address the devices have. Nothing if neither's or both's.
[[nodiscard]] std::optional<Side> side_of(const std::vector<RdmaDeviceInfo>& devices,
                                          const DomainDescription& description);

} // namespace comch
