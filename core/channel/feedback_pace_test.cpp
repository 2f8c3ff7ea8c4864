#include "core/channel/feedback_pace.hpp"

#include <random>

#include <gtest/gtest.h>

namespace comch::channel {
namespace {

constexpr auto no_time_passes = [] { return std::uint64_t{1}; };

/// What feedback a consumer gives, and what a producer has to wait for it.
struct Program {
    FeedbackPace pace;
    std::uint64_t ns = 1;
    std::uint64_t ns_per_poll = 50;
    unsigned said = 0;
    bool unsaid = false;
    unsigned polls = 0;

    /// The next message comes when the feedback has, `gap` polls later.
    void send_and_wait_for_feedback(unsigned gap) {
        unsaid = true;
        if (!pace.arrived()) {
            while (!poll()) {
            }
        }
        say();
        rest(gap);
    }
    /// The next message comes `gap` polls later, whatever was said.
    void send(unsigned gap) {
        unsaid = true;
        if (pace.arrived()) {
            say();
        }
        rest(gap);
    }
    void rest(unsigned gap) {
        for (unsigned i = 0; i < gap; ++i) {
            if (poll()) {
                say();
            }
        }
    }
    bool poll() {
        ++polls;
        ns += ns_per_poll;
        return pace.idle([this] { return ns; }) && unsaid;
    }
    void say() {
        ++said;
        unsaid = false;
        pace.told();
    }
};

/// Polls for which it waits in vain while the producer sends so many, and then waits for all.
unsigned polls_of_bursts(bool writes, unsigned least, unsigned most) {
    Program program;
    std::minstd_rand random(1);
    for (unsigned burst = 0; burst < 1000; ++burst) {
        const unsigned size = least + static_cast<unsigned>(random()) % (most - least + 1);
        for (unsigned i = 0; i < size; ++i) {
            if (writes) {
                program.pace.is_of_writes(program.ns);
            }
            if (i + 1 < size) {
                program.send(1);
            }
        }
        program.send_and_wait_for_feedback(1);
    }
    return program.polls;
}

TEST(FeedbackPace, BurstsOfLongMessagesSeldomWait) {
    for (const auto& [least, most] :
         {std::pair{9u, 31u}, std::pair{16u, 48u}, std::pair{40u, 60u}}) {
        EXPECT_LT(polls_of_bursts(true, least, most) * 2, polls_of_bursts(false, least, most))
            << least << " to " << most;
    }
}

TEST(FeedbackPace, LongMessagesThatTakeAMillisecondComeWithoutIt) {
    constexpr unsigned messages = 1000;
    Program program;
    program.ns_per_poll = 1'000;
    for (unsigned i = 0; i < messages; ++i) {
        program.pace.is_of_writes(program.ns);
        program.send(1'500);
    }
    EXPECT_LT(program.said, messages / 4);
}

TEST(FeedbackPace, IsSaidAtOnceAtFirst) {
    FeedbackPace pace;
    EXPECT_TRUE(pace.arrived());
}

TEST(FeedbackPace, IsWithheldFromWhoDoesNotWaitForIt) {
    Program program;
    program.ns_per_poll = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50);
    }
    EXPECT_LE(program.said, tuning::pace::few);
}

TEST(FeedbackPace, OfMessagesThatComeAtOddTimesIsSeldomSaid) {
    Program program;
    for (unsigned i = 0; i < 10'000; ++i) {
        program.send(i % 100 == 0 ? 1000 : 20 + i % 50);
    }
    EXPECT_LT(program.said, 10'000u / 5);
}

TEST(FeedbackPace, IsSeldomSaidAlthoughTheProducerIsStoppedNowAndThen) {
    Program program;
    for (unsigned i = 0; i < 6000; ++i) {
        program.send(i % 60 == 0 ? 5000 : 5); // by its scheduler, say
    }
    EXPECT_LT(program.said, 6000u / 20);
}

TEST(FeedbackPace, IsSaidOnceOnlyWhenTheProducerIsStoppedByAccident) {
    Program program;
    unsigned accidents = 0;
    std::minstd_rand random; // the same each time
    for (unsigned i = 0; i < 6000; ++i) {
        const bool stopped = random() % 23 == 0;
        accidents += stopped ? 1 : 0;
        program.send(stopped ? 5000 : 5);
    }
    EXPECT_GT(accidents, 6000u / 30);
    EXPECT_LE(program.said, tuning::pace::few + 2 * accidents); // some of them are close together
}

TEST(FeedbackPace, LooksAtTheClockSeldom) {
    FeedbackPace pace = FeedbackPace();
    unsigned looks = 0;
    const auto clock = [&looks] { return std::uint64_t{++looks}; };
    for (unsigned i = 0; i < 1000; ++i) {
        (void)pace.arrived();
        for (unsigned polls = 0; polls < 15; ++polls) {
            (void)pace.idle(clock);
        }
    }
    EXPECT_LE(looks, 2 * 1000u);
}

TEST(FeedbackPace, OfMessagesThatComeSlowlyIsSaidOnceInAWhile) {
    Program program;
    program.ns_per_poll = tuning::pace::longest_ns / 250;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50); // fifty in the longest time while more come
    }
    EXPECT_LE(program.said, 1000 / 50 + tuning::pace::few);
}

