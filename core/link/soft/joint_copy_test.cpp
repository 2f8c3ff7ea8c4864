#include "core/link/soft/joint_copy.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace comch::link::soft {
namespace {

using joint::Claims;
using joint::Done;
using joint::Part;
using Rest = JointCopy::Rest;

class JointWords : public ::testing::Test {
protected:
    Direction::Joint words{};
    JointCopy copy;
    joint::Balance balance;
    JointHelp help;
    std::vector<unsigned> copied; ///< how often each unit was
    bool by_kernel = true;

    JointWords() {
        copy.attach(&words);
        help.attach(&words);
    }
    void begin(std::uint64_t length) {
        copied.assign(joint::units_of(length), 0);
        help.begin(copy.begin(length, by_kernel, balance), length, by_kernel);
    }
    void count(Part part, std::uint64_t length) {
        ASSERT_EQ(part.offset % joint::unit, 0u);
        ASSERT_LE(part.offset + part.length, length);
        ASSERT_TRUE(part.length % joint::unit == 0 || part.offset + part.length == length);
        for (std::uint32_t i = 0; i < joint::units_of(part.length); ++i) {
            ++copied.at((part.offset >> joint::unit_bits) + i);
        }
    }
    [[nodiscard]] bool each_once() const {
        return std::ranges::all_of(copied, [](unsigned times) { return times == 1; });
    }
    void take_the_rest(std::uint64_t length) {
        for (Part part = copy.take(); part.length != 0; part = copy.take()) {
            count(part, length);
        }
    }
};

TEST(LayoutOfJointCopies, WordsHoldWhatTheyMust) {
    for (const std::uint32_t units : {0u, 1u, 0x123456u, 0xffffffu}) {
        const auto claims = Claims::unpack(Claims{0xffff, units, 0xffffff - units}.pack());
        EXPECT_EQ(claims.generation, 0xffff);
        EXPECT_EQ(claims.front, units);
        EXPECT_EQ(claims.back, 0xffffff - units);
        const auto done = Done::unpack(Done{0x8001, true, units}.pack());
        EXPECT_EQ(done.generation, 0x8001);
        EXPECT_TRUE(done.failed);
        EXPECT_EQ(done.units, units);
    }
}

TEST_F(JointWords, WhoIsNotHelpedCopiesEverything) {
    for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{4097},
                                       std::uint64_t{1} << 20, (std::uint64_t{64} << 20) + 5}) {
        ASSERT_TRUE(copy.may_begin(length));
        begin(length);
        take_the_rest(length);
        EXPECT_TRUE(each_once());
        Part part;
        EXPECT_EQ(copy.rest(part), Rest::here);
        EXPECT_FALSE(copy.helped());
        copy.end(balance);
        EXPECT_EQ(help.take(by_kernel).length, 0u);
    }
}

TEST_F(JointWords, BothCopyUntilTheyMeet) {
    constexpr std::uint64_t length = (std::uint64_t{8} << 20) + 100;
    begin(length);
    Part part;
    for (bool more = true; more;) {
        const Part ours = copy.take();
        const Part theirs = help.take(by_kernel);
        count(ours, length);
        count(theirs, length);
        if (theirs.length != 0) {
            help.copied();
        }
        more = ours.length + theirs.length != 0;
    }
    EXPECT_TRUE(each_once());
    EXPECT_TRUE(copy.helped());
    EXPECT_EQ(copy.rest(part), Rest::here);
}

TEST_F(JointWords, ByTheKernelEachEndCopiesOnePart) {
    for (const std::uint64_t length : {128u << 10, 256u << 10, (512u << 10) + 1, 1u << 20}) {
        begin(length);
        count(copy.take(), length);
        count(help.take(by_kernel), length);
        EXPECT_TRUE(each_once()) << length;
        EXPECT_EQ(copy.take().length, 0u);
        Part part;
        EXPECT_EQ(copy.rest(part), Rest::coming);
        help.copied();
        EXPECT_EQ(copy.rest(part), Rest::here);
        EXPECT_EQ(help.take(by_kernel).length, 0u);
        copy.end(balance);
    }
}

