// Servers, clients, connections and control messages, through the C API.
#include <csignal>
#include <utility>

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/link/fake/network_state.hpp"
#include "doca_comch/comch/test_support.hpp"
#include "doca_comch/common/device.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(DocaControl, AMessageEachWay) {
    TwoSides sides;
    ASSERT_OK(sides.client.send("hello from the host"));
    ASSERT_TRUE(sides.until([&] { return !sides.client.sends.empty(); }));
    EXPECT_THAT(sides.server.messages, ElementsAre("hello from the host"));
    EXPECT_THAT(sides.client.sends, ElementsAre(DOCA_SUCCESS));
    ASSERT_OK(sides.server.send(sides.at_server, "hello from the DPU"));
    ASSERT_TRUE(sides.until([&] { return !sides.server.sends.empty(); }));
    EXPECT_THAT(sides.client.messages, ElementsAre("hello from the DPU"));
}

TEST(DocaControl, AServerWhoseDeviceIsGoneStopsAndEndsIdle) {
    Lab lab;
    comch::link::fake::Network network(lab.dpu->info.device.domain());
    Engine server_engine;
    Engine client_engine;
    ServerParty server(lab, server_engine, "lost");
    ClientParty client(lab, client_engine, "lost");
    const auto until = [&](auto&& condition) {
        return progress_until(condition, server_engine, client_engine);
    };
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(
        until([&] { return !server.connected.empty() && state_of(client.ctx) == running; }));
    ASSERT_OK(server.send(server.connected[0].first, "not to arrive"));
    network.lose_device(comch::link::fake::detail::address_of(1)); // the server's port is the first
    ASSERT_TRUE(
        until([&] { return state_of(server.ctx) == idle && state_of(client.ctx) == idle; }));
    EXPECT_THAT(server.steps,
                ElementsAre(Pair(idle, running), Pair(running, stopping), Pair(stopping, idle)));
    EXPECT_THAT(server.disconnected, ElementsAre(Pair(server.connected[0].first, false)));
    ASSERT_EQ(server.sends.size(), 1u);
    EXPECT_NE(server.sends[0], DOCA_SUCCESS) << "its task is flushed with an error";
    // And while it is stopping.
    ASSERT_OK(doca_ctx_start(server.ctx));
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    network.lose_device(comch::link::fake::detail::address_of(3));
    ASSERT_TRUE(until([&] { return state_of(server.ctx) == idle; }));
}

TEST(DocaControl, StatesAreAsTabulated) {
    TwoSides sides;
    EXPECT_THAT(sides.server.steps, ElementsAre(Pair(idle, running)));
    EXPECT_THAT(sides.client.steps, ElementsAre(Pair(idle, starting), Pair(starting, running)));
    EXPECT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS); // while it lasts
    EXPECT_EQ(doca_comch_client_destroy(sides.client.client), DOCA_ERROR_BAD_STATE);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_BAD_STATE);
    ASSERT_TRUE(sides.until([&] { return !sides.server.disconnected.empty(); }));
    EXPECT_TRUE(sides.server.disconnected[0].second); // in an orderly way
    sides.stop();
    EXPECT_THAT(sides.server.steps,
                ElementsAre(Pair(idle, running), Pair(running, stopping), Pair(stopping, idle)));
    EXPECT_THAT(sides.client.steps, ElementsAre(Pair(idle, starting), Pair(starting, running),
                                                Pair(running, stopping), Pair(stopping, idle)));
}

TEST(DocaControl, ContextsStartAgain) {
    TwoSides sides;
    sides.stop();
    sides.server.connected.clear();
    ASSERT_OK(doca_ctx_start(sides.server.ctx));
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
    ASSERT_OK(sides.client.send("again"));
    ASSERT_TRUE(sides.until([&] { return !sides.server.messages.empty(); }));
}

TEST(DocaControl, ConnectingToNobodyEndsIdle) {
    Lab lab;
    Engine engine;
    ClientParty client(lab, engine, "nobody");
    EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    auto* connection = reinterpret_cast<doca_comch_connection*>(&client);
    EXPECT_EQ(doca_comch_client_get_connection(client.client, &connection), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(connection, nullptr);
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == idle; }, engine));
    EXPECT_THAT(client.steps, ElementsAre(Pair(idle, starting), Pair(starting, idle)));
}

