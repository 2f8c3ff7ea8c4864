// What the library itself has to say: goes to the SDK's log backends. Control paths only.
#pragma once

#include <cstdint>
#include <string_view>

namespace comch::doca {

/// As enum doca_log_level.
enum class SdkLevel : std::uint32_t { critical = 20, error = 30, warning = 40, info = 50 };

void sdk_log(SdkLevel level, std::string_view sentence) noexcept;

} // namespace comch::doca
