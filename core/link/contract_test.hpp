// What every link kind must do: a typed test suite, to be instantiated beside each kind.
//
//     struct SoftTraits { ... };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Soft, LinkContract, SoftTraits);
//
// A Traits class is default-constructed for each test and needs:
//
//     using Link = ...;
//     // a port on the DPU, or on the host function number `function` (0 and 1 must exist)
//     std::unique_ptr<Port> open(Side side, unsigned function = 0, const PortOptions& = {});
//     FunctionId function(unsigned number);              // the id of that host function
//     // RegionKey::link_data of a region of this process, for peers of that side's port
//     std::uint64_t link_data(Side side, std::uint64_t region);
//     // Something with a port on host function 0 that can be killed. It does what the plan says,
//     // wherever it lives (another process, perhaps: play() is for that); after that the port is
//     // progressed with a sink that accepts everything, until kill().
//     using Victim = ...;                                 // void kill(); void step();
//     std::unique_ptr<Victim> start_victim(const VictimPlan& plan);
//
// kill() returns when the victim is dead. step() gives a victim that lives in this process the
// chance to progress; for others it does nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "core/base/test_waiting.hpp"
#include "core/link/link.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::contract {

inline std::vector<std::byte> bytes_of(std::string_view text) {
    std::vector<std::byte> bytes(text.size());
    std::transform(text.begin(), text.end(), bytes.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    return bytes;
}

inline std::string text_of(std::span<const std::byte> bytes) {
    std::string text(bytes.size(), '\0');
    std::transform(bytes.begin(), bytes.end(), text.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    return text;
}

/// Bytes that tell a wrong length, order or place.
inline std::vector<std::byte> pattern(std::size_t length, std::uint32_t seed) {
    std::vector<std::byte> bytes(length);
    std::uint32_t state = seed * 2654435761u + 12345u;
    for (std::byte& b : bytes) {
        state = state * 1664525u + 1013904223u;
        b = static_cast<std::byte>(state >> 24);
    }
    return bytes;
}

/// Remembers everything it is told.
template <class Link> struct Recorder {
    using Connection = typename Link::Connection;
    using Channel = typename Link::Channel;

    struct Message {
        Connection* connection;
        std::uint8_t id;
        std::vector<std::byte> bytes;
    };
    struct End {
        Connection* connection;
        Reason reason;
        std::string data;
        std::size_t messages_before; ///< messages handed out until then
        std::size_t completions_before;
    };
    struct Request {
        Connection* connection;
        PeerInfo peer;
        std::string service;
        FunctionId function;
        std::string data;
    };
    struct Completion {
        void* token;
        Errc status;
    };

    ConnectDecision on_connect_request(Connection& connection, const ConnectRequest& request) {
        requests.push_back({&connection, request.peer, std::string(request.service),
                            request.service_function, text_of(request.private_data)});
        reply_bytes = bytes_of(reply);
        return {.code = decision, .user = accepted_user, .reply = reply_bytes};
    }
    void on_connected(Connection& connection, std::span<const std::byte> data) {
        connected.emplace_back(&connection, text_of(data));
    }
    void on_disconnected(Connection& connection, Reason reason, std::span<const std::byte> data) {
        ends.push_back({&connection, reason, text_of(data), messages.size(), completions.size()});
        if (on_end_hook) {
            on_end_hook(connection);
        }
    }
    void on_message(Connection& connection, std::uint8_t id, const std::byte* data,
                    std::uint32_t length) {
        messages.push_back({&connection, id, {data, data + length}});
        if (on_message_hook) {
            on_message_hook(connection);
        }
    }
    void on_complete(Connection&, void* token, Errc status) {
        completions.push_back({token, status});
    }
    void on_channel(Connection& connection, std::uint64_t tag, Channel&& channel) {
        channels.emplace_back(tag, std::move(channel));
        channel_connection = &connection;
    }

    Errc decision = Errc::ok;
    void* accepted_user = nullptr;
    std::string reply;
    std::vector<std::byte> reply_bytes;
    std::function<void(Connection&)> on_message_hook;
    std::function<void(Connection&)> on_end_hook;

    std::vector<Request> requests;
    std::vector<std::pair<Connection*, std::string>> connected;
    std::vector<End> ends;
    std::vector<Message> messages;
    std::vector<Completion> completions;
    std::vector<std::pair<std::uint64_t, Channel>> channels;
    Connection* channel_connection = nullptr;
};

/// What a victim does before it is killed: plain data, so that it can be handed to any process.
struct VictimPlan {
    PortAddress connect_to;
    unsigned messages = 0; ///< sent to it then
};
template <class Port> void play(Port& port, const VictimPlan& plan) {
    const auto started = port.connect(plan.connect_to, {}, nullptr);
    if (!started.has_value()) {
        return;
    }
    for (unsigned i = 0; i < plan.messages; ++i) {
        (void)(*started)->send(static_cast<std::uint8_t>(i), bytes_of("last words"));
    }
}

inline constexpr auto patience = std::chrono::seconds(20); ///< far more than anything takes

template <class Traits> class LinkContract : public ::testing::Test {
protected:
    using Link = typename Traits::Link;
    using Port = typename Link::Port;
    using Connection = typename Link::Connection;
    using Channel = typename Link::Channel;

    /// A port and what it was told.
    struct End {
        std::unique_ptr<Port> port;
        Recorder<Link> seen;
        unsigned progress() { return port->progress(seen); }
    };

    End open(Side side, unsigned function = 0, const PortOptions& options = {.face = "test"}) {
        return End{traits.open(side, function, options), {}};
    }

    /// Progresses all the ends until `done`; a failure after `patience`.
    template <class Done, class... Ends>::testing::AssertionResult until(Done done, Ends&... ends) {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!done()) {
            if (((ends.progress()) + ... + 0u) == 0) {
                std::this_thread::yield();
                if (std::chrono::steady_clock::now() > deadline) {
                    return ::testing::AssertionFailure() << "nothing happens any more";
                }
            }
        }
        return ::testing::AssertionSuccess();
    }

    /// Progresses until nothing has moved for a while: for what must not happen.
    template <class... Ends> void settle(Ends&... ends) {
        comch::test::for_a_while(std::chrono::milliseconds(50),
                                 [&] { ((void)ends.progress(), ...); });
    }

    struct Pair {
        Connection* initiator;
        Connection* acceptor;
    };
    /// Connects by address.
    Pair connect(End& from, End& to) {
        Pair pair{};
        Result<Connection*> started = from.port->connect(to.port->address(), {}, nullptr);
        EXPECT_TRUE(started.has_value());
        const std::size_t before = to.seen.requests.size();
        const std::size_t connected = from.seen.connected.size();
        EXPECT_TRUE(until([&] { return from.seen.connected.size() > connected; }, from, to));
        if (to.seen.requests.size() > before) {
            pair = {*started, to.seen.requests.back().connection};
        }
        return pair;
    }

    /// Opens a channel of the connection that `by` initiated, and waits until `to` has its end of it.
    Result<Channel> open_channel(const Pair& pair, End& by, End& to) {
        const std::size_t before = to.seen.channels.size();
        Result<Channel> opened = pair.initiator->open_channel(1);
        EXPECT_TRUE(until([&] { return to.seen.channels.size() > before; }, by, to));
        return opened;
    }

    /// Sends although the answer may be `again`; the ends are progressed meanwhile.
    template <class Sender, class... Ends>
    void send(Sender& sender, std::uint8_t id, std::span<const std::byte> message, Ends&... ends) {
        const std::uint32_t max_inline = limits_.max_inline;
        const auto length = static_cast<std::uint32_t>(message.size());
        Errc result = Errc::again;
        EXPECT_TRUE(until(
            [&] {
                if (length <= max_inline) {
                    result = sender.send(id, message);
                } else {
                    const std::int64_t packed = sender.send_packed(id, length, [&](std::byte* to) {
                        std::memcpy(to, message.data(), message.size());
                        return length;
                    });
                    result = packed >= 0 ? Errc::ok : static_cast<Errc>(-packed);
                    EXPECT_TRUE(packed < 0 || packed == length);
                }
                return result != Errc::again;
            },
            ends...));
        EXPECT_EQ(result, Errc::ok);
    }

    void SetUp() override {
        auto port = traits.open(Side::host, 0, {.face = "test"});
        ASSERT_NE(port, nullptr);
        limits_ = port->limits();
    }

    static bool sleep_on(int fd) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
        return ::poll(&entry, 1, static_cast<int>(ms)) == 1;
    }
    static bool readable(int fd) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        return ::poll(&entry, 1, 0) == 1;
    }

    Traits traits;
    Limits limits_{};
};

TYPED_TEST_SUITE_P(LinkContract);

/// hold() and may_retry(), for those who queue above the link. (The fake link is only for the
/// channel layer, which does not.)
template <class L> class LinkContractOfQueues : public LinkContract<L> {};
TYPED_TEST_SUITE_P(LinkContractOfQueues);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinkContractOfQueues);

/// Channels that write into the peer's memory (Channel::writes_directly).
template <class L> class LinkContractOfWrites : public LinkContract<L> {};
TYPED_TEST_SUITE_P(LinkContractOfWrites);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinkContractOfWrites);

// ---- connecting ---------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, ConnectsByAddress) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    int initiator_user = 0;
    int acceptor_user = 0;
    dpu.seen.accepted_user = &acceptor_user;
    dpu.seen.reply = "welcome";
    const auto hello = bytes_of("hello");
    const auto started = host.port->connect(dpu.port->address(), hello, &initiator_user);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    ASSERT_TRUE(this->until([&] { return !host.seen.connected.empty(); }, host, dpu));
    ASSERT_EQ(dpu.seen.requests.size(), 1u);
    const auto& request = dpu.seen.requests[0];
    EXPECT_EQ(request.data, "hello");
    EXPECT_EQ(request.service, "");
    EXPECT_EQ(request.peer.side, Side::host);
    EXPECT_EQ(request.peer.function, this->traits.function(0));
    EXPECT_NE(request.peer.process_id, 0u);
    EXPECT_EQ(host.seen.connected[0], std::make_pair(*started, std::string("welcome")));
    EXPECT_EQ((*started)->user(), &initiator_user);
    EXPECT_EQ(request.connection->user(), &acceptor_user);
    EXPECT_TRUE((*started)->established());
    EXPECT_TRUE(request.connection->established());
    EXPECT_EQ((*started)->peer().side, Side::dpu);
    EXPECT_NE((*started)->peer().process_id, 0u);
    EXPECT_EQ((*started)->check(), Errc::ok);
}

