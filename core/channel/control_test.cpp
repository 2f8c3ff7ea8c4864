// Servers, clients, connections and control messages, over every link.
#include <poll.h>

#include "core/channel/test_support.hpp"

namespace comch::channel::test {
namespace {

class Control : public ::testing::TestWithParam<bool> {
protected:
    Lab lab{GetParam()};
    ServerProgram server;
    ClientProgram client;

    /// One server, one client, connected.
    void connect() {
        ASSERT_EQ(server.open(lab, "name"), Errc::ok);
        ASSERT_EQ(client.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return !server.connected.empty() && client.client->state() == State::running; },
            server, client));
    }
};

INSTANTIATE_TEST_SUITE_P(, Control, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

TEST_P(Control, AClientConnectsByNameAndBothSidesTalk) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    EXPECT_EQ(server.server->state(), State::running);
    ASSERT_EQ(client.open(lab, "name", {.data = bytes_of("from client")}), Errc::ok);
    EXPECT_EQ(client.client->state(), State::starting);
    EXPECT_EQ(client.client->outcome(), Errc::in_progress);
    EXPECT_EQ(client.connection().send(bytes_of("early")), Errc::again);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && client.client->state() == State::running; },
              server, client));
    EXPECT_EQ(client.states, std::vector<State>{State::running});
    EXPECT_EQ(client.client->outcome(), Errc::ok);
    Connection& there = *server.connected.at(0);
    EXPECT_EQ(there.status(), Errc::ok);
    EXPECT_EQ(text_of(there.peer_data()), "from client");
    EXPECT_EQ(there.peer().side, Side::host);
    EXPECT_EQ(there.peer().function, lab.hosts[0].function().id);
    EXPECT_EQ(client.connection().peer().side, Side::dpu);
    EXPECT_EQ(there.max_message_size(), limits::message_size);

    EXPECT_EQ(client.connection().send(bytes_of("ping")), Errc::ok);
    EXPECT_EQ(there.send(bytes_of("pong")), Errc::ok);
    EXPECT_EQ(there.send({}), Errc::ok);
    ASSERT_TRUE(until([&] { return server.messages.size() == 1 && client.messages.size() == 2; },
                      server, client));
    EXPECT_EQ(server.messages[0], std::make_pair(&there, std::string("ping")));
    EXPECT_EQ(client.messages, (std::vector<std::string>{"pong", ""}));
}

TEST(Representors, AreTheDomainsWhoeverHasOpenedIt) {
    Lab lab(false);
    DomainOptions options;
    options.directory = lab.domain->path();
    const auto again = Domain::open(options);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_NE(*again, lab.domain);
    const auto representor =
        devices(*again, Side::dpu).at(0).representor(lab.hosts[0].function().name);
    ServerProgram server;
    const auto opened =
        Server::open(*server.engine, *lab.dpu, *representor, "name", {}, server.handlers());
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    Lab another(false);
    const auto refused = Server::open(*server.engine, *lab.dpu, another.representors[0], "other",
                                      {}, server.handlers());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
}

TEST_P(Control, TheWrongSideIsNotPermitted) {
    const auto opened = Server::open(*server.engine, lab.hosts[0], lab.representors[0], "name", {},
                                     server.handlers());
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, Errc::not_permitted);
    const auto connected = Client::open(*client.engine, *lab.dpu, "name", {}, client.handlers());
    ASSERT_FALSE(connected.has_value());
    EXPECT_EQ(connected.error().code, Errc::not_permitted);
}

TEST_P(Control, ANameIsUniquePerRepresentor) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ServerProgram other;
    EXPECT_EQ(other.open(lab, "name"), Errc::in_use);
    EXPECT_EQ(other.open(lab, "name", {}, 1), Errc::ok);
    ServerProgram third;
    EXPECT_EQ(third.open(lab, "Name"), Errc::ok) << "names are case-sensitive";
    // Each function's clients reach its own server only.
    ASSERT_EQ(client.open(lab, "name", {}, 1), Errc::ok);
    ASSERT_TRUE(
        until([&] { return client.client->state() == State::running; }, server, other, client));
    EXPECT_EQ(other.connected.size(), 1u);
    EXPECT_TRUE(server.connected.empty());
    // A stopped server's name is free at once.
    ASSERT_TRUE(server.server->stop().has_value());
    ServerProgram fourth;
    EXPECT_EQ(fourth.open(lab, "name"), Errc::ok);
}

