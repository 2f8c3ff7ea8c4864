// What happens when the link fails, and when the peer lies: over the fake link, at every step.

#include <chrono>
#include <random>

#include "core/channel/test_support.hpp"
#include "core/channel/tuning.hpp"
#include "core/channel/wire.hpp"
#include "core/link/fake/network_state.hpp"

namespace comch::channel::test {
namespace {

using link::Reason;
using link::fake::Transit;

/// Small, so that little traffic fills it and cuts messages into pieces.
constexpr link::fake::Settings tight{
    .limits = {.max_inline = 128, .max_message = 4096, .max_one_sided_in_flight = 16},
    .queue_depth = 6,
    .progress_budget = 4};

/// Ports are numbered in the order of opening.
const link::PortAddress server_port = link::fake::detail::address_of(1);
const link::PortAddress client_port = link::fake::detail::address_of(2);

/// Both sides talk in every way there is, in a script without chance.
class Scenario {
public:
    static constexpr unsigned messages = 6;

    Lab lab{true, tight};
    std::function<void()> between_turns;

    Scenario() {
        host_.name = "host";
        dpu_.name = "dpu";
    }

    /// Everything that may happen, and then the end. False if somebody is not idle then.
    [[nodiscard]] bool run(unsigned rounds = 400) {
        EXPECT_EQ(server_.open(lab, "name"), Errc::ok);
        client_.on_state = [&](State state) {
            if (state == State::running) {
                begin(host_, *client_.engine, client_.connection());
            }
        };
        server_.on_connected = [&](Connection& c) {
            if (dpu_.connection == nullptr) {
                begin(dpu_, *server_.engine, c);
            }
        };
        client_.on_added = [&](std::uint32_t id) { host_.target = id; };
        server_.on_added = [&](Connection&, std::uint32_t id) { dpu_.target = id; };
        if (client_.open(lab, "name") != Errc::ok) {
            return true; // a killed server's name is not there any more
        }
        for (unsigned round = 0; round < rounds; ++round) {
            turn();
        }
        end();
        for (unsigned round = 0; round < 200; ++round) {
            turn();
        }
        for (Half* half : {&host_, &dpu_}) {
            if (half->connection == nullptr) {
                continue;
            }
            EXPECT_EQ(half->producer.producer->state(), State::idle) << half->name;
            EXPECT_EQ(half->consumer.consumer->state(), State::idle) << half->name;
            EXPECT_EQ(half->producer.sent.size(), half->accepted)
                << half->name << ": each send is completed once";
            EXPECT_EQ(half->consumer.landed.size(), half->posted)
                << half->name << ": each buffer comes back once";
        }
        if (client_.client->state() != State::idle) {
            (void)client_.client->stop();
        }
        if (server_.server->state() != State::idle) {
            (void)server_.server->stop();
        }
        for (unsigned round = 0; round < 50; ++round) {
            turn();
        }
        EXPECT_EQ(server_.connected.size(), server_.disconnected.size());
        return client_.client->state() == State::idle && server_.server->state() == State::idle;
    }

    /// All that was sent on both sides has arrived whole.
    void expect_complete() const {
        for (const Half* half : {&host_, &dpu_}) {
            ASSERT_NE(half->connection, nullptr);
            EXPECT_EQ(half->accepted, messages);
            for (const auto& [cookie, status] : half->producer.sent) {
                EXPECT_EQ(status, Errc::ok);
            }
            unsigned whole = 0;
            for (const auto& landed : half->consumer.landed) {
                whole += landed.status == Errc::ok ? 1 : 0;
            }
            EXPECT_EQ(whole, messages);
            EXPECT_EQ(half->wrong, 0u);
        }
        EXPECT_EQ(client_.messages.size(), messages);
        EXPECT_EQ(server_.messages.size(), messages);
    }
    /// What arrived is what was sent first, in order and whole.
    void expect_no_wrong_data() const {
        EXPECT_EQ(host_.wrong, 0u);
        EXPECT_EQ(dpu_.wrong, 0u);
        for (unsigned i = 0; i < client_.messages.size(); ++i) {
            EXPECT_EQ(client_.messages[i], text(i));
        }
        for (unsigned i = 0; i < server_.messages.size(); ++i) {
            EXPECT_EQ(server_.messages[i].second, text(i));
        }
    }
    [[nodiscard]] const ClientProgram& client() const { return client_; }
    [[nodiscard]] const ServerProgram& server() const { return server_; }

private:
    struct Half {
        std::string name;
        Connection* connection = nullptr;
        std::uint32_t target = 0;
        unsigned accepted = 0;
        unsigned controls = 0;
        unsigned posted = 0;
        unsigned landed = 0;
        unsigned wrong = 0;
        std::deque<std::vector<std::byte>> data;
        std::deque<std::vector<std::byte>> buffers;
        std::deque<std::unique_ptr<MemoryMap>> maps; ///< of all data, and of every other buffer
        ConsumerProgram consumer;
        ProducerProgram producer;
    };

    [[nodiscard]] static std::string text(unsigned i) {
        return "control " + std::to_string(i) + std::string(i * 300, 'c');
    }
    [[nodiscard]] static std::size_t size(unsigned i) { return i % 3 == 2 ? 9000 : i * 60; }

    void begin(Half& half, ProgressEngine& engine, Connection& connection) {
        half.connection = &connection;
        EXPECT_EQ(half.consumer.open(engine, connection), Errc::ok);
        EXPECT_EQ(half.producer.open(engine, connection), Errc::ok);
        half.consumer.on_received = [&half](const Received& r) {
            if (r.status != Errc::ok) {
                return;
            }
            const unsigned i = half.landed++;
            const auto expected = pattern(size(i), i);
            const auto& buffer = *static_cast<std::vector<std::byte>*>(r.cookie);
            if (r.length != expected.size() ||
                !std::equal(expected.begin(), expected.end(), buffer.begin()) ||
                text_of(r.immediate) != std::string(i % 4, 'i')) {
                ++half.wrong;
            }
        };
    }

    void turn() {
        if (between_turns) {
            between_turns();
        }
        server_.engine->progress();
        act(dpu_);
        client_.engine->progress();
        act(host_);
    }

