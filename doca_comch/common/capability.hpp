// What a device can do, as calls answer it.
#pragma once

#include <type_traits>

#include "doca_comch/common/device.hpp"

namespace comch::doca {

/// What `get` finds in the device's capabilities.
template <class Value, class Get>
[[nodiscard]] doca_error_t capability(const doca_devinfo* devinfo, Value* value, Get get) {
    if (devinfo == nullptr || value == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *value = static_cast<Value>(get(devinfo->device.capabilities()));
    return DOCA_SUCCESS;
}

/// The same for every device.
template <class Value>
[[nodiscard]] doca_error_t fixed_capability(const doca_devinfo* devinfo, Value* value,
                                            std::type_identity_t<Value> fixed) {
    return capability(devinfo, value, [fixed](const Capabilities&) { return fixed; });
}

/// Calls whose status is the answer.
[[nodiscard]] inline doca_error_t is_supported(const doca_devinfo* devinfo, bool answer = true) {
    if (devinfo == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return answer ? DOCA_SUCCESS : DOCA_ERROR_NOT_SUPPORTED;
}
[[nodiscard]] inline doca_error_t is_supported(const doca_devinfo* devinfo,
                                               bool Capabilities::*answer) {
    return is_supported(devinfo, devinfo != nullptr && devinfo->device.capabilities().*answer);
}

} // namespace comch::doca
