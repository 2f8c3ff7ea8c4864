// Gets that both ends copy, as the one-sided engines of both ends do it: here step by step, and with a
// peer that spoils what it can.
#include "core/link/soft/test_joint_get.hpp"

#include <chrono>

namespace comch::link::soft::test {
namespace {

TEST_F(JointGet, IsDoneWithoutTheOwner) {
    std::uint64_t asked = 0;
    for (unsigned i = 0; i < joint_gets; ++i) {
        ASSERT_EQ(get(), Errc::ok);
        EXPECT_TRUE(holds());
        EXPECT_NE(requester.pipe.tx().head(), asked);
        asked = requester.pipe.tx().head();
    }
    // It has not looked yet: no use in asking it more.
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.pipe.tx().head(), asked);
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::ok) << "nothing is on its way";
    owner.progress();
    EXPECT_FALSE(owner.engine.busy());
    EXPECT_EQ(owner.slot.rx.one_sided_served.get(), 0u);
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_GT(requester.pipe.tx().head(), asked);
}

TEST_F(JointGet, IsHelpedWithByAnOwnerThatAttends) {
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    std::uint64_t total = 0;
    for (unsigned i = 0; i < 100 || owner.slot.rx.one_sided_served.get() < 20; ++i) {
        const std::size_t length = i % 2 == 0 ? size : size / 4;
        const std::size_t before = requester.done.size();
        const Errc result = get(length);
        ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
        while (result == Errc::in_progress && requester.done.size() == before) {
            requester.progress();
        }
        ASSERT_TRUE(holds(length)) << i;
        total += length;
    }
    over.store(true);
    attending.join();
    EXPECT_FALSE(requester.engine.busy());
    const auto& control = *reinterpret_cast<SegmentControl*>(segment.data());
    for (const Direction& direction : control.direction) {
        EXPECT_EQ(direction.producer.thread.load(), parked_thread());
    }
    // Each says what it has copied.
    const std::uint64_t by_owner = owner.slot.tx.process_vm_bytes.get();
    EXPECT_GT(by_owner, 0u);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get() + by_owner, total);
}

TEST_F(JointGet, WaitsForWhatTheOwnerHasClaimed) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    EXPECT_TRUE(requester.engine.busy());
    EXPECT_TRUE(requester.engine.push_before_sleep()) << "nobody would wake us";
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::in_progress);
    requester.progress();
    EXPECT_TRUE(requester.done.empty());
    std::copy(content.end() - 100 * joint::unit, content.end(), got.end() - 100 * joint::unit);
    words().done.store(Done{generation(), false, 100}.pack());
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::ok);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, CopiesWhatTheOwnerFailedAt) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::ok);
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), before + size);
}

TEST_F(JointGet, CopiesAllWhenTheOwnerSpoilsTheClaims) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    words().claims.store(~std::uint64_t{0});
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::ok);
    EXPECT_TRUE(holds());
    for (unsigned i = 0; i < 3; ++i) {
        owner.progress();
        ASSERT_EQ(get(), Errc::ok);
        EXPECT_TRUE(holds());
        EXPECT_EQ(words().claims.load(), ~std::uint64_t{0}) << "never again by these words";
    }
}

TEST_F(JointGet, ThatIsCancelledIsReportedWhenNobodyWritesAnyMore) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    std::atomic<bool> cancelling = false;
    std::atomic<bool> left = false;
    std::thread writer([&] { // goes on writing for a while
        while (!cancelling.load()) {
            std::this_thread::yield();
        }
        // By the clock: on a busy machine a number of yields may outlast the patience of the other.
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < until) {
            std::this_thread::yield();
        }
        left.store(true);
        words().done.store(Done{generation(), true, 0}.pack());
    });
    cancelling.store(true);
    requester.engine.cancel(Errc::canceled, [&](void* which, Errc status) {
        EXPECT_TRUE(left.load()) << "it may write still";
        requester.done.emplace_back(which, status);
    });
    writer.join();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::canceled));
    EXPECT_FALSE(requester.engine.busy());
    owner.progress();
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
}

TEST_F(JointGet, IsNotFollowedByPutsBeforeItIsComplete) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t value = 4711;
    const auto put = [&] {
        return requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                    key.base, nullptr, true);
    };
    EXPECT_EQ(put(), Errc::again);
    EXPECT_EQ(requester.engine.atomic({AtomicOp::add, 8, 1}, key.region, key.base, nullptr),
              Errc::again);
    EXPECT_FALSE(requester.pipe.may_retry());
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    EXPECT_TRUE(holds());
    EXPECT_TRUE(requester.pipe.may_retry());
    EXPECT_EQ(put(), Errc::ok);
}

