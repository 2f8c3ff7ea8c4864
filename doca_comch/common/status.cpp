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

} // namespace comch::doca
