// Message queues: what is answered in which state, what their messages may be, and what must
// outlive what. Programs on the DPA are functions of this process, so the tests call what those
// would.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/comch/fast_path_support.hpp"
#include "doca_comch/msgq/test_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::AnyOf;
using ::testing::ElementsAre;

std::atomic<int> runs = 0;
void count_runs(std::uint64_t) {
    ++runs;
}

/// All four ends, configured and not started.
struct Ends {
    Dpa lab;
    Received received;
    doca_comch_consumer_completion* completion = nullptr;
    doca_dpa_completion* dpa_completion = nullptr;
    doca_comch_consumer* dpa_consumer = nullptr;
    doca_comch_producer* dpa_producer = nullptr;
    doca_comch_consumer* consumer = nullptr;
    doca_comch_producer* producer = nullptr;
    Memory memory{lab.lab.dpu, 4096, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE};

    Ends() {
        doca_data user{};
        user.ptr = &received;
        EXPECT_OK(doca_dpa_thread_set_func_arg(lab.thread,
                                               reinterpret_cast<doca_dpa_func_t*>(count_runs), 0));
        EXPECT_OK(doca_dpa_thread_start(lab.thread));
        EXPECT_OK(doca_dpa_thread_run(lab.thread));
        EXPECT_OK(doca_comch_consumer_completion_create(&completion));
        EXPECT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread));
        EXPECT_OK(doca_comch_consumer_completion_start(completion));
        EXPECT_OK(doca_dpa_completion_create(lab.dpa, 16, &dpa_completion));
        EXPECT_OK(doca_dpa_completion_start(dpa_completion));

        EXPECT_OK(doca_comch_msgq_consumer_create(lab.to_dpa, &dpa_consumer));
        EXPECT_OK(doca_ctx_set_datapath_on_dpa(doca_comch_consumer_as_ctx(dpa_consumer), lab.dpa));
        EXPECT_OK(doca_comch_consumer_set_dev_max_num_recv(dpa_consumer, 8));
        EXPECT_OK(doca_comch_consumer_set_completion(dpa_consumer, completion, 7));
        EXPECT_OK(doca_comch_msgq_producer_create(lab.to_dpa, &producer));
        EXPECT_OK(doca_ctx_set_user_data(doca_comch_producer_as_ctx(producer), user));
        EXPECT_OK(doca_comch_producer_task_send_set_conf(producer, on_sent, on_sent, 4));
        EXPECT_OK(doca_pe_connect_ctx(lab.engine.pe, doca_comch_producer_as_ctx(producer)));

        EXPECT_OK(doca_comch_msgq_producer_create(lab.from_dpa, &dpa_producer));
        EXPECT_OK(doca_ctx_set_datapath_on_dpa(doca_comch_producer_as_ctx(dpa_producer), lab.dpa));
        EXPECT_OK(doca_comch_producer_set_dev_max_num_send(dpa_producer, 8));
        EXPECT_OK(doca_comch_producer_dpa_completion_attach(dpa_producer, dpa_completion));
        EXPECT_OK(doca_comch_msgq_consumer_create(lab.from_dpa, &consumer));
        EXPECT_OK(doca_ctx_set_user_data(doca_comch_consumer_as_ctx(consumer), user));
        EXPECT_OK(doca_comch_consumer_task_post_recv_set_conf(consumer, on_received,
                                                              on_receive_failed, 4));
        EXPECT_OK(doca_pe_connect_ctx(lab.engine.pe, doca_comch_consumer_as_ctx(consumer)));
    }
    ~Ends() {
        for (doca_ctx* const ctx : contexts()) {
            (void)doca_ctx_stop(ctx);
            EXPECT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, lab.engine));
        }
        EXPECT_OK(doca_comch_producer_destroy(dpa_producer));
        EXPECT_OK(doca_comch_consumer_destroy(dpa_consumer));
        EXPECT_OK(doca_comch_producer_destroy(producer));
        EXPECT_OK(doca_comch_consumer_destroy(consumer));
        EXPECT_OK(doca_comch_consumer_completion_destroy(completion));
        EXPECT_OK(doca_dpa_completion_destroy(dpa_completion));
    }
    [[nodiscard]] std::array<doca_ctx*, 4> contexts() const {
        return {doca_comch_consumer_as_ctx(dpa_consumer), doca_comch_producer_as_ctx(producer),
                doca_comch_consumer_as_ctx(consumer), doca_comch_producer_as_ctx(dpa_producer)};
    }
    void start() {
        for (doca_ctx* const ctx : contexts()) {
            EXPECT_OK(doca_ctx_start(ctx));
            EXPECT_EQ(state_of(ctx), running);
        }
    }
    [[nodiscard]] doca_error_t send(std::string text, std::uint32_t to,
                                    const doca_buf* buffer = nullptr) const {
        doca_comch_producer_task_send* task = nullptr;
        const doca_error_t allocated = doca_comch_producer_task_send_alloc_init(
            producer, buffer, reinterpret_cast<std::uint8_t*>(text.data()),
            static_cast<std::uint32_t>(text.size()), to, &task);
        if (allocated != DOCA_SUCCESS) {
            return allocated;
        }
        const doca_error_t result = doca_task_submit(doca_comch_producer_task_send_as_task(task));
        if (result != DOCA_SUCCESS) {
            doca_task_free(doca_comch_producer_task_send_as_task(task));
        }
        return result;
    }
    [[nodiscard]] doca_error_t post(doca_buf* buffer = nullptr) const {
        doca_comch_consumer_task_post_recv* task = nullptr;
        const doca_error_t allocated =
            doca_comch_consumer_task_post_recv_alloc_init(consumer, buffer, &task);
        if (allocated != DOCA_SUCCESS) {
            return allocated;
        }
        doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
        const doca_error_t result = doca_task_submit(base);
        if (result != DOCA_SUCCESS) {
            doca_task_free(base);
        }
        return result;
    }
    template <class Handle, class Object>
    [[nodiscard]] static Handle handle(Object* object, doca_error_t (*get)(Object*, Handle*)) {
        Handle handle{};
        EXPECT_OK(get(object, &handle));
        return handle;
    }
};