TEST(DocaControl, StartNeedsEverythingMandatory) {
    Lab lab;
    Engine engine;
    doca_comch_client* client = nullptr;
    ASSERT_OK(doca_comch_client_create(lab.host, "x", &client));
    doca_ctx* const ctx = doca_comch_client_as_ctx(client);
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_NOT_CONNECTED); // to an engine
    ASSERT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    EXPECT_EQ(doca_pe_connect_ctx(engine.pe, ctx), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_client_task_send_set_conf(client, Party::sent, Party::sent, 1));
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_client_event_msg_recv_register(client, Party::message));
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_pe_destroy(engine.pe), DOCA_ERROR_IN_USE);
    ASSERT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, engine));
    EXPECT_OK(doca_comch_client_destroy(client));

    doca_comch_server* server = nullptr;
    ASSERT_OK(doca_comch_server_create(lab.dpu, lab.representor, "x", &server));
    ASSERT_OK(doca_pe_connect_ctx(engine.pe, doca_comch_server_as_ctx(server)));
    ASSERT_OK(doca_comch_server_task_send_set_conf(server, Party::sent, Party::sent, 1));
    ASSERT_OK(doca_comch_server_event_msg_recv_register(server, Party::message));
    EXPECT_EQ(doca_ctx_start(doca_comch_server_as_ctx(server)), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_server_destroy(server));
}

