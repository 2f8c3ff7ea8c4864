#include "core/base/stream_copy.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace comch {
namespace {

TEST(StreamCopy, CopiesExactlyWhatItIsToldForAllAlignmentsAndSizes) {
    constexpr std::size_t room = 1024;
    constexpr std::byte untouched{0xee};
    std::vector<std::byte> from(room);
    for (std::size_t i = 0; i < room; ++i) {
        from[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    for (std::size_t to_offset = 0; to_offset < 65; ++to_offset) {
        for (const std::size_t from_offset : {0, 1, 8, 63}) {
            for (const std::size_t size : {0, 1, 63, 64, 65, 127, 128, 129, 200, 640, 800}) {
                std::vector<std::byte> to(room, untouched);
                stream_copy(to.data() + to_offset, from.data() + from_offset, size);
                const auto begin = to.begin() + static_cast<std::ptrdiff_t>(to_offset);
                const auto end = begin + static_cast<std::ptrdiff_t>(size);
                EXPECT_TRUE(std::equal(begin, end,
                                       from.begin() + static_cast<std::ptrdiff_t>(from_offset)));
                const auto is_untouched = [](std::byte b) { return b == untouched; };
                EXPECT_TRUE(std::all_of(to.begin(), begin, is_untouched));
                EXPECT_TRUE(std::all_of(end, to.end(), is_untouched));
            }
        }
    }
}

TEST(CopyPart, CopiesExactlyWhatItIsToldWhateverTheWholeIs) {
    const std::size_t room = 2 * copy_step + 100;
    constexpr std::byte untouched{0xee};
    std::vector<std::byte> from(room);
    for (std::size_t i = 0; i < room; ++i) {
        from[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    for (const std::uint64_t whole : {std::uint64_t{1}, std::uint64_t{past_caches}}) {
        for (const std::size_t size : {std::size_t{0}, std::size_t{1}, copy_step - 1, copy_step,
                                       copy_step + 1, 2 * copy_step, 2 * copy_step + 99}) {
            std::vector<std::byte> to(room + 1, untouched);
            copy_part(to.data() + 1, from.data(), size, whole);
            EXPECT_EQ(to[0], untouched);
            const auto end = to.begin() + 1 + static_cast<std::ptrdiff_t>(size);
            EXPECT_TRUE(std::equal(to.begin() + 1, end, from.begin())) << size << " of " << whole;
            EXPECT_TRUE(std::all_of(end, to.end(), [](std::byte b) { return b == untouched; }));
        }
    }
}

} // namespace
} // namespace comch
