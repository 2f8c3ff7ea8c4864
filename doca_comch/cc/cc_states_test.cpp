// What is DOCA CC's own in the life of contexts: how they stop, and what they still take then.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/cc/test_support.hpp"
#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::Each;
using ::testing::ElementsAre;

/// A producer of the client's and a consumer of the server's.
struct Fast {
    std::size_t size;
    Cc cc;
    Memory memory{cc.lab.dpu, size, DOCA_ACCESS_FLAG_PCI_READ_WRITE};
    doca_buf* buffer = memory.room(0, 64);
    doca_cc_producer* producer = nullptr;
    doca_cc_consumer* consumer = nullptr;
    doca_ctx* producer_ctx = nullptr;
    doca_ctx* consumer_ctx = nullptr;

    explicit Fast(std::size_t bytes = 4096) : size(bytes) {
        doca_data data{};
        EXPECT_OK(doca_cc_producer_create(cc.at_client.connection, &producer));
        producer_ctx = doca_cc_producer_as_ctx(producer);
        data.ptr = &cc.at_client;
        EXPECT_OK(doca_ctx_set_user_data(producer_ctx, data));
        EXPECT_OK(doca_cc_producer_send_task_set_conf(producer, on_fast, on_fast, 2));
        EXPECT_OK(doca_pe_connect_ctx(cc.engine.pe, producer_ctx));
        EXPECT_OK(doca_cc_consumer_create(cc.at_server.connection, memory.mmap, &consumer));
        consumer_ctx = doca_cc_consumer_as_ctx(consumer);
        data.ptr = &cc.at_server;
        EXPECT_OK(doca_ctx_set_user_data(consumer_ctx, data));
        EXPECT_OK(doca_cc_consumer_post_recv_task_set_conf(consumer, on_posted, on_posted, 2));
        EXPECT_OK(doca_pe_connect_ctx(cc.engine.pe, consumer_ctx));
    }
    ~Fast() {
        EXPECT_OK(doca_cc_producer_destroy(producer));
        EXPECT_OK(doca_cc_consumer_destroy(consumer));
        EXPECT_OK(doca_ctx_stop(cc.client_ctx));
        EXPECT_OK(doca_ctx_stop(cc.server_ctx));
        give_back(buffer);
    }
    void start() {
        EXPECT_OK(doca_ctx_start(producer_ctx));
        EXPECT_EQ(doca_ctx_start(consumer_ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(consumer_ctx) == running; }, cc.engine));
    }
};

/// What every context of DOCA CC does, given one that is running and with nothing outstanding, and
/// how to allocate a task of its kind.
template <class Allocate> void check_stop(Engine& engine, doca_ctx* ctx, Allocate&& allocate) {
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_BAD_STATE);
    doca_task* const kept = allocate();
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS) << "a task is not freed";
    EXPECT_EQ(state_of(ctx), stopping);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_BAD_STATE);
    for (int i = 0; i < 100; ++i) { // whatever it was connected to is gone by then
        (void)doca_pe_progress(engine.pe);
    }
    EXPECT_EQ(state_of(ctx), stopping);
    // It is still taken, and another one still made, submitted, and ended with an error.
    doca_task* const late = allocate();
    ASSERT_NE(late, nullptr);
    EXPECT_OK(doca_task_submit(late));
    EXPECT_OK(doca_task_submit(kept));
    EXPECT_EQ(doca_task_submit(kept), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_task_get_status(kept), DOCA_ERROR_IN_PROGRESS);
    std::size_t count = 0;
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(ctx, &count));
    EXPECT_EQ(count, 2u);
    ASSERT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, engine));
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_BAD_STATE);
}

TEST(DocaCcStates, AStoppingClientTakesTasksAndFailsThem) {
    Cc cc;
    char text[] = "late";
    check_stop(cc.engine, cc.client_ctx, [&]() -> doca_task* {
        doca_cc_send_task* task = nullptr;
        EXPECT_OK(doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 4,
                                                      &task));
        return doca_cc_send_task_as_task(task);
    });
    EXPECT_EQ(cc.at_client.sends, std::vector<doca_error_t>(2, DOCA_ERROR_SHUTDOWN));
    EXPECT_THAT(cc.at_server.messages, ElementsAre());
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