TEST(DocaControl, AServersSettingsAreCheckedAndFixedByStart) {
    TwoSides sides;
    doca_comch_server* const server = sides.server.server;
    EXPECT_EQ(doca_comch_server_set_max_msg_size(server, 100), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_server_set_recv_queue_size(server, 100), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_server_task_send_set_conf(server, Party::sent, Party::sent, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_server_event_msg_recv_register(server, Party::message),
              DOCA_ERROR_BAD_STATE);
    doca_dev* device = nullptr;
    EXPECT_OK(doca_comch_server_get_device(server, &device));
    EXPECT_EQ(device, sides.lab.dpu);
    doca_dev_rep* representor = nullptr;
    EXPECT_OK(doca_comch_server_get_device_rep(server, &representor));
    EXPECT_EQ(representor, sides.lab.representor);
    EXPECT_OK(doca_comch_client_get_device(sides.client.client, &device));
    EXPECT_EQ(device, sides.lab.host);
    sides.stop();
    doca_devinfo* const info = doca_dev_as_devinfo(sides.lab.dpu);
    std::uint32_t most = 0;
    std::uint32_t size = 0;
    ASSERT_OK(doca_comch_cap_get_max_msg_size(info, &most));
    EXPECT_EQ(doca_comch_server_set_max_msg_size(server, most + 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_server_set_max_msg_size(server, 64));
    EXPECT_OK(doca_comch_server_get_max_msg_size(server, &size));
    EXPECT_EQ(size, 64u);
    ASSERT_OK(doca_comch_cap_get_max_recv_queue_size(info, &most));
    EXPECT_EQ(doca_comch_server_set_recv_queue_size(server, most + 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_server_set_recv_queue_size(server, most));
    EXPECT_OK(doca_comch_server_get_recv_queue_size(server, &size));
    EXPECT_EQ(size, most);
    ASSERT_OK(doca_comch_cap_get_max_send_tasks(info, &most));
    EXPECT_EQ(doca_comch_server_task_send_set_conf(server, Party::sent, Party::sent, most + 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_server_task_send_set_conf(server, Party::sent, Party::sent, most));
}

TEST(DocaControl, SettingsAreCheckedAndFixedByStart) {
    TwoSides sides;
    doca_comch_client* const client = sides.client.client;
    EXPECT_EQ(doca_comch_client_set_max_msg_size(client, 100), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_client_set_recv_queue_size(client, 100), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_client_task_send_set_conf(client, Party::sent, Party::sent, 1),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_client_event_msg_recv_register(client, Party::message),
              DOCA_ERROR_BAD_STATE);
    sides.stop();
    std::uint32_t most = 0;
    ASSERT_OK(doca_comch_cap_get_max_msg_size(doca_dev_as_devinfo(sides.lab.host), &most));
    EXPECT_EQ(doca_comch_client_set_max_msg_size(client, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_client_set_max_msg_size(client, most + 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_client_set_max_msg_size(client, 64));
    std::uint32_t size = 0;
    EXPECT_OK(doca_comch_client_get_max_msg_size(client, &size));
    EXPECT_EQ(size, 64u);
    ASSERT_OK(doca_comch_cap_get_max_recv_queue_size(doca_dev_as_devinfo(sides.lab.host), &most));
    EXPECT_EQ(doca_comch_client_set_recv_queue_size(client, most + 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_client_set_recv_queue_size(client, most));
    EXPECT_EQ(doca_comch_client_task_send_set_conf(client, nullptr, Party::sent, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_client_task_send_set_conf(client, Party::sent, Party::sent, 0),
              DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaControl, MaximumMessageSizesMustMatch) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "sizes");
    ClientParty client(lab, engine, "sizes");
    ASSERT_OK(doca_comch_server_set_max_msg_size(server.server, 128));
    ASSERT_OK(doca_comch_client_set_max_msg_size(client.client, 64));
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until(
        [&] { return state_of(client.ctx) == idle && !server.connected.empty(); }, engine));
    EXPECT_FALSE(server.connected[0].second); // turned away
    ASSERT_OK(doca_comch_client_set_max_msg_size(client.client, 128));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == running; }, engine));
    EXPECT_EQ(client.send(std::string(129, 'x')), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(client.send(std::string(128, 'x')));
    ASSERT_TRUE(progress_until([&] { return !server.messages.empty(); }, engine));
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until(
        [&] { return state_of(server.ctx) == idle && state_of(client.ctx) == idle; }, engine));
}

TEST(DocaControl, AnEndThatSetsNoMaximumMessageSizeTakesTheOthers) {
    TwoSides sides;
    sides.stop();
    ASSERT_OK(doca_comch_server_set_max_msg_size(sides.server.server, 128));
    ASSERT_OK(doca_ctx_start(sides.server.ctx));
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
    std::uint32_t size = 0;
    EXPECT_OK(doca_comch_client_get_max_msg_size(sides.client.client, &size));
    EXPECT_EQ(size, 128u);
    EXPECT_EQ(sides.client.send(std::string(129, 'x')), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(sides.client.send(std::string(128, 'x')));
    ASSERT_TRUE(sides.until([&] { return sides.server.messages.size() == 1; }));
    sides.stop();
    EXPECT_OK(doca_comch_client_get_max_msg_size(sides.client.client, &size));
    EXPECT_EQ(size, 4080u);
}

TEST(DocaControl, NamesAreUniqueAndBounded) {
    TwoSides sides;
    ServerParty second(sides.lab, sides.server_engine, "pair");
    EXPECT_EQ(doca_ctx_start(second.ctx), DOCA_ERROR_IN_USE);
    std::uint32_t most = 0;
    ASSERT_OK(doca_comch_cap_get_max_name_len(doca_dev_as_devinfo(sides.lab.dpu), &most));
    doca_comch_server* server = nullptr;
    EXPECT_EQ(doca_comch_server_create(sides.lab.dpu, sides.lab.representor,
                                       std::string(most, 'n').c_str(), &server),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_create(sides.lab.dpu, sides.lab.representor, "", &server),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_server_create(sides.lab.dpu, sides.lab.representor,
                                       std::string(most - 1, 'n').c_str(), &server));
    EXPECT_OK(doca_comch_server_destroy(server));
}

TEST(DocaControl, EachSideHasItsRole) {
    Lab lab;
    doca_comch_server* server = nullptr;
    doca_comch_client* client = nullptr;
    EXPECT_EQ(doca_comch_server_create(lab.host, lab.representor, "x", &server),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_client_create(lab.dpu, "x", &client), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_cap_server_is_supported(doca_dev_as_devinfo(lab.host)),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comch_cap_client_is_supported(doca_dev_as_devinfo(lab.dpu)),
              DOCA_ERROR_NOT_SUPPORTED);
}

TEST(DocaControl, NullsAreRefused) {
    doca_comch_server* server = nullptr;
    doca_comch_task_send* task = nullptr;
    EXPECT_EQ(doca_comch_server_create(nullptr, nullptr, nullptr, &server),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_as_ctx(nullptr), nullptr);
    EXPECT_EQ(doca_ctx_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_ctx_stop(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_disconnect(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_task_send_alloc_init(nullptr, nullptr, "x", 1, &task),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_task_submit(nullptr), DOCA_ERROR_INVALID_VALUE);
    doca_task_free(nullptr);
    EXPECT_EQ(doca_pe_progress(nullptr), 0);
    EXPECT_EQ(doca_comch_server_get_server_ctx(nullptr), nullptr);
    EXPECT_EQ(doca_comch_connection_update_info(nullptr), DOCA_ERROR_INVALID_VALUE);
    TwoSides sides;
    EXPECT_EQ(doca_comch_client_task_send_alloc_init(sides.client.client, nullptr, "x", 1, &task),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_client_task_send_alloc_init(sides.client.client, sides.client.connection(),
                                                     "x", 0, &task),
              DOCA_ERROR_INVALID_VALUE);
    // Another context's connection.
    EXPECT_EQ(
        doca_comch_client_task_send_alloc_init(sides.client.client, sides.at_server, "x", 1, &task),
        DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_disconnect(sides.server.server, sides.client.connection()),
              DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaControl, TasksAreCountedAndUsedAgain) {
    TwoSides sides(2);
    doca_comch_task_send* first = nullptr;
    ASSERT_OK(sides.client.send("one", &first));
    doca_task* const task = doca_comch_task_send_as_task(first);
    EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE); // it is
    EXPECT_EQ(doca_task_get_status(task), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_task_get_ctx(task), sides.client.ctx);
    ASSERT_OK(sides.client.send("two"));
    EXPECT_EQ(sides.client.send("three"), DOCA_ERROR_NO_MEMORY);
    std::size_t inflight = 0;
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(sides.client.ctx, &inflight));
    EXPECT_EQ(inflight, 2u);
    EXPECT_OK(doca_pe_get_num_inflight_tasks(sides.client_engine.pe, &inflight));
    EXPECT_EQ(inflight, 2u);
    int again = 0;
    sides.client.on_sent = [&](doca_comch_task_send* done) {
        if (done == first && again++ == 0) {
            EXPECT_OK(doca_task_submit(doca_comch_task_send_as_task(done))); // from its callback
        } else {
            doca_task_free(doca_comch_task_send_as_task(done));
            doca_task_free(doca_comch_task_send_as_task(done)); // twice does nothing
        }
    };
    ASSERT_TRUE(sides.until([&] { return sides.client.sends.size() == 3; }));
    EXPECT_THAT(sides.server.messages, ElementsAre("one", "two", "one"));
    EXPECT_EQ(doca_task_submit(task), DOCA_ERROR_BAD_STATE); // it is freed
    sides.client.on_sent = nullptr;
    EXPECT_OK(sides.client.send("four"));
    EXPECT_OK(sides.client.send("five"));
    ASSERT_TRUE(sides.until([&] { return sides.client.sends.size() == 5; }));
}

TEST(DocaControl, OneSendTaskIsEnoughForRequestsAndAnswers) {
    TwoSides sides(1);
    const auto free_it = [](doca_comch_task_send* done) {
        doca_task_free(doca_comch_task_send_as_task(done));
    };
    sides.server.on_sent = free_it;
    sides.client.on_sent = free_it;
    // Each allocates its next task when it has the answer to the last, although the other one is
    // still inside the callback that answered.
    std::size_t round = 1;
    sides.server.on_message = [&](doca_comch_connection* from, const std::string& text) {
        EXPECT_OK(sides.server.send(from, text));
        EXPECT_TRUE(progress_until([&] { return sides.client.messages.size() == round; },
                                   sides.client_engine));
        ++round;
        EXPECT_OK(sides.client.send("request"));
    };
    ASSERT_OK(sides.client.send("request"));
    ASSERT_TRUE(sides.until([&] { return round > 300; }));
    sides.server.on_message = nullptr;
}

TEST(DocaControl, AFreedTaskCompletesSilently) {
    TwoSides sides;
    doca_comch_task_send* task = nullptr;
    ASSERT_OK(sides.client.send("unheard", &task));
    doca_task_free(doca_comch_task_send_as_task(task));
    ASSERT_TRUE(sides.until([&] {
        std::size_t inflight = 1;
        EXPECT_OK(doca_ctx_get_num_inflight_tasks(sides.client.ctx, &inflight));
        return inflight == 0;
    }));
    EXPECT_THAT(sides.server.messages, ElementsAre("unheard"));
    EXPECT_TRUE(sides.client.sends.empty());
}

TEST(DocaControl, IdleWaitsForTasksToBeFreed) {
    TwoSides sides;
    doca_comch_task_send* kept = nullptr;
    sides.client.on_sent = [&](doca_comch_task_send* task) { kept = task; };
    ASSERT_OK(sides.client.send("kept"));
    ASSERT_TRUE(sides.until([&] { return kept != nullptr; }));
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return !sides.server.disconnected.empty(); }));
    for (int i = 0; i < 100; ++i) {
        (void)doca_pe_progress(sides.client_engine.pe);
    }
    EXPECT_EQ(state_of(sides.client.ctx), stopping);
    EXPECT_EQ(doca_task_submit(doca_comch_task_send_as_task(kept)), DOCA_ERROR_BAD_STATE);
    doca_task_free(doca_comch_task_send_as_task(kept));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
}

TEST(DocaControl, TheLastReplyOfAStopIsDelivered) {
    TwoSides sides;
    sides.server.on_message = [&](doca_comch_connection* from, const std::string&) {
        EXPECT_OK(sides.server.send(from, "bye"));
        EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
    };
    ASSERT_OK(sides.client.send("stop"));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    EXPECT_THAT(sides.client.messages, ElementsAre("bye"));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.server.ctx) == idle; }));
    EXPECT_THAT(sides.server.sends, ElementsAre(DOCA_SUCCESS));
    // Losing the server is a change of the client's state.
    EXPECT_THAT(sides.client.steps, ElementsAre(Pair(idle, starting), Pair(starting, running),
                                                Pair(running, stopping), Pair(stopping, idle)));
}