TEST_F(JointGet, IsAnsweredByNoRecord) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const Reply lie{1 | std::uint64_t{generation()} << 32, 1}; // its name: the only one, so far
    (void)owner.pipe.put_record(Kind::error_reply, 0, sizeof(lie),
                                [&](std::byte* at) { std::memcpy(at, &lie, sizeof(lie)); });
    EXPECT_FALSE(requester.take_records());
    EXPECT_TRUE(requester.done.empty());
}

TEST_F(JointGet, ThatIsCancelledIsNotWaitedForForEver) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    requester.engine.cancel(Errc::canceled, requester.note());
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::canceled);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, IsNotWaitedForForEver) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::connection_reset)) {
        requester.note()(token, status);
    }
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::connection_reset);
}

TEST_F(JointGet, OfWhatTheKernelDoesNotReadIsLeftToTheOwner) {
    key.base = 64; // nothing is there
    ASSERT_EQ(get(), Errc::in_progress);
    owner.progress();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::not_permitted);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, FromAnOwnerThatHasSaidGoodbyeIsNotBelieved) {
    ASSERT_EQ(get(), Errc::ok);
    owner.pipe.say_goodbye(); // it may have given the memory back
    EXPECT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(get(size / 4), Errc::in_progress);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::not_connected)) {
        requester.note()(token, status);
    }
    EXPECT_EQ(requester.done.size(), 2u);
}

TEST_F(JointGet, ComesBehindPuts) {
    const std::uint64_t value = 4711;
    ASSERT_EQ(requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                   key.base, nullptr),
              Errc::ok);
    ASSERT_EQ(get(), Errc::in_progress) << "by the ring, behind the put";
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < 100 && requester.done.empty(); ++i) {
        owner.progress();
        requester.progress();
        if (i == 0) {
            std::memcpy(&seen, content.data(), 8);
        }
    }
    EXPECT_EQ(seen, value);
}

TEST_F(JointGet, IsNotBegunWhileTheOwnerAnswersOthers) {
    std::vector<std::byte> small(64);
    int other = 0;
    ASSERT_EQ(requester.engine.get(small.data(), small.size(), key.region, key.base, &other, false),
              Errc::in_progress);
    EXPECT_EQ(get(), Errc::again) << "it would not be helped with";
    while (requester.done.empty() && !HasFailure()) {
        owner.progress();
        requester.progress();
    }
    EXPECT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
}

TEST_F(NextJointGet, WaitsForTheOneUnderWay) {
    const std::uint64_t copied = get_that_waits_meanwhile([this] {
        EXPECT_EQ(get_next(), Errc::ok) << "there are two at a time";
        const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
        for (unsigned i = 0; i < 2 * tuning::pace_of_long.period;
             ++i) { // more than are between trials
            if (get_next() != Errc::again) {
                return std::uint64_t{1};
            }
        }
        return requester.slot.tx.process_vm_bytes.get() - before;
    });
    EXPECT_EQ(copied, 0u) << "by one alone meanwhile";
    EXPECT_EQ(next, content);
    EXPECT_FALSE(requester.pipe.may_retry());
    owner_gives_up();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_TRUE(requester.pipe.may_retry());
    owner.progress();
    requester.done.clear();
    finish(get_next());
    EXPECT_EQ(next, content);
}

TEST_F(NextJointGet, DoesNotWaitForAnOwnerThatIsStopped) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t began = requester.pipe.now_ns();
    EXPECT_EQ(get_next(), Errc::ok);
    std::ranges::fill(next, std::byte{});
    Errc result = get_next();
    while (result == Errc::again && requester.pipe.now_ns() - began < 10'000'000'000) {
        requester.progress();
        result = get_next();
    }
    EXPECT_EQ(result, Errc::ok);
    EXPECT_EQ(next, content);
    EXPECT_TRUE(requester.done.empty()) << "the first one waits";
}

TEST_F(NextJointGet, IsWorthARetryWhenTheOneUnderWayIsCancelled) {
    (void)get_that_waits_meanwhile([this] {
        EXPECT_EQ(get_next(), Errc::ok);
        return get_next() == Errc::again ? 0u : 1u;
    });
    ASSERT_FALSE(requester.pipe.may_retry());
    owner_gives_up();
    requester.engine.cancel(Errc::canceled, requester.note());
    EXPECT_TRUE(requester.pipe.may_retry());
}