TEST(DocaMsgQStates, EveryEndStartsStopsAndStartsAgain) {
    Ends ends;
    for (int round = 0; round < 2; ++round) {
        for (doca_ctx* const ctx : ends.contexts()) {
            EXPECT_EQ(state_of(ctx), idle);
            EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_BAD_STATE);
        }
        ends.start();
        for (doca_ctx* const ctx : ends.contexts()) {
            EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_BAD_STATE);
            EXPECT_EQ(doca_ctx_set_datapath_on_dpa(ctx, ends.lab.dpa), DOCA_ERROR_BAD_STATE);
        }
        EXPECT_EQ(doca_comch_producer_destroy(ends.producer), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_producer_destroy(ends.dpa_producer), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_consumer_destroy(ends.consumer), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_consumer_destroy(ends.dpa_consumer), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_producer_task_send_set_conf(ends.producer, on_sent, on_sent, 1),
                  DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_consumer_task_post_recv_set_conf(ends.consumer, on_received,
                                                              on_receive_failed, 1),
                  DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_consumer_set_dev_max_num_recv(ends.dpa_consumer, 1),
                  DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_consumer_set_completion(ends.dpa_consumer, ends.completion, 1),
                  DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_producer_set_dev_max_num_send(ends.dpa_producer, 1),
                  DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_comch_producer_dpa_completion_attach(ends.dpa_producer, ends.dpa_completion),
                  DOCA_ERROR_BAD_STATE);

        // The CPU's stop by progress, which reports what was sent and fails what was posted; the
        // DPA's are idle at once.
        EXPECT_OK(ends.post());
        doca_dpa_dev_comch_consumer_ack(
            Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle), 1);
        EXPECT_OK(ends.send("in time", 1));
        const auto contexts = ends.contexts();
        for (doca_ctx* const ctx : {contexts[1], contexts[2]}) {
            EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
            EXPECT_EQ(state_of(ctx), stopping);
            EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
            EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_BAD_STATE);
        }
        EXPECT_EQ(ends.send("late", 1), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(ends.post(), DOCA_ERROR_BAD_STATE);
        for (doca_ctx* const ctx : {contexts[0], contexts[3]}) {
            EXPECT_OK(doca_ctx_stop(ctx));
            EXPECT_EQ(state_of(ctx), idle);
        }
        ASSERT_TRUE(progress_until(
            [&] { return state_of(contexts[1]) == idle && state_of(contexts[2]) == idle; },
            ends.lab.engine));
        EXPECT_THAT(ends.received.failures, ElementsAre(DOCA_ERROR_SHUTDOWN));
        EXPECT_THAT(ends.received.sends, ElementsAre(DOCA_SUCCESS));
        ends.received.failures.clear();
        ends.received.sends.clear();
    }
}

TEST(DocaMsgQStates, TheCpusEndsWithNothingUnderWayAreIdleAtOnce) {
    Ends ends;
    for (int round = 0; round < 2; ++round) {
        ends.start();
        for (doca_ctx* const ctx : ends.contexts()) {
            EXPECT_OK(doca_ctx_stop(ctx));
            EXPECT_EQ(state_of(ctx), idle);
        }
    }
    // A task that the program keeps is none to forget: it stops when that is given back.
    ends.start();
    doca_comch_producer_task_send* task = nullptr;
    std::uint8_t byte = 0;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(ends.producer, nullptr, &byte, 1, 1, &task));
    doca_ctx* const ctx = doca_comch_producer_as_ctx(ends.producer);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
    doca_task_free(doca_comch_producer_task_send_as_task(task));
    EXPECT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, ends.lab.engine));
}

/// Stops and destroys the consumer that it was called for.
void on_last(doca_comch_consumer_task_post_recv* task, doca_data, doca_data user) {
    doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
    doca_ctx* const ctx = doca_task_get_ctx(base);
    doca_task_free(base);
    EXPECT_OK(doca_ctx_stop(ctx));
    auto*& consumer = *static_cast<doca_comch_consumer**>(user.ptr);
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
    consumer = nullptr;
}

TEST(DocaMsgQStates, AConsumerStopsAndEndsInsideItsCallback) {
    Ends ends;
    ends.start();
    doca_comch_consumer* last = nullptr;
    ASSERT_OK(doca_comch_msgq_consumer_create(ends.lab.from_dpa, &last));
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(last);
    doca_data user{};
    user.ptr = &last;
    ASSERT_OK(doca_ctx_set_user_data(ctx, user));
    ASSERT_OK(doca_comch_consumer_task_post_recv_set_conf(last, on_last, on_receive_failed, 1));
    ASSERT_OK(doca_pe_connect_ctx(ends.lab.engine.pe, ctx));
    ASSERT_OK(doca_ctx_start(ctx));
    std::uint32_t id = 0;
    ASSERT_OK(doca_comch_consumer_get_id(last, &id));
    doca_comch_consumer_task_post_recv* task = nullptr;
    ASSERT_OK(doca_comch_consumer_task_post_recv_alloc_init(last, nullptr, &task));
    ASSERT_OK(doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task)));
    const std::uint8_t byte = 1;
    doca_dpa_dev_comch_producer_post_send_imm_only(
        Ends::handle(ends.dpa_producer, doca_comch_producer_get_dpa_handle), id, &byte, 1, 0);
    EXPECT_TRUE(progress_until([&] { return last == nullptr; }, ends.lab.engine));
}

