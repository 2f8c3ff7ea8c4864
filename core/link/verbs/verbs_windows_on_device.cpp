// Memory windows: the peer of one connection reaches what it is shown, for as long as it is.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/link/verbs/two_ends_on_device.hpp"

namespace comch::link::verbs {
namespace {

/// KiB of this process that devices have pinned.
std::size_t pinned() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmPin:")) {
            return std::stoul(line.substr(6));
        }
    }
    ADD_FAILURE() << "the kernel does not say how much is pinned";
    return 0;
}

/// The host shows its memory, the DPU is the peer.
class WindowsOnDevice : public TwoEnds {
protected:
    static constexpr std::size_t size = 1 << 20;
    static constexpr std::size_t offset = 100;
    static constexpr std::size_t length = 50'000;

    std::vector<std::byte> memory_ = contract::pattern(size, 1);
    std::vector<std::byte> to_ = std::vector<std::byte>(size);
    std::uint64_t region_ = 0;
    int token_ = 0;

    void SetUp() override {
        TwoEnds::SetUp();
        ASSERT_TRUE(host.port->rdma()->limits().windows)
            << "this device has none: nothing is tested";
        region_ = RegionTable::instance()
                      .add({.base = memory_.data(),
                            .length = size,
                            .access = access_by_window,
                            .device_only = true})
                      ->region;
    }
    void TearDown() override { remove_region(); }
    /// Nothing holds on to the memory.
    void remove_region() {
        const auto known = [&] {
            return host.port->rdma() ? host.port->rdma()->known_regions() : 0;
        };
        const auto known_before = known();
        const std::size_t before = pinned();
        RegionTable::instance().remove(region_);
        if (known() != known_before) {
            EXPECT_TRUE(until([&] { return before - pinned() >= size / 1024; }))
                << "the device has not let go of the memory";
        }
    }

    [[nodiscard]] std::uint64_t open(std::size_t at = offset, std::size_t bytes = length,
                                     std::uint32_t access = access_remote_read) {
        return connection->open_window(region_, memory_.data() + at, bytes, access);
    }
    void close(std::uint64_t window) {
        const auto told = [&] { return std::ranges::count(tokens(), &token_); };
        const auto before = told();
        ASSERT_EQ(connection->close_window(window, &token_), Errc::in_progress);
        ASSERT_TRUE(until([&] { return told() != before; }));
        EXPECT_EQ(told(), before + 1);
    }
    [[nodiscard]] std::vector<const void*> tokens() const {
        std::vector<const void*> all;
        for (const auto& done : host.seen.completions) {
            all.push_back(done.token);
        }
        return all;
    }
    /// Of the DPU, through that connection of its own. False: it has cost the connection.
    [[nodiscard]] bool reach(Connection& by, std::uint64_t window, std::size_t at = offset,
                             std::size_t bytes = length, bool is_write = false) {
        RemoteRegion region({.process_id = 1, // another's, as far as is known
                             .region = region_,
                             .base = reinterpret_cast<std::uint64_t>(memory_.data()),
                             .length = size + 1,
                             .access = access_remote_read | access_remote_write,
                             .link_data = window});
        std::ranges::fill(to_, std::byte{0});
        const std::uint64_t from = region.key().base + at;
        const auto before = dpu.seen.completions.size();
        EXPECT_EQ(is_write ? by.put(to_.data(), bytes, region, from, &by)
                           : by.get(to_.data(), bytes, region, from, &by),
                  Errc::in_progress);
        EXPECT_TRUE(until([&] { return dpu.seen.completions.size() > before; }));
        const bool done = dpu.seen.completions.back().status == Errc::ok;
        EXPECT_TRUE(done || until([&] { return !host.seen.ends.empty(); }));
        return done;
    }
    [[nodiscard]] bool has_come(std::size_t at = offset, std::size_t bytes = length) const {
        return std::equal(to_.begin(), to_.begin() + static_cast<std::ptrdiff_t>(bytes),
                          memory_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    [[nodiscard]] Connection& theirs(std::size_t number = 0) {
        return *dpu.seen.requests[number].connection;
    }
};

TEST_F(WindowsOnDevice, ThePeerReadsThroughOneUntilItIsClosed) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    EXPECT_TRUE(reach(theirs(), window));
    EXPECT_TRUE(has_come());
    close(window);
    EXPECT_FALSE(reach(theirs(), window));
}

TEST_F(WindowsOnDevice, OneThatNobodyWaitsForIsClosed) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    EXPECT_EQ(connection->close_window(window, nullptr), Errc::ok);
    EXPECT_FALSE(reach(theirs(), window));
    EXPECT_TRUE(tokens().empty());
}

