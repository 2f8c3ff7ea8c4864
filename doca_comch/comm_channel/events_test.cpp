// Event channels of endpoints, and what happens when clients misbehave.
#include <comch/client.hpp>
#include <sys/epoll.h>

#include "core/base/unique_fd.hpp"
#include "core/link/fake/network_state.hpp"
#include "doca_comch/comm_channel/greeting.hpp"
#include "doca_comch/comm_channel/test_support.hpp"
#include "doca_comch/common/device.hpp"

namespace comch::doca::test {
namespace {

/// A service "s", and a client that it has accepted; all channels.
class CommChannelEvents : public testing::Test {
protected:
    void SetUp() override {
        lab.open();
        service = std::make_unique<Ep>(lab.dpu, lab.representors.at(0));
        client = std::make_unique<Ep>(lab.hosts.at(0));
        ASSERT_EQ(doca_comm_channel_ep_listen(*service, "s"), DOCA_SUCCESS);
    }
    void connect() {
        ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
        meet(*client, *service);
        ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*client, &client_send, &client_recv),
                  DOCA_SUCCESS);
        ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*service, &service_send, &service_recv),
                  DOCA_SUCCESS);
    }
    std::uint32_t clients() {
        doca_comm_channel_addr_t** list = nullptr;
        std::uint32_t count = 0;
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(*service), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(*service, &list, &count), DOCA_SUCCESS);
        return count;
    }
    /// Nothing happens. Over RDMA there may be wake-ups for reasons of the link's; who looks finds
    /// nothing then, and can sleep on.
    template <class Look> bool rests(int fd, Look&& look) {
        if (!comch::test::test_description()) {
            return !readable(fd, 20);
        }
        return eventually([&] {
            look();
            return !readable(fd, 20);
        });
    }
    std::uint32_t pending() {
        std::uint32_t count = 0;
        EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(*service, &count), DOCA_SUCCESS);
        return count;
    }

    /// The client is known to wait, has asked in vain after that, and has its channels.
    void connect_too_early() {
        ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
        ASSERT_TRUE(eventually([&] {
            EXPECT_EQ(client->update(), DOCA_ERROR_CONNECTION_INPROGRESS);
            return clients() == 0 && pending() == 1;
        }));
        EXPECT_EQ(client->update(), DOCA_ERROR_CONNECTION_INPROGRESS);
        ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*client, &client_send, &client_recv),
                  DOCA_SUCCESS);
    }
    /// The service accepts the client, which finds out by nothing but `look`. (Over RDMA perhaps
    /// not before it looks again.)
    template <class Look> void accept(Look&& look) {
        ASSERT_TRUE(eventually([&] {
            EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
            look();
            return clients() == 1;
        }));
    }
    /// The client is woken until `look`, before it arms the channel anew, has found what it wants.
    template <class Look, class Arm> bool wakes_until(int fd, Look&& look, Arm&& arm) {
        return eventually([&] {
            EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
            if (!readable(fd)) {
                return false;
            }
            const bool found = look();
            EXPECT_EQ(arm(*client), DOCA_SUCCESS);
            return found;
        });
    }
    bool wakes_accepted() {
        return wakes_until(
            client_recv, [&] { return client->update() == DOCA_SUCCESS; },
            doca_comm_channel_ep_event_handle_arm_recv);
    }

    Lab lab;
    std::unique_ptr<Ep> service;
    std::unique_ptr<Ep> client;
    int client_send = -1;
    int client_recv = -1;
    int service_send = -1;
    int service_recv = -1;
};

