#include "perftest/protocol.hpp"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

namespace comch::perftest::protocol {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t type_at = 6;
constexpr std::size_t length_at = 8;
constexpr std::size_t count_at = 12;

template <class T> void put(Bytes& bytes, std::size_t at, T value) {
    ASSERT_LE(at + sizeof(value), bytes.size());
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}

std::vector<Message> examples() {
    return {Hello{.plan = {.path = Path::fast,
                           .mode = Mode::two_way,
                           .verify = true,
                           .sleep = true,
                           .threads = 7},
                  .timeout_ms = 1234,
                  .cpus = {3, 1}},
            Welcome{.pid = 99},
            Round{.load = {.size = 1u << 31, .window = 17, .posted = 34, .buffers = 5},
                  .consumers = {1, 2, 3}},
            Ready{.consumers = {4}},
            End{.sent = {1, 2, ~std::uint64_t{0}}},
            Outcome{.received = 5, .wrong = 2, .sent = {8}, .first_wrong = "byte 3"},
            Failure{.text = "no"}};
}

TEST(Protocol, EveryMessageComesThrough) {
    for (const Message& message : examples()) {
        const Bytes bytes = encode(message);
        EXPECT_NE(bytes.at(0), data_mark);
        const auto back = decode(bytes);
        ASSERT_TRUE(back.has_value()) << message.index() << back.error().message;
        EXPECT_EQ(back->index(), message.index());
        EXPECT_EQ(encode(*back), bytes);
    }
    const auto hello = std::get<Hello>(*decode(encode(examples()[0])));
    EXPECT_EQ(hello.plan.mode, Mode::two_way);
    EXPECT_EQ(hello.plan.path, Path::fast);
    EXPECT_TRUE(hello.plan.verify);
    EXPECT_TRUE(hello.plan.sleep);
    EXPECT_EQ(hello.plan.threads, 7u);
    EXPECT_EQ(hello.cpus, (std::vector<std::uint32_t>{3, 1}));
    EXPECT_EQ(std::get<Outcome>(*decode(encode(examples()[5]))).first_wrong, "byte 3");
}

TEST(Protocol, TheLargestMessagesFitAControlMessage) {
    Outcome outcome{.received = 1, .wrong = 1, .sent = {}, .first_wrong = std::string(5000, 'x')};
    outcome.sent.resize(max_threads);
    EXPECT_LE(encode(outcome).size(), limits::message_size);
    Hello hello;
    hello.cpus.resize(max_cpus);
    EXPECT_LE(encode(hello).size(), limits::message_size);
    EXPECT_EQ(std::get<Outcome>(*decode(encode(outcome))).first_wrong.size(), max_text);
}

TEST(Protocol, NoCutMessageIsTaken) {
    for (const Message& message : examples()) {
        const Bytes bytes = encode(message);
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            Bytes shorter(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
            EXPECT_FALSE(decode(shorter).has_value());
            if (length >= 16) {
                put(shorter, length_at, static_cast<std::uint32_t>(length));
                EXPECT_FALSE(decode(shorter).has_value()) << "even if it says so itself";
            }
        }
        Bytes longer = bytes;
        longer.push_back(std::byte{1});
        EXPECT_FALSE(decode(longer).has_value());
        put(longer, length_at, static_cast<std::uint32_t>(longer.size()));
        EXPECT_FALSE(decode(longer).has_value());
    }
}

TEST(Protocol, CountsBeyondTheMessageAreRefused) {
    for (const Message& message : examples()) {
        for (const std::uint32_t count : {100u, 129u, 1u << 30, 0xffffffffu}) {
            Bytes bytes = encode(message);
            put(bytes, count_at, count);
            EXPECT_FALSE(decode(bytes).has_value()) << message.index() << ' ' << count;
        }
    }
}

TEST(Protocol, AnotherVersionIsNamed) {
    Bytes bytes = encode(examples()[0]);
    put(bytes, 4, std::uint16_t{7});
    const auto result = decode(bytes);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Errc::version_mismatch);
    EXPECT_NE(result.error().message.find("version 7"), std::string::npos);
    Bytes failure = encode(Failure{.text = "too old"});
    put(failure, 4, std::uint16_t{7});
    ASSERT_TRUE(decode(failure).has_value()) << "a refusal is understood";
    EXPECT_EQ(std::get<Failure>(*decode(failure)).text, "too old");
}

TEST(Protocol, ValuesOutOfRangeAreRefused) {
    const auto refused = [](const Message& message) {
        const auto result = decode(encode(message));
        return !result.has_value() && result.error().code == Errc::invalid_argument;
    };
    const auto hello = [&](auto change) {
        auto m = std::get<Hello>(examples()[0]);
        change(m);
        return refused(m);
    };
    EXPECT_TRUE(hello([](Hello& m) { m.plan.path = static_cast<Path>(0); }));
    EXPECT_TRUE(hello([](Hello& m) { m.plan.path = static_cast<Path>(3); }));
    EXPECT_TRUE(hello([](Hello& m) { m.plan.mode = static_cast<Mode>(4); }));
    EXPECT_TRUE(hello([](Hello& m) { m.plan.threads = 0; }));
    EXPECT_TRUE(hello([](Hello& m) { m.plan.threads = max_threads + 1; }));
    EXPECT_TRUE(hello([](Hello& m) { m.plan.path = Path::control; })) << "with 7 threads";
    EXPECT_TRUE(hello([](Hello& m) { m.timeout_ms = 0; }));
    EXPECT_TRUE(hello([](Hello& m) { m.cpus[0] = 5000; }));
    const auto round = [&](auto change) {
        auto m = std::get<Round>(examples()[2]);
        change(m.load);
        return refused(m);
    };
    EXPECT_TRUE(round([](Load& l) { l.size = 0; }));
    EXPECT_TRUE(round([](Load& l) { l.size = limits::fast_path_buffer_size + 1; }));
    EXPECT_TRUE(round([](Load& l) { l.window = 0; }));
    EXPECT_TRUE(round([](Load& l) { l.window = max_window + 1; }));
    EXPECT_TRUE(round([](Load& l) { l.posted = 0; }));
    EXPECT_TRUE(round([](Load& l) { l.posted = limits::consumer_tasks + 1; }));
    EXPECT_TRUE(round([](Load& l) { l.buffers = 0; }));
    EXPECT_TRUE(round([](Load& l) { l.buffers = l.posted + 1; }));
    Bytes unknown = encode(Welcome{});
    put(unknown, type_at, std::uint16_t{8});
    EXPECT_FALSE(decode(unknown).has_value());
    put(unknown, type_at, std::uint16_t{0});
    EXPECT_FALSE(decode(unknown).has_value());
}

TEST(Protocol, TextOfThePeerCannotPlayWithTheTerminal) {
    const auto back = decode(encode(Failure{.text = "a\x1b[2J\n\x7fz"}));
    EXPECT_EQ(std::get<Failure>(*back).text, "a?[2J??z");
}

TEST(Protocol, RandomBytesNeverHarm) {
    std::mt19937_64 draw(3);
    const auto all = examples();
    for (int i = 0; i < 100'000; ++i) {
        Bytes bytes = encode(all[draw() % all.size()]);
        for (auto flips = draw() % 6; flips != 0; --flips) {
            bytes[draw() % bytes.size()] = static_cast<std::byte>(draw());
        }
        if (const auto result = decode(bytes); result && result->index() == 0) {
            EXPECT_LE(std::get<Hello>(*result).plan.threads, max_threads);
        }
    }
}

} // namespace
} // namespace comch::perftest::protocol