TEST(FeedbackPace, CostsWhoWaitsForAProgramThatSeldomPollsLittle) {
    // Two messages, then a wait for both.
    Program program;
    program.ns_per_poll = tuning::pace::longest_ns / 10;
    for (unsigned i = 0; i < 10'000; ++i) {
        program.send(1);
        program.send_and_wait_for_feedback(1);
    }
    EXPECT_LT(program.polls, 2 * 10'000 * 1.1);
}

TEST(FeedbackPace, CostsWhoWaitsForItLittle) {
    constexpr unsigned gap = 50;
    constexpr unsigned messages = 20'000;
    Program program;
    for (unsigned i = 0; i < messages; ++i) {
        program.send_and_wait_for_feedback(gap);
    }
    EXPECT_EQ(program.said, messages);
    EXPECT_LT(program.polls, messages * gap * 1.02);
}

TEST(FeedbackPace, IsSaidToWhoBeginsToWait) {
    Program program;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50);
    }
    program.polls = 0;
    for (unsigned i = 0; i < 10; ++i) {
        program.send_and_wait_for_feedback(50);
    }
    // The first is an exception, for who had so many before; those after it must be enough.
    constexpr unsigned times =
        1 + tuning::pace::of_records.enough() / tuning::pace::of_records.each;
    EXPECT_LE(program.polls, 10 * 50 + times * (tuning::pace::least_patience +
                                                tuning::pace::gaps_of_patience * 50));
}

TEST(FeedbackPace, IsWithheldAgainFromWhoNoLongerWaits) {
    Program program;
    program.ns_per_poll = 0;
    for (unsigned i = 0; i < 5000; ++i) {
        program.send_and_wait_for_feedback(50);
    }
    for (unsigned i = 0; i < tuning::pace::seldom; ++i) {
        program.send(50);
    }
    program.said = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50);
    }
    EXPECT_LE(program.said, 1u);
}

/// Past the first ones, which are answered at once.
FeedbackPace that_withholds() {
    FeedbackPace pace;
    for (unsigned i = 0; i < tuning::pace::few; ++i) {
        (void)pace.arrived();
        pace.told();
    }
    return pace;
}

TEST(FeedbackPace, IsNotWithheldForEver) {
    FeedbackPace pace = that_withholds();
    for (unsigned i = 0; i < 1'000'000; ++i) {
        (void)pace.idle(no_time_passes);
    }
    ASSERT_FALSE(pace.arrived());
    unsigned polls = 0;
    while (!pace.idle(no_time_passes)) {
        ASSERT_LE(++polls, tuning::pace::least_patience +
                               tuning::pace::gaps_of_patience * tuning::pace::longest_gap);
    }
}

TEST(FeedbackPace, IsNotWithheldLongFromAProgramThatSeldomPolls) {
    FeedbackPace pace = that_withholds();
    ASSERT_FALSE(pace.arrived());
    std::uint64_t ns = 1;
    const auto clock = [&] { return ns; };
    EXPECT_FALSE(pace.idle(clock));
    ns += tuning::pace::longest_ns;
    EXPECT_FALSE(pace.arrived());
    EXPECT_FALSE(pace.idle(clock)) << "another one came";
    ns += tuning::pace::longest_ns;
    EXPECT_FALSE(pace.idle(clock));
    EXPECT_FALSE(pace.idle(clock));
    EXPECT_TRUE(pace.idle(clock)) << "the fourth looks at the clock again";
}

TEST(FeedbackPace, IsNotWithheldLongAlthoughMessagesComeSlowly) {
    FeedbackPace pace = that_withholds();
    std::uint64_t ns = 1;
    const auto clock = [&] { return ns; };
    ASSERT_FALSE(pace.arrived());
    ASSERT_FALSE(pace.idle(clock));
    const std::uint64_t began = ns;
    bool said = false;
    while (!said) {
        ns += tuning::pace::longest_ns - 1;
        ASSERT_FALSE(pace.arrived());
        said = pace.idle(clock);
        ASSERT_LE(ns - began, tuning::pace::longest_while_more_come_ns + tuning::pace::longest_ns);
    }
    EXPECT_GE(ns - began, tuning::pace::longest_while_more_come_ns);
}

