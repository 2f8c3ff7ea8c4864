#include "perftest/options.hpp"

#include <sstream>

#include <gtest/gtest.h>

namespace comch::perftest {
namespace {

struct Parsed {
    std::optional<int> status;
    Options options;
    std::string out;
    std::string err;
};

Parsed parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "comch_perftest");
    Parsed result;
    std::ostringstream out;
    std::ostringstream err;
    result.status = parse_options(static_cast<int>(arguments.size()), arguments.data(),
                                  result.options, out, err);
    result.out = out.str();
    result.err = err.str();
    return result;
}

TEST(Options, NoneMeasuresTheLatencyOfEightBytes) {
    const Parsed p = parse({});
    ASSERT_EQ(p.status, std::nullopt) << p.err;
    EXPECT_FALSE(p.options.server);
    EXPECT_EQ(p.options.plan.path, Path::fast);
    EXPECT_EQ(p.options.plan.mode, Mode::ping_pong);
    EXPECT_EQ(p.options.sizes, std::vector<std::uint64_t>{8});
    EXPECT_EQ(p.options.goal, (Amount{.seconds = 1}));
    EXPECT_EQ(p.options.warm_up, (Amount{.seconds = 0.1}));
}

TEST(Options, AllOfThem) {
    const Parsed p = parse({"-b", "-p",  "FAST",    "-m",        "two-way",  "-s",       "8,1K:4K",
                            "-n", "10k", "-w",      "50ms",      "-W",       "16",       "-t",
                            "3",  "-v",  "--sleep", "--timeout", "5s",       "-c",       "0,1",
                            "-C", "2-3", "--name",  "x",         "--device", "host_pf0", "--domain",
                            "d",  "-f",  "json",    "--progress"});
    ASSERT_EQ(p.status, std::nullopt) << p.err;
    EXPECT_TRUE(p.options.both_sides);
    EXPECT_EQ(p.options.plan.mode, Mode::two_way);
    EXPECT_EQ(p.options.sizes, (std::vector<std::uint64_t>{8, 1024, 2048, 4096}));
    EXPECT_EQ(p.options.goal, (Amount{.messages = 10'000}));
    EXPECT_EQ(p.options.warm_up, (Amount{.seconds = 0.05}));
    EXPECT_EQ(p.options.window, 16u);
    EXPECT_EQ(p.options.plan.threads, 3u);
    EXPECT_TRUE(p.options.plan.verify);
    EXPECT_TRUE(p.options.plan.sleep);
    EXPECT_DOUBLE_EQ(p.options.timeout, 5);
    EXPECT_EQ(p.options.cpus, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_EQ(p.options.server_cpus, (std::vector<std::uint32_t>{2, 3}));
    EXPECT_EQ(p.options.format, Format::json);
    EXPECT_TRUE(p.options.progress);
}

TEST(Options, TheWarmUpIsATenth) {
    EXPECT_EQ(parse({"-n", "1000"}).options.warm_up, (Amount{.messages = 100}));
    EXPECT_EQ(parse({"-d", "5s"}).options.warm_up, (Amount{.seconds = 0.5}));
    EXPECT_EQ(parse({"-w", "0"}).options.warm_up, Amount{});
}

TEST(Options, HelpExplains) {
    const Parsed p = parse({"--help"});
    EXPECT_EQ(p.status, 0);
    for (const char* word : {"--both-sides", "Columns", "99.99%", "Examples", "Exit status"}) {
        EXPECT_NE(p.out.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(p.err, "");
}

TEST(Options, WhatIsWrongIsSaid) {
    const std::vector<std::pair<std::vector<const char*>, const char*>> cases{
        {{"--mode", "sideways"}, "sideways"},
        {{"--sizes", "12q"}, "12q"},
        {{"--sizes", "0"}, "0 bytes"},
        {{"--sizes", "3G"}, "cannot be sent"},
        {{"-p", "control", "-s", "4081"}, "1 to 4080"},
        {{"-p", "control", "-t", "2"}, "one thread"},
        {{"-p", "control", "-B", "1"}, "--buffers"},
        {{"--count", "0"}, "--count"},
        {{"--count", "5s"}, "--duration"},
        {{"--count", "18446744073709551615"}, "more than 281474976710656"},
        {{"--warm-up", "1e4"}, "'1e4'"},
        {{"--count", "5", "--duration", "1s"}, "excludes"},
        {{"--duration", "0"}, "'0'"},
        {{"--window", "4"}, "ping-pong"},
        {{"-m", "one-way", "--window", "0"}, "--window"},
        {{"-m", "one-way", "--window", "100000"}, "--window"},
        {{"--threads", "0"}, "--threads"},
        {{"--threads", "129"}, "--threads"},
        {{"--cpus", "x"}, "'x'"},
        {{"--format", "xml"}, "xml"},
        {{"--verify", "--buffers", "1"}, "--buffers"},
        {{"--server", "--sizes", "8"}, "client"},
        {{"--server", "--timeout", "5s"}, "client"},
        {{"--server", "--progress"}, "client"},
        {{"--server", "--no-progress"}, "client"},
        {{"--server", "--both-sides"}, "--both-sides"},
        {{"--persistent"}, "--server"},
        {{"--representor", "host_pf0"}, "--representor"},
        {{"--progress", "--no-progress"}, "excludes"},
        {{"--nonsense"}, "--nonsense"},
        {{"8"}, "8"},
    };
    for (const auto& [arguments, word] : cases) {
        const Parsed p = parse(arguments);
        ASSERT_TRUE(p.status.has_value()) << arguments[0];
        EXPECT_GT(*p.status, 100) << arguments[0];
        EXPECT_EQ(p.out, "");
        EXPECT_NE(p.err.find(word), std::string::npos) << arguments[0] << ": " << p.err;
    }
}

TEST(Options, OfBothSidesTheNameHasRoomForAProcessId) {
    EXPECT_EQ(parse({"-b", "--name", std::string(111, 'a').c_str()}).status, std::nullopt);
    const std::string longer(112, 'a');
    const Parsed p = parse({"-b", "--name", longer.c_str()});
    ASSERT_TRUE(p.status.has_value());
    EXPECT_NE(p.err.find("--name: 112 bytes are too long; with --both-sides at most 111"),
              std::string::npos)
        << p.err;
    EXPECT_EQ(parse({"--name", longer.c_str()}).status, std::nullopt) << "to a server of that name";
}

TEST(Load, WindowsOfLargeMessagesAreSmall) {
    const Plan one_way{.mode = Mode::one_way};
    EXPECT_EQ(make_load(one_way, 8, 0, 0).window, 256u);
    EXPECT_EQ(make_load(one_way, 8, 0, 0).posted, 512u);
    EXPECT_EQ(make_load(one_way, 1 << 20, 0, 0).window, 32u);
    EXPECT_EQ(make_load(one_way, 1 << 20, 0, 0).buffers, 32u);
    EXPECT_EQ(make_load(one_way, 1u << 30, 0, 0).window, 2u);
    EXPECT_EQ(make_load(one_way, 1u << 30, 5, 0).window, 5u) << "as asked for";
    EXPECT_EQ(make_load(one_way, 8, 8192, 1).posted, 8192u);
    EXPECT_EQ(make_load(one_way, 8, 1, 1).buffers, 1u);
    EXPECT_EQ(make_load(Plan{}, 8, 0, 0).window, 1u);
    EXPECT_EQ(make_load(Plan{}, 8, 0, 0).buffers, 4u) << "one message is under way";
    EXPECT_EQ(make_load(Plan{}, 8, 0, 32).buffers, 32u);
}

TEST(Load, HasAsManyBuffersAsAskedFor) {
    for (const std::uint32_t buffers : {1u, 65u, 1000u, limits::consumer_tasks}) {
        for (const Mode mode : {Mode::ping_pong, Mode::one_way, Mode::two_way}) {
            const Load load = make_load(Plan{.mode = mode}, 8, 0, buffers);
            EXPECT_EQ(load.buffers, buffers) << to_string(mode);
            EXPECT_GE(load.posted, buffers) << "each is posted";
        }
    }
    const Plan one_way{.mode = Mode::one_way};
    const Load load = make_load(one_way, 8, 16, 1000);
    EXPECT_EQ(send_buffers(one_way, load), 16u) << "one for each message under way";
}

} // namespace
} // namespace comch::perftest
