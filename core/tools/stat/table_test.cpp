#include "core/tools/stat/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace comch::stat {
namespace {

using counters::SlotState;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ConnectionSample connection(std::uint32_t slot, std::uint64_t bytes) {
    ConnectionSample sample;
    sample.slot = slot;
    sample.connection = bytes;
    sample.state = SlotState::connected;
    sample.face = "uct";
    sample.peer = "host_pf0";
    sample.local_side = 1;
    sample.peer_pid = 4711;
    sample.figures = {.tx_messages = 2 * bytes, .tx_bytes = bytes};
    return sample;
}

std::vector<ProcessSample> some() {
    std::vector<ProcessSample> processes(2);
    processes[0].pid = processes[0].process_id = 100;
    processes[0].program = "quiet";
    processes[0].connections = {connection(0, 10)};
    processes[1].pid = processes[1].process_id = 200;
    processes[1].program = "busy";
    processes[1].connections = {connection(0, 5), connection(1, 5000)};
    processes[1].connections[1].in_flight = 42;
    return processes;
}

TEST(Table, ShowsTotalsFirstAndThenTheBusiest) {
    const auto lines = table(some(), nullptr, {});
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0],
              "    pid program    face    side peer        st     out     B    in     B flight "
              "credit buffer path");
    EXPECT_EQ(lines[1],
              "  total 2 proc                  3 open           10.0k  5015     0     0     42 "
              "     0      0 inline");
    EXPECT_EQ(lines[2],
              "    200 busy       uct     dpu  host_p:4711 open 10.0k  5000     0     0     42 "
              "     0      0 inline");
    EXPECT_THAT(lines[3], StartsWith("    100 quiet "));
    EXPECT_THAT(lines[4], StartsWith("    200 busy "));
    for (const std::string& line : lines) {
        EXPECT_LE(line.size(), table_width);
    }
}

TEST(Table, AMegabyteIsAMillionBytes) {
    std::vector<ProcessSample> processes(1);
    processes[0].connections = {connection(0, 1'000'000)};
    EXPECT_THAT(table(processes, nullptr, {})[2], HasSubstr(" 2.00M 1.00M "));
}

TEST(Table, WithGainsShowsRatesAndSortsByThem) {
    const Gains gains(some(), 2);
    auto now = some();
    now[0].connections[0].figures.tx_messages += 6;
    now[0].connections[0].figures.tx_bytes += 18'000;
    now[0].connections[0].figures.credit_stalls += 8;
    now[0].connections[0].figures.buffer_stalls += 10;
    const auto lines = table(now, &gains, {});
    EXPECT_THAT(lines[0], HasSubstr("out/s"));
    EXPECT_EQ(lines[2],
              "    100 quiet      uct     dpu  host_p:4711 open     3  9000     0     0      - "
              "     4      5 inline");
    EXPECT_THAT(lines[3], StartsWith("    200 busy "));
    EXPECT_THAT(lines[1], HasSubstr(" 9000 "));
}

TEST(Table, TellsAChannelAConnectionsEndAndWhatIsShared) {
    std::vector<ProcessSample> processes(1);
    processes[0].connections = {connection(0, 3), connection(1, 2), connection(2, 1)};
    processes[0].connections[0].kind = counters::SlotKind::channel;
    processes[0].connections[0].face = "channel";
    processes[0].connections[1].state = SlotState::failed;
    processes[0].connections[2].slot = counters::max_slots;
    const auto lines = table(processes, nullptr, {});
    EXPECT_THAT(lines[2], HasSubstr(" ch/pair "));
    EXPECT_THAT(lines[3], HasSubstr(" fail "));
    EXPECT_THAT(lines[4], HasSubstr(" (more) "));
}

TEST(Table, FitsTheScreen) {
    std::vector<ProcessSample> processes(1);
    for (std::uint32_t i = 0; i < 50; ++i) {
        processes[0].connections.push_back(connection(i, i));
    }
    const auto lines = table(processes, nullptr, {.columns = 40, .rows = 10});
    ASSERT_EQ(lines.size(), 10u);
    EXPECT_EQ(lines[9], "... and 43 more");
    for (const std::string& line : lines) {
        EXPECT_LE(line.size(), 40u);
    }
    EXPECT_EQ(table(processes, nullptr, {.columns = 40, .rows = 52}).size(), 52u);
    EXPECT_THAT(table(processes, nullptr, {.columns = 40, .rows = 52}).back(),
                Not(HasSubstr("more")));
}

TEST(Table, NamesGrowWithTheScreenAndStayHarmless) {
    std::vector<ProcessSample> processes(1);
    processes[0].program = "\033[31mprogram";
    processes[0].connections = {connection(0, 1)};
    processes[0].connections[0].peer = "a_function_of_23_letter";
    const auto lines = table(processes, nullptr, {.columns = 140});
    EXPECT_THAT(lines[2], HasSubstr("?[31mprogram"));
    EXPECT_THAT(lines[2], HasSubstr("a_function_of_23_letter:4711"));
    EXPECT_THAT(table(processes, nullptr, {})[2], HasSubstr("a_func:4711"));
}

} // namespace
} // namespace comch::stat
