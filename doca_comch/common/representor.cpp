// doca_dev.h: representors.
#include <iterator>
#include <memory>
#include <mutex>

#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/function_info.hpp"
#include "doca_comch/common/info_list.hpp"
#include "doca_comch/common/open_table.hpp"
#include "doca_comch/common/status.hpp"

using comch::FunctionKind;
using comch::Representor;
using comch::Side;
using comch::doca::copy_index;
using comch::doca::copy_text;
using comch::doca::fixed_capability;
using comch::doca::guarded;
using comch::doca::OpenTable;
using comch::doca::refuse;

namespace {

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

doca_error_t lists_representors(const doca_devinfo* devinfo, std::uint8_t* supported) {
    const bool lists = devinfo != nullptr && devinfo->device.side() == Side::dpu;
    return fixed_capability(devinfo, supported, lists ? 1 : 0);
}

} // namespace

bool comch::doca::hold(doca_dev_rep* representor) {
    return OpenTable<doca_dev_rep>::instance().hold(representor);
}
bool comch::doca::is_open(const doca_dev_rep* representor) {
    return OpenTable<doca_dev_rep>::instance().has(representor);
}

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
    return fixed_capability(devinfo, filter_emulated_supported, 0);
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
    return comch::doca::create_list(*dev_list_rep, *nb_devs_rep,
                                    [&] { return dev->info.device.representors(); });
}

doca_error_t doca_devinfo_rep_destroy_list(doca_devinfo_rep** dev_list_rep) {
    if (dev_list_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    comch::doca::destroy_list(dev_list_rep);
    return DOCA_SUCCESS;
}

doca_error_t doca_dev_rep_open(doca_devinfo_rep* devinfo, doca_dev_rep** dev_rep) {
    if (devinfo == nullptr || dev_rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto& open = OpenTable<doca_dev_rep>::instance();
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
    auto& open = OpenTable<doca_dev_rep>::instance();
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
               : comch::doca::compare_address(devinfo_rep->representor.function(), pci_addr_str,
                                              is_equal);
}

doca_error_t doca_devinfo_rep_get_pci_func_type(const doca_devinfo_rep* devinfo_rep,
                                                doca_pci_func_type* pci_func_type) {
    if (devinfo_rep == nullptr || pci_func_type == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *pci_func_type = comch::doca::type_of(devinfo_rep->representor.function().kind);
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
    *vhca_id = comch::doca::vhca_id_of(*representor.domain(), representor.function());
    return DOCA_SUCCESS;
}
