// Numbers by which programs on the DPA name memory maps.
#pragma once

#include <doca_mmap.h>

namespace comch::doca {

/// The map's number; it gets one at the first call. Never 0.
[[nodiscard]] doca_dpa_dev_mmap_t handle_of(doca_mmap& mmap);

/// The started map with this number, or null.
[[nodiscard]] doca_mmap* mmap_of(doca_dpa_dev_mmap_t handle);

void forget_handle(doca_mmap& mmap) noexcept;

} // namespace comch::doca
