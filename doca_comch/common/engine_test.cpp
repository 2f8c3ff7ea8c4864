// Progress engines, contexts and tasks: what is the same for all kinds, and their misuse.
#include <doca_dma.h>
#include <doca_dpa.h>
#include <poll.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

TEST(DocaEngine, OneEngineForAContextAndOneAtATime) {
    Lab lab;
    Engine engine;
    Engine other;
    ServerParty server(lab, engine, "engine");
    EXPECT_EQ(doca_pe_connect_ctx(other.pe, server.ctx), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_pe_destroy(engine.pe), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_pe_progress(engine.pe), 0);
}

TEST(DocaEngine, AContextWithoutAnEngineDoesNotStart) {
    Lab lab;
    doca_comch_client* client = nullptr;
    ASSERT_OK(doca_comch_client_create(lab.host, "engine", &client));
    EXPECT_EQ(doca_ctx_start(doca_comch_client_as_ctx(client)), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_ctx_stop(doca_comch_client_as_ctx(client)), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_comch_client_destroy(client));
}

TEST(DocaEngine, TasksUnderWayAreCounted) {
    TwoSides pair;
    std::size_t count = 1;
    EXPECT_OK(doca_pe_get_num_inflight_tasks(pair.client_engine.pe, &count));
    EXPECT_EQ(count, 0u);
    EXPECT_OK(pair.client.send("one"));
    EXPECT_OK(pair.client.send("two"));
    EXPECT_OK(doca_pe_get_num_inflight_tasks(pair.client_engine.pe, &count));
    EXPECT_EQ(count, 2u);
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(pair.client.ctx, &count));
    EXPECT_EQ(count, 2u);
    EXPECT_TRUE(pair.until([&] { return pair.client.sends.size() == 2; }));
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(pair.client.ctx, &count));
    EXPECT_EQ(count, 0u);
}

TEST(DocaEngine, ATaskIsSubmittedOnceAtATime) {
    TwoSides pair;
    doca_comch_task_send* task = nullptr;
    ASSERT_OK(pair.client.send("once", &task));
    doca_task* const base = doca_comch_task_send_as_task(task);
    EXPECT_EQ(doca_task_get_status(base), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_task_get_ctx(base), pair.client.ctx);
    // Freed by its callback; freeing it again, and submitting what is free, does no harm.
    EXPECT_TRUE(pair.until([&] { return pair.client.sends.size() == 1; }));
    doca_task_free(base);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(pair.client.send("twice", &task));
    EXPECT_TRUE(pair.until([&] { return pair.server.messages.size() == 2; }));
    EXPECT_EQ(doca_task_submit_ex(base, 1u << 9), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaEngine, TheHandleIsReadableWhenThereIsSomethingToDo) {
    TwoSides pair;
    doca_notification_handle_t handle = -1;
    ASSERT_OK(doca_pe_get_notification_handle(pair.server_engine.pe, &handle));
    while (doca_pe_progress(pair.server_engine.pe) != 0) {
    }
    EXPECT_OK(doca_pe_request_notification(pair.server_engine.pe));
    EXPECT_OK(pair.client.send("wake"));
    pollfd fd{.fd = handle, .events = POLLIN, .revents = 0};
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    EXPECT_EQ(poll(&fd, 1, static_cast<int>(milliseconds)), 1);
    EXPECT_OK(doca_pe_clear_notification(pair.server_engine.pe, handle));
    EXPECT_TRUE(pair.until([&] { return pair.server.messages.size() == 1; }));
    // Programs need not know the handle.
    EXPECT_OK(doca_pe_clear_notification(pair.server_engine.pe, 0));
    EXPECT_EQ(doca_pe_clear_notification(nullptr, handle), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaEngine, WhatIsBegunAfterARequestForNotificationEndsTheSleep) {
    TwoSides pair;
    const Engine& engine = pair.client_engine;
    engine.fall_asleep();
    EXPECT_OK(pair.client.send("into the sleep"));
    EXPECT_TRUE(engine.readable()) << "the send is complete with the next progress";
    EXPECT_TRUE(pair.until([&] { return pair.client.sends.size() == 1; }));
    engine.fall_asleep();
    EXPECT_EQ(doca_ctx_stop(pair.client.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(engine.readable()) << "the context is idle with the next progress";
}

TEST(DocaEngine, TheLastTaskOfAStoppingContextEndsTheSleepWhenItIsFreed) {
    TwoSides pair;
    const std::string text = "kept";
    doca_comch_task_send* task = nullptr;
    ASSERT_OK(doca_comch_client_task_send_alloc_init(
        pair.client.client, pair.client.connection(), text.data(),
        static_cast<std::uint32_t>(text.size()), &task));
    ASSERT_EQ(doca_ctx_stop(pair.client.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(pair.until([&] { return pair.server.disconnected.size() == 1; }));
    pair.client_engine.fall_asleep();
    EXPECT_EQ(state_of(pair.client.ctx), stopping) << "the program has a task";
    doca_task_free(doca_comch_task_send_as_task(task));
    EXPECT_TRUE(pair.client_engine.readable());
    while (doca_pe_progress(pair.client_engine.pe) != 0) {
    }
    EXPECT_EQ(state_of(pair.client.ctx), idle);
}

TEST(DocaEngine, AnEngineCannotBeProgressedOrDestroyedInsideItsCallbacks) {
    TwoSides pair;
    std::uint8_t progressed = 1;
    doca_error_t destroyed = DOCA_SUCCESS;
    pair.server.on_message = [&](doca_comch_connection*, const std::string&) {
        progressed = doca_pe_progress(pair.server_engine.pe);
        destroyed = doca_pe_destroy(pair.server_engine.pe);
    };
    EXPECT_OK(pair.client.send("inside"));
    EXPECT_TRUE(pair.until([&] { return pair.server.messages.size() == 1; }));
    EXPECT_EQ(progressed, 0);
    EXPECT_EQ(destroyed, DOCA_ERROR_IN_USE);
}

TEST(DocaEngine, SettingsOfARunningContextStay) {
    TwoSides pair;
    EXPECT_EQ(doca_ctx_set_state_changed_cb(
                  pair.client.ctx, [](doca_data, doca_ctx*, doca_ctx_states, doca_ctx_states) {}),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_start(pair.client.ctx), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_client_destroy(pair.client.client), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_set_completion_vector(pair.client.ctx, 0), DOCA_ERROR_BAD_STATE);
    std::uint32_t vectors = 0;
    EXPECT_OK(
        doca_ctx_cap_get_num_completion_vectors(doca_dev_as_devinfo(pair.lab.host), &vectors));
    EXPECT_EQ(vectors, 1u);
}

TEST(DocaEngine, NullsAreRefused) {
    EXPECT_EQ(doca_pe_create(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_pe_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_pe_progress(nullptr), 0);
    EXPECT_EQ(doca_pe_connect_ctx(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_pe_get_notification_handle(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_pe_request_notification(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_pe_get_num_inflight_tasks(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_stop(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_get_state(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_set_user_data(nullptr, doca_data{}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_set_datapath_on_dpa(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_task_submit(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_task_get_status(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_task_get_ctx(nullptr), nullptr);
    doca_task_free(nullptr);
}

} // namespace
