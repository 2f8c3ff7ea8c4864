// Those of which each end copies one part, and two are under way at a time.
#include "core/link/soft/test_joint_get.hpp"

#include <algorithm>

namespace comch::link::soft::test {
namespace {

TEST_F(ShortJointGet, IsCompletedByAnOwnerThatDoesNotCome) {
    ASSERT_EQ(begin(got, token), Errc::in_progress) << "the rest is the owner's, for a while";
    EXPECT_LT(by_us(), length);
    finish_all(1);
    EXPECT_TRUE(has(got));
    EXPECT_EQ(by_us(), length);
    owner.progress();
    EXPECT_EQ(by_owner(), 0u);
}

TEST_F(ShortJointGet, LeavesOnePartToTheOwner) {
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    std::uint64_t gets = 0;
    for (; gets < 100 || owner.slot.rx.one_sided_served.get() < 20; ++gets) {
        requester.done.clear();
        if (begin(got, token) == Errc::in_progress) {
            finish_all(1);
        }
        ASSERT_TRUE(has(got));
    }
    over.store(true);
    attending.join();
    EXPECT_EQ(by_us() + by_owner(), gets * length);
    EXPECT_LE(owner.slot.rx.one_sided_served.get(), gets) << "more than one part";
}

TEST_F(ShortJointGet, IsBegunBesideAnother) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    owner.progress();
    finish_all(2);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
    EXPECT_EQ(requester.done[1], std::make_pair(static_cast<void*>(&other), Errc::ok));
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
    EXPECT_EQ(by_us() + by_owner(), 2 * length);
    EXPECT_FALSE(requester.engine.busy());
    EXPECT_FALSE(owner.engine.busy());
}

TEST_F(ShortJointGet, IsLeftToAnOwnerThatIsAtTheOneBefore) {
    std::uint64_t copied = 0;
    for (bool in_time = false;
         !in_time;) { // a machine may take the CPU away for as long as owners are believed in
        requester.done.clear();
        const std::uint64_t began = requester.pipe.now_ns();
        ASSERT_EQ(begin(got, token), Errc::in_progress);
        steal(0);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        const std::uint64_t before = by_us();
        for (const std::uint64_t until = requester.pipe.now_ns() + 10'000'000;
             requester.pipe.now_ns() < until;) { // many times what the patience is
            requester.progress();
        }
        copied = by_us() - before;
        in_time = requester.pipe.now_ns() - began < tuning::joint_claim_ns;
        EXPECT_TRUE(requester.done.empty() || !in_time);
        words().done.store(Done{generation(), true, 0}.pack());
        finish_all(2);
        owner.progress();
    }
    EXPECT_EQ(copied, 0u);
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, IsNotLeftToAnOwnerThatIsStoppedAtTheOneBefore) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    steal(0);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    finish_all(1);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&other), Errc::ok));
    EXPECT_TRUE(has(next));
    // Nor is it asked for more.
    const std::uint64_t asked = requester.pipe.tx().head();
    EXPECT_EQ(begin(next, other), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), asked);
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, AThirdWaitsUntilOneIsComplete) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    for (bool in_time = false; !in_time;) {
        requester.done.clear();
        const std::uint64_t began = requester.pipe.now_ns();
        ASSERT_EQ(begin(got, token), Errc::in_progress);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        steal(0);
        steal(1);
        const Errc result = begin(third, its_token);
        in_time = requester.pipe.now_ns() - began < tuning::joint_claim_ns;
        EXPECT_TRUE(result == Errc::again || !in_time);
        EXPECT_FALSE(requester.pipe.may_retry() && in_time);
        // What is complete is found by whoever asks for the next, and reported by progress.
        words(0).done.store(Done{generation(0), true, 0}.pack());
        if (in_time) {
            ASSERT_EQ(begin(third, its_token), Errc::in_progress);
            EXPECT_TRUE(requester.done.empty());
            EXPECT_NE(requester.engine.flush(nullptr), Errc::ok) << "of what is not reported";
        }
        words(1).done.store(Done{generation(1), true, 0}.pack());
        finish_all(in_time ? 3 : 2);
        owner.progress();
    }
    EXPECT_EQ(requester.done.size(), 3u);
    for (const int* each : {&token, &other, &its_token}) {
        EXPECT_TRUE(std::ranges::any_of(requester.done, [&](const auto& one) {
            return one.first == each && one.second == Errc::ok;
        }));
    }
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
    EXPECT_TRUE(has(third));
}