TEST(DocaMsgQStates, EachEndHasTheCallsOfItsProcessorOnly) {
    Ends ends;
    doca_dpa_dev_comch_consumer_t consumer_handle = 0;
    doca_dpa_dev_comch_producer_t producer_handle = 0;
    EXPECT_EQ(doca_comch_consumer_get_dpa_handle(ends.dpa_consumer, &consumer_handle),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_producer_get_dpa_handle(ends.dpa_producer, &producer_handle),
              DOCA_ERROR_BAD_STATE);
    // What is the CPU's has nothing on the DPA.
    const auto contexts = ends.contexts();
    EXPECT_EQ(doca_ctx_set_datapath_on_dpa(contexts[1], ends.lab.dpa), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_ctx_set_datapath_on_dpa(contexts[2], ends.lab.dpa), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_consumer_set_dev_max_num_recv(ends.consumer, 8), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_consumer_set_completion(ends.consumer, ends.completion, 0),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_producer_set_dev_max_num_send(ends.producer, 8), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_producer_dpa_completion_attach(ends.producer, ends.dpa_completion),
              DOCA_ERROR_NOT_SUPPORTED);
    // The data path is the queue's own DPA's.
    doca_dpa* other = nullptr;
    ASSERT_OK(doca_dpa_create(ends.lab.lab.dpu, &other));
    EXPECT_EQ(doca_ctx_set_datapath_on_dpa(contexts[0], other), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_dpa_destroy(other));
    ends.start();
    EXPECT_OK(doca_comch_consumer_get_dpa_handle(ends.dpa_consumer, &consumer_handle));
    EXPECT_OK(doca_comch_producer_get_dpa_handle(ends.dpa_producer, &producer_handle));
    EXPECT_EQ(doca_comch_consumer_get_dpa_handle(ends.consumer, &consumer_handle),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_producer_get_dpa_handle(ends.producer, &producer_handle),
              DOCA_ERROR_NOT_SUPPORTED);
    doca_comch_consumer_task_post_recv* post = nullptr;
    EXPECT_EQ(doca_comch_consumer_task_post_recv_alloc_init(ends.dpa_consumer, nullptr, &post),
              DOCA_ERROR_NO_MEMORY)
        << "the DPA has no tasks";
}

TEST(DocaMsgQ, MessagesOfTheLongestLengthArriveWithTheirProducersNumber) {
    Ends ends;
    ends.start();
    const auto to_post = Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle);
    const auto completion =
        Ends::handle(ends.completion, doca_comch_consumer_completion_get_dpa_handle);
    const auto dpa_producer = Ends::handle(ends.dpa_producer, doca_comch_producer_get_dpa_handle);
    const std::string longest(32, 'L');
    // To the DPA.
    std::uint32_t id = 0;
    ASSERT_OK(doca_comch_producer_get_id(ends.producer, &id));
    doca_dpa_dev_comch_consumer_completion_element_t element = 0;
    EXPECT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 0);
    doca_dpa_dev_comch_consumer_ack(to_post, 2);
    EXPECT_OK(ends.send(longest, 1));
    EXPECT_OK(ends.send("2", 1));
    EXPECT_EQ(ends.send("3", 1), DOCA_ERROR_AGAIN) << "two were let in";
    for (const std::string& expected : {longest, std::string("2")}) {
        ASSERT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 1);
        std::uint32_t length = 0;
        const std::uint8_t* const bytes =
            doca_dpa_dev_comch_consumer_get_completion_imm(element, &length);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes), length), expected);
        EXPECT_EQ(doca_dpa_dev_comch_consumer_get_completion_producer_id(element), id);
        doca_dpa_dev_comch_consumer_completion_ack(completion, 1);
    }
    EXPECT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 0);
    ASSERT_TRUE(progress_until([&] { return ends.received.sends.size() == 2; }, ends.lab.engine));
    EXPECT_THAT(ends.received.sends, ElementsAre(DOCA_SUCCESS, DOCA_SUCCESS));
    // From the DPA.
    EXPECT_EQ(doca_dpa_dev_comch_producer_is_consumer_empty(dpa_producer, 1), 1);
    EXPECT_EQ(doca_dpa_dev_comch_producer_is_consumer_empty(dpa_producer, 9), 1) << "is not there";
    EXPECT_OK(ends.post());
    EXPECT_EQ(doca_dpa_dev_comch_producer_is_consumer_empty(dpa_producer, 1), 0);
    const std::vector<std::uint8_t> bytes(33, 'M');
    doca_dpa_dev_comch_producer_post_send_imm_only(dpa_producer, 1, bytes.data(), 33, 0);
    doca_dpa_dev_comch_producer_post_send_imm_only(dpa_producer, 9, bytes.data(), 32, 0);
    doca_dpa_dev_comch_producer_post_send_imm_only(dpa_producer, 1, bytes.data(), 32, 0);
    ASSERT_TRUE(progress_until([&] { return !ends.received.messages.empty(); }, ends.lab.engine));
    EXPECT_THAT(ends.received.messages, ElementsAre(std::string(32, 'M'))) << "the others are lost";
}

TEST(DocaMsgQ, AProducerThatFoundNoRoomCanSleepUntilItIsAnsweredOtherwise) {
    Ends ends;
    ends.start();
    const Engine& engine = ends.lab.engine;
    const auto to_post = Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle);
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(ends.send("too early", 1), DOCA_ERROR_AGAIN);
        engine.fall_asleep();
        doca_dpa_dev_comch_consumer_ack(to_post, 1);
        EXPECT_TRUE(engine.readable());
        EXPECT_EQ(doca_pe_progress(engine.pe), 1) << "what may be tried again is something";
        EXPECT_EQ(doca_pe_progress(engine.pe), 0);
        EXPECT_OK(ends.send("now", 1));
        engine.fall_asleep();
    }
    // Who was not refused sleeps on.
    doca_dpa_dev_comch_consumer_ack(to_post, 1);
    EXPECT_FALSE(engine.readable());
    EXPECT_OK(ends.send("now", 1));
    // Room that comes before the program has asked to be woken.
    EXPECT_EQ(ends.send("too early", 1), DOCA_ERROR_AGAIN);
    doca_dpa_dev_comch_consumer_ack(to_post, 1);
    EXPECT_OK(doca_pe_request_notification(engine.pe));
    EXPECT_TRUE(engine.readable());
    EXPECT_OK(ends.send("now", 1));
    engine.fall_asleep();
    // The consumer's end is another answer.
    EXPECT_EQ(ends.send("too late", 1), DOCA_ERROR_AGAIN);
    engine.fall_asleep();
    EXPECT_OK(doca_ctx_stop(doca_comch_consumer_as_ctx(ends.dpa_consumer)));
    EXPECT_TRUE(engine.readable());
    EXPECT_EQ(ends.send("too late", 1), DOCA_ERROR_NOT_FOUND);
    engine.fall_asleep();
}

