#include "core/memory/kept_registrations.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/test_waiting.hpp"
#include "core/memory/region_table.hpp"

namespace comch {
namespace {

using Kept = KeptRegistrations::Kept;

/// Registers in this process's table, as a device's owner does, and counts.
struct KeptRegistrationsTest : testing::Test {
    Kept* get(std::size_t offset, std::size_t length, std::uint32_t access = 0) {
        return kept.get(memory.data() + offset, length, access,
                        [&](std::byte* base, std::uint64_t size, std::uint32_t what) {
                            ++made;
                            return refuses
                                       ? 0
                                       : RegionTable::instance()
                                             .add({.base = base, .length = size, .access = what})
                                             .value()
                                             .region;
                        });
    }
    /// Got, and given back at once. Its region.
    std::uint64_t use(std::size_t offset, std::size_t length, std::uint32_t access = 0) {
        Kept* const one = get(offset, length, access);
        kept.put(*one);
        return one->region();
    }
    void unmap(std::size_t offset, std::size_t length) {
        const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
        kept.on_unmapped(begin, begin + length);
    }
    static bool is_registered(std::uint64_t region) {
        return bool(RegionTable::instance().pin(region));
    }

    std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);
    int made = 0;
    bool refuses = false;
    KeptRegistrations kept;
};

TEST_F(KeptRegistrationsTest, WhatLiesInsideIsNotRegisteredAgain) {
    const std::uint64_t region = use(1000, 5000);
    EXPECT_EQ(use(1000, 5000), region);
    EXPECT_EQ(use(3000, 3000), region);
    EXPECT_EQ(made, 1);
    EXPECT_NE(use(3000, 3001), region) << "the last byte is outside";
    EXPECT_NE(use(999, 10), region) << "the first byte is outside";
    EXPECT_EQ(made, 3);
}

TEST_F(KeptRegistrationsTest, PeersAreShownNoMoreThanWasAskedFor) {
    const std::uint64_t none = use(0, 100);
    const std::uint64_t readable = use(0, 100, access_remote_read);
    EXPECT_NE(readable, none);
    EXPECT_EQ(RegionTable::instance().pin(readable).region().access,
              std::uint32_t{access_remote_read});
    EXPECT_EQ(use(10, 80), readable) << "who shows it to nobody can have it, too";
    EXPECT_FALSE(is_registered(none)) << "replaced: it is of no use any more";
    const std::uint64_t part = use(10, 80, access_remote_read);
    EXPECT_NE(part, readable) << "the key of the whole would be shown for a part";
    EXPECT_NE(use(10, 80, access_remote_read | access_remote_write), part);
    EXPECT_EQ(use(0, 100, access_remote_read), readable) << "both are kept";
    EXPECT_EQ(use(10, 80, access_remote_read), part);
}

TEST_F(KeptRegistrationsTest, OneThatIsInUseIsNotReplaced) {
    Kept* const small = get(100, 100);
    use(0, 1000);
    EXPECT_TRUE(is_registered(small->region()));
    kept.put(*small);
}

TEST_F(KeptRegistrationsTest, UnmappedMemoryIsRegisteredAnew) {
    const std::uint64_t before = use(1000, 5000);
    unmap(6000, 1000);
    unmap(0, 1000);
    EXPECT_EQ(use(1000, 5000), before) << "its neighbours were unmapped";
    unmap(5999, 1);
    const std::uint64_t after = use(1000, 5000);
    EXPECT_NE(after, before);
    EXPECT_TRUE(is_registered(after));
}

TEST_F(KeptRegistrationsTest, MemoryThatIsGoneDoesNotStayPinned) {
    const std::uint64_t gone = use(1000, 5000);
    unmap(1000, 5000);
    use(100'000, 10);
    EXPECT_FALSE(is_registered(gone)) << "until it is used again, which may be never";
    Kept* const used = get(1000, 5000);
    const std::uint64_t in_use = used->region();
    unmap(1000, 5000);
    use(100'000, 10);
    EXPECT_TRUE(is_registered(in_use));
    kept.put(*used);
    EXPECT_FALSE(is_registered(in_use));
}

TEST_F(KeptRegistrationsTest, NothingIsRegisteredOfNothing) {
    EXPECT_EQ(get(0, 0), nullptr);
    EXPECT_EQ(made, 0);
}

TEST_F(KeptRegistrationsTest, UnmappedInUseItEndsWithItsUse) {
    Kept* const one = get(0, 1000);
    const std::uint64_t region = one->region();
    unmap(0, 10);
    EXPECT_TRUE(is_registered(region));
    EXPECT_NE(use(0, 1000), region);
    kept.put(*one);
    EXPECT_FALSE(is_registered(region));
}

TEST_F(KeptRegistrationsTest, TheOneNotUsedForLongestMakesRoom) {
    constexpr std::size_t size = 16;
    std::array<std::uint64_t, KeptRegistrations::capacity> regions{};
    for (std::size_t i = 0; i < regions.size(); ++i) {
        regions[i] = use(i * size, size);
    }
    EXPECT_EQ(use(0, size), regions[0]);
    use(regions.size() * size, size);
    EXPECT_TRUE(is_registered(regions[0])) << "it was used just now";
    EXPECT_FALSE(is_registered(regions[1]));
    EXPECT_TRUE(is_registered(regions[2]));
}

TEST_F(KeptRegistrationsTest, WithoutRoomThereIsNone) {
    constexpr std::size_t size = 16;
    std::vector<Kept*> all;
    for (std::size_t i = 0; i < KeptRegistrations::capacity; ++i) {
        all.push_back(get(i * size, size));
    }
    EXPECT_EQ(get(all.size() * size, size), nullptr);
    EXPECT_NE(get(0, size), nullptr) << "what is there can be used by more than one";
    kept.put(*all[0]);
    for (Kept* const one : all) {
        kept.put(*one);
    }
    EXPECT_NE(use(all.size() * size, size), 0u);
}

TEST_F(KeptRegistrationsTest, WhatTheDeviceRefusesIsNotKept) {
    const std::uint64_t before = use(10, 10);
    refuses = true;
    EXPECT_EQ(get(0, 100), nullptr);
    EXPECT_TRUE(is_registered(before)) << "it makes room for what does not come";
    refuses = false;
    EXPECT_NE(use(0, 100), 0u);
    EXPECT_EQ(made, 3);
}

TEST_F(KeptRegistrationsTest, NothingOutlivesIt) {
    std::uint64_t region = 0;
    {
        KeptRegistrations other;
        Kept* const one =
            other.get(memory.data(), 10, 0, [](std::byte* base, std::uint64_t size, std::uint32_t) {
                return RegionTable::instance().add({.base = base, .length = size}).value().region;
            });
        region = one->region();
        other.put(*one);
        EXPECT_TRUE(is_registered(region));
    }
    EXPECT_FALSE(is_registered(region));
}

/// One thread unmaps, another gets the same addresses as soon as they are free.
TEST(KeptRegistrationsAndThreads, NeverServeMemoryThatWasThereBefore) {
    KeptRegistrations kept;
    if (!kept.watch_by_kernel()) {
        GTEST_SKIP() << "this kernel tells nothing";
    }
    constexpr std::size_t length = 1 << 16;
    std::atomic<void*> unwanted{nullptr};
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
            if (void* const memory = unwanted.exchange(nullptr)) {
                ::munmap(memory, length);
            } else {
                std::this_thread::yield();
            }
        }
    });
    std::unordered_map<std::uint64_t, std::uint64_t> content; // of what was registered
    std::uint64_t number = 0;
    unsigned served = 0;
    unsigned addresses_again = 0;
    std::unordered_set<const void*> known;
    test::for_a_while(std::chrono::milliseconds(500), [&] {
        void* const memory =
            ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        addresses_again += known.insert(memory).second ? 0 : 1;
        *static_cast<std::uint64_t*>(memory) = ++number;
        for (int round = 0; round < 2; ++round) {
            Kept* const one = kept.get(static_cast<std::byte*>(memory), length, 0,
                                       [&](std::byte* base, std::uint64_t size, std::uint32_t) {
                                           const auto key = RegionTable::instance().add(
                                               {.base = base, .length = size});
                                           content[key->region] = number;
                                           return key->region;
                                       });
            if (one != nullptr) {
                ++served;
                ASSERT_EQ(content.at(one->region()), number) << "what was there before";
                kept.put(*one);
            }
        }
        while (unwanted.load() != nullptr) {
            std::this_thread::yield();
        }
        unwanted = memory;
    });
    stop = true;
    other.join();
    if (void* const memory = unwanted.load()) {
        ::munmap(memory, length);
    }
    EXPECT_GT(addresses_again, 0u);
    EXPECT_GT(served, content.size()) << "not even the same memory is kept";
}