TEST_F(CommChannelEvents, ChannelsComeWithListeningOrConnecting) {
    int send = -1;
    int recv = -1;
    EXPECT_EQ(doca_comm_channel_ep_get_event_channel(*client, &send, &recv), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comm_channel_ep_get_event_channel(*service, &send, nullptr), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_get_event_channel(*service, nullptr, &recv), DOCA_SUCCESS);
    EXPECT_GE(send, 0);
    EXPECT_GE(recv, 0);
    EXPECT_NE(send, recv);
    EXPECT_EQ(doca_comm_channel_ep_get_event_channel(*service, nullptr, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_event_channel(nullptr, &send, &recv),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_send(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_recv(nullptr), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannelEvents, AReceiveEventComesOnceForEachArming) {
    connect();
    ASSERT_EQ(client->send("one"), DOCA_SUCCESS);
    EXPECT_FALSE(readable(service_recv, 20)); // not armed
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(service_recv)); // what was there already is no less an event
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
    EXPECT_TRUE(rests(service_recv,
                      [&] { EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); })); // nothing new
    ASSERT_EQ(client->send("two"), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(service_recv));
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->text, "two");
    EXPECT_FALSE(readable(service_send)); // not armed, whatever happened
}

TEST_F(CommChannelEvents, OnlyAnArmedChannelWakesAnEpollSet) {
    connect();
    UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
    // Edges, so that what was told is not told again.
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = service_recv}};
    ASSERT_EQ(::epoll_ctl(set.get(), EPOLL_CTL_ADD, service_recv, &event), 0);
    const auto told = [&](int timeout) { return ::epoll_wait(set.get(), &event, 1, timeout) == 1; };
    const int long_time = static_cast<int>(std::chrono::milliseconds(patience).count());
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(client->send("not armed"), DOCA_SUCCESS);
        EXPECT_FALSE(told(20));
        ASSERT_EQ(service->await(), DOCA_SUCCESS);
        ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
        ASSERT_EQ(client->send("armed"), DOCA_SUCCESS);
        EXPECT_TRUE(told(long_time));
        EXPECT_EQ(event.data.fd, service_recv);
        ASSERT_EQ(service->await(), DOCA_SUCCESS);
        EXPECT_EQ(service->text, "armed");
        while (
            told(0)) { // on its way, the endpoint's engine may say more than once that it has work
        }
    }
}

TEST_F(CommChannelEvents, ChannelsOutliveAConnection) {
    connect();
    const int send = client_send;
    const int recv = client_recv;
    ASSERT_EQ(doca_comm_channel_ep_disconnect(*client, client->peer), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    ASSERT_TRUE(eventually([&] { return clients() == 0; }));
    connect();
    EXPECT_EQ(client_send, send); // still the endpoint's
    EXPECT_EQ(client_recv, recv);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(recv, [&] { EXPECT_EQ(client->receive(), DOCA_ERROR_AGAIN); }));
    ASSERT_EQ(client->send("question"), DOCA_SUCCESS);
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    ASSERT_EQ(service->send("answer", service->from), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(recv));
    EXPECT_EQ(client->await(), DOCA_SUCCESS);
    EXPECT_EQ(client->text, "answer");
}

TEST_F(CommChannelEvents, ASendEventComesWhenAMessageWasConfirmed) {
    connect();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] { EXPECT_EQ(client->update(), DOCA_SUCCESS); }));
    ASSERT_EQ(client->send("one"), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] {
        EXPECT_EQ(client->update(), DOCA_SUCCESS);
    })); // it has not taken it yet
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); // which returns the credit
    EXPECT_TRUE(wakes(client_send));
    EXPECT_FALSE(readable(client_recv));
    // One that happened before the arming counts, too.
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    ASSERT_EQ(client->send("two"), DOCA_SUCCESS);
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    EXPECT_TRUE(wakes(client_send));
}

TEST_F(CommChannelEvents, AFullQueueCanBeSleptOn) {
    ASSERT_EQ(doca_comm_channel_ep_set_send_queue_size(*client, 4), DOCA_SUCCESS);
    connect();
    constexpr int count = 200;
    std::thread receiver([&] {
        for (int i = 0; i < count; ++i) {
            while (service->receive() == DOCA_ERROR_AGAIN) {
                ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
                ASSERT_TRUE(wakes(service_recv));
            }
            ASSERT_EQ(service->text, std::to_string(i));
        }
        // Takes notice of nothing more, so all is confirmed.
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    });
    for (int i = 0; i < count; ++i) {
        while (client->send(std::to_string(i)) == DOCA_ERROR_AGAIN) {
            ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
            ASSERT_TRUE(wakes(client_send));
        }
    }
    receiver.join();
}

