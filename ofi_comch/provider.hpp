// The provider as libfabric sees it, and its settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <comch/device.hpp>

#include "libfabric.hpp"

namespace comch::ofi {

extern fi_provider provider;

/// Whose registrations outlive the messages they were made for.
enum class Keep : std::uint8_t {
    none,
    own,     ///< of what only this end's device is at; if the kernel tells of unmapping
    windows, ///< also of what peers are at, through memory windows; if it does, or UCX's hooks
    all,     ///< also of what peers read, by its key; the same
};

/// Read once, when the provider is loaded.
struct Settings {
    bool host_dpu_only = false;
    bool layering = false;                 ///< utility providers may use our connected endpoints
    std::optional<std::size_t> eager_size; ///< messages up to this are sent without being asked for
    Keep keep_registrations = Keep::own;
};
[[nodiscard]] const Settings& settings() noexcept;

/// The one device of this process: FI_COMCH_DOMAIN, FI_COMCH_SIDE, FI_COMCH_DEVICE, or what comch's
/// own environment variables say.
[[nodiscard]] Result<Device> open_device();

/// Why a connection could not even be begun: a warning where it is for want of something here.
void log_no_connection(const Error& error);

} // namespace comch::ofi
