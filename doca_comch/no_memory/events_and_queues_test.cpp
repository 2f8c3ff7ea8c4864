// Sync events, the DPA and message queues, while there is no memory.
#include <atomic>
#include <csignal>

#include <pthread.h>

#include "doca_comch/msgq/test_support.hpp"
#include "doca_comch/no_memory/failing_new.hpp"
#include "doca_comch/sync_event/test_support.hpp"

namespace {

using namespace comch::doca::test;

/// Adds to the event by a task.
void add_by_task(doca_sync_event* event, Engine& engine) {
    static std::vector<doca_error_t> done;
    static std::uint64_t fetched;
    done.clear();
    doca_ctx* const ctx = doca_sync_event_as_ctx(event);
    const auto on_done = [](doca_sync_event_task_notify_add* task, doca_data, doca_data) {
        doca_task* const base = doca_sync_event_task_notify_add_as_doca_task(task);
        done.push_back(doca_task_get_status(base));
        doca_task_free(base);
    };
    ASSERT_OK(doca_sync_event_task_notify_add_set_conf(event, on_done, on_done, 2));
    ASSERT_OK(outlast([&] { return doca_pe_connect_ctx(engine.pe, ctx); }));
    ASSERT_OK(outlast([&] { return doca_sync_event_start(event); }));
    doca_sync_event_task_notify_add* task = nullptr;
    ASSERT_OK(doca_sync_event_task_notify_add_alloc_init(event, 1, &fetched, doca_data{}, &task));
    ASSERT_OK(outlast(
        [&] { return doca_task_submit(doca_sync_event_task_notify_add_as_doca_task(task)); }));
    ASSERT_TRUE(progress_until([&] { return !done.empty(); }, engine));
    EXPECT_EQ(done[0], DOCA_SUCCESS);
}

void sync_events() {
    const Lab lab;
    Engine engine;
    doca_sync_event* created = nullptr;
    ASSERT_OK(outlast([&] { return doca_sync_event_create(&created); }));
    {
        Event here(created);
        ASSERT_OK(outlast(
            [&] { return doca_sync_event_add_publisher_location_cpu(here.event, lab.host); }));
        ASSERT_OK(outlast(
            [&] { return doca_sync_event_add_subscriber_location_remote_pci(here.event); }));
        add_by_task(here.event, engine);
        const std::uint8_t* bytes = nullptr;
        std::size_t size = 0;
        ASSERT_OK(outlast(
            [&] {
                return doca_sync_event_export_to_remote_pci(here.event, lab.host, &bytes, &size);
            },
            Files::kept));
        doca_sync_event* imported = nullptr;
        ASSERT_OK(outlast(
            [&] { return doca_sync_event_create_from_export(lab.dpu, bytes, size, &imported); }));
        Event there(imported);
        add_by_task(imported, engine);
        std::uint64_t before = 0;
        EXPECT_OK(outlast([&] { return doca_sync_event_update_add(imported, 1, &before); }));
        EXPECT_EQ(before, 2u);
        EXPECT_EQ(here.value(), 3u);
    }
}

TEST(DocaNoMemory, SyncEvents) {
    after_a_warm_up(sync_events);
}

void count_runs(std::uint64_t argument) {
    ++*reinterpret_cast<std::atomic<int>*>(argument);
}

void the_dpa() {
    const Lab lab;
    doca_dpa* dpa = nullptr;
    ASSERT_OK(outlast([&] { return doca_dpa_create(lab.dpu, &dpa); }));
    ASSERT_OK(doca_dpa_start(dpa));
    doca_dpa_thread* thread = nullptr;
    ASSERT_OK(outlast([&] { return doca_dpa_thread_create(dpa, &thread); }));
    std::atomic<int> runs = 0;
    ASSERT_OK(doca_dpa_thread_set_func_arg(thread, reinterpret_cast<doca_dpa_func_t*>(&count_runs),
                                           reinterpret_cast<std::uintptr_t>(&runs)));
    ASSERT_OK(outlast([&] { return doca_dpa_thread_start(thread); }));
    ASSERT_OK(doca_dpa_thread_run(thread));
    doca_dpa_completion* completion = nullptr;
    ASSERT_OK(outlast([&] { return doca_dpa_completion_create(dpa, 4, &completion); }));
    ASSERT_OK(outlast([&] { return doca_dpa_completion_start(completion); }));
    doca_dpa_notification_completion* notification = nullptr;
    ASSERT_OK(outlast(
        [&] { return doca_dpa_notification_completion_create(dpa, thread, &notification); }));
    ASSERT_OK(doca_dpa_notification_completion_start(notification));
    doca_dpa_dev_notification_completion_t handle = 0;
    ASSERT_OK(doca_dpa_notification_completion_get_dpa_handle(notification, &handle));
    doca_dpa_dev_thread_notify(handle);
    EXPECT_TRUE(progress_until([&] { return runs != 0; }));
    EXPECT_OK(doca_dpa_notification_completion_destroy(notification));
    EXPECT_OK(doca_dpa_completion_destroy(completion));
    EXPECT_OK(doca_dpa_thread_destroy(thread));
    EXPECT_OK(doca_dpa_stop(dpa));
    EXPECT_OK(doca_dpa_destroy(dpa));
}

TEST(DocaNoMemory, TheDpa) {
    after_a_warm_up(the_dpa);
}

// (A sanitizer gives threads stacks of its own choice.)
#if !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
/// Meanwhile a thread has no room for its stack.
class NoRoomForStacks {
public:
    NoRoomForStacks() {
        EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
        pthread_attr_t huge;
        EXPECT_EQ(pthread_attr_init(&huge), 0);
        EXPECT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
        EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    }
    ~NoRoomForStacks() { EXPECT_EQ(pthread_setattr_default_np(&before_), 0); }
    NoRoomForStacks(const NoRoomForStacks&) = delete;
    NoRoomForStacks& operator=(const NoRoomForStacks&) = delete;

private:
    pthread_attr_t before_;
};

TEST(DocaNoMemory, AThreadOfTheDpaNeedsAStack) {
    Dpa lab;
    ASSERT_OK(doca_dpa_thread_set_func_arg(lab.thread,
                                           reinterpret_cast<doca_dpa_func_t*>(&count_runs), 0));
    {
        const NoRoomForStacks now;
        EXPECT_EQ(doca_dpa_thread_start(lab.thread), DOCA_ERROR_NO_MEMORY);
    }
    sigset_t blocked{};
    EXPECT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
    EXPECT_EQ(sigismember(&blocked, SIGINT), 0); // as they were before the attempt
    EXPECT_OK(doca_dpa_thread_start(lab.thread));
    EXPECT_OK(doca_dpa_thread_stop(lab.thread));
}
#endif

void message_queues() {
    Dpa lab;
    doca_comch_msgq* queue = nullptr;
    ASSERT_OK(outlast([&] { return doca_comch_msgq_create(lab.lab.dpu, &queue); }));
    ASSERT_OK(doca_comch_msgq_set_dpa_producer(queue, lab.dpa));
    ASSERT_OK(doca_comch_msgq_set_max_num_consumers(queue, 1)); // a failure must not use it up
    ASSERT_OK(doca_comch_msgq_set_max_num_producers(queue, 1));
    ASSERT_OK(outlast([&] { return doca_comch_msgq_start(queue); }));

    Received received;
    doca_data user{};
    user.ptr = &received;
    doca_comch_consumer* consumer = nullptr;
    ASSERT_OK(outlast([&] { return doca_comch_msgq_consumer_create(queue, &consumer); }));
    doca_ctx* const consumer_ctx = doca_comch_consumer_as_ctx(consumer);
    ASSERT_OK(doca_ctx_set_user_data(consumer_ctx, user));
    ASSERT_OK(
        doca_comch_consumer_task_post_recv_set_conf(consumer, on_received, on_receive_failed, 4));
    ASSERT_OK(outlast([&] { return doca_pe_connect_ctx(lab.engine.pe, consumer_ctx); }));
    ASSERT_OK(outlast([&] { return doca_ctx_start(consumer_ctx); }));
    doca_comch_consumer_task_post_recv* post = nullptr;
    ASSERT_OK(doca_comch_consumer_task_post_recv_alloc_init(consumer, nullptr, &post));
    ASSERT_OK(outlast(
        [&] { return doca_task_submit(doca_comch_consumer_task_post_recv_as_task(post)); }));

    doca_dpa_completion* completion = nullptr;
    ASSERT_OK(doca_dpa_completion_create(lab.dpa, 4, &completion));
    ASSERT_OK(doca_dpa_completion_start(completion));
    doca_comch_producer* producer = nullptr;
    ASSERT_OK(outlast([&] { return doca_comch_msgq_producer_create(queue, &producer); }));
    doca_ctx* const producer_ctx = doca_comch_producer_as_ctx(producer);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(producer_ctx, lab.dpa));
    ASSERT_OK(doca_comch_producer_set_dev_max_num_send(producer, 4));
    ASSERT_OK(doca_comch_producer_dpa_completion_attach(producer, completion));
    ASSERT_OK(outlast([&] { return doca_ctx_start(producer_ctx); }));
    doca_dpa_dev_comch_producer_t handle = 0;
    ASSERT_OK(doca_comch_producer_get_dpa_handle(producer, &handle));
    std::uint8_t byte = 'x';
    doca_dpa_dev_comch_producer_post_send_imm_only(handle, 1, &byte, 1, 0);
    ASSERT_TRUE(progress_until([&] { return !received.messages.empty(); }, lab.engine));
    EXPECT_EQ(received.messages[0], "x");

