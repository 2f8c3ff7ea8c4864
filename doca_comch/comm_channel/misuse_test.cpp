// Endpoints of the 2023 generation, used wrongly: the documented error, and never a crash.
#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

TEST_F(CommChannelPair, NullAndWrongArgumentsAreRefused) {
    char room[8];
    std::size_t length = sizeof(room);
    doca_comm_channel_addr_t* from = nullptr;
    doca_comm_channel_ep_t* const none = nullptr;
    EXPECT_EQ(doca_comm_channel_ep_sendto(none, "x", 1, 0, client.peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, nullptr, 1, 0, client.peer),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 1, client.peer),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 0, nullptr), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 0, known()), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(none, room, &length, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, nullptr, &length, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, nullptr, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, &length, 0, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, &length, 2, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(none, client.peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, nullptr), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, known()), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_destroy(none), DOCA_ERROR_NOT_CONNECTED);
    std::uint64_t value = 0;
    EXPECT_EQ(doca_comm_channel_peer_addr_set_user_data(nullptr, 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(nullptr, &value), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_send_bytes(nullptr, &value),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_recv_bytes(client.peer, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(none), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannelPair, HandlesUsedAfterTheirEndAreRefused) {
    doca_comm_channel_addr_t* const peer = client.peer;
    ASSERT_EQ(doca_comm_channel_ep_disconnect(client, peer), DOCA_SUCCESS);
    std::uint64_t value = 0;
    EXPECT_EQ(client.send("x", peer), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, peer), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(peer, &value), DOCA_ERROR_INVALID_VALUE);
    doca_comm_channel_addr_t* const known_here = known();
    ASSERT_EQ(doca_comm_channel_ep_destroy(service), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_destroy(service), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(service.receive(), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(service.send("x", known_here), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_ERROR_INVALID_VALUE);
    if (known_here != nullptr) {
        EXPECT_EQ(doca_comm_channel_peer_addr_update_info(known_here), DOCA_ERROR_INVALID_VALUE);
    }
}

TEST_F(CommChannelPair, OnlyAServiceTellsOfAService) {
    std::uint32_t count = 0;
    doca_comm_channel_addr_t** list = nullptr;
    int channel = -1;
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(client), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(client, &list, &count),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(client, &count),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(client, &channel),
              DOCA_ERROR_NOT_SUPPORTED);
    Ep idle;
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(idle, &channel), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, nullptr, &count),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(service, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(service, nullptr),
              DOCA_ERROR_INVALID_VALUE);
}

} // namespace
} // namespace comch::doca::test
