#include "perftest/report.hpp"

#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace comch::perftest {
namespace {

/// What a report prints of these rows.
std::string print(const Options& options, const std::vector<RoundResult>& rows,
                  bool complete = true, const char* name = "name") {
    char* text = nullptr;
    std::size_t length = 0;
    std::FILE* const out = ::open_memstream(&text, &length);
    const auto report = make_report(options.format, out);
    report->begin(options, {.client_device = "host_pf0", .server_name = name});
    for (const RoundResult& row : rows) {
        report->row(row);
    }
    report->end(complete);
    std::fclose(out);
    std::string result(text, length);
    std::free(text);
    return result;
}

RoundResult ping_pong() {
    RoundResult result{.load = {.size = 64}};
    // Not calibrated: a tick is a nanosecond.
    for (int i = 0; i < 9999; ++i) {
        result.round_trips.record(1000);
    }
    result.round_trips.record(8000);
    result.sent = 10'000;
    result.seconds = 0.01;
    return result;
}

RoundResult two_way() {
    RoundResult result{.load = {.size = 1000, .window = 32, .posted = 64, .buffers = 64}};
    result.sent = 1000;
    result.received = 3000;
    result.seconds = 2;
    return result;
}

TEST(Report, ANameNeedNotBeUtf8) {
    Options options;
    options.format = Format::json;
    const auto json = nlohmann::json::parse(print(options, {ping_pong()}, true, "a\xff"));
    EXPECT_EQ(json["server"]["name"], "a\uFFFD");
}

TEST(Report, LatencyIsHalfOfARoundTrip) {
    const Figures f(ping_pong());
    EXPECT_DOUBLE_EQ(f.latency.min, 0.5);
    EXPECT_DOUBLE_EQ(f.latency.p50, 0.5);
    EXPECT_DOUBLE_EQ(f.latency.p99_99, 0.5);
    EXPECT_DOUBLE_EQ(f.latency.max, 4);
    EXPECT_DOUBLE_EQ(f.messages_per_second, 1e6);
}

TEST(Report, TwoWayRatesAreSums) {
    const Figures f(two_way());
    EXPECT_EQ(f.messages, 4000u);
    EXPECT_DOUBLE_EQ(f.messages_per_second, 2000);
    EXPECT_DOUBLE_EQ(f.bytes_per_second, 2e6);
    EXPECT_DOUBLE_EQ(f.sent_bytes_per_second, 0.5e6);
    EXPECT_DOUBLE_EQ(f.received_bytes_per_second, 1.5e6);
}

TEST(Report, NothingMeasuredDividesByNothing) {
    const Figures f(RoundResult{});
    EXPECT_EQ(f.messages_per_second, 0);
    EXPECT_EQ(f.latency.mean, 0);
}

TEST(Report, JsonHasItAll) {
    Options options;
    options.format = Format::json;
    const auto json = nlohmann::json::parse(print(options, {ping_pong(), ping_pong()}));
    EXPECT_EQ(json["mode"], "ping-pong");
    EXPECT_EQ(json["path"], "fast");
    EXPECT_EQ(json["goal"]["seconds"], 1);
    EXPECT_EQ(json["client"]["device"], "host_pf0");
    ASSERT_EQ(json["results"].size(), 2u);
    EXPECT_EQ(json["results"][0]["bytes"], 64);
    EXPECT_EQ(json["results"][0]["latency_us"]["p99_99"], 0.5);
    EXPECT_FALSE(json["results"][0].contains("sent_messages"));
    options.plan.mode = Mode::two_way;
    const auto other = nlohmann::json::parse(print(options, {two_way()}));
    EXPECT_EQ(other["results"][0]["received_messages"], 3000);
    EXPECT_EQ(other["results"][0]["buffers"], 64);
    EXPECT_EQ(other["results"][0]["send_buffers"], 32);
    EXPECT_FALSE(other["results"][0].contains("latency_us"));
}

TEST(Report, JsonTellsWhatCameBeforeAnEarlyEnd) {
    Options options;
    options.format = Format::json;
    for (const bool complete : {true, false}) {
        const auto json = nlohmann::json::parse(print(options, {ping_pong()}, complete));
        EXPECT_EQ(json["results"].size(), 1u);
        EXPECT_EQ(json["complete"], complete);
    }
}

TEST(Report, CsvLinesHaveAsManyFieldsAsTheFirst) {
    for (const auto& [mode, row] :
         {std::pair{Mode::ping_pong, ping_pong()}, std::pair{Mode::two_way, two_way()}}) {
        Options options;
        options.format = Format::csv;
        options.plan.mode = mode;
        std::istringstream text(print(options, {row, row}));
        std::string line;
        std::vector<std::ptrdiff_t> commas;
        while (std::getline(text, line)) {
            commas.push_back(std::count(line.begin(), line.end(), ','));
        }
        EXPECT_EQ(commas, (std::vector<std::ptrdiff_t>{22, 22, 22}));
    }
}

TEST(Report, TheTableIsAligned) {
    for (const auto& [mode, row] :
         {std::pair{Mode::ping_pong, ping_pong()}, std::pair{Mode::two_way, two_way()}}) {
        Options options;
        options.plan.mode = mode;
        std::istringstream text(print(options, {row}));
        std::string line;
        std::vector<std::string> lines;
        while (std::getline(text, line)) {
            if (line[0] != '#') {
                lines.push_back(line);
            }
        }
        ASSERT_EQ(lines.size(), 2u);
        EXPECT_EQ(lines[0].size(), lines[1].size()) << lines[0] << '\n' << lines[1];
    }
}

} // namespace
} // namespace comch::perftest