TEST(DocaControl, SendsBeyondWhatTheConnectionTakesWait) {
    constexpr std::uint32_t count = 10'240; // without progress; the connection takes 8192
    TwoSides sides(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_OK(sides.client.send(std::to_string(i))) << "message " << i;
    }
    ASSERT_TRUE(sides.until([&] { return sides.server.messages.size() == count; }));
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(sides.server.messages[i], std::to_string(i));
    }
}

TEST(DocaControl, ManyMessagesBeforeAStopAreAllDelivered) {
    constexpr std::uint32_t many = 4000;
    TwoSides sides(many);
    const std::string text(1000, 'm');
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(sides.client.send(text)); // far more than the link has room for
    }
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until(
        [&] { return state_of(sides.client.ctx) == idle && !sides.server.disconnected.empty(); }));
    EXPECT_EQ(sides.server.messages.size(), many);
    EXPECT_EQ(sides.client.sends.size(), many);
    EXPECT_THAT(sides.client.sends, Each(DOCA_SUCCESS)); // says which is not
}

TEST(DocaControl, AMessageMayBeOverwrittenOnceItIsSubmitted) {
    constexpr std::uint32_t many = 1000;
    TwoSides sides(many);
    std::string text;
    for (std::uint32_t i = 0; i < many; ++i) {
        text.assign(1000, static_cast<char>('a' + i % 26));
        doca_comch_task_send* task = nullptr;
        ASSERT_OK(doca_comch_client_task_send_alloc_init(
            sides.client.client, sides.client.connection(), text.data(),
            static_cast<std::uint32_t>(text.size()), &task));
        ASSERT_OK(doca_task_submit(doca_comch_task_send_as_task(task))); // most have to wait
    }
    text.assign(1000, '-');
    ASSERT_TRUE(sides.until([&] { return sides.server.messages.size() == many; }));
    for (std::uint32_t i = 0; i < many; ++i) {
        EXPECT_EQ(sides.server.messages[i], std::string(1000, static_cast<char>('a' + i % 26)));
    }
    ASSERT_TRUE(sides.until([&] { return sides.client.sends.size() == many; }));
}

