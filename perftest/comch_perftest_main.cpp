// comch_perftest: measures a channel between the host and the DPU.
#include <iostream>

#include "perftest/client.hpp"
#include "perftest/options.hpp"
#include "perftest/server.hpp"

int main(int argc, char** argv) {
    comch::perftest::Options options;
    if (const auto status =
            comch::perftest::parse_options(argc, argv, options, std::cout, std::cerr)) {
        return *status;
    }
    return options.server ? comch::perftest::run_server(options)
                          : comch::perftest::run_client(options);
}
