#include "perftest/content.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

std::vector<std::byte> message(std::uint64_t number, std::size_t size) {
    std::vector<std::byte> bytes(size);
    pattern::fill(bytes, pattern::seed(Direction::to_client, 2, number));
    return bytes;
}

TEST(Checker, IsContentWithWhatIsRight) {
    Checker checker(Direction::to_client, 2, 20, true);
    for (std::uint64_t i = 0; i < 10; ++i) {
        checker.check(message(i, 20));
    }
    EXPECT_EQ(checker.count(), 10u);
    EXPECT_EQ(checker.wrong().messages, 0u);
}

TEST(Checker, NamesTheFirstWrongByte) {
    Checker checker(Direction::to_client, 2, 20, true);
    checker.check(message(0, 20));
    auto bad = message(1, 20);
    bad[13] ^= std::byte{0xff};
    checker.check(bad);
    checker.check(message(0, 20)); // repeated
    const Wrong wrong = checker.wrong();
    EXPECT_EQ(wrong.messages, 2u);
    EXPECT_NE(wrong.first.find("message 1 of thread 2 to the client"), std::string::npos)
        << wrong.first;
    EXPECT_NE(wrong.first.find("at byte 13"), std::string::npos) << wrong.first;
    EXPECT_NE(wrong.first.find(fmt::format("instead of 0x{:02x}",
                                           static_cast<unsigned>(bad[13] ^ std::byte{0xff}))),
              std::string::npos)
        << wrong.first;
}

TEST(Checker, LooksAtLengthsInAnyCase) {
    Checker checker(Direction::to_client, 2, 20, false);
    checker.check(message(7, 20)); // content does not matter
    checker.check(message(1, 19));
    EXPECT_EQ(checker.wrong().messages, 1u);
    EXPECT_NE(checker.wrong().first.find("has 19 bytes instead of 20"), std::string::npos);
}

TEST(Checker, CanLeaveTheFrontAlone) {
    Checker checker(Direction::to_client, 2, 20, true, 1);
    auto bytes = message(0, 20);
    bytes[0] ^= std::byte{1};
    checker.check(bytes);
    EXPECT_EQ(checker.wrong().messages, 0u);
}

} // namespace
} // namespace comch::perftest