TEST(DocaControl, AStopWaitsForAPeerThatTakesALittleNowAndThen) {
    constexpr std::uint32_t many = 400;
    using std::chrono::steady_clock;
    Lab lab;
    Engine slow;
    Engine quick;
    ServerParty server(lab, slow, "one");
    ClientParty client(lab, quick, "one", many);
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == running; }, quick, slow));
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(client.send(std::string(1000, 'm')));
    }
    EXPECT_EQ(doca_ctx_stop(client.ctx), DOCA_ERROR_IN_PROGRESS);
    // Longer in all than a peer is waited for that takes nothing, and never so long at a time.
    const auto began = steady_clock::now();
    auto turn = began;
    ASSERT_TRUE(progress_until(
        [&] {
            if (steady_clock::now() > turn) {
                turn += std::chrono::milliseconds(100);
                (void)doca_pe_progress(slow.pe);
            }
            return server.disconnected.size() == 1;
        },
        quick));
    EXPECT_GT(steady_clock::now() - began, std::chrono::seconds(1));
    EXPECT_EQ(server.messages.size(), many);
    EXPECT_THAT(client.sends, Each(DOCA_SUCCESS));
    EXPECT_EQ(client.sends.size(), many);
    ASSERT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, slow));
}

/// Progresses only when the handle says so; false if it stays silent far too long.
template <class Condition> bool sleep_until(Engine& engine, int& wakes, Condition&& condition) {
    doca_notification_handle_t handle = 0;
    EXPECT_OK(doca_pe_get_notification_handle(engine.pe, &handle));
    for (;;) {
        while (doca_pe_progress(engine.pe) != 0) {
        }
        if (condition()) {
            return true;
        }
        EXPECT_OK(doca_pe_request_notification(engine.pe));
        pollfd fd{.fd = handle, .events = POLLIN, .revents = 0};
        if (poll(&fd, 1, 20'000) != 1) {
            return false;
        }
        ++wakes;
        EXPECT_OK(doca_pe_clear_notification(engine.pe, handle));
    }
}

TEST(DocaControl, AStopThatWaitsForAFrozenPeerWakesWhoSleeps) {
    constexpr std::uint32_t many = 400;
    TwoSides sides(many);
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(sides.client.send(std::string(1000, 'm'))); // more than there is room for
    }
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    // The server does nothing, as if it were frozen.
    int wakes = 0;
    ASSERT_TRUE(sleep_until(sides.client_engine, wakes,
                            [&] { return state_of(sides.client.ctx) == idle; }));
    EXPECT_LT(wakes, 1000) << "it slept in between";
    EXPECT_EQ(sides.client.sends.size(), many);
}

