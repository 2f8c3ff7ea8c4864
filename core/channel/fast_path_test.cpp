// Producers and consumers, over every link.

#include <array>
#include <atomic>
#include <set>

#include <sys/mman.h>

#include "core/channel/test_support.hpp"
#include "core/counters/counter_files.hpp"

namespace comch::channel::test {
namespace {

class FastPath : public ::testing::TestWithParam<bool> {
protected:
    Lab lab{GetParam()};
    ServerProgram server;
    ClientProgram client;

    void SetUp() override {
        ASSERT_EQ(server.open(lab, "name"), Errc::ok);
        ASSERT_EQ(client.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return !server.connected.empty() && client.client->state() == State::running; },
            server, client));
    }
    [[nodiscard]] Connection& host() { return client.connection(); }
    [[nodiscard]] Connection& dpu() { return *server.connected.at(0); }

    /// Opens a consumer on the host and waits until the DPU knows it.
    [[nodiscard]] ::testing::AssertionResult start(ConsumerProgram& program,
                                                   const ConsumerOptions& options = {}) {
        if (program.open(*client.engine, host(), options) != Errc::ok) {
            return ::testing::AssertionFailure() << "cannot open a consumer";
        }
        return until(
            [&] {
                return program.consumer->state() == State::running && !server.added.empty() &&
                       server.added.back().second == program.consumer->id();
            },
            server, client);
    }
    /// Sends although the answer may be `again`.
    [[nodiscard]] Errc send(ProducerProgram& from, std::uint32_t to, const SendBuffer& buffer,
                            void* cookie = nullptr) {
        Errc result = Errc::again;
        EXPECT_TRUE(until(
            [&] {
                result = from.producer->send(to, buffer, cookie);
                return result != Errc::again;
            },
            server, client));
        return result;
    }
};

INSTANTIATE_TEST_SUITE_P(, FastPath, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

TEST_P(FastPath, ConsumersComeAndGoOnTheOtherSide) {
    std::array<ConsumerProgram, 3> here;
    std::array<ConsumerProgram, 3> there;
    std::set<std::uint32_t> ids;
    for (ConsumerProgram& c : here) {
        ASSERT_EQ(c.open(*client.engine, host()), Errc::ok);
        EXPECT_EQ(c.consumer->state(), State::starting);
        ids.insert(c.consumer->id());
    }
    for (ConsumerProgram& c : there) {
        ASSERT_EQ(c.open(*server.engine, dpu()), Errc::ok);
        ids.insert(c.consumer->id());
    }
    EXPECT_EQ(ids.size(), 6u) << "unique over both sides";
    EXPECT_FALSE(ids.contains(0));
    ASSERT_TRUE(until([&] { return server.added.size() == 3 && client.added.size() == 3; }, server,
                      client));
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(server.added[i], std::make_pair(&dpu(), here[i].consumer->id()));
        EXPECT_EQ(client.added[i], there[i].consumer->id());
        EXPECT_EQ(here[i].states, std::vector<State>{State::running});
    }
    EXPECT_EQ(host().remote_consumers(), client.added);
    ASSERT_TRUE(here[1].consumer->stop().has_value());
    EXPECT_EQ(here[1].consumer->stop().error().code, Errc::bad_state);
    ASSERT_TRUE(until([&] { return server.removed.size() == 1; }, server, client));
    EXPECT_EQ(server.removed[0], std::make_pair(&dpu(), here[1].consumer->id()));
    EXPECT_EQ(here[1].consumer->state(), State::idle);
    EXPECT_EQ(dpu().remote_consumers(),
              (std::vector{here[0].consumer->id(), here[2].consumer->id()}));
    there[0].consumer.reset(); // without stopping
    ASSERT_TRUE(until([&] { return client.removed.size() == 1; }, server, client));
}

TEST_P(FastPath, ConsumersMayBeOpenedInAnotherOrderThanTheirIds) {
    const std::uint32_t first = host().reserve_consumer_id();
    const std::uint32_t never = host().reserve_consumer_id();
    const std::uint32_t second = host().reserve_consumer_id();
    EXPECT_EQ((std::set<std::uint32_t>{0, first, never, second}).size(), 4u);
    ConsumerProgram early;
    ConsumerProgram late;
    ConsumerProgram other;
    ASSERT_EQ(early.open(*client.engine, host(), {.id = second}), Errc::ok);
    ASSERT_EQ(late.open(*client.engine, host(), {.id = first}), Errc::ok);
    ASSERT_EQ(other.open(*client.engine, host()), Errc::ok);
    EXPECT_EQ(early.consumer->id(), second);
    EXPECT_EQ(late.consumer->id(), first);
    ConsumerProgram twice;
    for (const std::uint32_t id :
         {first, second + 1, second + 1000}) { // used, the peer's, nobody's
        EXPECT_EQ(twice.open(*client.engine, host(), {.id = id}), Errc::invalid_argument) << id;
    }
    ASSERT_TRUE(until([&] { return server.added.size() == 3; }, server, client));
    EXPECT_EQ(dpu().remote_consumers(), (std::vector{second, first, other.consumer->id()}));
    ProducerProgram producer;
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    EXPECT_EQ(producer.send(never, bytes_of("x")), Errc::not_found);
    std::vector<std::byte> buffer(10);
    ASSERT_EQ(late.post(buffer), Errc::ok);
    ASSERT_EQ(send(producer, first, {.data = bytes_of("here")}), Errc::ok);
    ASSERT_TRUE(until([&] { return late.landed.size() == 1; }, server, client));
}

TEST_P(FastPath, MessagesOfAllSizesLandBehindTheDataThatIsThere) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    EXPECT_EQ(producer.producer->state(), State::running);
    const std::uint32_t id = consumer.consumer->id();
    const std::string immediate32(32, 'i');
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{56}, std::size_t{57},
          std::size_t{4047}, std::size_t{4048}, std::size_t{4049}, std::size_t{4087},
          std::size_t{4088}, std::size_t{4089}, std::size_t{32727}, std::size_t{32728},
          std::size_t{32729}, std::size_t{32768}, std::size_t{32769}, std::size_t{100'000},
          std::size_t{3'000'001}}) {
        for (const std::string_view immediate :
             {std::string_view(), std::string_view("now"), std::string_view(immediate32)}) {
            SCOPED_TRACE(testing::Message() << size << " bytes, " << immediate.size());
            const auto data = pattern(size, static_cast<std::uint32_t>(size));
            auto buffer = pattern(size + 100, 99);
            auto expected = buffer;
            std::copy(data.begin(), data.end(), expected.begin() + 10);
            ASSERT_EQ(consumer.post(buffer, 10), Errc::ok);
            consumer.landed.clear();
            producer.sent.clear();
            int cookie = 0;
            ASSERT_EQ(send(producer, id, {.data = data, .immediate = bytes_of(immediate)}, &cookie),
                      Errc::ok);
            EXPECT_EQ(producer.producer->in_flight(), 1u);
            ASSERT_TRUE(until([&] { return !consumer.landed.empty() && !producer.sent.empty(); },
                              server, client));
            EXPECT_EQ(producer.sent, (std::vector<std::pair<void*, Errc>>{{&cookie, Errc::ok}}));
            EXPECT_EQ(producer.producer->in_flight(), 0u);
            const auto& landed = consumer.landed.at(0);
            EXPECT_EQ(landed.status, Errc::ok);
            EXPECT_EQ(landed.cookie, &buffer);
            EXPECT_EQ(landed.offset, 10u);
            EXPECT_EQ(landed.length, size);
            EXPECT_EQ(landed.immediate, immediate);
            EXPECT_EQ(landed.connection, &host());
            EXPECT_EQ(landed.producer, producer.producer->id());
            EXPECT_EQ(buffer, expected);
        }
    }
}