TYPED_TEST_P(LinkContract, ConnectsByServiceName) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const ServiceName name{this->traits.function(0), "a service"};
    ASSERT_TRUE(dpu.port->listen(name).has_value());
    const auto started = host.port->connect(name, {}, nullptr);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    ASSERT_TRUE(this->until([&] { return !host.seen.connected.empty(); }, host, dpu));
    ASSERT_EQ(dpu.seen.requests.size(), 1u);
    EXPECT_EQ(dpu.seen.requests[0].service, "a service");
    EXPECT_EQ(dpu.seen.requests[0].function, name.function);
}

TYPED_TEST_P(LinkContract, AServiceNameIsUniquePerFunction) {
    auto one = this->open(Side::dpu);
    auto two = this->open(Side::dpu);
    const ServiceName name{this->traits.function(0), "name"};
    ASSERT_TRUE(one.port->listen(name).has_value());
    const auto again = two.port->listen(name);
    ASSERT_FALSE(again.has_value());
    EXPECT_EQ(again.error().code, Errc::in_use);
    EXPECT_FALSE(one.port->listen(name).has_value());
    EXPECT_TRUE(two.port->listen({this->traits.function(1), "name"}).has_value());
    EXPECT_TRUE(two.port->listen({this->traits.function(0), "Name"}).has_value());
    one.port->unlisten(name);
    EXPECT_TRUE(two.port->listen(name).has_value());
}

TYPED_TEST_P(LinkContract, NamesAndPrivateDataHaveALongestLength) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const FunctionId function = this->traits.function(0);
    const std::vector<std::byte> data(max_private_data + 1);
    const std::string longest(max_service_name, 'n');
    for (const std::string& name : {std::string(), longest + "n"}) {
        const auto listening = dpu.port->listen({function, name});
        ASSERT_FALSE(listening.has_value());
        EXPECT_EQ(listening.error().code, Errc::invalid_argument);
        const auto connecting = host.port->connect(ServiceName{function, name}, {}, nullptr);
        ASSERT_FALSE(connecting.has_value());
        EXPECT_EQ(connecting.error().code, Errc::invalid_argument);
    }
    const ServiceName name{function, longest};
    ASSERT_TRUE(dpu.port->listen(name).has_value());
    const auto refused = host.port->connect(name, data, nullptr);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::too_big);
    // What was refused is in nobody's way.
    const std::span<const std::byte> most = std::span(data).first(max_private_data);
    ASSERT_TRUE(host.port->connect(name, most, nullptr).has_value());
    ASSERT_TRUE(this->until([&] { return !host.seen.connected.empty(); }, host, dpu));
    ASSERT_EQ(dpu.seen.requests.size(), 1u);
    EXPECT_EQ(dpu.seen.requests[0].service, longest);
    EXPECT_EQ(dpu.seen.requests[0].data.size(), most.size());
}

TYPED_TEST_P(LinkContract, AClosedPortsNameIsFree) {
    const ServiceName name{this->traits.function(0), "name"};
    {
        auto one = this->open(Side::dpu);
        ASSERT_TRUE(one.port->listen(name).has_value());
    }
    auto two = this->open(Side::dpu);
    EXPECT_TRUE(two.port->listen(name).has_value());
}

TYPED_TEST_P(LinkContract, NobodyThereIsNotFound) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const ServiceName name{this->traits.function(0), "name"};
    ASSERT_TRUE(dpu.port->listen(name).has_value());
    dpu.port->unlisten(name);
    for (const ServiceName& wrong :
         {name, ServiceName{name.function, "nam"}, ServiceName{name.function, "name2"},
          ServiceName{this->traits.function(1), "name"}}) {
        host.seen.ends.clear();
        const auto started = host.port->connect(wrong, {}, nullptr);
        if (!started.has_value()) {
            EXPECT_EQ(started.error().code, Errc::not_found);
            continue;
        }
        ASSERT_TRUE(this->until([&] { return !host.seen.ends.empty(); }, host, dpu));
        EXPECT_EQ(host.seen.ends[0].reason, Reason::not_found);
        host.port->close(*started);
    }
    EXPECT_TRUE(dpu.seen.requests.empty());
    EXPECT_TRUE(host.seen.connected.empty());
}

TYPED_TEST_P(LinkContract, ARefusalSaysWhy) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    dpu.seen.decision = Errc::no_memory;
    dpu.seen.reply = "too many";
    const auto started = host.port->connect(dpu.port->address(), {}, nullptr);
    ASSERT_TRUE(started.has_value());
    EXPECT_EQ((*started)->send(1, bytes_of("goes nowhere")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return !host.seen.ends.empty(); }, host, dpu));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::rejected);
    EXPECT_EQ(host.seen.ends[0].data, "too many");
    EXPECT_TRUE(host.seen.connected.empty());
    host.port->close(*started);
    this->settle(host, dpu);
    EXPECT_EQ(host.seen.ends.size(), 1u);
    EXPECT_TRUE(dpu.seen.messages.empty());
    EXPECT_TRUE(dpu.seen.ends.empty());
}

TYPED_TEST_P(LinkContract, EarlySendsArriveInOrder) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto started = host.port->connect(dpu.port->address(), {}, nullptr);
    ASSERT_TRUE(started.has_value());
    for (std::uint8_t i = 0; i < 10; ++i) {
        EXPECT_EQ((*started)->send(i, pattern(i * 10u, i)), Errc::ok);
    }
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 10; }, host, dpu));
    for (std::uint8_t i = 0; i < 10; ++i) {
        EXPECT_EQ(dpu.seen.messages[i].id, i);
        EXPECT_EQ(dpu.seen.messages[i].bytes, pattern(i * 10u, i));
    }
}

TYPED_TEST_P(LinkContract, APortConnectsToItself) {
    auto port = this->open(Side::host);
    const auto pair = this->connect(port, port);
    ASSERT_NE(pair.acceptor, nullptr);
    ASSERT_NE(pair.acceptor, pair.initiator);
    EXPECT_EQ(pair.initiator->send(1, bytes_of("to")), Errc::ok);
    EXPECT_EQ(pair.acceptor->send(2, bytes_of("fro")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return port.seen.messages.size() == 2; }, port));
}

// ---- messages -----------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, MessagesOfAllSizesArriveWholeAndInOrder) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    ASSERT_NE(pair.acceptor, nullptr);
    std::vector<std::uint32_t> sizes{0, 1, 7, 8, 9, 47, 48, 49, 55, 56, 57, 63, 64, 65, 120, 121};
    for (std::uint32_t size = 128; size <= this->limits_.max_message; size *= 2) {
        sizes.insert(sizes.end(), {size - 1, size, size + 1});
    }
    sizes.insert(sizes.end(), {this->limits_.max_inline - 1, this->limits_.max_inline,
                               this->limits_.max_inline + 1, this->limits_.max_message - 1,
                               this->limits_.max_message});
    std::erase_if(sizes, [&](std::uint32_t size) { return size > this->limits_.max_message; });
    for (unsigned round = 0; round < 20; ++round) {
        host.seen.messages.clear();
        dpu.seen.messages.clear();
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const auto seed = static_cast<std::uint32_t>(i + round);
            const auto id = static_cast<std::uint8_t>(i);
            this->send(*pair.initiator, id, pattern(sizes[i], seed), host, dpu);
            this->send(*pair.acceptor, id, pattern(sizes[i], seed + 1), host, dpu);
        }
        ASSERT_TRUE(this->until(
            [&] {
                return dpu.seen.messages.size() == sizes.size() &&
                       host.seen.messages.size() == sizes.size();
            },
            host, dpu));
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const auto seed = static_cast<std::uint32_t>(i + round);
            ASSERT_EQ(dpu.seen.messages[i].id, static_cast<std::uint8_t>(i));
            ASSERT_EQ(dpu.seen.messages[i].bytes, pattern(sizes[i], seed)) << sizes[i];
            ASSERT_EQ(host.seen.messages[i].bytes, pattern(sizes[i], seed + 1)) << sizes[i];
        }
    }
}

TYPED_TEST_P(LinkContract, PackedMessagesMayTurnOutShorter) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const std::uint32_t max = this->limits_.max_message;
    const auto message = pattern(max / 3, 7);
    const auto length = static_cast<std::uint32_t>(message.size());
    EXPECT_EQ(pair.initiator->send_packed(9, max,
                                          [&](std::byte* to) {
                                              std::memcpy(to, message.data(), message.size());
                                              return length;
                                          }),
              length);
    EXPECT_EQ(pair.initiator->send_packed(10, max, [](std::byte*) { return 0u; }), 0);
    // As long as any, wherever its data begins.
    const auto longest = pattern(max, 8);
    for (const std::uint32_t data_at : {8u, 100u}) {
        EXPECT_EQ(pair.initiator->send_packed(
                      11, max,
                      [&](std::byte* to) {
                          std::memcpy(to, longest.data(), longest.size());
                          return max;
                      },
                      data_at),
                  max);
    }
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 4; }, host, dpu));
    EXPECT_EQ(dpu.seen.messages[2].bytes, longest);
    EXPECT_EQ(dpu.seen.messages[3].bytes, longest);
    EXPECT_EQ(dpu.seen.messages[0].bytes, message);
    EXPECT_TRUE(dpu.seen.messages[1].bytes.empty());
}

TYPED_TEST_P(LinkContract, TooLongIsRefused) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const std::vector<std::byte> longer(this->limits_.max_message + 1);
    EXPECT_EQ(pair.initiator->send(1, {longer.data(), this->limits_.max_inline + 1}),
              Errc::too_big);
    EXPECT_EQ(pair.initiator->send_ordered(1, longer), Errc::too_big);
    EXPECT_EQ(pair.initiator->sent(), 0u);
}

TYPED_TEST_P(LinkContract, AFullConnectionSaysAgainAndLosesNothing) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    for (const std::uint32_t size : {8u, this->limits_.max_inline}) {
        dpu.seen.messages.clear();
        std::uint64_t sent = 0;
        while (pair.initiator->send(1, pattern(size, static_cast<std::uint32_t>(sent))) ==
               Errc::ok) {
            ASSERT_LT(++sent, 10'000'000u);
        }
        EXPECT_GE(sent, 2u);
        EXPECT_EQ(pair.initiator->send(1, pattern(size, 0)), Errc::again);
        ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == sent; }, dpu));
        EXPECT_EQ(pair.initiator->send(1, pattern(size, static_cast<std::uint32_t>(sent))),
                  Errc::ok);
        ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == sent + 1; }, dpu));
        for (std::uint64_t i = 0; i <= sent; ++i) {
            ASSERT_EQ(dpu.seen.messages[i].bytes, pattern(size, static_cast<std::uint32_t>(i)));
        }
    }
}

