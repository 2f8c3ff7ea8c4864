#include "doca_comch/log/sdk_log.hpp"

namespace comch::doca {

// Silent until a program creates a backend for the SDK's messages.
void sdk_log(SdkLevel, std::string_view) noexcept {}

} // namespace comch::doca