TEST(DocaMsgQ, AProducerSleepsWheneverTheDpasThreadHasNoRoom) {
    Ends ends;
    ends.start();
    constexpr int many = 3000;
    const auto to_post = Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle);
    const auto completion =
        Ends::handle(ends.completion, doca_comch_consumer_completion_get_dpa_handle);
    std::atomic<bool> gave_up = false;
    std::thread dpa([&] {
        doca_dpa_dev_comch_consumer_completion_element_t element = 0;
        doca_dpa_dev_comch_consumer_ack(to_post, 1);
        for (int taken = 0; taken < many && !gave_up;) {
            if (doca_dpa_dev_comch_consumer_get_completion(completion, &element) == 1) {
                ++taken;
                doca_dpa_dev_comch_consumer_completion_ack(completion, 1);
                doca_dpa_dev_comch_consumer_ack(to_post, 1);
            }
        }
    });
    for (int sent = 0; sent < many && !gave_up;) {
        const doca_error_t result = ends.send("message", 1);
        if (result == DOCA_SUCCESS) {
            ++sent;
            continue;
        }
        EXPECT_THAT(result, AnyOf(DOCA_ERROR_AGAIN, DOCA_ERROR_NO_MEMORY));
        EXPECT_OK(doca_pe_request_notification(ends.lab.engine.pe));
        if (!ends.lab.engine.wakes()) {
            ADD_FAILURE() << "asleep for ever after " << sent;
            gave_up = true;
        }
        (void)doca_pe_progress(ends.lab.engine.pe);
    }
    dpa.join();
}

TEST(DocaMsgQ, NeitherEndTakesBuffers) {
    Ends ends;
    ends.start();
    doca_buf* const buffer = ends.memory.data(0, 8);
    doca_dpa_dev_comch_consumer_ack(
        Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle), 1);
    EXPECT_EQ(ends.send("x", 1, buffer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ends.post(buffer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(ends.send("x", 1));
    EXPECT_OK(ends.post());
    give_back(buffer);
}

TEST(DocaMsgQ, TheDpasThreadRunsOnlyWhenACompletionAskedForIt) {
    Ends ends;
    ends.start();
    runs = 0;
    const auto to_post = Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle);
    const auto completion =
        Ends::handle(ends.completion, doca_comch_consumer_completion_get_dpa_handle);
    doca_dpa_dev_comch_consumer_ack(to_post, 8);
    const auto runs_become = [](int wanted) {
        return progress_until([&] { return runs == wanted; });
    };
    // Programs on the DPA ask when they have handled something: a new completion has asked.
    EXPECT_OK(ends.send("the first", 1));
    EXPECT_TRUE(runs_become(1));
    doca_dpa_dev_comch_consumer_completion_element_t element = 0;
    ASSERT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 1);
    // Whatever ran it for a message that nobody asked for would have run it before the next.
    EXPECT_OK(ends.send("unasked", 1));
    ASSERT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 1);
    EXPECT_EQ(runs, 1);
    doca_dpa_dev_comch_consumer_completion_request_notification(completion);
    EXPECT_OK(ends.send("asked", 1));
    EXPECT_TRUE(runs_become(2));
    EXPECT_OK(ends.send("not asked again", 1));
    ASSERT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 1);
    EXPECT_EQ(runs, 2);
    // What is there already when it asks runs it, too.
    doca_dpa_dev_comch_consumer_completion_request_notification(completion);
    EXPECT_TRUE(runs_become(3));
}

/// What a completion of the DPA's has to tell, taken and acknowledged.
std::vector<doca_dpa_dev_completion_type_t> take_all(doca_dpa_dev_completion_t completion,
                                                     std::uint32_t user_data) {
    std::vector<doca_dpa_dev_completion_type_t> types;
    doca_dpa_dev_completion_element_t element = 0;
    while (doca_dpa_dev_get_completion(completion, &element) != 0) {
        types.push_back(doca_dpa_dev_get_completion_type(element));
        EXPECT_EQ(doca_dpa_dev_get_completion_user_data(element), user_data);
    }
    doca_dpa_dev_completion_ack(completion, types.size());
    return types;
}

TEST(DocaMsgQ, TheDpaIsToldHowItsSendsEnded) {
    Ends ends;
    doca_data user{};
    user.u64 = 5;
    ASSERT_OK(doca_ctx_set_user_data(doca_comch_producer_as_ctx(ends.dpa_producer), user));
    ends.start();
    for (int i = 0; i < 4; ++i) {
        ASSERT_OK(ends.post());
    }
    const auto producer = Ends::handle(ends.dpa_producer, doca_comch_producer_get_dpa_handle);
    const auto completion = Ends::handle(ends.dpa_completion, doca_dpa_completion_get_dpa_handle);
    const auto told = [&] { return take_all(completion, 5); };
    const auto send = [&](std::uint32_t to, std::uint32_t flags) {
        const std::uint8_t byte = 1;
        doca_dpa_dev_comch_producer_post_send_imm_only(producer, to, &byte, 1, flags);
    };
    constexpr auto good = DOCA_DPA_DEV_COMP_SEND;
    constexpr auto bad = DOCA_DPA_DEV_COMP_SEND_ERR;
    EXPECT_THAT(told(), ElementsAre());
    send(1, DOCA_DPA_DEV_SUBMIT_FLAG_FLUSH);
    EXPECT_THAT(told(), ElementsAre(good));
    // Reports that may come later come with the next one that may not.
    send(1, DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS);
    send(1, DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS | DOCA_DPA_DEV_SUBMIT_FLAG_FLUSH);
    EXPECT_THAT(told(), ElementsAre());
    send(1, DOCA_DPA_DEV_SUBMIT_FLAG_NONE);
    EXPECT_THAT(told(), ElementsAre(good, good, good));
    // Failures do not wait: no room, no such consumer, and a copy into nowhere.
    send(1, DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS);
    send(9, DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, 99, 1, 99, 1, 1, nullptr, 0, 0);
    EXPECT_THAT(told(), ElementsAre(bad, bad, bad));
    // As many as it has room for wait to be acknowledged.
    for (int i = 0; i < 20; ++i) {
        send(9, 0);
    }
    EXPECT_THAT(told(), testing::SizeIs(16));
    send(9, 0);
    EXPECT_THAT(told(), ElementsAre(bad));
    EXPECT_OK(doca_ctx_stop(doca_comch_producer_as_ctx(ends.dpa_producer)));
    send(1, 0);
    EXPECT_THAT(told(), ElementsAre()) << "it has ended";
}