TEST_P(Control, ArgumentsAreChecked) {
    EXPECT_EQ(server.open(lab, ""), Errc::invalid_argument);
    EXPECT_EQ(server.open(lab, std::string(limits::server_name_size, 'n')), Errc::invalid_argument);
    EXPECT_EQ(server.open(lab, std::string_view("a\0b", 3)), Errc::invalid_argument);
    EXPECT_EQ(server.open(lab, "n", {.limits = {.message_size = limits::message_size + 1}}),
              Errc::invalid_argument);
    EXPECT_EQ(server.open(lab, "n", {.max_clients = limits::clients_per_server + 1}),
              Errc::invalid_argument);
    const std::string longest(limits::server_name_size - 1, 'n');
    ASSERT_EQ(server.open(lab, longest), Errc::ok);
    EXPECT_EQ(client.open(lab, ""), Errc::invalid_argument);
    EXPECT_EQ(client.open(lab, longest + "n"), Errc::invalid_argument);
    const std::vector<std::byte> data(max_connect_data + 1);
    EXPECT_EQ(client.open(lab, longest, {.data = data}), Errc::invalid_argument);
    EXPECT_EQ(client.open(lab, longest, {.limits = {.recv_queue = limits::recv_queue_depth + 1}}),
              Errc::invalid_argument);
    ASSERT_EQ(client.open(lab, longest, {.data = {data.data(), max_connect_data}}), Errc::ok);
    ASSERT_TRUE(until([&] { return client.client->state() == State::running; }, server, client));
}

TEST_P(Control, NobodyThereIsToldApart) {
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client));
    EXPECT_EQ(client.client->outcome(), Errc::not_found);
    EXPECT_EQ(client.states, std::vector<State>{State::idle}) << "it was never running";
    EXPECT_NE(client.client->error().message.find("'name'"), std::string::npos);
    EXPECT_EQ(client.connection().send(bytes_of("x")), Errc::not_connected);
}

TEST_P(Control, MessageSizesMustMatchWhenBothEndsSetThem) {
    ASSERT_EQ(server.open(lab, "sets", {.limits = {.message_size = 100}}), Errc::ok);
    ServerProgram open_minded;
    ASSERT_EQ(open_minded.open(lab, "does not"), Errc::ok);

    ASSERT_EQ(client.open(lab, "sets", {.limits = {.message_size = 101}}), Errc::ok);
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, server, client));
    EXPECT_EQ(client.client->outcome(), Errc::rejected);
    EXPECT_EQ(client.client->refusal(), Refusal::message_size);
    EXPECT_EQ(server.refused, std::vector<Refusal>{Refusal::message_size});

    struct Case {
        std::string_view name;
        std::uint32_t wanted;
        std::uint32_t agreed;
    };
    for (const Case& c : {Case{"sets", 100, 100}, Case{"sets", 0, 100}, Case{"does not", 77, 77},
                          Case{"does not", 0, limits::message_size}}) {
        ClientProgram other;
        ASSERT_EQ(other.open(lab, c.name, {.limits = {.message_size = c.wanted}}), Errc::ok);
        ASSERT_TRUE(until([&] { return other.client->state() == State::running; }, server,
                          open_minded, other));
        EXPECT_EQ(other.connection().max_message_size(), c.agreed);
        const auto longest = pattern(c.agreed, 1);
        EXPECT_EQ(other.connection().send(longest), Errc::ok);
        EXPECT_EQ(other.connection().send(pattern(c.agreed + 1, 1)), Errc::invalid_argument);
        ServerProgram& at = c.name == "sets" ? server : open_minded;
        at.messages.clear();
        ASSERT_TRUE(until([&] { return at.messages.size() == 1; }, at, other));
        EXPECT_EQ(at.messages[0].second, text_of(longest));
        Connection& there = *at.messages[0].first;
        EXPECT_EQ(there.max_message_size(), c.agreed);
        EXPECT_EQ(there.send(longest), Errc::ok);
        ASSERT_TRUE(until([&] { return other.messages.size() == 1; }, at, other));
        EXPECT_EQ(other.messages[0], text_of(longest));
    }
}

