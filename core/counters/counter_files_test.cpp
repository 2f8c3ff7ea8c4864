#include "core/counters/counter_files.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/counters/process_counters.hpp"
#include "core/device/test_support.hpp"

namespace comch {
namespace {

TEST(CounterFiles, ShowsWhatConnectionsCount) {
    const test::TempDir directory;
    auto domain = Domain::open({.directory = directory / "domain", .description_file = {}});
    ASSERT_TRUE(domain) << domain.error().message;
    auto counters = ProcessCounters::open(*domain);
    ASSERT_TRUE(counters) << counters.error().message;
    counters::Slot* slot = (*counters)->take_slot();
    std::strcpy(slot->face, "uct");
    std::strcpy(slot->peer, "host_pf0");
    slot->state.store(static_cast<std::uint32_t>(counters::SlotState::connected));
    slot->tx.messages.add(3);
    slot->rx.bytes.add(77);

    const auto samples = counters::read_counter_files(**domain);
    ASSERT_TRUE(samples) << samples.error().message;
    ASSERT_EQ(samples->size(), 1u);
    EXPECT_EQ((*samples)[0].process_id, process_id());
    EXPECT_EQ((*samples)[0].pid, static_cast<std::uint64_t>(::getpid()));
    ASSERT_EQ((*samples)[0].connections.size(), 1u);
    const auto& connection = (*samples)[0].connections[0];
    EXPECT_EQ(connection.face, "uct");
    EXPECT_EQ(connection.peer, "host_pf0");
    EXPECT_EQ(connection.state, counters::SlotState::connected);
    EXPECT_EQ(connection.figures.tx_messages, 3u);
    EXPECT_EQ(connection.figures.rx_bytes, 77u);
    (*counters)->release_slot(slot, counters::SlotState::closed);
}

TEST(CounterFiles, LeavesOutWhatIsNoCounterFile) {
    const test::TempDir directory;
    auto domain = Domain::open({.directory = directory / "domain", .description_file = {}});
    ASSERT_TRUE(domain) << domain.error().message;
    const int fd = ::openat((*domain)->directory_fd(), "counters.0000000000000001",
                            O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::ftruncate(fd, sizeof(counters::File)), 0); // right size, no magic
    ::close(fd);
    const int cut = ::openat((*domain)->directory_fd(), "counters.0000000000000002",
                             O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(cut, 0);
    ::close(cut);
    const auto samples = counters::read_counter_files(**domain);
    ASSERT_TRUE(samples) << samples.error().message;
    EXPECT_TRUE(samples->empty());
}

} // namespace
} // namespace comch