TEST_P(FastPath, ImmediateDataNeedsNoBuffer) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_EQ(consumer.consumer->post({}, nullptr), Errc::ok);
    ASSERT_EQ(send(producer, id, {.immediate = bytes_of("all there is")}), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1; }, server, client));
    EXPECT_EQ(consumer.landed[0].immediate, "all there is");
    EXPECT_EQ(consumer.landed[0].length, 0u);
    EXPECT_EQ(producer.producer->send(id, {.immediate = bytes_of(std::string(33, 'x'))}, nullptr),
              Errc::invalid_argument);
}

TEST_P(FastPath, ImmediateDataIsCopiedAlsoBehindALongMessage) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    std::vector<std::byte> big(20'000'000);
    std::vector<std::byte> small(10);
    ASSERT_EQ(consumer.post(big), Errc::ok);
    ASSERT_EQ(consumer.post(small), Errc::ok);
    settle(server, client);
    const std::vector<std::byte> data(20'000'000);
    std::string first = "first";
    std::string second = "second";
    ASSERT_EQ(producer.producer->send(id, {.data = data, .immediate = bytes_of(first)}, nullptr),
              Errc::ok);
    ASSERT_EQ(producer.producer->send(id, {.immediate = bytes_of(second)}, nullptr), Errc::ok);
    first = "xxxxx";
    second = "xxxxxx";
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, server, client));
    EXPECT_EQ(consumer.landed[0].immediate, "first");
    EXPECT_EQ(consumer.landed[1].immediate, "second");
}

TEST_P(FastPath, ProgressSaysWhenToTryAgain) {
    const auto engine = make_engine(); // the producer's alone; it outlives the producer
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    std::vector<std::byte> buffer(10);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    settle(server, client);
    ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client, *engine));
    ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::again);
    settle(server, client, *engine);
    EXPECT_EQ(engine->progress(), 0u);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    bool told = false;
    ASSERT_TRUE(until(
        [&] {
            told = engine->progress() != 0;
            return told;
        },
        server, client));
    EXPECT_EQ(producer.send(id, bytes_of("m")), Errc::ok);
}

TEST_P(FastPath, ProgressSaysWhenToTryAConsumerAgainThatHadPostedNothing) {
    const auto engine = make_engine(); // the producer's alone; it outlives the producer
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::again);
    settle(server, client, *engine);
    ASSERT_EQ(engine->arm(), Errc::ok);
    std::vector<std::byte> buffer(10);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    // The owner's thread hears of it between the producer's failed send and its progress call.
    settle(server, client);
    EXPECT_TRUE(sleep_on(engine->event_fd()));
    EXPECT_NE(engine->progress(), 0u) << "or it would sleep although it could send";
    EXPECT_EQ(producer.send(id, bytes_of("m")), Errc::ok);
}

TEST_P(FastPath, RoomThatIsFoundBySomethingElseThanProgressIsToldOfAllTheSame) {
    const auto engine = make_engine(); // the producer's alone
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::again);
    settle(server, client, *engine);
    ASSERT_EQ(engine->arm(), Errc::ok);
    std::vector<std::byte> buffer(10);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    settle(server, client);
    EXPECT_EQ(producer.producer->completed(), 0u); // reads what the consumer has said
    EXPECT_EQ(engine->arm(), Errc::again) << "or it would sleep although it could send";
    EXPECT_NE(engine->progress(), 0u);
    EXPECT_EQ(producer.send(id, bytes_of("m")), Errc::ok);
}

TEST_P(FastPath, ProgressSaysWhenAConsumerIsGoneThatHadPostedNothing) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::again);
    settle(server, client, *engine);
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(until([&] { return !server.removed.empty(); }, server, client));
    EXPECT_TRUE(sleep_on(engine->event_fd()));
    EXPECT_NE(engine->progress(), 0u);
    EXPECT_EQ(producer.send(id, bytes_of("m")), Errc::not_found);
}

TEST_P(FastPath, AConsumerWithoutBuffersSleepsAlthoughAMessageWaits) {
    const auto engine = make_engine(); // the consumer's alone
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*engine, host()), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, server, client,
                      *engine));
    std::vector<std::byte> buffer(10);
    settle(server, client, *engine);
    // Two producers are told of the same buffer, and count on it.
    std::array<ProducerProgram, 2> producers;
    for (ProducerProgram& p : producers) {
        ASSERT_EQ(p.open(*server.engine, dpu()), Errc::ok);
        ASSERT_EQ(p.send(consumer.consumer->id(), bytes_of("m")), Errc::again);
    }
    settle(server, client, *engine);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    settle(server, client, *engine);
    for (ProducerProgram& p : producers) {
        ASSERT_EQ(p.send(consumer.consumer->id(), bytes_of("m")), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1; }, server, client, *engine));
    settle(server, client, *engine);
    const auto arm = [&] {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (engine->arm() != Errc::ok && std::chrono::steady_clock::now() < deadline) {
            engine->progress();
        }
    };
    arm();
    pollfd entry{.fd = engine->event_fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, 20), 0) << "nothing can be done";
    EXPECT_EQ(consumer.landed.size(), 1u);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    EXPECT_EQ(engine->arm(), Errc::again);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, *engine));
    // And again, with a bell that rings for what cannot be taken.
    settle(server, client, *engine);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    settle(server, client, *engine);
    arm();
    for (ProducerProgram& p : producers) {
        ASSERT_TRUE(
            until([&] { return p.send(consumer.consumer->id(), bytes_of("m")) == Errc::ok; },
                  server, client));
    }
    EXPECT_TRUE(sleep_on(engine->event_fd()));
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 3; }, *engine));
    arm();
    EXPECT_EQ(::poll(&entry, 1, 20), 0) << "the bell is quiet";
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 4; }, *engine));
}