TEST_P(Control, AServerTakesNoMoreClientsThanItMay) {
    ASSERT_EQ(server.open(lab, "name", {.max_clients = 2}), Errc::ok);
    std::deque<ClientProgram> clients(3);
    for (ClientProgram& c : clients) {
        ASSERT_EQ(c.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until([&] { return c.client->state() != State::starting; }, server, clients));
    }
    EXPECT_EQ(clients[2].client->outcome(), Errc::rejected);
    EXPECT_EQ(clients[2].client->refusal(), Refusal::too_many_clients);
    // One leaves, one may come.
    ASSERT_TRUE(clients[0].client->stop().has_value());
    ASSERT_TRUE(until([&] { return server.disconnected.size() == 1; }, server, clients));
    clients.emplace_back();
    ASSERT_EQ(clients[3].open(lab, "name"), Errc::ok);
    ASSERT_TRUE(
        until([&] { return clients[3].client->state() == State::running; }, server, clients));
}

TEST_P(Control, AClientThatIsGoneCannotBeAnswered) {
    ASSERT_EQ(server.open(lab, "name", {.deferred_accept = true}), Errc::ok);
    std::deque<ClientProgram> clients(1);
    ASSERT_EQ(clients[0].open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return server.requested.size() == 1; }, server, clients));
    clients[0].client.reset();
    ASSERT_TRUE(until([&] { return server.refused.size() == 1; }, server, clients));
    // The program may not know which of its requests that was.
    Connection& gone = *server.requested[0];
    EXPECT_EQ(server.server->accept(gone).error().code, Errc::bad_state);
    EXPECT_EQ(server.server->refuse(gone).error().code, Errc::bad_state);
    EXPECT_EQ(server.server->disconnect(gone).error().code, Errc::not_connected);
}

TEST_P(Control, ClientsWaitForADeferredAnswer) {
    ASSERT_EQ(server.open(lab, "name", {.deferred_accept = true}), Errc::ok);
    std::deque<ClientProgram> clients(3);
    for (ClientProgram& c : clients) {
        ASSERT_EQ(c.open(lab, "name", {.data = bytes_of("please")}), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return server.requested.size() == 3; }, server, clients));
    settle(server, clients);
    EXPECT_EQ(server.server->pending_connections(), 3u);
    EXPECT_EQ(server.server->next_pending(), server.requested[0]);
    EXPECT_EQ(text_of(server.requested[0]->peer_data()), "please");
    EXPECT_EQ(server.requested[0]->status(), Errc::in_progress);
    EXPECT_EQ(server.requested[0]->send(bytes_of("early")), Errc::again);
    for (ClientProgram& c : clients) {
        EXPECT_EQ(c.client->outcome(), Errc::in_progress);
        EXPECT_EQ(c.client->state(), State::starting);
    }
    EXPECT_TRUE(server.connected.empty());

    ASSERT_TRUE(server.server->accept(*server.requested[0], bytes_of("welcome")).has_value());
    EXPECT_EQ(server.server->accept(*server.requested[0]).error().code, Errc::bad_state);
    ASSERT_TRUE(server.server->refuse(*server.requested[1], bytes_of("no")).has_value());
    ASSERT_TRUE(until(
        [&] {
            return server.connected.size() == 1 &&
                   std::count_if(clients.begin(), clients.end(), [](ClientProgram& c) {
                       return c.client->state() == State::starting;
                   }) == 1;
        },
        server, clients));
    unsigned accepted = 0;
    unsigned refused = 0;
    for (ClientProgram& c : clients) {
        if (c.client->outcome() == Errc::ok) {
            ++accepted;
            EXPECT_EQ(text_of(c.connection().peer_data()), "welcome");
        } else if (c.client->outcome() == Errc::rejected) {
            ++refused;
            EXPECT_EQ(c.client->refusal(), Refusal::by_program);
            EXPECT_EQ(text_of(c.connection().peer_data()), "no");
        } else {
            ASSERT_TRUE(c.client->stop().has_value()) << "the third gives up";
        }
    }
    EXPECT_EQ(accepted, 1u);
    EXPECT_EQ(refused, 1u);
    ASSERT_TRUE(until([&] { return server.refused.size() == 2; }, server, clients));
    EXPECT_EQ(server.refused, (std::vector<Refusal>{Refusal::by_program, Refusal::none}));
    EXPECT_EQ(server.server->pending_connections(), 0u);
    EXPECT_TRUE(server.disconnected.empty());
}

