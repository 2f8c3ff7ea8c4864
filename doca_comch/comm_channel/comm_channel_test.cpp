// Endpoints of the 2023 generation: connecting, messages, statistics, threads.
#include <map>
#include <set>

#include <gmock/gmock.h>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

// ---- listening and connecting ------------------------------------------------------------------

TEST_F(CommChannel, ListeningHasConditions) {
    Ep bare;
    EXPECT_EQ(doca_comm_channel_ep_listen(bare, "s"), DOCA_ERROR_BAD_STATE);
    Ep half(lab.dpu);
    EXPECT_EQ(doca_comm_channel_ep_listen(half, "s"), DOCA_ERROR_BAD_STATE);
    Ep of_host(host());
    EXPECT_EQ(doca_comm_channel_ep_listen(of_host, "s"), DOCA_ERROR_NOT_PERMITTED);
    Ep service(lab.dpu, rep());
    EXPECT_EQ(doca_comm_channel_ep_listen(nullptr, "s"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, ""), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, std::string(120, 'n').c_str()),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, std::string(119, 'n').c_str()), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(service.connect("s"), DOCA_ERROR_NOT_PERMITTED);
}

TEST_F(CommChannel, ConnectingHasConditions) {
    Ep bare;
    EXPECT_EQ(bare.connect("s"), DOCA_ERROR_BAD_STATE);
    Ep of_dpu(lab.dpu);
    EXPECT_EQ(of_dpu.connect("s"), DOCA_ERROR_NOT_PERMITTED);
    Ep client(host());
    EXPECT_EQ(doca_comm_channel_ep_connect(nullptr, "s", &client.peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_connect(client, nullptr, &client.peer),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_connect(client, "s", nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.connect(std::string(120, 'n').c_str()), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.connect("s"), DOCA_ERROR_CONNECTION_ABORTED); // nobody listens
    Ep service(lab.dpu, rep());
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    EXPECT_EQ(client.connect("S"), DOCA_ERROR_CONNECTION_ABORTED); // nor under this name
    EXPECT_EQ(client.connect("s"), DOCA_SUCCESS);
    doca_comm_channel_addr_t* second = nullptr;
    EXPECT_EQ(doca_comm_channel_ep_connect(client, "s", &second), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_comm_channel_ep_listen(client, "s"), DOCA_ERROR_NOT_PERMITTED);
}

TEST_F(CommChannel, NamesAreUniqueOnARepresentor) {
    Ep one(lab.dpu, rep());
    Ep same(lab.dpu, rep());
    Ep elsewhere(lab.dpu, lab.representors.at(1));
    ASSERT_EQ(doca_comm_channel_ep_listen(one, "s"), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_listen(same, "s"), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(doca_comm_channel_ep_listen(same, "t"), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_listen(elsewhere, "s"), DOCA_SUCCESS);
    // Each function's clients find their own.
    Ep client(host());
    Ep other(lab.hosts.at(1));
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(other.connect("s"), DOCA_SUCCESS);
    meet(client, one);
    meet(other, elsewhere);
    EXPECT_EQ(client.send("mine"), DOCA_SUCCESS);
    EXPECT_EQ(other.send("its"), DOCA_SUCCESS);
    EXPECT_EQ(one.await(), DOCA_SUCCESS);
    EXPECT_EQ(one.text, "mine");
    EXPECT_EQ(elsewhere.await(), DOCA_SUCCESS);
    EXPECT_EQ(elsewhere.text, "its");
    // And no other function's.
    Ep stranger(lab.hosts.at(1));
    EXPECT_EQ(stranger.connect("t"), DOCA_ERROR_CONNECTION_ABORTED);
}

TEST_F(CommChannel, AcceptingHappensInRecvfrom) {
    Ep service(lab.dpu, rep());
    Ep client(host());
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    std::uint32_t pending = 0;
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(client.update(), DOCA_ERROR_CONNECTION_INPROGRESS);
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(service, &pending), DOCA_SUCCESS);
        return pending == 1;
    }));
    doca_comm_channel_addr_t** list = nullptr;
    std::uint32_t count = 7;
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(client.send("too early"), DOCA_ERROR_AGAIN);
    EXPECT_EQ(client.receive(), DOCA_ERROR_AGAIN);
    EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN); // and accepts
    EXPECT_TRUE(eventually([&] { return client.update() == DOCA_SUCCESS; }));
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(service, &pending), DOCA_SUCCESS);
    EXPECT_EQ(pending, 1u); // a snapshot
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(service, &pending), DOCA_SUCCESS);
    EXPECT_EQ(pending, 0u);
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
    ASSERT_EQ(count, 1u);
    // Which is enough to send first.
    EXPECT_EQ(service.send("hello", list[0]), DOCA_SUCCESS);
    EXPECT_EQ(client.await(), DOCA_SUCCESS);
    EXPECT_EQ(client.text, "hello");
    EXPECT_EQ(client.from, client.peer);
}

