// Long messages between memory maps: written by the link into the consumer's memory where it can,
// and all the same to the programs where it cannot.
#include <array>
#include <functional>

#include <fmt/format.h>

#include "core/channel/link_kind.hpp"
#include "core/channel/test_support.hpp"
#include "core/channel/wire.hpp"
#include "core/counters/counter_files.hpp"

namespace comch::channel::test {
namespace {

/// Memory with a map.
struct Mapped {
    std::vector<std::byte> bytes;
    std::unique_ptr<MemoryMap> map;

    explicit Mapped(std::vector<std::byte> content, bool mapped = true)
        : bytes(std::move(content)),
          map(mapped ? *MemoryMap::create(bytes, local_read | peer_write) : nullptr) {}
};

/// A consumer on the host, a producer on the DPU.
class DirectWrite : public ::testing::TestWithParam<bool> {
protected:
    explicit DirectWrite(const link::fake::Settings& settings = {}) : lab(GetParam(), settings) {}

    Lab lab;
    ServerProgram server;
    ClientProgram client;
    ConsumerProgram consumer;
    ProducerProgram producer;
    std::deque<Mapped> buffers;
    std::deque<Mapped> data;
    bool more = false; ///< follows what is sent

    void SetUp() override {
        ASSERT_EQ(server.open(lab, "name"), Errc::ok);
        ASSERT_EQ(client.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return !server.connected.empty() && client.client->state() == State::running; },
            server, client));
        ASSERT_EQ(consumer.open(*client.engine, client.connection()), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return consumer.consumer->state() == State::running && !server.added.empty(); },
            server, client));
        ASSERT_EQ(producer.open(*server.engine, *server.connected.at(0)), Errc::ok);
    }
    [[nodiscard]] bool writes_directly() const { return link_kind_of(*lab.dpu) != LinkKind::soft; }
    void post(std::size_t size, bool mapped = true) {
        Mapped& buffer = buffers.emplace_back(std::vector<std::byte>(size), mapped);
        ASSERT_EQ(
            consumer.consumer->post(
                {.address = buffer.bytes.data(), .capacity = size, .memory = buffer.map.get()},
                &buffer),
            Errc::ok);
    }
    [[nodiscard]] Errc send(ProducerProgram& from, std::size_t size, bool mapped = true,
                            std::string_view immediate = {}) {
        Errc result = Errc::again;
        EXPECT_TRUE(until(
            [&] {
                result = try_to_send(from, size, mapped, immediate);
                return result != Errc::again;
            },
            server, client));
        return result;
    }
    [[nodiscard]] Errc try_to_send(ProducerProgram& from, std::size_t size, bool mapped = true,
                                   std::string_view immediate = {}) {
        const Mapped& message =
            data.emplace_back(pattern(size, static_cast<std::uint32_t>(data.size())), mapped);
        const Errc result = from.producer->send(consumer.consumer->id(),
                                                {.data = message.bytes,
                                                 .immediate = bytes_of(immediate),
                                                 .memory = message.map.get(),
                                                 .more = more},
                                                nullptr);
        if (result != Errc::ok) {
            data.pop_back();
        }
        return result;
    }
    /// The i-th message is in the buffer that came back as the i-th, and nothing is behind it.
    void expect_landed(std::size_t i) {
        const auto& landed = consumer.landed.at(i);
        const auto& buffer = *static_cast<const Mapped*>(landed.cookie);
        ASSERT_EQ(landed.status, Errc::ok);
        ASSERT_EQ(landed.length, data.at(i).bytes.size());
        EXPECT_TRUE(
            std::equal(data.at(i).bytes.begin(), data.at(i).bytes.end(), buffer.bytes.begin()));
        EXPECT_TRUE(std::all_of(buffer.bytes.begin() + static_cast<std::ptrdiff_t>(landed.length),
                                buffer.bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
    }
};

INSTANTIATE_TEST_SUITE_P(, DirectWrite, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

TEST_P(DirectWrite, AllMixturesArriveInOrder) {
    constexpr std::array<std::size_t, 7> sizes = {100'000, 20, 40'000, 4'000, 33'000, 0, 1'000'003};
    unsigned count = 0;
    for (unsigned round = 0; round < 8; ++round) {
        for (const std::size_t size : sizes) {
            post(1'000'100, count % 3 != 2);
            ASSERT_EQ(
                send(producer, size, size != 0 && count % 5 != 4, std::string(count % 4, 'i')),
                Errc::ok);
            ++count;
        }
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == count; }, server, client));
    ASSERT_EQ(consumer.landed.size(), count);
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(producer.sent[i].second, Errc::ok);
        EXPECT_EQ(consumer.landed[i].immediate, std::string(i % 4, 'i'));
        expect_landed(i);
    }
}

TEST_P(DirectWrite, NoCpuCopiesALongMessage) {
    constexpr std::size_t size = 3'000'000;
    std::size_t in_records = 0; // on the fake link
    if (lab.network) {
        lab.network->on_transit(
            [&](link::fake::Transit& transit) { in_records += transit.bytes.size(); });
    }
    post(size);
    ASSERT_EQ(send(producer, size), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    expect_landed(0);
    if (lab.network) {
        EXPECT_LT(in_records, 500u);
        return;
    }
    std::uint64_t direct = 0;
    std::uint64_t copied = 0;
    const auto processes = counters::read_counter_files(*lab.domain);
    for (const auto& process : processes.value()) {
        for (const auto& connection : process.connections) {
            if (connection.kind == counters::SlotKind::channel) {
                direct += connection.figures.tx_mapped_bytes;
                copied += connection.figures.tx_bytes;
            }
        }
    }
    EXPECT_EQ(direct, writes_directly() ? size : 0u);
    EXPECT_EQ(copied < 500, writes_directly()) << copied;
}

TEST_P(DirectWrite, AMessageThatIsTooLongIsRefusedWithoutHarm) {
    for (const std::size_t room : {1'000'000u, 50'000u, 1'000'000u}) {
        post(room);
    }
    for (const std::size_t size : {100'000u, 100'000u, 50'000u, 100'000u}) {
        ASSERT_EQ(send(producer, size), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == 4; }, server, client));
    const std::array expected = {Errc::ok, Errc::invalid_argument, Errc::ok, Errc::ok};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(producer.sent[i].second, expected[i]) << i;
    }
    data.erase(data.begin() + 1);
    for (std::size_t i = 0; i < data.size(); ++i) {
        expect_landed(i);
    }
}

