// DOCA CC in the default dialect, through the C API.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <doca_cc.h>
#include <doca_cc_consumer.h>
#include <doca_cc_producer.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;

struct End {
    std::vector<std::string> messages;
    std::vector<doca_error_t> sends;
    std::vector<doca_error_t> fast;
    std::vector<std::uint32_t> consumers;
    doca_cc_connection* connection = nullptr;
    int gone = 0;
};

End& end_of(doca_data data) {
    return *static_cast<End*>(data.ptr);
}
End& end_of(doca_cc_connection* connection) {
    return end_of(doca_cc_connection_get_user_data(connection));
}
End* server_end = nullptr; ///< for connections that are new

void on_sent(doca_cc_send_task* task, doca_data, doca_data user) {
    end_of(user).sends.push_back(doca_task_get_status(doca_cc_send_task_as_task(task)));
    doca_task_free(doca_cc_send_task_as_task(task));
}
void on_message(doca_cc_event_msg_recv*, std::uint8_t* bytes, std::size_t length,
                doca_cc_connection* connection) {
    end_of(connection).messages.emplace_back(reinterpret_cast<const char*>(bytes), length);
}
void on_connect(doca_cc_event_connection_status_changed*, doca_cc_connection* connection, bool ok) {
    EXPECT_TRUE(ok);
    doca_data data{};
    data.ptr = server_end;
    EXPECT_OK(doca_cc_connection_set_user_data(connection, data));
    server_end->connection = connection;
}
void on_disconnect(doca_cc_event_connection_status_changed*, doca_cc_connection* connection, bool) {
    ++end_of(connection).gone;
}
void on_consumer(doca_cc_event_consumer*, doca_cc_connection* connection, std::uint32_t id) {
    end_of(connection).consumers.push_back(id);
}
void on_expired(doca_cc_event_consumer*, doca_cc_connection*, std::uint32_t) {}

struct Cc {
    Lab lab;
    Engine engine;
    End at_server;
    End at_client;
    doca_cc_server* server = nullptr;
    doca_cc_client* client = nullptr;
    doca_ctx* server_ctx = nullptr;
    doca_ctx* client_ctx = nullptr;

    Cc() {
        server_end = &at_server;
        EXPECT_OK(doca_cc_server_create(lab.dpu, lab.representor, "cc", &server));
        EXPECT_OK(doca_cc_client_create(lab.host, "cc", &client));
        server_ctx = doca_cc_server_as_ctx(server);
        client_ctx = doca_cc_client_as_ctx(client);
        doca_data data{};
        data.ptr = &at_server;
        EXPECT_OK(doca_ctx_set_user_data(server_ctx, data));
        data.ptr = &at_client;
        EXPECT_OK(doca_ctx_set_user_data(client_ctx, data));
        EXPECT_OK(doca_cc_server_send_task_set_conf(server, on_sent, on_sent, 4));
        EXPECT_OK(doca_cc_client_send_task_set_conf(client, on_sent, on_sent, 4));
        EXPECT_OK(doca_cc_server_event_msg_recv_register(server, on_message));
        EXPECT_OK(doca_cc_client_event_msg_recv_register(client, on_message));
        EXPECT_OK(doca_cc_server_event_connection_register(server, on_connect, on_disconnect));
        EXPECT_OK(doca_cc_server_event_consumer_register(server, on_consumer, on_expired));
        EXPECT_OK(doca_cc_client_event_consumer_register(client, on_consumer, on_expired));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, server_ctx));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, client_ctx));
        EXPECT_OK(doca_ctx_start(server_ctx));
        EXPECT_EQ(doca_ctx_start(client_ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until(
            [&] {
                return state_of(client_ctx) == DOCA_CTX_STATE_RUNNING &&
                       at_server.connection != nullptr;
            },
            engine));
        EXPECT_OK(doca_cc_client_get_connection(client, &at_client.connection));
        data.ptr = &at_client;
        EXPECT_OK(doca_cc_connection_set_user_data(at_client.connection, data));
    }
    ~Cc() {
        EXPECT_OK(doca_cc_client_destroy(client));
        EXPECT_OK(doca_cc_server_destroy(server));
    }
};