TEST_F(CommChannelEvents, RoomSinceARefusalIsToldOfByEachArmingUntilTheNextSend) {
    ASSERT_EQ(doca_comm_channel_ep_set_send_queue_size(*client, 4), DOCA_SUCCESS);
    connect();
    unsigned sent = 0;
    while (client->send("full") != DOCA_ERROR_AGAIN) {
        ++sent;
    }
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    for (unsigned i = 0; i < sent; ++i) {
        ASSERT_EQ(service->await(), DOCA_SUCCESS);
    }
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); // which confirms them
    // It rings while something else is done, and the program arms it before it looks.
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(client->update(), DOCA_SUCCESS);
        return value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client->peer) == 0;
    }));
    EXPECT_TRUE(readable(client_send));
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
        EXPECT_TRUE(readable(client_send)) << round;
    }
    ASSERT_EQ(client->send("not refused"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] { EXPECT_EQ(client->update(), DOCA_SUCCESS); }));
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    EXPECT_TRUE(wakes(client_send)); // as ever
}

TEST_F(CommChannelEvents, AClientCanSleepUntilItIsAccepted) {
    ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*client, nullptr, &client_recv), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*service, nullptr, &service_recv),
              DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(service_recv)); // the request: else it would never be taken
    // Nobody does anything unless woken. A link may take several steps to connect.
    ASSERT_TRUE(eventually([&] {
        if (readable(service_recv)) {
            EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
            EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
        }
        if (!readable(client_recv)) {
            return false;
        }
        const doca_error_t result = client->update();
        EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
        return result == DOCA_SUCCESS;
    }));
}

TEST_F(CommChannelEvents, AnAcceptanceFoundByArmingToReceiveIsTold) {
    connect_too_early();
    accept([&] { ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS); });
    EXPECT_TRUE(wakes_accepted());
}

TEST_F(CommChannelEvents, AnAcceptanceFoundByArmingToSendIsToldToWhoArmsToReceive) {
    connect_too_early();
    accept([&] { ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS); });
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    EXPECT_TRUE(wakes_accepted());
}

TEST_F(CommChannelEvents, AnAcceptanceIsToldToWhoArmsToReceiveAlthoughItHasRungBefore) {
    connect_too_early();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    accept([&] { EXPECT_EQ(client->receive(), DOCA_ERROR_AGAIN); }); // another thread, say
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    EXPECT_TRUE(wakes_accepted());
    // It is told once.
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_recv, [&] { EXPECT_EQ(client->receive(), DOCA_ERROR_AGAIN); }));
}

TEST_F(CommChannelEvents, WhoCouldNotSendYetIsWokenWhenAccepted) {
    ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*client, &client_send, nullptr), DOCA_SUCCESS);
    EXPECT_EQ(client->send("early"), DOCA_ERROR_AGAIN);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
        if (!readable(client_send)) {
            return false;
        }
        const doca_error_t result = client->send("now");
        EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
        return result == DOCA_SUCCESS;
    }));
}

TEST_F(CommChannelEvents, AnAcceptanceSinceARefusalIsToldOfByEachArmingUntilTheNextSend) {
    connect_too_early();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    ASSERT_EQ(client->send("early"), DOCA_ERROR_AGAIN);
    accept([&] { EXPECT_EQ(client->receive(), DOCA_ERROR_AGAIN); }); // another thread, say
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
        EXPECT_TRUE(wakes_until(
            client_send, [&] { return client->update() == DOCA_SUCCESS; },
            doca_comm_channel_ep_event_handle_arm_send))
            << round;
    }
    ASSERT_EQ(client->send("now"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] { EXPECT_EQ(client->update(), DOCA_SUCCESS); }));
}

