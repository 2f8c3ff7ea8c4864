#include "core/link/soft/parked_thread.hpp"

#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/test_process.hpp"

#ifndef COMCH_SANITIZE_THREAD // there is none then
namespace comch::link::soft::test {
namespace {

/// A line of /proc of a thread of this process; empty: there is no such thread.
std::string status_of(std::uint32_t thread, std::string_view what) {
    std::ifstream status(fmt::format("/proc/self/task/{}/status", thread));
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(what)) {
            return line.substr(what.size());
        }
    }
    return {};
}

TEST(ParkedThread, SleepsAndTakesNoSignals) {
    const std::uint32_t thread = parked_thread();
    ASSERT_NE(thread, 0u);
    EXPECT_NE(thread, static_cast<std::uint32_t>(::gettid()));
    EXPECT_EQ(parked_thread(), thread);
    while (status_of(thread, "State:").find("sleeping") == std::string::npos) {
        std::this_thread::yield(); // (for ever, if it is busy)
    }
    const std::uint64_t blocked = std::stoull(status_of(thread, "SigBlk:"), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD}) {
        EXPECT_NE(blocked >> (signal - 1) & 1, 0u) << signal;
    }
}

TEST(ParkedThread, IsAnotherInAForkedChild) {
    const std::uint32_t parents = parked_thread();
    ASSERT_NE(parents, 0u);
    comch::test::Process child([&](auto&) {
        const std::uint32_t own = parked_thread();
        EXPECT_NE(own, parents);
        EXPECT_FALSE(status_of(own, "State:").empty()) << own;
    });
    EXPECT_EQ(child.wait(), 0);
}

} // namespace
} // namespace comch::link::soft::test
#endif
