// Contexts that are started again: inside their own callbacks, with other settings, and while the
// program still holds tasks of before.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::Each;
using ::testing::ElementsAre;

void connect_again(TwoSides& sides) {
    sides.server.connected.clear();
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until(
        [&] { return state_of(sides.client.ctx) == running && !sides.server.connected.empty(); }));
    sides.at_server = sides.server.connected[0].first;
}

// ---- inside callbacks ---------------------------------------------------------------------------

TEST(DocaRestart, AServerStartsInsideItsStateCallback) {
    int starts = 0;
    TwoSides sides;
    sides.server.on_state = [&](doca_ctx_states state) {
        if (state == stopping) {
            EXPECT_EQ(doca_ctx_start(sides.server.ctx), DOCA_ERROR_BAD_STATE);
            EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
        } else if (state == idle && ++starts <= 3) {
            EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_BAD_STATE);
            EXPECT_OK(doca_ctx_start(sides.server.ctx));
            EXPECT_EQ(doca_ctx_start(sides.server.ctx), DOCA_ERROR_BAD_STATE);
        } else if (state == running && starts < 3) {
            EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
        }
    };
    EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] {
        return starts == 3 && state_of(sides.server.ctx) == running &&
               state_of(sides.client.ctx) == idle;
    }));
    connect_again(sides);
    ASSERT_OK(sides.client.send("to the fourth"));
    ASSERT_TRUE(sides.until([&] { return !sides.server.messages.empty(); }));
    EXPECT_THAT(sides.server.messages, ElementsAre("to the fourth"));
}

TEST(DocaRestart, AServerStopsAndStartsInsideItsConnectionCallbacks) {
    bool stop = false;
    TwoSides sides;
    const auto stop_and_start = [&](doca_comch_connection*) {
        if (std::exchange(stop, false)) {
            EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
            EXPECT_EQ(doca_ctx_start(sides.server.ctx), DOCA_ERROR_BAD_STATE) << "not yet";
        }
    };
    sides.server.on_connected = stop_and_start;
    sides.server.on_disconnected = stop_and_start;
    sides.server.on_state = [&](doca_ctx_states state) {
        if (state == idle) {
            EXPECT_OK(doca_ctx_start(sides.server.ctx));
        }
    };
    const auto lost_and_served_again = [&] {
        ASSERT_TRUE(sides.until([&] {
            return state_of(sides.client.ctx) == idle && state_of(sides.server.ctx) == running;
        }));
        const std::size_t before = sides.server.messages.size();
        connect_again(sides);
        ASSERT_OK(sides.client.send("served"));
        ASSERT_TRUE(sides.until([&] { return sides.server.messages.size() == before + 1; }));
    };
    // The client's going.
    stop = true;
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return !stop; }));
    lost_and_served_again();
    // And its coming.
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    stop = true;
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return !stop; }));
    lost_and_served_again();
    sides.server.on_state = nullptr;
}

TEST(DocaRestart, AClientStopsInEachStateCallbackAndStartsInTheLast) {
    for (const doca_ctx_states where : {starting, running}) {
        SCOPED_TRACE(where);
        TwoSides sides;
        bool stopped = false;
        bool started = false;
        sides.client.on_state = [&](doca_ctx_states state) {
            if (state == where && !stopped) {
                stopped = true;
                EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
                EXPECT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_BAD_STATE);
            } else if (state == idle && stopped && !started) {
                started = true;
                EXPECT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
                EXPECT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_BAD_STATE);
            }
        };
        EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
        ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(sides.until([&] { return started && state_of(sides.client.ctx) == running; }));
        ASSERT_OK(sides.client.send("again"));
        ASSERT_TRUE(sides.until([&] { return !sides.server.messages.empty(); }));
        sides.client.on_state = nullptr;
    }
}

TEST(DocaRestart, ProducersAndConsumersStartInsideTheirStateCallbacks) {
    FastPath path;
    static int starts = 0;
    starts = 0;
    for (doca_ctx* const ctx : {path.producer.ctx, path.consumer.ctx}) {
        ASSERT_OK(doca_ctx_stop(ctx));
        ASSERT_EQ(state_of(ctx), idle);
        ASSERT_OK(doca_ctx_set_state_changed_cb(
            ctx, [](doca_data, doca_ctx* self, doca_ctx_states, doca_ctx_states to) {
                if (to == idle && starts < 2) {
                    ++starts;
                    const doca_error_t started = doca_ctx_start(self);
                    EXPECT_TRUE(started == DOCA_SUCCESS || started == DOCA_ERROR_IN_PROGRESS);
                }
            }));
        if (const doca_error_t started = doca_ctx_start(ctx); started != DOCA_SUCCESS) {
            ASSERT_EQ(started, DOCA_ERROR_IN_PROGRESS);
            ASSERT_TRUE(path.sides.until([&] { return state_of(ctx) == running; }));
        }
    }
    for (doca_ctx* const ctx : {path.producer.ctx, path.consumer.ctx}) {
        EXPECT_OK(doca_ctx_stop(ctx));
    }
    ASSERT_TRUE(path.sides.until([&] {
        return starts == 2 && state_of(path.producer.ctx) == running &&
               state_of(path.consumer.ctx) == running;
    }));
    doca_buf* const to = path.there.room(0, 64);
    doca_buf* const from = path.here.data(0, 4);
    ASSERT_TRUE(
        path.sides.until([&] { return path.sides.client.consumers.back() == path.consumer.id(); }));
    ASSERT_OK(path.consumer.post(to));
    ASSERT_OK(path.send(from));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_EQ(data_of(to), "abcd");
    give_back(from);
    give_back(to);
}