TEST_P(FastPath, WhatAnotherThreadAsksForIsNotSleptThrough) {
    const auto engine = make_engine(); // the consumer's alone
    settle(server, client);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (client.engine->arm() != Errc::ok && std::chrono::steady_clock::now() < deadline) {
        client.engine->progress();
    }
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*engine, host()), Errc::ok);
    EXPECT_TRUE(sleep_on(client.engine->event_fd())) << "asleep, it wakes up";
    EXPECT_EQ(client.engine->arm(), Errc::again) << "about to sleep, it does not";
    ASSERT_EQ(engine->arm(), Errc::ok);
    ASSERT_TRUE(until([&] { return !server.added.empty(); }, server, client));
    EXPECT_TRUE(sleep_on(engine->event_fd()));
    EXPECT_EQ(engine->arm(), Errc::again);
    EXPECT_NE(engine->progress(), 0u);
    EXPECT_EQ(consumer.consumer->state(), State::running);
    EXPECT_EQ(engine->arm(), Errc::ok);
}

TEST_P(FastPath, NoBufferMeansAgain) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    const auto data = pattern(100, 1);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    settle(server, client);
    EXPECT_EQ(producer.send(id, data), Errc::again);

    std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(100));
    ASSERT_EQ(consumer.post(buffers[0]), Errc::ok);
    ASSERT_EQ(consumer.post(buffers[1]), Errc::ok);
    settle(server, client);
    EXPECT_EQ(producer.send(id, data), Errc::ok) << "the first send of all, with buffers posted";
    EXPECT_EQ(producer.send(id, data), Errc::ok);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2; }, server, client));
    settle(server, client);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    ASSERT_EQ(consumer.post(buffers[2]), Errc::ok);
    EXPECT_EQ(send(producer, id, {.data = data}), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 3; }, server, client));
}

TEST_P(FastPath, ANewProducerDoesNotCountOnBuffersThatAnotherHasUsed) {
    ConsumerProgram consumer;
    ProducerProgram first;
    ProducerProgram second;
    ASSERT_TRUE(start(consumer));
    const std::uint32_t id = consumer.consumer->id();
    std::vector<std::vector<std::byte>> buffers(2, std::vector<std::byte>(100));
    ASSERT_EQ(consumer.post(buffers[0]), Errc::ok);
    settle(server, client);
    ASSERT_EQ(first.open(*server.engine, dpu()), Errc::ok);
    ASSERT_EQ(first.send(id, bytes_of("takes it")), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1; }, server, client));
    ASSERT_EQ(second.open(*server.engine, dpu()), Errc::ok);
    EXPECT_EQ(second.send(id, bytes_of("finds none")), Errc::again);
    settle(server, client);
    EXPECT_EQ(second.send(id, bytes_of("finds none")), Errc::again);
    ASSERT_EQ(consumer.post(buffers[1]), Errc::ok);
    EXPECT_EQ(send(second, id, {.data = bytes_of("finds one")}), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, server, client));
}

TEST_P(FastPath, SendsWithoutABufferAreCounted) {
    // As comch_stat sees it, and on the fake link as that counts.
    const auto stalls = [&]() -> std::uint64_t {
        if (lab.network) {
            return lab.network->buffer_stalls();
        }
        std::uint64_t sum = 0;
        const auto processes = counters::read_counter_files(*lab.domain);
        for (const auto& process : processes.value()) {
            for (const auto& connection : process.connections) {
                sum += connection.figures.buffer_stalls;
                EXPECT_TRUE(connection.figures.buffer_stalls == 0 ||
                            connection.kind == counters::SlotKind::channel);
            }
        }
        return sum;
    };
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu(), {.max_in_flight = 2}), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    const auto data = pattern(100, 1);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    EXPECT_EQ(stalls(), 2u);
    std::vector<std::vector<std::byte>> buffers(4, std::vector<std::byte>(100));
    ASSERT_EQ(consumer.post(buffers[0]), Errc::ok);
    settle(server, client);
    ASSERT_EQ(producer.send(id, data), Errc::ok);
    EXPECT_EQ(stalls(), 2u);
    EXPECT_EQ(producer.send(id, data), Errc::again);
    EXPECT_EQ(stalls(), 3u);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    for (auto& buffer : {&buffers[1], &buffers[2], &buffers[3]}) {
        ASSERT_EQ(consumer.post(*buffer), Errc::ok);
    }
    settle(server, client);
    ASSERT_EQ(producer.send(id, data), Errc::ok);
    ASSERT_EQ(producer.send(id, data), Errc::ok);
    EXPECT_EQ(producer.send(id, data), Errc::again) << "as many as it may have in flight";
    EXPECT_EQ(stalls(), 3u) << "that is no matter of buffers";
}

TEST_P(FastPath, AnUnknownConsumerIsNotFound) {
    ProducerProgram producer;
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    EXPECT_EQ(producer.send(0, bytes_of("x")), Errc::not_found);
    EXPECT_EQ(producer.send(1, bytes_of("x")), Errc::not_found);
    // One's own side's consumers cannot be addressed.
    ConsumerProgram own;
    ASSERT_EQ(own.open(*server.engine, dpu()), Errc::ok);
    ASSERT_TRUE(until([&] { return !client.added.empty(); }, server, client));
    std::vector<std::byte> buffer(10);
    ASSERT_EQ(own.post(buffer), Errc::ok);
    settle(server, client);
    EXPECT_EQ(producer.send(own.consumer->id(), bytes_of("x")), Errc::not_found);
}

