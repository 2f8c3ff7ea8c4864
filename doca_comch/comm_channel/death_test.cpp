// Endpoints whose other side is another process, which may be killed.
#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

TEST(CommChannelDeath, AKilledClientIsAnErrorOfItsOwn) {
    Lab lab;
    int ready[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    Process process([&] {
        char byte = 0;
        (void)!::read(ready[0], &byte, 1);
        lab.open();
        Ep client(lab.hosts.at(0));
        if (client.connect("s") != DOCA_SUCCESS ||
            !eventually([&] { return client.update() == DOCA_SUCCESS; })) {
            return 1;
        }
        (void)client.send("I was here");
        for (;;) {
            (void)client.receive();
            std::this_thread::yield();
        }
    });
    lab.open();
    Ep service(lab.dpu, lab.representors.at(0));
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(::write(ready[1], "x", 1), 1);
    Ep other(lab.hosts.at(0));
    ASSERT_EQ(other.connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "I was here");
    doca_comm_channel_addr_t* const victim = service.from;
    meet(other, service);

    int events = -1;
    int recv = -1;
    ASSERT_EQ(doca_comm_channel_ep_get_service_event_channel(service, &events), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(service, nullptr, &recv), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(service), DOCA_SUCCESS);
    process.kill();
    EXPECT_TRUE(wakes(events));
    EXPECT_TRUE(wakes(recv));
    EXPECT_EQ(service.await(), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(service.from, victim);
    EXPECT_EQ(service.send("x", victim), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(victim), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, victim), 1u);
    EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN); // told once; the others are served
    EXPECT_EQ(other.send("still here"), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
    doca_comm_channel_addr_t** list = nullptr;
    std::uint32_t count = 0;
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
    ASSERT_EQ(count, 1u);
    EXPECT_NE(list[0], victim);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(service, victim), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(service, victim), DOCA_ERROR_NOT_CONNECTED);
}

TEST(CommChannelDeath, WhatAKilledClientHadSentComesBeforeTheError) {
    Lab lab;
    int ready[2] = {-1, -1};
    int sent[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(sent, O_CLOEXEC), 0);
    Process process([&] {
        char byte = 0;
        (void)!::read(ready[0], &byte, 1);
        lab.open();
        Ep client(lab.hosts.at(0));
        if (client.connect("s") != DOCA_SUCCESS ||
            !eventually([&] { return client.update() == DOCA_SUCCESS; })) {
            return 1;
        }
        for (int i = 0; i < 10; ++i) {
            (void)client.send(std::to_string(i));
        }
        (void)!::write(sent[1], "x", 1);
        for (;;) {
            (void)client.update();
            std::this_thread::yield();
        }
    });
    lab.open();
    Ep service(lab.dpu, lab.representors.at(0));
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    ASSERT_EQ(::write(ready[1], "x", 1), 1);
    ASSERT_EQ(service.await(), DOCA_SUCCESS); // accepts, and receives the first
    EXPECT_EQ(service.text, "0");
    doca_comm_channel_addr_t* const victim = service.from;
    char byte = 0;
    ASSERT_EQ(::read(sent[0], &byte, 1), 1);
    process.kill();
    doca_error_t result = DOCA_SUCCESS;
    int received = 1;
    while ((result = service.await()) == DOCA_SUCCESS) {
        EXPECT_EQ(service.text, std::to_string(received++));
    }
    if (!comch::test::test_description()) { // RDMA loses what had not left
        EXPECT_EQ(received, 10);
    }
    EXPECT_EQ(result, DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(service.from, victim);
    for (int i = 0; i < 100; ++i) { // and nothing after it
        ASSERT_EQ(service.receive(), DOCA_ERROR_AGAIN);
    }
}

TEST(CommChannelDeath, AKilledServiceFailsItsClients) {
    Lab lab;
    int ready[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    Process process([&] {
        lab.open();
        Ep service(lab.dpu, lab.representors.at(0));
        if (doca_comm_channel_ep_listen(service, "s") != DOCA_SUCCESS) {
            return 1;
        }
        (void)!::write(ready[1], "x", 1);
        for (;;) {
            if (service.receive() == DOCA_SUCCESS) {
                (void)service.send(service.text, service.from);
            }
            std::this_thread::yield();
        }
    });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    lab.open();
    Ep client(lab.hosts.at(0));
    ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
    ASSERT_TRUE(eventually([&] { return client.update() == DOCA_SUCCESS; }));
    ASSERT_EQ(client.send("ping"), DOCA_SUCCESS);
    ASSERT_EQ(client.await(), DOCA_SUCCESS);
    int recv = -1;
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(client, nullptr, &recv), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(client), DOCA_SUCCESS);
    process.kill();
    EXPECT_TRUE(wakes(recv)); // a death is told, unlike a disconnect
    EXPECT_EQ(client.await(), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.send("x"), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(client.update(), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
    EXPECT_EQ(client.connect("s"), DOCA_ERROR_CONNECTION_ABORTED);
}

TEST(CommChannelDeath, TheTwoSidesTalkAsTwoProcesses) {
    Lab lab;
    int ready[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    constexpr int count = 500;
    Process process([&] {
        char byte = 0;
        (void)!::read(ready[0], &byte, 1);
        lab.open();
        Ep client(lab.hosts.at(0));
        int recv = -1;
        if (client.connect("s") != DOCA_SUCCESS ||
            doca_comm_channel_ep_get_event_channel(client, nullptr, &recv) != DOCA_SUCCESS ||
            !eventually([&] { return client.update() == DOCA_SUCCESS; })) {
            return 1;
        }
        for (int i = 0; i < count; ++i) {
            if (client.send(std::to_string(i)) != DOCA_SUCCESS) {
                return 2;
            }
            doca_error_t result = DOCA_ERROR_AGAIN;
            while ((result = client.receive()) == DOCA_ERROR_AGAIN) {
                if (doca_comm_channel_ep_event_handle_arm_recv(client) != DOCA_SUCCESS ||
                    !wakes(recv)) {
                    return 3;
                }
            }
            if (result != DOCA_SUCCESS || client.text != std::to_string(i)) {
                return 4;
            }
        }
        return 0;
    });
    lab.open();
    Ep service(lab.dpu, lab.representors.at(0));
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    int recv = -1;
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(service, nullptr, &recv), DOCA_SUCCESS);
    ASSERT_EQ(::write(ready[1], "x", 1), 1);
    for (int i = 0; i < count; ++i) {
        doca_error_t result = DOCA_ERROR_AGAIN;
        while ((result = service.receive()) == DOCA_ERROR_AGAIN) {
            ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(service), DOCA_SUCCESS);
            ASSERT_TRUE(wakes(recv));
        }
        ASSERT_EQ(result, DOCA_SUCCESS);
        ASSERT_EQ(service.send(service.text, service.from), DOCA_SUCCESS);
    }
    EXPECT_EQ(process.wait(), 0);
}

} // namespace
} // namespace comch::doca::test
