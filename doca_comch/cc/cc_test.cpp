// DOCA CC in the default dialect, through the C API.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/cc/test_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;

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

TEST(DocaCc, DevicesTellTheirLimits) {
    Lab lab;
    const doca_devinfo* const dpu = doca_dev_as_devinfo(lab.dpu);
    const doca_devinfo* const host = doca_dev_as_devinfo(lab.host);
    EXPECT_OK(doca_cc_cap_server_is_supported(dpu));
    EXPECT_EQ(doca_cc_cap_server_is_supported(host), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_OK(doca_cc_cap_client_is_supported(host));
    EXPECT_EQ(doca_cc_cap_client_is_supported(dpu), DOCA_ERROR_NOT_SUPPORTED);
    for (const doca_devinfo* const info : {dpu, host}) {
        EXPECT_OK(doca_cc_cap_is_producer_supported(info));
        EXPECT_OK(doca_cc_cap_is_consumer_supported(info));
        EXPECT_OK(doca_cc_producer_cap_is_supported(info)); // a later name
        EXPECT_OK(doca_cc_consumer_cap_is_supported(info));
        using Limit = doca_error_t (*)(const doca_devinfo*, std::uint32_t*);
        const std::pair<Limit, std::uint32_t> limits[] = {
            {doca_cc_cap_get_max_name_len, 120},
            {doca_cc_cap_get_max_msg_size, 4080},
            {doca_cc_cap_get_max_recv_queue_size, 8192},
            {doca_cc_cap_get_max_send_tasks, 16384},
            {doca_cc_cap_get_max_clients, 512},
            {doca_cc_producer_cap_get_max_producers, 1024},
            {doca_cc_consumer_cap_get_max_consumers, 1024},
            {doca_cc_producer_cap_get_max_log_num_tasks, 13},
            {doca_cc_producer_cap_get_max_buf_size, std::uint32_t{1} << 31},
            {doca_cc_consumer_cap_get_max_log_num_tasks, 13},
            {doca_cc_consumer_cap_get_max_buf_size, std::uint32_t{1} << 31},
        };
        for (const auto& [limit, expected] : limits) {
            std::uint32_t value = 0;
            EXPECT_OK(limit(info, &value));
            EXPECT_EQ(value, expected);
        }
    }
}

TEST(DocaCc, SettingsAreCheckedAndLimitMessages) {
    Cc cc;
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    ASSERT_TRUE(progress_until([&] { return cc.at_server.gone == 1; }, cc.engine));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
    std::uint32_t value = 0;
    EXPECT_EQ(doca_cc_server_set_max_msg_size(cc.server, 4081), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_cc_client_set_max_msg_size(cc.client, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_cc_server_set_recv_queue_size(cc.server, 8193), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_cc_client_set_recv_queue_size(cc.client, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_cc_client_send_task_set_conf(cc.client, on_sent, nullptr, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_cc_server_send_task_set_conf(cc.server, on_sent, on_sent, 0),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_cc_server_set_recv_queue_size(cc.server, 16));
    EXPECT_OK(doca_cc_server_get_recv_queue_size(cc.server, &value));
    EXPECT_EQ(value, 16u);
    EXPECT_OK(doca_cc_client_set_recv_queue_size(cc.client, 32));
    EXPECT_OK(doca_cc_client_get_recv_queue_size(cc.client, &value));
    EXPECT_EQ(value, 32u);
    EXPECT_OK(doca_cc_server_set_max_msg_size(cc.server, 100));
    EXPECT_OK(doca_cc_server_get_max_msg_size(cc.server, &value));
    EXPECT_EQ(value, 100u);
    EXPECT_OK(doca_cc_client_set_max_msg_size(cc.client, 100));
    EXPECT_OK(doca_cc_client_get_max_msg_size(cc.client, &value));
    EXPECT_EQ(value, 100u);
    cc.connect();
    doca_cc_send_task* task = nullptr;
    std::string text(101, 'x');
    EXPECT_EQ(doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text.data(),
                                                  101, &task),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text.data(),
                                                  100, &task));
    ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    ASSERT_TRUE(progress_until([&] { return !cc.at_server.messages.empty(); }, cc.engine));
    ASSERT_TRUE(progress_until([&] { return !cc.at_client.sends.empty(); }, cc.engine));
    std::uint64_t counted = 0;
    EXPECT_OK(doca_cc_connection_update_info(cc.at_client.connection));
    EXPECT_OK(doca_cc_connection_get_counter(cc.at_client.connection, DOCA_CC_COUNTER_SENT_BYTES,
                                             &counted));
    EXPECT_EQ(counted, 100u);
    doca_dev* device = nullptr;
    doca_dev_rep* representor = nullptr;
    EXPECT_OK(doca_cc_server_get_device(cc.server, &device));
    EXPECT_EQ(device, cc.lab.dpu);
    EXPECT_OK(doca_cc_server_get_device_rep(cc.server, &representor));
    doca_dev_rep* published = nullptr;
    EXPECT_OK(doca_cc_server_get_device_repr(cc.server, &published));
    EXPECT_EQ(published, representor);
    EXPECT_EQ(representor, cc.lab.representor);
    EXPECT_OK(doca_cc_client_get_device(cc.client, &device));
    EXPECT_EQ(device, cc.lab.host);
    // One client is disconnected; the server goes on.
    EXPECT_OK(doca_cc_server_disconnect(cc.server, cc.at_server.connection));
    ASSERT_TRUE(
        progress_until([&] { return state_of(cc.client_ctx) == DOCA_CTX_STATE_IDLE; }, cc.engine));
    EXPECT_EQ(state_of(cc.server_ctx), DOCA_CTX_STATE_RUNNING);
    ASSERT_TRUE(progress_until([&] { return cc.at_server.gone == 2; }, cc.engine));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

} // namespace