TEST_P(FastPath, AMessageThatIsTooLongIsRefusedWithoutHarm) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    const std::vector<std::byte> untouched(64, std::byte{0xee});
    auto small = untouched;
    ASSERT_EQ(consumer.post(small), Errc::ok);
    settle(server, client);
    // What the connection knows of the consumer may be old, so that is asked first.
    EXPECT_EQ(producer.send(id, pattern(65, 1)), Errc::again);
    settle(server, client);
    // The next buffer is known: said at once, also for what is longer than the link's messages.
    EXPECT_EQ(producer.send(id, pattern(65, 1)), Errc::invalid_argument);
    EXPECT_EQ(producer.send(id, pattern(1'000'000, 1)), Errc::invalid_argument);
    EXPECT_EQ(small, untouched);
    EXPECT_TRUE(producer.sent.empty());
    const auto fits = pattern(64, 2);
    EXPECT_EQ(producer.send(id, fits), Errc::ok) << "the buffer is still posted";
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1 && producer.sent.size() == 1; },
                      server, client));
    EXPECT_EQ(small, fits);

    // Not known, because other messages are on their way to the buffers before it: the consumer
    // says it. The first takes the big buffer; then the small one is next for all that follow.
    for (const std::size_t size : {std::size_t{200}, std::size_t{400'000}}) {
        producer.sent.clear();
        consumer.landed.clear();
        auto big = std::vector<std::byte>(1'000'000);
        small = untouched;
        ASSERT_EQ(consumer.post(big), Errc::ok);
        ASSERT_EQ(consumer.post(small), Errc::ok);
        const auto first = pattern(1000, 3);
        const auto second = pattern(size, 4);
        const auto third = pattern(10, 5);
        int cookies[3] = {};
        ASSERT_EQ(send(producer, id, {.data = first}, &cookies[0]), Errc::ok);
        ASSERT_EQ(send(producer, id, {.data = second}, &cookies[1]), Errc::ok);
        // Whether there is credit for the third at once depends on what has been said by then.
        ASSERT_EQ(send(producer, id, {.data = third}, &cookies[2]), Errc::ok);
        ASSERT_TRUE(until([&] { return producer.sent.size() == 3; }, server, client));
        EXPECT_EQ(producer.sent[0], std::make_pair<void*>(&cookies[0], Errc::ok));
        EXPECT_EQ(producer.sent[1], std::make_pair<void*>(&cookies[1], Errc::invalid_argument));
        EXPECT_EQ(producer.sent[2], std::make_pair<void*>(&cookies[2], Errc::ok));
        ASSERT_EQ(consumer.landed.size(), 2u);
        EXPECT_EQ(consumer.landed[0].length, 1000u);
        EXPECT_EQ(consumer.landed[1].length, 10u);
        EXPECT_TRUE(std::equal(third.begin(), third.end(), small.begin()));
        EXPECT_TRUE(std::equal(untouched.begin() + 10, untouched.end(), small.begin() + 10));
    }
}

TEST_P(FastPath, AMessageIsNotMeasuredByABufferThatAnothersHasTaken) {
    ConsumerProgram consumer;
    ProducerProgram first;
    ProducerProgram second;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(first.open(*server.engine, dpu()), Errc::ok);
    ASSERT_EQ(second.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    const auto large = pattern(5000, 7);
    std::vector<std::byte> small(100);
    for (const bool knows_the_consumer : {false, true}) {
        consumer.landed.clear();
        std::vector<std::byte> big(10'000);
        ASSERT_EQ(consumer.post(small), Errc::ok);
        settle(server, client);
        if (knows_the_consumer) { // and has been told of the small one
            EXPECT_NE(second.send(id, pattern(100'000, 1)), Errc::not_found);
            settle(server, client);
        }
        ASSERT_EQ(first.send(id, bytes_of("hello")), Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() == 1; }, server, client));
        ASSERT_EQ(consumer.post(big), Errc::ok);
        Errc sent = Errc::again;
        ASSERT_TRUE(until(
            [&] {
                sent = sent == Errc::again ? second.send(id, large) : sent;
                return sent != Errc::again;
            },
            server, client));
        ASSERT_EQ(sent, Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, server, client));
        EXPECT_EQ(consumer.landed[1].length, large.size());
        EXPECT_TRUE(std::equal(large.begin(), large.end(), big.begin()));
    }
}

TEST_P(FastPath, BuffersAreCheckedAgainstTheirMemoryMaps) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer, {.max_posted = 2}));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    std::vector<std::byte> memory(1000);
    const auto writable = *MemoryMap::create(memory, local_read | peer_read | peer_write);
    const auto read_only = *MemoryMap::create(memory, local_read | peer_read);
    const auto post = [&](std::byte* at, std::size_t size, std::size_t used, const MemoryMap* map) {
        return consumer.consumer->post(
            {.address = at, .capacity = size, .length = used, .memory = map}, nullptr);
    };
    EXPECT_EQ(post(memory.data(), 1000, 0, read_only.get()), Errc::not_permitted);
    EXPECT_EQ(post(memory.data() + 1, 1000, 0, writable.get()), Errc::invalid_argument);
    EXPECT_EQ(post(memory.data(), 10, 11, nullptr), Errc::invalid_argument);
    EXPECT_EQ(post(nullptr, 10, 0, nullptr), Errc::invalid_argument);
    EXPECT_EQ(post(memory.data(), 500, 0, writable.get()), Errc::ok);
    EXPECT_EQ(post(memory.data() + 500, 500, 0, writable.get()), Errc::ok);
    EXPECT_EQ(post(memory.data(), 10, 0, writable.get()), Errc::again) << "as many as asked for";

    const auto unreadable = *MemoryMap::create(memory, peer_write);
    EXPECT_EQ(producer.producer->send(consumer.consumer->id(),
                                      {.data = memory, .memory = unreadable.get()}, nullptr),
              Errc::not_permitted);
    EXPECT_EQ(producer.producer->send(
                  consumer.consumer->id(),
                  {.data = {memory.data() + 1, 1000}, .memory = read_only.get()}, nullptr),
              Errc::invalid_argument);
    EXPECT_EQ(send(producer, consumer.consumer->id(),
                   {.data = {memory.data(), 100}, .memory = read_only.get()}),
              Errc::ok);
    EXPECT_EQ(send(producer, consumer.consumer->id(),
                   {.immediate = bytes_of("none"), .memory = read_only.get()}),
              Errc::ok)
        << "of no data, all is in the map";
    ConsumerProgram other;
    EXPECT_EQ(other.open(*client.engine, host(), {.max_posted = limits::consumer_tasks + 1}),
              Errc::invalid_argument);
}

TEST_P(FastPath, AProducerHasNoMoreInFlightThanAskedFor) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu(), {.max_in_flight = 2}), Errc::ok);
    std::vector<std::vector<std::byte>> buffers(10, std::vector<std::byte>(10));
    for (auto& buffer : buffers) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    settle(server, client);
    const std::uint32_t id = consumer.consumer->id();
    EXPECT_EQ(producer.send(id, bytes_of("1")), Errc::ok);
    EXPECT_EQ(producer.send(id, bytes_of("2")), Errc::ok);
    EXPECT_EQ(producer.send(id, bytes_of("3")), Errc::again);
    EXPECT_EQ(producer.producer->in_flight(), 2u);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2; }, server, client));
    EXPECT_EQ(producer.send(id, bytes_of("3")), Errc::ok);
}