TEST_F(CommChannel, AServiceThatGoesAwayUnansweredAbortsTheConnection) {
    Ep client(host());
    {
        Ep service(lab.dpu, rep());
        ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
        ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    }
    EXPECT_TRUE(eventually([&] { return client.update() == DOCA_ERROR_CONNECTION_ABORTED; }));
    EXPECT_EQ(client.send("x"), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.receive(), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.connect("s"), DOCA_ERROR_NOT_PERMITTED); // until it is disconnected
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    EXPECT_EQ(client.connect("s"), DOCA_ERROR_CONNECTION_ABORTED);
}

// ---- messages ----------------------------------------------------------------------------------

TEST_F(CommChannelPair, MessagesGoBothWays) {
    EXPECT_EQ(client.send("question"), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "question");
    EXPECT_EQ(service.send("answer", service.from), DOCA_SUCCESS);
    EXPECT_EQ(client.await(), DOCA_SUCCESS);
    EXPECT_EQ(client.text, "answer");
    EXPECT_EQ(client.from, client.peer);
    const std::string longest(4080, 'x');
    EXPECT_EQ(client.send(longest), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, longest);
    EXPECT_EQ(client.send(std::string(4081, 'x')), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannel, TheSmallerMaximumOfTheTwoHolds) {
    Ep service(lab.dpu, rep());
    Ep client(host());
    ASSERT_EQ(doca_comm_channel_ep_set_max_msg_size(service, 100), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_set_max_msg_size(client, 200), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    meet(client, service);
    EXPECT_EQ(client.send(std::string(101, 'x')), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(client.send(std::string(100, 'x')), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text.size(), 100u);
}

TEST_F(CommChannelPair, ABufferTooSmallLeavesTheMessage) {
    ASSERT_EQ(client.send("twelve bytes"), DOCA_SUCCESS);
    char room[16];
    std::size_t length = 0;
    doca_comm_channel_addr_t* from = nullptr;
    doca_error_t result = DOCA_ERROR_AGAIN;
    ASSERT_TRUE(eventually([&] {
        length = 4;
        result = doca_comm_channel_ep_recvfrom(service, room, &length, 0, &from);
        return result != DOCA_ERROR_AGAIN;
    }));
    EXPECT_EQ(result, DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(length, 12u);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(service, room, &length, 0, &from), DOCA_SUCCESS);
    EXPECT_EQ(std::string_view(room, length), "twelve bytes");
}

TEST_F(CommChannel, MessagesOfAllClientsComeInTheOrderOfTheirArrival) {
    Ep service(lab.dpu, rep());
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    std::vector<std::unique_ptr<Ep>> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<Ep>(host()));
        ASSERT_EQ(clients.back()->connect("s"), DOCA_SUCCESS);
        meet(*clients.back(), service);
    }
    std::vector<std::string> sent;
    for (int i = 0; i < 100; ++i) {
        sent.push_back(std::to_string(i));
        ASSERT_EQ(clients[static_cast<std::size_t>(i * 7 % 4)]->send(sent.back()), DOCA_SUCCESS);
    }
    std::vector<std::string> received;
    std::map<int, std::set<doca_comm_channel_addr_t*>> of_client;
    std::set<doca_comm_channel_addr_t*> sources;
    while (received.size() < sent.size()) {
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        received.push_back(service.text);
        sources.insert(service.from);
        of_client[std::stoi(service.text) * 7 % 4].insert(service.from);
    }
    for (const auto& [client, addresses] : of_client) {
        EXPECT_EQ(addresses.size(), 1u) << client; // which tells who has sent it
        EXPECT_EQ(service.send(std::to_string(client), *addresses.begin()), DOCA_SUCCESS);
        ASSERT_EQ(clients[static_cast<std::size_t>(client)]->await(), DOCA_SUCCESS);
        EXPECT_EQ(clients[static_cast<std::size_t>(client)]->text, std::to_string(client));
    }
    EXPECT_EQ(received, sent);
    EXPECT_EQ(sources.size(), 4u);
}

TEST_F(CommChannel, AFullQueueSaysAgain) {
    Ep service(lab.dpu, rep());
    Ep client(host());
    ASSERT_EQ(doca_comm_channel_ep_set_send_queue_size(client, 8), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    meet(client, service);
    int sent = 0;
    while (client.send(std::to_string(sent)) == DOCA_SUCCESS) {
        ASSERT_LT(++sent, 9);
    }
    EXPECT_EQ(sent, 8);
    EXPECT_EQ(client.send("no"), DOCA_ERROR_AGAIN);
    EXPECT_EQ(client.update(), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client.peer), 8u);
    for (int i = 0; i < 8; ++i) {
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, std::to_string(i));
    }
    // A link may gather confirmations for some calls.
    EXPECT_TRUE(eventually([&] {
        EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN);
        return client.send("now") == DOCA_SUCCESS;
    }));
}