/// Two producers that send as fast as they can, and few buffers: offers wait for buffers that are
/// being filled through the same channel, by the device or in parts.
class FewBuffers : public DirectWrite {
protected:
    static constexpr std::size_t longest = 1'200'000; ///< more parts than a poll takes
    ConsumerProgram few;
    std::vector<Mapped*> held; ///< by the program

    /// Buffers of its own; the program posts them again when it holds so many.
    void open(std::span<const bool> mapped, std::size_t at_once) {
        const auto count = static_cast<std::uint32_t>(mapped.size());
        ASSERT_EQ(few.open(*client.engine, client.connection(), {.max_posted = count}), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return few.consumer->state() == State::running && server.added.size() == 2; },
            server, client));
        few.on_received = [this, at_once](const Received& r) {
            held.push_back(static_cast<Mapped*>(r.cookie));
            if (r.status == Errc::ok && held.size() >= at_once) {
                post_held();
            }
        };
        for (const bool is_mapped : mapped) {
            held.push_back(&buffers.emplace_back(std::vector<std::byte>(longest), is_mapped));
        }
        post_held();
    }
    void post_held() {
        for (Mapped* buffer : std::exchange(held, {})) {
            ASSERT_EQ(few.consumer->post({.address = buffer->bytes.data(),
                                          .capacity = buffer->bytes.size(),
                                          .memory = buffer->map.get()},
                                         buffer),
                      Errc::ok);
        }
    }
    void send_all(std::size_t one_size, std::size_t other_size) {
        constexpr unsigned each = 40;
        std::array<ProducerProgram, 2> producers;
        std::array<Mapped, 2> messages{Mapped(pattern(one_size, 1)),
                                       Mapped(pattern(other_size, 2))};
        std::array<unsigned, 2> sent{};
        for (ProducerProgram& one : producers) {
            ASSERT_EQ(one.open(*server.engine, *server.connected.at(0)), Errc::ok);
        }
        const auto send_some = [&](std::size_t i) {
            return sent[i] < each && producers[i].producer->send(few.consumer->id(),
                                                                 {.data = messages[i].bytes,
                                                                  .memory = messages[i].map.get()},
                                                                 nullptr) == Errc::ok;
        };
        ASSERT_TRUE(until(
            [&] {
                for (std::size_t i = 0; i < producers.size(); ++i) {
                    while (send_some(i)) {
                        ++sent[i];
                    }
                }
                return producers[0].sent.size() == each && producers[1].sent.size() == each;
            },
            server, client));
        for (const ProducerProgram& one : producers) {
            for (const auto& [cookie, status] : one.sent) {
                EXPECT_EQ(status, Errc::ok);
            }
        }
        EXPECT_EQ(few.landed.size(), 2 * each);
    }
};
INSTANTIATE_TEST_SUITE_P(, FewBuffers, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

TEST_P(FewBuffers, AllGetThrough) {
    open(std::array{true, true}, 1);
    send_all(70'000, 70'000);
}
TEST_P(FewBuffers, AllGetThroughInParts) {
    open(std::array{false, false}, 1);
    send_all(longest, longest - 1);
}
TEST_P(FewBuffers, AllGetThroughInBothWays) {
    open(std::array{true, false, false}, 1);
    send_all(longest, 70'000);
}
TEST_P(FewBuffers, AllGetThroughToAProgramThatPostsSeldom) {
    open(std::array{true, true, true, true}, 3);
    send_all(70'000, 70'000);
}

TEST_P(DirectWrite, AStopWaitsForWhatIsBeingWritten) {
    post(100'000);
    ASSERT_EQ(send(producer, 70'000), Errc::ok);
    // The consumer grants its place; the producer has not heard of it when the consumer stops.
    for (int i = 0; i < 10; ++i) {
        client.engine->progress();
    }
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until(
        [&] { return consumer.consumer->state() == State::idle && producer.sent.size() == 1; },
        server, client));
    ASSERT_EQ(consumer.landed.size(), 1u) << "the buffer comes back once, filled or not";
    const Errc sent = producer.sent[0].second;
    EXPECT_TRUE(sent == Errc::ok || sent == Errc::canceled) << to_string(sent);
    if (sent == Errc::ok) {
        expect_landed(0);
    }
}

TEST_P(DirectWrite, NobodyWritesOnceTheConsumerIsGone) {
    post(30'000'000);
    ASSERT_EQ(send(producer, 20'000'000), Errc::ok);
    for (int i = 0; i < 10; ++i) {
        client.engine->progress();
    }
    consumer.consumer.reset();
    std::fill(buffers[0].bytes.begin(), buffers[0].bytes.end(), std::byte{0});
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    EXPECT_NE(producer.sent[0].second, Errc::ok);
    settle(server, client);
    EXPECT_TRUE(std::all_of(buffers[0].bytes.begin(), buffers[0].bytes.end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(client.client->state(), State::running);
}

TEST_P(DirectWrite, AProducerThatStopsLeavesTheBuffersToOthers) {
    post(100'000);
    post(100'000);
    ASSERT_EQ(send(producer, 70'000), Errc::ok);
    ASSERT_TRUE(producer.producer->stop());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server, client));
    ASSERT_EQ(producer.sent.size(), 1u);
    // Its message has landed or it has not; the next producer's does.
    ProducerProgram next;
    ASSERT_EQ(next.open(*server.engine, *server.connected.at(0)), Errc::ok);
    ASSERT_EQ(send(next, 80'000), Errc::ok);
    ASSERT_TRUE(until([&] { return next.sent.size() == 1; }, server, client));
    EXPECT_EQ(next.sent[0].second, Errc::ok);
    if (consumer.landed.size() == 1) {
        data.pop_front();
    }
    for (std::size_t i = 0; i < consumer.landed.size(); ++i) {
        expect_landed(i);
    }
}

TEST_P(DirectWrite, ADisconnectGivesEverythingBack) {
    for (int i = 0; i < 4; ++i) {
        post(1'000'000);
        ASSERT_EQ(send(producer, 900'000), Errc::ok);
    }
    client.client.reset();
    ASSERT_TRUE(until(
        [&] {
            return consumer.consumer->state() == State::idle &&
                   producer.producer->state() == State::idle;
        },
        server, client));
    EXPECT_EQ(consumer.landed.size(), 4u) << "each buffer comes back once";
    EXPECT_EQ(producer.sent.size(), 4u);
}

TEST_P(DirectWrite, AProducerThatDoesNotProgressHearsOfAllThatWasHandledBeforeAStop) {
    constexpr std::size_t count = 12;
    ASSERT_NO_FATAL_FAILURE(post(4'000));
    ASSERT_EQ(send(producer, 4'000), Errc::ok); // so that there is a route
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    for (std::size_t i = 0; i < count; ++i) {
        post(4'000);
    }
    settle(server, client);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(try_to_send(producer, 4'000), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return consumer.landed.size() == count + 1; }, client));
    ASSERT_TRUE(consumer.consumer->stop().has_value());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, client));
    consumer.consumer.reset();
    ASSERT_TRUE(until([&] { return producer.sent.size() == count + 1; }, server, client));
    for (const auto& [cookie, status] : producer.sent) {
        EXPECT_EQ(status, Errc::ok);
    }
}

TEST_P(DirectWrite, WhatWaitsForMoreIsWaitingForItsProducerOnly) {
    ConsumerProgram other;
    ASSERT_EQ(other.open(*client.engine, client.connection()), Errc::ok);
    ASSERT_TRUE(until([&] { return server.added.size() == 2; }, server, client));
    Mapped elsewhere(std::vector<std::byte>(100));
    const auto post_elsewhere = [&] {
        EXPECT_EQ(other.consumer->post({.address = elsewhere.bytes.data(),
                                        .capacity = elsewhere.bytes.size(),
                                        .memory = elsewhere.map.get()},
                                       &elsewhere),
                  Errc::ok);
    };
    const auto send_elsewhere = [&] {
        return producer.producer->send(other.consumer->id(), {.data = bytes_of("x")}, nullptr);
    };
    post(5'000);
    ASSERT_EQ(send(producer, 10), Errc::ok); // so that there are routes
    post_elsewhere();
    ASSERT_TRUE(until([&] { return send_elsewhere() == Errc::ok; }, server, client));
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2; }, server, client));
    const std::function<void()> releases[] = {
        [&] { producer.producer->flush(); },
        [&] { (void)server.engine->progress(); },
        [&] { (void)server.engine->arm(); },
        [&] { (void)producer.producer->completed(); },
        [&] { EXPECT_EQ(try_to_send(producer, 10), Errc::ok); },
        [&] { EXPECT_EQ(try_to_send(producer, 10, true, "with it"), Errc::ok); },
        [&] { EXPECT_EQ(try_to_send(producer, 40'000), Errc::invalid_argument); },
        [&] {
            EXPECT_EQ(try_to_send(producer, 10, true, std::string(40, 'x')),
                      Errc::invalid_argument);
        },
        [&] { EXPECT_EQ(send_elsewhere(), Errc::ok); },
    };
    for (const std::size_t size : {10u, 1'000u, 4'000u}) {
        for (std::size_t how = 0; how < std::size(releases); ++how) {
            SCOPED_TRACE(fmt::format("{} bytes, {}", size, how));
            for (int i = 0; i < 4; ++i) {
                post(5'000);
            }
            post_elsewhere();
            settle(server, client);
            const std::size_t before = consumer.landed.size();
            const std::size_t told = producer.sent.size();
            more = true;
            for (int i = 0; i < 3; ++i) {
                ASSERT_EQ(try_to_send(producer, size), Errc::ok);
            }
            settle(client);
            EXPECT_EQ(consumer.landed.size(), before + (writes_directly() ? 0 : 3));
            more = false;
            releases[how]();
            ASSERT_TRUE(until([&] { return consumer.landed.size() >= before + 3; }, client));
            ASSERT_TRUE(until([&] { return producer.sent.size() >= told + 3; }, server, client));
        }
    }
    ASSERT_TRUE(until([&] { return producer.producer->in_flight() == 0; }, server, client));
    for (std::size_t i = 0; i < consumer.landed.size(); ++i) {
        expect_landed(i);
    }
}

TEST_P(DirectWrite, AProducerMayEndWhileMessagesWaitForMore) {
    const auto send_some = [&](ProducerProgram& from) {
        for (int i = 0; i < 4; ++i) {
            post(5'000);
        }
        more = true;
        ASSERT_EQ(send(from, 10), Errc::ok);
        for (const std::size_t size : {10u, 1'000u, 4'000u}) {
            ASSERT_EQ(try_to_send(from, size), Errc::ok);
        }
    };
    ASSERT_NO_FATAL_FAILURE(send_some(producer));
    ASSERT_TRUE(producer.producer->stop().has_value());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server));
    EXPECT_EQ(producer.sent.size(), 4u);
    // What was given up is not read any more: the address sanitizer would say so.
    for (Mapped& message : data) {
        message.map.reset();
        message.bytes = {};
    }
    settle(server, client);
    data.clear();
    ProducerProgram next;
    ASSERT_EQ(next.open(*server.engine, *server.connected.at(0)), Errc::ok);
    ASSERT_NO_FATAL_FAILURE(send_some(next));
    next.producer.reset();
    for (Mapped& message : data) {
        message.map.reset();
        message.bytes = {};
    }
    settle(server, client);
}

/// On the fake link, which can be stopped anywhere.
class DirectWriteInSteps : public DirectWrite {};
INSTANTIATE_TEST_SUITE_P(Fake, DirectWriteInSteps, ::testing::Values(true));

TEST_P(DirectWriteInSteps, WhatADeviceReadsIsNotGivenBack) {
    // Whoever gives it up, the producer or the consumer; of a message in a record, or one by itself.
    for (const auto& [consumer_stops, size] :
         {std::pair{false, 4'000u}, {false, 70'000u}, {true, 70'000u}}) {
        SCOPED_TRACE(size);
        SCOPED_TRACE(consumer_stops);
        ProducerProgram from;
        ASSERT_EQ(from.open(*server.engine, *server.connected.at(0)), Errc::ok);
        post(100'000);
        lab.network->slow_down_devices(true);
        const std::size_t before = consumer.landed.size();
        ASSERT_EQ(send(from, size), Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() > before; }, server, client));
        ASSERT_TRUE(consumer_stops ? consumer.consumer->stop() : from.producer->stop());
        for (int i = 0; i < 100; ++i) {
            client.engine->progress();
            server.engine->progress();
        }
        EXPECT_TRUE(from.sent.empty()) << "the device may read it once more";
        lab.network->slow_down_devices(false);
        ASSERT_TRUE(until([&] { return from.sent.size() == 1; }, server, client));
        EXPECT_EQ(from.sent[0].second, Errc::ok) << "it has arrived all the same";
    }
}

TEST_P(DirectWriteInSteps, WhatWasHandledIsSoThoughTheDeviceNeverSaysThatItIsDone) {
    for (int i = 0; i < 12; ++i) {
        post(4'000);
    }
    settle(server, client);
    lab.network->slow_down_devices(true);
    for (int i = 0; i < 12; ++i) {
        ASSERT_EQ(send(producer, 4'000), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 12; }, server, client));
    consumer.consumer.reset(); // its last word is what it has handled
    ASSERT_TRUE(until([&] { return producer.sent.size() == 12; }, server, client));
    for (const auto& [cookie, status] : producer.sent) {
        EXPECT_EQ(status, Errc::ok);
    }
}

TEST_P(DirectWriteInSteps, OfAllThatADeviceReadsItTellsInTime) {
    // It is asked to tell of some only; who wants to know is told of the others as well.
    for (unsigned count = 2; count <= 20; ++count) {
        for (unsigned i = 0; i < count; ++i) {
            post(4'000);
        }
        settle(server, client); // that they are posted is known then
        for (unsigned i = 0; i < count; ++i) {
            if (try_to_send(producer, 4'000) != Errc::ok) {
                ASSERT_EQ(send(producer, 4'000), Errc::ok) << "the first of all";
            }
        }
        if (count % 2 == 0) { // by progress
            ASSERT_TRUE(until([&] { return producer.sent.size() == data.size(); }, server, client));
            continue;
        }
        ASSERT_TRUE(until(
            [&] { return producer.sent.size() + producer.producer->completed() == data.size(); },
            client));
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(expect_landed(i));
    }
}

// ---- places told ahead --------------------------------------------------------------------------

/// Messages one by one, so that the place of the next is told before it is sent.
class PlacesAhead : public DirectWrite {
protected:
    std::unique_ptr<ProgressEngine> resting = *ProgressEngine::create(); ///< only if a test says so
    ProducerProgram first;                                               ///< on that one

    /// A message, whose buffer is the first posted one; the second is told as the next one's place.
    void first_sends_and_rests() {
        ASSERT_EQ(first.open(*resting, *server.connected.at(0)), Errc::ok);
        ASSERT_EQ(send(first, 70'000), Errc::ok);
        ASSERT_TRUE(until([&] { return first.sent.size() == 1; }, server, client, *resting));
        settle(server, client, *resting);
    }
    std::array<unsigned, 256> records{}; ///< on the channel, by what they are (fake link)

    void TearDown() override {
        if (lab.network) {
            lab.network->on_transit(nullptr); // what the programs say when they go is not counted
        }
    }
    void count_records() {
        if (lab.network) {
            lab.network->on_transit([&](link::fake::Transit& transit) {
                records[transit.id] += transit.channel ? 1 : 0;
            });
        }
    }
    template <class Id> [[nodiscard]] unsigned count(Id id) const {
        return records[static_cast<std::uint8_t>(id)];
    }
    void post_again(Mapped& buffer) {
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::byte{0});
        ASSERT_EQ(consumer.consumer->post({.address = buffer.bytes.data(),
                                           .capacity = buffer.bytes.size(),
                                           .memory = buffer.map.get()},
                                          &buffer),
                  Errc::ok);
    }
    /// One message, until it is known to have arrived; a place for the next is told meanwhile.
    void send_and_wait(std::size_t size, std::string_view immediate = {}) {
        const std::size_t before = producer.sent.size();
        ASSERT_EQ(send(producer, size, true, immediate), Errc::ok);
        ASSERT_TRUE(until([&] { return producer.sent.size() == before + 1; }, server, client));
        EXPECT_EQ(producer.sent.back().second, Errc::ok);
        settle(server, client);
    }
};

INSTANTIATE_TEST_SUITE_P(, PlacesAhead, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

/// As DirectWriteInSteps.
class PlacesAheadInSteps : public PlacesAhead {};
INSTANTIATE_TEST_SUITE_P(Fake, PlacesAheadInSteps, ::testing::Values(true));

TEST_P(PlacesAhead, WhoseMessagesComeOneByOneOffersOnlyTheFirst) {
    count_records();
    constexpr unsigned messages = 12;
    for (unsigned i = 0; i < messages; ++i) {
        post(100'000);
    }
    for (unsigned i = 0; i < messages; ++i) {
        send_and_wait(70'000 + i, std::string(i % 3, 'i'));
        expect_landed(i);
        EXPECT_EQ(consumer.landed.at(i).cookie, &buffers[i]) << "in the order of posting";
        EXPECT_EQ(consumer.landed[i].immediate, std::string(i % 3, 'i'));
    }
    if (lab.network) {
        EXPECT_EQ(count(wire::FastPath::offer), 1u);
        EXPECT_EQ(count(wire::Feedback::grant), 1u);
        // Those without immediate data need no word before they are there.
        EXPECT_EQ(count(wire::FastPath::placed), 3u);
        EXPECT_EQ(count(wire::FastPath::placing), messages - 1 - 3);
        EXPECT_EQ(count(wire::FastPath::filled), messages - 3);
        EXPECT_EQ(count(wire::Feedback::ahead), 1u) << "all buffers fit one";
    }
}

TEST_P(PlacesAheadInSteps, AStreamSharesRecordsForItsOffersAndTheirAnswers) {
    constexpr unsigned messages = 1 + wire::most_at_once + 10;
    for (unsigned i = 0; i < messages; ++i) {
        post(100'000);
    }
    settle(server, client);
    count_records();
    ASSERT_EQ(send(producer, 60'000), Errc::ok); // alone: at once
    for (unsigned i = 1; i < messages; ++i) {
        ASSERT_EQ(send(producer, 70'000 + i, true, i % 5 == 0 ? "five" : ""), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == messages; }, server, client));
    for (unsigned i = 0; i < messages; ++i) {
        expect_landed(i);
        EXPECT_EQ(consumer.landed.at(i).cookie, &buffers[i]) << "in the order of posting";
        EXPECT_EQ(consumer.landed[i].immediate, i != 0 && i % 5 == 0 ? "five" : "");
    }
    EXPECT_EQ(count(wire::FastPath::offer), 3u);
    EXPECT_EQ(count(wire::Feedback::grant), 3u);
}

/// Over a link with room for two offers, or five answers, in a record.
class ShortRecords : public DirectWrite {
protected:
    ShortRecords()
        : DirectWrite(
              {.limits = {.max_inline = 128, .max_message = 256, .max_one_sided_in_flight = 16}}) {}
};
INSTANTIATE_TEST_SUITE_P(Fake, ShortRecords, ::testing::Values(true));

TEST_P(ShortRecords, OffersAndAnswersFitThem) {
    unsigned offers = 0;
    unsigned answers = 0;
    lab.network->on_transit([&](link::fake::Transit& transit) {
        offers += transit.id == static_cast<std::uint8_t>(wire::FastPath::offer) ? 1 : 0;
        answers += transit.id == static_cast<std::uint8_t>(wire::Feedback::grant) ? 1 : 0;
    });
    constexpr unsigned messages = 13;
    for (unsigned i = 0; i < messages; ++i) {
        post(1000);
    }
    settle(server, client);
    for (unsigned i = 0; i < messages; ++i) {
        ASSERT_EQ(send(producer, 500 + i), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == messages; }, server, client));
    for (unsigned i = 0; i < messages; ++i) {
        expect_landed(i);
    }
    EXPECT_EQ(offers, 7u) << "one, and six for two each";
    EXPECT_GE(answers, 3u);
    lab.network->on_transit(nullptr);
}

TEST_P(PlacesAheadInSteps, WhatDoesNotFitIsRefusedAmongOthersThatDo) {
    for (const std::size_t room : {100'000, 100'000, 50'000, 100'000, 100'000, 100'000}) {
        post(room);
    }
    settle(server, client);
    count_records();
    for (const std::size_t size : {60'000, 61'000, 62'000, 40'000, 63'000, 64'000}) {
        ASSERT_EQ(send(producer, size), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == 6; }, server, client));
    for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(producer.sent[i].second, i == 2 ? Errc::invalid_argument : Errc::ok) << i;
    }
    ASSERT_EQ(consumer.landed.size(), 5u);
    data.erase(data.begin() + 2);
    for (std::size_t i = 0; i < 5; ++i) {
        expect_landed(i);
        EXPECT_EQ(consumer.landed[i].cookie, &buffers[i]) << "in the order of posting";
    }
    EXPECT_EQ(count(wire::Feedback::refused), 1u);
}

TEST_P(PlacesAheadInSteps, AShortMessageIsRefusedAfterLongOnesThatWereWritten) {
    post(100'000);
    post(100'000);
    settle(server, client);
    ASSERT_EQ(send(producer, 60'000), Errc::ok);
    ASSERT_EQ(send(producer, 61'000), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2; }, server, client));
    for (const std::size_t room : {100, 10, 100}) {
        post(room);
    }
    settle(server, client);
    for (const std::size_t size : {50, 51, 5}) {
        ASSERT_EQ(send(producer, size), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return producer.sent.size() == 5; }, server, client));
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(producer.sent[i].second, i == 3 ? Errc::invalid_argument : Errc::ok) << i;
    }
    data.erase(data.begin() + 3);
    ASSERT_EQ(consumer.landed.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        expect_landed(i);
    }
}

TEST_P(PlacesAheadInSteps, TheyAreToldBeforeTheProgramAnswers) {
    bool posts = false;
    std::vector<unsigned> ahead_when_told;
    consumer.on_received = [&](const Received& r) {
        if (r.status == Errc::ok && posts) {
            post_again(*static_cast<Mapped*>(r.cookie));
        }
        ahead_when_told.push_back(count(wire::Feedback::ahead));
    };
    count_records();
    for (unsigned i = 0; i < 4; ++i) {
        post(100'000);
    }
    for (unsigned i = 0; i < 3; ++i) {
        send_and_wait(70'000);
    }
    EXPECT_EQ(ahead_when_told, (std::vector<unsigned>{1, 1, 1})) << "of all there are";
    // Also if it posts the only buffer, and then answers, both in its handler.
    posts = true;
    for (unsigned i = 0; i < 3; ++i) {
        send_and_wait(70'000);
    }
    EXPECT_EQ(ahead_when_told, (std::vector<unsigned>{1, 1, 1, 2, 3, 4}));
}

TEST_P(PlacesAhead, AnyOtherMessageTakesThePlaceToo) {
    struct Message {
        std::size_t size;
        bool mapped;
    };
    constexpr std::array<Message, 7> messages = {{{70'000, true},
                                                  {20, true},
                                                  {70'000, true},
                                                  {70'000, false}, // so it cannot be written
                                                  {70'000, true},
                                                  {0, false},
                                                  {70'000, true}}};
    for (std::size_t i = 0; i < messages.size(); ++i) {
        post(80'000);
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
        ASSERT_EQ(send(producer, messages[i].size, messages[i].mapped), Errc::ok);
        ASSERT_TRUE(until([&] { return producer.sent.size() == i + 1; }, server, client));
        settle(server, client);
        expect_landed(i);
        EXPECT_EQ(consumer.landed.at(i).cookie, &buffers[i]);
    }
    // And one that is too long is refused; the place is that of the next.
    post(80'000);
    post(80'000);
    send_and_wait(70'000);
    EXPECT_EQ(send(producer, 80'001), Errc::invalid_argument);
    send_and_wait(80'000);
    expect_landed(8);
    EXPECT_EQ(consumer.landed[8].cookie, &buffers[8]);
}

TEST_P(PlacesAhead, AnotherProducerGetsTheBuffersWhateverTheFirstDoes) {
    constexpr std::size_t others = 5;
    for (std::size_t i = 0; i < 1 + others; ++i) {
        post(100'000);
    }
    first_sends_and_rests();
    // All but the first are told to it. From here on it does nothing.
    count_records();
    for (std::size_t i = 1; i <= others; ++i) {
        ASSERT_EQ(send(producer, 70'000 + i), Errc::ok);
        ASSERT_TRUE(until([&] { return producer.sent.size() == i; }, server, client));
        expect_landed(i);
        EXPECT_EQ(consumer.landed[i].cookie, &buffers[i]);
    }
    // It finds that out when it sends.
    const unsigned offers = count(wire::FastPath::offer);
    for (std::size_t i = 1; i <= others + 2; ++i) {
        post(100'000);
        settle(server, client);
        ASSERT_EQ(send(first, 60'000 + i), Errc::ok);
        ASSERT_TRUE(until([&] { return first.sent.size() == 1 + i; }, server, client, *resting));
        expect_landed(others + i);
    }
    if (lab.network) {
        EXPECT_EQ(count(wire::FastPath::placed) + count(wire::FastPath::placing), 0u);
        EXPECT_EQ(count(wire::FastPath::offer) - offers, others + 2);
    }
}

TEST_P(PlacesAhead, WhatWasWithdrawnIsNotToldAgain) {
    for (int i = 0; i < 4; ++i) {
        post(100'000);
    }
    first_sends_and_rests();
    ASSERT_EQ(send(producer, 70'000), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    ASSERT_TRUE(producer.producer->stop());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server, client));
    // The first is alone again, and still rests: it has not heard of the withdrawal.
    settle(server, client);
    ProducerProgram next;
    ASSERT_EQ(next.open(*server.engine, *server.connected.at(0)), Errc::ok);
    for (std::size_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(send(next, 80'000), Errc::ok);
        ASSERT_TRUE(until([&] { return next.sent.size() == i; }, server, client));
        expect_landed(1 + i);
    }
}

TEST_P(PlacesAheadInSteps, OfSeveralPlacesThoseAreWithdrawnThatWereNotClaimed) {
    for (int i = 0; i < 5; ++i) {
        post(100'000);
    }
    first_sends_and_rests();
    // It claims one, has no room to say so, and computes.
    lab.network->again_on_send(1);
    ASSERT_EQ(try_to_send(first, 70'000, true, "immediate"), Errc::ok);
    // The other producer's messages take what is behind the first one's.
    std::size_t sent = 0;
    ASSERT_TRUE(until(
        [&] {
            sent += try_to_send(producer, 60'000 + sent) == Errc::ok ? 1 : 0;
            return producer.sent.size() == 3;
        },
        server, client));
    EXPECT_EQ(try_to_send(producer, 50'000), Errc::again);
    EXPECT_EQ(consumer.landed.size(), 4u);
    ASSERT_TRUE(until([&] { return first.sent.size() == 2; }, server, client, *resting));
    ASSERT_EQ(consumer.landed.size(), 5u);
    EXPECT_EQ(consumer.landed[4].immediate, "immediate");
    EXPECT_EQ(consumer.landed[4].cookie, &buffers[1]) << "which was kept for it";
    EXPECT_EQ(consumer.landed[1].cookie, &buffers[2]);
}

TEST_P(PlacesAheadInSteps, AStreamThatHasPlacesOffersNothing) {
    constexpr std::size_t in_flight = 64;
    consumer.on_received = [&](const Received& r) {
        if (r.status == Errc::ok) {
            post_again(*static_cast<Mapped*>(r.cookie));
        }
    };
    for (std::size_t i = 0; i < 2 * in_flight; ++i) {
        post(40'000);
    }
    const auto stream_to = [&](std::size_t messages) {
        ASSERT_TRUE(until(
            [&] {
                while (data.size() < messages && data.size() - producer.sent.size() < in_flight &&
                       try_to_send(producer, 40'000) == Errc::ok) {
                }
                return producer.sent.size() == messages;
            },
            server, client));
    };
    stream_to(100);
    count_records();
    stream_to(500);
    EXPECT_EQ(count(wire::FastPath::placed), 400u);
    EXPECT_EQ(count(wire::FastPath::offer), 0u);
    EXPECT_LE(count(wire::Feedback::ahead) + count(wire::Feedback::credit), 400u / 16);
}

TEST_P(PlacesAhead, AllMixturesLandInTheOrderOfPosting) {
    constexpr std::size_t posted = 40;
    constexpr std::size_t messages = 600;
    constexpr std::size_t in_flight = 30;
    constexpr std::uint32_t all_sizes = 6;
    constexpr std::array<std::size_t, all_sizes> sizes = {33'000, 40'000, 39'999, 20, 0, 5'000};
    consumer.on_received = [&](const Received& r) {
        const std::size_t i = consumer.landed.size() - 1;
        if (r.status == Errc::ok) {
            ASSERT_EQ(r.cookie, &buffers[i % posted]) << i;
            const auto& bytes = static_cast<const Mapped*>(r.cookie)->bytes;
            ASSERT_EQ(r.length, data[i].bytes.size());
            ASSERT_TRUE(std::equal(data[i].bytes.begin(), data[i].bytes.end(), bytes.begin())) << i;
            post_again(buffers[i % posted]);
        }
    };
    for (std::size_t i = 0; i < posted; ++i) {
        post(40'000);
    }
    std::uint32_t random = 1;
    const auto choose = [&](std::uint32_t of) {
        random = random * 1664525u + 1013904223u;
        return (random >> 16) % of;
    };
    // Long stretches of one kind, too: streams.
    std::uint32_t kinds = 1;
    ASSERT_TRUE(until(
        [&] {
            while (data.size() < messages && data.size() - producer.sent.size() < in_flight) {
                if (choose(20) == 0) {
                    kinds = choose(2) == 0 ? 1 : all_sizes;
                }
                if (lab.network && choose(10) == 0) {
                    lab.network->again_on_send(1 + choose(4));
                }
                const std::size_t size = sizes[choose(kinds)];
                if (try_to_send(producer, size, size != 0 && choose(4) != 0,
                                std::string(choose(3) * choose(2), 'i')) != Errc::ok ||
                    choose(5) == 0) {
                    break;
                }
            }
            return producer.sent.size() == messages;
        },
        server, client));
    for (const auto& [cookie, status] : producer.sent) {
        EXPECT_EQ(status, Errc::ok);
    }
}

TEST_P(PlacesAheadInSteps, WhatWasClaimedIsWaitedFor) {
    post(100'000);
    post(100'000);
    first_sends_and_rests();
    // It claims the second buffer, but has no room to say so, and then computes.
    lab.network->again_on_send(1);
    ASSERT_EQ(try_to_send(first, 70'000, true, "immediate"), Errc::ok) << "no way back";
    EXPECT_EQ(try_to_send(producer, 60'000), Errc::again);
    settle(server, client);
    EXPECT_EQ(try_to_send(producer, 60'000), Errc::again);
    EXPECT_EQ(consumer.landed.size(), 1u);
    // Later it goes on.
    ASSERT_TRUE(until([&] { return first.sent.size() == 2; }, server, client, *resting));
    expect_landed(1);
    EXPECT_EQ(consumer.landed[1].cookie, &buffers[1]);
    post(100'000);
    ASSERT_EQ(send(producer, 60'000), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    expect_landed(2);
}

TEST_P(PlacesAheadInSteps, NothingIsOfferedBeforeWhatIsToBeWrittenToAPlace) {
    for (int i = 0; i < 3; ++i) {
        post(100'000);
    }
    send_and_wait(60'000);
    lab.network->again_on_send(1);
    ASSERT_EQ(try_to_send(producer, 70'000), Errc::ok) << "it has claimed the place";
    ASSERT_EQ(try_to_send(producer, 80'000), Errc::ok);
    lab.network->again_on_send(1);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 3; }, server, client));
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(producer.sent[i].second, Errc::ok);
        expect_landed(i);
    }
}

TEST_P(PlacesAheadInSteps, APlaceIsFoundThoughNobodyHasLookedForIt) {
    // Its program knows from elsewhere that the last message has come, and sends the next before
    // its producer is polled.
    constexpr unsigned messages = 5;
    for (unsigned i = 0; i < messages; ++i) {
        post(100'000);
    }
    count_records();
    send_and_wait(60'000);
    for (unsigned i = 1; i < messages; ++i) {
        ASSERT_EQ(try_to_send(producer, 70'000), Errc::ok);
        ASSERT_TRUE(until([&] { return consumer.landed.size() == i + 1; }, client));
        settle(client);
    }
    EXPECT_EQ(count(wire::FastPath::offer), 1u);
    EXPECT_EQ(count(wire::FastPath::placed), messages - 1);
}

TEST_P(PlacesAheadInSteps, WhoFindsAPlaceWithdrawnSendsAllTheSame) {
    // Both have said what they are about before they look: the consumer takes the place for
    // claimed, and the producer, who finds it withdrawn, has no room to offer the message.
    post(100'000);
    post(100'000);
    first_sends_and_rests();
    ASSERT_EQ(try_to_send(producer, 60'000), Errc::again);
    // Until the withdrawal is under way, and no further.
    ASSERT_TRUE(until([&] { return lab.network->withdrawals() == 1; }, server, client));
    lab.network->again_on_send(1);
    ASSERT_EQ(try_to_send(first, 50'000), Errc::ok);
    settle(server, client);
    post(100'000);
    ASSERT_EQ(send(producer, 60'000), Errc::ok);
    ASSERT_TRUE(until([&] { return first.sent.size() == 2 && producer.sent.size() == 1; }, server,
                      client, *resting));
    EXPECT_EQ(consumer.landed.size(), 3u);
    for (const auto& landed : consumer.landed) {
        EXPECT_EQ(landed.status, Errc::ok);
        const auto sent = std::find_if(data.begin(), data.end(), [&](const Mapped& message) {
            return message.bytes.size() == landed.length;
        });
        ASSERT_NE(sent, data.end());
        EXPECT_TRUE(std::equal(sent->bytes.begin(), sent->bytes.end(),
                               static_cast<const Mapped*>(landed.cookie)->bytes.begin()));
    }
}

TEST_P(PlacesAheadInSteps, AMessageThatHadToWaitTakesNoOthersPlace) {
    post(100'000);
    send_and_wait(60'000);
    for (int i = 0; i < 5; ++i) {
        post(50'000);
    }
    settle(server, client); // these are told
    post(100'000);
    settle(server, client);
    send_and_wait(20); // since then it does not know how long a message may be
    ASSERT_EQ(try_to_send(producer, 21), Errc::ok);
    ASSERT_EQ(try_to_send(producer, 60'000, false), Errc::ok) << "to be refused";
    ASSERT_EQ(try_to_send(producer, 40'000), Errc::ok) << "has its place";
    lab.network->again_on_send(1); // the refusal
    ASSERT_TRUE(until([&] { return producer.sent.size() == 5; }, server, client));
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(producer.sent[i].second, i == 3 ? Errc::invalid_argument : Errc::ok) << i;
    }
    data.erase(data.begin() + 3);
    ASSERT_EQ(consumer.landed.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        expect_landed(i);
    }
}

TEST_P(PlacesAheadInSteps, WhatIsTooLongForItsPlaceIsRefused) {
    post(100'000);
    send_and_wait(60'000);
    for (int i = 0; i < 5; ++i) {
        post(50'000);
    }
    settle(server, client);
    post(100'000);
    settle(server, client);
    send_and_wait(20);
    ASSERT_EQ(try_to_send(producer, 41'000), Errc::ok);
    ASSERT_EQ(try_to_send(producer, 60'000), Errc::ok);
    ASSERT_EQ(try_to_send(producer, 40'000), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 5; }, server, client));
    EXPECT_EQ(producer.sent[3].second, Errc::invalid_argument);
    data.erase(data.begin() + 3);
    ASSERT_EQ(consumer.landed.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
        expect_landed(i);
    }
}

TEST_P(PlacesAheadInSteps, WhoFindsThemWithdrawnOffersManyAtOnce) {
    constexpr std::size_t messages = 30;
    for (std::size_t i = 0; i < 2 * messages; ++i) {
        post(100'000);
    }
    first_sends_and_rests();
    ASSERT_EQ(send(producer, 60'000), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 1; }, server, client));
    count_records();
    for (std::size_t i = 0; i < messages; ++i) {
        ASSERT_EQ(try_to_send(first, 70'000), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return first.sent.size() == 1 + messages; }, server, client, *resting));
    EXPECT_LE(count(wire::FastPath::offer), 3u);
}

TEST_P(PlacesAheadInSteps, AStopBetweenPartsAndAMessageWithAPlaceEndsNothingElse) {
    for (int i = 0; i < 4; ++i) {
        post(1'300'000);
    }
    send_and_wait(70'000);
    ASSERT_EQ(try_to_send(producer, 1'200'000, false), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.producer->in_flight() == 1; }, server));
    settle(server);
    ASSERT_EQ(try_to_send(producer, 71'000), Errc::ok);
    settle(server);
    client.engine->progress(); // some of the parts
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, client));
    settle(server, client);
    EXPECT_EQ(client.client->state(), State::running);
    EXPECT_TRUE(server.disconnected.empty());
    for (std::size_t i = 0; i < consumer.landed.size(); ++i) {
        if (consumer.landed[i].status == Errc::ok) {
            expect_landed(i);
        }
    }
}

TEST_P(PlacesAheadInSteps, WhatIsDroppedAtAStopTakesItsPlace) {
    for (int i = 0; i < 4; ++i) {
        post(100'000);
    }
    send_and_wait(60'000);
    ASSERT_EQ(try_to_send(producer, 20), Errc::ok);
    ASSERT_EQ(try_to_send(producer, 70'000), Errc::ok);
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, client));
    ASSERT_EQ(consumer.landed.size(), 4u);
    // The short one was dropped; the other one had been written, and is where it was told.
    EXPECT_EQ(consumer.landed[1].status, Errc::ok);
    EXPECT_EQ(consumer.landed[1].cookie, &buffers[2]);
    EXPECT_EQ(consumer.landed[1].length, 70'000u);
    EXPECT_TRUE(std::equal(data[2].bytes.begin(), data[2].bytes.end(), buffers[2].bytes.begin()));
    EXPECT_EQ(client.client->state(), State::running);
}

TEST_P(PlacesAhead, AConsumerStopsWithoutItsProducersHelp) {
    for (int i = 0; i < 3; ++i) {
        post(100'000);
    }
    first_sends_and_rests();
    ASSERT_TRUE(consumer.consumer->stop());
    // At once: it does not wait as for one who is writing.
    for (int i = 0; i < 10 && consumer.consumer->state() != State::idle; ++i) {
        client.engine->progress();
    }
    ASSERT_EQ(consumer.consumer->state(), State::idle);
    ASSERT_EQ(consumer.landed.size(), 3u) << "each buffer comes back once";
    EXPECT_EQ(consumer.landed[1].cookie, &buffers[1]);
    EXPECT_EQ(consumer.landed[2].cookie, &buffers[2]);
    EXPECT_EQ(consumer.landed[1].status, Errc::canceled);
    // And the producer learns of it in order.
    ASSERT_TRUE(
        until([&] { return send(first, 70'000) == Errc::not_found; }, server, client, *resting));
    EXPECT_EQ(client.client->state(), State::running);
}

TEST_P(PlacesAhead, AProducerThatStopsLeavesItsPlaceToTheNext) {
    post(100'000);
    post(100'000);
    send_and_wait(70'000);
    ASSERT_TRUE(producer.producer->stop());
    ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server, client));
    ProducerProgram next;
    ASSERT_EQ(next.open(*server.engine, *server.connected.at(0)), Errc::ok);
    ASSERT_EQ(send(next, 80'000), Errc::ok);
    ASSERT_TRUE(until([&] { return next.sent.size() == 1; }, server, client));
    expect_landed(1);
    EXPECT_EQ(consumer.landed[1].cookie, &buffers[1]);
}

} // namespace
} // namespace comch::channel::test
