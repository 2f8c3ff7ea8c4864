#include "core/device/per_process.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace comch {
namespace {

struct Thing {
    std::mutex mutex;
    int value = 0;
};

TEST(PerProcess, ThreadsHaveOneObject) {
    static constinit PerProcess<Thing> cell;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([] {
            for (int n = 0; n < 1000; ++n) {
                Thing& thing = cell.get();
                const std::lock_guard lock(thing.mutex);
                ++thing.value;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(cell.get().value, 8000);
}

TEST(PerProcess, AForkedChildStartsWithANewOne) {
    static constinit PerProcess<Thing> cell;
    Thing& ours = cell.get();
    ours.value = 1;
    const std::lock_guard held_for_ever(ours.mutex); // as far as the child can see
    const pid_t child = ::fork();
    if (child == 0) {
        (void)::alarm(20);
        Thing& own = cell.get();
        const std::lock_guard lock(own.mutex);
        ::_exit(&own != &ours && own.value == 0 && &cell.get() == &own ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(&cell.get(), &ours);
    EXPECT_EQ(ours.value, 1);
}

} // namespace
} // namespace comch