TEST(FeedbackPace, OfSlowMessagesThatComeAtOddTimesIsSeldomSaid) {
    Program program; // in a virtual machine, say: thousands of polls in the longest time
    std::minstd_rand random;
    for (unsigned i = 0; i < 6000; ++i) {
        program.send(random() % 8 == 0 ? 400 : 100); // 8 of which are in the longest time
        program.ns += tuning::pace::longest_ns / 8;
    }
    EXPECT_LT(program.said, tuning::pace::few + 6000u / 50);
}

TEST(FeedbackPace, ThatWasNotWithheldIsSaidByTheNextPoll) {
    // It could not be said in the poll that took the message out: more was there.
    FeedbackPace pace;
    ASSERT_TRUE(pace.arrived());
    EXPECT_TRUE(pace.idle(no_time_passes));
}

TEST(FeedbackPace, ThatWasSaidForAnotherReasonIsNoProofThatNobodyWaits) {
    FeedbackPace pace = that_withholds();
    for (unsigned i = 0; i < 1000; ++i) {
        ASSERT_FALSE(pace.arrived());
        pace.told();
    }
    for (unsigned i = 0; i < tuning::pace::of_records.enough() / tuning::pace::of_records.each;
         ++i) {
        ASSERT_FALSE(pace.arrived());
        while (!pace.idle(no_time_passes)) {
        }
    }
    for (unsigned i = 0; i < tuning::pace::few; ++i) {
        EXPECT_TRUE(pace.arrived()) << i;
        pace.told();
    }
}

/// A producer that has `window` messages under way, each `gap` polls after the one before, and goes
/// on as it hears that some were handled. How often it heard, and what it cost.
struct Windowed {
    FeedbackPace pace;
    unsigned said = 0;
    std::uint64_t polls = 0;

    void send(unsigned messages, unsigned window, unsigned gap) {
        unsigned unsaid = 0;
        for (unsigned i = 0; i < messages; ++i) {
            ++unsaid;
            bool say = pace.arrived();
            say = pace.is_enough(unsaid) || say;
            for (unsigned rested = 0; rested < gap || (unsaid == window && !say); ++rested) {
                ++polls;
                say = say || pace.idle(no_time_passes);
                if (say && unsaid != 0) {
                    ++said;
                    unsaid = 0;
                    pace.told();
                    say = false;
                }
            }
        }
    }
};

TEST(FeedbackPace, IsSaidSeldomToWhoHasMuchUnderWay) {
    Windowed producer;
    producer.send(1000, 256, 5);
    producer.said = 0;
    producer.send(24'000, 256, 5);
    EXPECT_LE(producer.said, 24'000 / tuning::pace::large_batch + 1);
}

TEST(FeedbackPace, CostsWhoHasLessUnderWayLittle) {
    constexpr unsigned messages = 50'000;
    constexpr unsigned gap = 5;
    for (const unsigned window : {9u, 16u, 23u}) {
        Windowed producer;
        producer.send(messages, window, gap);
        EXPECT_LT(producer.polls, messages * gap * 1.05) << window;
        EXPECT_LT(producer.said, messages / tuning::pace::small_batch * 1.05) << window;
    }
}

TEST(FeedbackPace, CostsWhoWaitsAfterSomeLittleToo) {
    // A burst, then a wait for all of it.
    constexpr unsigned gap = 50;
    constexpr unsigned bursts = 500;
    for (const unsigned burst : {2u, 20u, 200u}) {
        Program program;
        for (unsigned i = 0; i < bursts; ++i) {
            for (unsigned k = 1; k < burst; ++k) {
                program.send(gap);
            }
            program.send_and_wait_for_feedback(gap);
        }
        EXPECT_LT(program.polls, bursts * burst * gap * 1.15) << burst;
    }
}

TEST(FeedbackPace, WhileMoreIsUnderWayOnlyTimeCounts) {
    FeedbackPace pace;
    std::uint64_t ns = 1;
    const auto passes = [&](unsigned polls, std::uint64_t each_ns) {
        for (unsigned i = 1; i <= polls; ++i) {
            ns += each_ns;
            if (pace.passed(true, [&] { return ns; })) {
                return i;
            }
        }
        return 0u;
    };
    EXPECT_FALSE(pace.passed(false, [] { return tuning::pace::longest_while_more_come_ns; }))
        << "there is nothing to say";
    (void)pace.arrived();
    EXPECT_EQ(passes(100'000, 90), 0u) << "9 ms";
    const unsigned polls = passes(100'000, 90);
    EXPECT_GT(polls, 0u);
    EXPECT_LT(polls, 20'000u);
    // The time begins anew, also for who polls seldom.
    pace.told();
    (void)pace.arrived();
    EXPECT_EQ(passes(2, tuning::pace::longest_while_more_come_ns / 4), 0u);
    EXPECT_NE(passes(30, tuning::pace::longest_while_more_come_ns / 4), 0u);
}

} // namespace
} // namespace comch::channel
