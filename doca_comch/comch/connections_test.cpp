// Who reaches whom, and what each is told: names, several clients, the limits of devices, and what
// programs do inside callbacks.
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;

/// Stops a context, and waits for it.
void end(doca_ctx* ctx, Engine& engine) {
    if (state_of(ctx) != idle) {
        EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, engine));
    }
}

TEST(DocaConnections, NamesAreMatchedExactly) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "exact");
    ASSERT_OK(doca_ctx_start(server.ctx));
    for (const char* const other : {"exac", "exact1", "Exact", "exact ", "xact"}) {
        ClientParty client(lab, engine, other);
        ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) != starting; }, engine));
        EXPECT_EQ(state_of(client.ctx), idle) << other;
    }
    EXPECT_TRUE(server.connected.empty());
    ClientParty client(lab, engine, "exact");
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) != starting; }, engine));
    EXPECT_EQ(state_of(client.ctx), running);
    end(client.ctx, engine);
    end(server.ctx, engine);
}

TEST(DocaConnections, ANameIsFreeOnAnotherRepresentorAndAfterAStop) {
    Lab lab;
    Engine engine;
    doca_devinfo_rep** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_NET, &list, &count));
    ASSERT_GE(count, 2u);
    doca_dev_rep* other = nullptr;
    ASSERT_OK(doca_dev_rep_open(list[1], &other));
    ASSERT_OK(doca_devinfo_rep_destroy_list(list));
    {
        ServerParty first(lab, engine, "shared");
        ServerParty again(lab, engine, "shared");
        std::swap(lab.representor, other);
        ServerParty second(lab, engine, "shared");
        std::swap(lab.representor, other);
        ASSERT_OK(doca_ctx_start(first.ctx));
        EXPECT_OK(doca_ctx_start(second.ctx)) << "on another representor";
        EXPECT_EQ(doca_ctx_start(again.ctx), DOCA_ERROR_IN_USE);
        EXPECT_EQ(state_of(again.ctx), idle);
        end(first.ctx, engine);
        EXPECT_OK(doca_ctx_start(again.ctx)) << "its first owner has stopped";
        end(again.ctx, engine);
        end(second.ctx, engine);
    }
    EXPECT_OK(doca_dev_rep_close(other));
}

TEST(DocaConnections, AClientsNameIsCheckedToo) {
    Lab lab;
    std::uint32_t most = 0;
    ASSERT_OK(doca_comch_cap_get_max_name_len(doca_dev_as_devinfo(lab.host), &most));
    doca_comch_client* client = nullptr;
    EXPECT_EQ(doca_comch_client_create(lab.host, "", &client), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_client_create(lab.host, std::string(most, 'n').c_str(), &client),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_comch_client_create(lab.host, std::string(most - 1, 'n').c_str(), &client));
    EXPECT_OK(doca_comch_client_destroy(client));
}

TEST(DocaConnections, NobodyConnectsUntilTheServerIsProgressed) {
    Lab lab;
    Engine server_engine;
    Engine client_engine;
    ServerParty server(lab, server_engine, "asleep");
    ClientParty client(lab, client_engine, "asleep");
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    for (int i = 0; i < 1000; ++i) {
        (void)doca_pe_progress(client_engine.pe);
    }
    EXPECT_EQ(state_of(client.ctx), starting);
    EXPECT_TRUE(server.connected.empty());
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == running; }, server_engine,
                               client_engine));
    EXPECT_EQ(server.connected.size(), 1u);
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(
        progress_until([&] { return state_of(server.ctx) == idle && state_of(client.ctx) == idle; },
                       server_engine, client_engine));
}