    void act(Half& half) {
        if (half.connection == nullptr) {
            return;
        }
        while (half.controls < messages &&
               half.connection->send(bytes_of(text(half.controls))) == Errc::ok) {
            ++half.controls;
        }
        if (half.posted < messages + 1 && half.consumer.consumer->state() == State::running) {
            auto& buffer = half.buffers.emplace_back(10'000);
            const MemoryMap* const map =
                half.buffers.size() % 2 == 0
                    ? half.maps.emplace_back(*MemoryMap::create(buffer, peer_write)).get()
                    : nullptr;
            if (half.consumer.consumer->post(
                    {.address = buffer.data(), .capacity = buffer.size(), .memory = map},
                    &buffer) == Errc::ok) {
                ++half.posted;
            }
        }
        if (half.accepted < messages && half.target != 0) {
            const std::string immediate(half.accepted % 4, 'i');
            auto& data = half.data.emplace_back(pattern(size(half.accepted), half.accepted));
            const MemoryMap* const map =
                data.empty() ? nullptr
                             : half.maps.emplace_back(*MemoryMap::create(data, local_read)).get();
            if (half.producer.producer->send(
                    half.target, {.data = data, .immediate = bytes_of(immediate), .memory = map},
                    nullptr) == Errc::ok) {
                ++half.accepted;
            } else {
                half.data.pop_back();
            }
        }
    }

    void end() {
        for (Half* half : {&host_, &dpu_}) {
            if (half->connection != nullptr) {
                (void)half->producer.producer->stop(); // unless its end has come by itself
                (void)half->consumer.consumer->stop();
            }
        }
    }

    ServerProgram server_;
    ClientProgram client_;
    Half host_;
    Half dpu_;
};

/// The number of sends in a scenario that nothing disturbs.
unsigned sends_in_a_scenario() {
    Scenario scenario;
    unsigned count = 0;
    scenario.lab.network->on_transit([&](Transit&) { ++count; });
    EXPECT_TRUE(scenario.run());
    scenario.expect_complete();
    EXPECT_EQ(scenario.client().client->outcome(), Errc::canceled);
    return count;
}

TEST(ChannelFaults, AnUndisturbedScenarioIsComplete) {
    EXPECT_GT(sends_in_a_scenario(), 50u);
}

TEST(ChannelFaults, AgainAtAnySendIsRetried) {
    const unsigned sends = sends_in_a_scenario();
    for (unsigned n = 1; n <= sends; ++n) {
        SCOPED_TRACE(n);
        Scenario scenario;
        scenario.lab.network->again_on_send(n);
        EXPECT_TRUE(scenario.run());
        if (!scenario.server().connected.empty()) {
            scenario.expect_complete();
        }
    }
}

TEST(ChannelFaults, ADeathAtAnyStepIsSurvived) {
    for (const link::PortAddress& victim : {server_port, client_port}) {
        unsigned deaths = 0;
        bool lived_on = false;
        for (unsigned n = 0; !lived_on; ++n) {
            SCOPED_TRACE(n);
            ASSERT_LT(n, 100'000u);
            Scenario scenario;
            scenario.lab.network->kill_after(victim, n);
            EXPECT_TRUE(scenario.run());
            scenario.expect_no_wrong_data();
            deaths += scenario.client().client->outcome() == Errc::connection_reset ? 1 : 0;
            for (const auto& [connection, reason] : scenario.server().disconnected) {
                deaths += reason == EndReason::peer_died ? 1 : 0;
            }
            lived_on = scenario.lab.network->kills() == 0;
        }
        EXPECT_GT(deaths, 100u);
    }
}

TEST(ChannelFaults, ADeviceErrorIsReported) {
    Scenario scenario;
    unsigned count = 0;
    link::fake::Network& network = *scenario.lab.network;
    bool failed = false;
    network.on_transit([&](Transit&) { failed = ++count == 40 || failed; });
    // The hook may not call the network: look from outside, between two turns.
    scenario.between_turns = [&] {
        if (failed) {
            network.disconnect(server_port, Reason::device_error);
        }
    };
    EXPECT_TRUE(scenario.run());
    scenario.expect_no_wrong_data();
    EXPECT_EQ(scenario.client().client->outcome(), Errc::connection_reset);
    ASSERT_EQ(scenario.server().disconnected.size(), 1u);
    EXPECT_EQ(scenario.server().disconnected[0].second, EndReason::device_error);
}

TEST(ChannelFaults, AServerWhoseDeviceIsGoneStops) {
    Lab lab(true, tight);
    ServerProgram server;
    ClientProgram client;
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && !client.states.empty(); }, server, client));
    while (server.engine->arm() != Errc::ok) {
        (void)server.engine->progress();
    }
    lab.network->lose_device(server_port);
    EXPECT_NE(server.engine->arm(), Errc::ok);
    ASSERT_TRUE(until([&] { return server.server->state() == State::idle; }, server, client));
    EXPECT_EQ(server.states, (std::vector<State>{State::stopping, State::idle}));
    ASSERT_EQ(server.disconnected.size(), 1u);
    EXPECT_EQ(server.disconnected[0].second, EndReason::device_error);
    EXPECT_EQ(server.server->stop().error().code, Errc::bad_state);
    ClientProgram another;
    ASSERT_EQ(another.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return another.client->state() == State::idle; }, another));
    EXPECT_EQ(another.client->outcome(), Errc::not_found);
    // And one that nobody was connected to.
    ServerProgram lonely;
    ASSERT_EQ(lonely.open(lab, "lonely"), Errc::ok);
    for (std::uint64_t number = 3; number < 8; ++number) {
        lab.network->lose_device(link::fake::detail::address_of(number));
    }
    EXPECT_TRUE(until([&] { return lonely.server->state() == State::idle; }, lonely));
}