TEST_F(WindowsOnDevice, WhatTellsOfOneFindsRoom) {
    // The queue is filled with reads, as far as the device lets it be. (Longer ones take so long that
    // soft-RoCE asks for them again, and that it cannot with a window behind them.)
    constexpr std::size_t each = 32 << 10;
    std::vector<std::byte> theirs = contract::pattern(size, 2);
    std::vector<std::byte> read(size);
    RegionTable& table = RegionTable::instance();
    auto key = *table.add({.base = theirs.data(), .length = size, .access = access_remote_read});
    const auto into = table.add({.base = read.data(), .length = size, .device_only = true});
    key.process_id = 1;
    key.link_data = has_remote_key | dpu.port->rdma()->keys_of(key.region).rkey;
    RemoteRegion region(key);
    unsigned reads = 0;
    unsigned opened = 0;
    for (unsigned i = 0; i < 400; ++i) {
        const Errc started = connection->get(read.data(), each, region, key.base, connection,
                                             {.region = into->region});
        reads += started == Errc::in_progress ? 1 : 0;
        if (const std::uint64_t window = open(); window != 0) {
            ++opened;
            EXPECT_EQ(connection->send(1, contract::pattern(56, opened)), Errc::ok) << reads;
            EXPECT_EQ(connection->close_window(window, nullptr), Errc::ok);
        }
    }
    EXPECT_GT(opened, 0u);
    ASSERT_TRUE(until([&] {
        return host.seen.completions.size() >= reads && dpu.seen.messages.size() >= opened;
    })) << host.seen.completions.size()
        << " of " << reads << ", " << dpu.seen.messages.size() << " of " << opened;
    EXPECT_TRUE(host.seen.ends.empty()) << connection->error_text();
    EXPECT_TRUE(std::equal(read.begin(), read.begin() + each, theirs.begin()));
    close(open());
    table.remove(into->region);
    table.remove(key.region);
}

TEST_F(WindowsOnDevice, ASleepEndsWithTheirClosing) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    ASSERT_EQ(connection->close_window(window, &token_), Errc::in_progress);
    // Its completion is taken by who looks for something else.
    Pipe& pipe = Inside::pipe(*connection);
    while (!pipe.done(pipe.posted())) {
        (void)Inside::queues(*host.port).fetch();
    }
    EXPECT_EQ(host.port->arm(), Errc::again);
    host.progress();
    EXPECT_EQ(std::ranges::count(tokens(), &token_), 1);
}

TEST_F(WindowsOnDevice, WhatWasSentBeforeACloseArrives) {
    const std::uint64_t one = open();
    const std::uint64_t other = open();
    ASSERT_NE(one, 0u);
    ASSERT_NE(other, 0u);
    std::vector<std::byte> theirs(size);
    RegionTable& table = RegionTable::instance();
    auto key = *table.add({.base = theirs.data(), .length = size, .access = access_remote_write});
    key.process_id = 1;
    key.link_data = has_remote_key | dpu.port->rdma()->keys_of(key.region).rkey;
    RemoteRegion region(key);
    for (unsigned i = 0; i < 8; ++i) {
        ASSERT_EQ(connection->put(memory_.data(), size, region, key.base, connection),
                  Errc::in_progress);
    }
    ASSERT_EQ(connection->close_window(one, &token_), Errc::in_progress);
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(connection->send(1, contract::pattern(40, i)), Errc::ok);
    }
    host.port->close(connection);
    ASSERT_TRUE(until([&] { return !dpu.seen.ends.empty(); }));
    EXPECT_EQ(dpu.seen.messages.size(), 5u);
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(theirs, memory_);
    table.remove(key.region);
}

TEST_F(WindowsOnDevice, ThoseOfADeviceThatIsGoneHoldNoMemory) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    const std::size_t before = pinned();
    host.port->rdma()->set_gone();
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }));
    EXPECT_GE(before - pinned(), size / 1024);
}

TEST_F(WindowsOnDevice, NobodyElseReachesIt) {
    Connection* const other = connect();
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    EXPECT_FALSE(reach(theirs(1), window));
    ASSERT_EQ(host.seen.ends.size(), 1u);
    EXPECT_EQ(host.seen.ends[0].connection, other);
    EXPECT_TRUE(reach(theirs(0), window));
    EXPECT_TRUE(has_come());
    close(window);
}