TEST(DocaConnections, EachClientHasAConnectionOfItsOwnUntilTheServerStops) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "several");
    std::map<doca_comch_connection*, std::vector<std::string>> heard;
    server.on_message = [&](doca_comch_connection* from, const std::string& text) {
        heard[from].push_back(text);
        EXPECT_OK(server.send(from, "to " + text));
    };
    ASSERT_OK(doca_ctx_start(server.ctx));
    std::list<ClientParty> clients;
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back(lab, engine, "several");
        doca_ctx* const ctx = clients.back().ctx;
        ASSERT_EQ(doca_ctx_start(ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until([&] { return state_of(ctx) == running; }, engine));
    }
    int number = 0;
    for (ClientParty& client : clients) {
        ASSERT_OK(client.send(std::to_string(number)));
        ASSERT_TRUE(progress_until([&] { return !client.messages.empty(); }, engine));
        EXPECT_THAT(client.messages, ElementsAre("to " + std::to_string(number)));
        EXPECT_THAT(heard[server.connected[static_cast<std::size_t>(number)].first],
                    ElementsAre(std::to_string(number)));
        ++number;
    }
    EXPECT_EQ(heard.size(), 3u);
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    for (const ClientParty& client : clients) { // all are told, and end
        ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == idle; }, engine));
    }
    ASSERT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, engine));
    EXPECT_EQ(server.disconnected.size(), 3u);
}

TEST(DocaConnections, AServerTakesAsManyClientsAsItsDeviceSays) {
    Lab lab;
    std::uint32_t most = 0;
    ASSERT_OK(doca_comch_cap_get_max_clients(doca_dev_as_devinfo(lab.dpu), &most));
    ASSERT_NE(most, 0u);
    rlimit files{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    Engine engine;
    ServerParty server(lab, engine, "popular");
    ASSERT_OK(doca_comch_server_set_recv_queue_size(server.server, 1));
    ASSERT_OK(doca_ctx_start(server.ctx));
    std::list<ClientParty> clients;
    const auto connect = [&] {
        ClientParty& client = clients.emplace_back(lab, engine, "popular", 1);
        EXPECT_OK(doca_comch_client_set_recv_queue_size(client.client, 1));
        EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(client.ctx) != starting; }, engine));
        return state_of(client.ctx);
    };
    std::uint32_t running_clients = 0;
    while (running_clients < most && connect() == running) {
        ++running_clients;
    }
    EXPECT_EQ(running_clients, most);
    EXPECT_EQ(connect(), idle) << "one too many is turned away";
    EXPECT_FALSE(server.connected.back().second) << "which the server is told";
    EXPECT_EQ(server.connected.size(), most + 1);
    end(clients.front().ctx, engine);
    ASSERT_TRUE(progress_until([&] { return !server.disconnected.empty(); }, engine));
    EXPECT_EQ(connect(), running) << "there is room again";
    EXPECT_EQ(doca_ctx_stop(server.ctx), DOCA_ERROR_IN_PROGRESS);
    for (const ClientParty& client : clients) {
        ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == idle; }, engine));
    }
    ASSERT_TRUE(progress_until([&] { return state_of(server.ctx) == idle; }, engine));
}

TEST(DocaConnections, DevicesTellTheirLimits) {
    Lab lab;
    for (const doca_dev* const dev : {lab.dpu, lab.host}) {
        const doca_devinfo* const info = doca_dev_as_devinfo(const_cast<doca_dev*>(dev));
        using Limit = doca_error_t (*)(const doca_devinfo*, std::uint32_t*);
        const std::pair<Limit, std::uint32_t> limits[] = {
            {doca_comch_cap_get_max_name_len, 120},
            {doca_comch_cap_get_max_msg_size, 4080},
            {doca_comch_cap_get_max_recv_queue_size, 8192},
            {doca_comch_cap_get_max_send_tasks, 16384},
            {doca_comch_cap_get_max_clients, 512},
            {doca_comch_producer_cap_get_max_num_tasks, 8192},
            {doca_comch_producer_cap_get_max_buf_size, std::uint32_t{1} << 31},
            {doca_comch_producer_cap_get_max_buf_list_len, 1},
            {doca_comch_producer_cap_get_max_producers, 1024},
            {doca_comch_consumer_cap_get_max_num_tasks, 8192},
            {doca_comch_consumer_cap_get_max_buf_size, std::uint32_t{1} << 31},
            {doca_comch_consumer_cap_get_max_buf_list_len, 1},
            {doca_comch_consumer_cap_get_max_consumers, 1024},
            {doca_comch_consumer_cap_get_max_imm_data_len, 32},
        };
        for (const auto& [limit, expected] : limits) {
            std::uint32_t value = 0;
            EXPECT_OK(limit(info, &value));
            EXPECT_EQ(value, expected);
        }
        EXPECT_OK(doca_comch_producer_cap_is_supported(info));
        EXPECT_OK(doca_comch_consumer_cap_is_supported(info));
    }
}

