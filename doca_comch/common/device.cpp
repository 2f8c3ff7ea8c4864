// doca_dev.h: devices.
#include "doca_comch/common/device.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <net/if.h>

#include "core/device/environment.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/function_info.hpp"
#include "doca_comch/common/info_list.hpp"
#include "doca_comch/common/open_table.hpp"
#include "doca_comch/common/status.hpp"

using comch::Device;
using comch::FunctionKind;
using comch::Side;
using comch::doca::copy_index;
using comch::doca::copy_text;
using comch::doca::fixed_capability;
using comch::doca::guarded;
using comch::doca::OpenTable;
using comch::doca::refuse;

namespace {

/// Of both sides, unless the environment names one.
comch::Result<std::vector<Device>> find_devices() {
    const auto domain = comch::Domain::open();
    if (!domain) {
        return tl::unexpected(domain.error());
    }
    const std::string wanted = comch::environment("COMCH_SIDE");
    if (!wanted.empty()) {
        const auto side = comch::parse_side(wanted);
        if (!side) {
            return comch::fail(side.error().code, "COMCH_SIDE: " + side.error().message);
        }
        return comch::devices(*domain, *side);
    }
    std::vector<Device> found = comch::devices(*domain, Side::dpu);
    for (Device& device : comch::devices(*domain, Side::host)) {
        found.push_back(std::move(device));
    }
    return found;
}

} // namespace

bool comch::doca::hold(doca_dev* device) {
    return OpenTable<doca_dev>::instance().hold(device);
}
bool comch::doca::is_same(const Device& a, const Device& b) {
    return a.domain()->id() == b.domain()->id() && a.side() == b.side() &&
           a.function().id == b.function().id;
}

bool comch::doca::is_open(const doca_dev* device) {
    return OpenTable<doca_dev>::instance().has(device);
}