TEST(DocaControl, ADisconnectThatWaitsForAFrozenPeerWakesWhoSleeps) {
    constexpr std::uint32_t many = 400;
    TwoSides sides(many);
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(sides.server.send(sides.at_server, std::string(1000, 'm')));
    }
    EXPECT_OK(doca_comch_server_disconnect(sides.server.server, sides.at_server));
    int wakes = 0;
    ASSERT_TRUE(sleep_until(sides.server_engine, wakes,
                            [&] { return !sides.server.disconnected.empty(); }));
    EXPECT_LT(wakes, 1000) << "it slept in between";
    EXPECT_EQ(sides.server.sends.size(), many);
}

TEST(DocaControl, ADisconnectEndsASleepThatWasAskedForBefore) {
    TwoSides sides;
    sides.server_engine.fall_asleep();
    EXPECT_OK(doca_comch_server_disconnect(sides.server.server, sides.at_server));
    EXPECT_TRUE(sides.server_engine.readable());
    int wakes = 0;
    ASSERT_TRUE(sleep_until(sides.server_engine, wakes,
                            [&] { return !sides.server.disconnected.empty(); }));
}

TEST(DocaControl, ADisconnectThatWaitsForAFrozenPeerEndsASleepThatWasAskedForBefore) {
    constexpr std::uint32_t many = 400;
    TwoSides sides(many);
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(sides.server.send(sides.at_server, std::string(1000, 'm')));
    }
    sides.server_engine.fall_asleep();
    EXPECT_OK(doca_comch_server_disconnect(sides.server.server, sides.at_server));
    ASSERT_TRUE(sides.server_engine.readable()) << "its patience needs a timer";
    int wakes = 0;
    ASSERT_TRUE(sleep_until(sides.server_engine, wakes,
                            [&] { return !sides.server.disconnected.empty(); }));
    EXPECT_EQ(sides.server.sends.size(), many);
}