TEST(ChannelFaults, TheRestOfARefusedMessageIsNotSent) {
    unsigned parts = 0;
    Lab lab(true, tight);
    ServerProgram server;
    ClientProgram client;
    ConsumerProgram consumer;
    ProducerProgram producer;
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && !client.states.empty(); }, server, client));
    ASSERT_EQ(consumer.open(*client.engine, client.connection()), Errc::ok);
    ASSERT_TRUE(until([&] { return !server.added.empty(); }, server, client));
    ASSERT_EQ(producer.open(*server.engine, *server.connected[0]), Errc::ok);
    std::vector<std::byte> big(10);
    std::vector<std::byte> small(9);
    ASSERT_EQ(consumer.post(big), Errc::ok);
    ASSERT_EQ(consumer.post(small), Errc::ok);
    settle(server, client);
    lab.network->on_transit([&](Transit& transit) {
        parts += transit.channel && transit.id == static_cast<std::uint8_t>(wire::FastPath::part);
    });
    // Which buffer is next is not known while the first message is under way.
    const std::vector<std::byte> megabyte(1 << 20);
    ASSERT_EQ(producer.send(consumer.consumer->id(), bytes_of("first")), Errc::ok);
    ASSERT_EQ(producer.send(consumer.consumer->id(), megabyte), Errc::ok);
    ASSERT_TRUE(until([&] { return producer.sent.size() == 2; }, server, client));
    EXPECT_EQ(producer.sent[1].second, Errc::invalid_argument);
    EXPECT_LT(parts, 64u) << "of 256";
}

TEST(ChannelFaults, DelaysChangeNothing) {
    for (const link::PortAddress& slow : {server_port, client_port}) {
        for (unsigned period = 2; period < 20; ++period) {
            SCOPED_TRACE(period);
            Scenario scenario;
            link::fake::Network& network = *scenario.lab.network;
            unsigned turns = 0;
            scenario.between_turns = [&] {
                if (turns++ % period == 0) {
                    network.release(slow);
                } else {
                    network.hold(slow);
                }
            };
            EXPECT_TRUE(scenario.run(8000));
            scenario.expect_complete();
        }
    }
}

// ---- bytes that no correct peer sends -----------------------------------------------------------

TEST(ChannelFaults, AnyCorruptedByteIsSurvived) {
    const unsigned sends = sends_in_a_scenario();
    for (unsigned n = 1; n <= sends; ++n) {
        for (const std::size_t offset : {0u, 1u, 4u, 8u, 12u, 16u, 20u, 40u}) {
            for (const std::byte mask : {std::byte{0x01}, std::byte{0xff}}) {
                SCOPED_TRACE(testing::Message() << "send " << n << ", byte " << offset);
                Scenario scenario;
                scenario.lab.network->corrupt_send(n, offset, mask);
                EXPECT_TRUE(scenario.run(60));
            }
        }
    }
}

TEST(ChannelFaults, RandomNonsenseIsSurvived) {
    for (unsigned seed = 0; seed < 400; ++seed) {
        SCOPED_TRACE(seed);
        Scenario scenario;
        std::mt19937 random(seed);
        scenario.lab.network->on_transit([&](Transit& transit) {
            if (random() % 12 != 0) {
                return;
            }
            switch (random() % 4) {
            case 0:
                transit.id = static_cast<std::uint8_t>(random() % 40);
                break;
            case 1:
                transit.bytes.resize(random() % 100);
                break;
            case 2:
                transit.bytes.resize(4096);
                break;
            default:
                for (std::byte& b : transit.bytes) {
                    b = static_cast<std::byte>(random());
                }
                break;
            }
        });
        EXPECT_TRUE(scenario.run(60));
    }
}

/// A peer that speaks the link's language and whatever else a test wants.
struct RawPeer {
    using Link = link::fake::Link;

    link::ConnectDecision on_connect_request(Link::Connection& c, const link::ConnectRequest&) {
        connection = &c;
        return {.reply = reply};
    }
    void on_connected(Link::Connection&, std::span<const std::byte> data) {
        connected = true;
        answer.assign(data.begin(), data.end());
    }
    void on_disconnected(Link::Connection&, Reason why, std::span<const std::byte> data) {
        ended = why;
        answer.assign(data.begin(), data.end());
        connection = nullptr;
    }
    void on_message(Link::Connection&, std::uint8_t, const std::byte*, std::uint32_t) {
        ++messages;
    }
    void on_complete(Link::Connection&, void*, Errc) {}
    void on_channel(Link::Connection&, std::uint64_t tag, Link::Channel&& channel) {
        channels.emplace_back(tag, std::move(channel));
    }

    std::unique_ptr<link::fake::Port> port;
    Link::Connection* connection = nullptr;
    bool connected = false;
    std::optional<Reason> ended;
    unsigned messages = 0;
    std::vector<std::byte> answer;
    std::vector<std::byte> reply;
    std::vector<std::pair<std::uint64_t, Link::Channel>> channels;
};
unsigned step(RawPeer& peer) {
    return peer.port->progress(peer);
}

template <class T> std::vector<std::byte> bytes_with(const T& head, std::string_view tail = {}) {
    const auto front = wire::as_bytes(head);
    std::vector<std::byte> bytes(front.begin(), front.end());
    const auto back = bytes_of(tail);
    bytes.insert(bytes.end(), back.begin(), back.end());
    return bytes;
}

class Hostile : public ::testing::Test {
protected:
    Lab lab{true};
    ServerProgram server;
    ClientProgram bystander; ///< must not be disturbed by anything
    RawPeer peer;