TYPED_TEST_P(LinkContract, ConfirmedFollowsSent) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    EXPECT_EQ(pair.initiator->sent(), 0u);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
        EXPECT_EQ(pair.initiator->sent(), i);
    }
    ASSERT_EQ(pair.initiator->send_ordered(1, bytes_of("m")), Errc::ok);
    EXPECT_EQ(pair.initiator->sent(), 4u);
    EXPECT_EQ(pair.initiator->confirmed(), 0u) << "nobody has taken anything out";
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 4; }, dpu));
    ASSERT_TRUE(this->until([&] { return pair.initiator->confirmed() == 4; }, dpu, host));
}

TYPED_TEST_P(LinkContract, AnAnswerConfirmsWhatItAnswersIfAskedTo) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    std::size_t answers = 0;
    host.seen.on_message_hook = [&](auto& connection) {
        EXPECT_EQ(connection.confirmed(), ++answers) << "inside the handler of the answer";
    };
    std::size_t messages = 0;
    dpu.seen.on_message_hook = [&](auto& connection) {
        connection.confirm_received();
        EXPECT_EQ(connection.send(1, bytes_of("answer")), Errc::ok);
        // The answer is there before this handler has come to its end.
        ++messages;
        EXPECT_TRUE(this->until([&] { return answers == messages; }, host));
    };
    for (std::size_t i = 1; i <= 100; ++i) {
        ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
        ASSERT_TRUE(this->until([&] { return messages == i; }, dpu));
    }
}

TYPED_TEST_P(LinkContract, ArrivalOrderHoldsOverAllConnections) {
    auto dpu = this->open(Side::dpu, 0, {.face = "test", .arrival_order = true});
    std::vector<std::unique_ptr<typename LinkContract<TypeParam>::End>> hosts;
    std::vector<typename TypeParam::Link::Connection*> connections;
    for (unsigned i = 0; i < 3; ++i) {
        hosts.push_back(
            std::make_unique<typename LinkContract<TypeParam>::End>(this->open(Side::host, i % 2)));
        connections.push_back(this->connect(*hosts.back(), dpu).initiator);
    }
    std::vector<std::uint8_t> order;
    std::uint32_t state = 1;
    for (unsigned i = 0; i < 60; ++i) {
        state = state * 1664525u + 1013904223u;
        const auto from = static_cast<std::uint8_t>((state >> 24) % 3);
        order.push_back(from);
        ASSERT_EQ(connections[from]->send_ordered(from, pattern((state >> 16) % 200, i)), Errc::ok);
    }
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == order.size(); }, dpu));
    for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(dpu.seen.messages[i].id, order[i]) << "message " << i;
    }
}

// ---- the end ------------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, WhatWasSentBeforeACloseArrives) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    for (std::uint8_t i = 0; i < 20; ++i) {
        ASSERT_EQ(pair.initiator->send(i, pattern(100, i)), Errc::ok);
    }
    host.port->close(pair.initiator);
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu, host));
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(dpu.seen.ends[0].connection, pair.acceptor);
    ASSERT_EQ(dpu.seen.messages.size(), 20u);
    EXPECT_EQ(dpu.seen.ends[0].messages_before, 20u);
    this->settle(dpu, host);
    EXPECT_EQ(dpu.seen.ends.size(), 1u);
    EXPECT_TRUE(host.seen.ends.empty()) << "the closer is told nothing";
    EXPECT_NE(pair.acceptor->send(1, bytes_of("too late")), Errc::ok);
    EXPECT_NE(pair.acceptor->send(1, bytes_of("too late")), Errc::again);
    dpu.port->close(pair.acceptor);
}

TYPED_TEST_P(LinkContract, WhatWasSentBeforeAPortWentAwayArrives) {
    auto dpu = this->open(Side::dpu);
    {
        auto host = this->open(Side::host);
        const auto pair = this->connect(host, dpu);
        ASSERT_EQ(pair.initiator->send(1, bytes_of("last words")), Errc::ok);
    }
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu));
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(dpu.seen.ends[0].messages_before, 1u);
}

TYPED_TEST_P(LinkContract, TheAcceptorMayCloseToo) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    ASSERT_EQ(pair.acceptor->send(1, bytes_of("bye")), Errc::ok);
    dpu.port->close(pair.acceptor);
    ASSERT_TRUE(this->until([&] { return !host.seen.ends.empty(); }, host));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(host.seen.ends[0].messages_before, 1u);
}

TYPED_TEST_P(LinkContract, AnOrderlyEndTellsWhetherItLostWrites) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    alignas(8) std::array<std::byte, 64> memory{};
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    key.process_id ^= 1; // another process's, as far as short cuts are concerned
    const auto data = pattern(8, 3);
    unsigned lost = 0;
    unsigned kept = 0;
    for (const std::uint64_t link_data :
         {std::uint64_t{0}, this->traits.link_data(Side::dpu, key.region)}) {
        for (const bool is_put : {true, false}) {
            for (const std::string_view when : {"before it looks", "after a message that follows",
                                                "in the handler of that message"}) {
                SCOPED_TRACE(::testing::Message()
                             << (is_put ? "put" : "atomic") << ", the owner closes " << when
                             << (link_data != 0 ? "; a device may write" : ""));
                memory.fill(std::byte{0});
                const auto pair = this->connect(host, dpu);
                key.link_data = link_data;
                RemoteRegion region(key);
                const Errc started =
                    is_put
                        ? pair.initiator->put(data.data(), data.size(), region, key.base, nullptr)
                        : pair.initiator->atomic({AtomicOp::add, 8, 1}, region, key.base, nullptr);
                ASSERT_TRUE(started == Errc::ok || started == Errc::in_progress)
                    << to_string(started);
                for (unsigned i = 0; i < 2; ++i) {
                    ASSERT_EQ(pair.initiator->send(1, bytes_of("not a write")), Errc::ok);
                }
                bool told = false;
                host.seen.on_end_hook = [&](auto& connection) { told = connection.lost_writes(); };
                const std::size_t ends = host.seen.ends.size();
                bool closed = false;
                const auto close = [&](auto& connection) {
                    dpu.port->close(&connection);
                    closed = true;
                };
                if (when == "in the handler of that message") {
                    dpu.seen.on_message_hook = close;
                }
                if (when != "before it looks") {
                    const std::size_t before = dpu.seen.messages.size();
                    ASSERT_TRUE(
                        this->until([&] { return dpu.seen.messages.size() > before; }, dpu));
                }
                dpu.seen.on_message_hook = nullptr;
                if (!closed) {
                    close(*pair.acceptor);
                }
                ASSERT_TRUE(this->until([&] { return host.seen.ends.size() > ends; }, host, dpu));
                EXPECT_EQ(host.seen.ends.back().reason, Reason::closed);
                const bool written = memory[0] != std::byte{0};
                if (link_data != 0 && when == "before it looks") {
                    EXPECT_TRUE(told || written); // the peer cannot say what its device has done
                } else {
                    EXPECT_EQ(told, !written);
                }
                ++(written ? kept : lost);
            }
        }
    }
    EXPECT_GT(lost, 0u);
    EXPECT_GT(kept, 0u);
    host.seen.on_end_hook = nullptr;
    RegionTable::instance().remove(key.region);
}

TYPED_TEST_P(LinkContract, ASinkMayCloseTheConnectionAtHand) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    dpu.seen.on_message_hook = [&](auto& connection) {
        EXPECT_EQ(connection.send(2, bytes_of("reply")), Errc::ok);
        dpu.port->close(&connection);
        dpu.seen.on_message_hook = nullptr;
    };
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_EQ(pair.initiator->send(1, bytes_of("message")), Errc::ok);
    }
    ASSERT_TRUE(this->until([&] { return !host.seen.ends.empty(); }, host, dpu));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::closed);
    ASSERT_EQ(host.seen.messages.size(), 1u);
    EXPECT_EQ(text_of(host.seen.messages[0].bytes), "reply");
    this->settle(dpu, host);
    EXPECT_EQ(dpu.seen.messages.size(), 1u) << "nothing is reported of a closed connection";
    EXPECT_TRUE(dpu.seen.ends.empty());
}

TYPED_TEST_P(LinkContract, ADeathIsReportedOnceAndAfterWhatCameBefore) {
    auto dpu = this->open(Side::dpu);
    const PortAddress address = dpu.port->address();
    auto victim = this->traits.start_victim({.connect_to = address, .messages = 2});
    ASSERT_TRUE(this->until(
        [&] {
            victim->step();
            return dpu.seen.messages.size() == 2;
        },
        dpu));
    auto* const connection = dpu.seen.requests[0].connection;
    std::vector<std::byte> memory(64);
    const auto key = RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    ASSERT_TRUE(key.has_value());
    RemoteRegion region(*key);
    int token = 0;
    // The victim is not progressed here, or does not know the region: either way an answer comes
    // at the latest with its death.
    const Errc flushed = connection->flush(&token);
    victim->kill();
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu));
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::peer_died);
    if (flushed == Errc::in_progress) {
        ASSERT_EQ(dpu.seen.completions.size(), 1u);
        EXPECT_EQ(dpu.seen.ends[0].completions_before, 1u);
    }
    EXPECT_EQ(connection->check(), Errc::connection_reset);
    EXPECT_EQ(connection->send(1, bytes_of("x")), Errc::connection_reset);
    this->settle(dpu);
    EXPECT_EQ(dpu.seen.ends.size(), 1u);
    dpu.port->close(connection);
    RegionTable::instance().remove(key->region);
}

TYPED_TEST_P(LinkContract, EachOfSeveralDeathsAtOnceIsReported) {
    auto dpu = this->open(Side::dpu);
    const PortAddress address = dpu.port->address();
    std::vector<std::unique_ptr<typename TypeParam::Victim>> victims;
    for (unsigned i = 0; i < 4; ++i) {
        victims.push_back(this->traits.start_victim({.connect_to = address, .messages = 1}));
    }
    ASSERT_TRUE(this->until(
        [&] {
            for (const auto& victim : victims) {
                victim->step();
            }
            return dpu.seen.messages.size() == victims.size();
        },
        dpu));
    // One closes itself when it is told, another one that has not been told yet, and so on.
    std::vector<typename TestFixture::Connection*> open;
    for (const auto& request : dpu.seen.requests) {
        open.push_back(request.connection);
    }
    const auto close = [&](auto* connection) {
        std::erase(open, connection);
        dpu.port->close(connection);
    };
    dpu.seen.on_end_hook = [&](auto& connection) {
        close(&connection);
        if (dpu.seen.ends.size() == 1) {
            close(open.back());
        }
    };
    for (const auto& victim : victims) {
        victim->kill();
    }
    ASSERT_TRUE(this->until([&] { return open.empty(); }, dpu));
    this->settle(dpu);
    EXPECT_EQ(dpu.seen.ends.size(), 3u);
    for (const auto& end : dpu.seen.ends) {
        EXPECT_EQ(end.reason, Reason::peer_died);
    }
}

