#include "perftest/pattern.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

TEST(Pattern, EveryChangedByteIsFound) {
    for (const std::size_t size : {1u, 7u, 8u, 9u, 63u, 100u}) {
        std::vector<std::byte> bytes(size);
        const auto seed = pattern::seed(Direction::to_server, 3, 99);
        pattern::fill(bytes, seed);
        EXPECT_EQ(pattern::find_mismatch(bytes, seed), std::nullopt);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] ^= std::byte{0x10};
            EXPECT_EQ(pattern::find_mismatch(bytes, seed), i);
            EXPECT_EQ(pattern::find_mismatch(bytes, seed, i), i);
            EXPECT_EQ(pattern::find_mismatch(bytes, seed, i + 1), std::nullopt);
            bytes[i] ^= std::byte{0x10};
        }
    }
}

TEST(Pattern, MessagesDirectionsAndThreadsDiffer) {
    std::set<std::uint64_t> words;
    std::size_t count = 0;
    for (const auto direction : {Direction::to_server, Direction::to_client}) {
        for (std::uint32_t thread = 0; thread < 4; ++thread) {
            for (std::uint64_t message = 0; message < 100; ++message) {
                for (std::size_t index = 0; index < 4; ++index) {
                    words.insert(pattern::word(pattern::seed(direction, thread, message), index));
                    ++count;
                }
            }
        }
    }
    EXPECT_EQ(words.size(), count);
}

TEST(Pattern, AShorterMessageIsTheFrontOfALongerOne) {
    std::vector<std::byte> longer(100);
    std::vector<std::byte> shorter(13);
    pattern::fill(longer, 5);
    pattern::fill(shorter, 5);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

} // namespace
} // namespace comch::perftest