TEST_P(FastPath, SeveralProducersShareAConsumerAndKeepTheirOrder) {
    ConsumerProgram consumer;
    ASSERT_TRUE(start(consumer));
    std::deque<ProducerProgram> producers(4);
    std::vector<std::vector<std::byte>> buffers(5, std::vector<std::byte>(50'000));
    for (auto& buffer : buffers) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    for (ProducerProgram& p : producers) {
        ASSERT_EQ(p.open(*server.engine, dpu()), Errc::ok);
    }
    constexpr std::uint32_t count = 200;
    // Message i of producer p; some are longer than the link's longest.
    const auto message = [](std::size_t p, std::uint32_t i) {
        return pattern(i % 7 == 6 ? 40'000 + i : i * 5, static_cast<std::uint32_t>(p) * count + i);
    };
    std::vector<std::uint32_t> next(producers.size());
    consumer.on_received = [&](const Received& r) {
        const std::size_t p = r.producer - producers[0].producer->id();
        ASSERT_LT(p, producers.size());
        auto& buffer = *static_cast<std::vector<std::byte>*>(r.cookie);
        const auto expected = message(p, next[p]++);
        ASSERT_EQ(r.length, expected.size());
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin()));
        EXPECT_EQ(consumer.post(buffer), Errc::ok);
    };
    std::deque<std::vector<std::byte>> data; // stays until it is sent
    std::vector<std::uint32_t> sending(producers.size());
    ASSERT_TRUE(until(
        [&] {
            for (std::size_t p = 0; p < producers.size(); ++p) {
                while (sending[p] < count) {
                    data.push_back(message(p, sending[p]));
                    if (producers[p].send(consumer.consumer->id(), data.back()) != Errc::ok) {
                        data.pop_back();
                        break;
                    }
                    ++sending[p];
                }
            }
            return std::all_of(producers.begin(), producers.end(),
                               [&](ProducerProgram& p) { return p.sent.size() == count; });
        },
        server, client));
    for (std::size_t p = 0; p < producers.size(); ++p) {
        EXPECT_EQ(next[p], count);
        for (const auto& [cookie, status] : producers[p].sent) {
            EXPECT_EQ(status, Errc::ok);
        }
    }
}

TEST_P(FastPath, OneProducerServesSeveralConsumersInBothDirections) {
    std::deque<ConsumerProgram> on_host(3);
    std::deque<ConsumerProgram> on_dpu(3);
    ProducerProgram from_dpu;
    ProducerProgram from_host;
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(on_host[i].open(*client.engine, host()), Errc::ok);
        ASSERT_EQ(on_dpu[i].open(*server.engine, dpu()), Errc::ok);
    }
    ASSERT_EQ(from_dpu.open(*server.engine, dpu()), Errc::ok);
    ASSERT_EQ(from_host.open(*client.engine, host()), Errc::ok);
    ASSERT_TRUE(until([&] { return server.added.size() == 3 && client.added.size() == 3; }, server,
                      client));
    std::deque<std::vector<std::byte>> buffers;
    for (auto* side : {&on_host, &on_dpu}) {
        for (ConsumerProgram& c : *side) {
            buffers.emplace_back(100);
            ASSERT_EQ(c.post(buffers.back()), Errc::ok);
        }
    }
    const auto data = pattern(100, 3);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(send(from_dpu, on_host[i].consumer->id(), {.data = data}), Errc::ok);
        EXPECT_EQ(send(from_host, on_dpu[i].consumer->id(), {.data = data}), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return from_dpu.sent.size() == 3 && from_host.sent.size() == 3; },
                      server, client));
    for (const auto& buffer : buffers) {
        EXPECT_EQ(buffer, data);
    }
}

TEST_P(FastPath, TeardownHasAnOrder) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    EXPECT_EQ(client.client->stop().error().code, Errc::in_use);
    EXPECT_EQ(server.server->stop().error().code, Errc::in_use);
    EXPECT_EQ(server.server->disconnect(dpu()).error().code, Errc::in_use);
    EXPECT_EQ(client.client->state(), State::running);
    EXPECT_EQ(server.server->state(), State::running);
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(producer.producer->stop().has_value());
    EXPECT_EQ(producer.producer->stop().error().code, Errc::bad_state);
    EXPECT_EQ(consumer.consumer->state(), State::stopping);
    EXPECT_EQ(server.server->stop().error().code, Errc::in_use) << "stopping is not idle";
    ASSERT_TRUE(until(
        [&] {
            return consumer.consumer->state() == State::idle &&
                   producer.producer->state() == State::idle;
        },
        server, client));
    EXPECT_TRUE(server.server->disconnect(dpu()).has_value());
    EXPECT_TRUE(client.client->stop().has_value());
    EXPECT_EQ(consumer.consumer->post({}, nullptr), Errc::bad_state);
    EXPECT_EQ(producer.send(1, bytes_of("x")), Errc::bad_state);
    ProducerProgram late;
    EXPECT_EQ(late.open(*client.engine, host()), Errc::not_connected);
}

TEST_P(FastPath, AConsumerThatGoesRightBeforeItsConnectionIsReportedGone) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*engine, host()), Errc::ok);
    ASSERT_TRUE(until([&] { return server.added.size() == 1; }, server, client, *engine));
    const std::uint32_t id = consumer.consumer->id();
    std::size_t known_at_end = 0;
    server.on_disconnected = [&](Connection&) { known_at_end = server.removed.size(); };
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    // The connection's engine does not run between the two.
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, *engine));
    ASSERT_TRUE(client.client->stop().has_value());
    ASSERT_TRUE(until([&] { return !server.disconnected.empty(); }, server, client));
    EXPECT_EQ(known_at_end, 1u);
    ASSERT_EQ(server.removed.size(), 1u);
    EXPECT_EQ(server.removed[0].second, id);
}

TEST_P(FastPath, WhoSendsToAConsumerThatHasJustGoneIsToldSo) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, client));
    step(client); // says so; the DPU has not heard it
    ASSERT_EQ(producer.send(id, bytes_of("late")), Errc::again);
    while (engine->progress() != 0) {
    }
    ASSERT_TRUE(until([&] { return server.removed.size() == 1; }, server));
    EXPECT_NE(engine->progress(), 0u) << "it would sleep, and nobody would wake it again";
    EXPECT_EQ(producer.send(id, bytes_of("late")), Errc::not_found);
}

TEST_P(FastPath, AConsumerThatIsGoneIsNotFoundWhileTheConnectionRests) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, client));
    // In a loop, without progress of the producer's.
    Errc result = Errc::again;
    ASSERT_TRUE(until(
        [&] {
            result = producer.send(id, bytes_of("late"));
            return result != Errc::again;
        },
        client));
    EXPECT_EQ(result, Errc::not_found);
    ASSERT_TRUE(server.removed.empty()) << "its connection must rest";
    EXPECT_NE(engine->progress(), 0u);
    // And no new way is opened.
    EXPECT_EQ(producer.send(id, bytes_of("late")), Errc::not_found);
    EXPECT_EQ(engine->progress(), 0u);
}

TEST_P(FastPath, ProducersMayComeTryAndGoWhileTheConsumersEngineRests) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*engine, host()), Errc::ok);
    ASSERT_TRUE(until(
        [&] { return consumer.consumer->state() == State::running && server.added.size() == 1; },
        server, client, *engine));
    const std::uint32_t id = consumer.consumer->id();
    for (std::uint32_t i = 0; i < limits::producers_per_connection + 8; ++i) {
        ProducerProgram producer;
        ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
        ASSERT_EQ(producer.send(id, bytes_of("try")), Errc::again);
        producer.producer.reset();
        step(server);
        step(client);
    }
    EXPECT_TRUE(server.disconnected.empty());
    std::vector<std::byte> buffer(100);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    ProducerProgram producer;
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    Errc result = Errc::again;
    ASSERT_TRUE(until(
        [&] {
            result = result == Errc::again ? producer.send(id, bytes_of("stay")) : result;
            return consumer.landed.size() == 1;
        },
        server, client, *engine));
    EXPECT_EQ(result, Errc::ok);
}

