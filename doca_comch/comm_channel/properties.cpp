#include "doca_comch/comm_channel/properties.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include <fmt/format.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

doca_error_t check(std::string_view what, std::uint16_t wanted, std::uint32_t limit) {
    return wanted != 0 && wanted <= limit
               ? DOCA_SUCCESS
               : refuse(DOCA_ERROR_INVALID_VALUE,
                        fmt::format("cannot set the {} to {}: it must be from 1 to {}", what,
                                    wanted, limit));
}

std::uint16_t queue_for(std::uint16_t wanted) {
    return std::bit_ceil(std::max(wanted, Properties::min_queue));
}

} // namespace

Capabilities Properties::capabilities() const noexcept {
    // The sizes are the same on both sides; only a set device knows which one it is.
    return device.get() != nullptr ? device.get()->info.device.capabilities()
                                   : capabilities_of(Side::host);
}

doca_error_t Properties::set_max_message(std::uint16_t wanted) {
    const doca_error_t result =
        check("maximum message size", wanted, capabilities().max_message_size);
    if (result == DOCA_SUCCESS) {
        max_message = std::max(wanted, min_message);
    }
    return result;
}

doca_error_t Properties::set_send_queue(std::uint16_t wanted) {
    const doca_error_t result =
        check("send queue size", wanted, capabilities().max_send_queue_depth);
    if (result == DOCA_SUCCESS) {
        send_queue = queue_for(wanted);
    }
    return result;
}

doca_error_t Properties::set_recv_queue(std::uint16_t wanted) {
    const doca_error_t result =
        check("receive queue size", wanted, capabilities().max_recv_queue_depth);
    if (result == DOCA_SUCCESS) {
        recv_queue = queue_for(wanted);
    }
    return result;
}

} // namespace comch::doca