TEST(DocaCcStates, AStoppingServerTakesTasksAndFailsThem) {
    Cc cc;
    char text[] = "late";
    check_stop(cc.engine, cc.server_ctx, [&]() -> doca_task* {
        doca_cc_send_task* task = nullptr;
        EXPECT_OK(doca_cc_server_send_task_alloc_init(cc.server, cc.at_server.connection, text, 4,
                                                      &task));
        return doca_cc_send_task_as_task(task);
    });
    EXPECT_EQ(cc.at_server.sends, std::vector<doca_error_t>(2, DOCA_ERROR_SHUTDOWN));
    EXPECT_EQ(cc.at_server.gone, 1);
    EXPECT_THAT(cc.at_client.messages, ElementsAre());
    ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) == idle; }, cc.engine));
}

TEST(DocaCcStates, AStoppingProducerTakesTasksAndFailsThem) {
    Fast fast;
    fast.start();
    check_stop(fast.cc.engine, fast.producer_ctx, [&]() -> doca_task* {
        doca_cc_producer_send_task* task = nullptr;
        EXPECT_OK(doca_cc_producer_send_task_alloc_init(fast.producer, fast.buffer, 1, &task));
        return doca_cc_producer_send_task_as_task(task);
    });
    EXPECT_EQ(fast.cc.at_client.fast, std::vector<doca_error_t>(2, DOCA_ERROR_SHUTDOWN));
    EXPECT_OK(doca_ctx_stop(fast.consumer_ctx)) << "nothing is outstanding";
}

TEST(DocaCcStates, AStoppingConsumerTakesTasksAndFailsThem) {
    Fast fast;
    fast.start();
    check_stop(fast.cc.engine, fast.consumer_ctx, [&]() -> doca_task* {
        doca_cc_consumer_post_recv_task* task = nullptr;
        EXPECT_OK(doca_cc_consumer_post_recv_task_alloc_init(fast.consumer, fast.buffer, &task));
        return doca_cc_consumer_post_recv_task_as_task(task);
    });
    EXPECT_EQ(fast.cc.at_server.fast, std::vector<doca_error_t>(2, DOCA_ERROR_SHUTDOWN));
    EXPECT_OK(doca_ctx_stop(fast.producer_ctx)) << "nothing is outstanding";
}