TEST_P(Control, MessagesOfAllClientsComeInTheOrderOfArrival) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    std::deque<ClientProgram> clients(4);
    for (ClientProgram& c : clients) {
        ASSERT_EQ(c.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until([&] { return c.client->state() == State::running; }, server, clients));
    }
    std::vector<std::string> expected;
    std::uint32_t random = 7;
    for (unsigned i = 0; i < 100; ++i) {
        random = random * 1664525u + 1013904223u;
        ClientProgram& from = clients[(random >> 20) % clients.size()];
        expected.push_back("message " + std::to_string(i));
        ASSERT_EQ(from.connection().send(bytes_of(expected.back())), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return server.messages.size() == expected.size(); }, server));
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(server.messages[i].second, expected[i]);
    }
}

TEST_P(Control, StatisticsCountWhatTheProgramSent) {
    connect();
    Connection& here = client.connection();
    Connection& there = *server.connected[0];
    ASSERT_EQ(here.send(pattern(10, 1)), Errc::ok);
    ASSERT_EQ(here.send(pattern(20, 1)), Errc::ok);
    // A consumer is announced in between, and is not the program's message.
    ConsumerProgram consumer;
    ASSERT_EQ(consumer.open(*client.engine, here), Errc::ok);
    ASSERT_TRUE(until([&] { return consumer.consumer->state() == State::running; }, client));
    ASSERT_EQ(here.send(pattern(30, 1)), Errc::ok);
    auto statistics = here.statistics();
    EXPECT_EQ(statistics.sent_messages, 3u);
    EXPECT_EQ(statistics.sent_bytes, 60u);
    EXPECT_EQ(statistics.in_flight_messages, 3u) << "the server has not progressed";
    ASSERT_TRUE(until([&] { return server.messages.size() == 3; }, server));
    ASSERT_TRUE(until([&] { return here.statistics().in_flight_messages == 0; }, server, client));
    statistics = there.statistics();
    EXPECT_EQ(statistics.received_messages, 3u);
    EXPECT_EQ(statistics.received_bytes, 60u);
    EXPECT_EQ(statistics.sent_messages, 0u);
    EXPECT_EQ(statistics.in_flight_messages, 0u);
}

TEST_P(Control, TheSendQueueHasTheDepthThatWasAskedFor) {
    ASSERT_EQ(server.open(lab, "name", {.limits = {.recv_queue = 3}}), Errc::ok);
    ASSERT_EQ(client.open(lab, "name", {.limits = {.send_queue = 5, .recv_queue = 100}}), Errc::ok);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && !client.states.empty(); }, server, client));
    // The smaller of what one end may send and the other takes.
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(client.connection().send(bytes_of("m")), Errc::ok);
    }
    EXPECT_EQ(client.connection().send(bytes_of("m")), Errc::again);
    ASSERT_TRUE(
        until([&] { return client.connection().send(bytes_of("m")) == Errc::ok; }, server, client));
}

/// One message fills it.
class FullWindow : public Control {
protected:
    void SetUp() override {
        ASSERT_EQ(server.open(lab, "name", {.limits = {.recv_queue = 1}}), Errc::ok);
        ASSERT_EQ(client.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until([&] { return !server.connected.empty() && !client.states.empty(); },
                          server, client));
        ASSERT_EQ(client.connection().send(bytes_of("m")), Errc::ok);
        ASSERT_EQ(client.connection().send(bytes_of("m")), Errc::again);
    }
};

INSTANTIATE_TEST_SUITE_P(, FullWindow, ::testing::Values(true, false),
                         [](const auto& parameter) { return parameter.param ? "Fake" : "Soft"; });

