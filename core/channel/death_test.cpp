// A killed process, as the channel layer on the other side sees it: over the soft link.

#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/channel/test_support.hpp"

namespace comch::channel::test {
namespace {

/// The client's process: talks in every way until it is killed.
[[noreturn]] void talk_until_killed(const Lab& lab) {
    ClientProgram client;
    ConsumerProgram consumer;
    ProducerProgram producer;
    std::vector<std::byte> buffer(100'000);
    const std::vector<std::byte> data(100'000, std::byte{7});
    std::uint32_t target = 0;
    client.on_added = [&](std::uint32_t id) { target = id; };
    if (client.open(lab, "name") != Errc::ok) {
        ::_exit(1);
    }
    for (;;) {
        if (client.engine->progress() == 0) {
            std::this_thread::yield();
        }
        if (client.client->state() == State::running && !consumer.consumer) {
            (void)consumer.open(*client.engine, client.connection());
            (void)producer.open(*client.engine, client.connection());
        }
        (void)client.connection().send(bytes_of("control"));
        if (target != 0) {
            (void)producer.send(target, data);
            (void)consumer.post(buffer);
        }
    }
}

class Death : public ::testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(AfterMessages, Death, ::testing::Values(0, 1, 5, 50));

TEST_P(Death, OfTheClientFlushesEverythingInTime) {
    Lab lab(false);
    int start[2] = {-1, -1};
    ASSERT_EQ(::pipe2(start, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The server is there when this can be read.
        char byte = 0;
        if (::read(start[0], &byte, 1) != 1) {
            ::_exit(1);
        }
        talk_until_killed(lab);
    }
    ServerProgram server;
    ConsumerProgram consumer;
    ProducerProgram producer;
    std::deque<std::vector<std::byte>> buffers(4, std::vector<std::byte>(100'000));
    const std::vector<std::byte> data(100'000);
    unsigned landed = 0;
    unsigned posted = 0;
    unsigned accepted = 0;
    std::uint32_t target = 0;
    server.on_added = [&](Connection&, std::uint32_t id) { target = id; };
    server.on_connected = [&](Connection& c) {
        EXPECT_EQ(consumer.open(*server.engine, c), Errc::ok);
        EXPECT_EQ(producer.open(*server.engine, c), Errc::ok);
    };
    consumer.on_received = [&](const Received& r) {
        if (r.status == Errc::ok) {
            ++landed;
            auto& buffer = *static_cast<std::vector<std::byte>*>(r.cookie);
            posted += consumer.post(buffer) == Errc::ok ? 1 : 0;
        }
    };
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(::write(start[1], "!", 1), 1);
    ::close(start[0]);
    ::close(start[1]);
    ASSERT_TRUE(until(
        [&] {
            if (consumer.consumer && consumer.consumer->state() == State::running && posted == 0) {
                for (auto& buffer : buffers) {
                    posted += consumer.post(buffer) == Errc::ok ? 1 : 0;
                }
            }
            if (target != 0 && producer.send(target, data) == Errc::ok) {
                ++accepted;
            }
            return posted != 0 && landed >= GetParam();
        },
        server));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    // Asleep, as far as what is still coming in lets us.
    const auto killed = std::chrono::steady_clock::now();
    while (server.disconnected.empty() || consumer.consumer->state() != State::idle ||
           producer.producer->state() != State::idle) {
        if (server.engine->progress() == 0 && server.engine->arm() == Errc::ok) {
            ASSERT_TRUE(sleep_on(server.engine->event_fd()));
        }
        ASSERT_LT(std::chrono::steady_clock::now() - killed, patience);
    }
    // The promise is 100 ms; the rest is for a busy machine and for what had to be taken in first.
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(2));
    EXPECT_EQ(server.disconnected[0].second, EndReason::peer_died);
    EXPECT_EQ(consumer.landed.size(), posted);
    EXPECT_EQ(consumer.landed.back().status, Errc::connection_reset);
    EXPECT_EQ(producer.sent.size(), accepted);
    for (const auto& [cookie, status] : producer.sent) {
        EXPECT_TRUE(status == Errc::ok || status == Errc::connection_reset) << to_string(status);
    }
    // The server lives on.
    ClientProgram next;
    ASSERT_EQ(next.open(lab, "name"), Errc::ok);
    server.on_connected = nullptr;
    ASSERT_TRUE(until([&] { return next.client->state() == State::running; }, server, next));
}

TEST(ForkedChild, MayDestroyWhatItInherited) {
    Lab lab(false);
    ServerProgram server;
    ClientProgram client;
    ConsumerProgram consumer;
    ProducerProgram producer;
    std::vector<std::byte> buffer(100);
    server.on_connected = [&](Connection& c) {
        EXPECT_EQ(consumer.open(*server.engine, c), Errc::ok);
    };
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return !client.added.empty(); }, server, client));
    ASSERT_EQ(producer.open(*client.engine, client.connection()), Errc::ok);
    const auto transmit = [&] {
        const std::size_t before = consumer.landed.size();
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
        ASSERT_TRUE(
            until([&] { return producer.send(client.added[0], bytes_of("fast")) == Errc::ok; },
                  server, client));
        ASSERT_TRUE(
            until([&] { return consumer.landed.size() > before && producer.sent.size() > before; },
                  server, client));
        EXPECT_EQ(consumer.landed.back().status, Errc::ok);
        EXPECT_EQ(producer.sent.back().second, Errc::ok);
    };
    ASSERT_NO_FATAL_FAILURE(transmit());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        consumer.consumer.reset();
        producer.producer.reset();
        client.client.reset();
        server.server.reset();
        client.engine.reset();
        server.engine.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    while (server.engine->progress() != 0 || server.engine->arm() != Errc::ok) {
    }
    EXPECT_EQ(client.connection().send(bytes_of("still here")), Errc::ok);
    EXPECT_TRUE(sleep_on(server.engine->event_fd()));
    ASSERT_TRUE(until([&] { return server.messages.size() == 1; }, server, client));
    ASSERT_NO_FATAL_FAILURE(transmit());
    EXPECT_TRUE(server.disconnected.empty());
    EXPECT_TRUE(client.removed.empty());
}

} // namespace
} // namespace comch::channel::test