TEST_P(FastPath, StoppingAConsumerGivesItsBuffersBack) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(100));
    for (auto& buffer : buffers) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    ASSERT_EQ(send(producer, id, {.data = bytes_of("first")}), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1 && producer.sent.size() == 1; },
                      server, client));
    // One is on its way and will not be taken.
    ASSERT_EQ(producer.send(id, bytes_of("second")), Errc::ok);
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    EXPECT_TRUE(consumer.landed.size() == 1) << "handlers are called from progress only";
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2 && !server.removed.empty(); }, server,
                      client));
    EXPECT_EQ(producer.sent[1].second, Errc::canceled);
    ASSERT_EQ(consumer.landed.size(), 3u);
    for (std::size_t i = 1; i < 3; ++i) {
        EXPECT_EQ(consumer.landed[i].status, Errc::canceled);
        EXPECT_EQ(consumer.landed[i].cookie, &buffers[i]);
    }
    EXPECT_EQ(consumer.states, (std::vector<State>{State::running, State::idle}));
    EXPECT_EQ(producer.send(id, bytes_of("third")), Errc::not_found);
    EXPECT_EQ(producer.producer->state(), State::running);
}

TEST_P(FastPath, StoppingAProducerCancelsWhatIsUnderWay) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    // Far more than the link takes at once, so that it is in the middle of it.
    std::vector<std::byte> data(20'000'000);
    std::vector<std::byte> big(20'000'000);
    std::vector<std::byte> small(10);
    ASSERT_EQ(consumer.post(big), Errc::ok);
    ASSERT_EQ(consumer.post(small), Errc::ok);
    settle(server, client);
    ASSERT_EQ(producer.send(id, data), Errc::ok);
    ASSERT_EQ(producer.send(id, bytes_of("behind")), Errc::ok);
    for (unsigned i = 0; i < 3; ++i) {
        step(server);
        step(client);
    }
    ASSERT_TRUE(producer.sent.empty());
    ASSERT_TRUE(producer.producer->stop().has_value());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server));
    EXPECT_EQ(producer.sent, (std::vector<std::pair<void*, Errc>>{{nullptr, Errc::canceled},
                                                                  {nullptr, Errc::canceled}}));
    // Both buffers are free for somebody else: at once, or when the consumer has seen the end.
    ProducerProgram other;
    ASSERT_EQ(other.open(*server.engine, dpu()), Errc::ok);
    ASSERT_EQ(send(other, id, {.data = bytes_of("one")}), Errc::ok);
    ASSERT_EQ(send(other, id, {.data = bytes_of("two")}), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, server, client));
    const std::set<void*> used{consumer.landed[0].cookie, consumer.landed[1].cookie};
    EXPECT_EQ(used, (std::set<void*>{&big, &small}));
    EXPECT_EQ(consumer.landed[0].length, 3u);
}

TEST_P(FastPath, HandlersMayStopTheirOwn) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    std::vector<std::vector<std::byte>> buffers(8, std::vector<std::byte>(100));
    for (auto& buffer : buffers) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    consumer.on_received = [&](const Received&) {
        if (consumer.landed.size() == 2) {
            EXPECT_TRUE(consumer.consumer->stop().has_value());
        }
    };
    producer.on_sent = [&](void*, Errc) {
        if (producer.sent.size() == 2) {
            EXPECT_TRUE(producer.producer->stop().has_value());
        }
    };
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(send(producer, id, {.data = bytes_of("m")}), Errc::ok);
        if (producer.producer->state() != State::running) {
            break;
        }
    }
    ASSERT_TRUE(until(
        [&] {
            return consumer.consumer->state() == State::idle &&
                   producer.producer->state() == State::idle;
        },
        server, client));
    ASSERT_EQ(consumer.landed.size(), 8u);
    EXPECT_EQ(consumer.landed[1].status, Errc::ok);
    EXPECT_EQ(consumer.landed[2].status, Errc::canceled);
    EXPECT_EQ(producer.sent[0].second, Errc::ok);
    EXPECT_EQ(producer.sent[1].second, Errc::ok);
}

TEST_P(FastPath, WhatWasReceivedBeforeAStopIsCompleteForTheProducerToo) {
    // Among them those that take as many records as a consumer reads at a time.
    for (const std::size_t size : {std::size_t{1}, std::size_t{66000}, std::size_t{491520},
                                   std::size_t{15 * 32728}, std::size_t{1000000}}) {
        for (const std::size_t count : {1, 4, 8}) {
            ConsumerProgram consumer;
            ProducerProgram producer;
            ASSERT_TRUE(start(consumer));
            ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
            std::vector<std::vector<std::byte>> buffers(count, std::vector<std::byte>(size));
            for (auto& buffer : buffers) {
                ASSERT_EQ(consumer.post(buffer), Errc::ok);
            }
            consumer.on_received = [&](const Received&) {
                if (consumer.landed.size() == count) {
                    EXPECT_TRUE(consumer.consumer->stop().has_value());
                }
            };
            const auto data = pattern(size, 9);
            for (std::size_t i = 0; i < count; ++i) {
                ASSERT_EQ(send(producer, consumer.consumer->id(), {.data = data}), Errc::ok);
            }
            ASSERT_TRUE(until([&] { return producer.sent.size() == count; }, server, client));
            for (const auto& [cookie, status] : producer.sent) {
                EXPECT_EQ(status, Errc::ok) << count << " of " << size;
            }
        }
    }
}

TEST_P(FastPath, AProducerThatDoesNotProgressHearsOfAllThatWasReceivedBeforeAStop) {
    constexpr std::size_t count = 1000;
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer, {.max_posted = count}));
    ASSERT_EQ(producer.open(*engine, dpu(), {.max_in_flight = count}), Errc::ok);
    std::vector<std::byte> buffer(8);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    for (std::size_t i = 0; i < count; ++i) {
        // One by one: each is worth a word to the producer.
        ASSERT_EQ(send(producer, consumer.consumer->id(), {.data = bytes_of("12345678")}),
                  Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() == i + 1; }, server, client));
    }
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(until([&] { return producer.sent.size() == count; }, server, client, *engine));
    for (const auto& [cookie, status] : producer.sent) {
        ASSERT_EQ(status, Errc::ok);
    }
}

TEST_P(FastPath, APromptConsumerTellsInTheCallThatTakesTheMessageOut) {
    constexpr std::size_t count = 200;
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer, {.max_posted = count, .prompt = true}));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    std::vector<std::byte> buffer(8);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(send(producer, consumer.consumer->id(), {.data = bytes_of("12345678")}),
                  Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() == i + 1; }, server, client));
        // Its program calls no more progress now.
        ASSERT_TRUE(until([&] { return producer.sent.size() == i + 1; }, *engine)) << i;
    }
}

TEST_P(FastPath, AProducerThatDidNotProgressHearsOfAllThatWasHandledWhenItStops) {
    constexpr std::size_t count = 48; // one word for each has room on its way
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer, {.max_posted = count, .prompt = true}));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    std::vector<std::byte> buffer(8);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(until(
            [&] {
                return producer.send(consumer.consumer->id(), bytes_of("12345678")) == Errc::ok;
            },
            server, client));
        ASSERT_TRUE(until([&] { return consumer.landed.size() == i + 1; }, client));
    }
    ASSERT_TRUE(producer.producer->stop().has_value());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, *engine));
    ASSERT_EQ(producer.sent.size(), count);
    for (const auto& [cookie, status] : producer.sent) {
        ASSERT_EQ(status, Errc::ok);
    }
}