TEST(DocaConnections, WhatIsNotSetHasADefault) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "default");
    ClientParty client(lab, engine, "default");
    std::uint32_t at_server = 0;
    std::uint32_t at_client = 0;
    EXPECT_OK(doca_comch_server_get_max_msg_size(server.server, &at_server));
    EXPECT_OK(doca_comch_client_get_max_msg_size(client.client, &at_client));
    EXPECT_EQ(at_server, at_client);
    const std::uint32_t size = at_server;
    EXPECT_OK(doca_comch_server_get_recv_queue_size(server.server, &at_server));
    EXPECT_OK(doca_comch_client_get_recv_queue_size(client.client, &at_client));
    EXPECT_EQ(at_server, at_client);
    EXPECT_NE(at_server, 0u);
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == running; }, engine));
    EXPECT_OK(client.send(std::string(size, 'd')));
    EXPECT_EQ(client.send(std::string(size + 1, 'd')), DOCA_ERROR_INVALID_VALUE);
    ASSERT_TRUE(progress_until([&] { return !server.messages.empty(); }, engine));
    EXPECT_EQ(server.messages[0].size(), size);
    end(client.ctx, engine);
    end(server.ctx, engine);
}

// ---- tasks and callbacks ------------------------------------------------------------------------

/// Which of the two callbacks a send ended in, and with what.
struct Outcome {
    std::string callback;
    doca_error_t status = DOCA_SUCCESS;
    std::uint64_t user_data = 0;
    friend bool operator==(const Outcome&, const Outcome&) = default;
};
std::vector<Outcome> outcomes;

template <bool success> void note(doca_comch_task_send* task, doca_data data, doca_data) {
    doca_task* const base = doca_comch_task_send_as_task(task);
    EXPECT_EQ(doca_task_get_user_data(base).u64, data.u64);
    outcomes.push_back({success ? "completion" : "error", doca_task_get_status(base), data.u64});
    doca_task_free(base);
}

TEST(DocaConnections, SendsEndInTheCallbackForTheirOutcomeWithTheirUserData) {
    outcomes.clear();
    TwoSides sides;
    sides.stop();
    ASSERT_OK(
        doca_comch_client_task_send_set_conf(sides.client.client, note<true>, note<false>, 4));
    ASSERT_OK(doca_ctx_start(sides.server.ctx));
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
    const auto send = [&](std::uint64_t user_data) {
        doca_comch_task_send* task = nullptr;
        EXPECT_OK(doca_comch_client_task_send_alloc_init(sides.client.client,
                                                         sides.client.connection(), "m", 1, &task));
        doca_task* const base = doca_comch_task_send_as_task(task);
        EXPECT_EQ(doca_task_get_user_data(base).u64, 0u) << "of nobody before";
        doca_data data{};
        data.u64 = user_data;
        doca_task_set_user_data(base, data);
        return base;
    };
    EXPECT_OK(doca_task_submit_ex(send(1), DOCA_TASK_SUBMIT_FLAG_FLUSH |
                                               DOCA_TASK_SUBMIT_FLAG_OPTIMIZE_REPORTS));
    ASSERT_TRUE(sides.until([&] { return outcomes.size() == 1; }));
    EXPECT_EQ(outcomes[0], (Outcome{"completion", DOCA_SUCCESS, 1}));
    // The server ends the connection before it has taken the next.
    EXPECT_OK(
        doca_comch_server_disconnect(sides.server.server, sides.server.connected.back().first));
    const std::size_t heard = sides.server.messages.size();
    EXPECT_OK(doca_task_try_submit(send(2)));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    ASSERT_EQ(outcomes.size(), 2u);
    EXPECT_EQ(outcomes[1], (Outcome{"error", DOCA_ERROR_NOT_CONNECTED, 2}));
    EXPECT_EQ(sides.server.messages.size(), heard) << "what failed was not delivered";
}