TYPED_TEST_P(LinkContract, ASleeperHearsOfADeathInTime) {
    auto dpu = this->open(Side::dpu);
    const PortAddress address = dpu.port->address();
    auto victim = this->traits.start_victim({.connect_to = address});
    ASSERT_TRUE(this->until(
        [&] {
            victim->step();
            return dpu.seen.requests.size() == 1;
        },
        dpu));
    this->settle(dpu);
    while (dpu.port->arm() != Errc::ok) {
        dpu.progress();
    }
    victim->kill();
    ASSERT_TRUE(this->sleep_on(dpu.port->event_fd()));
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu));
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::peer_died);
}

TYPED_TEST_P(LinkContract, WhatIsPostedIntoASleepEndsIt) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const auto fall_asleep = [&] {
        this->settle(host, dpu);
        return this->until([&] { return host.port->arm() == Errc::ok; }, host);
    };
    // A flush of a message that the peer takes out later.
    ASSERT_TRUE(fall_asleep());
    ASSERT_EQ(pair.initiator->send(1, bytes_of("into the sleep")), Errc::ok);
    int token = 0;
    ASSERT_EQ(pair.initiator->flush(&token), Errc::in_progress);
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 1; }, dpu));
    ASSERT_TRUE(this->sleep_on(host.port->event_fd()));
    host.progress();
    while (host.seen.completions.empty()) {
        ASSERT_TRUE(host.port->arm() != Errc::ok || this->sleep_on(host.port->event_fd()));
        host.progress();
        dpu.progress();
    }
    // What is refused.
    ASSERT_TRUE(fall_asleep());
    std::size_t sent = 1;
    while (pair.initiator->send(1, bytes_of("fills")) == Errc::ok) {
        ++sent;
    }
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == sent; }, dpu));
    ASSERT_TRUE(this->sleep_on(host.port->event_fd()));
    EXPECT_TRUE(this->until(
        [&] { return pair.initiator->send(1, bytes_of("fits again")) == Errc::ok; }, host));
    // What the port does not know of.
    ASSERT_TRUE(fall_asleep());
    host.port->wake();
    EXPECT_TRUE(this->sleep_on(host.port->event_fd()));
}

// ---- one-sided ----------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, PutGetAndAtomicsReachThePeersMemory) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    alignas(8) std::array<std::byte, 4096> memory{};
    const auto key = RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    ASSERT_TRUE(key.has_value());
    RemoteRegion region(*key);
    unsigned waiting = 0;
    int token = 0;
    const auto started = [&](Errc result) {
        ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress);
        waiting += result == Errc::in_progress ? 1 : 0;
    };
    const auto finish = [&] {
        EXPECT_TRUE(
            this->until([&] { return host.seen.completions.size() == waiting; }, host, dpu));
        for (const auto& completion : host.seen.completions) {
            EXPECT_EQ(completion.status, Errc::ok);
            EXPECT_EQ(completion.token, &token);
        }
        host.seen.completions.clear();
        waiting = 0;
    };

    const auto data = pattern(3000, 1);
    started(pair.initiator->put(data.data(), data.size(), region, key->base + 100, &token));
    started(pair.initiator->flush(&token));
    finish();
    EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 100));

    std::vector<std::byte> got(3000);
    started(pair.initiator->get(got.data(), got.size(), region, key->base + 100, &token));
    finish();
    EXPECT_EQ(got, data);

    const auto word = [&](std::size_t at) {
        std::uint64_t value = 0;
        std::memcpy(&value, memory.data() + at, sizeof(value));
        return value;
    };
    const std::uint64_t before = 0x1'0000'0005u;
    std::memcpy(memory.data() + 8, &before, sizeof(before));
    struct Case {
        AtomicRequest request;
        std::uint64_t after;
    };
    std::uint64_t old = 0;
    std::uint64_t expected_old = before;
    for (Case step :
         {Case{{AtomicOp::add, 8, 3}, 0x1'0000'0008u}, Case{{AtomicOp::bit_and, 8, 0xff}, 8},
          Case{{AtomicOp::bit_or, 8, 0x11}, 0x19}, Case{{AtomicOp::bit_xor, 8, 0x18}, 1},
          Case{{AtomicOp::swap, 8, 77}, 77}, Case{{AtomicOp::compare_swap, 8, 5, 1}, 77},
          Case{{AtomicOp::compare_swap, 8, 5, 77}, 5}}) {
        step.request.result = &old;
        started(pair.initiator->atomic(step.request, region, key->base + 8, &token));
        finish();
        EXPECT_EQ(old, expected_old);
        EXPECT_EQ(word(8), step.after);
        expected_old = step.after;
    }
    // 32 bits leave the neighbouring word alone; the result may be unwanted.
    const std::uint64_t full = 0xaaaaaaaa'ffffffffu;
    std::memcpy(memory.data() + 16, &full, sizeof(full));
    started(pair.initiator->atomic({AtomicOp::add, 4, 2}, region, key->base + 16, &token));
    started(pair.initiator->flush(&token));
    finish();
    EXPECT_EQ(word(16), 0xaaaaaaaa'00000001u);
    RegionTable::instance().remove(key->region);
}

TYPED_TEST_P(LinkContract, OneSidedOperationsCannotLeaveTheRegion) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    alignas(8) std::array<std::byte, 256> memory{};
    const auto key = RegionTable::instance().add(
        {.base = memory.data() + 64, .length = 64, .access = access_remote_read});
    ASSERT_TRUE(key.has_value());
    // A forged key: more bytes, and rights that were not given.
    RegionKey forged = *key;
    forged.base -= 64;
    forged.length = 256;
    forged.access = access_remote_all;
    RemoteRegion region(forged);
    const auto data = pattern(64, 3);
    std::vector<std::byte> got(256);
    unsigned refused = 0;
    const auto refuse = [&](Errc result) {
        if (result == Errc::in_progress) {
            const std::size_t before = host.seen.completions.size();
            ASSERT_TRUE(
                this->until([&] { return host.seen.completions.size() > before; }, host, dpu));
            result = host.seen.completions.back().status;
        }
        EXPECT_NE(result, Errc::ok);
        ++refused;
    };
    refuse(pair.initiator->put(data.data(), data.size(), region, key->base, nullptr));
    refuse(pair.initiator->get(got.data(), 65, region, key->base, nullptr));
    refuse(pair.initiator->get(got.data(), 1, region, key->base - 1, nullptr));
    refuse(pair.initiator->atomic({AtomicOp::add, 8, 1}, region, key->base, nullptr));
    RegionTable::instance().remove(key->region);
    refuse(pair.initiator->get(got.data(), 8, region, key->base, nullptr));
    EXPECT_EQ(refused, 5u);
    EXPECT_TRUE(
        std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TYPED_TEST_P(LinkContract, WhatIsPutAsACopyIsTheCallersAgainAtOnce) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const std::size_t longest = host.port->limits().max_message;
    std::vector<std::byte> memory(64 * longest); // more than any link takes at once
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    key.process_id ^= 1; // another process's, as far as short cuts are concerned
    RemoteRegion region(key);
    const auto data = pattern(memory.size(), 5);
    std::vector<std::byte> source(longest);
    for (std::size_t at = 0; at < data.size(); at += longest) {
        std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(at), longest, source.begin());
        Errc put = Errc::again;
        ASSERT_TRUE(this->until(
            [&] {
                if (put == Errc::again) {
                    put = pair.initiator->put_copy(source.data(), longest, region, key.base + at);
                }
                return put != Errc::again;
            },
            host, dpu));
        ASSERT_EQ(put, Errc::ok);
        std::fill(source.begin(), source.end(), std::byte{0});
    }
    Errc flushed = Errc::in_progress;
    ASSERT_TRUE(this->until(
        [&] {
            flushed = pair.initiator->flush(nullptr);
            return flushed != Errc::in_progress && flushed != Errc::again;
        },
        host, dpu));
    ASSERT_EQ(flushed, Errc::ok);
    EXPECT_TRUE(memory == data);
    EXPECT_TRUE(host.seen.completions.empty());
    RegionTable::instance().remove(key.region);
}

TYPED_TEST_P(LinkContract, AFlushDoesNotSayThatARefusedOperationIsDone) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    alignas(8) std::array<std::byte, 64> memory{};
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_read});
    RegionTable::instance().remove(key.region);
    key.access = access_remote_all;
    key.process_id ^= 1; // another process's, as far as short cuts are concerned
    const auto data = pattern(8, 3);
    for (const bool is_put : {true, false}) {
        for (unsigned calls = 0; calls < 8; ++calls) {
            SCOPED_TRACE(::testing::Message() << (is_put ? "put" : "atomic") << ", flushed after "
                                              << calls << " calls of the owner's progress");
            const auto pair = this->connect(host, dpu);
            RemoteRegion region(key);
            const Errc started =
                is_put ? pair.initiator->put(data.data(), data.size(), region, key.base, nullptr)
                       : pair.initiator->atomic({AtomicOp::add, 8, 1}, region, key.base, nullptr);
            ASSERT_TRUE(started == Errc::ok || started == Errc::in_progress) << to_string(started);
            for (unsigned i = 0; i < calls; ++i) {
                (void)dpu.progress();
            }
            const std::size_t before = host.seen.completions.size();
            const std::size_t ends = host.seen.ends.size();
            // The operation's own completion says so, or the connection's end.
            const auto refused = [&] {
                return host.seen.ends.size() > ends ||
                       std::any_of(host.seen.completions.begin() +
                                       static_cast<std::ptrdiff_t>(before),
                                   host.seen.completions.end(),
                                   [](const auto& c) { return c.status != Errc::ok; });
            };
            int token = 0;
            const Errc flushed = pair.initiator->flush(&token);
            if (flushed == Errc::ok) {
                EXPECT_TRUE(refused());
                continue;
            }
            ASSERT_TRUE(
                this->until([&] { return host.seen.completions.size() > before; }, host, dpu));
            EXPECT_NE(host.seen.completions[before].status, Errc::ok);
            ASSERT_TRUE(this->until([&] { return host.seen.completions.back().token == &token; },
                                    host, dpu));
        }
    }
    EXPECT_TRUE(
        std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TYPED_TEST_P(LinkContract, MessagesAroundALongPutArriveAlthoughItsConnectionIsClosed) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    std::vector<std::byte> memory(4u << 20);
    const auto source = pattern(memory.size(), 1);
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    key.link_data = this->traits.link_data(Side::dpu, key.region);
    RemoteRegion region(key);
    int token = 0;
    ASSERT_EQ(pair.initiator->send(1, bytes_of("before")), Errc::ok);
    const Errc put = pair.initiator->put(source.data(), source.size(), region, key.base, &token);
    EXPECT_TRUE(put == Errc::ok || put == Errc::in_progress);
    this->send(*pair.initiator, 2, bytes_of("behind"), host, dpu);
    const std::size_t completions = host.seen.completions.size();
    host.port->close(pair.initiator);
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu, host));
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(dpu.seen.messages.size(), 2u);
    EXPECT_EQ(host.seen.completions.size(), completions);
    RegionTable::instance().remove(key.region);
}

