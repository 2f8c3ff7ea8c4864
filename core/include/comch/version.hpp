// Which comch this is. The build takes the version from here.
#pragma once

#include <string_view>

namespace comch {

inline constexpr std::string_view version = "0.1.0";

} // namespace comch