    void SetUp() override {
        ASSERT_EQ(server.open(lab, "name"), Errc::ok);
        ASSERT_EQ(bystander.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until([&] { return server.connected.size() == 1; }, server, bystander));
    }
    void TearDown() override {
        ASSERT_EQ(bystander.connection().send(bytes_of("undisturbed")), Errc::ok);
        ASSERT_TRUE(until(
            [&] {
                return !server.messages.empty() && server.messages.back().second == "undisturbed";
            },
            server, bystander));
        EXPECT_EQ(bystander.client->state(), State::running);
    }
    void knock(std::span<const std::byte> hello, std::size_t function = 0) {
        peer = {};
        peer.port = *link::fake::Port::open(lab.hosts[function], {.face = "test"});
        const link::ServiceName name{lab.hosts[0].function().id, "name"};
        peer.connection = *peer.port->connect(name, hello, nullptr);
        ASSERT_TRUE(until([&] { return peer.connected || peer.ended.has_value(); }, server, peer));
    }
    static std::vector<std::byte> good_hello() {
        return bytes_with(wire::Hello{.recv_queue = 100});
    }
    /// Connected as a correct client would be.
    void enter() {
        knock(good_hello());
        ASSERT_TRUE(peer.connected);
        ASSERT_TRUE(until([&] { return server.server->connections().size() == 2; }, server, peer));
    }
    void say(wire::Control id, std::span<const std::byte> bytes) {
        ASSERT_EQ(peer.connection->send(static_cast<std::uint8_t>(id), bytes), Errc::ok);
    }
    void note(wire::Control id, std::uint32_t consumer, std::uint32_t posted = 0) {
        say(id, bytes_with(wire::ConsumerNote{.consumer = consumer, .posted = posted}));
    }
    /// The server has had enough of it, and of nobody else.
    void expect_thrown_out() {
        ASSERT_TRUE(until([&] { return server.server->connections().size() == 1; }, server, peer));
        ASSERT_TRUE(until([&] { return !server.disconnected.empty(); }, server, peer));
        EXPECT_EQ(server.disconnected.back().second, EndReason::protocol_error);
        ASSERT_TRUE(until([&] { return peer.ended.has_value(); }, server, peer));
        server.disconnected.clear();
        peer = {};
    }
};

TEST_F(Hostile, BadRequestsAreRefused) {
    struct Case {
        std::vector<std::byte> hello;
        Refusal refusal;
        std::size_t function = 0;
    };
    const wire::Hello good{.recv_queue = 100};
    const auto with = [&](auto change) {
        wire::Hello hello = good;
        change(hello);
        return bytes_with(hello);
    };
    for (const Case& c : {
             Case{{}, Refusal::malformed},
             Case{std::vector<std::byte>(15), Refusal::malformed},
             Case{bytes_with(good, "surplus"), Refusal::malformed},
             Case{with([](auto& h) { h.magic ^= 1; }), Refusal::malformed},
             Case{with([](auto& h) { h.data_length = 1; }), Refusal::malformed},
             Case{with([](auto& h) { h.data_length = 65535; }), Refusal::malformed},
             Case{with([](auto& h) { h.recv_queue = 0; }), Refusal::malformed},
             Case{with([](auto& h) { h.version = 99; }), Refusal::malformed},
             Case{with([](auto& h) { h.message_size = 1u << 30; }), Refusal::message_size},
             Case{bytes_with(good), Refusal::wrong_function, 1},
         }) {
        server.refused.clear();
        knock(c.hello, c.function);
        EXPECT_FALSE(peer.connected);
        EXPECT_EQ(server.refused, std::vector<Refusal>{c.refusal});
        const auto welcome = wire::read<wire::Welcome>(peer.answer);
        ASSERT_TRUE(welcome.has_value());
        EXPECT_EQ(welcome->magic, wire::magic);
        EXPECT_EQ(welcome->version, wire::version);
        EXPECT_EQ(welcome->refusal, static_cast<std::uint8_t>(c.refusal));
    }
}

TEST_F(Hostile, BadControlMessagesEndTheConnection) {
    const std::string too_long(limits::message_size + 1, 'x');
    const std::function<void()> crimes[] = {
        [&] { say(wire::Control{0}, {}); },
        [&] { say(wire::Control{77}, bytes_of(std::string(16, '\0'))); },
        [&] { (void)peer.connection->send_ordered(1, bytes_of(too_long)); },
        [&] { say(wire::Control::welcome, bytes_with(wire::Welcome{})); },
        [&] { say(wire::Control::consumer_added, bytes_of("short")); },
        [&] { note(wire::Control::consumer_added, 0); },
        [&] { note(wire::Control::consumer_added, 2); }, // the server's parity
        [&] {
            note(wire::Control::consumer_added, 3);
            note(wire::Control::consumer_added, 3);
        },
        [&] {
            note(wire::Control::consumer_added, 3);
            note(wire::Control::consumer_removed, 3);
            note(wire::Control::consumer_added, 3); // never used again
        },
        [&] {
            note(wire::Control::consumer_added, 0xffffffff); // far more than are remembered
            note(wire::Control::consumer_added, 1);
        },
        [&] { note(wire::Control::consumer_removed, 1); },
        [&] { note(wire::Control::consumer_posted, 1, 1); },
        [&] {
            note(wire::Control::consumer_added, 1);
            note(wire::Control::consumer_posted, 1, 0);
        },
        [&] {
            note(wire::Control::consumer_added, 1);
            note(wire::Control::consumer_posted, 1, 1);
            note(wire::Control::consumer_posted, 1, 1);
        },
    };
    for (const auto& crime : crimes) {
        enter();
        crime();
        expect_thrown_out();
    }
}

TEST_F(Hostile, AFloodOfConsumersEndsTheConnection) {
    enter();
    std::uint32_t id = 1;
    ASSERT_TRUE(until(
        [&] {
            if (peer.connection == nullptr) {
                return true;
            }
            (void)peer.connection->send(static_cast<std::uint8_t>(wire::Control::consumer_added),
                                        bytes_with(wire::ConsumerNote{.consumer = id}));
            id += 2;
            return peer.ended.has_value();
        },
        server, peer));
    EXPECT_LE(server.added.size(), limits::consumers_per_connection);
    EXPECT_EQ(server.server->connections().size(), 1u);
}

