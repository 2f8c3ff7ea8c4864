// The two sides of a domain.
#pragma once

#include <cstdint>
#include <string_view>

namespace comch {

/// Which side of the PCIe link a device, and so the process that opens it, is on.
enum class Side : std::uint8_t { host = 0, dpu = 1 };

[[nodiscard]] constexpr std::string_view to_string(Side side) noexcept {
    return side == Side::host ? "host" : "dpu";
}

} // namespace comch
