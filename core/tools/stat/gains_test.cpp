#include "core/tools/stat/gains.hpp"

#include <gtest/gtest.h>

namespace comch::stat {
namespace {

ConnectionSample connection(std::uint32_t slot, std::uint64_t number, std::uint64_t messages,
                            std::uint64_t bytes = 0) {
    ConnectionSample sample;
    sample.slot = slot;
    sample.connection = number;
    sample.figures.tx_messages = messages;
    sample.figures.rx_bytes = bytes;
    return sample;
}

ProcessSample process(std::uint64_t id, std::vector<ConnectionSample> connections) {
    ProcessSample sample;
    sample.process_id = id;
    sample.connections = std::move(connections);
    return sample;
}

TEST(Gains, AreWhatWasCountedInBetween) {
    const Gains gains({process(1, {connection(0, 10, 100, 5), connection(1, 11, 1)})}, 0.5);
    EXPECT_EQ(gains.seconds(), 0.5);
    const auto now = process(1, {connection(0, 10, 130, 1005), connection(1, 11, 1)});
    EXPECT_EQ(gains.of(now, now.connections[0]).tx_messages, 30u);
    EXPECT_EQ(gains.of(now, now.connections[0]).rx_bytes, 1000u);
    EXPECT_EQ(gains.of(now, now.connections[1]), Figures{});
}

TEST(Gains, OfWhatWasNotThereBeforeAreAllOfIt) {
    const Gains gains({process(1, {connection(0, 10, 100)})}, 1);
    const auto younger = process(1, {connection(0, 10, 100), connection(1, 11, 7)});
    EXPECT_EQ(gains.of(younger, younger.connections[1]).tx_messages, 7u);
    const auto other = process(2, {connection(0, 10, 120)});
    EXPECT_EQ(gains.of(other, other.connections[0]).tx_messages, 120u)
        << "another process with the same slot and the connection's other end";
}

TEST(Gains, AreNotMixedUpWhenASlotIsTakenAgain) {
    const Gains gains({process(1, {connection(0, 10, 100, 9), connection(1, 0, 100)})}, 1);
    const auto now = process(1, {connection(0, 12, 103, 9), connection(1, 0, 4)});
    EXPECT_EQ(gains.of(now, now.connections[0]).tx_messages, 103u);
    EXPECT_EQ(gains.of(now, now.connections[0]).rx_bytes, 9u);
    EXPECT_EQ(gains.of(now, now.connections[1]).tx_messages, 4u) << "known by its shrinking only";
}

TEST(Gains, OfEndedConnectionsAreWhatTheyCountedAfterTheyWereLastSeen) {
    auto then = process(1, {connection(0, 10, 100), connection(1, 11, 50), connection(2, 0, 9)});
    then.ended.tx_messages = 1000;
    const Gains gains({then}, 1);
    EXPECT_EQ(gains.of_ended(then), Figures{});
    // Two slots were taken again, one of them is known by its shrinking only.
    auto now = process(1, {connection(0, 12, 3), connection(1, 11, 60), connection(2, 0, 4)});
    now.ended.tx_messages = 1000 + (100 + 7) + (9 + 1);
    EXPECT_EQ(gains.of_ended(now).tx_messages, 8u);
    now.ended = {};
    EXPECT_EQ(gains.of_ended(now), Figures{}) << "never negative";
    auto other = process(2, {});
    other.ended.tx_messages = 5;
    EXPECT_EQ(gains.of_ended(other).tx_messages, 5u) << "younger than the reading before";
}

} // namespace
} // namespace comch::stat
