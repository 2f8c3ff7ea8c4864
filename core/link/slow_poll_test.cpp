#include "core/link/slow_poll.hpp"

#include <gtest/gtest.h>

#include "core/base/clock.hpp"

namespace comch::link {
namespace {

constexpr std::uint64_t hour_ns = 3'600'000'000'000;
constexpr SlowPoll::Pace seldom{.calls = 16, .slow_caller_ns = hour_ns, .look_at_all_ns = hour_ns};

struct Caller {
    SlowPoll poll{seldom};
    std::uint64_t interval_ns = hour_ns;
    unsigned asked = 0; ///< for the interval

    bool due() {
        return poll.due([this] {
            ++asked;
            return interval_ns;
        });
    }
    /// As progress does.
    bool call() { return poll.count() && due(); }
    /// Calls as a spinning caller does, until the next look is an hour away.
    void settle() {
        for (unsigned i = 0; i < 4 * seldom.calls; ++i) {
            (void)call();
        }
    }
};

TEST(SlowPoll, TheFirstCallLooksAtEverything) {
    Caller caller;
    caller.poll = SlowPoll({.calls = 16, .slow_caller_ns = hour_ns, .look_at_all_ns = 1});
    EXPECT_TRUE(caller.call());
    EXPECT_TRUE(caller.poll.take_all());
    EXPECT_FALSE(caller.poll.take_all());
}

TEST(SlowPoll, AsksForTheTimeOnceInSoManyCallsAndLooksOnceInAnInterval) {
    Caller caller;
    caller.settle();
    while (!caller.poll.count()) {
    }
    EXPECT_FALSE(caller.due());
    const unsigned asked = caller.asked;
    unsigned counted = 0;
    unsigned looks = 0;
    for (unsigned i = 0; i < 100 * seldom.calls; ++i) {
        if (caller.poll.count()) {
            ++counted;
            looks += caller.due() ? 1 : 0;
        }
    }
    EXPECT_EQ(counted, 100u);
    EXPECT_EQ(looks, 0u);
    EXPECT_EQ(caller.asked, asked);
}

TEST(SlowPoll, WhatIsWantedComesWithTheNextCallAndIsALookAtEverything) {
    Caller caller;
    caller.settle();
    (void)caller.poll.take_all();
    caller.poll.want();
    EXPECT_TRUE(caller.call());
    EXPECT_TRUE(caller.poll.take_all());
    EXPECT_FALSE(caller.call());
}

TEST(SlowPoll, ALookAtEverythingThatIsAskedForWaitsForTheNextLook) {
    Caller caller;
    caller.settle();
    (void)caller.poll.take_all();
    caller.poll.want_all();
    EXPECT_FALSE(caller.call());
    EXPECT_TRUE(caller.poll.take_all());
}

TEST(SlowPoll, ALookIsDueWhenTheIntervalHasPassed) {
    Caller caller;
    caller.interval_ns = 2'000'000;
    const auto time_of_looks = [&](unsigned looks) {
        const std::uint64_t began = monotonic_ns();
        while (looks != 0 && monotonic_ns() - began < 5'000'000'000) {
            looks -= caller.call() ? 1 : 0;
        }
        EXPECT_EQ(looks, 0u) << "are missing";
        return monotonic_ns() - began;
    };
    // How fast the counter counts is not known well before it has been seen for a while.
    while (time_of_looks(1) < caller.interval_ns / 2) {
    }
    EXPECT_GT(time_of_looks(5), 4 * caller.interval_ns);
}

TEST(SlowPoll, WhoCallsSeldomLooksEveryTimeAndInTheCallsThatFollow) {
    Caller caller;
    caller.poll = SlowPoll({.calls = 16, .slow_caller_ns = 0, .look_at_all_ns = hour_ns});
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_TRUE(caller.call()) << i;
    }
}

} // namespace
} // namespace comch::link