TEST(DocaControl, AServerDisconnectsOneClientInsideItsCallback) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "one");
    server.on_connected = [&](doca_comch_connection* connection) {
        if (server.connected.size() == 1) {
            EXPECT_OK(doca_comch_server_disconnect(server.server, connection));
            EXPECT_EQ(doca_comch_server_disconnect(server.server, connection),
                      DOCA_ERROR_NOT_CONNECTED);
        }
    };
    ClientParty first(lab, engine, "one");
    ClientParty second(lab, engine, "one");
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(first.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(first.ctx) == idle; }, engine));
    // It was connected, for however short a time: programs wait for that.
    EXPECT_THAT(first.steps, ElementsAre(Pair(idle, starting), Pair(starting, running),
                                         Pair(running, stopping), Pair(stopping, idle)));
    ASSERT_EQ(doca_ctx_start(second.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(second.ctx) == running; }, engine));
    EXPECT_EQ(server.disconnected.size(), 1u);
    // Its handle can be used for nothing any more, and harms nobody.
    doca_comch_connection* const stale = server.connected[0].first;
    EXPECT_EQ(server.send(stale, "x"), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comch_connection_update_info(stale), DOCA_ERROR_CONNECTION_ABORTED);
    EXPECT_EQ(doca_comch_server_disconnect(server.server, stale), DOCA_ERROR_NOT_CONNECTED);
    doca_comch_producer* producer = nullptr;
    EXPECT_EQ(doca_comch_producer_create(stale, &producer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until(
        [&] { return state_of(server.ctx) == idle && state_of(second.ctx) == idle; }, engine));
}

TEST(DocaControl, AClientStopsAndIsDestroyedInsideItsCallbacks) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "inside");
    ASSERT_OK(doca_ctx_start(server.ctx));
    ClientParty client(lab, engine, "inside");
    client.on_state = [&](doca_ctx_states state) {
        if (state == running) {
            EXPECT_EQ(doca_ctx_stop(client.ctx), DOCA_ERROR_IN_PROGRESS);
        } else if (state == idle) {
            EXPECT_OK(doca_comch_client_destroy(std::exchange(client.client, nullptr)));
        }
    };
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return client.client == nullptr; }, engine));
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, engine));
}

TEST(DocaControl, ConnectionsCarryUserDataAndCounters) {
    TwoSides sides;
    EXPECT_EQ(doca_comch_connection_get_user_data(sides.at_server).u64, 0u);
    doca_data data{};
    data.u64 = 42;
    EXPECT_OK(doca_comch_connection_set_user_data(sides.at_server, data));
    EXPECT_EQ(doca_comch_connection_get_user_data(sides.at_server).u64, 42u);
    EXPECT_EQ(doca_comch_server_get_server_ctx(sides.at_server), sides.server.server);
    EXPECT_EQ(doca_comch_client_get_client_ctx(sides.at_server), nullptr);
    EXPECT_EQ(doca_comch_client_get_client_ctx(sides.client.connection()), sides.client.client);
    ASSERT_OK(sides.client.send("12345"));
    ASSERT_TRUE(sides.until([&] { return !sides.server.messages.empty(); }));
    const auto counter = [](doca_comch_connection* connection, doca_comch_counter which) {
        std::uint64_t value = 99;
        EXPECT_OK(doca_comch_connection_get_counter(connection, which, &value));
        return value;
    };
    EXPECT_EQ(counter(sides.at_server, DOCA_COMCH_COUNTER_RECV_MESSAGES), 0u); // of the snapshot
    EXPECT_OK(doca_comch_connection_update_info(sides.at_server));
    EXPECT_OK(doca_comch_connection_update_info(sides.client.connection()));
    EXPECT_EQ(counter(sides.at_server, DOCA_COMCH_COUNTER_RECV_MESSAGES), 1u);
    EXPECT_EQ(counter(sides.at_server, DOCA_COMCH_COUNTER_RECV_BYTES), 5u);
    EXPECT_EQ(counter(sides.client.connection(), DOCA_COMCH_COUNTER_SENT_MESSAGES), 1u);
    EXPECT_EQ(counter(sides.client.connection(), DOCA_COMCH_COUNTER_SENT_BYTES), 5u);
}

