#include "doca_comch/common/device.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <net/if.h>

#include "core/device/environment.hpp"
#include "doca_comch/common/never_destroyed.hpp"
#include "doca_comch/common/status.hpp"

using comch::Device;
using comch::FunctionKind;
using comch::Representor;
using comch::Side;
using comch::doca::guarded;
using comch::doca::refuse;

namespace {

/// What is open. Never destroyed: programs close at their exit, too.
template <class T> struct Open {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> list; ///< guarded, as are the changes of `opened`

    static Open& instance() { return comch::doca::never_destroyed<Open>(); }
    auto find(const T* wanted) {
        return std::find_if(list.begin(), list.end(),
                            [&](const auto& each) { return each.get() == wanted; });
    }
};

template <class T> bool hold_open(T* wanted) {
    auto& open = Open<T>::instance();
    const std::lock_guard lock(open.mutex);
    const bool found = open.find(wanted) != open.list.end();
    if (found) {
        wanted->users.fetch_add(1, std::memory_order_relaxed);
    }
    return found;
}

template <class T> bool is_in_list(const T* wanted) {
    auto& open = Open<T>::instance();
    const std::lock_guard lock(open.mutex);
    return open.find(wanted) != open.list.end();
}

doca_error_t copy_text(std::string_view text, char* to, std::uint32_t size, std::uint32_t needed) {
    if (to == nullptr || size < needed) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::size_t length = std::min<std::size_t>(text.size(), needed - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
    return DOCA_SUCCESS;
}

doca_error_t compare_address(const comch::Function& function, const char* address,
                             std::uint8_t* equal) {
    if (address == nullptr || equal == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        const auto normal = comch::normalize_pci_address(address);
        if (!normal) {
            return refuse(normal.error());
        }
        *equal = *normal == function.pci_address ? 1 : 0;
        return DOCA_SUCCESS;
    });
}

doca_pci_func_type type_of(FunctionKind kind) {
    switch (kind) {
    case FunctionKind::vf:
        return DOCA_PCI_FUNC_TYPE_VF;
    case FunctionKind::sf:
        return DOCA_PCI_FUNC_TYPE_SF;
    default:
        return DOCA_PCI_FUNC_TYPE_PF;
    }
}

/// The number of a VF, say, if it is one.
doca_error_t copy_index(const comch::Function& function, FunctionKind kind, std::uint32_t* index) {
    if (index == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (function.kind != kind) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    *index = function.index;
    return DOCA_SUCCESS;
}

/// The PF that a function is or belongs to; null if its address does not tell: an SF has its PF's,
/// a VF is on the bus of its PF, of which there may be several.
const comch::Function* physical_function(const comch::Domain& domain,
                                         const comch::Function& function) {
    if (function.kind == FunctionKind::pf) {
        return &function;
    }
    const std::size_t shared =
        function.kind == FunctionKind::sf ? function.pci_address.size() : std::size("0000:3b:") - 1;
    const comch::Function* found = nullptr;
    for (const comch::Function& other : domain.description().host) {
        if (other.kind == FunctionKind::pf &&
            other.pci_address.compare(0, shared, function.pci_address, 0, shared) == 0) {
            if (found != nullptr) {
                return nullptr;
            }
            found = &other;
        }
    }
    return found;
}

/// The DPU is 0, the functions of the host follow.
std::uint16_t vhca_id_of(const comch::Domain& domain, const comch::Function& function) {
    if (function.side == Side::dpu) {
        return 0;
    }
    const auto& host = domain.description().host;
    const auto found = std::find_if(host.begin(), host.end(), [&](const comch::Function& other) {
        return other.id == function.id;
    });
    return static_cast<std::uint16_t>(found - host.begin() + 1);
}

template <class Info> void destroy_list(Info** list) {
    for (Info** at = list; *at != nullptr; ++at) {
        delete *at;
    }
    delete[] list;
}

/// Lists are arrays of pointers that end with a null; what they point to is the list's.
template <class Info, class Value> Info** make_list(const std::vector<Value>& values) {
    std::unique_ptr<Info*[], void (*)(Info**)> list(
        new Info* [values.size() + 1] {}, &destroy_list<Info>);
    for (std::size_t i = 0; i < values.size(); ++i) {
        list[i] = new Info{values[i]};
    }
    return list.release();
}

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

/// A list of what `find` finds.
template <class Info, class Find>
doca_error_t create_list(Info**& list, std::uint32_t& count, Find find) {
    list = nullptr;
    count = 0;
    return guarded([&] {
        const auto found = find();
        if (!found) {
            return refuse(found.error());
        }
        list = make_list<Info>(*found);
        count = static_cast<std::uint32_t>(found->size());
        return DOCA_SUCCESS;
    });
}

} // namespace

bool comch::doca::hold(doca_dev* device) {
    return hold_open(device);
}
bool comch::doca::hold(doca_dev_rep* representor) {
    return hold_open(representor);
}
bool comch::doca::is_same(const Device& a, const Device& b) {
    return a.domain()->id() == b.domain()->id() && a.side() == b.side() &&
           a.function().id == b.function().id;
}

bool comch::doca::is_open(const doca_dev* device) {
    return is_in_list(device);
}
bool comch::doca::is_open(const doca_dev_rep* representor) {
    return is_in_list(representor);
}

// ---- devices ------------------------------------------------------------------------------------

doca_error_t doca_devinfo_create_list(doca_devinfo*** dev_list, std::uint32_t* nb_devs) {
    if (dev_list == nullptr || nb_devs == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return create_list(*dev_list, *nb_devs, find_devices);
}

doca_error_t doca_devinfo_destroy_list(doca_devinfo** dev_list) {
    if (dev_list == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    destroy_list(dev_list);
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_open(doca_devinfo* devinfo, doca_dev** dev) {
    if (devinfo == nullptr || dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = Open<doca_dev>::instance();
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
    auto& open = Open<doca_dev>::instance();
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
    *pci_func_type = type_of(devinfo->device.function().kind);
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
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : compare_address(devinfo->device.function(), pci_addr_str, is_equal);
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
    *vhca_id = vhca_id_of(*devinfo->device.domain(), devinfo->device.function());
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_cap_is_hotplug_manager_supported(const doca_devinfo* devinfo,
                                                           std::uint8_t* is_hotplug_manager) {
    if (devinfo == nullptr || is_hotplug_manager == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_hotplug_manager = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_cap_is_notification_moderation_supported(const doca_devinfo* devinfo,
                                                                   std::uint8_t* is_supported) {
    if (devinfo == nullptr || is_supported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_supported = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_cap_is_accelerate_resource_reclaim_supported(const doca_devinfo* devinfo,
                                                                       std::uint8_t* supported) {
    if (devinfo == nullptr || supported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *supported = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_accelerate_resource_reclaim(const doca_dev* dev) {
    return dev == nullptr ? DOCA_ERROR_INVALID_VALUE : DOCA_ERROR_NOT_SUPPORTED;
}

// ---- representors -------------------------------------------------------------------------------

namespace {

doca_error_t lists_representors(const doca_devinfo* devinfo, std::uint8_t* supported) {
    if (devinfo == nullptr || supported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *supported = devinfo->device.side() == Side::dpu ? 1 : 0;
    return DOCA_SUCCESS;
}

} // namespace

doca_error_t doca_devinfo_rep_cap_is_filter_all_supported(const doca_devinfo* devinfo,
                                                          std::uint8_t* filter_all_supported) {
    return lists_representors(devinfo, filter_all_supported);
}

doca_error_t doca_devinfo_rep_cap_is_filter_net_supported(const doca_devinfo* devinfo,
                                                          std::uint8_t* filter_net_supported) {
    return lists_representors(devinfo, filter_net_supported);
}

doca_error_t
doca_devinfo_rep_cap_is_filter_emulated_supported(const doca_devinfo* devinfo,
                                                  std::uint8_t* filter_emulated_supported) {
    if (devinfo == nullptr || filter_emulated_supported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *filter_emulated_supported = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_create_list(doca_dev* dev, int filter,
                                          doca_devinfo_rep*** dev_list_rep,
                                          std::uint32_t* nb_devs_rep) {
    if (!comch::doca::is_open(dev) || dev_list_rep == nullptr || nb_devs_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dev_list_rep = nullptr;
    *nb_devs_rep = 0;
    if ((filter & ~(DOCA_DEVINFO_REP_FILTER_NET | DOCA_DEVINFO_REP_FILTER_EMULATED)) != 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (filter == DOCA_DEVINFO_REP_FILTER_EMULATED) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "there are no emulated functions: list "
                                                "representors with DOCA_DEVINFO_REP_FILTER_NET");
    }
    if (dev->info.device.side() == Side::host) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "the host has no representors: list them with a "
                                                "device of the DPU");
    }
    return create_list(*dev_list_rep, *nb_devs_rep,
                       [&] { return dev->info.device.representors(); });
}

doca_error_t doca_devinfo_rep_destroy_list(doca_devinfo_rep** dev_list_rep) {
    if (dev_list_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    destroy_list(dev_list_rep);
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_rep_open(doca_devinfo_rep* devinfo, doca_dev_rep** dev_rep) {
    if (devinfo == nullptr || dev_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = Open<doca_dev_rep>::instance();
    const std::lock_guard lock(open.mutex);
    return guarded([&] {
        open.list.push_back(std::unique_ptr<doca_dev_rep>(new doca_dev_rep{.info = *devinfo}));
        *dev_rep = open.list.back().get();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dev_rep_close(doca_dev_rep* dev_rep) {
    if (dev_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = Open<doca_dev_rep>::instance();
    const std::lock_guard lock(open.mutex);
    const auto found = open.find(dev_rep);
    if (found == open.list.end()) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "cannot close a representor that is not open");
    }
    if (dev_rep->users.load(std::memory_order_acquire) != 0) {
        return refuse(DOCA_ERROR_IN_USE, "cannot close the representor: servers that were created "
                                         "on it are not destroyed");
    }
    open.list.erase(found);
    return DOCA_SUCCESS;
}

doca_devinfo_rep* doca_dev_rep_as_devinfo(doca_dev_rep* dev_rep) {
    return dev_rep == nullptr ? nullptr : &dev_rep->info;
}

doca_error_t doca_devinfo_rep_get_vuid(const doca_devinfo_rep* devinfo_rep, char* rep_vuid,
                                       std::uint32_t size) {
    return devinfo_rep == nullptr ? DOCA_ERROR_INVALID_VALUE
                                  : copy_text(devinfo_rep->representor.function().vuid, rep_vuid,
                                              size, DOCA_DEVINFO_REP_VUID_SIZE);
}

doca_error_t doca_devinfo_rep_get_pci_addr_str(const doca_devinfo_rep* devinfo_rep,
                                               char* pci_addr_str) {
    return devinfo_rep == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : copy_text(devinfo_rep->representor.function().pci_address, pci_addr_str,
                           DOCA_DEVINFO_REP_PCI_ADDR_SIZE, DOCA_DEVINFO_REP_PCI_ADDR_SIZE);
}

doca_error_t doca_devinfo_rep_is_equal_pci_addr(const doca_devinfo_rep* devinfo_rep,
                                                const char* pci_addr_str, std::uint8_t* is_equal) {
    return devinfo_rep == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : compare_address(devinfo_rep->representor.function(), pci_addr_str, is_equal);
}

doca_error_t doca_devinfo_rep_get_pci_func_type(const doca_devinfo_rep* devinfo_rep,
                                                doca_pci_func_type* pci_func_type) {
    if (devinfo_rep == nullptr || pci_func_type == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *pci_func_type = type_of(devinfo_rep->representor.function().kind);
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_get_iface_name(const doca_devinfo_rep* devinfo_rep, char* iface_name,
                                             std::uint32_t size) {
    return devinfo_rep == nullptr ? DOCA_ERROR_INVALID_VALUE
                                  : copy_text(devinfo_rep->representor.function().representor_iface,
                                              iface_name, size, DOCA_DEVINFO_REP_IFACE_NAME_SIZE);
}

doca_error_t doca_devinfo_rep_get_host_index(const doca_devinfo_rep* devinfo_rep,
                                             std::uint32_t* host_index) {
    if (devinfo_rep == nullptr || host_index == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *host_index = 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_get_pf_index(const doca_devinfo_rep* devinfo_rep,
                                           std::uint32_t* pf_index) {
    if (devinfo_rep == nullptr || pf_index == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const Representor& representor = devinfo_rep->representor;
    const auto* const pf = physical_function(*representor.domain(), representor.function());
    return pf == nullptr ? DOCA_ERROR_NOT_SUPPORTED : copy_index(*pf, FunctionKind::pf, pf_index);
}

doca_error_t doca_devinfo_rep_get_vf_index(const doca_devinfo_rep* devinfo_rep,
                                           std::uint32_t* vf_index) {
    return devinfo_rep == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : copy_index(devinfo_rep->representor.function(), FunctionKind::vf, vf_index);
}

doca_error_t doca_devinfo_rep_get_sf_index(const doca_devinfo_rep* devinfo_rep,
                                           std::uint32_t* sf_index) {
    return devinfo_rep == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : copy_index(devinfo_rep->representor.function(), FunctionKind::sf, sf_index);
}

doca_error_t doca_devinfo_rep_get_is_hotplug(const doca_devinfo_rep* devinfo_rep,
                                             std::uint8_t* is_hotplug) {
    if (devinfo_rep == nullptr || is_hotplug == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *is_hotplug = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_devinfo_rep_get_vhca_id(const doca_devinfo_rep* devinfo_rep,
                                          std::uint16_t* vhca_id) {
    if (devinfo_rep == nullptr || vhca_id == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const Representor& representor = devinfo_rep->representor;
    *vhca_id = vhca_id_of(*representor.domain(), representor.function());
    return DOCA_SUCCESS;
}