TEST_F(CommChannel, WhatAServiceDoesNotTakeDoesNotPileUp) {
    Ep service(lab.dpu, rep());
    Ep client(host());
    ASSERT_EQ(doca_comm_channel_ep_set_recv_queue_size(service, 4), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_set_send_queue_size(client, 4), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    meet(client, service);
    int sent = 0;
    for (int idle = 0; idle < 1000; ++idle) {
        // All but receiving: none of this may take more and more in.
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
        while (client.send(std::to_string(sent)) == DOCA_SUCCESS) {
            ++sent;
            ASSERT_LT(sent, 200);
        }
    }
    for (int i = 0; i < sent; ++i) {
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, std::to_string(i));
    }
}

TEST_F(CommChannelPair, StatisticsAreASnapshot) {
    using namespace testing;
    ASSERT_EQ(client.send("12345"), DOCA_SUCCESS);
    ASSERT_EQ(client.send("678"), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_messages, client.peer), 0u);
    EXPECT_EQ(in_flight(), 2u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_messages, client.peer), 2u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_bytes, client.peer), 8u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, client.peer), 0u);
    ASSERT_EQ(service.await(), DOCA_SUCCESS);
    // Received is what the program has taken.
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(service.from), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, service.from), 1u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_bytes, service.from), 5u);
    ASSERT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, service.from), 1u);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(service.from), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, service.from), 2u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_bytes, service.from), 8u);
    EXPECT_TRUE(eventually([&] {
        EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN);
        return in_flight() == 0;
    }));
    // The other way, and nothing of it before the snapshot.
    doca_comm_channel_addr_t* const peer = known();
    ASSERT_EQ(service.send("four", peer), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_messages, peer), 0u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_bytes, peer), 0u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, peer), 0u);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_messages, peer), 1u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_bytes, peer), 4u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, peer), 1u);
    ASSERT_EQ(client.await(), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_bytes, client.peer), 0u);
    EXPECT_EQ(client.update(), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, client.peer), 1u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_bytes, client.peer), 4u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_bytes, client.peer), 8u); // in all
}

TEST_F(CommChannelPair, UserDataBelongsToTheConnection) {
    std::uint64_t data = 1;
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, &data), DOCA_SUCCESS);
    EXPECT_EQ(data, 0u);
    EXPECT_EQ(doca_comm_channel_peer_addr_set_user_data(client.peer, ~0ull), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, &data), DOCA_SUCCESS);
    EXPECT_EQ(data, ~0ull);
    EXPECT_EQ(doca_comm_channel_peer_addr_user_data_get(known(), &data), DOCA_SUCCESS);
    EXPECT_EQ(data, 0u); // each side has its own
    // So has each connection, also of the same endpoint.
    Ep other(host());
    ASSERT_EQ(other.connect("s"), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_peer_addr_set_user_data(other.peer, 2), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, &data), DOCA_SUCCESS);
    EXPECT_EQ(data, ~0ull);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, &data), DOCA_SUCCESS);
    EXPECT_EQ(data, 0u);
}

// ---- threads ----------------------------------------------------------------------------------

TEST_F(CommChannelPair, OneThreadMaySendWhileAnotherReceives) {
    constexpr int count = 2000;
    std::thread echo([&] {
        for (int i = 0; i < count; ++i) {
            ASSERT_EQ(service.await(), DOCA_SUCCESS);
            ASSERT_TRUE(eventually(
                [&] { return service.send(service.text, service.from) == DOCA_SUCCESS; }));
        }
    });
    std::thread sender([&] {
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(eventually(
                [&] { return client.send(std::to_string(i), client.peer) == DOCA_SUCCESS; }));
        }
    });
    for (int i = 0; i < count; ++i) {
        ASSERT_EQ(client.await(), DOCA_SUCCESS);
        ASSERT_EQ(client.text, std::to_string(i));
    }
    sender.join();
    echo.join();
}

TEST_F(CommChannel, EndpointsInDifferentThreadsShareNothing) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const std::string name = "s" + std::to_string(t);
            Ep service(lab.dpu, rep());
            Ep client(host());
            ASSERT_EQ(doca_comm_channel_ep_listen(service, name.c_str()), DOCA_SUCCESS);
            ASSERT_EQ(client.connect(name.c_str()), DOCA_SUCCESS);
            meet(client, service);
            for (int i = 0; i < 200; ++i) {
                ASSERT_EQ(client.send(name), DOCA_SUCCESS);
                ASSERT_EQ(service.await(), DOCA_SUCCESS);
                ASSERT_EQ(service.text, name);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

} // namespace
} // namespace comch::doca::test
