#include "doca_comch/log/sdk_log.hpp"

#include "doca_comch/log/backends.hpp"

namespace comch::doca {

void sdk_log(SdkLevel level, std::string_view sentence) noexcept {
    const auto number = static_cast<std::uint32_t>(level);
    Backends& backends = Backends::instance();
    if (!backends.wants(Speaker::library, number)) {
        return;
    }
    try {
        backends.show(Speaker::library, {.level = number, .source = "COMCH", .text = sentence});
    } catch (...) {
        // Out of memory while saying so: whoever called has an error code to act on.
    }
}

} // namespace comch::doca