TEST_F(Hostile, BadProducersEndTheConnection) {
    const auto record = [](auto id, std::span<const std::byte> bytes) {
        return std::make_pair(static_cast<std::uint8_t>(id),
                              std::vector<std::byte>(bytes.begin(), bytes.end()));
    };
    using Records = std::vector<std::pair<std::uint8_t, std::vector<std::byte>>>;
    wire::Immediate long_immediate;
    long_immediate.length = 33;
    wire::Start long_start{.length = 10, .immediate = {}};
    long_start.immediate.length = 33;
    const wire::Start start{.length = 10, .immediate = {}};
    const auto starts = [](std::size_t count, const wire::Start& last) {
        std::vector<std::byte> bytes;
        for (std::size_t i = 1; i <= count; ++i) {
            const auto one =
                bytes_with(i != count ? wire::Start{.length = 10, .immediate = {}} : last);
            bytes.insert(bytes.end(), one.begin(), one.end());
        }
        return bytes;
    };
    std::vector<std::byte> ragged = starts(2, start);
    ragged.pop_back();
    const std::string eleven(11, 'x');
    const Records crimes[] = {
        {record(0, {})},
        {record(99, {})},
        {record(wire::FastPath::with_immediate, bytes_of("short"))},
        {record(wire::FastPath::with_immediate, bytes_with(long_immediate))},
        {record(wire::FastPath::part, {})},
        {record(wire::FastPath::cancel, {})},
        {record(wire::FastPath::start, bytes_of("short"))},
        {record(wire::FastPath::start, bytes_with(long_start))},
        {record(wire::FastPath::start, bytes_with(wire::Start{}))},
        {record(wire::FastPath::start, bytes_with(start)),
         record(wire::FastPath::start, bytes_with(start))},
        {record(wire::FastPath::start, bytes_with(start)),
         record(wire::FastPath::plain, bytes_of("x"))},
        {record(wire::FastPath::start, bytes_with(start)),
         record(wire::FastPath::part, bytes_of(eleven))},
        {record(wire::FastPath::offer, bytes_of("short"))},
        {record(wire::FastPath::offer, bytes_with(long_start))},
        {record(wire::FastPath::offer, bytes_with(wire::Start{}))},
        {record(wire::FastPath::offer, {})},
        {record(wire::FastPath::offer, ragged)},
        {record(wire::FastPath::offer, starts(2, wire::Start{}))},
        {record(wire::FastPath::offer, starts(2, long_start))},
        {record(wire::FastPath::offer, starts(3, start))}, // more than it may post
        {record(wire::FastPath::filled, {})},
        {record(wire::FastPath::placed, {})}, // no place was told
        {record(wire::FastPath::placing, bytes_with(start))},
        // The buffer is not from a memory map: what is offered has to come in parts.
        {record(wire::FastPath::offer, bytes_with(start)), record(wire::FastPath::filled, {})},
        {record(wire::FastPath::offer, bytes_with(start)),
         record(wire::FastPath::plain, bytes_of("x"))},
        {record(wire::FastPath::offer, bytes_with(start)),
         record(wire::FastPath::start, bytes_with(start))},
        {record(wire::FastPath::offer, bytes_with(start)),
         record(wire::FastPath::part, bytes_of(eleven))},
        {record(wire::FastPath::offer, bytes_with(start)), record(wire::FastPath::part, {}),
         record(wire::FastPath::offer, bytes_with(start))},
        Records(3, record(wire::FastPath::offer, bytes_with(start))), // more than it may post
    };
    for (const Records& crime : crimes) {
        enter();
        ConsumerProgram consumer;
        Connection* const connection = server.connected.back();
        ASSERT_EQ(consumer.open(*server.engine, *connection, {.max_posted = 2}), Errc::ok);
        ASSERT_TRUE(
            until([&] { return consumer.consumer->state() == State::running; }, server, peer));
        std::vector<std::byte> buffer(100);
        ASSERT_EQ(consumer.post(buffer), Errc::ok);
        auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
        ASSERT_TRUE(channel.has_value());
        for (const auto& [id, bytes] : crime) {
            ASSERT_EQ(channel->send(id, bytes), Errc::ok);
        }
        expect_thrown_out();
        ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server));
        ASSERT_EQ(consumer.landed.size(), 1u);
        EXPECT_EQ(consumer.landed[0].status, Errc::connection_reset);
    }
}

TEST_F(Hostile, MoreOffersThanARecordHoldsEndTheConnection) {
    for (const std::size_t count : {wire::most_at_once, wire::most_at_once + 1}) {
        enter();
        ConsumerProgram consumer;
        Connection* const connection = server.connected.back();
        ASSERT_EQ(consumer.open(*server.engine, *connection), Errc::ok);
        ASSERT_TRUE(
            until([&] { return consumer.consumer->state() == State::running; }, server, peer));
        auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
        ASSERT_TRUE(channel.has_value());
        const std::vector<wire::Start> starts(count, {.length = 10, .immediate = {}});
        ASSERT_EQ(channel->send(static_cast<std::uint8_t>(wire::FastPath::offer),
                                std::as_bytes(std::span(starts))),
                  Errc::ok);
        if (count > wire::most_at_once) {
            expect_thrown_out();
        } else {
            settle(server, peer);
            EXPECT_EQ(consumer.consumer->state(), State::running);
        }
    }
}

TEST_F(Hostile, AProducerThatKeepsItsPlacesDoesNotKeepAConsumer) {
    // It never looks at what it is told, until there is no room to tell it more.
    enter();
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*server.engine, *server.connected.back()), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, server, peer));
    auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
    ASSERT_TRUE(channel.has_value());
    std::vector<std::byte> memory(100);
    const auto map = *MemoryMap::create(memory, peer_write);
    for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_EQ(consumer.consumer->post(
                      {.address = &memory[i], .capacity = 1, .memory = map.get()}, nullptr),
                  Errc::ok);
        const auto offer = bytes_with(wire::Start{.length = 1, .immediate = {}});
        ASSERT_TRUE(until(
            [&] {
                return channel->send(static_cast<std::uint8_t>(wire::FastPath::offer), offer) ==
                       Errc::ok;
            },
            server, peer));
    }
    settle(server, peer);
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, peer));
    EXPECT_EQ(consumer.landed.size(), 100u);
}

