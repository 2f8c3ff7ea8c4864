#include "perftest/used_data.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

TEST(UsedData, IsRecognisedByItsNumber) {
    for (const std::size_t size : {1u, 7u, 8u, 9u, 4096u, 4099u}) {
        std::vector<std::byte> message(size);
        write_message(message, 17);
        EXPECT_TRUE(read_message(message, 17)) << size;
        EXPECT_FALSE(read_message(message, 18)) << size;
    }
}

TEST(UsedData, EveryByteCounts) {
    std::vector<std::byte> message(4099);
    write_message(message, 3);
    for (std::size_t at = 0; at < message.size(); ++at) {
        message[at] ^= std::byte{0x40};
        EXPECT_FALSE(read_message(message, 3)) << at;
        message[at] ^= std::byte{0x40};
    }
    EXPECT_TRUE(read_message(message, 3));
}

} // namespace
} // namespace comch::perftest