/// Of a long get only the beginning goes a way that is tried.
class JointTriedPart : public JointGet {
protected:
    std::vector<std::byte> small = std::vector<std::byte>(64);
    int other = 0;

    void SetUp() override {
        JointGet::SetUp();
        joint_part = tuning::tried_part;
        begin_anew();
        took(Way::ring, 1'000'000);
    }
    void know_the_ways() override {
        begin_anew();
        took(Way::ring, 1'000'000);
        took(Way::alone, 2'000'000);
    }
    void begin_anew() {
        requester.pipe.ways() = CopyWays();
        requester.pipe.ways().took(Way::alone, tuning::before_ring, 1); // the ring's turn
    }
    void took(Way way, std::uint64_t time) { JointGet::took(way, size, time); }
    Errc get_small() {
        return requester.engine.get(small.data(), small.size(), key.region, key.base, &other,
                                    false);
    }
    /// The rest, by the ring.
    void finish_rest() {
        while (requester.done.empty() && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
        ASSERT_EQ(requester.done.size(), 1u);
        EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
        requester.done.clear();
        EXPECT_FALSE(requester.engine.busy());
        EXPECT_TRUE(holds());
    }
};

TEST_F(JointTriedPart, IsReadByTheKernel) {
    ASSERT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), tuning::tried_part);
    finish_rest();
    took(Way::alone, 1); // the best: all of it
    const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
    for (unsigned i = 0; i < 2 * tuning::pace_of_long.turn(); ++i) {
        if (get() == Errc::in_progress) { // joint is tried
            finish_rest();
        }
    }
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_GE(requester.slot.tx.process_vm_bytes.get(), before + size);
}

TEST_F(JointTriedPart, IsCopiedByBoth) {
    took(Way::alone, 2'000'000);
    const std::uint64_t before = requester.pipe.tx().head();
    ASSERT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), tuning::tried_part) << "nobody helped";
    EXPECT_NE(requester.pipe.tx().head(), before);
    finish_rest();
    // And with an owner that helps, in the end.
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    const std::uint64_t until =
        owner.slot.rx.one_sided_served.get() + 3 * tuning::pace_of_long.period;
    while (owner.slot.tx.process_vm_bytes.get() == 0 &&
           owner.slot.rx.one_sided_served.get() < until && !HasFailure()) {
        begin_anew();
        took(Way::ring, 1'000'000);
        took(Way::alone, 2'000'000);
        const Errc result = get();
        while (result == Errc::in_progress && requester.done.empty()) {
            requester.progress();
        }
        requester.done.clear();
        EXPECT_TRUE(holds());
    }
    over.store(true);
    attending.join();
    EXPECT_GT(owner.slot.tx.process_vm_bytes.get(), 0u);
}

TEST_F(JointTriedPart, IsFollowedByTheRestBehindLaterGets) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    std::vector<std::byte> also(512);
    ASSERT_EQ(requester.engine.get(also.data(), also.size(), key.region, key.base, &other, false),
              Errc::in_progress);
    // The owner answers neither, so that both are fetched: whoever says that the one that is later in
    // the ring needs no answer any more says it of the other.
    words().done.store(Done{generation(), true, 0}.pack());
    for (unsigned i = 0; i < 1000 || !requester.pipe.attention().distrusted(); ++i) {
        requester.progress();
    }
    EXPECT_TRUE(requester.done.empty()) << "the first in the ring must be answered by the owner";
    while (requester.done.size() < 2 && !HasFailure()) {
        owner.progress();
        requester.progress();
    }
    EXPECT_EQ(requester.done[0].first, &other);
    EXPECT_TRUE(holds());
    EXPECT_EQ(std::memcmp(also.data(), content.data(), also.size()), 0);
}

TEST_F(JointTriedPart, AsksForTheRestBeforeASleep) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
    }
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress(); // there is no room to ask
    ASSERT_TRUE(owner.take_records());
    ASSERT_EQ(requester.engine.put(small.data(), small.size(), key.region, key.base, nullptr),
              Errc::again)
        << "who is refused knows of the room";
    (void)requester.engine.push_before_sleep();
    finish_rest();
}

