#include "core/counters/counter_files.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/counters/process_counters.hpp"
#include "core/device/test_support.hpp"

namespace comch::counters {
namespace {

class CounterFiles : public ::testing::Test {
protected:
    std::vector<ProcessSample> read() {
        auto samples = read_counter_files(*domain);
        EXPECT_TRUE(samples.has_value());
        return samples ? *samples : std::vector<ProcessSample>{};
    }
    std::shared_ptr<ProcessCounters> open() { return ProcessCounters::open(domain).value(); }

    /// A file as a process with that id would have it, and the id taken for alive.
    void forge(std::uint64_t id, const std::function<void(File&)>& change) {
        const std::string suffix = process_suffix(id);
        const int fd = ::openat(domain->directory_fd(), ("counters." + suffix).c_str(),
                                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ASSERT_GE(fd, 0);
        const auto file = std::make_unique<File>();
        std::memset(static_cast<void*>(file.get()), 0, sizeof(File));
        file->header.magic = magic;
        file->header.version = version;
        file->header.slot_count = max_slots;
        file->header.process_id = id;
        change(*file);
        EXPECT_EQ(::write(fd, file.get(), sizeof(File)), static_cast<ssize_t>(sizeof(File)));
        ::close(fd);
    }

private:
    static std::shared_ptr<Domain> open_domain(const std::string& path) {
        const test::CleanEnvironment clean;
        return Domain::open({.directory = path, .description_file = {}}).value();
    }
    test::TempDir directory_;

protected:
    std::shared_ptr<Domain> domain = open_domain(directory_ / "domain");
};

TEST_F(CounterFiles, ShowWhatConnectionsCount) {
    const auto counters = open();
    Slot* slot = counters->take_slot({.kind = SlotKind::channel,
                                      .state = SlotState::connected,
                                      .face = "uct",
                                      .peer = "host_pf0",
                                      .local_side = Side::dpu,
                                      .peer_side = Side::host,
                                      .peer_pid = 4711,
                                      .connection = 99});
    // Each counter its own value, so that none is taken for another.
    std::uint64_t n = 1;
    for (Counter* counter :
         {&slot->tx.messages, &slot->tx.bytes, &slot->tx.bulk_ring_bytes, &slot->tx.mapped_bytes,
          &slot->tx.process_vm_bytes, &slot->tx.one_sided, &slot->tx.credit_stalls,
          &slot->tx.buffer_stalls, &slot->rx.messages, &slot->rx.bytes, &slot->rx.bulk_ring_bytes,
          &slot->rx.one_sided_served, &slot->rx.wakeups}) {
        counter->add(n++);
    }
    const auto processes = read();
    ASSERT_EQ(processes.size(), 1u);
    EXPECT_EQ(processes[0].process_id, process_id());
    EXPECT_EQ(processes[0].pid, static_cast<std::uint64_t>(::getpid()));
    ASSERT_EQ(processes[0].connections.size(), 1u);
    const ConnectionSample& connection = processes[0].connections[0];
    EXPECT_EQ(connection.slot, 0u);
    EXPECT_EQ(connection.kind, SlotKind::channel);
    EXPECT_EQ(connection.state, SlotState::connected);
    EXPECT_EQ(connection.face, "uct");
    EXPECT_EQ(connection.peer, "host_pf0");
    EXPECT_EQ(connection.local_side, 1u);
    EXPECT_EQ(connection.peer_side, 0u);
    EXPECT_EQ(connection.peer_pid, 4711u);
    EXPECT_EQ(connection.connection, 99u);
    n = 1;
    for (const FigureField& field : figure_fields) {
        EXPECT_EQ(connection.figures.*field.member, n++) << field.name;
    }
    EXPECT_EQ(connection.in_flight, std::nullopt) << "the other end is nowhere";
    EXPECT_EQ(processes[0].ended, Figures{});
    counters->release_slot(slot, SlotState::closed);
}

TEST_F(CounterFiles, TellWhatIsInFlight) {
    const auto counters = open();
    Slot* const a = counters->take_slot({.state = SlotState::connected, .connection = 5});
    Slot* const b = counters->take_slot({.state = SlotState::connected, .connection = 5});
    a->tx.messages.add(10);
    b->rx.messages.add(7);
    b->tx.messages.add(100);
    a->rx.messages.add(100);
    auto connections = read().at(0).connections;
    EXPECT_EQ(connections[0].in_flight, 3u);
    EXPECT_EQ(connections[1].in_flight, 0u);
    EXPECT_EQ(connections[0].figures.tx_messages - connections[1].figures.rx_messages, 3u);
    b->rx.messages.add(5);
    EXPECT_EQ(read().at(0).connections[0].in_flight, 0u) << "not -2";
    counters->release_slot(b, SlotState::closed);
    connections = read().at(0).connections;
    EXPECT_EQ(connections[0].in_flight, std::nullopt);
    EXPECT_EQ(connections[1].in_flight, 0u);
}

TEST_F(CounterFiles, GoOnBehindManySlotsAndShowWhatTheRestShares) {
    const auto counters = open();
    std::vector<Slot*> slots;
    for (std::uint32_t i = 0; i < max_slots; ++i) {
        slots.push_back(counters->take_slot({.connection = i + 1}));
        slots.back()->tx.bytes.add(i);
    }
    auto connections = read().at(0).connections;
    ASSERT_EQ(connections.size(), max_slots);
    for (std::uint32_t i = 0; i < max_slots; ++i) {
        EXPECT_EQ(connections[i].slot, i);
        EXPECT_EQ(connections[i].figures.tx_bytes, i);
    }
    Slot* const shared = counters->take_slot({.connection = 1});
    shared->tx.bytes.add(12345);
    counters->describe_slot(shared, {.peer = "one of them", .connection = 1});
    connections = read().at(0).connections;
    ASSERT_EQ(connections.size(), max_slots + 1u);
    EXPECT_EQ(connections.back().slot, max_slots);
    EXPECT_EQ(connections.back().figures.tx_bytes, 12345u);
    EXPECT_EQ(connections.back().connection, 0u);
    EXPECT_EQ(connections.back().peer, "") << "it tells of no connection";

    counters->release_slot(slots[3], SlotState::closed);
    (void)counters->take_slot();
    EXPECT_EQ(read().at(0).ended.tx_bytes, 3u);
}

TEST_F(CounterFiles, LeaveOutWhatIsNoCounterFile) {
    const auto counters = open();
    const int directory = domain->directory_fd();
    const std::string ours = process_suffix(process_id());
    const int cut =
        ::openat(directory, "counters.0000000000000002", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(cut, 0);
    ::close(cut);
    ASSERT_EQ(::mkdirat(directory, "counters.0000000000000003", 0700), 0);
    ASSERT_EQ(::mkfifoat(directory, "counters.0000000000000004", 0600), 0);
    ASSERT_EQ(::symlinkat(("counters." + ours).c_str(), directory, "counters.0000000000000005"), 0);
    const auto processes = read();
    ASSERT_EQ(processes.size(), 1u);
    EXPECT_EQ(processes[0].process_id, process_id());
}

TEST_F(CounterFiles, LeaveOutTheDead) {
    forge(1, [](File&) {});
    EXPECT_TRUE(read().empty()) << "nobody holds its lock";
}

TEST_F(CounterFiles, LeaveOutWhatIsBroken) {
    const std::uint64_t id = process_id(); // which is alive
    const auto connections =
        [&](const std::function<void(File&)>& change) -> std::optional<std::size_t> {
        forge(id, change);
        const auto processes = read();
        return processes.empty() ? std::nullopt : std::optional(processes[0].connections.size());
    };
    EXPECT_EQ(connections([](File&) {}), 0u) << "the test's own assumption";
    EXPECT_EQ(connections([](File& f) { f.header.magic = 0; }), std::nullopt);
    EXPECT_EQ(connections([](File& f) { f.header.version = 1; }), std::nullopt);
    EXPECT_EQ(connections([](File& f) { ++f.header.process_id; }), std::nullopt);
    EXPECT_EQ(connections([](File& f) { f.slots[0].state.store(77); }), std::nullopt);
    EXPECT_EQ(connections([](File& f) {
                  f.header.slot_count = ~0u;
                  for (Slot& slot : f.slots) {
                      slot.state.store(2);
                  }
              }),
              max_slots);
    EXPECT_EQ(connections([](File& f) {
                  f.slots[0].state.store(2);
                  std::memset(f.slots[0].face, 'x', sizeof(f.slots[0].face)); // no end
                  std::memset(f.slots[0].peer, 0xff, sizeof(f.slots[0].peer));
              }),
              1u);
    EXPECT_EQ(read().at(0).connections[0].face, "xxxxxxxx");
}

} // namespace
} // namespace comch::counters
