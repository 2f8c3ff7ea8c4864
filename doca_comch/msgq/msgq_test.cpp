// Message queues: the CPU and a DPA application, in both directions.
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <pthread.h>

#include "doca_comch/msgq/test_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;

/// What the DPA application is told.
struct EchoArgument {
    doca_dpa_dev_comch_consumer_t consumer = 0;
    doca_dpa_dev_comch_consumer_completion_t completion = 0;
    doca_dpa_dev_comch_producer_t producer = 0;
    std::uint32_t answer_to = 0;
};

// The DPA application: sends everything back, then waits for the next notification.
void echo(std::uint64_t argument) {
    const auto& self = *reinterpret_cast<const EchoArgument*>(argument);
    doca_dpa_dev_comch_consumer_completion_element_t element = 0;
    for (;;) { // it is left by rescheduling
        if (doca_dpa_dev_comch_consumer_get_completion(self.completion, &element) == 0) {
            doca_dpa_dev_comch_consumer_completion_request_notification(self.completion);
            doca_dpa_dev_thread_reschedule();
        }
        std::uint32_t length = 0;
        const std::uint8_t* const bytes =
            doca_dpa_dev_comch_consumer_get_completion_imm(element, &length);
        while (doca_dpa_dev_comch_producer_is_consumer_empty(self.producer, self.answer_to) != 0) {
            std::this_thread::yield();
        }
        doca_dpa_dev_comch_producer_post_send_imm_only(self.producer, self.answer_to, bytes, length,
                                                       0);
        doca_dpa_dev_comch_consumer_ack(self.consumer, 1);
        doca_dpa_dev_comch_consumer_completion_ack(self.completion, 1);
    }
}

// Called by the CPU before anything moves.
std::uint64_t begin(std::uint64_t argument, std::uint64_t receives) {
    const auto& self = *reinterpret_cast<const EchoArgument*>(argument);
    doca_dpa_dev_comch_consumer_ack(self.consumer, static_cast<std::uint32_t>(receives));
    doca_dpa_dev_comch_consumer_completion_request_notification(self.completion);
    return receives;
}