TEST_F(JointTriedPart, WaitsUntilNothingElseIsUnderWay) {
    took(Way::alone, 2'000'000);
    ASSERT_EQ(get_small(), Errc::in_progress);
    ASSERT_EQ(get(), Errc::again);
    ASSERT_EQ(get(), Errc::again) << "however often it is tried";
    EXPECT_FALSE(requester.pipe.may_retry());
    finish(Errc::in_progress);
    ASSERT_EQ(requester.done.size(), 1u);
    requester.done.clear();
    EXPECT_TRUE(requester.pipe.may_retry());
    ASSERT_EQ(get(), Errc::in_progress);
    finish_rest();
}

TEST_F(JointTriedPart, DoesNotWaitForEverWhileOthersAreBegun) {
    took(Way::alone, 2'000'000);
    ASSERT_EQ(get_small(), Errc::in_progress);
    std::uint64_t begun = 1;
    while (get() == Errc::again && begun <= tuning::most_begun_before_kernel + 1) {
        ASSERT_EQ(get_small(), Errc::in_progress);
        ++begun;
    }
    EXPECT_EQ(begun, tuning::most_begun_before_kernel + 1);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::connection_reset)) {
        requester.note()(token, status);
    }
    EXPECT_EQ(requester.done.size(), begun + 1);
}

TEST_F(JointTriedPart, IsNotCopiedWhereTheRestCannotBeAskedFor) {
    while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
    }
    EXPECT_EQ(get(), Errc::again);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), 0u);
    EXPECT_TRUE(requester.done.empty());
}

TEST_F(JointTriedPart, ThatTheKernelRefusesIsLeftToTheOwnerWithAllTheRest) {
    took(Way::alone, 2'000'000);
    key.base = 64; // nothing is there
    ASSERT_EQ(get(), Errc::in_progress);
    owner.progress();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::not_permitted);
    EXPECT_FALSE(requester.engine.busy());
}

/// The owner's end, when the requester is not a correct one.
class JointHelper : public JointGet {
protected:
    static Joint no_region(std::uint64_t to, std::uint64_t generation) {
        return {to, generation, 0, 0, 0};
    }
    std::uint64_t here() { return reinterpret_cast<std::uint64_t>(got.data()); }
    void allow(std::uint16_t generation) { words().claims.store(Claims{generation}.pack()); }
    Done done() { return Done::unpack(words().done.load()); }
};

TEST_F(JointHelper, CopiesAll) {
    allow(7);
    ASSERT_TRUE(ask({key.region, key.base, size, 0}, no_region(here(), 7)));
    while (owner.engine.busy()) {
        owner.progress();
    }
    EXPECT_TRUE(holds());
    EXPECT_EQ(done().units, joint::units_of(size));
    EXPECT_FALSE(done().failed);
}

TEST_F(JointHelper, CopiesNothingThatIsNotGranted) {
    for (const OneSided& request :
         {OneSided{key.region, key.base - 1, 8192, 0}, OneSided{key.region, key.base + 1, size, 0},
          OneSided{key.region + 1, key.base, size, 0}, OneSided{0, 0, size, 0},
          OneSided{key.region, key.base, ~std::uint64_t{0}, 0},
          OneSided{key.region, ~std::uint64_t{0} - 100, size, 0}}) {
        allow(9);
        EXPECT_TRUE(ask(request, no_region(here(), 9)));
        for (unsigned i = 0; owner.engine.busy(); ++i) {
            ASSERT_LT(i, 1000u);
            owner.progress();
        }
        EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{}; }));
        EXPECT_TRUE(done().failed || done().units == 0);
    }
}

TEST_F(JointHelper, SaysThatItCannotWrite) {
    allow(9);
    EXPECT_TRUE(ask({key.region, key.base, size, 0}, no_region(64, 9)));
    EXPECT_TRUE(done().failed);
    EXPECT_EQ(done().units, 0u);
    EXPECT_FALSE(owner.engine.busy());
}

TEST_F(JointHelper, RefusesWhatNoCorrectPeerSends) {
    EXPECT_FALSE(
        ask({key.region, key.base, size, 0}, no_region(here(), std::uint64_t{joint_gets} << 17)));
    (void)requester.pipe.put_record(Kind::joint_get, 0, sizeof(OneSided),
                                    [](std::byte* at) { std::memset(at, 0, sizeof(OneSided)); });
    EXPECT_FALSE(owner.take_records());
}

} // namespace
} // namespace comch::link::soft::test