TYPED_TEST_P(LinkContract, ALongAnswerGoesOnWhileMessagesComeTheOtherWay) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const auto memory = pattern(2u << 20, 3);
    // Without the link's data: the peer's CPU answers, in parts.
    const auto key = *RegionTable::instance().add({.base = const_cast<std::byte*>(memory.data()),
                                                   .length = memory.size(),
                                                   .access = access_remote_all});
    RemoteRegion region(key);
    std::vector<std::byte> got(memory.size());
    int token = 0;
    const Errc result = pair.initiator->get(got.data(), got.size(), region, key.base, &token);
    ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress);
    std::atomic<bool> over{false};
    std::thread answering([&] {
        while (!over) {
            dpu.progress();
        }
    });
    std::size_t sent = 0;
    unsigned events = 0;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (result != Errc::ok && host.seen.completions.empty() &&
           std::chrono::steady_clock::now() < deadline) {
        events += host.progress();
        // So seldom that there is room for all of them, although a link may let them wait until the
        // answer is through.
        if (events >= 8) {
            events = 0;
            sent += pair.initiator->send(1, bytes_of("meanwhile")) == Errc::ok ? 1 : 0;
        }
    }
    over = true;
    answering.join();
    EXPECT_EQ(got, memory) << sent << " messages sent";
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == sent; }, host, dpu));
    RegionTable::instance().remove(key.region);
}

TYPED_TEST_P(LinkContract, AFlushComesAfterTheMessagesBefore) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    for (unsigned i = 0; i < 10; ++i) {
        ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
    }
    int token = 0;
    const Errc result = pair.initiator->flush(&token);
    ASSERT_EQ(result, Errc::in_progress) << "nobody has taken the messages out";
    this->settle(host);
    EXPECT_TRUE(host.seen.completions.empty());
    ASSERT_TRUE(this->until([&] { return !host.seen.completions.empty(); }, host, dpu));
    EXPECT_EQ(host.seen.completions[0].token, &token);
    EXPECT_EQ(host.seen.completions[0].status, Errc::ok);
    EXPECT_EQ(dpu.seen.messages.size(), 10u);
}

/// Credit that comes is no reason to try again for who waits for something else. Whoever tries
/// again while it may, without progress in between, would do so for ever.
TYPED_TEST_P(LinkContractOfQueues, CreditDoesNotCallWhoIsHeldBack) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    alignas(8) std::array<std::byte, 64> memory{};
    const auto key = RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    ASSERT_TRUE(key.has_value());
    RemoteRegion region(*key);
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
    }
    pair.initiator->hold(true);
    const auto attempts = {
        std::function<Errc()>([&] { return pair.initiator->send(1, bytes_of("late")); }),
        std::function<Errc()>(
            [&] { return pair.initiator->put("late", 4, region, key->base, nullptr); }),
        std::function<Errc()>([&] {
            return pair.initiator->atomic({AtomicOp::add, 8, 3}, region, key->base, nullptr);
        })};
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 20; }, dpu));
    this->settle(dpu); // returns the credit, which the other side has not looked at
    for (const auto& attempt : attempts) {
        EXPECT_EQ(attempt(), Errc::again);
        EXPECT_FALSE(pair.initiator->may_retry());
    }
    pair.initiator->hold(false);
    EXPECT_EQ(pair.initiator->send(1, bytes_of("late")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 21; }, dpu, host));
    RegionTable::instance().remove(key->region);
}

TYPED_TEST_P(LinkContract, AFlushOfAPeerThatIsBusyWithOthersEnds) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    auto other = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const auto busy = this->connect(other, dpu);
    ASSERT_EQ(pair.acceptor->send(1, bytes_of("one way")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return host.seen.messages.size() == 1; }, host, dpu));
    ASSERT_EQ(pair.initiator->send(1, bytes_of("and the other")), Errc::ok);
    int token = 0;
    ASSERT_EQ(pair.initiator->flush(&token), Errc::in_progress);
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 1; }, dpu));
    for (int i = 0; i < 200; ++i) {
        while (busy.initiator->send(2, {}) == Errc::again) {
            (void)dpu.progress();
            (void)other.progress();
        }
        (void)dpu.progress();
    }
    EXPECT_GT(dpu.seen.messages.size(), 1u);
    // It has said by now what it has taken.
    ASSERT_TRUE(this->until([&] { return !host.seen.completions.empty(); }, host));
    ASSERT_EQ(host.seen.completions.size(), 1u);
    EXPECT_EQ(host.seen.completions[0].token, &token);
    EXPECT_EQ(host.seen.completions[0].status, Errc::ok);
}

// ---- channels ----------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, ChannelsCarryMessagesBothWays) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = pair.acceptor->open_channel(0x1234567890abcdefu);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    ASSERT_EQ(opened->send(3, bytes_of("early")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return host.seen.channels.size() == 1; }, host, dpu));
    EXPECT_EQ(host.seen.channels[0].first, 0x1234567890abcdefu);
    EXPECT_EQ(host.seen.channel_connection, pair.initiator);
    auto& here = host.seen.channels[0].second;
    EXPECT_EQ(here.check(), Errc::ok);
    std::vector<std::string> got;
    const auto record = [&](std::uint8_t, const std::byte* data, std::uint32_t length) {
        got.push_back(text_of({data, length}));
        return true;
    };
    ASSERT_TRUE(this->until([&] { return here.poll(record, 16) + got.size() > 0; }, host, dpu));
    EXPECT_EQ(got, std::vector<std::string>{"early"});
    ASSERT_EQ(here.send(4, bytes_of("back")), Errc::ok);
    got.clear();
    ASSERT_TRUE(this->until([&] { return opened->poll(record, 16) + got.size() > 0; }, host, dpu));
    EXPECT_EQ(got, std::vector<std::string>{"back"});
    ASSERT_TRUE(this->until([&] {
        (void)opened->poll(record, 16);
        return here.confirmed() == here.sent();
    }));
    EXPECT_TRUE(dpu.seen.messages.empty() && host.seen.messages.empty());
}

TYPED_TEST_P(LinkContract, AMessageThatIsNotWantedYetIsNotOverwritten) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    const std::uint32_t length = this->limits_.max_message;
    std::uint32_t sent = 0;
    const auto send = [&] {
        const auto bytes = pattern(length, sent);
        const bool done =
            opened->send_packed(static_cast<std::uint8_t>(sent), length, [&](std::byte* to) {
                std::memcpy(to, bytes.data(), length);
                return length;
            }) == length;
        sent += done ? 1 : 0;
        return done;
    };
    std::uint32_t taken = 0;
    while (taken < 200) {
        // As many as there is room for, while the next one is looked at and left again and again.
        const std::uint32_t end = taken + 200;
        for (unsigned idle = 0; idle < 20 && sent < end;) {
            idle = send() ? 0 : idle + 1;
            (void)host.progress();
            (void)dpu.progress();
            (void)there.poll([](auto, auto, auto) { return false; }, 16);
        }
        const std::uint32_t before = taken;
        ASSERT_TRUE(this->until(
            [&] {
                (void)there.poll(
                    [&](std::uint8_t id, const std::byte* data, std::uint32_t got) {
                        EXPECT_EQ(id, static_cast<std::uint8_t>(taken));
                        EXPECT_EQ(std::vector<std::byte>(data, data + got), pattern(length, taken));
                        ++taken;
                        return true;
                    },
                    1);
                return taken - before == 7 || taken == sent;
            },
            host, dpu));
    }
}

TYPED_TEST_P(LinkContract, AChannelKeepsAMessageThatIsNotWantedYet) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    for (std::uint8_t i = 0; i < 3; ++i) {
        ASSERT_EQ(opened->send(i, pattern(100, i)), Errc::ok);
    }
    unsigned offered = 0;
    ASSERT_TRUE(this->until(
        [&] {
            EXPECT_EQ(there.poll(
                          [&](std::uint8_t id, const std::byte*, std::uint32_t) {
                              EXPECT_EQ(id, 0);
                              ++offered;
                              return false;
                          },
                          16),
                      0u);
            return offered == 3;
        },
        host, dpu)); // which may still have a part in connecting the channel
    EXPECT_EQ(opened->confirmed(), 0u);
    // Budget: no more than asked for.
    std::vector<std::uint8_t> ids;
    const auto take = [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
        EXPECT_EQ(std::vector<std::byte>(data, data + length), pattern(100, id));
        ids.push_back(id);
        return true;
    };
    EXPECT_EQ(there.poll(take, 2), 2u);
    // One is refused after two were taken: those two count as confirmed all the same.
    ASSERT_TRUE(this->until([&] {
        EXPECT_EQ(there.poll([](auto, auto, auto) { return false; }, 2), 0u);
        return opened->confirmed() == 2u;
    }));
    EXPECT_EQ(there.poll(take, 2), 1u);
    EXPECT_EQ(ids, (std::vector<std::uint8_t>{0, 1, 2}));
}

TYPED_TEST_P(LinkContract, RoomOnAChannelIsSeenByWhoDoesNotPollIt) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    const auto take = [](auto, auto, auto) { return true; };
    unsigned taken = 0;
    for (unsigned i = 0; i < 300; ++i) {
        ASSERT_TRUE(this->until(
            [&] {
                const Errc result = opened->send(1, bytes_of("one way"));
                EXPECT_TRUE(result == Errc::ok || result == Errc::again);
                return result != Errc::again;
            },
            host, dpu))
            << i;
        // Each is answered as soon as it is there, while there is room for answers.
        ASSERT_TRUE(this->until(
            [&] {
                taken += there.poll(take, 16);
                return taken == i + 1;
            },
            host, dpu));
        (void)there.send(2, bytes_of("unread"));
    }
}