TEST_P(FullWindow, WakesWhoFoundItSoWhenItIsNot) {
    ASSERT_TRUE(until([&] { return client.engine->arm() == Errc::ok; }, client));
    ASSERT_TRUE(until([&] { return server.messages.size() == 1; }, server));
    ASSERT_TRUE(until(
        [&] {
            pollfd entry{.fd = client.engine->event_fd(), .events = POLLIN, .revents = 0};
            return ::poll(&entry, 1, 0) == 1;
        },
        server));
    EXPECT_TRUE(until([&] { return client.connection().send(bytes_of("m")) == Errc::ok; }, client));
}

TEST_P(FullWindow, KeepsNobodyAsleepIfSomebodyHasSeenThatItIsNot) {
    ASSERT_TRUE(
        until([&] { return client.connection().statistics().in_flight_messages == 0; }, server));
    EXPECT_EQ(client.engine->arm(), Errc::again);
    // Once: the program may have nothing to send any more.
    EXPECT_TRUE(until([&] { return client.engine->arm() == Errc::ok; }, client));
}

TEST_P(Control, AFullLinkSaysAgainAndLosesNothing) {
    connect();
    unsigned sent = 0;
    const auto text = [](unsigned i) { return std::string(i % 1000, 'x') + std::to_string(i); };
    ASSERT_TRUE(until(
        [&] {
            while (sent < 3000 && client.connection().send(bytes_of(text(sent))) == Errc::ok) {
                ++sent;
            }
            return server.messages.size() == 3000;
        },
        server, client));
    for (unsigned i = 0; i < 3000; ++i) {
        ASSERT_EQ(server.messages[i].second, text(i));
    }
}

TEST_P(Control, ConnectionsCarryUserData) {
    connect();
    EXPECT_EQ(client.connection().user_data(), 0u);
    server.connected[0]->set_user_data(0x1234567890abcdefu);
    EXPECT_EQ(server.connected[0]->user_data(), 0x1234567890abcdefu);
}

TEST_P(Control, AStoppedServerTellsItsClients) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    std::deque<ClientProgram> clients(3);
    for (ClientProgram& c : clients) {
        ASSERT_EQ(c.open(lab, "name"), Errc::ok);
    }
    ASSERT_TRUE(until([&] { return server.connected.size() == 3; }, server, clients));
    EXPECT_EQ(server.server->connections().size(), 3u);
    ASSERT_TRUE(server.server->stop().has_value());
    EXPECT_EQ(server.server->state(), State::stopping);
    EXPECT_EQ(server.server->stop().error().code, Errc::bad_state);
    ASSERT_TRUE(until([&] { return server.server->state() == State::idle; }, server));
    EXPECT_EQ(server.states, std::vector<State>{State::idle});
    ASSERT_EQ(server.disconnected.size(), 3u);
    EXPECT_EQ(server.disconnected[0].second, EndReason::local);
    for (ClientProgram& c : clients) {
        ASSERT_TRUE(until([&] { return c.client->state() == State::idle; }, c));
        EXPECT_EQ(c.client->outcome(), Errc::not_connected) << "an orderly end is not a reset";
        EXPECT_EQ(c.connection().status(), Errc::not_connected);
        EXPECT_EQ(c.connection().send(bytes_of("x")), Errc::not_connected);
        EXPECT_EQ(c.client->stop().error().code, Errc::bad_state);
    }
}

TEST_P(Control, AStoppedClientIsMissedByTheServer) {
    connect();
    ASSERT_EQ(client.connection().send(bytes_of("last words")), Errc::ok);
    ASSERT_TRUE(client.client->stop().has_value());
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client));
    EXPECT_EQ(client.client->outcome(), Errc::canceled);
    ASSERT_TRUE(until([&] { return !server.disconnected.empty(); }, server));
    EXPECT_EQ(server.disconnected[0].second, EndReason::closed);
    ASSERT_EQ(server.messages.size(), 1u);
    EXPECT_EQ(server.messages[0].second, "last words");
    EXPECT_TRUE(server.server->connections().empty());
    // The server goes on.
    ClientProgram next;
    ASSERT_EQ(next.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return next.client->state() == State::running; }, server, next));
}