TEST_F(Hostile, WhatWaitsForABufferGetsTheNextOne) {
    // It was sent without credit; so the next buffer is not to be told to its producer as the place
    // of a message behind it.
    enter();
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*server.engine, *server.connected.back()), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, server, peer));
    std::vector<std::byte> memory(200);
    const auto map = *MemoryMap::create(memory, peer_write);
    const auto post = [&](std::size_t i) {
        ASSERT_EQ(consumer.consumer->post(
                      {.address = memory.data() + 100 * i, .capacity = 100, .memory = map.get()},
                      nullptr),
                  Errc::ok);
    };
    post(0);
    auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
    ASSERT_TRUE(channel.has_value());
    wire::Grant grant;
    const auto listen = [&](std::uint8_t id, const std::byte* bytes, std::uint32_t length) {
        if (id == static_cast<std::uint8_t>(wire::Feedback::grant)) {
            grant = *wire::read<wire::Grant>({bytes, length});
        }
        return true;
    };
    ASSERT_EQ(channel->send(static_cast<std::uint8_t>(wire::FastPath::offer),
                            bytes_with(wire::Start{.length = 1, .immediate = {}})),
              Errc::ok);
    ASSERT_TRUE(until(
        [&] {
            (void)channel->poll(listen, 9);
            return grant.number > 0;
        },
        server, peer));
    const std::byte content{7};
    std::uint64_t ticket = 0;
    ASSERT_EQ(channel->write_and_send(&content, 1, 0, grant.address, grant.key,
                                      static_cast<std::uint8_t>(wire::FastPath::filled), ticket),
              Errc::ok);
    ASSERT_EQ(
        channel->send(static_cast<std::uint8_t>(wire::FastPath::plain), bytes_of("without credit")),
        Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 1; }, server, peer));
    settle(server, peer);
    post(1);
    EXPECT_EQ(server.engine->arm(), Errc::again) << "there is something to take out";
    ASSERT_TRUE(until([&] { return consumer.landed.size() == 2; }, server, peer));
    EXPECT_EQ(consumer.landed[1].length, 14u);
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, peer));
}

TEST_F(Hostile, AProducerWithMoreUnderWayThanItWouldHearOfIsToldLater) {
    // (Its links are the tests'; it is honest.) A report is a packet of its own.
    enter();
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*server.engine, *server.connected.back()), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, server, peer));
    constexpr std::size_t count = 4;
    std::vector<std::byte> memory(count);
    const auto map = *MemoryMap::create(memory, peer_write);
    for (std::byte& buffer : memory) {
        ASSERT_EQ(consumer.consumer->post({.address = &buffer, .capacity = 1, .memory = map.get()},
                                          nullptr),
                  Errc::ok);
    }
    auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
    ASSERT_TRUE(channel.has_value());
    std::vector<wire::Grant> grants;
    std::uint64_t told = 0;
    // A hundred rounds take far less than the time after which the consumer reports anyway.
    const auto listen = [&] {
        for (int round = 0; round < 100; ++round) {
            (void)step(server);
            (void)step(peer);
            (void)channel->poll(
                [&](std::uint8_t id, const std::byte* bytes, std::uint32_t length) {
                    const std::span<const std::byte> record(bytes, length);
                    if (id == static_cast<std::uint8_t>(wire::Feedback::grant)) {
                        for (std::size_t i = 0; i < record.size() / sizeof(wire::Grant); ++i) {
                            grants.push_back(wire::read_one<wire::Grant>(record, i));
                        }
                    } else if (id == static_cast<std::uint8_t>(wire::Feedback::credit)) {
                        told = wire::read<wire::Credit>(record)->handled;
                    }
                    return true;
                },
                99);
        }
    };
    const std::vector<wire::Start> starts(count, {.length = 1, .immediate = {}});
    ASSERT_EQ(channel->send(static_cast<std::uint8_t>(wire::FastPath::offer),
                            std::as_bytes(std::span(starts))),
              Errc::ok);
    listen();
    ASSERT_EQ(grants.size(), count);
    const std::byte content{7};
    for (const std::uint64_t expected : {0, 2, 3, 4}) {
        const wire::Grant& grant = grants[consumer.landed.size()];
        std::uint64_t ticket = 0;
        ASSERT_EQ(channel->write_and_send(&content, 1, 0, grant.address, grant.key,
                                          static_cast<std::uint8_t>(wire::FastPath::filled),
                                          ticket),
                  Errc::ok);
        const auto began = std::chrono::steady_clock::now();
        const std::size_t landed = consumer.landed.size();
        listen();
        const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
        ASSERT_EQ(consumer.landed.size(), landed + 1);
        if (took < std::chrono::nanoseconds(tuning::pace::longest_while_more_come_ns)) {
            EXPECT_EQ(told, expected) << consumer.landed.size() << " have landed";
        } // else time may have been the reason
    }
    EXPECT_EQ(told, count);
    ASSERT_EQ(consumer.landed.size(), count);
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, peer));
}

TEST_F(Hostile, NoMoreCreditIsGivenThanBuffersMayBePosted) {
    // (An honest one, too.) Offers that wait count, and so do the buffers that they are going to
    // get: as many together as there may be offers.
    enter();
    constexpr std::uint32_t count = 4;
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*server.engine, *server.connected.back(), {.max_posted = count}),
              Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, server, peer));
    std::vector<std::byte> memory(100);
    const auto map = *MemoryMap::create(memory, peer_write);
    const auto post = [&] {
        return consumer.consumer->post(
            {.address = memory.data(), .capacity = 1, .memory = map.get()}, nullptr);
    };
    consumer.on_received = [&](const Received& r) {
        while (r.status == Errc::ok && post() == Errc::ok) {
        }
    };
    ASSERT_EQ(post(), Errc::ok);
    auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
    ASSERT_TRUE(channel.has_value());
    const std::vector<wire::Start> starts(count, {.length = 1, .immediate = {}});
    ASSERT_EQ(channel->send(static_cast<std::uint8_t>(wire::FastPath::offer),
                            std::as_bytes(std::span(starts))),
              Errc::ok);
    std::vector<wire::Grant> grants;
    std::vector<std::uint32_t> free;
    const auto listen = [&](std::uint8_t id, const std::byte* bytes, std::uint32_t length) {
        if (id == static_cast<std::uint8_t>(wire::Feedback::grant)) {
            grants.push_back(*wire::read<wire::Grant>({bytes, length}));
        } else if (id == static_cast<std::uint8_t>(wire::Feedback::credit)) {
            free.push_back(wire::read<wire::Credit>({bytes, length})->free);
        }
        return true;
    };
    settle(server, peer);
    (void)channel->poll(listen, 99);
    ASSERT_EQ(grants.size(), 1u) << "there is one buffer";
    const std::byte content{7};
    std::uint64_t ticket = 0;
    ASSERT_EQ(channel->write_and_send(&content, 1, 0, grants[0].address, grants[0].key,
                                      static_cast<std::uint8_t>(wire::FastPath::filled), ticket),
              Errc::ok);
    settle(server, peer);
    (void)channel->poll(listen, 99);
    ASSERT_EQ(consumer.landed.size(), 1u);
    ASSERT_GE(free.size(), 2u);
    EXPECT_EQ(*std::max_element(free.begin(), free.end()), count);
    channel = {};
    ASSERT_TRUE(consumer.consumer->stop());
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server, peer));
}