TEST_F(JointWords, WhereOneEndNeedsNoKernelPartsAreShort) {
    constexpr std::uint64_t length = 3 << 20; // longer than what each end copies one part of
    constexpr std::uint64_t most = std::uint64_t{tuning::joint_mapped_max_units}
                                   << joint::unit_bits;
    for (const bool ours : {false, true}) {
        for (const bool theirs : {false, true}) {
            if (ours && theirs) {
                continue;
            }
            copied.assign(joint::units_of(length), 0);
            help.begin(copy.begin(length, ours, balance), length, ours);
            // (By the kernel the first is long; how long is found out.)
            const Part first = copy.take();
            count(first, length);
            EXPECT_TRUE(ours || first.length <= most);
            for (Part part = help.take(theirs); part.length != 0; part = help.take(theirs)) {
                EXPECT_LE(part.length, most);
                count(part, length);
                help.copied();
            }
            take_the_rest(length);
            EXPECT_TRUE(each_once());
            copy.end(balance);
        }
    }
}

TEST_F(JointWords, NoLengthLeavesALittlePart) {
    for (std::uint32_t total = 2 * tuning::joint_min_units; total < 1500; ++total) {
        const std::uint64_t length = std::uint64_t{total} << joint::unit_bits;
        begin(length);
        std::uint64_t least = length;
        for (unsigned parts = 0;; ++parts) {
            const Part part = parts % 2 == 0 ? copy.take() : help.take(by_kernel);
            count(part, length);
            if (part.length == 0) {
                break;
            }
            help.copied();
            least = std::min(least, part.length);
        }
        take_the_rest(length);
        EXPECT_TRUE(each_once());
        EXPECT_GE(least, (std::uint64_t{tuning::joint_min_units} / 2) << joint::unit_bits) << total;
        copy.end(balance);
    }
}

TEST_F(JointWords, APeerThatFailsIsNoFastOne) {
    constexpr std::uint64_t length = 256 << 10;
    begin(length);
    const std::uint64_t at_first = copy.take().length;
    for (unsigned i = 0; i < 20; ++i) {
        (void)help.take(by_kernel);
        help.failed();
        EXPECT_EQ(copy.take().length, 0u);
        Part part;
        EXPECT_EQ(copy.rest(part), Rest::ours);
        copy.end(balance);
        begin(length);
        EXPECT_EQ(copy.take().length, at_first);
    }
}

TEST_F(JointWords, WhoIsReadyFirstGetsMoreOfTheNext) {
    constexpr std::uint64_t length = 256 << 10;
    const auto first_part = [&](bool peer_is_late) {
        begin(length);
        const Part ours = copy.take();
        count(ours, length);
        count(help.take(by_kernel), length);
        EXPECT_EQ(copy.take().length, 0u);
        Part part;
        if (peer_is_late) {
            EXPECT_EQ(copy.rest(part), Rest::coming);
            for (unsigned i = 0; i <= tuning::joint_waits; ++i) {
                copy.wait();
            }
        }
        help.copied();
        EXPECT_EQ(copy.rest(part), Rest::here);
        copy.end(balance);
        EXPECT_TRUE(each_once());
        return ours.length;
    };
    const std::uint64_t at_first = first_part(true);
    for (unsigned i = 0; i < 100; ++i) {
        (void)first_part(true);
    }
    const std::uint64_t beside_a_slow_one = first_part(true);
    EXPECT_GT(beside_a_slow_one, at_first);
    EXPECT_LT(beside_a_slow_one, length) << "the peer may become faster";
    for (unsigned i = 0; i < 100; ++i) {
        (void)first_part(false);
    }
    const std::uint64_t beside_a_fast_one = first_part(false);
    EXPECT_LT(beside_a_fast_one, at_first);
    EXPECT_GT(beside_a_fast_one, 0u);
}

TEST_F(JointWords, WhereTheyMeetIsMovedSeldom) {
    constexpr std::uint64_t length = 1 << 20;
    const auto first_part = [&] { // of one that is here in time
        begin(length);
        const std::uint64_t ours = copy.take().length;
        (void)help.take(by_kernel);
        help.copied();
        Part part;
        EXPECT_EQ(copy.take().length, 0u);
        EXPECT_EQ(copy.rest(part), Rest::here);
        copy.end(balance);
        return ours;
    };
    const auto peer_was_late = [&] {
        begin(length);
        (void)copy.take();
        (void)help.take(by_kernel);
        EXPECT_EQ(copy.take().length, 0u);
        for (unsigned i = 0; i <= tuning::joint_waits; ++i) {
            copy.wait();
        }
        help.copied();
        Part part;
        EXPECT_EQ(copy.rest(part), Rest::here);
        copy.end(balance);
    };
    for (unsigned i = 0; i < 10; ++i) { // the steps become short
        peer_was_late();
        (void)first_part();
    }
    unsigned moved = 0;
    std::uint64_t before = first_part();
    for (unsigned i = 0; i < 100; ++i) {
        const std::uint64_t now = first_part();
        moved += now != before ? 1 : 0;
        before = now;
    }
    EXPECT_GT(moved, 2u) << "a faster peer gets more";
    EXPECT_LT(moved, 10u);
}