class KeptRegistrationsByKernel : public testing::Test {
protected:
    void SetUp() override {
        kept = std::make_unique<KeptRegistrations>();
        if (!kept->watch_by_kernel()) {
            GTEST_SKIP() << "this kernel tells nothing";
        }
    }
    /// Got, and given back at once. Its region.
    std::uint64_t use(void* memory, std::size_t length) {
        Kept* one = nullptr;
        for (int attempt = 0; one == nullptr; ++attempt) { // what was unmapped may just be told
            if (attempt == 100'000) {
                ADD_FAILURE() << "not kept";
                return 0;
            }
            std::this_thread::yield();
            one = kept->get(static_cast<std::byte*>(memory), length, 0,
                            [](std::byte* base, std::uint64_t size, std::uint32_t) {
                                return RegionTable::instance()
                                    .add({.base = base, .length = size})
                                    .value()
                                    .region;
                            });
        }
        kept->put(*one);
        return one->region();
    }
    static void* map(std::size_t length, void* at = nullptr) {
        void* const memory =
            ::mmap(at, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        return memory;
    }
    static std::size_t mappings() {
        std::ifstream maps("/proc/self/maps");
        return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps),
                                                   std::istreambuf_iterator<char>(), '\n'));
    }

    std::unique_ptr<KeptRegistrations> kept;
};

