// A program that forbids itself system calls when its connections are there already.
#include <cerrno>
#include <thread>

#include "core/base/test_sandbox.hpp"
#include "core/link/soft/test_process.hpp"

namespace comch::link::soft::test {
namespace {

using comch::test::forbid_calls;

/// Whoever sends to a sleeper relies on the sleeper's membarrier.
TEST(SoftSandbox, NobodySleepsOrLetsARingRestWithoutMembarrier) {
    constexpr unsigned count = 2 * tuning::always_hot;
    Lab lab;
    End host{lab, Side::host};
    End dpu{lab, Side::dpu};
    std::vector<Connected> pairs;
    for (unsigned i = 0; i < count; ++i) {
        pairs.push_back(connect(host, dpu));
    }
    const auto may_sleep = [&] { return until([&] { return dpu.port->arm() == Errc::ok; }, dpu); };
    ASSERT_TRUE(may_sleep());
    ASSERT_TRUE(until([&] { return dpu.port->resting() != 0; }, dpu));
    std::thread sandboxed([&] {
        forbid_calls({SYS_membarrier}, EPERM);
        for (unsigned i = 0; i < count; ++i) { // all rings are awake
            ASSERT_EQ(pairs[i].initiator->send(0, {}), Errc::ok);
        }
        ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == count; }, dpu));
        ASSERT_EQ(dpu.port->resting(), 0u);
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        while (std::chrono::steady_clock::now() < end) {
            EXPECT_NE(dpu.port->arm(), Errc::ok);
            dpu.progress();
        }
        EXPECT_EQ(dpu.port->resting(), 0u);
    });
    sandboxed.join();
    EXPECT_TRUE(may_sleep());
    EXPECT_TRUE(until([&] { return dpu.port->resting() != 0; }, dpu));
}

} // namespace
} // namespace comch::link::soft::test