TEST_F(ShortJointGet, AllAreCancelledWhenNobodyWritesAnyMore) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    requester.engine.cancel(Errc::canceled, requester.note());
    EXPECT_EQ(requester.done.size(), 2u);
    EXPECT_FALSE(requester.engine.busy());
    owner.progress();
    EXPECT_EQ(by_owner(), 0u);
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress) << "both begin again";
}

TEST_F(ShortJointGet, IsCopiedAloneWhenTheOwnerHasNotSeenTheOnesBefore) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    for (const std::uint64_t until = requester.pipe.now_ns() + 2 * tuning::most_joint_part_ns;
         requester.pipe.now_ns() < until;) { // both ends compute
    }
    EXPECT_EQ(begin(third, its_token), Errc::ok) << "nothing would make it worth a retry";
    EXPECT_TRUE(has(third));
    requester.progress();
    EXPECT_EQ(requester.done.size(), 2u);
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, NobodyIsToldMoreWhoHasClosedTheConnection) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    owner.progress();
    owner.progress();
    ASSERT_EQ(begin(third, its_token), Errc::in_progress) << "both are complete";
    unsigned told = 0;
    (void)requester.engine.advance([&](void*, Errc) {
        ++told;
        requester.engine.stop_copying();
        requester.pipe.break_off(Errc::not_connected);
    });
    EXPECT_EQ(told, 1u);
}

TEST_F(ShortJointGet, IsReportedBeforeAFlushThatWaitsForIt) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    int flush = 0;
    int deferred = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    ASSERT_EQ(requester.engine.flush(&flush), Errc::in_progress);
    requester.engine.make_room_to_end();
    requester.engine.defer(&deferred);
    std::vector<void*> told;
    while (told.size() < 5 && !HasFailure()) {
        (void)requester.engine.advance([&](void* which, Errc) {
            told.push_back(which);
            if (which == &deferred) { // both are complete by now
                owner.progress();
                owner.progress();
                EXPECT_EQ(begin(third, its_token), Errc::in_progress);
            }
        });
        owner.progress();
    }
    const auto at = [&](void* which) { return std::ranges::find(told, which) - told.begin(); };
    EXPECT_LT(at(&token), at(&flush));
    EXPECT_LT(at(&other), at(&flush));
}

TEST_F(ShortJointGet, DoesNotWaitForOneThatWaitsForRoom) {
    // Whose end the kernel does not read, so that the owner is to be asked for it all.
    const SharedMemory memory = create_shared_memory("memory", length).value();
    ASSERT_EQ(::munmap(memory.mapping.data() + length - 8192, 8192), 0);
    const auto address = reinterpret_cast<std::uint64_t>(memory.mapping.data());
    std::uint64_t took_ns = tuning::joint_claim_ns;
    for (unsigned i = 0; i < 20 && took_ns >= tuning::joint_claim_ns / 2;
         ++i) { // on a busy machine
        know_the_ways();
        ASSERT_EQ(requester.engine.get(got.data(), length, key.region, address, &token, true),
                  Errc::in_progress);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
        }
        const std::uint64_t began = requester.pipe.now_ns();
        finish_all(1);
        took_ns = requester.pipe.now_ns() - began;
        EXPECT_EQ(requester.done[0].first, &other);
        EXPECT_TRUE(has(next));
        while (requester.done.size() < 2 && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
        EXPECT_EQ(requester.done[1].second, Errc::not_permitted);
        requester.done.clear();
    }
    EXPECT_LT(took_ns, tuning::joint_claim_ns / 2);
}

} // namespace
} // namespace comch::link::soft::test