TEST(DocaCc, MessagesAndAStopThatIsDoneAtOnce) {
    Cc cc;
    doca_cc_send_task* task = nullptr;
    char text[] = "to the DPU";
    ASSERT_OK(
        doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 10, &task));
    ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    ASSERT_TRUE(progress_until([&] { return !cc.at_client.sends.empty(); }, cc.engine));
    EXPECT_THAT(cc.at_server.messages, ElementsAre("to the DPU"));
    EXPECT_EQ(doca_cc_server_get_server_ctx(cc.at_server.connection), cc.server);
    EXPECT_EQ(doca_cc_client_get_client_ctx(cc.at_client.connection), cc.client);
    EXPECT_OK(doca_ctx_stop(cc.client_ctx)); // nothing is outstanding
    EXPECT_EQ(state_of(cc.client_ctx), DOCA_CTX_STATE_IDLE);
    ASSERT_TRUE(progress_until([&] { return cc.at_server.gone == 1; }, cc.engine));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
    EXPECT_EQ(state_of(cc.server_ctx), DOCA_CTX_STATE_IDLE);
}

TEST(DocaCc, AServersStopDropsItsClients) {
    Cc cc;
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
    EXPECT_EQ(cc.at_server.gone, 1);
    ASSERT_TRUE(
        progress_until([&] { return state_of(cc.client_ctx) == DOCA_CTX_STATE_IDLE; }, cc.engine));
}

TEST(DocaCc, WhileStoppingTasksAreAcceptedAndFail) {
    Cc cc;
    doca_cc_send_task* task = nullptr;
    char text[] = "late";
    ASSERT_OK(
        doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 4, &task));
    EXPECT_EQ(doca_ctx_stop(cc.client_ctx), DOCA_ERROR_IN_PROGRESS); // a task is allocated
    EXPECT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    ASSERT_TRUE(
        progress_until([&] { return state_of(cc.client_ctx) == DOCA_CTX_STATE_IDLE; }, cc.engine));
    EXPECT_THAT(cc.at_client.sends, ElementsAre(DOCA_ERROR_SHUTDOWN));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

void on_fast(doca_cc_producer_send_task* task, doca_data, doca_data user) {
    doca_task* const base = doca_cc_producer_send_task_as_task(task);
    end_of(user).fast.push_back(doca_task_get_status(base));
    doca_task_free(base);
}
void on_posted(doca_cc_consumer_post_recv_task* task, doca_data, doca_data user) {
    doca_task* const base = doca_cc_consumer_post_recv_task_as_task(task);
    end_of(user).fast.push_back(doca_task_get_status(base));
    doca_task_free(base);
}