    EXPECT_OK(outlast([&] { return doca_ctx_stop(producer_ctx); }));
    EXPECT_OK(doca_comch_producer_destroy(producer));
    EXPECT_EQ(outlast([&] { return doca_ctx_stop(consumer_ctx); }), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(
        progress_until([&] { return state_of(consumer_ctx) == DOCA_CTX_STATE_IDLE; }, lab.engine));
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
    EXPECT_OK(doca_dpa_completion_destroy(completion));
    EXPECT_OK(doca_comch_msgq_stop(queue));
    EXPECT_OK(doca_comch_msgq_destroy(queue));
}

TEST(DocaNoMemory, MessageQueues) {
    after_a_warm_up(message_queues);
}

void consumers_of_the_dpa() {
    Dpa lab;
    doca_comch_consumer_completion* completion = nullptr;
    ASSERT_OK(outlast([&] { return doca_comch_consumer_completion_create(&completion); }));
    ASSERT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread));
    ASSERT_OK(outlast([&] { return doca_comch_consumer_completion_start(completion); }));
    doca_comch_consumer* consumer = nullptr;
    ASSERT_OK(outlast([&] { return doca_comch_msgq_consumer_create(lab.to_dpa, &consumer); }));
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(consumer);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(ctx, lab.dpa));
    ASSERT_OK(doca_comch_consumer_set_dev_max_num_recv(consumer, 8));
    ASSERT_OK(doca_comch_consumer_set_completion(consumer, completion, 7));
    ASSERT_OK(outlast([&] { return doca_ctx_start(ctx); }));
    EXPECT_OK(doca_ctx_stop(ctx));
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
    EXPECT_OK(doca_comch_consumer_completion_stop(completion));
    EXPECT_OK(doca_comch_consumer_completion_destroy(completion));
}

TEST(DocaNoMemory, ConsumersOfTheDpa) {
    after_a_warm_up(consumers_of_the_dpa);
}

} // namespace
