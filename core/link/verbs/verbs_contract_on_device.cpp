// The link contract on real RDMA devices: those of the domain that the environment describes
// (COMCH_DOMAIN, COMCH_DOMAIN_FILE), which must have two host functions.
#include "core/link/contract_test.hpp"
#include "core/link/soft/test_process.hpp"
#include "core/link/verbs/port.hpp"

namespace comch::link::contract {
namespace {

struct VerbsTraits {
    using Link = verbs::Link;

    std::shared_ptr<Domain> domain = *Domain::open();

    std::unique_ptr<verbs::Port> open(Side side, unsigned number = 0,
                                      const PortOptions& options = {}) {
        auto port = verbs::Port::open(devices(domain, side).at(number), options);
        if (!port) {
            ADD_FAILURE() << port.error().message;
            return nullptr;
        }
        return std::move(*port);
    }
    FunctionId function(unsigned number) {
        return devices(domain, Side::host).at(number).function().id;
    }

    /// A process of its own.
    struct Victim {
        soft::test::Process process;
        void step() {}
        void kill() { process.kill(); }
    };
    std::unique_ptr<Victim> start_victim(const std::function<void(verbs::Port&)>& body) {
        return std::unique_ptr<Victim>(new Victim{soft::test::Process([&] {
            Recorder<verbs::Link> seen;
            const auto port = open(Side::host);
            body(*port);
            for (;;) {
                if (port->progress(seen) == 0) {
                    std::this_thread::yield();
                }
            }
        })});
    }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Verbs, LinkContract, VerbsTraits);

} // namespace
} // namespace comch::link::contract
