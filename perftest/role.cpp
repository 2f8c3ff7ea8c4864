#include "perftest/role.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace comch::perftest {

Result<Device> open_device_of(const std::shared_ptr<Domain>& domain, Side side,
                              const Options& options) {
    const char* const told = std::getenv("COMCH_SIDE");
    DeviceChoice choice{.side = {}, .device = options.device};
    if (options.both_sides || told == nullptr || *told == '\0') {
        choice.side = std::string(to_string(side));
    }
    auto device = default_device(domain, choice);
    if (!device) {
        return device;
    }
    if (device->side() != side) {
        const bool server = side == Side::dpu;
        return fail(Errc::not_permitted,
                    fmt::format("a {} runs on the {} side, but the device here is {}, on the {} "
                                "side{}; {}",
                                server ? "server" : "client", to_string(side),
                                device->function().name, to_string(device->side()),
                                told != nullptr ? fmt::format(" (COMCH_SIDE={})", told) : "",
                                server ? "start 'comch_perftest --server' on the DPU, and the "
                                         "client here"
                                       : "start 'comch_perftest --server' here, and the client on "
                                         "the host"));
    }
    return device;
}

} // namespace comch::perftest
