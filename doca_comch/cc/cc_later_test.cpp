// DOCA CC in its later dialect: what differs.
#define DOCA_CC_LATER_DIALECT
#include <string>

#include <gtest/gtest.h>

#include <doca_cc.h>
#include <doca_cc_consumer.h>
#include <doca_cc_producer.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

int sent = 0;
int connected = 0;
std::string heard;

void on_sent(doca_cc_task_send* task, doca_data, doca_data) {
    ++sent;
    doca_task_free(doca_cc_task_send_as_task(task));
}
void on_message(doca_cc_event_msg_recv*, std::uint8_t* bytes, std::uint32_t length,
                doca_cc_connection*) {
    heard.assign(reinterpret_cast<const char*>(bytes), length);
}
void on_connect(doca_cc_event_connection_status_changed*, doca_cc_connection*, std::uint8_t ok) {
    connected += ok;
}
void on_disconnect(doca_cc_event_connection_status_changed*, doca_cc_connection*, std::uint8_t ok) {
    connected -= ok;
}

TEST(DocaCcLater, CallbacksAndTasksOfTheLaterDialect) {
    sent = connected = 0;
    heard.clear();
    Lab lab;
    Engine engine;
    doca_cc_server* server = nullptr;
    doca_cc_client* client = nullptr;
    ASSERT_OK(doca_cc_server_create(lab.dpu, lab.representor, "later", &server));
    ASSERT_OK(doca_cc_client_create(lab.host, "later", &client));
    ASSERT_OK(doca_cc_server_task_send_set_conf(server, on_sent, on_sent, 4));
    ASSERT_OK(doca_cc_client_task_send_set_conf(client, on_sent, on_sent, 4));
    ASSERT_OK(doca_cc_server_event_msg_recv_register(server, on_message));
    ASSERT_OK(doca_cc_client_event_msg_recv_register(client, on_message));
    ASSERT_OK(doca_cc_server_event_connection_register(server, on_connect, on_disconnect));
    doca_ctx* const server_ctx = doca_cc_server_as_ctx(server);
    doca_ctx* const client_ctx = doca_cc_client_as_ctx(client);
    ASSERT_OK(doca_pe_connect_ctx(engine.pe, server_ctx));
    ASSERT_OK(doca_pe_connect_ctx(engine.pe, client_ctx));
    ASSERT_OK(doca_ctx_start(server_ctx));
    ASSERT_EQ(doca_ctx_start(client_ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until(
        [&] { return state_of(client_ctx) == DOCA_CTX_STATE_RUNNING && connected == 1; }, engine));
    doca_cc_connection* connection = nullptr;
    ASSERT_OK(doca_cc_client_get_connection(client, &connection));
    doca_cc_task_send* task = nullptr;
    ASSERT_OK(doca_cc_client_task_send_alloc_init(client, connection, "hello", 5, &task));
    ASSERT_OK(doca_task_submit(doca_cc_task_send_as_task(task)));
    ASSERT_TRUE(progress_until([&] { return sent == 1; }, engine));
    EXPECT_EQ(heard, "hello");
    doca_cc_producer* producer = nullptr;
    EXPECT_EQ(doca_cc_producer_create(connection, &producer),
              DOCA_ERROR_BAD_STATE); // the client does not hear of consumers
    std::uint32_t most = 0;
    EXPECT_OK(doca_cc_producer_cap_get_max_num_tasks(doca_dev_as_devinfo(lab.host), &most));
    EXPECT_EQ(most, 8192u);
    EXPECT_OK(doca_ctx_stop(client_ctx));
    ASSERT_TRUE(progress_until([&] { return connected == 0; }, engine));
    EXPECT_OK(doca_ctx_stop(server_ctx));
    EXPECT_OK(doca_cc_client_destroy(client));
    EXPECT_OK(doca_cc_server_destroy(server));
}

} // namespace
