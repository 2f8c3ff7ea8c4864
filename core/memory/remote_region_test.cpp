#include "core/memory/remote_region.hpp"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace comch {
namespace {

RegionKey key_of(std::uint64_t process, std::uint64_t region, std::uint64_t length = 4096,
                 std::uint32_t mappable = 1) {
    return {.process_id = process,
            .region = region,
            .base = 0x7f00'0000'0000,
            .length = length,
            .access = access_remote_all,
            .mappable = mappable};
}

Mapping some_memory(std::size_t size = 4096) {
    return std::move(create_shared_memory("comch-test", size).value().mapping);
}

TEST(RemoteRegion, ContainsWhatLiesInside) {
    const RemoteRegion region(key_of(1, 1));
    const std::uint64_t base = region.key().base;
    EXPECT_TRUE(region.contains(base, 0));
    EXPECT_TRUE(region.contains(base, 4096));
    EXPECT_TRUE(region.contains(base + 4096, 0));
    EXPECT_TRUE(region.contains(base + 4095, 1));
    EXPECT_FALSE(region.contains(base, 4097));
    EXPECT_FALSE(region.contains(base + 4095, 2));
    EXPECT_FALSE(region.contains(base + 4097, 0));
    EXPECT_FALSE(region.contains(base - 1, 1));
    EXPECT_FALSE(region.contains(0, 1));
    EXPECT_FALSE(region.contains(base + 1, ~std::uint64_t{0}));
    EXPECT_FALSE(region.contains(~std::uint64_t{0}, 2));
}

TEST(RemoteRegion, ThatCannotBeMappedHasNoImport) {
    const RemoteRegion region(key_of(1, 2, 4096, 0));
    EXPECT_EQ(region.import(), nullptr);
    EXPECT_EQ(region.mapped(), nullptr);
}

TEST(RemoteRegion, OneMappingServesAllKeysOfARegion) {
    const RemoteRegion one(key_of(2, 1));
    const RemoteRegion same(key_of(2, 1));
    const RemoteRegion other(key_of(2, 2));
    const RemoteRegion elsewhere(key_of(3, 1));
    EXPECT_EQ(one.import(), same.import());
    EXPECT_NE(one.import(), other.import());
    EXPECT_NE(one.import(), elsewhere.import());
    EXPECT_EQ(one.mapped(), nullptr);
    EXPECT_TRUE(one.import()->claim_request());
    EXPECT_FALSE(same.import()->claim_request()) << "one asks";
    EXPECT_EQ(one.import()->state(), Import::State::requested);
    one.import()->set_mapped(some_memory(), true);
    EXPECT_EQ(same.import()->state(), Import::State::mapped);
    EXPECT_NE(same.mapped(), nullptr);
    EXPECT_EQ(one.mapped(), same.mapped());
    EXPECT_EQ(other.mapped(), nullptr);
}

TEST(RemoteRegion, ARequestThatWasGivenBackCanBeMadeAgain) {
    const RemoteRegion region(key_of(4, 1));
    ASSERT_TRUE(region.import()->claim_request());
    region.import()->give_back_request();
    EXPECT_EQ(region.import()->state(), Import::State::unknown);
    EXPECT_TRUE(region.import()->claim_request());
    region.import()->set_refused();
    EXPECT_EQ(region.import()->state(), Import::State::refused);
    EXPECT_FALSE(region.import()->claim_request());
    EXPECT_EQ(region.mapped(), nullptr);
}

TEST(RemoteRegion, AMappingOutlivesItsKeysUntilItsOwnerIsGone) {
    const Import* import = nullptr;
    {
        const RemoteRegion region(key_of(5, 1));
        import = region.import().get();
        (void)region.import()->claim_request();
        region.import()->set_mapped(some_memory(), true);
    }
    {
        const RemoteRegion again(key_of(5, 1));
        EXPECT_EQ(again.import().get(), import);
        EXPECT_NE(again.mapped(), nullptr);
        forget_imports_of(5);
        EXPECT_NE(again.mapped(), nullptr) << "in use";
    }
    forget_imports_of(5);
    const RemoteRegion later(key_of(5, 1));
    EXPECT_EQ(later.mapped(), nullptr);
}

TEST(RemoteRegion, OnlySoManyMappingsAreKept) {
    for (std::uint64_t i = 1; i <= 2000; ++i) {
        const RemoteRegion region(key_of(6, i));
        (void)region.import()->claim_request();
        region.import()->set_mapped(some_memory(), true);
    }
    unsigned kept = 0;
    for (std::uint64_t i = 1; i <= 2000; ++i) {
        const RemoteRegion region(key_of(6, i));
        kept += region.mapped() != nullptr ? 1 : 0;
    }
    EXPECT_LE(kept, 256u);
    const RemoteRegion first(key_of(6, 3000));
    const RemoteRegion last(key_of(6, 3001));
    (void)last.import()->claim_request();
    last.import()->set_mapped(some_memory(), true);
    for (std::uint64_t i = 4000; i <= 5000; ++i) {
        const RemoteRegion region(key_of(6, i));
    }
    const RemoteRegion still(key_of(6, 3001));
    EXPECT_EQ(still.mapped(), last.mapped()) << "what is in use is not thrown out";
    forget_imports_of(6);
}

TEST(RemoteRegion, ThreadsAgreeOnWhoAsks) {
    for (std::uint64_t round = 1; round <= 200; ++round) {
        std::atomic<unsigned> asked{0};
        std::atomic<unsigned> seen{0};
        std::vector<std::thread> threads;
        for (unsigned n = 0; n < 3; ++n) {
            threads.emplace_back([&] {
                const RemoteRegion region(key_of(7, round));
                if (region.import()->claim_request()) {
                    ++asked;
                    Mapping memory = some_memory();
                    memory.data()[0] = std::byte{1};
                    region.import()->set_mapped(std::move(memory), true);
                }
                while (region.mapped() == nullptr) {
                    std::this_thread::yield();
                }
                seen += static_cast<unsigned>(region.mapped()[0]);
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        ASSERT_EQ(asked, 1u);
        ASSERT_EQ(seen, 3u);
    }
    forget_imports_of(7);
}

} // namespace
} // namespace comch