TEST(DocaMsgQ, TheDpasThreadRunsWhenASendEndedAndThatWasAskedFor) {
    Ends ends;
    doca_dpa_completion* told = nullptr;
    ASSERT_OK(doca_dpa_completion_create(ends.lab.dpa, 4, &told));
    ASSERT_OK(doca_dpa_completion_set_thread(told, ends.lab.thread));
    ASSERT_OK(doca_dpa_completion_start(told));
    doca_comch_producer* made = nullptr;
    ASSERT_OK(doca_comch_msgq_producer_create(ends.lab.from_dpa, &made));
    doca_ctx* const ctx = doca_comch_producer_as_ctx(made);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(ctx, ends.lab.dpa));
    ASSERT_OK(doca_comch_producer_set_dev_max_num_send(made, 4));
    ASSERT_OK(doca_comch_producer_dpa_completion_attach(made, told));
    ASSERT_OK(doca_ctx_start(ctx));
    const auto producer = Ends::handle(made, doca_comch_producer_get_dpa_handle);
    const auto completion = Ends::handle(told, doca_dpa_completion_get_dpa_handle);
    const auto send = [&] { // to nobody, which is told, too
        const std::uint8_t byte = 1;
        doca_dpa_dev_comch_producer_post_send_imm_only(producer, 9, &byte, 1, 0);
    };
    const auto runs_become = [](int wanted) {
        return progress_until([&] { return runs == wanted; });
    };
    runs = 0;
    send();
    EXPECT_TRUE(runs_become(1)) << "a new completion has asked";
    EXPECT_THAT(take_all(completion, 0), testing::SizeIs(1));
    doca_dpa_dev_completion_request_notification(completion);
    send();
    EXPECT_TRUE(runs_become(2));
    send(); // not asked again
    EXPECT_EQ(runs, 2);
    // What is there already when it asks runs it, too.
    doca_dpa_dev_completion_request_notification(completion);
    EXPECT_TRUE(runs_become(3));
    EXPECT_OK(doca_ctx_stop(ctx));
    EXPECT_OK(doca_comch_producer_destroy(made));
    EXPECT_OK(doca_dpa_completion_stop(told));
    EXPECT_OK(doca_dpa_completion_destroy(told));
}

TEST(DocaMsgQ, TheDpaCopiesBetweenMapsAndTellsOfIt) {
    Ends ends;
    ends.start();
    EXPECT_OK(ends.post());
    EXPECT_OK(ends.post());
    const auto producer = Ends::handle(ends.dpa_producer, doca_comch_producer_get_dpa_handle);
    doca_dpa_dev_mmap_t map = 0;
    ASSERT_OK(doca_mmap_dev_get_dpa_handle(ends.memory.mmap, ends.lab.lab.dpu, &map));
    const Memory fixed(ends.lab.lab.dpu, 64, DOCA_ACCESS_FLAG_LOCAL_READ_ONLY);
    doca_dpa_dev_mmap_t read_only = 0;
    ASSERT_OK(doca_mmap_dev_get_dpa_handle(fixed.mmap, ends.lab.lab.dpu, &read_only));
    std::memcpy(ends.memory.bytes.data(), "by the DPA", 10);
    const auto from = reinterpret_cast<std::uint64_t>(ends.memory.bytes.data());
    const auto nowhere = reinterpret_cast<std::uint64_t>(fixed.bytes.data());
    const std::uint8_t note[] = {'n'};
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, map, from + 100, map, from, 10, note, 1, 0);
    // Not beyond a map's end, not into what is only read, and not in a map that is not one.
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, map, from + 4090, map, from, 10, note, 1, 0);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, read_only, nowhere, map, from, 10, note, 1,
                                         0);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, map + 99, from, map, from, 10, note, 1, 0);
    ASSERT_TRUE(progress_until([&] { return !ends.received.messages.empty(); }, ends.lab.engine));
    (void)doca_pe_progress(ends.lab.engine.pe);
    EXPECT_THAT(ends.received.messages, ElementsAre("n"));
    EXPECT_EQ(std::string_view(ends.memory.bytes.data() + 100, 10), "by the DPA");
    EXPECT_EQ(fixed.bytes, std::vector<char>(64));
}

