#include "core/counters/pairing.hpp"

#include <gtest/gtest.h>

namespace comch::counters {
namespace {

ConnectionSample end_of(std::uint64_t connection, std::uint64_t sent = 0, std::uint64_t taken = 0,
                        SlotState state = SlotState::connected) {
    ConnectionSample sample;
    sample.connection = connection;
    sample.state = state;
    sample.figures.tx_messages = sent;
    sample.figures.rx_messages = taken;
    return sample;
}

ProcessSample process_with(std::vector<ConnectionSample> connections) {
    ProcessSample process;
    process.connections = std::move(connections);
    return process;
}

TEST(Pairing, FindsBothEndsWhereverTheyAre) {
    const auto pairs = pair_ends({process_with({end_of(7), end_of(8)}), process_with({}),
                                  process_with({end_of(9), end_of(8), end_of(9)})});
    ASSERT_EQ(pairs.size(), 2u);
    EXPECT_EQ(pairs[0], std::make_pair(EndIndex{0, 1}, EndIndex{2, 1}));
    EXPECT_EQ(pairs[1], std::make_pair(EndIndex{2, 0}, EndIndex{2, 2})) << "within one process";
}

TEST(Pairing, AnUnknownNumberPairsNobody) {
    EXPECT_TRUE(pair_ends({process_with({end_of(0)}), process_with({end_of(0)})}).empty());
}

TEST(Pairing, ANumberThatMoreThanTwoHavePairsNobody) {
    EXPECT_TRUE(
        pair_ends({process_with({end_of(5), end_of(5)}), process_with({end_of(5)})}).empty());
}

TEST(InFlight, IsWhatWasSentAndNotTakenOut) {
    EXPECT_EQ(in_flight(end_of(1, 10, 100), end_of(1, 500, 7)), 3u);
    EXPECT_EQ(in_flight(end_of(1, 10), end_of(1, 0, 10)), 0u);
}

TEST(InFlight, IsNeverNegative) {
    EXPECT_EQ(in_flight(end_of(1, 10), end_of(1, 0, 12)), 0u);
}

TEST(InFlight, IsUnknownWhereNothingIsTakenOutAnyMore) {
    EXPECT_EQ(in_flight(end_of(1, 10), end_of(1, 0, 7, SlotState::closed)), std::nullopt);
    EXPECT_EQ(in_flight(end_of(1, 10), end_of(1, 0, 7, SlotState::failed)), std::nullopt);
    EXPECT_EQ(in_flight(end_of(1, 10, 0, SlotState::closed), end_of(1, 0, 7)), 3u)
        << "what was sent before an orderly end is still delivered";
    EXPECT_EQ(in_flight(end_of(1, 10), end_of(1, 0, 0, SlotState::connecting)), 10u);
}

} // namespace
} // namespace comch::counters
