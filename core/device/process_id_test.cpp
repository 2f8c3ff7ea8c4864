#include "process_id.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "test_support.hpp"

namespace comch {
namespace {

/// What process_id() says in a forked child, called twice to see that it stays.
ProcessId id_in_child() {
    int ends[2];
    if (pipe(ends) != 0)
        return 0;
    const pid_t child = fork();
    if (child == 0) {
        const ProcessId first = process_id();
        const ProcessId sent = first == process_id() ? first : 0;
        _exit(write(ends[1], &sent, sizeof sent) == sizeof sent ? 0 : 1);
    }
    close(ends[1]);
    ProcessId received = 0;
    EXPECT_EQ(read(ends[0], &received, sizeof received), static_cast<ssize_t>(sizeof received));
    close(ends[0]);
    EXPECT_EQ(test::wait_for(child), 0);
    return received;
}

TEST(ProcessId, IsNotZeroAndStays) {
    const ProcessId id = process_id();
    EXPECT_NE(id, 0u);
    EXPECT_EQ(process_id(), id);
}

TEST(ProcessId, AForkedChildHasItsOwnAndTheParentKeepsIts) {
    const ProcessId id = process_id();
    const ProcessId first = id_in_child();
    const ProcessId second = id_in_child();
    EXPECT_NE(first, 0u);
    EXPECT_NE(second, 0u);
    EXPECT_NE(first, id);
    EXPECT_NE(second, id);
    EXPECT_NE(first, second);
    EXPECT_EQ(process_id(), id);
}

TEST(ProcessId, AllThreadsSeeTheSameFromTheFirstCallOn) {
    // In a child, so that the threads' calls are the process's first.
    const pid_t child = fork();
    if (child == 0) {
        std::vector<ProcessId> ids(8);
        {
            std::vector<std::jthread> threads;
            for (auto& id : ids)
                threads.emplace_back([&id] { id = process_id(); });
        }
        for (const ProcessId id : ids)
            if (id == 0 || id != process_id())
                _exit(1);
        _exit(0);
    }
    EXPECT_EQ(test::wait_for(child), 0);
}

} // namespace
} // namespace comch