TEST(DocaMsgQ, TheDpaCopiesFromAndToMemoryThatWasExported) {
    Ends ends;
    ends.start();
    EXPECT_OK(ends.post());
    EXPECT_OK(ends.post());
    const auto producer = Ends::handle(ends.dpa_producer, doca_comch_producer_get_dpa_handle);
    constexpr std::size_t size = 300000;
    Memory there(ends.lab.lab.host, size, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Memory fixed(ends.lab.lab.host, 64, DOCA_ACCESS_FLAG_PCI_READ_ONLY);
    const Memory here(ends.lab.lab.dpu, size, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    fill_unevenly(there.bytes);
    const auto import = [&](const Memory& memory, doca_dpa_dev_mmap_t& handle) {
        const void* descriptor = nullptr;
        std::size_t length = 0;
        doca_mmap* imported = nullptr;
        EXPECT_OK(doca_mmap_export_pci(memory.mmap, ends.lab.lab.host, &descriptor, &length));
        EXPECT_OK(
            doca_mmap_create_from_export(nullptr, descriptor, length, ends.lab.lab.dpu, &imported));
        EXPECT_OK(doca_mmap_dev_get_dpa_handle(imported, ends.lab.lab.dpu, &handle));
        return imported;
    };
    doca_dpa_dev_mmap_t far = 0;
    doca_dpa_dev_mmap_t read_only = 0;
    doca_dpa_dev_mmap_t near = 0;
    doca_mmap* const imported = import(there, far);
    doca_mmap* const unchanging = import(fixed, read_only);
    ASSERT_OK(doca_mmap_dev_get_dpa_handle(here.mmap, ends.lab.lab.dpu, &near));
    const auto remote = reinterpret_cast<std::uint64_t>(there.bytes.data());
    const auto local = reinterpret_cast<std::uint64_t>(here.bytes.data());
    const std::uint8_t read[] = {'r'};
    const std::uint8_t written[] = {'w'};
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, near, local, far, remote, size, read, 1, 0);
    EXPECT_EQ(here.bytes, there.bytes);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, far, remote + 1000, near, local, 1000,
                                         written, 1, 0);
    EXPECT_TRUE(
        std::equal(there.bytes.begin() + 1000, there.bytes.begin() + 2000, here.bytes.begin()));
    // Not from one to the other, not beyond its end, and not what is only to be read.
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, far, remote, far, remote + 8, 8, read, 1, 0);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, near, local, far, remote + size - 4, 8, read,
                                         1, 0);
    doca_dpa_dev_comch_producer_dma_copy(producer, 1, read_only,
                                         reinterpret_cast<std::uint64_t>(fixed.bytes.data()), near,
                                         local, 8, read, 1, 0);
    ASSERT_TRUE(
        progress_until([&] { return ends.received.messages.size() == 2; }, ends.lab.engine));
    EXPECT_THAT(ends.received.messages, ElementsAre("r", "w"));
    EXPECT_EQ(fixed.bytes, std::vector<char>(64));
    EXPECT_OK(doca_mmap_destroy(imported));
    EXPECT_OK(doca_mmap_destroy(unchanging));
}

TEST(DocaMsgQ, WhatOthersUseCannotBeDestroyed) {
    Ends ends;
    // Idle or not: a consumer keeps its completion, and that its thread.
    EXPECT_EQ(doca_comch_consumer_completion_destroy(ends.completion), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dpa_thread_destroy(ends.lab.thread), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dpa_completion_destroy(ends.dpa_completion), DOCA_ERROR_IN_USE);
    ends.start();
    EXPECT_EQ(doca_comch_consumer_completion_stop(ends.completion), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_comch_consumer_completion_destroy(ends.completion), DOCA_ERROR_IN_USE);
    for (doca_comch_msgq* const queue : {ends.lab.to_dpa, ends.lab.from_dpa}) {
        EXPECT_EQ(doca_comch_msgq_stop(queue), DOCA_ERROR_IN_USE);
        EXPECT_EQ(doca_comch_msgq_destroy(queue), DOCA_ERROR_IN_USE);
    }
    EXPECT_EQ(doca_dpa_stop(ends.lab.dpa), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dpa_destroy(ends.lab.dpa), DOCA_ERROR_IN_USE);
}

TEST(DocaMsgQ, SettingsOfACompletionAreCheckedAndFixedByItsStart) {
    Dpa lab;
    doca_comch_consumer_completion* completion = nullptr;
    ASSERT_OK(doca_comch_consumer_completion_create(&completion));
    std::uint32_t value = 0;
    EXPECT_EQ(doca_comch_consumer_completion_set_imm_data_len(completion, 33),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_consumer_completion_set_max_num_recv(completion, 0),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_consumer_completion_set_max_num_consumers(completion, 0),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_consumer_completion_set_imm_data_len(completion, 32));
    EXPECT_OK(doca_comch_consumer_completion_set_max_num_recv(completion, 5));
    EXPECT_OK(doca_comch_consumer_completion_set_max_num_consumers(completion, 3));
    EXPECT_OK(doca_comch_consumer_completion_get_imm_data_len(completion, &value));
    EXPECT_EQ(value, 32u);
    EXPECT_OK(doca_comch_consumer_completion_get_max_num_recv(completion, &value));
    EXPECT_EQ(value, 5u);
    EXPECT_OK(doca_comch_consumer_completion_get_max_num_consumers(completion, &value));
    EXPECT_EQ(value, 3u);
    EXPECT_EQ(doca_comch_consumer_completion_stop(completion), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread));
    EXPECT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread));
    EXPECT_OK(doca_comch_consumer_completion_start(completion));
    EXPECT_EQ(doca_comch_consumer_completion_start(completion), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_consumer_completion_set_dpa_thread(completion, lab.thread),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_consumer_completion_set_max_num_recv(completion, 5), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_comch_consumer_completion_stop(completion));
    EXPECT_OK(doca_comch_consumer_completion_destroy(completion));
}