TEST_P(Control, AServerDisconnectsOneOfMany) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    std::deque<ClientProgram> clients(2);
    for (ClientProgram& c : clients) {
        ASSERT_EQ(c.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until([&] { return c.client->state() == State::running; }, server, clients));
    }
    ASSERT_TRUE(until([&] { return server.connected.size() == 2; }, server, clients));
    Connection* const first = server.connected[0];
    ASSERT_EQ(first->send(bytes_of("goodbye")), Errc::ok);
    ASSERT_TRUE(server.server->disconnect(*first).has_value());
    EXPECT_EQ(server.server->disconnect(*first).error().code, Errc::not_connected);
    EXPECT_TRUE(server.disconnected.empty()) << "handlers are called from progress only";
    ASSERT_TRUE(until([&] { return clients[0].client->state() == State::idle; }, server, clients));
    EXPECT_EQ(clients[0].messages, std::vector<std::string>{"goodbye"});
    EXPECT_EQ(server.disconnected, (std::vector{std::make_pair(first, EndReason::local)}));
    EXPECT_EQ(clients[1].client->state(), State::running);
    ASSERT_EQ(clients[1].connection().send(bytes_of("still here")), Errc::ok);
    ASSERT_TRUE(until([&] { return server.messages.size() == 1; }, server, clients));
}

TEST_P(Control, AReplyAndAStopInOneHandlerAreBothHeard) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    server.on_message = [&](Connection& from, std::string_view) {
        EXPECT_EQ(from.send(bytes_of("reply")), Errc::ok);
        EXPECT_TRUE(server.server->stop().has_value());
    };
    client.on_message = [&](std::string_view) { EXPECT_TRUE(client.client->stop().has_value()); };
    client.on_state = [&](State state) {
        if (state == State::running) {
            EXPECT_EQ(client.connection().send(bytes_of("question")), Errc::ok);
        }
    };
    ASSERT_TRUE(until(
        [&] {
            return server.server->state() == State::idle && client.client->state() == State::idle;
        },
        server, client));
    EXPECT_EQ(client.messages, std::vector<std::string>{"reply"});
    EXPECT_EQ(server.disconnected.size(), 1u);
}

TEST_P(Control, WhoEndsItInTheHandlerOfAMessageHasHadThatMessage) {
    connect();
    Connection& here = *server.connected.at(0);
    std::uint64_t lost = 99;
    server.on_disconnected = [&](Connection& c) { lost = c.statistics().in_flight_messages; };
    client.on_message = [&](std::string_view) {
        ASSERT_TRUE(client.client->stop());
        // The server hears of the end before the handler has returned.
        ASSERT_TRUE(until([&] { return !server.disconnected.empty(); }, server));
    };
    ASSERT_EQ(here.send(bytes_of("the last one")), Errc::ok);
    ASSERT_TRUE(until([&] { return !client.messages.empty(); }, server, client));
    EXPECT_EQ(client.messages.size(), 1u);
    EXPECT_EQ(lost, 0u);
}

TEST_P(Control, AConnectionMayBeEndedInItsOwnConnectedHandler) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    server.on_connected = [&](Connection& c) {
        EXPECT_TRUE(server.server->disconnect(c).has_value());
    };
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, server, client));
    EXPECT_EQ(client.client->outcome(), Errc::not_connected);
    EXPECT_EQ(server.connected.size(), 1u);
    ASSERT_TRUE(until([&] { return server.disconnected.size() == 1; }, server));
}

TEST_P(Control, AClientMayStopInItsRunningHandler) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    client.on_state = [&](State state) {
        if (state == State::running) {
            EXPECT_TRUE(client.client->stop().has_value());
        }
    };
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, server, client));
    EXPECT_EQ(client.states, (std::vector<State>{State::running, State::idle}));
    settle(server);
    EXPECT_EQ(server.connected.size() + server.refused.size(), 1u);
}

TEST_P(Control, AnUndecidedClientMayGiveUp) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(client.client->stop().has_value());
    ASSERT_TRUE(until([&] { return client.client->state() == State::idle; }, client));
    EXPECT_EQ(client.client->outcome(), Errc::canceled);
    settle(server);
    EXPECT_TRUE(server.server->connections().empty());
}

