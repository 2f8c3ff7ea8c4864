// Those of which each end copies one part, and two are under way at a time.
#include "core/link/soft/test_joint_get.hpp"

#include <algorithm>
#include <array>

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
    const auto parts = [this] { return owner.slot.rx.one_sided_served.get(); };
    for (; (gets < 100 || parts() < 20) && !HasFailure(); ++gets) {
        know_the_ways();
        requester.done.clear();
        const std::uint64_t before = parts();
        if (begin_once(got, token) == Errc::in_progress) {
            finish_all(1);
        }
        EXPECT_TRUE(has(got));
        EXPECT_LE(parts() - before, 1u);
    }
    over.store(true);
    attending.join();
    EXPECT_EQ(by_us() + by_owner(), gets * length);
}

TEST_F(ShortJointGet, IsBegunBesideAnother) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    owner.progress();
    finish_all(2);
    EXPECT_EQ(requester.done.at(0), std::make_pair(static_cast<void*>(&token), Errc::ok));
    EXPECT_EQ(requester.done.at(1), std::make_pair(static_cast<void*>(&other), Errc::ok));
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
    EXPECT_EQ(requester.done.at(0), std::make_pair(static_cast<void*>(&other), Errc::ok));
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
            in_time = begins_or_is_late(third, its_token);
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
    EXPECT_NE(begin(third, its_token), Errc::again) << "both are complete";
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
    std::size_t to_be_told = 4;
    while (told.size() < to_be_told && !HasFailure()) {
        (void)requester.engine.advance([&](void* which, Errc) {
            told.push_back(which);
            if (which == &deferred) { // both are complete by now
                owner.progress();
                owner.progress();
                to_be_told += begins_or_is_late(third, its_token) ? 1 : 0;
            }
        });
        owner.progress();
    }
    const auto at = [&](void* which) { return std::ranges::find(told, which) - told.begin(); };
    EXPECT_LT(at(&token), at(&flush));
    EXPECT_LT(at(&other), at(&flush));
}

TEST_F(ShortJointGet, AFlushDoesNotWaitForWhatIsBegunBehindIt) {
    std::vector<std::byte> third(length);
    std::array<int, 3> tokens{};
    int flush = 0;
    ASSERT_EQ(begin(got, tokens[0]), Errc::in_progress);
    ASSERT_EQ(begin(next, tokens[1]), Errc::in_progress);
    ASSERT_EQ(requester.engine.flush(&flush), Errc::in_progress);
    owner.progress();
    owner.progress();
    // A stream, of which each is begun when another is complete, and there are always some to report.
    std::vector<void*> told;
    const std::array<std::vector<std::byte>*, 3> buffers{&got, &next, &third};
    (void)begin(third, tokens[2]);
    for (unsigned i = 0; i < 100 && std::ranges::find(told, &flush) == told.end(); ++i) {
        (void)requester.engine.advance([&](void* which, Errc) {
            told.push_back(which);
            for (std::size_t k = 0; k < tokens.size(); ++k) {
                if (which == &tokens[k]) {
                    (void)begin(*buffers[k], tokens[k]);
                    owner.progress();
                    owner.progress();
                }
            }
        });
    }
    EXPECT_NE(std::ranges::find(told, &flush), told.end());
}

TEST_F(ShortJointGet, AreNotCompleteWithoutBeingReportedForEver) {
    std::uint64_t begun = 0;
    while (begin(got, token) == Errc::in_progress && begun <= 2 * Pipe::max_operations) {
        ++begun;
        owner.progress();
        owner.progress();
    }
    EXPECT_LE(begun, Pipe::max_operations + 2 * joint_gets);
    finish_all(begun);
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
        const bool begun = begins_or_is_late(next, other);
        while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
        }
        if (begun) {
            const std::uint64_t began = requester.pipe.now_ns();
            finish_all(1);
            took_ns = requester.pipe.now_ns() - began;
            EXPECT_EQ(requester.done.at(0).first, &other);
            EXPECT_TRUE(has(next));
        }
        while (requester.engine.busy() && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
        ASSERT_FALSE(requester.done.empty());
        EXPECT_EQ(requester.done.back().second, Errc::not_permitted);
        requester.done.clear();
    }
    EXPECT_LT(took_ns, tuning::joint_claim_ns / 2);
}

} // namespace
} // namespace comch::link::soft::test