TYPED_TEST_P(LinkContractOfWrites, WhatIsWrittenIsThereBeforeTheMessageThatSaysSo) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    constexpr std::uint32_t part = 20'000;
    auto from = pattern(2 * part, 1);
    std::vector<std::byte> to(2 * part);
    RegionTable& table = RegionTable::instance();
    const auto source = *table.add({.base = from.data(), .length = from.size(), .access = 0});
    const auto target =
        *table.add({.base = to.data(), .length = to.size(), .access = access_remote_write});
    std::uint32_t local_key = 0;
    std::uint64_t remote_key = 0;
    ASSERT_TRUE(opened->local_key(source.region, local_key));
    ASSERT_TRUE(there.remote_key(target.region, remote_key));
    const auto address = reinterpret_cast<std::uint64_t>(to.data());
    unsigned count = 0;
    for (unsigned round = 0; round < 100; ++round) {
        std::ranges::copy(pattern(2 * part, round), from.begin()); // where it is registered
        typename TypeParam::Link::Channel::Ticket ticket{};
        ASSERT_TRUE(this->until(
            [&] {
                return opened->write(from.data(), part, local_key, address, remote_key) == Errc::ok;
            },
            host, dpu));
        ASSERT_TRUE(this->until(
            [&] {
                return opened->write_and_send(from.data() + part, part - round, local_key,
                                              address + part, remote_key,
                                              static_cast<std::uint8_t>(round), ticket) == Errc::ok;
            },
            host, dpu));
        ASSERT_EQ(opened->send(200, bytes_of("by itself")), Errc::ok);
        ASSERT_TRUE(this->until(
            [&] {
                (void)there.poll(
                    [&](std::uint8_t id, const std::byte*, std::uint32_t length) {
                        const bool by_itself = count++ % 2 == 1;
                        EXPECT_EQ(id, by_itself ? 200 : round);
                        EXPECT_EQ(length, by_itself ? 9u : 0u);
                        EXPECT_EQ(there.written_length(), by_itself ? 0u : part - round);
                        EXPECT_TRUE(std::equal(from.begin(),
                                               from.end() - static_cast<std::ptrdiff_t>(round),
                                               to.begin()));
                        return true;
                    },
                    16);
                return count == 2 * (round + 1);
            },
            host, dpu));
        ASSERT_TRUE(this->until(
            [&] {
                (void)opened->poll([](auto, auto, auto) { return true; }, 1);
                return opened->written(ticket);
            },
            host, dpu));
    }
    table.remove(source.region);
    table.remove(target.region);
}

TYPED_TEST_P(LinkContractOfWrites, AMessageIsFetchedFromItsMemory) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    constexpr unsigned most = 10;
    constexpr std::size_t size = 4096;
    std::vector<std::byte> from(most * size);
    RegionTable& table = RegionTable::instance();
    const auto source = *table.add({.base = from.data(), .length = from.size(), .access = 0});
    std::uint32_t local_key = 0;
    ASSERT_TRUE(opened->local_key(source.region, local_key));
    typename TypeParam::Link::Channel::Ticket ticket{};
    unsigned taken = 0;
    const auto take = [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
        const std::size_t at = id * size;
        EXPECT_EQ(length, size - id);
        EXPECT_TRUE(std::equal(data, data + length, from.begin() + static_cast<long>(at)));
        ++taken;
        return true;
    };
    // (The first are sent before the channel is connected.)
    for (unsigned round = 0; round < 100; ++round) {
        const unsigned count = round % most + 1;
        const bool tell = round % 3 == 0;
        std::ranges::copy(pattern(count * size, round), from.begin());
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_TRUE(this->until(
                [&] {
                    return opened->send_from(static_cast<std::uint8_t>(i), from.data() + i * size,
                                             static_cast<std::uint32_t>(size - i), local_key, tell,
                                             false, ticket) == Errc::ok;
                },
                host, dpu));
        }
        ASSERT_TRUE(this->until(
            [&] {
                (void)there.poll(take, 16);
                return taken == count;
            },
            host, dpu)); // never by help of the channel's own end
        ASSERT_TRUE(tell || this->until([&] { return opened->tell_of(ticket); }, host, dpu));
        ASSERT_TRUE(this->until(
            [&] {
                (void)opened->poll([](auto, auto, auto) { return true; }, 1);
                return opened->written(ticket);
            },
            host, dpu));
        taken = 0;
    }
    table.remove(source.region);
}

TYPED_TEST_P(LinkContractOfWrites, WhatWaitsForMoreGoesOutInOrder) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    constexpr std::size_t size = 4096;
    const std::vector<std::byte> from = pattern(size, 7);
    RegionTable& table = RegionTable::instance();
    auto memory = from;
    const auto source = *table.add({.base = memory.data(), .length = size, .access = 0});
    std::uint32_t local_key = 0;
    ASSERT_TRUE(opened->local_key(source.region, local_key));
    typename TypeParam::Link::Channel::Ticket ticket{};
    unsigned sent = 0;
    unsigned taken = 0;
    // Built in place, from a send buffer, and fetched, of several lengths.
    const auto length_of = [](unsigned number) {
        constexpr std::uint32_t lengths[] = {1, 60, 200, 700, 3000, 4096, 0, 250, 2048};
        return lengths[number % std::size(lengths)];
    };
    const auto seed_of = [](unsigned number) { return static_cast<std::uint8_t>(number); };
    const auto send = [&](bool more) {
        const std::uint32_t length = length_of(sent);
        const std::uint8_t id = seed_of(sent);
        const auto fill = [&](std::byte* to) {
            if (length != 0) {
                std::memcpy(to, from.data(), length);
            }
        };
        const auto pack = [&](std::byte* to) {
            fill(to);
            return length;
        };
        const Errc result =
            length >= 2048
                ? opened->send_from(id, memory.data(), length, local_key, false, more, ticket)
            : length >= 250
                ? (opened->send_packed(id, length, pack, more) >= 0 ? Errc::ok : Errc::again)
            : length >= 200 ? opened->send_inline(id, length, fill, more)
                            : opened->send(id, std::span(from).first(length), more);
        sent += result == Errc::ok ? 1 : 0;
        return result == Errc::ok;
    };
    const auto take = [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
        EXPECT_EQ(id, seed_of(taken));
        EXPECT_EQ(length, length_of(taken));
        EXPECT_TRUE(std::equal(data, data + length, from.begin()));
        ++taken;
        return true;
    };
    const auto ignore = [](auto, auto, auto) { return true; };
    const auto arrives = [&] {
        return this->until(
            [&] {
                (void)there.poll(take, 16);
                return taken == sent;
            },
            host, dpu); // never by help of the channel's own end
    };
    // (The first are sent before the channel is connected.)
    for (unsigned round = 0; round < 200; ++round) {
        const unsigned count = round % 17;
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_TRUE(this->until([&] { return send(true); }, host, dpu));
        }
        switch (round % 4) {
        case 0:
            opened->ring();
            break;
        case 1:
            (void)opened->arm();
            break;
        case 2:
            (void)opened->tell_of(ticket);
            break;
        default:
            ASSERT_TRUE(this->until([&] { return send(false); }, host, dpu));
            break;
        }
        ASSERT_TRUE(arrives()) << taken << " of " << sent << " in round " << round;
        (void)opened->poll(ignore, 16);
    }
    // To the end of what may be under way: what is refused must have gone out.
    for (unsigned i = 0; i < 1000; ++i) {
        if (!send(true)) {
            ASSERT_TRUE(arrives()) << taken << " of " << sent;
        }
    }
    ASSERT_TRUE(this->until([&] { return opened->tell_of(ticket); }, host, dpu));
    ASSERT_TRUE(this->until(
        [&] {
            (void)there.poll(take, 16);
            (void)opened->poll(ignore, 16);
            return taken == sent && opened->written(ticket);
        },
        host, dpu));
    table.remove(source.region);
}

TYPED_TEST_P(LinkContractOfWrites, WhatWaitsForMoreArrivesAtAnOrderlyEndOnly) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto memory = pattern(4096, 7);
    RegionTable& table = RegionTable::instance();
    const auto source = *table.add({.base = memory.data(), .length = memory.size(), .access = 0});
    for (const bool orderly : {true, false}) {
        auto opened = this->open_channel(pair, host, dpu);
        ASSERT_TRUE(opened.has_value());
        auto& there = dpu.seen.channels.back().second;
        unsigned taken = 0;
        const auto take = [&](auto, auto, auto) {
            ++taken;
            return true;
        };
        ASSERT_EQ(opened->send(0, {}), Errc::ok); // connected from here on
        ASSERT_TRUE(this->until([&] { return there.poll(take, 16) == 1; }, host, dpu));
        std::uint32_t local_key = 0;
        ASSERT_TRUE(opened->local_key(source.region, local_key));
        typename TypeParam::Link::Channel::Ticket ticket{};
        const auto pack = [&](std::byte* to) {
            std::memcpy(to, memory.data(), 1000);
            return std::uint32_t{1000};
        };
        ASSERT_TRUE(this->until(
            [&] {
                return opened->send_from(1, memory.data(), 4096, local_key, true, true, ticket) ==
                       Errc::ok;
            },
            host, dpu));
        ASSERT_EQ(opened->send_packed(2, 1000, pack, true), 1000);
        ASSERT_EQ(opened->send_inline(
                      3, 0, [](auto) {}, true),
                  Errc::ok);
        if (!orderly) {
            opened->cut();
            EXPECT_TRUE(opened->settled(ticket));
        }
        opened = tl::unexpected(Error{});
        ASSERT_TRUE(this->until(
            [&] {
                (void)there.poll(take, 16);
                return there.check() != Errc::ok;
            },
            host, dpu));
        EXPECT_EQ(taken, orderly ? 4u : 1u);
    }
    table.remove(source.region);
}