// ---- other settings -----------------------------------------------------------------------------

TEST(DocaRestart, OtherSettingsOfServersAndClientsHold) {
    TwoSides sides(1);
    std::uint32_t value = 0;
    struct Settings {
        std::uint32_t size;
        std::uint32_t tasks;
        std::uint32_t queue;
    };
    for (const Settings& now :
         {Settings{64, 1, 16}, Settings{4000, 5, 1024}, Settings{100, 2, 32}}) {
        SCOPED_TRACE(now.size);
        sides.stop();
        doca_comch_server* const server = sides.server.server;
        doca_comch_client* const client = sides.client.client;
        ASSERT_OK(doca_comch_server_set_max_msg_size(server, now.size));
        ASSERT_OK(doca_comch_client_set_max_msg_size(client, now.size));
        ASSERT_OK(doca_comch_server_set_recv_queue_size(server, now.queue));
        ASSERT_OK(
            doca_comch_server_task_send_set_conf(server, Party::sent, Party::sent, now.tasks));
        ASSERT_OK(
            doca_comch_client_task_send_set_conf(client, Party::sent, Party::sent, now.tasks));
        ASSERT_OK(doca_ctx_start(sides.server.ctx));
        connect_again(sides);
        EXPECT_OK(doca_comch_server_get_max_msg_size(server, &value));
        EXPECT_EQ(value, now.size);
        EXPECT_OK(doca_comch_server_get_recv_queue_size(server, &value));
        EXPECT_EQ(value, now.queue);
        sides.client.messages.clear();
        sides.server.messages.clear();
        sides.client.sends.clear();
        const std::string longest(now.size, 'l');
        EXPECT_EQ(sides.client.send(longest + "!"), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(sides.server.send(sides.at_server, longest + "!"), DOCA_ERROR_INVALID_VALUE);
        for (std::uint32_t i = 0; i < now.tasks; ++i) {
            EXPECT_OK(sides.client.send(longest));
            EXPECT_OK(sides.server.send(sides.at_server, longest));
        }
        EXPECT_EQ(sides.client.send(longest), DOCA_ERROR_NO_MEMORY) << "all tasks are in use";
        EXPECT_EQ(sides.server.send(sides.at_server, longest), DOCA_ERROR_NO_MEMORY);
        ASSERT_TRUE(sides.until([&] {
            return sides.client.messages.size() == now.tasks &&
                   sides.server.messages.size() == now.tasks &&
                   sides.client.sends.size() == now.tasks;
        }));
        EXPECT_THAT(sides.client.messages, Each(longest));
        EXPECT_THAT(sides.server.messages, Each(longest));
        EXPECT_THAT(sides.client.sends, Each(DOCA_SUCCESS));
    }
}

TEST(DocaRestart, OtherNumbersOfTasksOfProducersAndConsumersHold) {
    FastPath path;
    TwoSides& sides = path.sides;
    doca_buf* const from = path.here.data(0, 4);
    for (const std::uint32_t tasks : {2, 9, 1}) {
        SCOPED_TRACE(tasks);
        path.stop();
        ASSERT_OK(doca_comch_producer_task_send_set_conf(
            path.producer.producer, ProducerParty::sent, ProducerParty::sent, tasks));
        ASSERT_OK(doca_comch_consumer_task_post_recv_set_conf(
            path.consumer.consumer, ConsumerParty::received, ConsumerParty::received, tasks));
        ASSERT_OK(doca_ctx_start(path.producer.ctx));
        ASSERT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(sides.until([&] {
            return state_of(path.consumer.ctx) == running &&
                   sides.client.consumers.back() == path.consumer.id();
        }));
        path.producer.done.clear();
        path.consumer.done.clear();
        std::vector<doca_buf*> places;
        for (std::uint32_t i = 0; i < tasks; ++i) {
            places.push_back(path.there.room(i * 64, 64));
            ASSERT_OK(path.consumer.post(places.back()));
        }
        EXPECT_EQ(path.consumer.post(nullptr), DOCA_ERROR_NO_MEMORY);
        // Without progress all are in use until the last was taken.
        for (std::uint32_t i = 0; i < tasks; ++i) {
            ASSERT_OK(path.producer.send(path.consumer.id(), from));
        }
        EXPECT_EQ(path.producer.send(path.consumer.id(), from), DOCA_ERROR_NO_MEMORY);
        ASSERT_TRUE(sides.until([&] {
            return path.producer.done.size() == tasks && path.consumer.done.size() == tasks;
        }));
        EXPECT_THAT(path.producer.done, Each(DOCA_SUCCESS));
        EXPECT_THAT(path.consumer.done, Each(DOCA_SUCCESS));
        for (doca_buf* const place : places) {
            EXPECT_EQ(data_of(place), "abcd");
            give_back(place);
        }
    }
    give_back(from);
}

// ---- tasks of before ----------------------------------------------------------------------------

/// Freed before its context was stopped: it is nobody's, and is not there twice.
void expect_stale(doca_ctx* ctx, doca_task* task) {
    EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE);
    doca_task_free(task);
    EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_task_get_ctx(task), ctx);
    std::size_t inflight = 1;
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(ctx, &inflight));
    EXPECT_EQ(inflight, 0u);
}

