// Endpoints of the 2023 generation: the end of a connection, and of an endpoint.
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

} // namespace
} // namespace comch::doca::test