TEST(DocaMsgQ, ADpaApplicationEchoesInBothDirections) {
    Dpa lab;
    Received received;
    doca_data user{};
    user.ptr = &received;

    // From the CPU to the DPA.
    doca_comch_consumer_completion* completion = nullptr;
    ASSERT_OK(doca_comch_consumer_completion_create(&completion));
    ASSERT_EQ(doca_comch_consumer_completion_start(completion), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread));
    ASSERT_OK(doca_comch_consumer_completion_set_max_num_recv(completion, 8));
    ASSERT_OK(doca_comch_consumer_completion_start(completion));
    doca_comch_consumer* dpa_consumer = nullptr;
    ASSERT_OK(doca_comch_msgq_consumer_create(lab.to_dpa, &dpa_consumer));
    doca_ctx* const dpa_consumer_ctx = doca_comch_consumer_as_ctx(dpa_consumer);
    EXPECT_EQ(doca_ctx_start(dpa_consumer_ctx), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(dpa_consumer_ctx, lab.dpa));
    ASSERT_OK(doca_comch_consumer_set_dev_num_recv(dpa_consumer, 8));
    ASSERT_OK(doca_comch_consumer_set_completion(dpa_consumer, completion, 7));
    ASSERT_OK(doca_ctx_start(dpa_consumer_ctx));
    std::uint32_t dpa_consumer_id = 0;
    ASSERT_OK(doca_comch_consumer_get_id(dpa_consumer, &dpa_consumer_id));
    EXPECT_EQ(dpa_consumer_id, 1u);
    doca_comch_producer* producer = nullptr;
    ASSERT_OK(doca_comch_msgq_producer_create(lab.to_dpa, &producer));
    doca_ctx* const producer_ctx = doca_comch_producer_as_ctx(producer);
    ASSERT_OK(doca_ctx_set_user_data(producer_ctx, user));
    ASSERT_OK(doca_comch_producer_task_send_set_conf(producer, on_sent, on_sent, 16));
    ASSERT_OK(doca_pe_connect_ctx(lab.engine.pe, producer_ctx));
    ASSERT_OK(doca_ctx_start(producer_ctx));

    // And back.
    doca_comch_consumer* consumer = nullptr;
    ASSERT_OK(doca_comch_msgq_consumer_create(lab.from_dpa, &consumer));
    doca_ctx* const consumer_ctx = doca_comch_consumer_as_ctx(consumer);
    ASSERT_OK(doca_ctx_set_user_data(consumer_ctx, user));
    ASSERT_OK(
        doca_comch_consumer_task_post_recv_set_conf(consumer, on_received, on_receive_failed, 4));
    ASSERT_OK(doca_pe_connect_ctx(lab.engine.pe, consumer_ctx));
    ASSERT_OK(doca_ctx_start(consumer_ctx));
    for (int i = 0; i < 4; ++i) {
        doca_comch_consumer_task_post_recv* task = nullptr;
        ASSERT_OK(doca_comch_consumer_task_post_recv_alloc_init(consumer, nullptr, &task));
        ASSERT_OK(doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task)));
    }
    doca_dpa_completion* dpa_completion = nullptr;
    ASSERT_OK(doca_dpa_completion_create(lab.dpa, 16, &dpa_completion));
    ASSERT_OK(doca_dpa_completion_start(dpa_completion));
    doca_comch_producer* dpa_producer = nullptr;
    ASSERT_OK(doca_comch_msgq_producer_create(lab.from_dpa, &dpa_producer));
    doca_ctx* const dpa_producer_ctx = doca_comch_producer_as_ctx(dpa_producer);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(dpa_producer_ctx, lab.dpa));
    ASSERT_OK(doca_comch_producer_set_dev_num_send(dpa_producer, 16));
    ASSERT_OK(doca_comch_producer_dpa_completion_attach(dpa_producer, dpa_completion));
    ASSERT_OK(doca_ctx_start(dpa_producer_ctx));

    EchoArgument argument;
    ASSERT_OK(doca_comch_consumer_get_dpa_handle(dpa_consumer, &argument.consumer));
    ASSERT_OK(doca_comch_consumer_completion_get_dpa_handle(completion, &argument.completion));
    ASSERT_OK(doca_comch_producer_get_dpa_handle(dpa_producer, &argument.producer));
    ASSERT_OK(doca_comch_consumer_get_id(consumer, &argument.answer_to));
    const auto address = reinterpret_cast<std::uint64_t>(&argument);
    ASSERT_OK(doca_dpa_thread_set_func_arg(lab.thread, reinterpret_cast<doca_dpa_func_t*>(echo),
                                           address));
    ASSERT_OK(doca_dpa_thread_start(lab.thread));
    ASSERT_OK(doca_dpa_thread_run(lab.thread));

    const auto send = [&](std::string text) {
        doca_comch_producer_task_send* task = nullptr;
        doca_error_t result = doca_comch_producer_task_send_alloc_init(
            producer, nullptr, reinterpret_cast<std::uint8_t*>(text.data()),
            static_cast<std::uint32_t>(text.size()), dpa_consumer_id, &task);
        if (result == DOCA_SUCCESS) {
            result = doca_task_submit(doca_comch_producer_task_send_as_task(task));
            if (result != DOCA_SUCCESS) {
                doca_task_free(doca_comch_producer_task_send_as_task(task));
            }
        }
        return result;
    };
    EXPECT_EQ(send("too early"), DOCA_ERROR_AGAIN); // nothing is posted yet
    std::uint64_t returned = 0;
    ASSERT_OK(doca_dpa_rpc(lab.dpa, reinterpret_cast<doca_dpa_func_t*>(begin), &returned, address,
                           std::uint64_t{8}));
    EXPECT_EQ(returned, 8u);
    constexpr std::size_t many = 1000;
    for (std::size_t sent = 0; sent < many;) {
        const doca_error_t result = send("message " + std::to_string(sent));
        if (result == DOCA_SUCCESS) {
            ++sent;
        } else {
            ASSERT_TRUE(result == DOCA_ERROR_AGAIN || result == DOCA_ERROR_NO_MEMORY);
            (void)doca_pe_progress(lab.engine.pe);
        }
    }
    ASSERT_TRUE(progress_until(
        [&] { return received.messages.size() == many && received.sends.size() == many; },
        lab.engine));
    for (std::size_t i = 0; i < many; ++i) {
        ASSERT_EQ(received.messages[i], "message " + std::to_string(i));
    }

    // Teardown.
    EXPECT_EQ(doca_comch_msgq_stop(lab.to_dpa), DOCA_ERROR_IN_USE);
    ASSERT_OK(doca_dpa_thread_stop(lab.thread));
    ASSERT_OK(doca_ctx_stop(dpa_consumer_ctx));
    ASSERT_OK(doca_ctx_stop(dpa_producer_ctx));
    EXPECT_OK(doca_ctx_stop(producer_ctx)); // it has nothing under way
    EXPECT_EQ(doca_ctx_stop(consumer_ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(state_of(producer_ctx), DOCA_CTX_STATE_IDLE);
    ASSERT_TRUE(
        progress_until([&] { return state_of(consumer_ctx) == DOCA_CTX_STATE_IDLE; }, lab.engine));
    EXPECT_EQ(received.failures, std::vector<doca_error_t>(4, DOCA_ERROR_SHUTDOWN));
    EXPECT_EQ(doca_dpa_completion_destroy(dpa_completion), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_comch_producer_destroy(dpa_producer));
    EXPECT_OK(doca_comch_producer_destroy(producer));
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
    EXPECT_OK(doca_comch_consumer_destroy(dpa_consumer));
    EXPECT_OK(doca_dpa_completion_destroy(dpa_completion));
    EXPECT_OK(doca_comch_consumer_completion_destroy(completion));
}

TEST(DocaMsgQ, EachQueueHasOneDirection) {
    Dpa lab;
    doca_comch_msgq* queue = nullptr;
    ASSERT_OK(doca_comch_msgq_create(lab.lab.dpu, &queue));
    doca_comch_consumer* consumer = nullptr;
    EXPECT_EQ(doca_comch_msgq_consumer_create(queue, &consumer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_msgq_start(queue), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_msgq_set_dpa_consumer(queue, nullptr), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_msgq_set_dpa_consumer(queue, lab.dpa));
    EXPECT_EQ(doca_comch_msgq_set_dpa_producer(queue, lab.dpa), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_comch_msgq_set_max_num_consumers(queue, 1));
    ASSERT_OK(doca_comch_msgq_start(queue));
    EXPECT_EQ(doca_comch_msgq_set_max_num_producers(queue, 1), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_comch_msgq_consumer_create(queue, &consumer));
    doca_comch_consumer* second = nullptr;
    EXPECT_EQ(doca_comch_msgq_consumer_create(queue, &second), DOCA_ERROR_NO_MEMORY);
    EXPECT_EQ(doca_comch_msgq_destroy(queue), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
    EXPECT_EQ(doca_comch_msgq_destroy(queue), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_comch_msgq_stop(queue));
    EXPECT_OK(doca_comch_msgq_destroy(queue));
}

TEST(DocaMsgQ, OnlyImmediateDataThatFitsIsSent) {
    Dpa lab;
    doca_comch_producer* producer = nullptr;
    ASSERT_OK(doca_comch_msgq_producer_create(lab.to_dpa, &producer));
    doca_ctx* const ctx = doca_comch_producer_as_ctx(producer);
    Received received;
    doca_data user{};
    user.ptr = &received;
    ASSERT_OK(doca_ctx_set_user_data(ctx, user));
    ASSERT_OK(doca_pe_connect_ctx(lab.engine.pe, ctx));
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_INVALID_VALUE); // without tasks
    ASSERT_OK(doca_comch_producer_task_send_set_conf(producer, on_sent, on_sent, 2));
    ASSERT_OK(doca_ctx_start(ctx));
    std::uint8_t bytes[64] = {};
    doca_comch_producer_task_send* task = nullptr;
    EXPECT_EQ(doca_comch_producer_task_send_alloc_init(producer, nullptr, bytes, 33, 1, &task),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_producer_task_send_alloc_init(producer, nullptr, nullptr, 0, 1, &task),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(producer, nullptr, bytes, 32, 5, &task));
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_NOT_FOUND); // there is no such consumer
    doca_task_free(base);
    EXPECT_EQ(doca_ctx_set_datapath_on_dpa(ctx, lab.dpa), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_ctx_stop(ctx));
    EXPECT_OK(doca_comch_producer_destroy(producer));
}

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
    return a + b;
}

