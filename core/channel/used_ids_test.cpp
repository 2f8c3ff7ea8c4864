#include "core/channel/used_ids.hpp"

#include <gtest/gtest.h>

namespace comch::channel {
namespace {

TEST(UsedIds, AreUsedOnceInAnyOrder) {
    for (const std::uint32_t first : {1u, 2u}) {
        UsedIds ids;
        for (const std::uint32_t id : {first + 8, first, first + 4, first + 2, first + 10}) {
            EXPECT_TRUE(ids.use(id)) << id;
            EXPECT_FALSE(ids.use(id)) << id;
        }
        EXPECT_TRUE(ids.use(first + 6));
    }
}

TEST(UsedIds, ThatAreFarBehindAreGivenUp) {
    UsedIds ids;
    constexpr std::uint32_t newest = 1 + 2 * 5000;
    ASSERT_TRUE(ids.use(newest));
    constexpr std::uint32_t oldest = newest - 2 * (UsedIds::window - 1);
    EXPECT_FALSE(ids.use(oldest - 2));
    EXPECT_TRUE(ids.use(oldest));
    EXPECT_TRUE(ids.use(newest + 2));
    EXPECT_FALSE(ids.use(oldest)) << "its place is the newest one's now";
    EXPECT_TRUE(ids.use(oldest + 2));
}

TEST(UsedIds, MayLeaveOutAnyNumber) {
    UsedIds ids;
    for (std::uint32_t id = 1; id < 0xf0000000u; id += 2 * UsedIds::window + 2) {
        ASSERT_TRUE(ids.use(id)) << id;
        ASSERT_FALSE(ids.use(id)) << id;
    }
    EXPECT_TRUE(ids.use(0xffffffffu));
    EXPECT_TRUE(ids.use(0xfffffffdu));
    EXPECT_FALSE(ids.use(1));
}

} // namespace
} // namespace comch::channel