TEST(DocaCcStates, TasksSubmittedWhileStoppingEndInOrderAndProgressReturns) {
    constexpr std::size_t enough = 10; ///< submissions, for a progress that does not return
    Fast fast;
    struct Seen {
        std::vector<doca_cc_consumer_post_recv_task*> ended;
        std::size_t left = enough;
    } seen;
    doca_data data{};
    data.ptr = &seen;
    ASSERT_OK(doca_ctx_set_user_data(fast.consumer_ctx, data));
    const auto submit_again = [](doca_cc_consumer_post_recv_task* task, doca_data, doca_data user) {
        Seen& all = *static_cast<Seen*>(user.ptr);
        all.ended.push_back(task);
        doca_task* const base = doca_cc_consumer_post_recv_task_as_task(task);
        if (all.left != 0) {
            --all.left;
            EXPECT_OK(doca_task_submit(base));
        } else {
            doca_task_free(base);
        }
    };
    ASSERT_OK(
        doca_cc_consumer_post_recv_task_set_conf(fast.consumer, submit_again, submit_again, 2));
    fast.start();
    doca_cc_consumer_post_recv_task* first = nullptr;
    doca_cc_consumer_post_recv_task* second = nullptr;
    ASSERT_OK(doca_cc_consumer_post_recv_task_alloc_init(fast.consumer, fast.buffer, &first));
    ASSERT_OK(doca_cc_consumer_post_recv_task_alloc_init(fast.consumer, fast.buffer, &second));
    ASSERT_EQ(doca_ctx_stop(fast.consumer_ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_OK(doca_task_submit(doca_cc_consumer_post_recv_task_as_task(first)));
    EXPECT_OK(doca_task_submit(doca_cc_consumer_post_recv_task_as_task(second)));
    EXPECT_EQ(doca_pe_progress(fast.cc.engine.pe), 1);
    EXPECT_THAT(seen.ended, ElementsAre(first, second));
    ASSERT_TRUE(
        progress_until([&] { return state_of(fast.consumer_ctx) == idle; }, fast.cc.engine));
    EXPECT_EQ(seen.ended.size(), enough + 2);
    EXPECT_OK(doca_ctx_stop(fast.producer_ctx)) << "nothing is outstanding";
}

TEST(DocaCc, SeveralMessagesOfManyMegabytesAreUnderWayAtOnce) {
    const std::size_t mega = 1 << 20;
    const std::size_t half = 44 * mega; // what is sent is in front of where it is to be
    Fast fast(2 * half);
    fill_unevenly(fast.memory.bytes);
    fast.start();
    ASSERT_TRUE(
        progress_until([&] { return !fast.cc.at_client.consumers.empty(); }, fast.cc.engine));
    std::uint32_t most = 0;
    ASSERT_OK(doca_cc_producer_cap_get_max_buf_size(doca_dev_as_devinfo(fast.cc.lab.host), &most));
    const std::size_t sizes[] = {8 * mega, 32 * mega + 13, 1, mega + 1};
    ASSERT_LE(32 * mega + 13, most);
    std::vector<doca_buf*> buffers;
    std::vector<char> expected = fast.memory.bytes;
    std::size_t at = 1;
    for (const std::size_t size : sizes) {
        doca_buf* const from = fast.memory.data(at, size);
        doca_buf* const to = fast.memory.room(half + at + 1, size);
        buffers.insert(buffers.end(), {from, to});
        std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(at), size,
                    expected.begin() + static_cast<std::ptrdiff_t>(half + at + 1));
        at += size + 3;
        doca_cc_consumer_post_recv_task* post = nullptr;
        ASSERT_OK(doca_cc_consumer_post_recv_task_alloc_init(fast.consumer, to, &post));
        ASSERT_OK(doca_task_submit(doca_cc_consumer_post_recv_task_as_task(post)));
        doca_cc_producer_send_task* send = nullptr;
        ASSERT_OK(doca_cc_producer_send_task_alloc_init(fast.producer, from,
                                                        fast.cc.at_client.consumers[0], &send));
        ASSERT_OK(doca_task_submit(doca_cc_producer_send_task_as_task(send)));
    }
    ASSERT_TRUE(progress_until(
        [&] { return fast.cc.at_client.fast.size() == 4 && fast.cc.at_server.fast.size() == 4; },
        fast.cc.engine));
    EXPECT_THAT(fast.cc.at_client.fast, Each(DOCA_SUCCESS));
    EXPECT_THAT(fast.cc.at_server.fast, Each(DOCA_SUCCESS));
    EXPECT_TRUE(expected == fast.memory.bytes);
    for (doca_buf* const buffer : buffers) {
        give_back(buffer);
    }
    EXPECT_OK(doca_ctx_stop(fast.producer_ctx));
    EXPECT_OK(doca_ctx_stop(fast.consumer_ctx));
}

TEST(DocaCcStates, WhatIsStartingStopsAtOnce) {
    Fast fast;
    EXPECT_EQ(doca_ctx_start(fast.consumer_ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(state_of(fast.consumer_ctx), starting);
    EXPECT_OK(doca_ctx_stop(fast.consumer_ctx));
    EXPECT_EQ(state_of(fast.consumer_ctx), idle);
    fast.start(); // and may start again
    EXPECT_OK(doca_ctx_stop(fast.consumer_ctx));
    EXPECT_OK(doca_ctx_stop(fast.producer_ctx));
    Cc& cc = fast.cc;
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_EQ(doca_ctx_start(cc.client_ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_EQ(state_of(cc.client_ctx), idle);
    EXPECT_EQ(doca_ctx_start(cc.client_ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) == running; }, cc.engine));
}

TEST(DocaCcStates, ConfigurationIsFixedByStart) {
    Fast fast;
    fast.start();
    Cc& cc = fast.cc;
    EXPECT_EQ(doca_cc_server_set_max_msg_size(cc.server, 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_set_recv_queue_size(cc.server, 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_send_task_set_conf(cc.server, on_sent, on_sent, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_event_msg_recv_register(cc.server, on_message), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_event_connection_register(cc.server, on_connect, on_disconnect),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_event_consumer_register(cc.server, on_consumer, on_expired),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_server_destroy(cc.server), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_set_max_msg_size(cc.client, 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_set_recv_queue_size(cc.client, 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_send_task_set_conf(cc.client, on_sent, on_sent, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_event_msg_recv_register(cc.client, on_message), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_event_consumer_register(cc.client, on_consumer, on_expired),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_client_destroy(cc.client), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_producer_send_task_set_conf(fast.producer, on_fast, on_fast, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_producer_destroy(fast.producer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_consumer_post_recv_task_set_conf(fast.consumer, on_posted, on_posted, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_cc_consumer_destroy(fast.consumer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_stop(cc.server_ctx), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_ctx_stop(cc.client_ctx), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_cc_server_disconnect(cc.server, cc.at_server.connection), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_ctx_stop(fast.producer_ctx));
    EXPECT_OK(doca_ctx_stop(fast.consumer_ctx));
}

TEST(DocaCcStates, AStopInsideAMessagesCallbackIsTheLastCallback) {
    Cc cc;
    for (const bool server : {true, false}) {
        SCOPED_TRACE(server ? "the server" : "the client");
        End& end = server ? cc.at_server : cc.at_client;
        doca_ctx* const ctx = server ? cc.server_ctx : cc.client_ctx;
        if (!server) { // again, the other way round
            ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) == idle; }, cc.engine));
            cc.connect();
        }
        end.on_message = [&] {
            EXPECT_OK(doca_ctx_stop(ctx));
            EXPECT_EQ(state_of(ctx), idle);
        };
        char text[] = "stop";
        for (int i = 0; i < 3; ++i) {
            doca_cc_send_task* task = nullptr;
            ASSERT_OK(server ? doca_cc_client_send_task_alloc_init(
                                   cc.client, cc.at_client.connection, text, 4, &task)
                             : doca_cc_server_send_task_alloc_init(
                                   cc.server, cc.at_server.connection, text, 4, &task));
            ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
        }
        ASSERT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, cc.engine));
        EXPECT_EQ(end.messages.size(), 1u);
        End& other = server ? cc.at_client : cc.at_server;
        ASSERT_TRUE(progress_until([&] { return other.sends.size() == 3; }, cc.engine));
        EXPECT_EQ(end.messages.size(), 1u);
        end.on_message = nullptr;
    }
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

TEST(DocaCcStates, AStopInsideASendsCompletionIsTheLastCallback) {
    Cc cc;
    cc.at_server.on_sent = [&] {
        EXPECT_OK(doca_ctx_stop(cc.server_ctx));
        EXPECT_EQ(state_of(cc.server_ctx), idle);
        EXPECT_EQ(cc.at_server.gone, 0);
    };
    char text[] = "last";
    doca_cc_send_task* task = nullptr;
    ASSERT_OK(
        doca_cc_server_send_task_alloc_init(cc.server, cc.at_server.connection, text, 4, &task));
    ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    // The client leaves without having progressed: its leaving is what ends the send.
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    ASSERT_TRUE(progress_until([&] { return state_of(cc.server_ctx) == idle; }, cc.engine));
    for (int i = 0; i < 100; ++i) {
        (void)doca_pe_progress(cc.engine.pe);
    }
    EXPECT_EQ(cc.at_server.sends.size(), 1u);
    EXPECT_EQ(cc.at_server.gone, 0);
}

// ---- started again inside callbacks, where DOCA CC can be idle already --------------------------

/// A stop that is done, and a start after it, of the client or the server.
void stop_and_start(doca_ctx* ctx, doca_error_t started) {
    EXPECT_OK(doca_ctx_stop(ctx));
    EXPECT_EQ(state_of(ctx), idle);
    EXPECT_EQ(doca_ctx_start(ctx), started);
}

/// The two are connected, or connect again now, and what the client sends arrives.
void expect_works(Cc& cc) {
    if (state_of(cc.client_ctx) != running) {
        ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) != stopping; }, cc.engine));
        if (state_of(cc.client_ctx) == idle) {
            ASSERT_EQ(doca_ctx_start(cc.client_ctx), DOCA_ERROR_IN_PROGRESS);
        }
        ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) != starting; }, cc.engine));
        ASSERT_EQ(state_of(cc.client_ctx), running);
    }
    ASSERT_OK(doca_cc_client_get_connection(cc.client, &cc.at_client.connection));
    doca_data data{};
    data.ptr = &cc.at_client;
    ASSERT_OK(doca_cc_connection_set_user_data(cc.at_client.connection, data));
    const std::size_t before = cc.at_server.messages.size();
    char text[] = "works";
    doca_cc_send_task* task = nullptr;
    ASSERT_OK(
        doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 5, &task));
    ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    ASSERT_TRUE(
        progress_until([&] { return cc.at_server.messages.size() == before + 1; }, cc.engine));
    EXPECT_EQ(cc.at_server.messages.back(), "works");
    ASSERT_TRUE(progress_until(
        [&] {
            std::size_t inflight = 1;
            EXPECT_OK(doca_ctx_get_num_inflight_tasks(cc.client_ctx, &inflight));
            return inflight == 0;
        },
        cc.engine));
}