doca_error_t doca_devinfo_create_list(doca_devinfo*** dev_list, std::uint32_t* nb_devs) {
    if (dev_list == nullptr || nb_devs == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return comch::doca::create_list(*dev_list, *nb_devs, find_devices);
}

doca_error_t doca_devinfo_destroy_list(doca_devinfo** dev_list) {
    if (dev_list == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    comch::doca::destroy_list(dev_list);
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_open(doca_devinfo* devinfo, doca_dev** dev) {
    if (devinfo == nullptr || dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = OpenTable<doca_dev>::instance();
    const std::lock_guard lock(open.mutex);
    for (const std::unique_ptr<doca_dev>& other : open.list) {
        if (comch::doca::is_same(other->info.device, devinfo->device)) {
            ++other->opened;
            *dev = other.get();
            return DOCA_SUCCESS;
        }
    }
    return guarded([&] {
        open.list.push_back(std::unique_ptr<doca_dev>(new doca_dev{.info = *devinfo}));
        *dev = open.list.back().get();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dev_close(doca_dev* dev) {
    if (dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = OpenTable<doca_dev>::instance();
    const std::lock_guard lock(open.mutex);
    const auto found = open.find(dev);
    if (found == open.list.end()) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "cannot close a device that is not open");
    }
    if (dev->opened == 1 && dev->users.load(std::memory_order_acquire) != 0) {
        return refuse(DOCA_ERROR_IN_USE, "cannot close the device: contexts that were created on "
                                         "it are not destroyed");
    }
    if (--dev->opened == 0) {
        open.list.erase(found);
    }
    return DOCA_SUCCESS;
}

doca_devinfo* doca_dev_as_devinfo(const doca_dev* dev) {
    return dev == nullptr ? nullptr : const_cast<doca_devinfo*>(&dev->info);
}

doca_error_t doca_devinfo_get_pci_func_type(const doca_devinfo* devinfo,
                                            doca_pci_func_type* pci_func_type) {
    if (devinfo == nullptr || pci_func_type == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *pci_func_type = comch::doca::type_of(devinfo->device.function().kind);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_vuid(const doca_devinfo* devinfo, char* vuid, std::uint32_t size) {
    return devinfo == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : copy_text(devinfo->device.function().vuid, vuid, size, DOCA_DEVINFO_VUID_SIZE);
}

doca_error_t doca_devinfo_get_pci_addr_str(const doca_devinfo* devinfo, char* pci_addr_str) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : copy_text(devinfo->device.function().pci_address, pci_addr_str,
                                          DOCA_DEVINFO_PCI_ADDR_SIZE, DOCA_DEVINFO_PCI_ADDR_SIZE);
}

doca_error_t doca_devinfo_is_equal_pci_addr(const doca_devinfo* devinfo, const char* pci_addr_str,
                                            std::uint8_t* is_equal) {
    return devinfo == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : comch::doca::compare_address(devinfo->device.function(), pci_addr_str, is_equal);
}

doca_error_t doca_devinfo_get_ipv4_addr(const doca_devinfo* devinfo, std::uint8_t* ipv4_addr,
                                        std::uint32_t size) {
    return devinfo == nullptr || ipv4_addr == nullptr || size < DOCA_DEVINFO_IPV4_ADDR_SIZE
               ? DOCA_ERROR_INVALID_VALUE
               : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t doca_devinfo_get_ipv6_addr(const doca_devinfo* devinfo, std::uint8_t* ipv6_addr,
                                        std::uint32_t size) {
    return devinfo == nullptr || ipv6_addr == nullptr || size < DOCA_DEVINFO_IPV6_ADDR_SIZE
               ? DOCA_ERROR_INVALID_VALUE
               : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t doca_devinfo_get_mac_addr(const doca_devinfo* devinfo, std::uint8_t* mac_addr,
                                       std::uint32_t size) {
    if (devinfo == nullptr || mac_addr == nullptr || size < DOCA_DEVINFO_MAC_ADDR_SIZE) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const auto& mac = devinfo->device.function().mac;
    if (!mac) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    std::memcpy(mac_addr, mac->data(), mac->size());
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_iface_name(const doca_devinfo* devinfo, char* iface_name,
                                         std::uint32_t size) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : copy_text(devinfo->device.function().iface, iface_name, size,
                                          DOCA_DEVINFO_IFACE_NAME_SIZE);
}

doca_error_t doca_devinfo_get_iface_index(const doca_devinfo* devinfo, std::uint32_t* iface_index) {
    if (devinfo == nullptr || iface_index == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const unsigned found = ::if_nametoindex(devinfo->device.function().iface.c_str());
    if (found == 0) {
        return DOCA_ERROR_NOT_FOUND;
    }
    *iface_index = found;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_get_ibdev_name(const doca_devinfo* devinfo, char* ibdev_name,
                                         std::uint32_t size) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : copy_text(devinfo->device.function().name, ibdev_name, size,
                                          DOCA_DEVINFO_IBDEV_NAME_SIZE);
}

doca_error_t doca_devinfo_get_sf_index(const doca_devinfo* devinfo, std::uint32_t* sf_index) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : copy_index(devinfo->device.function(), FunctionKind::sf, sf_index);
}

doca_error_t doca_devinfo_get_lid(const doca_devinfo* devinfo, std::uint16_t* lid) {
    return devinfo == nullptr || lid == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t doca_devinfo_get_active_rate(const doca_devinfo* devinfo, std::uint64_t* active_rate) {
    return devinfo == nullptr || active_rate == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                        : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t doca_devinfo_get_vhca_id(const doca_devinfo* devinfo, std::uint16_t* vhca_id) {
    if (devinfo == nullptr || vhca_id == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *vhca_id = comch::doca::vhca_id_of(*devinfo->device.domain(), devinfo->device.function());
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_cap_is_hotplug_manager_supported(const doca_devinfo* devinfo,
                                                           std::uint8_t* is_hotplug_manager) {
    return fixed_capability(devinfo, is_hotplug_manager, 0);
}

doca_error_t doca_devinfo_cap_is_notification_moderation_supported(const doca_devinfo* devinfo,
                                                                   std::uint8_t* is_supported) {
    return fixed_capability(devinfo, is_supported, 0);
}

doca_error_t doca_devinfo_cap_is_accelerate_resource_reclaim_supported(const doca_devinfo* devinfo,
                                                                       std::uint8_t* supported) {
    return fixed_capability(devinfo, supported, 0);
}

doca_error_t doca_dev_accelerate_resource_reclaim(const doca_dev* dev) {
    return dev == nullptr ? DOCA_ERROR_INVALID_VALUE : DOCA_ERROR_NOT_SUPPORTED;
}