TEST(DocaDpa, RunsFunctionsAndHasMemory) {
    Dpa lab;
    std::uint64_t result = 0;
    ASSERT_OK(doca_dpa_rpc(lab.dpa, reinterpret_cast<doca_dpa_func_t*>(sum), &result,
                           std::uint64_t{40}, std::uint64_t{2}));
    EXPECT_EQ(result, 42u);
    doca_dpa_dev_uintptr_t memory = 0;
    ASSERT_OK(doca_dpa_mem_alloc(lab.dpa, 64, &memory));
    char text[] = "there and back";
    char back[sizeof(text)] = {};
    EXPECT_OK(doca_dpa_h2d_memcpy(lab.dpa, memory, text, sizeof(text)));
    EXPECT_OK(doca_dpa_d2h_memcpy(lab.dpa, back, memory, sizeof(text)));
    EXPECT_STREQ(back, text);
    EXPECT_OK(doca_dpa_memset(lab.dpa, memory, 'x', 4));
    EXPECT_OK(doca_dpa_d2h_memcpy(lab.dpa, back, memory, sizeof(text)));
    EXPECT_STREQ(back, "xxxxe and back");
    EXPECT_OK(doca_dpa_mem_free(lab.dpa, memory));
}

std::atomic<int> wakes = 0;
void wake(std::uint64_t) {
    ++wakes;
}
std::uint64_t notify(std::uint64_t handle) {
    doca_dpa_dev_thread_notify(handle);
    return 0;
}