TEST(DocaMsgQ, AQueueHasSoManyProducersAtATime) {
    Dpa lab;
    doca_comch_msgq* queue = nullptr;
    ASSERT_OK(doca_comch_msgq_create(lab.lab.dpu, &queue));
    ASSERT_OK(doca_comch_msgq_set_dpa_consumer(queue, lab.dpa));
    EXPECT_EQ(doca_comch_msgq_set_max_num_producers(queue, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_msgq_set_max_num_consumers(queue, 0), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_msgq_set_max_num_producers(queue, 2));
    doca_comch_producer* producer = nullptr;
    EXPECT_EQ(doca_comch_msgq_producer_create(queue, &producer), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_comch_msgq_start(queue));
    for (int round = 0; round < 3; ++round) {
        std::array<doca_comch_producer*, 2> producers{};
        std::array<std::uint32_t, 2> ids{};
        for (std::size_t i = 0; i < 2; ++i) {
            ASSERT_OK(doca_comch_msgq_producer_create(queue, &producers[i]));
            ASSERT_OK(doca_comch_producer_get_id(producers[i], &ids[i]));
        }
        EXPECT_NE(ids[0], ids[1]);
        EXPECT_EQ(doca_comch_msgq_producer_create(queue, &producer), DOCA_ERROR_NO_MEMORY);
        for (doca_comch_producer* const one : producers) {
            EXPECT_OK(doca_comch_producer_destroy(one));
        }
    }
    EXPECT_OK(doca_comch_msgq_stop(queue));
    EXPECT_OK(doca_comch_msgq_destroy(queue));
}

TEST(DocaMsgQ, AQueueHasSoManyProducersOfTheDpaAtATime) {
    Dpa lab;
    doca_comch_msgq* queue = nullptr;
    ASSERT_OK(doca_comch_msgq_create(lab.lab.dpu, &queue));
    ASSERT_OK(doca_comch_msgq_set_dpa_producer(queue, lab.dpa));
    ASSERT_OK(doca_comch_msgq_set_max_num_producers(queue, 1));
    ASSERT_OK(doca_comch_msgq_start(queue));
    for (int round = 0; round < 3; ++round) {
        doca_comch_producer* producer = nullptr;
        doca_comch_producer* more = nullptr;
        ASSERT_OK(doca_comch_msgq_producer_create(queue, &producer));
        EXPECT_EQ(doca_comch_msgq_producer_create(queue, &more), DOCA_ERROR_NO_MEMORY);
        EXPECT_OK(doca_comch_producer_destroy(producer));
    }
    EXPECT_OK(doca_comch_msgq_stop(queue));
    EXPECT_OK(doca_comch_msgq_destroy(queue));
}

TEST(DocaMsgQ, AQueueThatStartsAgainMayHaveOtherMaximums) {
    Dpa lab;
    doca_comch_msgq* queue = nullptr;
    ASSERT_OK(doca_comch_msgq_create(lab.lab.dpu, &queue));
    ASSERT_OK(doca_comch_msgq_set_dpa_producer(queue, lab.dpa));
    for (const std::uint32_t most : {1u, 3u, 2u}) {
        ASSERT_OK(doca_comch_msgq_set_max_num_consumers(queue, most));
        ASSERT_OK(doca_comch_msgq_start(queue));
        std::vector<doca_comch_consumer*> consumers(most);
        std::uint32_t expected = 0;
        for (doca_comch_consumer*& consumer : consumers) {
            std::uint32_t id = 0;
            ASSERT_OK(doca_comch_msgq_consumer_create(queue, &consumer));
            ASSERT_OK(doca_comch_consumer_get_id(consumer, &id));
            EXPECT_EQ(id, ++expected);
        }
        doca_comch_consumer* more = nullptr;
        EXPECT_EQ(doca_comch_msgq_consumer_create(queue, &more), DOCA_ERROR_NO_MEMORY);
        EXPECT_EQ(doca_comch_msgq_stop(queue), DOCA_ERROR_IN_USE);
        for (doca_comch_consumer* const consumer : consumers) {
            EXPECT_OK(doca_comch_consumer_destroy(consumer));
        }
        ASSERT_OK(doca_comch_msgq_stop(queue));
    }
    EXPECT_OK(doca_comch_msgq_destroy(queue));
}

/// A thread of the DPA's that counts its runs, and a completion that runs it.
struct Notified {
    doca_dpa_thread* thread = nullptr;
    doca_comch_consumer_completion* completion = nullptr;

    explicit Notified(doca_dpa* dpa, std::uint32_t consumers = 1) {
        EXPECT_OK(doca_dpa_thread_create(dpa, &thread));
        EXPECT_OK(doca_dpa_thread_set_func_arg(thread,
                                               reinterpret_cast<doca_dpa_func_t*>(count_runs), 0));
        EXPECT_OK(doca_dpa_thread_start(thread));
        EXPECT_OK(doca_dpa_thread_run(thread));
        EXPECT_OK(doca_comch_consumer_completion_create(&completion));
        EXPECT_OK(doca_comch_consumer_completion_set_max_num_consumers(completion, consumers));
        EXPECT_OK(doca_comch_consumer_completion_set_dpa_thread(completion, thread));
        EXPECT_OK(doca_comch_consumer_completion_start(completion));
    }
    ~Notified() {
        EXPECT_OK(doca_comch_consumer_completion_destroy(completion));
        EXPECT_OK(doca_dpa_thread_destroy(thread));
    }
    void ask() const {
        doca_dpa_dev_comch_consumer_completion_request_notification(
            Ends::handle(completion, doca_comch_consumer_completion_get_dpa_handle));
    }
    [[nodiscard]] bool take() const {
        doca_dpa_dev_comch_consumer_completion_element_t element = 0;
        return doca_dpa_dev_comch_consumer_get_completion(
                   Ends::handle(completion, doca_comch_consumer_completion_get_dpa_handle),
                   &element) == 1;
    }
};

TEST(DocaMsgQ, AConsumerStartsAgainWithAnotherCompletion) {
    Ends ends;
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(ends.dpa_consumer);
    {
        const Notified first(ends.lab.dpa);
        ASSERT_OK(doca_comch_consumer_set_completion(ends.dpa_consumer, first.completion, 1));
        EXPECT_OK(doca_comch_consumer_completion_destroy(ends.completion)) << "used no more";
        ends.completion = nullptr;
        EXPECT_EQ(doca_comch_consumer_completion_destroy(first.completion), DOCA_ERROR_IN_USE);
        ends.start();
        runs = 0;
        doca_dpa_dev_comch_consumer_ack(
            Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle), 8);
        first.ask();
        EXPECT_OK(ends.send("to the first", 1));
        EXPECT_TRUE(progress_until([] { return runs == 1; }));
        EXPECT_TRUE(first.take());
        first.ask(); // and is not told any more
        EXPECT_OK(doca_ctx_stop(ctx));
        EXPECT_OK(doca_comch_consumer_completion_create(&ends.completion));
        EXPECT_OK(doca_comch_consumer_completion_set_dpa_thread(ends.completion, ends.lab.thread));
        EXPECT_OK(doca_comch_consumer_completion_start(ends.completion));
        ASSERT_OK(doca_comch_consumer_set_completion(ends.dpa_consumer, ends.completion, 2));
    } // the first one, and its thread, are gone
    ASSERT_OK(doca_ctx_start(ctx));
    doca_dpa_dev_comch_consumer_completion_request_notification(
        Ends::handle(ends.completion, doca_comch_consumer_completion_get_dpa_handle));
    EXPECT_OK(ends.send("to the second", 1));
    EXPECT_TRUE(progress_until([] { return runs == 2; }));
}

