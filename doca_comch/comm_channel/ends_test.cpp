// Endpoints of the 2023 generation: the end of a connection, and of an endpoint.
#include <filesystem>
#include <set>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

TEST_F(CommChannelPair, AClientLearnsOfADisconnectBySending) {
    ASSERT_EQ(doca_comm_channel_ep_disconnect(service, known()), DOCA_SUCCESS);
    for (int i = 0; i < 1000; ++i) { // long after it could be known
        ASSERT_EQ(client.update(), DOCA_SUCCESS);
        ASSERT_EQ(client.receive(), DOCA_ERROR_AGAIN);
    }
    EXPECT_TRUE(eventually([&] { return client.send("x") == DOCA_ERROR_CONNECTION_RESET; }));
    EXPECT_EQ(client.send("x"), DOCA_ERROR_CONNECTION_RESET); // latched
    EXPECT_EQ(client.update(), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(client.receive(), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.from, client.peer);
    EXPECT_EQ(client.connect("s"), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    EXPECT_EQ(client.receive(), DOCA_ERROR_NOT_CONNECTED);
    // And comes back.
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    meet(client, service);
    EXPECT_EQ(client.send("again"), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "again");
}

TEST_F(CommChannelPair, MessagesUnderWayFailWithTheConnection) {
    ASSERT_EQ(client.send("never taken"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_destroy(service), DOCA_SUCCESS);
    EXPECT_TRUE(eventually([&] { return client.update() == DOCA_ERROR_CONNECTION_ABORTED; }));
    EXPECT_EQ(client.receive(), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.send("x"), DOCA_ERROR_CONNECTION_RESET);
}

TEST_F(CommChannelPair, AServiceSeesAClientGo) {
    doca_comm_channel_addr_t* const peer = known();
    ASSERT_NE(peer, nullptr);
    ASSERT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    EXPECT_TRUE(eventually([&] { return known() == nullptr; }));
    EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN); // it left in good order
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(service.send("x", peer), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(service, peer), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(service, peer), DOCA_ERROR_NOT_CONNECTED);
    // It may come back at once.
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    meet(client, service);
}

TEST_F(CommChannelPair, AClientMayComeBackBeforeItsLeavingWasSeen) {
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(client.send("last words " + std::to_string(i)), DOCA_SUCCESS);
        ASSERT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
        ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, "last words " + std::to_string(i));
        meet(client, service);
    }
}

TEST_F(CommChannelPair, WhatWasSentArrivesAfterTheSenderIsGone) {
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(client.send(std::to_string(i)), DOCA_SUCCESS);
    }
    ASSERT_EQ(doca_comm_channel_ep_destroy(client), DOCA_SUCCESS);
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, std::to_string(i));
    }
}

TEST_F(CommChannelPair, WhatAClientTookBeforeItLeftIsConfirmed) {
    ASSERT_EQ(client.send("question"), DOCA_SUCCESS);
    ASSERT_EQ(service.await(), DOCA_SUCCESS);
    doca_comm_channel_addr_t* const peer = service.from;
    ASSERT_EQ(service.send("answer", peer), DOCA_SUCCESS);
    ASSERT_EQ(client.await(), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    // Told of in this order, so that waiting for it needs no care.
    EXPECT_TRUE(eventually([&] {
        EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_SUCCESS);
        return value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, peer) == 0;
    }));
    EXPECT_TRUE(eventually([&] {
        return doca_comm_channel_peer_addr_update_info(peer) == DOCA_ERROR_CONNECTION_ABORTED;
    }));
}

TEST_F(CommChannelPair, DisconnectingDropsWhatWaits) {
    ASSERT_EQ(client.send("one"), DOCA_SUCCESS);
    ASSERT_EQ(client.send("two"), DOCA_SUCCESS);
    ASSERT_EQ(service.await(), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_disconnect(service, service.from), DOCA_SUCCESS);
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(service.receive(), DOCA_ERROR_AGAIN);
    }
}

TEST_F(CommChannelPair, DestroyingAServiceDisconnectsEveryClient) {
    Ep second(host());
    ASSERT_EQ(second.connect("s"), DOCA_SUCCESS);
    meet(second, service);
    Ep third(host()); // not accepted yet
    ASSERT_EQ(third.connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_destroy(service), DOCA_SUCCESS);
    for (Ep* const each : {&client, &second, &third}) {
        EXPECT_TRUE(eventually([&] { return each->send("x") == DOCA_ERROR_CONNECTION_RESET; }));
        EXPECT_EQ(each->update(), DOCA_ERROR_CONNECTION_ABORTED);
        EXPECT_EQ(doca_comm_channel_ep_disconnect(*each, each->peer), DOCA_SUCCESS);
    }
    // The name is free, for another endpoint and the same clients.
    Ep next(lab.dpu, rep());
    ASSERT_EQ(doca_comm_channel_ep_listen(next, "s"), DOCA_SUCCESS);
    for (Ep* const each : {&client, &second, &third}) {
        ASSERT_EQ(each->connect("s"), DOCA_SUCCESS);
        meet(*each, next);
    }
}

TEST_F(CommChannelPair, DestroyingAClientDisconnectsIt) {
    doca_comm_channel_addr_t* const peer = known();
    ASSERT_NE(peer, nullptr);
    ASSERT_EQ(doca_comm_channel_ep_destroy(client), DOCA_SUCCESS);
    EXPECT_TRUE(eventually([&] { return known() == nullptr; }));
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_ERROR_CONNECTION_ABORTED);
}

TEST_F(CommChannelResources, DestroyingFreesEverything) {
    const auto descriptors = [] {
        std::set<std::string> open;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            open.insert(entry.path().filename());
        }
        return open.size();
    };
    std::size_t before = 0;
    for (int round = 0; round < 4; ++round) {
        {
            Ep service(lab.dpu, rep());
            Ep client(host());
            int channel = -1;
            int send = -1;
            int recv = -1;
            ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
            ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
            meet(client, service);
            ASSERT_EQ(doca_comm_channel_ep_get_event_channel(service, &send, &recv), DOCA_SUCCESS);
            ASSERT_EQ(doca_comm_channel_ep_get_service_event_channel(service, &channel),
                      DOCA_SUCCESS);
            ASSERT_EQ(client.send("waits, and is never taken"), DOCA_SUCCESS);
            ASSERT_EQ(doca_comm_channel_ep_destroy(service), DOCA_SUCCESS);
            for (const int fd : {channel, send, recv}) {
                EXPECT_EQ(::fcntl(fd, F_GETFD), -1); // they were the endpoint's
            }
        }
        if (round == 0) {
            before = descriptors(); // what a process opens once
        }
        EXPECT_EQ(descriptors(), before);
        // Nothing holds the devices, either: the lab closes them.
    }
}

} // namespace
} // namespace comch::doca::test
