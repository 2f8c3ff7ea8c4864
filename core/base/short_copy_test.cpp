#include "core/base/short_copy.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace comch {
namespace {

TEST(ShortCopy, CopiesExactlyWhatItIsToldWhateverTheLength) {
    constexpr std::size_t longest = 3 * longest_short_copy;
    constexpr std::size_t around = 64;
    constexpr std::byte untouched{0xee};
    std::vector<std::byte> from(longest);
    for (std::size_t i = 0; i < longest; ++i) {
        from[i] = static_cast<std::byte>(i + 1);
    }
    for (std::size_t length = 0; length <= longest; ++length) {
        for (const std::size_t offset : {0, 1, 8}) {
            // Of exactly this length, so that a sanitizer sees who reads beyond.
            const std::vector<std::byte> source(from.begin(),
                                                from.begin() + static_cast<std::ptrdiff_t>(length));
            std::vector<std::byte> to(offset + length + around, untouched);
            copy_short(to.data() + offset, source.data(), length);
            const auto begin = to.begin() + static_cast<std::ptrdiff_t>(offset);
            const auto end = begin + static_cast<std::ptrdiff_t>(length);
            const auto is_untouched = [](std::byte b) { return b == untouched; };
            EXPECT_TRUE(std::equal(begin, end, source.begin())) << length;
            EXPECT_TRUE(std::all_of(to.begin(), begin, is_untouched)) << length;
            EXPECT_TRUE(std::all_of(end, to.end(), is_untouched)) << length;
        }
    }
}

TEST(ShortCopy, OfNothingNeedsNoAddresses) {
    copy_short(nullptr, nullptr, 0);
}

} // namespace
} // namespace comch