TEST(DocaCcStates, AClientStartsInsideTheCallbackOfASendThatItLost) {
    Cc cc;
    cc.at_client.on_sent = [&] {
        cc.at_client.on_sent = nullptr;
        stop_and_start(cc.client_ctx, DOCA_ERROR_IN_PROGRESS);
    };
    char text[] = "lost";
    doca_cc_send_task* task = nullptr;
    ASSERT_OK(
        doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 4, &task));
    ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    ASSERT_OK(doca_cc_server_disconnect(cc.server, cc.at_server.connection));
    ASSERT_TRUE(progress_until([&] { return cc.at_client.on_sent == nullptr; }, cc.engine));
    EXPECT_EQ(state_of(cc.client_ctx), starting) << "the end of the one before is not its own";
    ASSERT_TRUE(progress_until([&] { return state_of(cc.client_ctx) == running; }, cc.engine));
    expect_works(cc);
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

TEST(DocaCcStates, AClientStartsInsideAMessagesCallback) {
    Cc cc;
    cc.at_client.on_message = [&] {
        cc.at_client.on_message = nullptr;
        stop_and_start(cc.client_ctx, DOCA_ERROR_IN_PROGRESS);
    };
    char text[] = "again";
    for (int i = 0; i < 2; ++i) { // the second one is for the connection that is over
        doca_cc_send_task* task = nullptr;
        ASSERT_OK(doca_cc_server_send_task_alloc_init(cc.server, cc.at_server.connection, text, 5,
                                                      &task));
        ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
    }
    ASSERT_TRUE(progress_until(
        [&] { return cc.at_server.gone == 1 && state_of(cc.client_ctx) == running; }, cc.engine));
    EXPECT_THAT(cc.at_client.messages, ElementsAre("again"));
    expect_works(cc);
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

TEST(DocaCcStates, AServerStartsInsideItsCallbacks) {
    Cc cc;
    bool done = false;
    const auto again = [&] {
        cc.at_server.on_message = cc.at_server.on_connected = cc.at_server.on_gone = nullptr;
        stop_and_start(cc.server_ctx, DOCA_SUCCESS);
        done = true;
    };
    const auto wait = [&] {
        ASSERT_TRUE(
            progress_until([&] { return done && state_of(cc.client_ctx) == idle; }, cc.engine));
        done = false;
        expect_works(cc);
    };
    {
        SCOPED_TRACE("of a message");
        cc.at_server.on_message = again;
        char text[] = "again";
        doca_cc_send_task* task = nullptr;
        ASSERT_OK(doca_cc_client_send_task_alloc_init(cc.client, cc.at_client.connection, text, 5,
                                                      &task));
        ASSERT_OK(doca_task_submit(doca_cc_send_task_as_task(task)));
        wait();
    }
    {
        SCOPED_TRACE("of a client that goes");
        EXPECT_OK(doca_ctx_stop(cc.client_ctx));
        cc.at_server.on_gone = again;
        wait();
    }
    {
        SCOPED_TRACE("of a client that comes");
        EXPECT_OK(doca_ctx_stop(cc.client_ctx));
        cc.at_server.on_connected = again;
        ASSERT_EQ(doca_ctx_start(cc.client_ctx), DOCA_ERROR_IN_PROGRESS);
        wait();
    }
    EXPECT_EQ(cc.at_server.gone, 4) << "each end is told once, whatever the server of before sees";
    EXPECT_OK(doca_ctx_stop(cc.client_ctx));
    EXPECT_OK(doca_ctx_stop(cc.server_ctx));
}

TEST(DocaCcStates, ATaskAllocatedInsideAStopKeepsItFromIdle) {
    Cc cc;
    doca_cc_connection* const first = cc.at_server.connection;
    doca_cc_client* second = nullptr;
    ASSERT_OK(doca_cc_client_create(cc.lab.host, "cc", &second));
    doca_ctx* const second_ctx = doca_cc_client_as_ctx(second);
    ASSERT_OK(doca_cc_client_send_task_set_conf(second, on_sent, on_sent, 1));
    ASSERT_OK(doca_cc_client_event_msg_recv_register(second, on_message));
    ASSERT_OK(doca_pe_connect_ctx(cc.engine.pe, second_ctx));
    ASSERT_EQ(doca_ctx_start(second_ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until(
        [&] { return state_of(second_ctx) == running && cc.at_server.connection != first; },
        cc.engine));
    // Told of one client's end, it takes a task for the other, which is still there.
    doca_cc_connection* const other = cc.at_server.connection;
    doca_cc_send_task* kept = nullptr;
    char text[] = "x";
    cc.at_server.on_gone = [&] {
        for (doca_cc_connection* const to : {first, other}) {
            if (kept == nullptr) {
                (void)doca_cc_server_send_task_alloc_init(cc.server, to, text, 1, &kept);
            }
        }
    };
    EXPECT_EQ(doca_ctx_stop(cc.server_ctx), DOCA_ERROR_IN_PROGRESS);
    cc.at_server.on_gone = nullptr;
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(cc.at_server.gone, 2);
    for (int i = 0; i < 100; ++i) {
        (void)doca_pe_progress(cc.engine.pe);
    }
    EXPECT_EQ(state_of(cc.server_ctx), stopping);
    doca_task_free(doca_cc_send_task_as_task(kept));
    ASSERT_TRUE(progress_until(
        [&] {
            return state_of(cc.server_ctx) == idle && state_of(cc.client_ctx) == idle &&
                   state_of(second_ctx) == idle;
        },
        cc.engine));
    EXPECT_OK(doca_cc_client_destroy(second));
    cc.connect();
    EXPECT_OK(doca_ctx_stop(cc.client_ctx)) << "nothing is outstanding";
    EXPECT_OK(doca_ctx_stop(cc.server_ctx)) << "nothing is outstanding";
}

TEST(DocaCcStates, TasksOfBeforeAreRefused) {
    Fast fast;
    fast.start();
    doca_cc_consumer_post_recv_task* post = nullptr;
    ASSERT_OK(doca_cc_consumer_post_recv_task_alloc_init(fast.consumer, fast.buffer, &post));
    doca_cc_producer_send_task* send = nullptr;
    ASSERT_OK(doca_cc_producer_send_task_alloc_init(fast.producer, fast.buffer, 1, &send));
    const std::array<std::pair<doca_ctx*, doca_task*>, 2> stale = {
        {{fast.consumer_ctx, doca_cc_consumer_post_recv_task_as_task(post)},
         {fast.producer_ctx, doca_cc_producer_send_task_as_task(send)}}};
    for (const auto& [ctx, task] : stale) {
        doca_task_free(task);
        EXPECT_OK(doca_ctx_stop(ctx));
        EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE);
    }
    ASSERT_OK(doca_cc_consumer_post_recv_task_set_conf(fast.consumer, on_posted, on_posted, 6));
    ASSERT_OK(doca_cc_producer_send_task_set_conf(fast.producer, on_fast, on_fast, 0));
    fast.start();
    for (const auto& [ctx, task] : stale) {
        EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE);
        doca_task_free(task);
        EXPECT_OK(doca_ctx_stop(ctx)) << "nothing is outstanding";
    }
}

} // namespace