TEST_F(Hostile, WhoBreaksThePromiseOfAPlaceEndsTheConnection) {
    using Crime = std::function<void(link::fake::Channel&)>;
    const auto say = [](auto id, std::span<const std::byte> bytes) -> Crime {
        return [id, copy = std::vector<std::byte>(bytes.begin(), bytes.end())](auto& channel) {
            ASSERT_EQ(channel.send(static_cast<std::uint8_t>(id), copy), Errc::ok);
        };
    };
    wire::Start long_immediate{.length = 10, .immediate = {}};
    long_immediate.immediate.length = 33;
    for (const Crime& crime : {
             say(wire::FastPath::placed, {}), // nothing was written
             say(wire::FastPath::placing, bytes_of("short")),
             say(wire::FastPath::placing, bytes_with(long_immediate)),
             say(wire::FastPath::placing, bytes_with(wire::Start{})),
             say(wire::FastPath::placing, bytes_with(wire::Start{.length = 101, .immediate = {}})),
             say(wire::FastPath::filled, {}),
             say(wire::FastPath::part, bytes_of("x")),
         }) {
        enter();
        ConsumerProgram consumer;
        ASSERT_EQ(consumer.open(*server.engine, *server.connected.back()), Errc::ok);
        ASSERT_TRUE(
            until([&] { return consumer.consumer->state() == State::running; }, server, peer));
        std::vector<std::byte> memory(200);
        const auto map = *MemoryMap::create(memory, peer_write);
        for (std::size_t i = 0; i < 2; ++i) {
            ASSERT_EQ(
                consumer.consumer->post(
                    {.address = memory.data() + 100 * i, .capacity = 100, .memory = map.get()},
                    nullptr),
                Errc::ok);
        }
        auto channel = peer.connection->open_channel(wire::tag(1, consumer.consumer->id()));
        ASSERT_TRUE(channel.has_value());
        // A correct message first.
        wire::Grant grant;
        bool told = false;
        const auto listen = [&](std::uint8_t id, const std::byte* bytes, std::uint32_t length) {
            if (id == static_cast<std::uint8_t>(wire::Feedback::grant)) {
                grant = *wire::read<wire::Grant>({bytes, length});
            }
            told = told || id == static_cast<std::uint8_t>(wire::Feedback::ahead);
            return true;
        };
        say(wire::FastPath::offer, bytes_with(wire::Start{.length = 1, .immediate = {}}))(*channel);
        ASSERT_TRUE(
            until([&] { return channel->poll(listen, 9) + grant.number > 0; }, server, peer));
        const std::byte content{7};
        std::uint64_t ticket = 0;
        ASSERT_EQ(channel->write_and_send(&content, 1, 0, grant.address, grant.key,
                                          static_cast<std::uint8_t>(wire::FastPath::filled),
                                          ticket),
                  Errc::ok);
        ASSERT_TRUE(until([&] { return channel->poll(listen, 9) > 0 && told; }, server, peer));
        crime(*channel);
        expect_thrown_out();
        ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::idle; }, server));
        ASSERT_EQ(consumer.landed.size(), 2u);
        EXPECT_EQ(consumer.landed[0].status, Errc::ok);
        EXPECT_EQ(consumer.landed[1].status, Errc::connection_reset);
    }
}

TEST_F(Hostile, BadConsumersEndTheConnection) {
    using Crime = std::function<void(link::fake::Channel&)>;
    const auto places = [](const wire::Ahead& head, std::size_t count) {
        return bytes_with(head, std::string(count * sizeof(wire::Place), 'p'));
    };
    const auto feedback = [](auto id, std::span<const std::byte> bytes) -> Crime {
        return [id, copy = std::vector<std::byte>(bytes.begin(), bytes.end())](auto& channel) {
            ASSERT_EQ(channel.send(static_cast<std::uint8_t>(id), copy), Errc::ok);
        };
    };
    for (const Crime& crime : {
             feedback(0, {}),
             feedback(wire::FastPath::plain, {}),
             feedback(wire::Feedback::credit, bytes_of("short")),
             feedback(wire::Feedback::credit, bytes_with(wire::Credit{.handled = 2})),
             feedback(wire::Feedback::refused, bytes_of("short")),
             feedback(wire::Feedback::refused, bytes_with(wire::Refused{.number = 2})),
             feedback(wire::Feedback::refused, bytes_with(wire::Refused{.number = 0})),
             feedback(wire::Feedback::ahead, bytes_of("short")),
             feedback(wire::Feedback::ahead, places({.credit = {.handled = 2}, .first = 3}, 1)),
             feedback(wire::Feedback::ahead, places({.credit = {}, .first = 0}, 1)),
             feedback(wire::Feedback::ahead, places({.credit = {.handled = 1}, .first = 1}, 1)),
             feedback(wire::Feedback::ahead, places({.credit = {}, .first = 2}, 0)),
             feedback(wire::Feedback::ahead,
                      places({.credit = {}, .first = 2}, wire::most_at_once + 1)),
             feedback(wire::Feedback::ahead,
                      bytes_with(wire::Ahead{.credit = {}, .first = 2}, "no place")),
             feedback(wire::Feedback::grant, bytes_of("short")),
             feedback(wire::Feedback::grant, bytes_with(wire::Grant{.number = 1})),
             feedback(wire::Feedback::grant, bytes_with(wire::Grant{.number = 2})),
         }) {
        enter();
        note(wire::Control::consumer_added, 1);
        note(wire::Control::consumer_posted, 1, 5);
        ProducerProgram producer;
        Connection* const connection = server.connected.back();
        ASSERT_TRUE(
            until([&] { return connection->remote_consumers().size() == 1; }, server, peer));
        ASSERT_EQ(producer.open(*server.engine, *connection), Errc::ok);
        ASSERT_TRUE(until([&] { return producer.producer->send(1, {}, nullptr) == Errc::ok; },
                          server, peer));
        ASSERT_TRUE(until([&] { return peer.channels.size() == 1; }, server, peer));
        crime(peer.channels[0].second);
        expect_thrown_out();
        ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server));
        ASSERT_EQ(producer.sent.size(), 1u);
        EXPECT_EQ(producer.sent[0].second, Errc::connection_reset);
    }
}

