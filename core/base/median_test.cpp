#include "core/base/median.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace comch {
namespace {

TEST(Median, IsInTheMiddleWhateverTheOrder) {
    std::array odd{9, 1, 100, 7, 8};
    EXPECT_EQ(median_of(odd), 8);
    std::vector<double> even{4, 1, 3, 2};
    EXPECT_EQ(median_of(even), 3);
    std::array one{5};
    EXPECT_EQ(median_of(one), 5);
}

} // namespace
} // namespace comch