TEST_F(CommChannelEvents, AFailureSinceARefusalIsToldOfByEachArmingUntilTheNextSend) {
    ASSERT_EQ(doca_comm_channel_ep_set_send_queue_size(*client, 4), DOCA_SUCCESS);
    connect();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    while (client->send("full") != DOCA_ERROR_AGAIN) {
    }
    service.reset();
    ASSERT_EQ(client->await(), DOCA_ERROR_CONNECTION_RESET); // another thread, say
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
        EXPECT_TRUE(readable(client_send)) << round;
    }
    EXPECT_EQ(client->send("more"), DOCA_ERROR_CONNECTION_RESET);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] {
        EXPECT_EQ(client->receive(), DOCA_ERROR_CONNECTION_RESET);
    })); // it knows
}

TEST_F(CommChannelEvents, ASendThatTakesTheAcceptanceLeavesTheReceiveChannelArmed) {
    ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_get_event_channel(*client, nullptr, &client_recv), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    doca_error_t sent = DOCA_ERROR_AGAIN;
    ASSERT_TRUE(eventually([&] {
        (void)service->receive(); // accepts; the message may come with it
        return (sent = client->send("hello")) != DOCA_ERROR_AGAIN;
    }));
    ASSERT_EQ(sent, DOCA_SUCCESS);
    if (service->text.empty()) {
        ASSERT_EQ(service->await(), DOCA_SUCCESS);
    }
    ASSERT_EQ(service->send("answer", service->from), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(client_recv));
}

TEST_F(CommChannelEvents, ARefusedMessageTakesNoReceiveEventAway) {
    ASSERT_EQ(doca_comm_channel_ep_destroy(*service), DOCA_SUCCESS);
    service = std::make_unique<Ep>(lab.dpu, lab.representors.at(0));
    ASSERT_EQ(doca_comm_channel_ep_set_max_msg_size(*service, 100), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_listen(*service, "s"), DOCA_SUCCESS);
    connect_too_early();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*client), DOCA_SUCCESS);
    doca_error_t sent = DOCA_ERROR_AGAIN;
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); // accepts
        return (sent = client->send(std::string(101, 'x'))) != DOCA_ERROR_AGAIN;
    }));
    EXPECT_EQ(sent, DOCA_ERROR_INVALID_VALUE) << "longer than the service takes";
    EXPECT_TRUE(wakes(client_recv));
}

TEST_F(CommChannelEvents, AnUpdateTakesNoSendEventAway) {
    connect();
    unsigned sent = 0;
    while (client->send("x") == DOCA_SUCCESS) {
        ++sent;
    }
    for (; sent != 0; --sent) {
        ASSERT_EQ(service->await(), DOCA_SUCCESS);
    }
    // All of it is confirmed, for the statistics, too. (Over RDMA perhaps not before somebody asks.)
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
        EXPECT_EQ(client->update(), DOCA_SUCCESS);
        return value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client->peer) == 0;
    }));
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(client_send));
}

/// What was rung for between an update and the arming that follows is not taken away by that.
TEST_F(CommChannelEvents, WhoWaitsByUpdatesIsToldOfWhatAnotherCallHasFound) {
    connect();
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    ASSERT_EQ(client->send("x"), DOCA_SUCCESS);
    ASSERT_EQ(client->update(), DOCA_SUCCESS);
    ASSERT_EQ(value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client->peer), 1u);
    ASSERT_EQ(service->await(), DOCA_SUCCESS); // confirms
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
        EXPECT_EQ(client->receive(), DOCA_ERROR_AGAIN); // finds that
        return readable(client_send);
    }));
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(client_send));
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    EXPECT_TRUE(rests(client_send, [&] {
        EXPECT_EQ(client->update(), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_event_handle_arm_send(*client), DOCA_SUCCESS);
    })) << "it has been told once";
}