TYPED_TEST_P(LinkContractOfWrites, APlaceIsNotClaimedAndWithdrawnBoth) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    this->send(*opened, 1, bytes_of("connected"), host, dpu);
    ASSERT_TRUE(this->until(
        [&] { return there.poll([](auto, auto, auto) { return true; }, 1) == 1; }, host, dpu));
    const auto withdraw = [&](std::uint64_t place) {
        std::optional<std::uint64_t> claimed;
        EXPECT_TRUE(this->until([&] {
            claimed = there.withdraw(place);
            return claimed.has_value();
        }));
        return claimed.value_or(0);
    };
    // One after the other.
    EXPECT_TRUE(opened->claim(1));
    EXPECT_EQ(withdraw(1), 1u);
    EXPECT_EQ(withdraw(2), 1u);
    EXPECT_FALSE(opened->claim(2));
    EXPECT_TRUE(opened->claim(3));
    // Several at once, of which some were claimed.
    EXPECT_TRUE(opened->claim(5));
    EXPECT_EQ(withdraw(8), 5u);
    EXPECT_FALSE(opened->claim(6));
    EXPECT_FALSE(opened->claim(8));
    EXPECT_TRUE(opened->claim(9));
    // And at the same time, over and over: the claimer a little earlier or later.
    constexpr std::uint64_t first = 10;
    constexpr std::uint64_t last = 1500;
    std::atomic<std::uint64_t> turn{first - 1};
    std::atomic<std::uint64_t> answered{first - 1};
    std::atomic<bool> claimed{false};
    std::thread claimer([&] {
        for (std::uint64_t place = first; place < last; ++place) {
            while (turn.load(std::memory_order_acquire) < place) {
                std::this_thread::yield();
            }
            for (std::uint64_t wait = 0; wait < place % 50 * 40; ++wait) {
                std::atomic_signal_fence(std::memory_order_seq_cst);
            }
            claimed.store(opened->claim(place), std::memory_order_relaxed);
            answered.store(place, std::memory_order_release);
        }
    });
    for (std::uint64_t place = first; place < last; ++place) {
        turn.store(place, std::memory_order_release);
        const bool withdrawn = withdraw(place) < place;
        while (answered.load(std::memory_order_acquire) < place) {
            std::this_thread::yield();
        }
        const bool was_claimed = claimed.load(std::memory_order_relaxed);
        EXPECT_FALSE(was_claimed && withdrawn) << place;
    }
    claimer.join();
}

TYPED_TEST_P(LinkContract, AChannelHasACounterForBufferStalls) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    EXPECT_EQ(opened->buffer_stalls().get(), 0u);
    opened->buffer_stalls().add(2);
    auto moved = std::move(*opened);
    moved.buffer_stalls().add(1);
    EXPECT_EQ(moved.buffer_stalls().get(), 3u);
    EXPECT_EQ(dpu.seen.channels[0].second.buffer_stalls().get(), 0u) << "each end has its own";
    dpu.port.reset();
    ASSERT_TRUE(this->until([&] { return moved.check() != Errc::ok; }, host));
    moved.buffer_stalls().add(1); // nobody asks first
    EXPECT_EQ(moved.buffer_stalls().get(), 4u);
}

TYPED_TEST_P(LinkContract, AChannelsEndIsSeenAfterItsMessages) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    ASSERT_EQ(opened->send(1, bytes_of("last")), Errc::ok);
    { auto gone = std::move(*opened); }
    unsigned taken = 0;
    ASSERT_TRUE(this->until(
        [&] {
            taken += there.poll([](auto, auto, auto) { return true; }, 16);
            return there.check() != Errc::ok;
        },
        host, dpu));
    EXPECT_EQ(taken, 1u);
    EXPECT_EQ(there.check(), Errc::not_connected);
    EXPECT_EQ(pair.acceptor->check(), Errc::ok) << "the connection lives on";
    EXPECT_TRUE(dpu.seen.ends.empty());
}

TYPED_TEST_P(LinkContract, AChannelOutlivesItsConnectionAsAnObject) {
    auto dpu = this->open(Side::dpu);
    std::optional<typename TypeParam::Link::Channel> ours;
    {
        auto host = this->open(Side::host);
        const auto pair = this->connect(host, dpu);
        auto opened = this->open_channel(pair, host, dpu);
        ASSERT_TRUE(opened.has_value());
        ours = std::move(*opened);
        host.port->close(pair.initiator);
    }
    EXPECT_NE(ours->check(), Errc::ok);
    const Errc late = ours->send(1, bytes_of("x"));
    EXPECT_TRUE(late == Errc::not_connected || late == Errc::connection_reset);
    ours.reset();
    auto& there = dpu.seen.channels[0].second;
    ASSERT_TRUE(this->until([&] { return there.check() != Errc::ok; }, dpu));
    ASSERT_TRUE(this->until([&] { return !dpu.seen.ends.empty(); }, dpu));
    dpu.port.reset();
    EXPECT_NE(there.check(), Errc::ok);
    dpu.seen.channels.clear();
}

TYPED_TEST_P(LinkContract, AChannelThatNobodyTookEndsInAnOrderlyWayToo) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = pair.initiator->open_channel(1);
    ASSERT_TRUE(opened.has_value());
    ASSERT_EQ(opened->send(1, bytes_of("unread")), Errc::ok);
    dpu.port.reset(); // it has not progressed, so it knows nothing of the channel
    Errc state = Errc::ok;
    ASSERT_TRUE(this->until([&] { return (state = opened->check()) != Errc::ok; }));
    EXPECT_EQ(state, Errc::not_connected);
    ASSERT_TRUE(this->until([&] { return !host.seen.ends.empty(); }, host));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::closed);
}

TYPED_TEST_P(LinkContract, AChannelsDeadPeerIsSeen) {
    auto dpu = this->open(Side::dpu);
    const PortAddress address = dpu.port->address();
    auto victim = this->traits.start_victim({.connect_to = address});
    ASSERT_TRUE(this->until(
        [&] {
            victim->step();
            return dpu.seen.requests.size() == 1;
        },
        dpu));
    auto channel = dpu.seen.requests[0].connection->open_channel(5);
    ASSERT_TRUE(channel.has_value());
    EXPECT_EQ(channel->check(), Errc::ok);
    victim->kill();
    ASSERT_TRUE(this->until([&] { return channel->check() == Errc::connection_reset; }));
}

TYPED_TEST_P(LinkContract, ChannelsRunOnThreadsOfTheirOwn) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    constexpr unsigned count = 3;
    constexpr std::uint32_t messages = 2000;
    const std::uint32_t max_inline = this->limits_.max_inline;
    const std::uint32_t max_message = this->limits_.max_message;
    std::atomic<unsigned> confirmed_all{0};
    std::vector<std::thread> threads;
    for (unsigned n = 0; n < count; ++n) {
        threads.emplace_back([&, n] {
            auto channel = pair.initiator->open_channel(n);
            ASSERT_TRUE(channel.has_value());
            for (std::uint32_t i = 0; i < messages;) {
                const std::uint32_t size = i % 50 == 49 ? max_message : i % (max_inline + 1);
                const auto message = pattern(size, i * count + n);
                const std::int64_t result =
                    size <= max_inline ? -static_cast<std::int64_t>(channel->send(1, message))
                                       : channel->send_packed(1, size, [&](std::byte* to) {
                                             std::memcpy(to, message.data(), size);
                                             return size;
                                         });
                if (result >= 0) {
                    ++i;
                } else {
                    ASSERT_EQ(static_cast<Errc>(-result), Errc::again);
                    std::this_thread::yield();
                }
            }
            const auto deadline = std::chrono::steady_clock::now() + patience;
            while (channel->confirmed() != messages) { // keep it open
                ASSERT_LT(std::chrono::steady_clock::now(), deadline);
                std::this_thread::yield();
            }
            confirmed_all.fetch_add(1);
        });
    }
    EXPECT_TRUE(this->until([&] { return dpu.seen.channels.size() == count; }, dpu, host));
    std::vector<std::thread> receivers;
    for (auto& opened : dpu.seen.channels) {
        receivers.emplace_back([&, n = static_cast<std::uint32_t>(opened.first)] {
            auto& channel = opened.second;
            std::uint32_t i = 0;
            const auto deadline = std::chrono::steady_clock::now() + patience;
            while (i < messages) {
                const unsigned got = channel.poll(
                    [&](std::uint8_t, const std::byte* data, std::uint32_t length) {
                        EXPECT_EQ(std::vector<std::byte>(data, data + length),
                                  pattern(length, i * count + n));
                        ++i;
                        return true;
                    },
                    16);
                if (got == 0) {
                    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
                    std::this_thread::yield();
                }
            }
            while (confirmed_all.load() != count) {
                (void)channel.poll([](auto, auto, auto) { return true; }, 1);
                ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            }
        });
    }
    for (std::thread& thread : receivers) {
        thread.join();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// ---- sleeping -----------------------------------------------------------------------------------

TYPED_TEST_P(LinkContract, SleepersLoseNoEvent) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    constexpr std::size_t rounds = 1000;
    // Each end answers a message with a message, and sleeps whenever it may.
    const auto play = [&](auto& end, auto* connection, bool serves) {
        if (serves) {
            EXPECT_EQ(connection->send(1, bytes_of("ping")), Errc::ok);
        }
        std::size_t answered = 0;
        while (answered < rounds) {
            if (end.progress() == 0 && answered == end.seen.messages.size()) {
                if (end.port->arm() == Errc::ok && !this->sleep_on(end.port->event_fd())) {
                    ADD_FAILURE() << "slept through message " << answered;
                    return;
                }
                continue;
            }
            while (answered < end.seen.messages.size()) {
                ++answered;
                if (!serves || answered < rounds) {
                    EXPECT_EQ(connection->send(1, bytes_of("ping")), Errc::ok);
                }
            }
        }
    };
    std::thread other([&] { play(dpu, pair.acceptor, false); });
    play(host, pair.initiator, true);
    other.join();
}

TYPED_TEST_P(LinkContract, SleepersOnChannelsLoseNoEvent) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    constexpr unsigned rounds = 1000;
    const auto play = [&](auto& channel, bool serves) {
        if (serves) {
            EXPECT_EQ(channel.send(1, bytes_of("ping")), Errc::ok);
        }
        for (unsigned answered = 0; answered < rounds;) {
            const unsigned got = channel.poll([](auto, auto, auto) { return true; }, 1);
            if (got == 0) {
                if (channel.arm() == Errc::ok && !this->sleep_on(channel.event_fd())) {
                    ADD_FAILURE() << "slept through message " << answered;
                    return;
                }
                continue;
            }
            ++answered;
            if (!serves || answered < rounds) {
                EXPECT_EQ(channel.send(1, bytes_of("ping")), Errc::ok);
            }
        }
    };
    std::thread other([&] { play(dpu.seen.channels[0].second, false); });
    play(*opened, true);
    other.join();
}