TEST(DocaMsgQ, ConsumersStartAgainWithMoreReceivesThanBefore) {
    Ends ends;
    for (const std::uint32_t receives : {2u, 300u, 5u, 1000u}) {
        SCOPED_TRACE(receives);
        ASSERT_OK(doca_comch_consumer_set_dev_max_num_recv(ends.dpa_consumer, receives));
        ASSERT_OK(doca_comch_consumer_task_post_recv_set_conf(ends.consumer, on_received,
                                                              on_receive_failed, receives));
        ends.start();
        doca_dpa_dev_comch_consumer_ack(
            Ends::handle(ends.dpa_consumer, doca_comch_consumer_get_dpa_handle), receives);
        const auto completion =
            Ends::handle(ends.completion, doca_comch_consumer_completion_get_dpa_handle);
        for (std::uint32_t i = 0; i < receives; ++i) {
            ASSERT_OK(ends.send("message", 1));
            (void)doca_pe_progress(ends.lab.engine.pe);
            ASSERT_OK(ends.post());
        }
        EXPECT_EQ(ends.send("one more", 1), DOCA_ERROR_AGAIN);
        EXPECT_EQ(ends.post(), DOCA_ERROR_NO_MEMORY);
        for (std::uint32_t i = 0; i < receives; ++i) {
            doca_dpa_dev_comch_consumer_completion_element_t element = 0;
            ASSERT_EQ(doca_dpa_dev_comch_consumer_get_completion(completion, &element), 1);
            doca_dpa_dev_comch_consumer_completion_ack(completion, 1);
        }
        const auto contexts = ends.contexts();
        for (doca_ctx* const ctx : contexts) {
            const doca_error_t result = doca_ctx_stop(ctx);
            EXPECT_TRUE(result == DOCA_SUCCESS || result == DOCA_ERROR_IN_PROGRESS);
        }
        ASSERT_TRUE(progress_until(
            [&] {
                return std::all_of(contexts.begin(), contexts.end(),
                                   [](doca_ctx* ctx) { return state_of(ctx) == idle; });
            },
            ends.lab.engine));
        EXPECT_EQ(ends.received.failures.size(), receives) << "those that were posted";
        ends.received.failures.clear();
        ends.received.sends.clear();
    }
}

TEST(DocaMsgQ, ARequestIsForAllConsumersOfACompletionAndForOneRun) {
    Ends ends;
    const Notified notified(ends.lab.dpa, 2);
    ASSERT_OK(doca_comch_consumer_set_completion(ends.dpa_consumer, notified.completion, 1));
    doca_comch_consumer* second = nullptr;
    ASSERT_OK(doca_comch_msgq_consumer_create(ends.lab.to_dpa, &second));
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(second);
    ASSERT_OK(doca_ctx_set_datapath_on_dpa(ctx, ends.lab.dpa));
    ASSERT_OK(doca_comch_consumer_set_dev_max_num_recv(second, 8));
    ASSERT_OK(doca_comch_consumer_set_completion(second, notified.completion, 2));
    ends.start();
    runs = 0;
    notified.ask(); // before the second one is there
    ASSERT_OK(doca_ctx_start(ctx));
    for (doca_comch_consumer* const consumer : {ends.dpa_consumer, second}) {
        doca_dpa_dev_comch_consumer_ack(Ends::handle(consumer, doca_comch_consumer_get_dpa_handle),
                                        8);
    }
    constexpr int rounds = 20;
    for (int round = 1; round <= rounds; ++round) {
        EXPECT_OK(ends.send("to the second", 2));
        ASSERT_TRUE(progress_until([&] { return runs >= round; }));
        EXPECT_OK(ends.send("to the first one, armed too", 1));
        EXPECT_TRUE(notified.take());
        EXPECT_TRUE(notified.take());
        doca_dpa_dev_comch_consumer_completion_ack(
            Ends::handle(notified.completion, doca_comch_consumer_completion_get_dpa_handle), 2);
        for (doca_comch_consumer* const consumer : {ends.dpa_consumer, second}) {
            doca_dpa_dev_comch_consumer_ack(
                Ends::handle(consumer, doca_comch_consumer_get_dpa_handle), 1);
        }
        for (int i = 0; i < 1000; ++i) { // a run too many has its chance
            (void)doca_pe_progress(ends.lab.engine.pe);
            std::this_thread::yield();
        }
        notified.ask();
    }
    EXPECT_OK(doca_ctx_stop(ctx));
    EXPECT_EQ(runs, rounds);
    EXPECT_OK(doca_ctx_stop(doca_comch_consumer_as_ctx(ends.dpa_consumer)));
    EXPECT_OK(doca_comch_consumer_set_completion(ends.dpa_consumer, ends.completion, 1));
    EXPECT_OK(doca_comch_consumer_destroy(second));
}

} // namespace
