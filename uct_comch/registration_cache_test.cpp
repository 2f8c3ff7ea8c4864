// What is kept, for how long, and what ends it. (That a device is asked less: tests/vm.)
#include "registration_cache.hpp"

#include <algorithm>
#include <climits>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/region_table.hpp"

namespace comch::uct::test {
namespace {

bool any(std::uint64_t) {
    return true;
}

std::unique_ptr<RegistrationCache> open(std::size_t max_size = SIZE_MAX,
                                        const RegistrationCache::MakeKnown& make_known = any) {
    uct_md_rcache_config_t config{};
    config.alignment = UCS_RCACHE_MIN_ALIGNMENT;
    config.event_prio = 1000;
    config.max_regions = ULONG_MAX;
    config.max_size = max_size;
    config.max_unreleased = SIZE_MAX;
    config.purge_on_fork = 1;
    return RegistrationCache::create(config, make_known);
}

#if defined(COMCH_SANITIZE_THREAD)

// The thread sanitizer and UCX's memory hooks do not go together: such tests run without hooks.
TEST(Registrations, AreNotKeptWhereNothingTellsThatMemoryIsUnmapped) {
    EXPECT_EQ(open(), nullptr);
}

#else

bool is_registered(std::uint64_t region) {
    return bool(RegionTable::instance().pin(region));
}

/// Pages of its own, so that giving them back is surely told to the system.
class Pages {
public:
    explicit Pages(std::size_t size, void* at = nullptr)
        : size_(size),
          address_(::mmap(at, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0)) {
        if (address_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
    }
    ~Pages() { (void)::munmap(address_, size_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    std::size_t size_;
    void* address_;
};

struct Registrations : testing::Test {
    static constexpr std::size_t size = std::size_t{1} << 20;
    static constexpr std::size_t half = size / 2;

    std::unique_ptr<RegistrationCache> cache = open();
    std::vector<std::uint64_t> seen;

    void SetUp() override { ASSERT_NE(cache, nullptr) << "UCX's memory hooks do not work here"; }

    /// Held and let go. What the device would know the memory by.
    std::uint64_t use(std::byte* data, std::size_t length) {
        RegistrationCache::Kept* const kept = cache->get(data, length, 0);
        if (kept == nullptr) {
            ADD_FAILURE() << "cannot be kept";
            return 0;
        }
        const std::uint64_t region = kept->region;
        EXPECT_TRUE(is_registered(region));
        {
            const RegionTable::Pin pin = RegionTable::instance().pin(region);
            const auto begin = reinterpret_cast<std::uintptr_t>(data);
            const auto base = reinterpret_cast<std::uintptr_t>(pin.region().base);
            EXPECT_LE(base, begin);
            EXPECT_GE(base + pin.region().length, begin + length);
            EXPECT_EQ(pin.range(begin, length, access_remote_read), nullptr)
                << "a peer that guesses its number has our CPU touch memory that may be gone";
        }
        cache->put(kept);
        return region;
    }
};

TEST_F(Registrations, OutliveTheirUse) {
    const Pages pages(size);
    const std::uint64_t first = use(pages.data(), size);
    EXPECT_TRUE(is_registered(first));
    EXPECT_EQ(use(pages.data(), size), first);
    EXPECT_EQ(use(pages.data() + 4096, 100), first) << "a part of it";
}

TEST_F(Registrations, EndWhenTheMemoryIsUnmapped) {
    std::uint64_t first = 0;
    std::byte* address = nullptr;
    {
        const Pages pages(size);
        address = pages.data();
        first = use(pages.data(), size);
    }
    const Pages other(size, address); // the same addresses, and other memory
    const std::uint64_t second = use(other.data(), size);
    EXPECT_NE(second, first);
    EXPECT_FALSE(is_registered(first));
}

TEST_F(Registrations, OfWhichAPartIsUnmappedEnd) {
    const Pages pages(size);
    const std::uint64_t first = use(pages.data(), size);
    const Pages replaced(4096, pages.data() + half);
    EXPECT_NE(use(pages.data(), size), first);
    EXPECT_FALSE(is_registered(first));
}

TEST_F(Registrations, ThatAreHeldDoNotEnd) {
    const Pages other(size);
    RegistrationCache::Kept* kept = nullptr;
    {
        const Pages pages(size);
        kept = cache->get(pages.data(), size, 0);
        ASSERT_NE(kept, nullptr);
    }
    (void)use(other.data(), size);
    EXPECT_TRUE(is_registered(kept->region)) << "whoever holds it may still be at it";
    const std::uint64_t region = kept->region;
    cache->put(kept);
    (void)use(other.data(), size);
    EXPECT_FALSE(is_registered(region));
}

TEST_F(Registrations, ThatOverlapBecomeOne) {
    const Pages pages(size);
    const std::uint64_t front = use(pages.data(), half + 4096);
    const std::uint64_t back = use(pages.data() + half, half);
    EXPECT_NE(front, back);
    EXPECT_EQ(use(pages.data(), size), back);
    EXPECT_FALSE(is_registered(front));
}

TEST_F(Registrations, ThatOverlapAreNotJoinedWithoutEnd) {
    const Pages pages(4 * RegistrationCache::longest_joined);
    constexpr std::size_t slice = RegistrationCache::longest_joined / 8;
    std::vector<RegistrationCache::Kept*> held;
    for (std::size_t at = 0; at + slice + 64 <= pages.size(); at += slice) {
        RegistrationCache::Kept* const kept = cache->get(pages.data() + at, slice + 64, 0);
        ASSERT_NE(kept, nullptr);
        EXPECT_LE(kept->super.super.end - kept->super.super.start,
                  RegistrationCache::longest_joined);
        held.push_back(kept);
    }
    for (RegistrationCache::Kept* const kept : held) {
        cache->put(kept);
    }
    // What is asked for may be as long as it likes, and then others join it.
    const std::uint64_t whole = use(pages.data(), pages.size() - slice);
    EXPECT_NE(use(pages.data() + slice, pages.size() - slice), whole);
    EXPECT_FALSE(is_registered(whole));
    (void)use(pages.data(), pages.size());
}

TEST_F(Registrations, ThatTheDeviceRefusesAreNotKept) {
    std::uint64_t refused = 0;
    cache = open(SIZE_MAX, [&](std::uint64_t region) {
        refused = region;
        return false;
    });
    const Pages pages(size);
    EXPECT_EQ(cache->get(pages.data(), size, UCT_MD_MEM_FLAG_HIDE_ERRORS), nullptr);
    EXPECT_NE(refused, 0u);
    EXPECT_FALSE(is_registered(refused));
}

TEST_F(Registrations, ThatTheDeviceRefusesToJoinAreKeptApart) {
    std::size_t longest = 0;
    cache = open(SIZE_MAX, [&](std::uint64_t region) {
        const RegionTable::Pin pin = RegionTable::instance().pin(region);
        longest = std::max<std::size_t>(longest, pin.region().length);
        return pin.region().length <= half + 4096;
    });
    const Pages pages(size);
    const std::uint64_t front = use(pages.data(), half + 4096);
    const std::uint64_t back = use(pages.data() + half, half);
    EXPECT_EQ(longest, size) << "joining was tried";
    EXPECT_NE(front, back);
    EXPECT_TRUE(is_registered(back));
}

TEST_F(Registrations, EndWhenTooMuchIsKept) {
    cache = open(3 * size);
    std::vector<std::unique_ptr<Pages>> pages;
    for (int i = 0; i < 10; ++i) {
        // With a gap, so that they are not one.
        pages.push_back(std::make_unique<Pages>(size + 4096));
        seen.push_back(use(pages.back()->data(), size));
    }
    const auto kept = std::count_if(seen.begin(), seen.end(), is_registered);
    EXPECT_GE(kept, 1);
    EXPECT_LE(kept, 4);
    EXPECT_TRUE(is_registered(seen.back()));
}

TEST_F(Registrations, EndBeforeAForkAndDoNotKeepItFromComing) {
    const Pages pages(size);
    const std::uint64_t region = use(pages.data(), size);
    const pid_t first = ::fork(); // which might never return
    if (first == 0) {
        (void)::alarm(20);
        const pid_t child = ::fork();
        if (child == 0) {
            ::_exit(0);
        }
        int status = -1;
        ::_exit(::waitpid(child, &status, 0) == child && status == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(first, &status, 0), first);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_FALSE(is_registered(region));
    EXPECT_NE(use(pages.data(), size), region);
}

TEST_F(Registrations, EndWithTheCache) {
    const Pages pages(size);
    const std::uint64_t region = use(pages.data(), size);
    cache.reset();
    EXPECT_FALSE(is_registered(region));
}

#endif

} // namespace
} // namespace comch::uct::test
