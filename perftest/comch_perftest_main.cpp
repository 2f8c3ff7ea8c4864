// comch_perftest: measures a channel between the host and the DPU.
#include <iostream>

#include "core/device/settings.hpp"
#include "perftest/client.hpp"
#include "perftest/options.hpp"
#include "perftest/server.hpp"

int main(int argc, char** argv) {
    comch::perftest::Options options;
    if (const auto status =
            comch::perftest::parse_options(argc, argv, options, std::cout, std::cerr)) {
        return *status;
    }
    const comch::NamedSettings names(
        {.domain = "--domain", .domain_file = "--domain-file", .device = "--device"});
    return options.server ? comch::perftest::run_server(options)
                          : comch::perftest::run_client(options);
}