TYPED_TEST_P(LinkContract, AConnectRequestEndsASleep) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    this->settle(dpu);
    while (dpu.port->arm() != Errc::ok) {
        dpu.progress();
    }
    EXPECT_FALSE(this->readable(dpu.port->event_fd()));
    ASSERT_TRUE(host.port->connect(dpu.port->address(), {}, nullptr).has_value());
    EXPECT_TRUE(this->sleep_on(dpu.port->event_fd()));
    while (host.port->arm() != Errc::ok) {
        host.progress();
    }
    // The initiator progresses when it is woken, and only then: it may have a part in connecting.
    // Once the request is there it sleeps on: what it is woken by from then on is the answer.
    ASSERT_TRUE(this->until(
        [&] {
            if (!dpu.seen.requests.empty()) {
                return true;
            }
            if (this->readable(host.port->event_fd())) {
                do {
                    host.progress();
                } while (host.port->arm() != Errc::ok);
            }
            return false;
        },
        dpu));
    EXPECT_TRUE(this->sleep_on(host.port->event_fd())) << "so does the answer";
    ASSERT_TRUE(this->until([&] { return !host.seen.connected.empty(); }, host));
}

TYPED_TEST_P(LinkContract, RoomEndsTheSleepOfWhoWasToldAgain) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    const auto message = pattern(this->limits_.max_inline, 1);
    while (pair.initiator->send(1, message) == Errc::ok) {
    }
    while (host.port->arm() != Errc::ok) {
        host.progress();
    }
    ASSERT_TRUE(this->until([&] { return !dpu.seen.messages.empty(); }, dpu));
    this->settle(dpu);
    EXPECT_TRUE(this->sleep_on(host.port->event_fd()));
    ASSERT_TRUE(
        this->until([&] { return pair.initiator->send(1, message) == Errc::ok; }, host, dpu));
}

TYPED_TEST_P(LinkContract, ConfirmationEndsASleepIfAskedFor) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    this->settle(host, dpu);
    ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
    while (host.port->arm(true) != Errc::ok) {
        host.progress();
    }
    ASSERT_TRUE(this->until([&] { return !dpu.seen.messages.empty(); }, dpu));
    this->settle(dpu);
    EXPECT_TRUE(this->sleep_on(host.port->event_fd()));
    EXPECT_EQ(pair.initiator->confirmed(), 1u);
}

TYPED_TEST_P(LinkContract, AConfirmationThatNobodyHasSeenPreventsASleepIfAskedFor) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    ASSERT_EQ(pair.initiator->send(1, bytes_of("m")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return !dpu.seen.messages.empty(); }, dpu));
    this->settle(dpu);
    this->settle(host); // nothing else to be awake for
    EXPECT_EQ(host.port->arm(true), Errc::again);
    ASSERT_TRUE(this->until([&] { return host.port->arm(true) == Errc::ok; }));
    EXPECT_EQ(pair.initiator->confirmed(), 1u);
    EXPECT_EQ(host.port->arm(true), Errc::ok) << "it was no news";
}

TYPED_TEST_P(LinkContract, RoomOnAChannelEndsASleep) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    auto& there = dpu.seen.channels[0].second;
    const auto take = [](auto, auto, auto) { return true; };
    // A first message there and back: from then on only room can end the sleep.
    ASSERT_EQ(opened->send(1, bytes_of("first")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return there.poll(take, 1) == 1; }, host, dpu));
    ASSERT_EQ(there.send(1, bytes_of("back")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return opened->poll(take, 1) == 1; }, host, dpu));
    const auto message = pattern(this->limits_.max_inline, 1);
    while (opened->send(1, message) == Errc::ok) {
    }
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (opened->arm() != Errc::ok) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    while (there.poll(take, 16) != 0) {
    }
    EXPECT_TRUE(this->sleep_on(opened->event_fd()));
    EXPECT_EQ(opened->send(1, message), Errc::ok);
}

TYPED_TEST_P(LinkContract, RoomThatCameBeforeTheSleepPreventsIt) {
    auto dpu = this->open(Side::dpu);
    auto host = this->open(Side::host);
    const auto pair = this->connect(host, dpu);
    auto opened = this->open_channel(pair, host, dpu);
    ASSERT_TRUE(opened.has_value());
    this->settle(host, dpu);
    const auto message = pattern(this->limits_.max_inline, 1);
    while (pair.initiator->send(1, message) == Errc::ok) {
    }
    this->settle(dpu);
    this->settle(host); // nothing else to be awake for
    EXPECT_EQ(host.port->arm(), Errc::again) << "nobody will tell it a second time";
    while (opened->send(1, message) == Errc::ok) {
    }
    while (dpu.seen.channels[0].second.poll([](auto, auto, auto) { return true; }, 16) != 0) {
    }
    EXPECT_EQ(opened->arm(), Errc::again);
    // Once each: who has been told may sleep.
    ASSERT_TRUE(this->until([&] { return host.port->arm() == Errc::ok; }, host));
    ASSERT_TRUE(this->until([&] { return opened->arm() == Errc::ok; }));
}

TYPED_TEST_P(LinkContract, WhatAnotherThreadTakesEndsASleepAllTheSame) {
    const PortOptions shared{.face = "test", .shared = true};
    auto dpu = this->open(Side::dpu, 0, shared);
    auto host = this->open(Side::host, 0, shared);
    const auto pair = this->connect(host, dpu);
    // One thread arms and does not run before another has had its turns.
    const auto fall_asleep = [&](auto& end) {
        this->settle(host, dpu);
        return this->until([&] { return end.port->arm() == Errc::ok; }, end);
    };
    ASSERT_TRUE(fall_asleep(dpu));
    EXPECT_FALSE(this->readable(dpu.port->event_fd()));
    ASSERT_EQ(pair.initiator->send(1, bytes_of("a message")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 1; }, dpu));
    this->settle(dpu);
    EXPECT_TRUE(this->readable(dpu.port->event_fd()));
    // The other thread would have slept, too, but for a message.
    ASSERT_TRUE(fall_asleep(dpu));
    ASSERT_EQ(pair.initiator->send(1, bytes_of("one more")), Errc::ok);
    ASSERT_TRUE(this->until([&] { return dpu.port->arm() == Errc::again; }));
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == 2; }, dpu));
    this->settle(dpu);
    EXPECT_TRUE(this->readable(dpu.port->event_fd()));
    // Somebody connects.
    ASSERT_TRUE(fall_asleep(dpu));
    auto another = this->open(Side::host);
    (void)this->connect(another, dpu);
    this->settle(dpu, another);
    EXPECT_TRUE(this->readable(dpu.port->event_fd()));
    // Nobody answers, where that is not known at once.
    auto gone = this->open(Side::dpu);
    const PortAddress nobody = gone.port->address();
    gone.port.reset();
    if (host.port->connect(nobody, {}, nullptr).has_value()) {
        ASSERT_TRUE(this->until([&] {
            (void)host.port->arm();
            host.progress();
            return !host.seen.ends.empty();
        }));
        EXPECT_TRUE(this->readable(host.port->event_fd()));
    }
    // What the other thread posts is refused.
    ASSERT_TRUE(fall_asleep(host));
    std::size_t sent = 2;
    while (pair.initiator->send(1, bytes_of("fills")) == Errc::ok) {
        ++sent;
    }
    this->settle(host);
    ASSERT_TRUE(this->until([&] { return dpu.seen.messages.size() == sent; }, dpu));
    EXPECT_TRUE(this->sleep_on(host.port->event_fd()));
    EXPECT_TRUE(this->until(
        [&] { return pair.initiator->send(1, bytes_of("fits again")) == Errc::ok; }, host));
    // Who has armed since knows.
    ASSERT_TRUE(fall_asleep(dpu));
    EXPECT_FALSE(this->readable(dpu.port->event_fd()));
}

REGISTER_TYPED_TEST_SUITE_P(LinkContractOfQueues, CreditDoesNotCallWhoIsHeldBack);
REGISTER_TYPED_TEST_SUITE_P(LinkContractOfWrites, WhatIsWrittenIsThereBeforeTheMessageThatSaysSo,
                            AMessageIsFetchedFromItsMemory, WhatWaitsForMoreGoesOutInOrder,
                            WhatWaitsForMoreArrivesAtAnOrderlyEndOnly,
                            APlaceIsNotClaimedAndWithdrawnBoth);
REGISTER_TYPED_TEST_SUITE_P(
    LinkContract, WhatIsPutAsACopyIsTheCallersAgainAtOnce,
    AFlushDoesNotSayThatARefusedOperationIsDone, ConnectsByAddress, ConnectsByServiceName,
    AServiceNameIsUniquePerFunction, NamesAndPrivateDataHaveALongestLength, AClosedPortsNameIsFree,
    NobodyThereIsNotFound, ARefusalSaysWhy, EarlySendsArriveInOrder, APortConnectsToItself,
    MessagesOfAllSizesArriveWholeAndInOrder, PackedMessagesMayTurnOutShorter, TooLongIsRefused,
    AFullConnectionSaysAgainAndLosesNothing, ConfirmedFollowsSent,
    AnAnswerConfirmsWhatItAnswersIfAskedTo, ArrivalOrderHoldsOverAllConnections,
    WhatWasSentBeforeACloseArrives, WhatWasSentBeforeAPortWentAwayArrives, TheAcceptorMayCloseToo,
    AnOrderlyEndTellsWhetherItLostWrites, ASinkMayCloseTheConnectionAtHand,
    ADeathIsReportedOnceAndAfterWhatCameBefore, EachOfSeveralDeathsAtOnceIsReported,
    ASleeperHearsOfADeathInTime, WhatIsPostedIntoASleepEndsIt, PutGetAndAtomicsReachThePeersMemory,
    OneSidedOperationsCannotLeaveTheRegion,
    MessagesAroundALongPutArriveAlthoughItsConnectionIsClosed,
    ALongAnswerGoesOnWhileMessagesComeTheOtherWay, AFlushComesAfterTheMessagesBefore,
    AFlushOfAPeerThatIsBusyWithOthersEnds, ChannelsCarryMessagesBothWays,
    AMessageThatIsNotWantedYetIsNotOverwritten, AChannelKeepsAMessageThatIsNotWantedYet,
    RoomOnAChannelIsSeenByWhoDoesNotPollIt, AChannelHasACounterForBufferStalls,
    AChannelsEndIsSeenAfterItsMessages, AChannelOutlivesItsConnectionAsAnObject,
    AChannelThatNobodyTookEndsInAnOrderlyWayToo, AChannelsDeadPeerIsSeen,
    ChannelsRunOnThreadsOfTheirOwn, SleepersLoseNoEvent, SleepersOnChannelsLoseNoEvent,
    AConnectRequestEndsASleep, RoomEndsTheSleepOfWhoWasToldAgain, ConfirmationEndsASleepIfAskedFor,
    AConfirmationThatNobodyHasSeenPreventsASleepIfAskedFor, RoomOnAChannelEndsASleep,
    RoomThatCameBeforeTheSleepPreventsIt, WhatAnotherThreadTakesEndsASleepAllTheSame);

} // namespace comch::link::contract