TEST_P(Control, DestroyingWithoutStoppingTellsTheOtherSideToo) {
    connect();
    client.client.reset();
    ASSERT_TRUE(until([&] { return !server.disconnected.empty(); }, server));
    EXPECT_EQ(server.disconnected[0].second, EndReason::closed);
    ClientProgram next;
    ASSERT_EQ(next.open(lab, "name"), Errc::ok);
    ASSERT_TRUE(until([&] { return next.client->state() == State::running; }, server, next));
    server.server.reset();
    ASSERT_TRUE(until([&] { return next.client->state() == State::idle; }, next));
    EXPECT_EQ(next.client->outcome(), Errc::not_connected);
}

TEST_P(Control, ManyServersAndClientsShareAnEngine) {
    std::deque<ServerProgram> servers(3);
    std::deque<ClientProgram> clients(9);
    std::unique_ptr<ProgressEngine> engine = make_engine();
    for (std::size_t i = 0; i < servers.size(); ++i) {
        servers[i].engine.reset();
        auto opened = Server::open(*engine, *lab.dpu, lab.representors[0],
                                   "server " + std::to_string(i), {}, servers[i].handlers());
        ASSERT_TRUE(opened.has_value());
        servers[i].server = std::move(*opened);
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
        clients[i].engine.reset();
        auto opened = Client::open(*engine, lab.hosts[0], "server " + std::to_string(i % 3), {},
                                   clients[i].handlers());
        ASSERT_TRUE(opened.has_value());
        clients[i].client = std::move(*opened);
    }
    for (ClientProgram& c : clients) {
        ASSERT_TRUE(until([&] { return c.client->state() == State::running; }, *engine));
        ASSERT_EQ(c.connection().send(bytes_of("hello")), Errc::ok);
    }
    for (ServerProgram& s : servers) {
        ASSERT_TRUE(until([&] { return s.messages.size() == 3; }, *engine));
    }
    clients.clear();
    for (ServerProgram& s : servers) {
        ASSERT_TRUE(until([&] { return s.disconnected.size() == 3; }, *engine));
    }
    servers.clear();
}

TEST_P(Control, SleepersLoseNoMessage) {
    ASSERT_EQ(server.open(lab, "name"), Errc::ok);
    ASSERT_EQ(client.open(lab, "name"), Errc::ok);
    constexpr unsigned rounds = 500;
    server.on_message = [](Connection& from, std::string_view text) {
        EXPECT_EQ(from.send(bytes_of(text)), Errc::ok);
    };
    client.on_state = [&](State state) {
        if (state == State::running) {
            EXPECT_EQ(client.connection().send(bytes_of("ping")), Errc::ok);
        }
    };
    client.on_message = [&](std::string_view) {
        if (client.messages.size() < rounds) {
            EXPECT_EQ(client.connection().send(bytes_of("ping")), Errc::ok);
        } else {
            EXPECT_TRUE(client.client->stop().has_value());
        }
    };
    const auto run = [](ProgressEngine& engine, const auto& done) {
        while (!done()) {
            if (engine.progress() == 0 && engine.arm() == Errc::ok &&
                !sleep_on(engine.event_fd())) {
                ADD_FAILURE() << "slept through something";
                return;
            }
        }
    };
    std::thread other([&] { run(*server.engine, [&] { return !server.disconnected.empty(); }); });
    run(*client.engine, [&] { return client.client->state() == State::idle; });
    other.join();
    EXPECT_EQ(client.messages.size(), rounds);
}

TEST_P(Control, ConfirmationsEndASleepIfAskedFor) {
    connect();
    client.client->wake_on_confirmation(true);
    settle(server, client);
    ASSERT_EQ(client.connection().send(bytes_of("m")), Errc::ok);
    while (client.engine->arm() != Errc::ok) {
        client.engine->progress();
    }
    ASSERT_TRUE(until([&] { return server.messages.size() == 1; }, server));
    settle(server);
    EXPECT_TRUE(sleep_on(client.engine->event_fd()));
    EXPECT_EQ(client.connection().statistics().in_flight_messages, 0u);
}

} // namespace
} // namespace comch::channel::test