TEST(DocaRestart, SendTasksOfBeforeAreRefused) {
    TwoSides sides(3);
    doca_comch_task_send* old = nullptr;
    ASSERT_OK(sides.client.send("first life", &old)); // its callback frees it
    ASSERT_TRUE(sides.until([&] { return !sides.client.sends.empty(); }));
    doca_task* const stale = doca_comch_task_send_as_task(old);
    for (const std::uint32_t tasks : {1, 3, 40, 2}) {
        SCOPED_TRACE(tasks);
        sides.stop();
        expect_stale(sides.client.ctx, stale);
        ASSERT_OK(doca_comch_client_task_send_set_conf(sides.client.client, Party::sent,
                                                       Party::sent, tasks));
        ASSERT_OK(doca_ctx_start(sides.server.ctx));
        connect_again(sides);
        expect_stale(sides.client.ctx, stale);
        std::vector<doca_comch_task_send*> all(tasks + 1);
        for (std::uint32_t i = 0; i <= tasks; ++i) {
            EXPECT_EQ(doca_comch_client_task_send_alloc_init(
                          sides.client.client, sides.client.connection(), "x", 1, &all[i]),
                      i < tasks ? DOCA_SUCCESS : DOCA_ERROR_NO_MEMORY);
        }
        for (doca_comch_task_send* const one : all) {
            doca_task_free(one == nullptr ? nullptr : doca_comch_task_send_as_task(one));
        }
    }
    EXPECT_THAT(sides.server.messages, ElementsAre("first life"));
}

TEST(DocaRestart, FastPathTasksOfBeforeAreRefused) {
    FastPath path;
    std::uint8_t immediate[] = {'i'};
    doca_comch_producer_task_send* send = nullptr;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(path.producer.producer, nullptr, immediate,
                                                       1, path.consumer.id(), &send));
    doca_comch_consumer_task_post_recv* post = nullptr;
    ASSERT_OK(
        doca_comch_consumer_task_post_recv_alloc_init(path.consumer.consumer, nullptr, &post));
    doca_task* const sends = doca_comch_producer_task_send_as_task(send);
    doca_task* const posts = doca_comch_consumer_task_post_recv_as_task(post);
    doca_task_free(sends);
    doca_task_free(posts);
    for (const std::uint32_t tasks : {1, 100, 16}) {
        path.stop();
        expect_stale(path.producer.ctx, sends);
        expect_stale(path.consumer.ctx, posts);
        ASSERT_OK(doca_comch_producer_task_send_set_conf(
            path.producer.producer, ProducerParty::sent, ProducerParty::sent, tasks));
        ASSERT_OK(doca_comch_consumer_task_post_recv_set_conf(
            path.consumer.consumer, ConsumerParty::received, ConsumerParty::received, tasks));
        ASSERT_OK(doca_ctx_start(path.producer.ctx));
        ASSERT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(path.sides.until([&] { return state_of(path.consumer.ctx) == running; }));
        expect_stale(path.producer.ctx, sends);
        expect_stale(path.consumer.ctx, posts);
        for (std::uint32_t i = 0; i < tasks; ++i) {
            ASSERT_OK(path.consumer.post(nullptr));
        }
        EXPECT_EQ(path.consumer.post(nullptr), DOCA_ERROR_NO_MEMORY);
    }
}

} // namespace