TEST_F(JointWords, LeavesTheRestOfAShortOne) {
    for (const bool kernel : {false, true}) {
        by_kernel = kernel;
        begin(1 << 20);
        EXPECT_TRUE(copy.leaves_rest());
        EXPECT_TRUE(copy.has_more());
        (void)copy.take();
        EXPECT_TRUE(copy.has_more()) << "nobody has taken it";
        (void)help.take(by_kernel);
        EXPECT_FALSE(copy.has_more());
        EXPECT_FALSE(help.active()) << "there is nothing more for it";
        help.copied();
        EXPECT_EQ(copy.take().length, 0u);
        copy.end(balance);
    }
    begin((1 << 20) + 1);
    EXPECT_FALSE(copy.leaves_rest());
    copy.give_up();
    EXPECT_FALSE(copy.has_more());
}

TEST_F(JointWords, WhatIsClaimedIsWaitedFor) {
    begin(1 << 20);
    const Part theirs = help.take(by_kernel);
    ASSERT_NE(theirs.length, 0u);
    take_the_rest(1 << 20);
    Part part;
    EXPECT_EQ(copy.rest(part), Rest::coming);
    help.copied();
    EXPECT_EQ(copy.rest(part), Rest::here);
}

TEST_F(JointWords, WhatTheHelperFailsAtIsLeftToTheOther) {
    constexpr std::uint64_t length = (1 << 20) + 7;
    begin(length);
    count(help.take(by_kernel), length);
    help.copied();
    ASSERT_NE(help.take(by_kernel).length, 0u);
    help.failed();
    EXPECT_EQ(help.take(by_kernel).length, 0u);
    take_the_rest(length);
    Part part;
    ASSERT_EQ(copy.rest(part), Rest::ours);
    count(part, length);
    EXPECT_TRUE(each_once());
}

TEST_F(JointWords, WhoHasNotSeenTheLastOneIsNotAskedAgain) {
    const std::uint16_t first = copy.begin(1 << 20, by_kernel, balance);
    copy.give_up();
    copy.end(balance);
    EXPECT_FALSE(copy.may_begin(1 << 20));
    help.begin(first, 1 << 20, by_kernel); // late
    EXPECT_EQ(help.take(by_kernel).length, 0u);
    EXPECT_TRUE(copy.may_begin(1 << 20));
    EXPECT_FALSE(copy.may_begin(joint::max_length + 1));
}

TEST_F(JointWords, WhoSleptThroughTheEndClaimsNothingOfTheNext) {
    begin(1 << 20);
    take_the_rest(1 << 20);
    copy.end(balance);
    (void)copy.begin(1 << 20, by_kernel, balance); // whose record the helper has not seen
    EXPECT_EQ(help.take(by_kernel).length, 0u);
    take_the_rest(1 << 20);
    EXPECT_FALSE(copy.helped());
}

TEST_F(JointWords, WhoGivesUpLeavesNothing) {
    begin(1 << 20);
    copy.give_up();
    EXPECT_EQ(help.take(by_kernel).length, 0u);
    EXPECT_EQ(copy.take().length, 0u);
}

TEST_F(JointWords, ThreadsCopyEachByteOnce) {
    constexpr std::uint64_t most = 3 << 20;
    std::vector<unsigned char> from(most);
    std::vector<unsigned char> to(most);
    std::mt19937 random(7);
    for (auto& byte : from) {
        byte = static_cast<unsigned char>(random());
    }
    // Adds, so that what is copied twice shows.
    const auto add = [&](Part part) {
        for (std::uint64_t at = part.offset; at < part.offset + part.length; ++at) {
            to[at] = static_cast<unsigned char>(to[at] + from[at]);
        }
    };
    std::atomic<std::uint64_t> asked =
        0; // generation, who copies how, and length, as the record says them
    std::atomic<bool> over = false;
    std::atomic<std::uint64_t> helped = 0;
    std::thread helper([&] {
        std::uint64_t seen = 0;
        while (!over.load()) {
            const std::uint64_t now = asked.load(std::memory_order_acquire);
            if (now != seen) {
                seen = now;
                help.begin(static_cast<std::uint16_t>(now), now >> 17, (now >> 16 & 1) != 0);
            }
            if (const Part part = help.take((seen >> 17) % 2 == 0); part.length != 0) {
                add(part);
                help.copied();
                helped.fetch_add(1, std::memory_order_relaxed);
            } else {
                std::this_thread::yield();
            }
        }
    });
    for (unsigned i = 0; i < 300 || helped.load() < 50; ++i) {
        const std::uint64_t length = 8192 + random() % (most - 8192);
        std::fill_n(to.begin(), length, static_cast<unsigned char>(0));
        while (!copy.may_begin(length)) {
            std::this_thread::yield();
        }
        by_kernel = i % 2 == 0;
        asked.store(copy.begin(length, by_kernel, balance) | std::uint64_t{by_kernel} << 16 |
                        length << 17,
                    std::memory_order_release);
        for (Part part = copy.take(); part.length != 0; part = copy.take()) {
            add(part);
        }
        Part part;
        while (copy.rest(part) == Rest::coming) {
            std::this_thread::yield();
        }
        copy.end(balance);
        ASSERT_TRUE(
            std::equal(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(length), from.begin()))
            << length;
    }
    over.store(true);
    helper.join();
}

