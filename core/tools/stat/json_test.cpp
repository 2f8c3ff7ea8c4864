#include "core/tools/stat/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/device/test_support.hpp"

namespace comch::stat {
namespace {

using Json = nlohmann::json;

class StatJson : public ::testing::Test {
protected:
    test::TempDir directory;
    std::shared_ptr<Domain> domain = [this] {
        const test::CleanEnvironment clean;
        return Domain::open({.directory = directory / "domain", .description_file = {}}).value();
    }();
    std::vector<ProcessSample> processes = std::vector<ProcessSample>(1);

    void SetUp() override {
        processes[0].pid = 42;
        processes[0].process_id = 0xabc;
        processes[0].program = "program";
        processes[0].ended.rx_bytes = 9;
        processes[0].connections.resize(2);
        ConnectionSample& c = processes[0].connections[0];
        c.state = counters::SlotState::connected;
        c.kind = counters::SlotKind::channel;
        c.face = "channel";
        c.peer = "host_pf0";
        c.local_side = 1;
        c.peer_pid = 43;
        c.connection = 77;
        c.in_flight = 5;
        processes[0].connections[1].state = counters::SlotState::connecting;
        c.figures = {.tx_messages = 10,
                     .tx_bytes = 1000,
                     .tx_bulk_ring_bytes = 900,
                     .credit_stalls = 3,
                     .buffer_stalls = 4};
    }
};

TEST_F(StatJson, TellsAll) {
    const Json json = Json::parse(to_json(*domain, processes, nullptr, 2));
    EXPECT_EQ(json["domain"], domain->path());
    EXPECT_TRUE(json["seconds"].is_null());
    EXPECT_GT(json["time"], 1.6e9);
    const Json& process = json["processes"][0];
    EXPECT_EQ(process["pid"], 42);
    EXPECT_EQ(process["process_id"], "0000000000000abc");
    EXPECT_EQ(process["program"], "program");
    EXPECT_EQ(process["ended"]["rx_bytes"], 9);
    const Json& c = process["connections"][0];
    EXPECT_EQ(c["kind"], "channel");
    EXPECT_EQ(c["state"], "connected");
    EXPECT_EQ(c["face"], "channel");
    EXPECT_EQ(c["side"], "dpu");
    EXPECT_EQ(c["peer_side"], "host");
    EXPECT_EQ(c["peer"], "host_pf0");
    EXPECT_EQ(c["peer_pid"], 43);
    EXPECT_EQ(c["connection"], 77);
    EXPECT_EQ(c["in_flight"], 5);
    EXPECT_EQ(c["bulk_path"], "bulk_ring");
    EXPECT_EQ(c["tx_messages"], 10);
    EXPECT_EQ(c["buffer_stalls"], 4);
    EXPECT_FALSE(c.contains("rates"));
    const Json& unpaired = process["connections"][1];
    EXPECT_TRUE(unpaired["connection"].is_null());
    EXPECT_TRUE(unpaired["in_flight"].is_null());
    EXPECT_TRUE(unpaired["bulk_path"].is_null());
    EXPECT_EQ(json["totals"]["processes"], 1);
    EXPECT_EQ(json["totals"]["connections"], 1);
    EXPECT_EQ(json["totals"]["in_flight"], 5);
    EXPECT_EQ(json["totals"]["credit_stalls"], 3);
}

TEST_F(StatJson, WithGainsTellsRatesOnOneLine) {
    const Gains gains(processes, 0.5);
    processes[0].connections[0].figures.tx_messages += 100;
    processes[0].connections[0].figures.buffer_stalls += 1;
    const std::string text = to_json(*domain, processes, &gains, -1);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const Json json = Json::parse(text);
    EXPECT_EQ(json["seconds"], 0.5);
    const Json& c = json["processes"][0]["connections"][0];
    EXPECT_EQ(c["tx_messages"], 110);
    EXPECT_EQ(c["rates"]["tx_messages"], 200.0);
    EXPECT_EQ(c["rates"]["buffer_stalls"], 2.0);
    EXPECT_EQ(c["rates"]["tx_bytes"], 0.0);
    EXPECT_EQ(json["totals"]["rates"]["tx_messages"], 200.0);
}

TEST_F(StatJson, SurvivesNamesThatAreNoText) {
    processes[0].program = "\xff\xfe\033[2J\"";
    const Json json = Json::parse(to_json(*domain, processes, nullptr, 2));
    EXPECT_EQ(json["processes"][0]["pid"], 42);
}

} // namespace
} // namespace comch::stat