TEST_F(Hostile, BadGrantsEndTheConnection) {
    constexpr std::size_t offered = 3;
    std::vector<std::byte> message(100'000); // longer than a record
    const auto map = *MemoryMap::create(message, local_read);
    for (const std::vector<std::uint64_t>& numbers : std::vector<std::vector<std::uint64_t>>{
             {},
             {0},
             {4},
             {1, 1},
             {2, 1},
             {1, 2, 3, 4},
             std::vector<std::uint64_t>(wire::most_at_once + 1, 1),
         }) {
        enter();
        note(wire::Control::consumer_added, 1);
        say(wire::Control::consumer_posted,
            bytes_with(wire::ConsumerNote{.consumer = 1, .posted = offered, .room = 100'000}));
        ProducerProgram producer;
        Connection* const connection = server.connected.back();
        ASSERT_TRUE(
            until([&] { return connection->remote_consumers().size() == 1; }, server, peer));
        ASSERT_EQ(producer.open(*server.engine, *connection), Errc::ok);
        for (std::size_t i = 0; i < offered; ++i) {
            ASSERT_TRUE(until(
                [&] {
                    return producer.producer->send(1, {.data = message, .memory = map.get()},
                                                   nullptr) == Errc::ok;
                },
                server, peer));
        }
        settle(server, peer);
        ASSERT_EQ(peer.channels.size(), 1u);
        std::vector<wire::Grant> grants;
        for (const std::uint64_t number : numbers) {
            grants.push_back({.number = number});
        }
        ASSERT_EQ(peer.channels[0].second.send(static_cast<std::uint8_t>(wire::Feedback::grant),
                                               std::as_bytes(std::span(grants))),
                  Errc::ok);
        expect_thrown_out();
        ASSERT_TRUE(until([&] { return producer.producer->state() == State::idle; }, server));
        ASSERT_EQ(producer.sent.size(), offered);
        EXPECT_EQ(producer.sent[0].second, Errc::connection_reset);
    }
}

TEST_F(Hostile, AChannelToNobodyIsClosed) {
    enter();
    auto channel = peer.connection->open_channel(wire::tag(1, 1234));
    ASSERT_TRUE(channel.has_value());
    ASSERT_TRUE(until([&] { return channel->check() == Errc::not_connected; }, server, peer));
    EXPECT_EQ(server.server->connections().size(), 2u);
}

/// Answers of servers that are not what they should be.
class OddServer : public ::testing::Test {
protected:
    Lab lab{true};
    ClientProgram client;
    RawPeer peer;

    void answer(std::span<const std::byte> reply) {
        peer.port = *link::fake::Port::open(*lab.dpu, {.face = "test"});
        ASSERT_TRUE(peer.port->listen({lab.hosts[0].function().id, "name"}).has_value());
        peer.reply.assign(reply.begin(), reply.end());
        ASSERT_EQ(client.open(lab, "name", {.limits = {.message_size = 100}}), Errc::ok);
    }
    static wire::Welcome welcome() {
        return {.message_size = 100,
                .recv_queue = 10,
                .answer = static_cast<std::uint8_t>(wire::Answer::accepted)};
    }
};

TEST_F(OddServer, BadAnswersEndTheAttempt) {
    const auto with = [&](auto change) {
        wire::Welcome bad = welcome();
        change(bad);
        return bytes_with(bad);
    };
    for (const auto& bad :
         {std::vector<std::byte>(), std::vector<std::byte>(23), bytes_with(welcome(), "surplus"),
          with([](auto& w) { w.magic = 0; }), with([](auto& w) { w.version = 99; }),
          with([](auto& w) { w.answer = 0; }), with([](auto& w) { w.answer = 9; }),
          with([](auto& w) { w.message_size = 101; }), with([](auto& w) { w.message_size = 0; }),
          with([](auto& w) { w.recv_queue = 0; }), with([](auto& w) { w.data_length = 9; })}) {
        client.client.reset();
        client.states.clear();
        peer = {};
        answer(bad);
        ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client, peer));
        EXPECT_EQ(client.client->outcome(), Errc::connection_reset);
        EXPECT_NE(client.client->error().message.find("broke the protocol"), std::string::npos);
        EXPECT_EQ(client.client->error().message.find("died"), std::string::npos);
        EXPECT_EQ(client.states, std::vector<State>{State::idle});
    }
    client.client.reset();
    peer = {};
    answer(bytes_with(welcome()));
    ASSERT_TRUE(until([&] { return client.client->state() == State::running; }, client, peer));
}

TEST_F(OddServer, LinkRefusalsAreTold) {
    const std::pair<Reason, Errc> cases[] = {{Reason::not_found, Errc::not_found},
                                             {Reason::version_mismatch, Errc::version_mismatch},
                                             {Reason::rejected, Errc::rejected},
                                             {Reason::peer_died, Errc::connection_reset},
                                             {Reason::closed, Errc::rejected}};
    for (const auto& [reason, outcome] : cases) {
        client.client.reset();
        peer = {};
        lab.network->refuse_next_connect(reason);
        answer({});
        ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client));
        EXPECT_EQ(client.client->outcome(), outcome);
        const std::string said = client.client->error().message;
        EXPECT_FALSE(said.empty());
        EXPECT_EQ(said.find("broke the protocol"), std::string::npos) << said;
        EXPECT_EQ(said.find("died") != std::string::npos, reason == Reason::peer_died) << said;
    }
}

} // namespace
} // namespace comch::channel::test
