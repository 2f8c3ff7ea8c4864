// Every put is executed by exactly one of its two ends.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/link/soft/membarrier.hpp"
#include "core/link/soft/put_claims.hpp"

namespace comch::link::soft::test {
namespace {

struct Words {
    Direction::Puts words{};
    PutOwner owner{&words};
    PutWithdrawal withdrawal{&words};
};

TEST(PutClaims, WhatIsNotWithdrawnIsTheOwners) {
    Words w;
    EXPECT_TRUE(w.withdrawal.decided());
    EXPECT_EQ(w.withdrawal.executed(), 0u);
    w.withdrawal.withdraw(5);
    EXPECT_TRUE(w.withdrawal.decided());
    EXPECT_FALSE(w.owner.begin(4, [] {}));
    EXPECT_TRUE(w.withdrawal.decided());
    EXPECT_EQ(w.withdrawal.executed(), 0u);
    EXPECT_TRUE(w.owner.begin(5, [] {}));
    EXPECT_FALSE(w.withdrawal.decided());
    w.owner.end(5);
    EXPECT_TRUE(w.withdrawal.decided());
    EXPECT_EQ(w.withdrawal.executed(), 6u);
}

TEST(PutClaims, WhatIsAtHandIsWaitedFor) {
    Words w;
    ASSERT_TRUE(w.owner.begin(0, [] {}));
    w.withdrawal.withdraw(3);
    EXPECT_FALSE(w.withdrawal.decided());
    w.owner.end(0);
    EXPECT_TRUE(w.withdrawal.decided());
    EXPECT_EQ(w.withdrawal.executed(), 1u); // the second and third are the other's
    EXPECT_FALSE(w.owner.begin(1, [] {}));
}

TEST(PutClaims, EachIsExecutedOnceByOneOfTwoThreads) {
    // As connections do it: where the kernel has no membarrier, the owner has a fence of its own.
    const bool fenced = !membarrier_register();
    const auto fence = [fenced] {
        if (fenced) {
            std::atomic_thread_fence(std::memory_order_seq_cst);
        } else {
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    };
    constexpr std::uint64_t laps = 20'000;
    constexpr std::uint64_t run = 8;
    Words w;
    std::vector<std::atomic<int>> times(laps * run);
    std::atomic<std::uint64_t> published = 0; // puts in the ring
    std::atomic<std::uint64_t> taken = 0;
    std::uint64_t owners = 0;
    std::thread owner([&] {
        for (std::uint64_t at = 0; at < laps * run; ++at) {
            while (published.load(std::memory_order_acquire) <= at) {
                std::this_thread::yield();
            }
            if (w.owner.begin(at, fence)) {
                times[at].fetch_add(1, std::memory_order_relaxed);
                ++owners;
                w.owner.end(at);
            }
            taken.store(at + 1, std::memory_order_release);
        }
    });
    std::uint64_t others = 0;
    for (std::uint64_t lap = 0; lap < laps; ++lap) {
        const std::uint64_t begin = lap * run;
        published.store(begin + run, std::memory_order_release);
        if (lap % 2 == 0) { // let it begin
            while (taken.load(std::memory_order_relaxed) <= begin + lap % run) {
                std::this_thread::yield();
            }
        }
        w.withdrawal.withdraw(begin + run);
        ASSERT_TRUE(membarrier_all());
        while (!w.withdrawal.decided()) {
        }
        for (std::uint64_t at = std::max(begin, w.withdrawal.executed()); at < begin + run; ++at) {
            times[at].fetch_add(1, std::memory_order_relaxed);
            ++others;
        }
        while (taken.load(std::memory_order_acquire) != begin + run) {
            std::this_thread::yield();
        }
    }
    owner.join();
    EXPECT_NE(owners, 0u);
    EXPECT_NE(others, 0u);
    for (std::uint64_t at = 0; at < laps * run; ++at) {
        ASSERT_EQ(times[at].load(), 1) << at;
    }
}

} // namespace
} // namespace comch::link::soft::test
