#include "doca_comch/common/function_info.hpp"

#include <algorithm>
#include <cstring>

#include "doca_comch/common/status.hpp"

namespace comch::doca {

doca_error_t copy_text(std::string_view text, char* to, std::uint32_t size, std::uint32_t needed) {
    if (to == nullptr || size < needed) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::size_t length = std::min<std::size_t>(text.size(), needed - 1);
    std::memcpy(to, text.data(), length);
    to[length] = '\0';
    return DOCA_SUCCESS;
}

doca_error_t compare_address(const Function& function, const char* address, std::uint8_t* equal) {
    if (address == nullptr || equal == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        const auto normal = normalize_pci_address(address);
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

doca_error_t copy_index(const Function& function, FunctionKind kind, std::uint32_t* index) {
    if (index == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (function.kind != kind) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    *index = function.index;
    return DOCA_SUCCESS;
}

std::uint16_t vhca_id_of(const Domain& domain, const Function& function) {
    if (function.side == Side::dpu) {
        return 0;
    }
    const auto& host = domain.description().host;
    const auto found = std::find_if(host.begin(), host.end(),
                                    [&](const Function& other) { return other.id == function.id; });
    return static_cast<std::uint16_t>(found - host.begin() + 1);
}

} // namespace comch::doca
