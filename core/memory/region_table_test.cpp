#include "core/memory/region_table.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/process_id.hpp"

namespace comch {
namespace {

RegionTable& table() {
    return RegionTable::instance();
}

/// Registered for as long as it lives.
struct Registered {
    explicit Registered(std::span<std::byte> range, std::uint32_t access = access_remote_all)
        : key(table()
                  .add({.base = range.data(), .length = range.size(), .access = access})
                  .value()) {}
    ~Registered() { table().remove(key.region); }
    RegionKey key;
};

TEST(RegionTable, AKeySaysWhatWasRegistered) {
    std::array<std::byte, 100> memory{};
    const Registered region(memory, access_remote_read | access_remote_atomic);
    EXPECT_EQ(region.key.process_id, process_id());
    EXPECT_NE(region.key.region, 0u);
    EXPECT_EQ(region.key.base, reinterpret_cast<std::uint64_t>(memory.data()));
    EXPECT_EQ(region.key.length, 100u);
    EXPECT_EQ(region.key.access, access_remote_read | access_remote_atomic);
    EXPECT_EQ(region.key.mappable, 0u);
}

TEST(RegionTable, NothingCannotBeRegistered) {
    std::array<std::byte, 1> memory{};
    EXPECT_EQ(table().add({.base = memory.data(), .length = 0, .access = 7}).error().code,
              Errc::invalid_argument);
    EXPECT_EQ(table().add({.base = nullptr, .length = 1, .access = 7}).error().code,
              Errc::invalid_argument);
}

TEST(RegionTable, ARangeMustLieInsideAndBeGranted) {
    std::array<std::byte, 100> memory{};
    const Registered region(memory, access_remote_read);
    const RegionTable::Pin pin = table().pin(region.key.region);
    ASSERT_TRUE(pin);
    const std::uint64_t base = region.key.base;
    EXPECT_EQ(pin.range(base, 100, access_remote_read), memory.data());
    EXPECT_EQ(pin.range(base + 99, 1, access_remote_read), memory.data() + 99);
    EXPECT_EQ(pin.range(base + 100, 0, access_remote_read), memory.data() + 100);
    EXPECT_EQ(pin.range(base, 101, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base - 1, 1, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base + 100, 1, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base + 101, 0, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base + 50, ~std::uint64_t{0}, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base + 50, ~std::uint64_t{0} - 49, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(0, 1, access_remote_read), nullptr);
    EXPECT_EQ(pin.range(base, 1, access_remote_write), nullptr);
    EXPECT_EQ(pin.range(base, 8, access_remote_atomic), nullptr);
    EXPECT_EQ(pin.range(base, 1, access_remote_read | access_remote_write), nullptr);
}

TEST(RegionTable, WhatIsForDevicesServesNoCpu) {
    std::array<std::byte, 100> memory{};
    const auto key = table().add({.base = memory.data(),
                                  .length = memory.size(),
                                  .access = access_remote_all,
                                  .device_only = true});
    ASSERT_TRUE(key);
    {
        const RegionTable::Pin pin = table().pin(key->region);
        ASSERT_TRUE(pin);
        EXPECT_EQ(pin.range(key->base, 1, 0), nullptr);
        EXPECT_EQ(pin.range(key->base, 1, access_remote_read), nullptr);
    }
    table().remove(key->region);
}

TEST(RegionTable, ARemovedRegionsNameIsNeverUsedAgain) {
    std::array<std::byte, 8> memory{};
    std::set<std::uint64_t> names;
    for (unsigned i = 0; i < 3000; ++i) { // the same few slots
        const Registered one(memory);
        const Registered two(memory);
        EXPECT_TRUE(names.insert(one.key.region).second);
        EXPECT_TRUE(names.insert(two.key.region).second);
    }
    for (const std::uint64_t name : names) {
        EXPECT_FALSE(table().pin(name));
        table().remove(name); // ignored
    }
}

TEST(RegionTable, NoNameTellsTheNext) {
    std::array<std::byte, 8> memory{};
    std::set<std::uint64_t> steps;
    std::uint64_t last = Registered(memory).key.region;
    constexpr unsigned times = 1000;
    for (unsigned i = 0; i < times; ++i) { // the same slot
        const std::uint64_t name = Registered(memory).key.region;
        steps.insert(name - last);
        last = name;
    }
    EXPECT_GT(steps.size(), times * 99 / 100);
}

TEST(RegionTable, NamesThatWereNeverGivenPinNothing) {
    std::array<std::byte, 8> memory{};
    const Registered region(memory);
    for (unsigned bit = 0; bit < 64; ++bit) {
        EXPECT_FALSE(table().pin(region.key.region ^ (std::uint64_t{1} << bit))) << bit;
        table().remove(region.key.region ^ (std::uint64_t{1} << bit));
    }
    EXPECT_FALSE(table().pin(0));
    EXPECT_FALSE(table().pin(~std::uint64_t{0}));
    EXPECT_TRUE(table().pin(region.key.region));
}

TEST(RegionTable, HoldsManyRegions) {
    std::vector<std::byte> memory(5000);
    std::vector<std::unique_ptr<Registered>> regions;
    for (std::size_t i = 0; i < memory.size(); ++i) {
        regions.push_back(std::make_unique<Registered>(std::span(memory).subspan(i, 1)));
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const RegionTable::Pin pin = table().pin(regions[i]->key.region);
        ASSERT_TRUE(pin);
        EXPECT_EQ(pin.region().base, &memory[i]);
    }
}

TEST(RegionTable, RemovingWaitsForThePins) {
    std::array<std::byte, 8> memory{};
    auto region = std::make_unique<Registered>(memory);
    const std::uint64_t name = region->key.region;
    std::atomic<bool> removed{false};
    std::thread remover;
    {
        RegionTable::Pin pin = table().pin(name);
        ASSERT_TRUE(pin);
        remover = std::thread([&] {
            region.reset();
            removed = true;
        });
        while (table().pin(name)) { // until it is being removed
            std::this_thread::yield();
        }
        EXPECT_FALSE(removed);
        const RegionTable::Pin moved = std::move(pin);
        EXPECT_FALSE(pin); // NOLINT: a moved pin is empty
        EXPECT_FALSE(removed);
    }
    remover.join();
    EXPECT_TRUE(removed);
}

TEST(RegionTable, AfterItsRemovalNoThreadTouchesTheRange) {
    // Others pin by whatever name they know; the owner uses its memory as it likes once it is
    // removed. A pin that comes too late is a data race here, and a wrong number.
    constexpr unsigned rounds = 500;
    std::atomic<std::uint64_t> name{0};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> touched{0};
    std::uint64_t memory = 0;
    std::vector<std::thread> others;
    for (unsigned n = 0; n < 2; ++n) {
        others.emplace_back([&] {
            while (!stop) {
                const RegionTable::Pin pin = table().pin(name);
                if (!pin) {
                    std::this_thread::yield();
                    continue;
                }
                std::byte* const at =
                    pin.range(reinterpret_cast<std::uint64_t>(&memory), 8, access_remote_atomic);
                ASSERT_NE(at, nullptr);
                std::atomic_ref(memory).fetch_add(1);
                ++touched;
            }
        });
    }
    for (unsigned round = 0; round < rounds; ++round) {
        {
            const Registered region(std::as_writable_bytes(std::span(&memory, 1)));
            name = region.key.region;
            if (round % 16 == 0) {
                const std::uint64_t before = touched;
                while (touched == before) {
                    std::this_thread::yield();
                }
            }
        }
        const std::uint64_t ours = memory;
        memory = ours + 1;
        ASSERT_EQ(memory, ours + 1);
        memory = 0;
    }
    stop = true;
    for (std::thread& other : others) {
        other.join();
    }
    EXPECT_GT(touched, 0u);
}

TEST(RegionTable, AForkedChildDoesNotWaitForThreadsThatItHasNot) {
    std::array<std::byte, 8> memory{};
    const Registered region(memory);
    std::atomic<int> step{0};
    std::thread other([&] {
        const RegionTable::Pin pin = table().pin(region.key.region);
        step = pin ? 1 : -1;
        step.notify_one();
        step.wait(1);
    });
    step.wait(0);
    ASSERT_EQ(step, 1);
    const pid_t child = ::fork();
    if (child == 0) {
        (void)::alarm(20);
        table().remove(region.key.region);
        ::_exit(table().pin(region.key.region) ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    step = 2;
    step.notify_one();
    other.join();
}

/// What other libraries do before a fork: UCX gives back the registrations that it keeps.
std::atomic<std::uint64_t> given_back_before_fork{0};
[[gnu::constructor]] void give_back_before_forks() {
    (void)::pthread_atfork(
        [] {
            if (const std::uint64_t region = given_back_before_fork.exchange(0); region != 0) {
                table().remove(region);
            }
        },
        nullptr, nullptr);
}

TEST(RegionTable, MemoryMayBeGivenBackRightBeforeAFork) {
    // In a process of its own, which might never return from its fork.
    const pid_t child = ::fork();
    if (child == 0) {
        (void)::alarm(20);
        std::array<std::byte, 8> memory{};
        const auto key = table().add({.base = memory.data(), .length = 8, .access = 0});
        given_back_before_fork = key->region;
        const pid_t grandchild = ::fork();
        if (grandchild == 0) {
            ::_exit(0);
        }
        int status = -1;
        ::_exit(::waitpid(grandchild, &status, 0) == grandchild && status == 0 &&
                        !table().pin(key->region)
                    ? 0
                    : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(RegionTable, AForkedChildHasATableOfItsOwn) {
    std::array<std::byte, 8> memory{};
    const Registered region(memory);
    std::set<std::uint64_t> told;
    const RegionTable::Observer tell = [](void* self, std::uint64_t id) {
        static_cast<std::set<std::uint64_t>*>(self)->insert(id);
    };
    table().add_observer(tell, &told);
    const pid_t child = ::fork();
    if (child == 0) {
        // What devices know of the region is its parent's.
        table().remove(region.key.region);
        const auto own = table().add({.base = memory.data(), .length = 8, .access = 0});
        ::_exit(told.empty() && own && table().pin(own->region) && !table().pin(region.key.region)
                    ? 0
                    : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(table().pin(region.key.region));
    table().remove_observer(&told);
}

} // namespace
} // namespace comch
