#include "doca_comch/common/status.hpp"

#include "doca_comch/log/sdk_log.hpp"

namespace comch::doca {

doca_error_t refuse(doca_error_t code, std::string_view sentence) {
    sdk_log(SdkLevel::error, sentence);
    return code;
}

doca_error_t refuse(const Error& error) {
    return refuse(to_doca(error.code), error.message);
}

doca_error_t refuse(const std::system_error& error) {
    // Not AGAIN: that makes programs progress and try again, which frees no thread.
    const bool is_short = error.code() == std::errc::resource_unavailable_try_again ||
                          error.code() == std::errc::not_enough_memory;
    return refuse(is_short ? DOCA_ERROR_NO_MEMORY : DOCA_ERROR_OPERATING_SYSTEM, error.what());
}

} // namespace comch::doca
