// The link contract on real RDMA devices: those of the domain that the environment describes
// (COMCH_DOMAIN, COMCH_DOMAIN_FILE), which must have two host functions.
#include <array>
#include <csignal>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/link/contract_test.hpp"
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
    std::uint64_t link_data(Side side, std::uint64_t region) {
        return verbs::link_data_of(devices(domain, side).at(0), region);
    }
    FunctionId function(unsigned number) {
        return devices(domain, Side::host).at(number).function().id;
    }

    /// A process of its own, and not a forked one: what this process has open on the device would
    /// not work there. It runs this program's main() with the plan as its argument.
    struct Victim {
        pid_t pid;
        ~Victim() { kill(); }
        void step() {}
        void kill() {
            if (pid > 0) {
                (void)::kill(pid, SIGKILL);
                (void)::waitpid(std::exchange(pid, -1), nullptr, 0);
            }
        }
    };
    std::unique_ptr<Victim> start_victim(const VictimPlan& plan) {
        std::string text = fmt::format("--victim={}:", plan.messages);
        for (const std::byte b : plan.connect_to.bytes) {
            text += fmt::format("{:02x}", static_cast<unsigned>(b));
        }
        std::string program = "/proc/self/exe";
        const std::array<char*, 3> arguments{program.data(), text.data(), nullptr};
        pid_t pid = -1;
        EXPECT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ),
                  0);
        return std::unique_ptr<Victim>(new Victim{pid});
    }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Verbs, LinkContract, VerbsTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Verbs, LinkContractOfQueues, VerbsTraits);
INSTANTIATE_TYPED_TEST_SUITE_P(Verbs, LinkContractOfWrites, VerbsTraits);

} // namespace

/// What main() does for a victim.
int run_victim(std::string_view text) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    VictimPlan plan{};
    const std::size_t colon = text.find(':');
    plan.messages = static_cast<unsigned>(std::stoul(std::string(text.substr(0, colon))));
    for (std::size_t i = 0; i < plan.connect_to.bytes.size(); ++i) {
        const std::string byte(text.substr(colon + 1 + 2 * i, 2));
        plan.connect_to.bytes[i] = static_cast<std::byte>(std::stoul(byte, nullptr, 16));
    }
    VerbsTraits traits;
    Recorder<verbs::Link> seen;
    const auto port = traits.open(Side::host);
    play(*port, plan);
    for (;;) {
        if (port->progress(seen) == 0) {
            std::this_thread::yield();
        }
    }
}

} // namespace comch::link::contract

int main(int argc, char** argv) {
    constexpr std::string_view victim = "--victim=";
    if (argc == 2 && std::string_view(argv[1]).starts_with(victim)) {
        return comch::link::contract::run_victim(std::string_view(argv[1]).substr(victim.size()));
    }
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