TEST_F(WindowsOnDevice, NothingAroundTheRegionIsReached) {
    // (Around the window soft-RoCE lets peers reach what is in the region.)
    const std::uint64_t window = open(size - length, length);
    ASSERT_NE(window, 0u);
    EXPECT_FALSE(reach(theirs(), window, size - length + 1, length));
}

TEST_F(WindowsOnDevice, OneForReadingIsNotWrittenThrough) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    EXPECT_FALSE(reach(theirs(), window, offset, length, true));
    EXPECT_EQ(memory_, contract::pattern(size, 1));
}

TEST_F(WindowsOnDevice, OneForWritingIs) {
    const std::uint64_t window = open(offset, length, access_remote_write);
    ASSERT_NE(window, 0u);
    EXPECT_TRUE(reach(theirs(), window, offset, length, true));
    EXPECT_TRUE(has_come()); // zeros
    EXPECT_EQ(memory_[offset], std::byte{0});
    EXPECT_FALSE(reach(theirs(), window));
}

TEST_F(WindowsOnDevice, ThereAreSoManyAtATimeAndTheyAreUsedAgain) {
    std::vector<std::uint64_t> windows;
    for (unsigned round = 0; round < 3; ++round) {
        while (windows.size() < tuning::windows) {
            const std::size_t at = windows.size() * 1000;
            ASSERT_TRUE(until([&] {
                const std::uint64_t window = open(at, 1000);
                if (window != 0) {
                    windows.push_back(window);
                }
                return window != 0;
            })) << "round "
                << round;
        }
        EXPECT_EQ(open(), 0u);
        for (std::size_t i = 0; i < windows.size(); ++i) {
            ASSERT_TRUE(reach(theirs(), windows[i], i * 1000, 1000)) << "round " << round;
            ASSERT_TRUE(has_come(i * 1000, 1000)) << "round " << round;
        }
        for (; !windows.empty(); windows.pop_back()) {
            close(windows.back());
        }
    }
}

TEST_F(WindowsOnDevice, OneIsOpenedMoreOftenThanItHasKeys) {
    for (unsigned round = 0; round < 300; ++round) {
        const std::uint64_t window = open();
        ASSERT_NE(window, 0u) << "round " << round;
        close(window);
    }
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    EXPECT_TRUE(reach(theirs(), window));
    EXPECT_TRUE(has_come());
    close(window);
}

TEST_F(WindowsOnDevice, ThoseOfAConnectionThatEndsAreClosed) {
    const std::uint64_t window = open();
    const std::uint64_t closing = open();
    ASSERT_NE(window, 0u);
    ASSERT_NE(closing, 0u);
    ASSERT_EQ(connection->close_window(closing, &token_), Errc::in_progress);
    dpu.port->close(&theirs());
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }));
    EXPECT_EQ(std::ranges::count(tokens(), &token_), 1) << "it is told of, and once";
    EXPECT_EQ(connection->close_window(window, &token_), Errc::ok);
}

TEST_F(WindowsOnDevice, ThoseOfAConnectionThatIsClosedAre) {
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    host.port->close(connection); // its last words are under way
    remove_region();
    ASSERT_TRUE(until([&] { return !dpu.seen.ends.empty(); }));
}

TEST_F(WindowsOnDevice, TheyCostTwoWorkRequestsAndOneCompletion) {
    const std::uint64_t first = open(); // the device makes it
    ASSERT_NE(first, 0u);
    close(first);
    const Tally before = Inside::queues(*host.port).tally();
    const std::uint64_t registrations = host.port->rdma()->registrations();
    const std::uint64_t window = open();
    ASSERT_NE(window, 0u);
    close(window);
    const Tally& after = Inside::queues(*host.port).tally();
    EXPECT_EQ(after.work_requests - before.work_requests, 2u);
    EXPECT_EQ(after.signalled - before.signalled, 1u);
    EXPECT_EQ(host.port->rdma()->registrations(), registrations);
}

TEST_F(WindowsOnDevice, WhatIsTooLongForOneHasNone) {
    EXPECT_EQ(open(0, tuning::largest_window + 1), 0u);
    EXPECT_EQ(connection->check(), Errc::ok);
}

} // namespace
} // namespace comch::link::verbs