TEST(DocaConnections, NothingStartsOnAConnectionThatIsBeingEnded) {
    constexpr std::uint32_t many = 400;
    TwoSides sides(many);
    doca_comch_producer* producer = nullptr;
    ASSERT_OK(doca_comch_producer_create(sides.at_server, &producer));
    doca_ctx* const ctx = doca_comch_producer_as_ctx(producer);
    const auto sent = [](doca_comch_producer_task_send*, doca_data, doca_data) {};
    ASSERT_OK(doca_comch_producer_task_send_set_conf(producer, sent, sent, 1));
    ASSERT_OK(doca_pe_connect_ctx(sides.server_engine.pe, ctx));
    for (std::uint32_t i = 0; i < many; ++i) {
        ASSERT_OK(sides.server.send(sides.at_server, std::string(1000, 'm')));
    }
    ASSERT_OK(doca_comch_server_disconnect(sides.server.server, sides.at_server));
    // Its last messages wait for room, and it would keep the connection.
    ASSERT_TRUE(sides.server.disconnected.empty());
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_TRUE(sides.until([&] {
        return sides.server.disconnected.size() == 1 && sides.client.messages.size() == many;
    }));
    EXPECT_OK(doca_comch_producer_destroy(producer));
}

TEST(DocaConnections, AContextStopsInsideItsCompletionAndMessageCallbacks) {
    TwoSides sides;
    sides.client.on_sent = [&](doca_comch_task_send* task) {
        doca_task_free(doca_comch_task_send_as_task(task));
        EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    };
    ASSERT_OK(sides.client.send("last"));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    sides.client.on_sent = nullptr;
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
    sides.client.on_message = [&](doca_comch_connection*, const std::string&) {
        EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    };
    ASSERT_OK(sides.server.send(sides.server.connected.back().first, "stop"));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    EXPECT_THAT(sides.client.messages, ElementsAre("stop"));
}

TEST(DocaConnections, AClientStartsAgainInsideItsStateCallback) {
    Lab lab;
    Engine engine;
    ClientParty client(lab, engine, "later");
    int attempts = 0;
    client.on_state = [&](doca_ctx_states state) {
        if (state == idle && ++attempts < 4) {
            EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        }
    };
    ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS); // nobody is there
    ASSERT_TRUE(progress_until([&] { return attempts >= 2; }, engine));
    attempts = 0;
    ServerParty server(lab, engine, "later");
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) != starting; }, engine));
    if (state_of(client.ctx) == idle) { // its last attempt was before
        ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until([&] { return state_of(client.ctx) == running; }, engine));
    }
    // And when it was connected and was disconnected.
    attempts = 2;
    ASSERT_TRUE(progress_until([&] { return !server.connected.empty(); }, engine));
    EXPECT_OK(doca_comch_server_disconnect(server.server, server.connected.back().first));
    ASSERT_TRUE(
        progress_until([&] { return attempts == 3 && state_of(client.ctx) == running; }, engine));
    EXPECT_OK(client.send("again"));
    ASSERT_TRUE(progress_until([&] { return !server.messages.empty(); }, engine));
    attempts = 9;
    end(client.ctx, engine);
    end(server.ctx, engine);
}

} // namespace