TEST(DocaControl, TheFirstReleasesNamesDoTheSame) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "older");
    // Another callback instead of the party's.
    static int connected;
    connected = 0;
    EXPECT_OK(doca_comch_server_event_connection_register(
        server.server,
        [](auto*, doca_comch_connection* connection, std::uint8_t ok) {
            connected += ok;
            Party::connect(nullptr, connection, ok);
        },
        Party::disconnect));
    EXPECT_EQ(doca_comch_server_event_connection_register(server.server, nullptr, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    doca_dev_rep* representor = nullptr;
    EXPECT_OK(doca_comch_server_get_device_repr(server.server, &representor));
    EXPECT_EQ(representor, lab.representor);
    EXPECT_OK(doca_ctx_start(server.ctx));
    ClientParty client(lab, engine, "older");
    EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(
        progress_until([&] { return connected == 1 && state_of(client.ctx) == running; }, engine));
    EXPECT_EQ(doca_ctx_stop(client.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(progress_until([&] { return state_of(client.ctx) == idle; }, engine));
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, engine));
    // (Of the DPA's producers and consumers: see the message queues' tests.)
    EXPECT_EQ(doca_comch_producer_set_dev_num_send(nullptr, 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_consumer_set_dev_num_recv(nullptr, 1), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaControl, DevicesStayOpenForTheirContexts) {
    Lab lab;
    doca_comch_client* client = nullptr;
    ASSERT_OK(doca_comch_client_create(lab.host, "x", &client));
    EXPECT_EQ(doca_dev_close(lab.host), DOCA_ERROR_IN_USE);
    doca_comch_server* server = nullptr;
    ASSERT_OK(doca_comch_server_create(lab.dpu, lab.representor, "x", &server));
    EXPECT_EQ(doca_dev_rep_close(lab.representor), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_comch_client_destroy(client));
    EXPECT_OK(doca_comch_server_destroy(server));
}

TEST(DocaControl, AKilledClientIsReportedAsLost) {
    Lab lab;
    int listening[2];
    ASSERT_EQ(pipe(listening), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        close(listening[1]);
        if (read(listening[0], &byte, 1) != 1) {
            _exit(1);
        }
        Engine engine;
        ClientParty client(lab, engine, "victims");
        (void)doca_ctx_start(client.ctx);
        for (;;) {
            (void)doca_pe_progress(engine.pe);
        }
    }
    close(listening[0]);
    Engine engine;
    ServerParty server(lab, engine, "victims");
    ASSERT_OK(doca_ctx_start(server.ctx));
    EXPECT_EQ(write(listening[1], "!", 1), 1);
    close(listening[1]);
    EXPECT_TRUE(progress_until([&] { return !server.connected.empty(); }, engine));
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_TRUE(progress_until([&] { return !server.disconnected.empty(); }, engine));
    EXPECT_FALSE(server.disconnected[0].second); // not in an orderly way

    ClientParty next(lab, engine, "victims");
    EXPECT_EQ(doca_ctx_start(next.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(progress_until([&] { return state_of(next.ctx) == running; }, engine));
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_TRUE(progress_until(
        [&] { return state_of(server.ctx) == idle && state_of(next.ctx) == idle; }, engine));
}

TEST(DocaControl, AServerIsForTheRepresentedFunctionOnly) {
    Lab lab;
    Engine engine;
    doca_devinfo_rep** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_NET, &list, &count));
    ASSERT_GE(count, 2u);
    doca_dev_rep* other = nullptr; // the Lab's is the first, and so is its host device
    ASSERT_OK(doca_dev_rep_open(list[1], &other));
    ASSERT_OK(doca_devinfo_rep_destroy_list(list));
    std::swap(lab.representor, other);
    {
        ServerParty server(lab, engine, "of another function");
        ASSERT_OK(doca_ctx_start(server.ctx));
        ClientParty client(lab, engine, "of another function");
        EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(client.ctx) == idle; }, engine));
        EXPECT_THAT(client.steps, ElementsAre(Pair(idle, starting), Pair(starting, idle)));
        EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, engine));
    }
    std::swap(lab.representor, other);
    EXPECT_OK(doca_dev_rep_close(other));
}

} // namespace
