#include "core/link/contract_test.hpp"
#include "core/link/soft/test_process.hpp"

namespace comch::link::contract {
namespace {

struct SoftTraits {
    using Link = soft::Link;

    soft::test::Lab lab;

    std::unique_ptr<soft::Port> open(Side side, unsigned number = 0,
                                     const PortOptions& options = {}) {
        auto port = soft::Port::open(soft::test::device_of(lab.domain(), side, number), options);
        if (!port) {
            ADD_FAILURE() << port.error().message;
            return nullptr;
        }
        return std::move(*port);
    }
    FunctionId function(unsigned number) {
        return soft::test::device_of(lab.domain(), Side::host, number).function().id;
    }
    std::uint64_t link_data(Side, std::uint64_t) { return 0; }

    /// A process of its own.
    struct Victim {
        soft::test::Process process;
        void step() {}
        void kill() { process.kill(); }
    };
    std::unique_ptr<Victim> start_victim(const VictimPlan& plan) {
        return std::unique_ptr<Victim>(new Victim{soft::test::Process([&] {
            Recorder<soft::Link> seen;
            const auto port = open(Side::host);
            play(*port, plan);
            for (;;) {
                if (port->progress(seen) == 0) {
                    std::this_thread::yield();
                }
            }
        })});
    }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Soft, LinkContract, SoftTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Soft, LinkContractOfQueues, SoftTraits);

} // namespace
} // namespace comch::link::contract