TEST_F(JointWords, SpoiltClaimsAreNotBelieved) {
    constexpr std::uint64_t length = (1 << 20) - 5000;
    const std::uint32_t units = joint::units_of(length);
    const std::uint32_t front = joint::Balance().first_of(units);
    for (const Claims lie :
         {Claims{1, 5, 0}, Claims{1, front, 0xffffff}, Claims{1, front, units - front + 1},
          Claims{2, front, 0}, Claims{1, 0xffffff, 0xffffff}}) {
        Direction::Joint spoilt{};
        JointCopy victim;
        victim.attach(&spoilt);
        copied.assign(units, 0);
        (void)victim.begin(length, by_kernel, balance);
        const Part first = victim.take();
        ASSERT_EQ(first.length, std::uint64_t{front} << joint::unit_bits);
        count(first, length);
        spoilt.claims.store(lie.pack());
        spoilt.done.store(Done{1, false, 0xffffff}.pack());
        for (Part part = victim.take(); part.length != 0; part = victim.take()) {
            count(part, length);
        }
        EXPECT_TRUE(each_once()) << "all by ourselves";
        Part part;
        EXPECT_EQ(victim.rest(part), Rest::here);
        victim.end(balance);
        EXPECT_FALSE(victim.may_begin(length)) << "once and never again";
    }
}

TEST_F(JointWords, ClaimsThatAreSpoiltAtTheEndAddNothing) {
    constexpr std::uint64_t length = 10'000;
    (void)copy.begin(length, by_kernel, balance);
    while (copy.take().length != 0) {
    }
    words.claims.store(4711);
    EXPECT_EQ(copy.take().length, 0u);
    EXPECT_EQ(copy.take().length, 0u);
}

TEST_F(JointWords, HelpersStayInBoundsWhateverTheWordsSay) {
    std::mt19937_64 random(3);
    for (unsigned i = 0; i < 100'000; ++i) {
        const std::uint64_t length = random() % 3 == 0 ? random() : random() % (4 << 20);
        help.begin(1, length, by_kernel);
        unsigned parts = 0;
        std::uint32_t claimed = 0;
        do {
            Claims claims{1, static_cast<std::uint32_t>(random() % 1100),
                          claimed + (random() % 8 == 0 ? 1 : 0)};
            words.claims.store(random() % 4 == 0 ? random() : claims.pack());
            const Part part = help.take(by_kernel);
            if (part.length == 0) {
                break;
            }
            ASSERT_LT(part.offset, length);
            ASSERT_LE(part.length, length - part.offset);
            claimed += joint::units_of(part.length);
            help.copied();
        } while (++parts < 5000);
        ASSERT_LT(parts, 5000u) << length;
    }
}

TEST_F(JointWords, LiesAboutWhatIsDoneStayInBounds) {
    constexpr std::uint64_t length = (1 << 20) + 1;
    std::mt19937_64 random(5);
    for (unsigned i = 0; i < 10'000; ++i) {
        Direction::Joint spoilt{};
        JointCopy victim;
        JointHelp peer;
        victim.attach(&spoilt);
        peer.attach(&spoilt);
        peer.begin(victim.begin(length, by_kernel, balance), length, by_kernel);
        (void)peer.take(by_kernel);
        while (victim.take().length != 0) {
        }
        spoilt.done.store(random() % 2 == 0
                              ? random()
                              : Done{1, true, static_cast<std::uint32_t>(random() % 200)}.pack());
        Part part;
        if (victim.rest(part) == Rest::ours) {
            ASSERT_LT(part.offset, length);
            ASSERT_LE(part.length, length - part.offset);
        }
    }
}

} // namespace
} // namespace comch::link::soft
