#include "core/channel/feedback_pace.hpp"

#include <gtest/gtest.h>

namespace comch::channel {
namespace {

/// What feedback a consumer gives, and what a producer has to wait for it.
struct Program {
    FeedbackPace pace;
    unsigned said = 0;
    unsigned polls = 0;

    /// The next message comes when the feedback has, `gap` polls later.
    void send_and_wait_for_feedback(unsigned gap) {
        bool here = pace.arrived();
        while (!here) {
            ++polls;
            here = pace.idle();
        }
        say();
        rest(gap);
    }
    /// The next message comes `gap` polls later, whatever was said.
    void send(unsigned gap) {
        if (pace.arrived()) {
            say();
        }
        rest(gap);
    }
    void rest(unsigned gap) {
        for (unsigned i = 0; i < gap; ++i) {
            ++polls;
            if (pace.idle()) {
                say();
            }
        }
    }
    void say() {
        ++said;
        pace.told();
    }
};

TEST(FeedbackPace, IsSaidAtOnceAtFirst) {
    FeedbackPace pace;
    EXPECT_TRUE(pace.arrived());
}

TEST(FeedbackPace, IsWithheldFromWhoDoesNotWaitForIt) {
    Program program;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50);
    }
    EXPECT_LE(program.said, FeedbackPace::few);
}

TEST(FeedbackPace, OfMessagesThatComeAtOddTimesIsSeldomSaid) {
    Program program;
    for (unsigned i = 0; i < 10'000; ++i) {
        program.send(i % 100 == 0 ? 1000 : 20 + i % 50);
    }
    EXPECT_LT(program.said, 10'000u / 5);
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
    // The first might have been an exception.
    EXPECT_LE(program.polls,
              10 * 50 + 2 * (FeedbackPace::least_patience + FeedbackPace::gaps_of_patience * 50));
}

TEST(FeedbackPace, IsWithheldAgainFromWhoNoLongerWaits) {
    Program program;
    for (unsigned i = 0; i < 5000; ++i) {
        program.send_and_wait_for_feedback(50);
    }
    for (unsigned i = 0; i < FeedbackPace::seldom; ++i) {
        program.send(50);
    }
    program.said = 0;
    for (unsigned i = 0; i < 1000; ++i) {
        program.send(50);
    }
    EXPECT_LE(program.said, 1u);
}

TEST(FeedbackPace, IsNotWithheldForEver) {
    FeedbackPace pace;
    for (unsigned i = 0; i < FeedbackPace::few; ++i) {
        (void)pace.arrived();
        pace.told();
    }
    for (unsigned i = 0; i < 1'000'000; ++i) {
        (void)pace.idle();
    }
    ASSERT_FALSE(pace.arrived());
    unsigned polls = 0;
    while (!pace.idle()) {
        ASSERT_LE(++polls, FeedbackPace::least_patience +
                               FeedbackPace::gaps_of_patience * FeedbackPace::longest_gap);
    }
}

TEST(FeedbackPace, ThatWasSaidForAnotherReasonIsNoProofThatNobodyWaits) {
    FeedbackPace pace;
    for (unsigned i = 0; i < FeedbackPace::few; ++i) {
        (void)pace.arrived();
        pace.told();
    }
    for (unsigned i = 0; i < 1000; ++i) {
        ASSERT_FALSE(pace.arrived());
        pace.told();
    }
    (void)pace.arrived();
    while (!pace.idle()) {
    }
    for (unsigned i = 0; i < FeedbackPace::few; ++i) {
        EXPECT_TRUE(pace.arrived()) << i;
        pace.told();
    }
}

} // namespace
} // namespace comch::channel