/// There may be 65530 in a process, and then nothing can be mapped any more.
TEST_F(KeptRegistrationsByKernel, OnlyWhatIsKeptSplitsMappings) {
    constexpr std::size_t stride = 128 << 10;
    constexpr std::size_t count = 3000;
    auto* const memory = static_cast<char*>(map(count * stride));
    const std::size_t before = mappings();
    for (std::size_t i = 0; i < count; ++i) {
        use(memory + i * stride, stride / 2);
        if (i % 2 == 0) {
            ASSERT_EQ(::madvise(memory + i * stride, stride / 2, MADV_DONTNEED), 0);
        }
    }
    EXPECT_LE(mappings(), before + 2 * KeptRegistrations::capacity + 50);
    kept.reset();
    EXPECT_LE(mappings(), before + 50);
    ::munmap(memory, count * stride);
}

TEST_F(KeptRegistrationsByKernel, AForkedChildChangesNothingForItsParent) {
    constexpr std::size_t length = 1 << 20;
    void* const memory = map(length);
    const std::uint64_t before = use(memory, length);
    const pid_t child = ::fork();
    if (child == 0) {
        kept.reset(); // as static destructors may do
        std::_Exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(use(memory, length), before);
    map(length, memory);
    EXPECT_NE(use(memory, length), before) << "the child has ended the parent's watch";
    ::munmap(memory, length);
}

/// The thread that tells must get on beside the one that started it, whatever that does.
class KeptRegistrationsOfPollers : public KeptRegistrationsByKernel {
protected:
    static constexpr std::size_t length = 1 << 20;

    void SetUp() override {
        KeptRegistrationsByKernel::SetUp();
        cpu_set_t allowed;
        ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
        while (!CPU_ISSET(cpu, &allowed)) {
            ++cpu;
        }
        if (CPU_COUNT(&allowed) < 2) {
            GTEST_SKIP() << "there is one CPU, and it polls";
        }
    }
    bool stay_on_one_cpu() const {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return ::sched_setaffinity(0, sizeof one, &one) == 0;
    }
    static bool come_first() {
        const sched_param above_all{.sched_priority = 1};
        return ::sched_setscheduler(0, SCHED_FIFO, &above_all) == 0;
    }
    /// Another thread does this, and then polls; meanwhile its buffer is unmapped.
    void unmap_beside(const std::function<bool(void* buffer)>& begin) {
        enum Step : int { beginning, polling, failed, ended };
        std::atomic<int> step{beginning};
        void* const memory = map(length);
        std::thread poller([&] {
            step = begin(memory) ? polling : failed;
            while (step == polling) {
            }
        });
        while (step == beginning) {
            std::this_thread::yield();
        }
        ::munmap(memory, length);
        const bool could = step.exchange(ended) == polling;
        poller.join();
        if (!could) {
            GTEST_SKIP() << "this user may have no priority";
        }
    }

    std::size_t cpu = 0;
};

TEST_F(KeptRegistrationsOfPollers, WhoComesFirstFromTheBeginning) {
    unmap_beside([&](void* buffer) {
        return stay_on_one_cpu() && come_first() && use(buffer, length) != 0;
    });
}

TEST_F(KeptRegistrationsOfPollers, WhoComesFirstLater) {
    unmap_beside([&](void* buffer) {
        return stay_on_one_cpu() && use(buffer, length) != 0 && come_first();
    });
}

} // namespace
} // namespace comch
