// Endpoints of DOCA Comm Channel, while there is no memory.
#include <gmock/gmock.h>

#include <doca_comm_channel.h>

#include "doca_comch/comch/test_support.hpp"
#include "doca_comch/no_memory/failing_new.hpp"

namespace {

using namespace comch::doca::test;

/// An endpoint that is made and given its device without memory at first.
struct Endpoint {
    doca_comm_channel_ep_t* ep = nullptr;

    explicit Endpoint(doca_dev* device) {
        EXPECT_OK(outlast([&] { return doca_comm_channel_ep_create(&ep); }));
        EXPECT_OK(outlast([&] { return doca_comm_channel_ep_set_device(ep, device); }));
    }
    ~Endpoint() {
        EXPECT_OK(outlast([&] { return doca_comm_channel_ep_destroy(ep); }));
    }
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    [[nodiscard]] doca_error_t send(const std::string& message, doca_comm_channel_addr_t* to) {
        return outlast([&] {
            return doca_comm_channel_ep_sendto(ep, message.data(), message.size(),
                                               DOCA_CC_MSG_FLAG_NONE, to);
        });
    }
    [[nodiscard]] doca_error_t receive(std::string& message, doca_comm_channel_addr_t*& from) {
        std::string room(64, ' ');
        std::size_t length = room.size();
        const doca_error_t result =
            doca_comm_channel_ep_recvfrom(ep, room.data(), &length, DOCA_CC_MSG_FLAG_NONE, &from);
        message = result == DOCA_SUCCESS ? room.substr(0, length) : message;
        return result;
    }
};

/// A service and a client of it, which is accepted.
struct Connection {
    Lab lab;
    Endpoint service{lab.dpu};
    Endpoint client{lab.host};
    doca_comm_channel_addr_t* to_service = nullptr;
    doca_comm_channel_addr_t* to_client = nullptr;

    Connection() {
        EXPECT_OK(outlast(
            [&] { return doca_comm_channel_ep_set_device_rep(service.ep, lab.representor); }));
        EXPECT_OK(outlast([&] { return doca_comm_channel_ep_listen(service.ep, name); }));
        connect();
    }
    void connect() {
        EXPECT_OK(
            outlast([&] { return doca_comm_channel_ep_connect(client.ep, name, &to_service); }));
        std::string message;
        doca_error_t sent = DOCA_ERROR_AGAIN;
        EXPECT_TRUE(progress_until([&] { // until the service has accepted the client
            // (The attempts that failed were clients of its, too.)
            EXPECT_THAT(outlast([&] { return service.receive(message, to_client); }, Files::kept),
                        testing::AnyOf(DOCA_ERROR_AGAIN, DOCA_ERROR_CONNECTION_ABORTED));
            sent = client.send("question", to_service);
            return sent != DOCA_ERROR_AGAIN;
        }));
        EXPECT_OK(sent);
    }

private:
    static constexpr const char* name = "a service whose name needs some memory";
};

void endpoints() {
    Connection sides;
    doca_event_channel_t channel = -1;
    EXPECT_OK(outlast([&] {
        return doca_comm_channel_ep_get_event_channel(sides.client.ep, nullptr, &channel);
    }));
    EXPECT_OK(outlast([&] {
        return doca_comm_channel_ep_get_service_event_channel(sides.service.ep, &channel);
    }));
    std::string message;
    ASSERT_TRUE(progress_until(
        [&] { return sides.service.receive(message, sides.to_client) == DOCA_SUCCESS; }));
    EXPECT_EQ(message, "question");
    ASSERT_OK(sides.service.send("answer", sides.to_client));
    ASSERT_TRUE(progress_until(
        [&] { return sides.client.receive(message, sides.to_service) == DOCA_SUCCESS; }));
    EXPECT_EQ(message, "answer");
    EXPECT_OK(
        outlast([&] { return doca_comm_channel_ep_update_service_state_info(sides.service.ep); }));
    EXPECT_OK(outlast(
        [&] { return doca_comm_channel_ep_disconnect(sides.client.ep, sides.to_service); }));
}

TEST(DocaNoMemory, Endpoints) {
    after_a_warm_up(endpoints);
}

TEST(DocaNoMemory, ForAMessageEndsItsConnection) {
    Connection sides;
    std::string message;
    doca_error_t result = DOCA_ERROR_AGAIN;
    {
        const FailingAllocation failing(1);
        EXPECT_TRUE(progress_until([&] {
            result = sides.service.receive(message, sides.to_client);
            return result != DOCA_ERROR_AGAIN && result != DOCA_ERROR_CONNECTION_ABORTED;
        }));
        EXPECT_TRUE(failing.happened());
    }
    EXPECT_EQ(result, DOCA_ERROR_CONNECTION_RESET);
    EXPECT_OK(doca_comm_channel_ep_disconnect(sides.service.ep, sides.to_client));
    EXPECT_OK(doca_comm_channel_ep_disconnect(sides.client.ep, sides.to_service));
    sides.connect();
    ASSERT_TRUE(progress_until(
        [&] { return sides.service.receive(message, sides.to_client) == DOCA_SUCCESS; }));
    EXPECT_EQ(message, "question");
}

} // namespace