TEST(DocaCc, TheFastPath) {
    Cc cc;
    std::vector<char> memory(4096, '-');
    std::fill_n(memory.begin(), 4, 'x');
    doca_mmap* mmap = nullptr;
    ASSERT_OK(doca_mmap_create(&mmap));
    ASSERT_OK(doca_mmap_set_memrange(mmap, memory.data(), memory.size()));
    ASSERT_OK(doca_mmap_set_permissions(mmap, DOCA_ACCESS_FLAG_PCI_READ_WRITE));
    ASSERT_OK(doca_mmap_add_dev(mmap, cc.lab.dpu));
    ASSERT_OK(doca_mmap_start(mmap));
    doca_buf_inventory* inventory = nullptr;
    ASSERT_OK(doca_buf_inventory_create(2, &inventory));
    ASSERT_OK(doca_buf_inventory_start(inventory));
    doca_buf* from = nullptr;
    doca_buf* to = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_get_by_data(inventory, mmap, memory.data(), 4, &from));
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(inventory, mmap, memory.data() + 64, 64, &to));

    std::uint32_t log = 0;
    EXPECT_OK(doca_cc_consumer_cap_get_max_log_num_tasks(doca_dev_as_devinfo(cc.lab.dpu), &log));
    EXPECT_EQ(log, 13u);
    doca_cc_consumer* consumer = nullptr;
    ASSERT_OK(doca_cc_consumer_create(cc.at_server.connection, mmap, &consumer));
    doca_ctx* const consumer_ctx = doca_cc_consumer_as_ctx(consumer);
    doca_data data{};
    data.ptr = &cc.at_server;
    ASSERT_OK(doca_ctx_set_user_data(consumer_ctx, data));
    EXPECT_EQ(doca_cc_consumer_post_recv_task_set_conf(consumer, on_posted, on_posted, 14),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_cc_consumer_post_recv_task_set_conf(consumer, on_posted, on_posted, 3));
    ASSERT_OK(doca_pe_connect_ctx(cc.engine.pe, consumer_ctx));
    ASSERT_EQ(doca_ctx_start(consumer_ctx), DOCA_ERROR_IN_PROGRESS);
    doca_cc_producer* producer = nullptr;
    ASSERT_OK(doca_cc_producer_create(cc.at_client.connection, &producer));
    doca_ctx* const producer_ctx = doca_cc_producer_as_ctx(producer);
    data.ptr = &cc.at_client;
    ASSERT_OK(doca_ctx_set_user_data(producer_ctx, data));
    ASSERT_OK(doca_cc_producer_send_task_set_conf(producer, on_fast, on_fast, 0));
    ASSERT_OK(doca_pe_connect_ctx(cc.engine.pe, producer_ctx));
    ASSERT_OK(doca_ctx_start(producer_ctx));
    ASSERT_TRUE(progress_until([&] { return !cc.at_client.consumers.empty(); }, cc.engine));

    doca_cc_consumer_post_recv_task* post = nullptr;
    EXPECT_EQ(doca_cc_consumer_post_recv_task_alloc_init(consumer, nullptr, &post),
              DOCA_ERROR_INVALID_VALUE); // there is no immediate data
    ASSERT_OK(doca_cc_consumer_post_recv_task_alloc_init(consumer, to, &post));
    ASSERT_OK(doca_task_submit(doca_cc_consumer_post_recv_task_as_task(post)));
    doca_cc_producer_send_task* send = nullptr;
    ASSERT_OK(
        doca_cc_producer_send_task_alloc_init(producer, from, cc.at_client.consumers[0], &send));
    EXPECT_EQ(doca_cc_producer_send_task_get_buf(send), from);
    doca_cc_producer_send_task* second = nullptr;
    EXPECT_EQ(doca_cc_producer_send_task_alloc_init(producer, from, 1, &second),
              DOCA_ERROR_NO_MEMORY); // 2 to the power of 0 tasks
    ASSERT_OK(doca_task_submit(doca_cc_producer_send_task_as_task(send)));
    ASSERT_TRUE(progress_until([&] { return !cc.at_client.fast.empty(); }, cc.engine));
    EXPECT_THAT(cc.at_client.fast, ElementsAre(DOCA_SUCCESS));
    EXPECT_THAT(cc.at_server.fast, ElementsAre(DOCA_SUCCESS));
    EXPECT_EQ(std::string(memory.data() + 64, 4), "xxxx");

    EXPECT_EQ(doca_ctx_stop(cc.client_ctx), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_ctx_stop(producer_ctx));
    EXPECT_OK(doca_ctx_stop(consumer_ctx));
    EXPECT_OK(doca_cc_producer_destroy(producer));
    EXPECT_OK(doca_cc_consumer_destroy(consumer));
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
    EXPECT_OK(doca_buf_dec_refcount(from, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(to, nullptr));
    EXPECT_OK(doca_buf_inventory_destroy(inventory));
    EXPECT_OK(doca_mmap_destroy(mmap));
}

} // namespace
