// Rings that fell quiet are not polled any more; what comes through them is heard all the same.
#include <algorithm>

#include "core/link/soft/test_process.hpp"

namespace comch::link::soft::test {
namespace {

/// Many connections between two ports of this process.
struct Resting : ::testing::TestWithParam<bool> {
    static constexpr unsigned count = 40;
    static constexpr unsigned resting = count - tuning::always_hot;
    Lab lab;
    End host{lab, Side::host};
    End dpu{lab, Side::dpu, 0, {.face = "test", .arrival_order = GetParam()}};
    std::vector<Connected> pairs;

    Resting() {
        for (unsigned i = 0; i < count; ++i) {
            pairs.push_back(connect(host, dpu));
        }
    }
    /// All but those that are always polled.
    bool rest() {
        return until([&] { return dpu.port->resting() == resting; }, dpu);
    }
    Errc send(unsigned i) {
        const auto number = static_cast<std::uint8_t>(i);
        return pairs[i].initiator->send_ordered(number, bytes_of("after a rest"));
    }
};

TEST_P(Resting, WhatComesAfterItIsHeard) {
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(rest());
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(send(i), Errc::ok);
        }
        ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == count; }, dpu));
        dpu.seen.messages.clear();
    }
}

TEST_P(Resting, OrderOfOneConnectionIsKeptOverIt) {
    ASSERT_TRUE(rest());
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(pairs[7].initiator->send(static_cast<std::uint8_t>(i), {}), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == 100; }, dpu));
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_EQ(dpu.seen.messages[i].id, i);
    }
}

TEST_P(Resting, ItsOwnerMaySleep) {
    ASSERT_TRUE(rest());
    for (unsigned i = 0; i < count; ++i) {
        const std::size_t before = dpu.seen.messages.size();
        while (dpu.port->arm() != Errc::ok) {
            dpu.progress();
        }
        ASSERT_EQ(send(i), Errc::ok);
        ASSERT_TRUE(sleep_until(dpu, [&] { return dpu.seen.messages.size() > before; }));
        EXPECT_EQ(dpu.seen.messages.back().id, i);
    }
}

TEST_P(Resting, AnEndIsHeardOnce) {
    ASSERT_TRUE(rest());
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_EQ(send(i), Errc::ok);
        host.port->close(pairs[i].initiator);
    }
    ASSERT_TRUE(until([&] { return dpu.seen.ends.size() == count; }, host, dpu));
    EXPECT_EQ(dpu.seen.messages.size(), count);
    for (const auto& end : dpu.seen.ends) {
        EXPECT_EQ(end.reason, Reason::closed);
        dpu.port->close(end.connection);
    }
    EXPECT_EQ(dpu.port->resting(), 0u);
    settle(std::chrono::milliseconds(2), dpu);
    EXPECT_EQ(dpu.seen.ends.size(), count);
}

TEST_P(Resting, ClosingThatEndLeavesTheOthersAtRest) {
    ASSERT_TRUE(rest());
    for (unsigned i = 0; i + 1 < count; ++i) {
        dpu.port->close(pairs[i].acceptor);
    }
    EXPECT_LE(dpu.port->resting(), 1u);
    ASSERT_EQ(send(count - 1), Errc::ok);
    EXPECT_TRUE(until([&] { return dpu.seen.messages.size() == 1; }, dpu));
}

INSTANTIATE_TEST_SUITE_P(Ports, Resting, ::testing::Bool(), [](const auto& test) {
    return test.param ? "InOrderOfArrival" : "Plain";
});

TEST(RestingInOrder, ArrivalOrderHoldsOverRestingRings) {
    Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu, 0, {.face = "test", .arrival_order = true});
    constexpr unsigned count = 100; // more than one look at the sockets tells
    std::vector<Connected> pairs;
    for (unsigned i = 0; i < count; ++i) {
        pairs.push_back(connect(host, dpu));
    }
    std::vector<unsigned> order(count);
    for (unsigned i = 0; i < count; ++i) {
        order[i] = (i * 37 + 11) % count;
    }
    for (int round = 0; round < 5; ++round) {
        ASSERT_TRUE(until([&] { return dpu.port->resting() != 0; }, dpu));
        // Some rings are awake, the last one too: it is seen first.
        ASSERT_EQ(pairs[order.back()].initiator->send_ordered(255, {}), Errc::ok);
        ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == 1; }, dpu));
        dpu.seen.messages.clear();
        for (const unsigned i : order) {
            ASSERT_EQ(pairs[i].initiator->send_ordered(static_cast<std::uint8_t>(i), {}), Errc::ok);
        }
        ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == count; }, dpu));
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(dpu.seen.messages[i].id, order[i]) << "at " << i << " in round " << round;
        }
        dpu.seen.messages.clear();
    }
}

} // namespace
} // namespace comch::link::soft::test
