#include "core/link/contract_test.hpp"
#include "core/link/fake/fake_link.hpp"

namespace comch::link::contract {
namespace {

struct FakeTraits {
    using Link = fake::Link;

    fake::Network network;

    std::unique_ptr<fake::Port> open(Side side, unsigned number = 0,
                                     const PortOptions& options = {}) {
        return *network.open_port(side, side == Side::dpu ? dpu_function_id : function(number),
                                  options);
    }
    FunctionId function(unsigned number) { return 100 + number; }
    std::uint64_t link_data(Side, std::uint64_t) { return 0; }

    struct Victim {
        fake::Network* network;
        std::unique_ptr<fake::Port> port;
        Recorder<fake::Link> seen;
        void step() { port->progress(seen); }
        void kill() { network->kill(port->address()); }
    };
    std::unique_ptr<Victim> start_victim(const VictimPlan& plan) {
        auto victim = std::make_unique<Victim>(Victim{&network, open(Side::host), {}});
        play(*victim->port, plan);
        return victim;
    }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LinkContract, FakeTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, LinkContractOfWrites, FakeTraits);

} // namespace
} // namespace comch::link::contract
