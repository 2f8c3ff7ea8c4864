#include "core/tools/stat/summary.hpp"

#include <gtest/gtest.h>

namespace comch::stat {
namespace {

using counters::SlotState;

ConnectionSample connection(const char* face, SlotState state = SlotState::connected) {
    ConnectionSample sample;
    sample.face = face;
    sample.state = state;
    return sample;
}

std::vector<ProcessSample> three_processes() {
    std::vector<ProcessSample> processes(3);
    processes[0].pid = processes[0].process_id = 10;
    processes[0].connections = {connection("uct"), connection("channel")};
    processes[0].connections[1].slot = 1;
    processes[1].pid = processes[1].process_id = 11;
    processes[1].connections = {connection("uct", SlotState::closed)};
    processes[2].pid = processes[2].process_id = 12;
    return processes;
}

TEST(Filter, WithoutConditionsKeepsAll) {
    auto processes = three_processes();
    apply({}, processes);
    EXPECT_EQ(processes.size(), 3u);
    EXPECT_EQ(processes[0].connections.size(), 2u);
}

TEST(Filter, KeepsTheProcessesAskedFor) {
    auto processes = three_processes();
    apply({.pids = {12, 11}, .faces = {}}, processes);
    ASSERT_EQ(processes.size(), 2u);
    EXPECT_EQ(processes[0].pid, 11u);
    EXPECT_EQ(processes[1].pid, 12u) << "it has no connections, but was asked for";
}

TEST(Filter, KeepsTheFacesAskedFor) {
    auto processes = three_processes();
    apply({.pids = {}, .faces = {"channel", "ofi"}}, processes);
    ASSERT_EQ(processes.size(), 1u);
    ASSERT_EQ(processes[0].connections.size(), 1u);
    EXPECT_EQ(processes[0].connections[0].face, "channel");
}

TEST(Totals, SumUpAllThatIsThere) {
    auto processes = three_processes();
    processes[0].connections[0].figures.tx_messages = 100;
    processes[0].connections[0].in_flight = 4;
    processes[0].connections[1].figures.tx_messages = 20;
    processes[1].connections[0].figures.wakeups = 3;
    const Totals totals = total(processes, nullptr);
    EXPECT_EQ(totals.processes, 3u);
    EXPECT_EQ(totals.connections, 2u) << "one has ended";
    EXPECT_EQ(totals.figures.tx_messages, 120u);
    EXPECT_EQ(totals.figures.wakeups, 3u);
    EXPECT_EQ(totals.in_flight, 4u);
    EXPECT_FALSE(totals.gained.has_value());

    const Gains gains(processes, 2);
    processes[0].connections[1].figures.tx_messages = 25;
    processes[1].connections[0].figures.wakeups = 4;
    EXPECT_EQ(total(processes, &gains).gained->tx_messages, 5u);
    EXPECT_EQ(total(processes, &gains).gained->wakeups, 1u);
    EXPECT_EQ(total(processes, &gains).figures.tx_messages, 125u);
}

TEST(Totals, CountAConnectionOnceAndNoChannels) {
    std::vector<ProcessSample> processes(2);
    processes[0].connections = {connection("channel"), connection("channel"), connection("uct")};
    processes[0].connections[0].connection = 7;
    processes[0].connections[1].connection = 8;
    processes[0].connections[1].kind = counters::SlotKind::channel;
    processes[1].connections = processes[0].connections; // the other ends
    EXPECT_EQ(total(processes, nullptr).connections, 3u) << "of two it is not known which they are";
}

TEST(Totals, DoNotLoseWhatConnectionsCountedWhoseSlotsWereTakenAgain) {
    auto processes = three_processes();
    processes[0].connections[0].connection = 1;
    processes[0].connections[0].figures.tx_messages = 100;
    const Gains gains(processes, 1);
    processes[0].connections[0].connection = 2;
    processes[0].connections[0].figures.tx_messages = 3;
    processes[0].ended.tx_messages = 110;
    const Totals totals = total(processes, &gains);
    EXPECT_EQ(totals.figures.tx_messages, 113u);
    EXPECT_EQ(totals.gained->tx_messages, 13u);

    apply({.pids = {}, .faces = {"uct"}}, processes);
    EXPECT_EQ(total(processes, &gains).figures.tx_messages, 3u)
        << "whose the others were is unknown";
    EXPECT_EQ(total(processes, &gains).gained->tx_messages, 3u);
}

TEST(Sums, TakeInOneSidedOperationsAndEveryPath) {
    const Figures figures{.tx_messages = 1,
                          .tx_bytes = 10,
                          .tx_bulk_ring_bytes = 9, // part of tx_bytes
                          .tx_mapped_bytes = 100,
                          .tx_process_vm_bytes = 1000,
                          .tx_one_sided = 2,
                          .rx_messages = 3,
                          .rx_bytes = 20,
                          .rx_bulk_ring_bytes = 19,
                          .one_sided_served = 4};
    EXPECT_EQ(operations_out(figures), 3u);
    EXPECT_EQ(operations_in(figures), 7u);
    EXPECT_EQ(bytes_out(figures), 1110u);
    EXPECT_EQ(bytes_in(figures), 20u);
}

TEST(Path, IsTheOneOfMostBytes) {
    EXPECT_EQ(main_path({}), Path::none);
    EXPECT_EQ(bulk_path({}), Path::none);
    EXPECT_EQ(main_path({.tx_bytes = 8}), Path::in_line);
    EXPECT_EQ(bulk_path({.tx_bytes = 8}), Path::none);
    const Figures streaming{.tx_bytes = 100, .tx_bulk_ring_bytes = 90};
    EXPECT_EQ(main_path(streaming), Path::bulk_ring);
    EXPECT_EQ(bulk_path(streaming), Path::bulk_ring);
    EXPECT_EQ(main_path({.rx_bytes = 100, .rx_bulk_ring_bytes = 90}), Path::bulk_ring);
    const Figures some_mapped{.tx_bytes = 100, .tx_mapped_bytes = 20};
    EXPECT_EQ(main_path(some_mapped), Path::in_line);
    EXPECT_EQ(bulk_path(some_mapped), Path::mapped);
    EXPECT_EQ(bulk_path({.tx_mapped_bytes = 20, .tx_process_vm_bytes = 30}), Path::process_vm);
    EXPECT_EQ(main_path({.tx_bytes = 50, .tx_bulk_ring_bytes = 60}), Path::bulk_ring)
        << "read between two counters";
}

} // namespace
} // namespace comch::stat