TEST_F(CommChannelEvents, TheServiceChannelTellsWhoComesAndGoes) {
    int channel = -1;
    ASSERT_EQ(doca_comm_channel_ep_get_service_event_channel(*service, &channel), DOCA_SUCCESS);
    ASSERT_EQ(client->connect("s"), DOCA_SUCCESS);
    EXPECT_FALSE(readable(channel, 20)); // not armed
    ASSERT_TRUE(eventually([&] {
        (void)client->update(); // a link may need the client's help to bring its request
        return clients() == 0 && pending() == 1;
    }));
    EXPECT_TRUE(rests(channel, [&] { EXPECT_EQ(clients(), 0u); })); // nothing since the snapshot
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);                // accepts
    EXPECT_TRUE(wakes(channel));
    EXPECT_EQ(clients(), 1u);
    ASSERT_TRUE(eventually([&] { return client->update() == DOCA_SUCCESS; }));
    EXPECT_TRUE(rests(channel, [&] { EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); }));
    ASSERT_EQ(doca_comm_channel_ep_disconnect(*client, client->peer), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(channel));
    EXPECT_TRUE(eventually([&] { return clients() == 0; }));
    Ep second(lab.hosts.at(0));
    ASSERT_EQ(second.connect("s"), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(channel)); // a client that waits
    ASSERT_TRUE(eventually([&] {
        (void)second.update();
        return clients() == 0 && pending() == 1;
    }));
}

TEST_F(CommChannelEvents, AnotherChannelsEventIsNotMistaken) {
    connect();
    int channel = -1;
    ASSERT_EQ(doca_comm_channel_ep_get_service_event_channel(*service, &channel), DOCA_SUCCESS);
    ASSERT_EQ(clients(), 1u); // arms
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_recv(*service), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_event_handle_arm_send(*service), DOCA_SUCCESS);
    ASSERT_EQ(client->send("x"), DOCA_SUCCESS);
    EXPECT_TRUE(wakes(service_recv));
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    // Once the endpoint has looked, it is known whose event it was.
    EXPECT_TRUE(rests(channel, [&] { EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); }));
    EXPECT_TRUE(rests(service_send, [&] { EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN); }));
}

TEST(CommChannelDevice, AServiceThatLosesItIsBeyondRecovery) {
    Lab lab;
    lab.open();
    link::fake::Network network(lab.dpu->info.device.domain());
    {
        Ep service(lab.dpu, lab.representors.at(0));
        Ep client(lab.hosts.at(0));
        ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
        ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
        meet(client, service);
        ASSERT_EQ(client.send("hello"), DOCA_SUCCESS);
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        doca_comm_channel_addr_t* const peer = service.from;
        int channel = -1;
        ASSERT_EQ(doca_comm_channel_ep_get_service_event_channel(service, &channel), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS); // arms
        EXPECT_FALSE(readable(channel, 20));
        network.lose_device(link::fake::detail::address_of(1)); // the service's port is the first
        EXPECT_TRUE(wakes(channel)) << "a failure of the service is one of its events";
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service),
                      DOCA_ERROR_CONNECTION_RESET);
        }
        doca_comm_channel_addr_t** list = nullptr;
        std::uint32_t count = 1;
        EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
        EXPECT_EQ(count, 0u);
        EXPECT_EQ(service.send("x", peer), DOCA_ERROR_CONNECTION_RESET);
        EXPECT_EQ(service.await(), DOCA_ERROR_CONNECTION_RESET);
        EXPECT_EQ(service.from, peer);
        Ep late(lab.hosts.at(0));
        EXPECT_EQ(late.connect("s"), DOCA_ERROR_CONNECTION_ABORTED);
        EXPECT_TRUE(eventually([&] { return client.send("x") == DOCA_ERROR_CONNECTION_RESET; }));
    }
    // Another endpoint may have the name.
    Ep service(lab.dpu, lab.representors.at(0));
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
}

// ---- hostile clients ---------------------------------------------------------------------------

/// A client that is not an endpoint: says what it wants in its request.
struct Stranger {
    std::unique_ptr<ProgressEngine> engine = *ProgressEngine::create();
    std::unique_ptr<Client> client;

    Stranger(const Lab& lab, std::span<const std::byte> data) {
        auto opened = Client::open(*engine, lab.hosts.at(0)->info.device, "s", {.data = data}, {});
        EXPECT_TRUE(opened);
        client = std::move(*opened);
    }
    Errc progress() {
        (void)engine->progress();
        return client->outcome();
    }
};