TEST(DocaDpa, AThreadRunsWhenItIsNotified) {
    Dpa lab;
    ASSERT_OK(
        doca_dpa_thread_set_func_arg(lab.thread, reinterpret_cast<doca_dpa_func_t*>(wake), 0));
    ASSERT_OK(doca_dpa_thread_start(lab.thread));
    doca_dpa_notification_completion* notification = nullptr;
    EXPECT_EQ(doca_dpa_notification_completion_create(lab.dpa, nullptr, &notification),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_dpa_notification_completion_create(lab.dpa, lab.thread, &notification));
    doca_dpa_dev_notification_completion_t handle = 0;
    EXPECT_EQ(doca_dpa_notification_completion_get_dpa_handle(notification, &handle),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_dpa_notification_completion_stop(notification), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_dpa_notification_completion_start(notification));
    EXPECT_EQ(doca_dpa_notification_completion_start(notification), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_dpa_notification_completion_get_dpa_handle(notification, &handle));
    ASSERT_OK(doca_dpa_thread_run(lab.thread));
    wakes = 0;
    for (int round = 1; round <= 3; ++round) {
        std::uint64_t returned = 1;
        ASSERT_OK(doca_dpa_rpc(lab.dpa, reinterpret_cast<doca_dpa_func_t*>(notify), &returned,
                               std::uint64_t{handle}));
        EXPECT_TRUE(progress_until([&] { return wakes == round; }));
    }
    EXPECT_EQ(doca_dpa_thread_destroy(lab.thread), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_dpa_notification_completion_stop(notification));
    doca_dpa_dev_thread_notify(handle);
    doca_dpa_dev_thread_notify(0);
    EXPECT_OK(doca_dpa_thread_stop(lab.thread));
    EXPECT_EQ(wakes, 3) << "stopped, it runs nothing";
    EXPECT_OK(doca_dpa_notification_completion_destroy(notification));
    EXPECT_EQ(doca_dpa_notification_completion_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
}

/// What a thread of the DPA finds out about itself.
struct Self {
    sigset_t blocked{};
    char name[16] = {};
    std::atomic<bool> known = false;
};

void look_at_self(std::uint64_t argument) {
    Self& self = *reinterpret_cast<Self*>(argument);
    (void)pthread_sigmask(SIG_BLOCK, nullptr, &self.blocked);
    (void)pthread_getname_np(pthread_self(), self.name, sizeof(self.name));
    self.known = true;
}

TEST(DocaDpa, AThreadTakesNoneOfTheProgramsSignals) {
    Dpa lab;
    Self self;
    ASSERT_OK(doca_dpa_thread_set_func_arg(lab.thread,
                                           reinterpret_cast<doca_dpa_func_t*>(look_at_self),
                                           reinterpret_cast<std::uintptr_t>(&self)));
    ASSERT_OK(doca_dpa_thread_start(lab.thread));
    ASSERT_OK(doca_dpa_thread_run(lab.thread));
    doca_dpa_notification_completion* notification = nullptr;
    ASSERT_OK(doca_dpa_notification_completion_create(lab.dpa, lab.thread, &notification));
    ASSERT_OK(doca_dpa_notification_completion_start(notification));
    doca_dpa_dev_notification_completion_t handle = 0;
    ASSERT_OK(doca_dpa_notification_completion_get_dpa_handle(notification, &handle));
    doca_dpa_dev_thread_notify(handle);
    EXPECT_TRUE(progress_until([&] { return self.known.load(); }));
    EXPECT_STREQ(self.name, "comch-dpa");
    sigset_t ours{};
    (void)pthread_sigmask(SIG_BLOCK, nullptr, &ours);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM}) {
        EXPECT_EQ(sigismember(&self.blocked, signal), 1) << signal;
        EXPECT_EQ(sigismember(&ours, signal), 0) << signal;
    }
    EXPECT_OK(doca_dpa_notification_completion_destroy(notification));
}

