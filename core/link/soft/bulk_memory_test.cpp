#include "core/link/soft/bulk_memory.hpp"

#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {
namespace {

[[nodiscard]] bool holds_pages(const UniqueFd& memfd) {
    struct stat status {};
    EXPECT_EQ(::fstat(memfd.get(), &status), 0);
    return status.st_blocks != 0;
}

TEST(BulkMemory, TheFirstFewOfAProcessAreLarge) {
    std::vector<BulkMemory> rings;
    for (unsigned i = 0; i < tuning::large_bulk_rings; ++i) {
        rings.push_back(std::move(BulkMemory::create()->memory));
        EXPECT_EQ(rings.back().size(), tuning::bulk_size);
    }
    EXPECT_EQ(BulkMemory::create()->memory.size(), tuning::bulk_size_of_many);
    rings[0] = {};
    auto again = BulkMemory::create();
    EXPECT_EQ(again->memory.size(), tuning::bulk_size) << "one of the large ones had gone";
    BulkMemory moved(std::move(again->memory));
    EXPECT_EQ(BulkMemory::create()->memory.size(), tuning::bulk_size_of_many)
        << "moving is no going";
}

TEST(BulkMemory, GivesItsPagesBackWhenItIdles) {
    auto made = BulkMemory::create();
    ASSERT_TRUE(made.has_value());
    BulkMemory& memory = made->memory;
    EXPECT_FALSE(holds_pages(made->fd));
    memory.data()[0] = std::byte{1};
    memory.data()[memory.size() - 1] = std::byte{2};
    ASSERT_TRUE(holds_pages(made->fd));
    constexpr std::uint64_t keep = tuning::bulk_keep_ns;
    EXPECT_FALSE(memory.look(100, true, 5));
    EXPECT_FALSE(memory.look(100, true, 4 + keep));
    EXPECT_TRUE(holds_pages(made->fd)) << "not long enough";
    EXPECT_FALSE(memory.look(200, true, 5 + keep));
    EXPECT_FALSE(memory.look(200, true, 5 + keep + keep - 1));
    EXPECT_TRUE(holds_pages(made->fd)) << "something went through";
    EXPECT_FALSE(memory.look(200, false, 5 + 3 * keep));
    EXPECT_FALSE(memory.look(200, false, 5 + 5 * keep));
    EXPECT_TRUE(holds_pages(made->fd)) << "the peer has not taken everything out";
    EXPECT_TRUE(memory.look(200, true, 5 + 6 * keep));
    EXPECT_FALSE(holds_pages(made->fd));
    EXPECT_EQ(memory.data()[0], std::byte{0}) << "it can be used again";
    memory.data()[0] = std::byte{3};
    EXPECT_FALSE(memory.look(300, true, 5 + 7 * keep));
    EXPECT_TRUE(holds_pages(made->fd));
    EXPECT_TRUE(memory.look(300, true, 5 + 8 * keep));
    EXPECT_FALSE(holds_pages(made->fd));
}

} // namespace
} // namespace comch::link::soft
