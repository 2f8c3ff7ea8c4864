#include <cstring>

#include <gtest/gtest.h>

#include <comch/memory.hpp>

#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch {
namespace {

TEST(MemoryMap, ChecksRangesAndPermissions) {
    std::vector<std::byte> memory(100);
    const auto map = *MemoryMap::create(memory, local_read | peer_read);
    EXPECT_EQ(map->address(), memory.data());
    EXPECT_EQ(map->size(), 100u);
    EXPECT_EQ(map->check(memory.data(), 100, local_read), Errc::ok);
    EXPECT_EQ(map->check(memory.data() + 100, 0, local_read), Errc::ok);
    EXPECT_EQ(map->check(memory.data() + 1, 100, local_read), Errc::invalid_argument);
    EXPECT_EQ(map->check(memory.data() + 101, 0, local_read), Errc::invalid_argument);
    EXPECT_EQ(map->check(memory.data() - 1, 1, local_read), Errc::invalid_argument);
    EXPECT_EQ(map->check(memory.data(), ~std::size_t{0}, local_read), Errc::invalid_argument);
    EXPECT_EQ(map->check(memory.data(), 1, peer_write), Errc::not_permitted);
    EXPECT_EQ(map->check(memory.data(), 1, local_read | local_write), Errc::not_permitted);
    EXPECT_EQ(MemoryMap::create({}, local_read).error().code, Errc::invalid_argument);
    EXPECT_EQ(MemoryMap::create(memory, 0).error().code, Errc::invalid_argument);
    EXPECT_EQ(MemoryMap::create(memory, 1u << 20).error().code, Errc::invalid_argument);
}

TEST(MemoryMap, IsReachedThroughItsDescriptorUntilItIsGone) {
    std::vector<std::byte> memory(100);
    auto map = *MemoryMap::create(memory, local_read | peer_read);
    const auto descriptor = map->export_descriptor();
    ASSERT_TRUE(descriptor.has_value());
    EXPECT_EQ(*map->export_descriptor(), *descriptor) << "one registration, however often asked";
    const auto imported = MemoryMap::import_descriptor(*descriptor);
    ASSERT_TRUE(imported.has_value()) << imported.error().message;
    EXPECT_TRUE((*imported)->imported());
    EXPECT_EQ((*imported)->address(), memory.data());
    EXPECT_EQ((*imported)->size(), 100u);
    EXPECT_EQ((*imported)->permissions(), peer_read);
    EXPECT_EQ((*imported)->export_descriptor().error().code, Errc::not_permitted);
    const std::uint64_t region = (*imported)->remote()->key().region;
    {
        const auto pin = RegionTable::instance().pin(region);
        ASSERT_TRUE(pin);
        const auto at = reinterpret_cast<std::uint64_t>(memory.data());
        EXPECT_EQ(pin.range(at, 100, access_remote_read), memory.data());
        EXPECT_EQ(pin.range(at, 100, access_remote_write), nullptr);
    }
    map.reset();
    EXPECT_FALSE(RegionTable::instance().pin(region));
}

TEST(MemoryMap, GrantsNothingThatWasNotSaid) {
    std::vector<std::byte> memory(100);
    const auto map = *MemoryMap::create(memory, local_read | local_write);
    EXPECT_EQ(map->export_descriptor().error().code, Errc::not_permitted);
}

TEST(MemoryMap, NonsenseIsNotImported) {
    std::vector<std::byte> memory(100);
    const auto map = *MemoryMap::create(memory, local_read | peer_read);
    const auto good = *map->export_descriptor();
    EXPECT_FALSE(MemoryMap::import_descriptor({}).has_value());
    for (std::size_t length = 0; length < good.size(); ++length) {
        EXPECT_FALSE(MemoryMap::import_descriptor({good.data(), length}).has_value()) << length;
    }
    auto longer = good;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(MemoryMap::import_descriptor(longer).has_value());
    auto other_version = good;
    other_version[4] = std::byte{9};
    EXPECT_EQ(MemoryMap::import_descriptor(other_version).error().code, Errc::version_mismatch);
    for (const std::size_t magic_or_permissions : {0u, 3u, 8u, 11u}) {
        auto bad = good;
        bad[magic_or_permissions] ^= std::byte{0x83};
        EXPECT_EQ(MemoryMap::import_descriptor(bad).error().code, Errc::invalid_argument)
            << magic_or_permissions;
    }
}

} // namespace
} // namespace comch