TEST_P(FastPath, ADisconnectFlushesWhatIsOpen) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_EQ(consumer.open(*client.engine, host()), Errc::ok);
    ASSERT_EQ(producer.open(*client.engine, host()), Errc::ok);
    ConsumerProgram there;
    ASSERT_EQ(there.open(*server.engine, dpu()), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !client.added.empty() && !server.added.empty(); }, server, client));
    std::vector<std::byte> posted(100);
    std::vector<std::byte> posted_there(100);
    ASSERT_EQ(consumer.post(posted), Errc::ok);
    ASSERT_EQ(there.post(posted_there), Errc::ok);
    ASSERT_EQ(send(producer, there.consumer->id(), {.data = bytes_of("first")}), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    ASSERT_EQ(there.post(posted_there), Errc::ok);
    settle(server, client);
    // On its way, and never taken: the other consumer goes, and its server with it.
    ASSERT_EQ(producer.send(there.consumer->id(), bytes_of("m")), Errc::ok);
    there.consumer.reset();
    ASSERT_TRUE(server.server->stop().has_value());
    ASSERT_TRUE(until([&] { return server.server->state() == State::idle; }, server));
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client));
    EXPECT_EQ(client.states, (std::vector<State>{State::running, State::stopping, State::idle}));
    EXPECT_EQ(client.client->outcome(), Errc::not_connected);
    EXPECT_TRUE(host().remote_consumers().empty());
    ASSERT_EQ(producer.sent.size(), 2u);
    EXPECT_EQ(producer.sent[0].second, Errc::ok);
    EXPECT_TRUE(producer.sent[1].second == Errc::not_connected ||
                producer.sent[1].second == Errc::canceled);
    ASSERT_EQ(consumer.landed.size(), 1u);
    EXPECT_EQ(consumer.landed[0].status, Errc::not_connected);
    EXPECT_EQ(consumer.states, (std::vector<State>{State::running, State::stopping, State::idle}));
    EXPECT_EQ(producer.states, (std::vector<State>{State::stopping, State::idle}));
    EXPECT_EQ(consumer.post(posted), Errc::bad_state);
    EXPECT_EQ(producer.send(there.consumer ? 0 : 2, bytes_of("m")), Errc::bad_state);
}

TEST_P(FastPath, AFirstSendAfterAnOrderlyEndThatNobodyHasNoticedSaysSo) {
    const auto engine = make_engine();
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*engine, dpu()), Errc::ok);
    const std::uint32_t id = consumer.consumer->id();
    client.client.reset();
    // A link that asks the peer for the channel answers later, whatever the connection's engine does.
    Errc result = producer.send(id, bytes_of("late"));
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (result == Errc::again && std::chrono::steady_clock::now() < deadline) {
        (void)engine->progress();
        result = producer.send(id, bytes_of("late"));
    }
    EXPECT_EQ(result, Errc::not_connected);
}

/// On the link that takes no descriptors: there are many.
TEST(ManyProducers, ThatAreGoneGiveWayThoughTheirMessagesFoundNoBuffer) {
    Lab lab{true};
    ServerProgram server;
    ClientProgram client;
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && client.client->state() == State::running; },
              server, client));
    Connection& dpu = *server.connected.at(0);
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*client.engine, client.connection()), Errc::ok);
    ASSERT_TRUE(until([&] { return !server.added.empty(); }, server, client));
    const std::uint32_t id = consumer.consumer->id();
    std::vector<ProducerProgram> producers(limits::producers_per_connection);
    for (ProducerProgram& producer : producers) {
        ASSERT_EQ(producer.open(*server.engine, dpu), Errc::ok);
        ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::again);
    }
    settle(server, client);
    std::vector<std::byte> buffer(100);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    settle(server, client); // each is told of the one buffer
    for (ProducerProgram& producer : producers) {
        ASSERT_EQ(producer.send(id, bytes_of("m")), Errc::ok);
        producer.producer.reset();
    }
    std::array<ProducerProgram, 8> others; // which stay
    for (ProducerProgram& another : others) {
        ASSERT_EQ(another.open(*server.engine, dpu), Errc::ok);
        EXPECT_EQ(another.send(id, bytes_of("m")), Errc::again);
        settle(server, client);
    }
    EXPECT_TRUE(server.disconnected.empty());
    EXPECT_EQ(client.client->state(), State::running);
}

TEST_P(FastPath, OwnersMayGoFirst) {
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    std::vector<std::byte> buffer(100);
    ASSERT_EQ(consumer.post(buffer), Errc::ok);
    ASSERT_EQ(send(producer, consumer.consumer->id(), {.data = bytes_of("m")}), Errc::ok);
    client.client.reset();
    server.server.reset();
    ASSERT_TRUE(until(
        [&] {
            return consumer.consumer->state() == State::idle &&
                   producer.producer->state() == State::idle;
        },
        *client.engine, *server.engine));
    EXPECT_EQ(consumer.landed.size(), 1u);
    EXPECT_EQ(producer.sent.size(), 1u);
}

