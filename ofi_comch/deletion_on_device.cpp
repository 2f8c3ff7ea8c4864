// What an endpoint's program hears when the administrator deletes the device, also where nothing of
// its is under way. Each test in a process of its own, which COMCH_TEST_DELETION tells the command.
#include <array>
#include <cerrno>
#include <ctime>

#include <spawn.h>

#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

/// Not waited for: it ends when this process has let go of the device, libfabric's own verbs
/// provider, which opens every device there is, included.
void begin_deletion() {
    const char* const command = std::getenv("COMCH_TEST_DELETION");
    ASSERT_NE(command, nullptr) << "the command that deletes the device";
    std::array<char*, 4> words{const_cast<char*>("sh"), const_cast<char*>("-c"),
                               const_cast<char*>(command), nullptr};
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, "/bin/sh", nullptr, nullptr, words.data(), environ), 0);
}

TEST(Deletion, EndsReceivesFromAnybody) {
    NodeOptions options;
    options.caps = FI_MSG | FI_TAGGED;
    options.counters = true;
    const Node node(options);
    std::array<char, 8> to{};
    int first = 0;
    int second = 0;
    int third = 0;
    COMCH_FI(fi_trecv(node.ep, to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, &first));
    COMCH_FI(fi_recv(node.ep, to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, &second));
    ASSERT_NO_FATAL_FAILURE(begin_deletion());
    std::array<void*, 2> ended{};
    for (void*& context : ended) {
        const Event event = await(node.rx);
        EXPECT_EQ(event.error, FI_EIO);
        context = event.failure.op_context;
        EXPECT_NE(
            std::string(fi_cq_strerror(node.rx, event.failure.prov_errno, nullptr, nullptr, 0))
                .find("device was removed"),
            std::string::npos);
    }
    EXPECT_TRUE((ended == std::array<void*, 2>{&first, &second}) ||
                (ended == std::array<void*, 2>{&second, &first}));
    // As does one that comes later.
    COMCH_FI(fi_trecv(node.ep, to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, &third));
    const Event late = await(node.rx);
    EXPECT_EQ(late.error, FI_EIO);
    EXPECT_EQ(late.failure.op_context, &third);
    EXPECT_EQ(fi_cntr_readerr(node.counters[1]), 3u);
}

TEST(Deletion, EndsSharedReceives) {
    NodeOptions options;
    options.caps = FI_MSG;
    options.shared_receives = true;
    const Node node(options);
    std::array<char, 8> to{};
    COMCH_FI(fi_recv(node.srx, to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    ASSERT_NO_FATAL_FAILURE(begin_deletion());
    EXPECT_EQ(await(node.rx).error, FI_EIO);
    COMCH_FI(fi_recv(node.srx, to.data(), to.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(node.rx).error, FI_EIO);
}

TEST(Deletion, IsToldToWhoListens) {
    const Listener listener("kitchen");
    fid_eq* const eq = listener.eq;
    ASSERT_NO_FATAL_FAILURE(begin_deletion());
    std::uint32_t event = 0;
    std::array<char, 256> entry{};
    // Asleep.
    ASSERT_EQ(fi_eq_sread(eq, &event, entry.data(), entry.size(), 60'000, 0), -FI_EAVAIL);
    fi_eq_err_entry failure{};
    ASSERT_GT(fi_eq_readerr(eq, &failure, 0), 0);
    EXPECT_EQ(failure.fid, &listener.pep->fid);
    EXPECT_EQ(failure.err, FI_EIO);
    // Nothing will ever come; who waits for it all the same sleeps.
    const auto cpu = [] {
        timespec now{};
        (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
    };
    const double before = cpu();
    EXPECT_EQ(fi_eq_sread(eq, &event, entry.data(), entry.size(), 2'000, 0), -FI_EAGAIN);
    EXPECT_LT(cpu() - before, 1.0);
}

} // namespace
} // namespace comch::ofi::test
