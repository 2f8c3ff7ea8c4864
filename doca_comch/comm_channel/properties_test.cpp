// Endpoints of the 2023 generation: what devices can do, and what is set on an endpoint.
#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

TEST_F(CommChannel, DevicesTellTheirLimits) {
    std::uint32_t value = 0;
    EXPECT_EQ(doca_comm_channel_get_max_service_name_len(&value), DOCA_SUCCESS);
    EXPECT_EQ(value, 120u);
    for (doca_dev* const device : {lab.dpu, host()}) {
        doca_devinfo* const info = doca_dev_as_devinfo(device);
        EXPECT_EQ(doca_comm_channel_get_max_message_size(info, &value), DOCA_SUCCESS);
        EXPECT_EQ(value, 4080u);
        EXPECT_EQ(doca_comm_channel_get_max_send_queue_size(info, &value), DOCA_SUCCESS);
        EXPECT_EQ(value, 8192u);
        EXPECT_EQ(doca_comm_channel_get_max_recv_queue_size(info, &value), DOCA_SUCCESS);
        EXPECT_EQ(value, 8192u);
    }
    EXPECT_EQ(
        doca_comm_channel_get_service_max_num_connections(doca_dev_as_devinfo(lab.dpu), &value),
        DOCA_SUCCESS);
    EXPECT_EQ(value, 512u);
    EXPECT_EQ(
        doca_comm_channel_get_service_max_num_connections(doca_dev_as_devinfo(host()), &value),
        DOCA_ERROR_NOT_SUPPORTED);
    doca_devinfo* const info = doca_dev_as_devinfo(host());
    EXPECT_EQ(doca_comm_channel_get_max_service_name_len(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_get_max_message_size(nullptr, &value), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_get_max_message_size(info, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_get_max_send_queue_size(info, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_get_max_recv_queue_size(nullptr, &value), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_get_service_max_num_connections(info, nullptr),
              DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannel, PropertiesHaveDefaultsAndAreRaised) {
    Ep ep;
    std::uint16_t value = 0;
    EXPECT_EQ(doca_comm_channel_ep_get_max_msg_size(ep, &value), DOCA_SUCCESS);
    EXPECT_GT(value, 0);
    EXPECT_EQ(doca_comm_channel_ep_get_send_queue_size(ep, &value), DOCA_SUCCESS);
    EXPECT_GT(value, 0);
    EXPECT_EQ(doca_comm_channel_ep_get_recv_queue_size(ep, &value), DOCA_SUCCESS);
    EXPECT_GT(value, 0);

    EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(ep, 100), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_max_msg_size(ep, &value), DOCA_SUCCESS);
    EXPECT_EQ(value, 100);
    EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(ep, 1), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_max_msg_size(ep, &value), DOCA_SUCCESS);
    EXPECT_EQ(value, 32);
    EXPECT_EQ(doca_comm_channel_ep_set_send_queue_size(ep, 10), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_send_queue_size(ep, &value), DOCA_SUCCESS);
    EXPECT_EQ(value, 16);
    EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(ep, 1), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_recv_queue_size(ep, &value), DOCA_SUCCESS);
    EXPECT_EQ(value, 4);
    EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(ep, 8192), DOCA_SUCCESS);
}

TEST_F(CommChannel, PropertiesOutOfRangeAreRefused) {
    Ep ep;
    for (const std::uint16_t wrong : {std::uint16_t{0}, std::uint16_t{8193}}) {
        EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(ep, wrong), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_comm_channel_ep_set_send_queue_size(ep, wrong), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(ep, wrong), DOCA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(ep, 4081), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(nullptr, 64), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_send_queue_size(nullptr, 64), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(nullptr, 64), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_device(ep, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_device_rep(ep, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_max_msg_size(ep, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_send_queue_size(ep, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_recv_queue_size(ep, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_create(nullptr), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannel, DeviceAndRepresentorAreHeld) {
    Ep ep;
    doca_dev* device = host();
    doca_dev_rep* representor = rep();
    EXPECT_EQ(doca_comm_channel_ep_get_device(ep, &device), DOCA_SUCCESS);
    EXPECT_EQ(device, nullptr);
    EXPECT_EQ(doca_comm_channel_ep_get_device_rep(ep, &representor), DOCA_SUCCESS);
    EXPECT_EQ(representor, nullptr);
    EXPECT_EQ(doca_comm_channel_ep_set_device(ep, lab.dpu), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_set_device_rep(ep, rep()), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_device(ep, &device), DOCA_SUCCESS);
    EXPECT_EQ(device, lab.dpu);
    EXPECT_EQ(doca_comm_channel_ep_get_device_rep(ep, &representor), DOCA_SUCCESS);
    EXPECT_EQ(representor, rep());
    EXPECT_EQ(doca_dev_close(lab.dpu), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dev_rep_close(rep()), DOCA_ERROR_IN_USE);
}

TEST_F(CommChannelPair, PropertiesOfAnActiveEndpointStay) {
    for (Ep* const ep : {&service, &client}) {
        EXPECT_EQ(doca_comm_channel_ep_set_device(*ep, host()), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comm_channel_ep_set_device_rep(*ep, rep()), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(*ep, 64), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comm_channel_ep_set_send_queue_size(*ep, 64), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(*ep, 64), DOCA_ERROR_BAD_STATE);
    }
    // A client that has disconnected is not active.
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(client, 64), DOCA_SUCCESS);
}

} // namespace
} // namespace comch::doca::test