TEST_F(CommChannelEvents, AnExistingClientsHandshakeFails) {
    const Greeting greeting{.max_message = 100, .endpoint = 77, .attempt = 1};
    Stranger first(lab, as_bytes(greeting));
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
        return first.progress() == Errc::ok;
    }));
    Stranger same(lab, as_bytes(greeting));
    doca_error_t answer = DOCA_ERROR_AGAIN;
    ASSERT_TRUE(eventually([&] {
        (void)same.progress();
        return (answer = service->receive()) != DOCA_ERROR_AGAIN;
    }));
    EXPECT_EQ(answer, DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(service->from, nullptr);
    EXPECT_TRUE(eventually([&] {
        (void)service->receive();
        return same.progress() == Errc::rejected;
    }));
    EXPECT_EQ(first.progress(), Errc::ok); // the first is none the worse
    EXPECT_EQ(clients(), 1u);
}

TEST_F(CommChannelEvents, AClientThatGoesBeforeItIsAcceptedFailsTheHandshake) {
    {
        const Greeting greeting{.max_message = 100, .endpoint = 77, .attempt = 1};
        Stranger hasty(lab, as_bytes(greeting));
        ASSERT_TRUE(eventually([&] {
            (void)hasty.progress();
            return clients() == 0 && pending() == 1;
        }));
    }
    ASSERT_TRUE(eventually([&] { return clients() == 0 && pending() == 0; }));
    EXPECT_EQ(service->await(), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    connect();
}

TEST_F(CommChannelEvents, GreetingsThatMakeNoSenseDoNoHarm) {
    const std::string noise(100, 'z');
    Stranger stranger(lab, std::as_bytes(std::span(noise)));
    ASSERT_TRUE(eventually([&] {
        (void)service->receive();
        return stranger.progress() == Errc::ok;
    }));
    EXPECT_EQ(clients(), 1u);
    ASSERT_EQ(stranger.client->connection().send(std::as_bytes(std::span(noise))), Errc::ok);
    EXPECT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->text, noise);
}

TEST_F(CommChannelEvents, AMessageLongerThanWhatThePeerWasToldFailsIt) {
    ASSERT_EQ(doca_comm_channel_ep_destroy(*service), DOCA_SUCCESS);
    service = std::make_unique<Ep>(lab.dpu, lab.representors.at(0));
    ASSERT_EQ(doca_comm_channel_ep_set_max_msg_size(*service, 100), DOCA_SUCCESS);
    ASSERT_EQ(doca_comm_channel_ep_listen(*service, "s"), DOCA_SUCCESS);
    connect();
    const Greeting greeting{.max_message = 4080, .endpoint = 77, .attempt = 1};
    Stranger stranger(lab, as_bytes(greeting));
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
        return stranger.progress() == Errc::ok;
    }));
    const std::string all(100, 'a');
    const std::string more(101, 'm');
    for (const std::string& message : {all, more, all}) {
        ASSERT_EQ(stranger.client->connection().send(std::as_bytes(std::span(message))), Errc::ok);
    }
    ASSERT_EQ(client->send("of another"), DOCA_SUCCESS);
    ASSERT_EQ(service->await(), DOCA_SUCCESS);
    EXPECT_EQ(service->text, all);
    doca_comm_channel_addr_t* const peer = service->from;
    EXPECT_EQ(service->await(), DOCA_ERROR_CONNECTION_RESET); // a program has room for 100
    EXPECT_EQ(service->from, peer);
    EXPECT_EQ(service->send("x", peer), DOCA_ERROR_CONNECTION_RESET);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(service->await(), DOCA_SUCCESS); // and nothing more of the stranger's
    EXPECT_EQ(service->text, "of another");
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(*service, peer), DOCA_SUCCESS);
    EXPECT_EQ(service->receive(), DOCA_ERROR_AGAIN);
    EXPECT_TRUE(eventually([&] { return clients() == 1; }));
}

} // namespace
} // namespace comch::doca::test