TEST_P(FastPath, AGigabyteArrives) {
    constexpr std::size_t gigabyte = std::size_t{1} << 30;
    constexpr std::size_t window = std::size_t{16} << 20;
    // One small piece of memory, mapped again and again: a gigabyte of addresses, not of memory.
    // What lands last in it is the message's last piece.
    const auto wheel = [&] {
        const int fd = ::memfd_create("comch-test", MFD_CLOEXEC);
        EXPECT_EQ(::ftruncate(fd, window), 0);
        auto* const base = static_cast<std::byte*>(::mmap(
            nullptr, gigabyte, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        for (std::size_t at = 0; at < gigabyte; at += window) {
            EXPECT_NE(
                ::mmap(base + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                MAP_FAILED);
        }
        ::close(fd);
        return std::span(base, gigabyte);
    };
    const auto from = wheel();
    const auto to = wheel();
    const auto content = pattern(window, 5);
    std::copy(content.begin(), content.end(), from.begin());
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_TRUE(start(consumer));
    ASSERT_EQ(producer.open(*server.engine, dpu()), Errc::ok);
    const auto from_map = *MemoryMap::create(from, local_read);
    const auto to_map = *MemoryMap::create(to, peer_write);
    ASSERT_EQ(consumer.consumer->post(
                  {.address = to.data(), .capacity = to.size(), .memory = to_map.get()}, nullptr),
              Errc::ok);
    ASSERT_EQ(send(producer, consumer.consumer->id(), {.data = from, .memory = from_map.get()}),
              Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    EXPECT_EQ(producer.sent[0].second, Errc::ok);
    ASSERT_EQ(consumer.landed.size(), 1u);
    EXPECT_EQ(consumer.landed[0].length, gigabyte);
    EXPECT_TRUE(std::equal(content.begin(), content.end(), to.begin()));
    EXPECT_EQ(producer.producer->send(consumer.consumer->id(),
                                      {.data = {from.data(), limits::fast_path_buffer_size + 1}},
                                      nullptr),
              Errc::too_big);
    ::munmap(from.data(), gigabyte);
    ::munmap(to.data(), gigabyte);
}

// ---- threads ------------------------------------------------------------------------------------

/// A producer and a consumer, each on a thread and engine of its own, while the connection's
/// engines are progressed by yet others. `sleeps`: they sleep whenever they may.
class Threads : public ::testing::TestWithParam<std::tuple<bool, bool>> {
protected:
    Lab lab{std::get<0>(GetParam())};
    const bool sleeps = std::get<1>(GetParam());
    ServerProgram server;
    ClientProgram client;
    std::atomic<bool> stopping{false};

    template <class Done> [[nodiscard]] bool run(ProgressEngine& engine, const Done& done) const {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!done()) {
            if (engine.progress() != 0) {
                continue;
            }
            if (!sleeps) {
                std::this_thread::yield();
            } else if (engine.arm() == Errc::ok && !done() && !sleep_on(engine.event_fd())) {
                return false;
            }
            if (std::chrono::steady_clock::now() > deadline) {
                return false;
            }
        }
        return true;
    }
};

INSTANTIATE_TEST_SUITE_P(, Threads, ::testing::Combine(::testing::Bool(), ::testing::Bool()),
                         [](const auto& parameter) {
                             return std::string(std::get<0>(parameter.param) ? "Fake" : "Soft") +
                                    (std::get<1>(parameter.param) ? "Sleeping" : "Polling");
                         });

TEST_P(Threads, ProducersAndConsumersRunOnThreadsOfTheirOwn) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && client.client->state() == State::running; },
              server, client));
    Connection& host = client.connection();
    Connection& dpu = *server.connected[0];
    constexpr std::uint32_t pairs = 3;
    constexpr std::uint32_t count = 1000;
    const auto message = [](std::uint32_t pair, std::uint32_t i) {
        return pattern(i % 100 == 99 ? 50'000 : i, pair * count + i);
    };
    std::array<std::atomic<std::uint32_t>, pairs> ids{};
    std::atomic<unsigned> failures{0};

    std::vector<std::thread> threads;
    threads.emplace_back(
        [&] { failures += run(*server.engine, [&] { return stopping.load(); }) ? 0 : 1; });
    threads.emplace_back(
        [&] { failures += run(*client.engine, [&] { return stopping.load(); }) ? 0 : 1; });
    std::vector<std::thread> workers;
    for (std::uint32_t pair = 0; pair < pairs; ++pair) {
        workers.emplace_back([&, pair] { // the consumer, on the host
            const auto engine = make_engine();
            ConsumerProgram program;
            std::deque<std::vector<std::byte>> buffers(4, std::vector<std::byte>(50'000));
            ASSERT_EQ(program.open(*engine, host), Errc::ok);
            ASSERT_TRUE(run(*engine, [&] { return program.consumer->state() == State::running; }));
            for (auto& buffer : buffers) {
                ASSERT_EQ(program.post(buffer), Errc::ok);
            }
            std::uint32_t next = 0;
            program.on_received = [&](const Received& r) {
                if (r.status != Errc::ok) {
                    return;
                }
                auto& buffer = *static_cast<std::vector<std::byte>*>(r.cookie);
                const auto expected = message(pair, next++);
                EXPECT_EQ(r.length, expected.size());
                EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin()));
                EXPECT_EQ(program.post(buffer), Errc::ok);
            };
            ids[pair].store(program.consumer->id());
            failures += run(*engine, [&] { return next == count; }) ? 0 : 1;
            // The last acknowledgements go out, then it stops.
            engine->progress();
            EXPECT_TRUE(program.consumer->stop().has_value());
            failures +=
                run(*engine, [&] { return program.consumer->state() == State::idle; }) ? 0 : 1;
        });
        workers.emplace_back([&, pair] { // the producer, on the DPU
            const auto engine = make_engine();
            ProducerProgram program;
            ASSERT_EQ(program.open(*engine, dpu), Errc::ok);
            while (ids[pair].load() == 0) {
                std::this_thread::yield();
            }
            const std::uint32_t id = ids[pair].load();
            std::deque<std::vector<std::byte>> data;
            std::uint32_t sent = 0;
            const auto deadline = std::chrono::steady_clock::now() + patience;
            while (sent < count && std::chrono::steady_clock::now() < deadline) {
                data.push_back(message(pair, sent));
                const Errc result = program.send(id, data.back());
                if (result == Errc::ok) {
                    ++sent;
                    continue;
                }
                data.pop_back();
                // It may not have been announced here yet.
                if (result == Errc::not_found || !sleeps) {
                    engine->progress();
                    std::this_thread::yield();
                } else {
                    ASSERT_EQ(result, Errc::again);
                    if (engine->progress() == 0 && engine->arm() == Errc::ok) {
                        ASSERT_TRUE(sleep_on(engine->event_fd()));
                    }
                }
            }
            failures += run(*engine, [&] { return program.sent.size() == count; }) ? 0 : 1;
            for (const auto& [cookie, status] : program.sent) {
                EXPECT_EQ(status, Errc::ok);
            }
            EXPECT_TRUE(program.producer->stop().has_value());
            failures +=
                run(*engine, [&] { return program.producer->state() == State::idle; }) ? 0 : 1;
        });
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    stopping.store(true);
    server.engine->wake();
    client.engine->wake();
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(failures.load(), 0u);
}

TEST_P(Threads, ADisconnectReachesThemAll) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && client.client->state() == State::running; },
              server, client));
    Connection& host = client.connection();
    std::atomic<unsigned> open{0};
    std::atomic<unsigned> failures{0};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < 4; ++i) {
        workers.emplace_back([&, i] {
            const auto engine = make_engine();
            ConsumerProgram consumer;
            ProducerProgram producer;
            std::vector<std::byte> buffer(10);
            if (i % 2 == 0) {
                ASSERT_EQ(consumer.open(*engine, host), Errc::ok);
                ASSERT_TRUE(
                    run(*engine, [&] { return consumer.consumer->state() == State::running; }));
                ASSERT_EQ(consumer.post(buffer), Errc::ok);
            } else {
                ASSERT_EQ(producer.open(*engine, host), Errc::ok);
            }
            ++open;
            client.engine->wake();
            failures += run(*engine,
                            [&] {
                                return consumer.consumer
                                           ? consumer.consumer->state() == State::idle
                                           : producer.producer->state() == State::idle;
                            })
                            ? 0
                            : 1;
            EXPECT_EQ(consumer.landed.size(), i % 2 == 0 ? 1u : 0u);
        });
    }
    ASSERT_TRUE(run(*client.engine, [&] { return open.load() == 4; }));
    ASSERT_TRUE(server.server->stop().has_value());
    ASSERT_TRUE(until([&] { return server.server->state() == State::idle; }, server));
    ASSERT_TRUE(run(*client.engine, [&] { return client.client->state() == State::idle; }));
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(failures.load(), 0u);
    EXPECT_EQ(client.client->outcome(), Errc::not_connected);
}

} // namespace
} // namespace comch::channel::test