std::uint64_t talk(std::uint64_t number) {
    DOCA_DPA_DEV_LOG_CRIT("critical %d\n", static_cast<int>(number));
    DOCA_DPA_DEV_LOG_ERR("error %d", static_cast<int>(number));
    DOCA_DPA_DEV_LOG_WARN("warning");
    DOCA_DPA_DEV_LOG_INFO("info");
    DOCA_DPA_DEV_LOG_DBG("debug");
    return 0;
}

TEST(DocaDpa, ItsProgramsLogUpToALevelIntoAFile) {
    const Lab lab;
    doca_dpa* dpa = nullptr;
    ASSERT_OK(doca_dpa_create(lab.dpu, &dpa));
    const std::string path = lab.directory / "dpa.log";
    EXPECT_EQ(doca_dpa_log_file_set_path(dpa, (lab.directory / "no/such").c_str()),
              DOCA_ERROR_OPERATING_SYSTEM);
    ASSERT_OK(doca_dpa_log_file_set_path(dpa, path.c_str()));
    ASSERT_OK(doca_dpa_start(dpa));
    EXPECT_EQ(doca_dpa_log_file_set_path(dpa, path.c_str()), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_dpa_set_log_level(dpa, static_cast<doca_dpa_dev_log_level_t>(35)),
              DOCA_ERROR_INVALID_VALUE);
    const auto say = [&](std::uint64_t number) {
        std::uint64_t returned = 0;
        EXPECT_OK(doca_dpa_rpc(dpa, reinterpret_cast<doca_dpa_func_t*>(talk), &returned, number));
    };
    say(1);
    EXPECT_OK(doca_dpa_set_log_level(dpa, DOCA_DPA_DEV_LOG_LEVEL_ERROR));
    say(2);
    EXPECT_OK(doca_dpa_set_log_level(dpa, DOCA_DPA_DEV_LOG_LEVEL_DISABLE));
    say(3);
    EXPECT_OK(doca_dpa_stop(dpa));
    EXPECT_OK(doca_dpa_destroy(dpa));
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
    }
    EXPECT_THAT(lines,
                ElementsAre("critical 1", "error 1", "warning", "info", "critical 2", "error 2"));
}

TEST(DocaDpa, MisuseIsRefused) {
    Dpa lab;
    doca_dpa* other = nullptr;
    ASSERT_OK(doca_dpa_create(lab.lab.dpu, &other));
    doca_dpa_thread* thread = nullptr;
    EXPECT_EQ(doca_dpa_thread_create(other, &thread), DOCA_ERROR_BAD_STATE); // not started
    EXPECT_EQ(doca_dpa_stop(other), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_dpa_destroy(other));
    EXPECT_EQ(doca_dpa_start(lab.dpa), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_dpa_stop(lab.dpa), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dpa_thread_start(lab.thread), DOCA_ERROR_BAD_STATE); // no function
    EXPECT_EQ(doca_dpa_thread_run(lab.thread), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_dpa_thread_stop(lab.thread), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_dpa_thread_set_func_arg(lab.thread, nullptr, 0), DOCA_ERROR_INVALID_VALUE);
    doca_dpa_completion* completion = nullptr;
    EXPECT_EQ(doca_dpa_completion_create(lab.dpa, 0, &completion), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_dpa_completion_create(lab.dpa, 4, &completion));
    doca_dpa_dev_completion_t handle{};
    EXPECT_EQ(doca_dpa_completion_get_dpa_handle(completion, &handle), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_dpa_completion_start(completion));
    EXPECT_EQ(doca_dpa_completion_start(completion), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_dpa_completion_destroy(completion));
    EXPECT_EQ(doca_dpa_create(nullptr, &other), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dpa_create(closed_device(), &other), DOCA_ERROR_INVALID_VALUE);
    doca_comch_msgq* queue = nullptr;
    EXPECT_EQ(doca_comch_msgq_create(closed_device(), &queue), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dpa_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dpa_thread_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_msgq_create(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_msgq_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_msgq_start(lab.to_dpa), DOCA_ERROR_BAD_STATE);
}

} // namespace
