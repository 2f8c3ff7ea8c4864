// What every call answers in every state of a server, a client, a producer and a consumer: one
// table for each of them, a fresh context for each of its cells.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;

// The tables' words.
using Answer = std::optional<doca_error_t>;
constexpr Answer ok = DOCA_SUCCESS;
constexpr Answer bad_state = DOCA_ERROR_BAD_STATE;
constexpr Answer in_progress = DOCA_ERROR_IN_PROGRESS;
constexpr Answer in_use = DOCA_ERROR_IN_USE;
constexpr Answer refused = DOCA_ERROR_NOT_PERMITTED;
constexpr Answer not_connected = DOCA_ERROR_NOT_CONNECTED;
constexpr Answer none = std::nullopt; ///< there is no such cell

template <class Bench> struct Row {
    const char* call;
    Answer in_idle;
    Answer in_starting;
    Answer in_running;
    Answer in_stopping;
    doca_error_t (*run)(Bench&);
};

/// A bench has enter(state), which its context then is in until its destructor ends everything.
template <class Bench> void check(const std::vector<Row<Bench>>& rows) {
    for (const Row<Bench>& row : rows) {
        const std::pair<doca_ctx_states, Answer> cells[] = {{idle, row.in_idle},
                                                            {starting, row.in_starting},
                                                            {running, row.in_running},
                                                            {stopping, row.in_stopping}};
        for (const auto& [state, answer] : cells) {
            if (!answer) {
                continue;
            }
            SCOPED_TRACE(std::string(row.call) + " in state " + std::to_string(state));
            Bench bench;
            bench.enter(state);
            ASSERT_EQ(state_of(bench.ctx()), state);
            EXPECT_EQ(row.run(bench), *answer);
        }
    }
}

void on_state(doca_data, doca_ctx*, doca_ctx_states, doca_ctx_states) {}

doca_error_t set_user_data(doca_ctx* ctx) {
    return doca_ctx_set_user_data(ctx, doca_data{});
}
doca_error_t count_tasks(doca_ctx* ctx) {
    std::size_t count = 0;
    return doca_ctx_get_num_inflight_tasks(ctx, &count);
}

// ---- servers and clients ------------------------------------------------------------------------

/// Both, which were connected once, so that there is a connection to ask for in idle, too.
struct ControlBench {
    Lab lab;
    Engine server_engine;
    Engine client_engine;
    Engine other_engine;
    ServerParty server{lab, server_engine, "states"};
    ClientParty client{lab, client_engine, "states"};
    doca_comch_connection* at_server = nullptr;
    doca_comch_connection* at_client = nullptr;
    doca_comch_task_send* kept = nullptr; ///< allocated while running

    ControlBench() {
        connect();
        end();
    }
    ~ControlBench() {
        if (kept != nullptr) {
            doca_task_free(doca_comch_task_send_as_task(kept));
        }
        end();
    }

    void connect() {
        const std::size_t before = server.connected.size();
        EXPECT_OK(doca_ctx_start(server.ctx));
        EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until(
            [&] { return state_of(client.ctx) == running && server.connected.size() > before; },
            server_engine, client_engine));
        at_server = server.connected.back().first;
        at_client = client.connection();
    }
    void end() {
        for (doca_ctx* ctx : {client.client != nullptr ? client.ctx : nullptr,
                              server.server != nullptr ? server.ctx : nullptr}) {
            if (ctx != nullptr) {
                (void)doca_ctx_stop(ctx);
                EXPECT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, server_engine,
                                           client_engine));
            }
        }
    }
};

struct ServerBench : ControlBench {
    doca_ctx* ctx() const { return server.ctx; }
    doca_error_t allocate() {
        return doca_comch_server_task_send_alloc_init(server.server, at_server, "m", 1, &kept);
    }
    void enter(doca_ctx_states state) {
        if (state != idle) {
            connect();
        }
        if (state == stopping) {
            EXPECT_OK(allocate());
            EXPECT_EQ(doca_ctx_stop(ctx()), DOCA_ERROR_IN_PROGRESS);
        }
    }
};

struct ClientBench : ControlBench {
    doca_ctx* ctx() const { return client.ctx; }
    doca_error_t allocate() {
        return doca_comch_client_task_send_alloc_init(client.client, at_client, "m", 1, &kept);
    }
    void enter(doca_ctx_states state) {
        if (state == starting) {
            EXPECT_EQ(doca_ctx_start(ctx()), DOCA_ERROR_IN_PROGRESS);
        } else if (state != idle) {
            connect();
        }
        if (state == stopping) {
            EXPECT_OK(allocate());
            EXPECT_EQ(doca_ctx_stop(ctx()), DOCA_ERROR_IN_PROGRESS);
        }
    }
};

/// The task that was allocated while running, or one that is now.
template <class Bench> doca_error_t submit(Bench& bench) {
    if (bench.kept == nullptr) {
        EXPECT_OK(bench.allocate());
    }
    doca_task* const task = doca_comch_task_send_as_task(bench.kept);
    const doca_error_t result = doca_task_submit(task);
    if (result == DOCA_SUCCESS) {
        bench.kept = nullptr; // its callback frees it
    }
    return result;
}

TEST(DocaStates, EveryCallOfAServerInEveryState) {
    using Bench = ServerBench;
    check<Bench>({
        // clang-format off
        //                       idle           starting running      stopping
        {"start",                ok,            none,    bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_start(b.ctx()); }},
        {"stop",                 bad_state,     none,    in_progress, in_progress,
         [](Bench& b) { return doca_ctx_stop(b.ctx()); }},
        {"destroy",              ok,            none,    bad_state,   bad_state,
         [](Bench& b) {
             const doca_error_t result = doca_comch_server_destroy(b.server.server);
             b.server.server = result == DOCA_SUCCESS ? nullptr : b.server.server;
             return result;
         }},
        {"connect to an engine", refused,       none,    bad_state,   bad_state,
         [](Bench& b) { return doca_pe_connect_ctx(b.other_engine.pe, b.ctx()); }},
        {"set message size",     ok,            none,    bad_state,   bad_state,
         [](Bench& b) { return doca_comch_server_set_max_msg_size(b.server.server, 64); }},
        {"set receive queue",    ok,            none,    bad_state,   bad_state,
         [](Bench& b) { return doca_comch_server_set_recv_queue_size(b.server.server, 64); }},
        {"set send tasks",       ok,            none,    bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_server_task_send_set_conf(b.server.server, Party::sent, Party::sent,
                                                         1);
         }},
        {"register messages",    ok,            none,    bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_server_event_msg_recv_register(b.server.server, Party::message);
         }},
        {"register connections", ok,            none,    bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_server_event_connection_status_changed_register(
                 b.server.server, Party::connect, Party::disconnect);
         }},
        {"register consumers",   ok,            none,    bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_server_event_consumer_register(b.server.server, Party::consumer,
                                                              Party::expire);
         }},
        {"set state callback",   ok,            none,    bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_set_state_changed_cb(b.ctx(), on_state); }},
        {"get message size",     ok,            none,    ok,          ok,
         [](Bench& b) {
             std::uint32_t size = 0;
             return doca_comch_server_get_max_msg_size(b.server.server, &size);
         }},
        {"count tasks",          ok,            none,    ok,          ok,
         [](Bench& b) { return count_tasks(b.ctx()); }},
        {"allocate a task",      bad_state,     none,    ok,          bad_state,
         [](Bench& b) { return b.allocate(); }},
        {"submit a task",        none,          none,    ok,          bad_state,
         [](Bench& b) { return submit(b); }},
        {"disconnect",           not_connected, none,    ok,          not_connected,
         [](Bench& b) { return doca_comch_server_disconnect(b.server.server, b.at_server); }},
        // clang-format on
    });
}

TEST(DocaStates, EveryCallOfAClientInEveryState) {
    using Bench = ClientBench;
    check<Bench>({
        // clang-format off
        //                       idle         starting     running      stopping
        {"start",                in_progress, bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_start(b.ctx()); }},
        {"stop",                 bad_state,   in_progress, in_progress, in_progress,
         [](Bench& b) { return doca_ctx_stop(b.ctx()); }},
        {"destroy",              ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             const doca_error_t result = doca_comch_client_destroy(b.client.client);
             b.client.client = result == DOCA_SUCCESS ? nullptr : b.client.client;
             return result;
         }},
        {"connect to an engine", refused,     bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_pe_connect_ctx(b.other_engine.pe, b.ctx()); }},
        {"set message size",     ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_comch_client_set_max_msg_size(b.client.client, 64); }},
        {"set receive queue",    ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_comch_client_set_recv_queue_size(b.client.client, 64); }},
        {"set send tasks",       ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_client_task_send_set_conf(b.client.client, Party::sent, Party::sent,
                                                         1);
         }},
        {"register messages",    ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_client_event_msg_recv_register(b.client.client, Party::message);
         }},
        {"register consumers",   ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_client_event_consumer_register(b.client.client, Party::consumer,
                                                              Party::expire);
         }},
        {"set state callback",   ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_set_state_changed_cb(b.ctx(), on_state); }},
        {"get message size",     ok,          ok,          ok,          ok,
         [](Bench& b) {
             std::uint32_t size = 0;
             return doca_comch_client_get_max_msg_size(b.client.client, &size);
         }},
        {"get the connection",   bad_state,   bad_state,   ok,          bad_state,
         [](Bench& b) {
             doca_comch_connection* connection = nullptr;
             return doca_comch_client_get_connection(b.client.client, &connection);
         }},
        {"count tasks",          ok,          ok,          ok,          ok,
         [](Bench& b) { return count_tasks(b.ctx()); }},
        {"allocate a task",      bad_state,   bad_state,   ok,          bad_state,
         [](Bench& b) { return b.allocate(); }},
        {"submit a task",        none,        none,        ok,          bad_state,
         [](Bench& b) { return submit(b); }},
        // clang-format on
    });
}

// ---- producers and consumers --------------------------------------------------------------------

/// The client's producer, and a consumer of the server's with a buffer; engines of their own, so
/// that a consumer can be caught starting.
struct FastBench {
    TwoSides sides;
    Engine engine;
    Engine other_engine;
    Memory memory{sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE};
    ConsumerParty consumer{sides.at_server, engine, memory.mmap};
    ProducerParty producer{sides.client.connection(), engine};
    doca_buf* buffer = nullptr;
    std::uint32_t target = 0; ///< the consumer's number

    ~FastBench() {
        for (doca_ctx* ctx : {producer.producer != nullptr ? producer.ctx : nullptr,
                              consumer.consumer != nullptr ? consumer.ctx : nullptr}) {
            if (ctx != nullptr) {
                (void)doca_ctx_stop(ctx);
                EXPECT_TRUE(until([&] { return state_of(ctx) == idle; }));
            }
        }
        if (buffer != nullptr) {
            give_back(buffer);
        }
    }
    template <class Condition> [[nodiscard]] bool until(Condition&& condition) {
        return progress_until(condition, engine, sides.server_engine, sides.client_engine);
    }
    void start_consumer() {
        EXPECT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(until(
            [&] { return state_of(consumer.ctx) == running && !sides.client.consumers.empty(); }));
        target = consumer.id();
    }
};

struct ProducerBench : FastBench {
    doca_comch_producer_task_send* kept = nullptr;

    ~ProducerBench() {
        if (kept != nullptr) {
            doca_task_free(doca_comch_producer_task_send_as_task(kept));
        }
    }
    doca_ctx* ctx() const { return producer.ctx; }
    doca_error_t allocate() {
        static std::uint8_t immediate = 'i';
        return doca_comch_producer_task_send_alloc_init(producer.producer, nullptr, &immediate, 1,
                                                        target, &kept);
    }
    void enter(doca_ctx_states state) {
        if (state != idle) {
            start_consumer();
            EXPECT_OK(consumer.post(nullptr));
            EXPECT_OK(doca_ctx_start(ctx()));
        }
        if (state == stopping) {
            EXPECT_OK(allocate());
            EXPECT_EQ(doca_ctx_stop(ctx()), DOCA_ERROR_IN_PROGRESS);
        }
    }
};

struct ConsumerBench : FastBench {
    doca_comch_consumer_task_post_recv* kept = nullptr;

    ~ConsumerBench() {
        if (kept != nullptr) {
            doca_task_free(doca_comch_consumer_task_post_recv_as_task(kept));
        }
    }
    doca_ctx* ctx() const { return consumer.ctx; }
    doca_error_t allocate() {
        return doca_comch_consumer_task_post_recv_alloc_init(consumer.consumer, nullptr, &kept);
    }
    void enter(doca_ctx_states state) {
        if (state == starting) {
            EXPECT_EQ(doca_ctx_start(ctx()), DOCA_ERROR_IN_PROGRESS);
        } else if (state != idle) {
            start_consumer();
        }
        if (state == stopping) {
            EXPECT_OK(allocate());
            EXPECT_EQ(doca_ctx_stop(ctx()), DOCA_ERROR_IN_PROGRESS);
        }
    }
};

TEST(DocaStates, EveryCallOfAProducerInEveryState) {
    using Bench = ProducerBench;
    check<Bench>({
        // clang-format off
        //                       idle         starting running      stopping
        {"start",                ok,          none,    bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_start(b.ctx()); }},
        {"stop",                 bad_state,   none,    ok,          in_progress,
         [](Bench& b) { return doca_ctx_stop(b.ctx()); }},
        {"destroy",              ok,          none,    bad_state,   bad_state,
         [](Bench& b) {
             const doca_error_t result = doca_comch_producer_destroy(b.producer.producer);
             b.producer.producer = result == DOCA_SUCCESS ? nullptr : b.producer.producer;
             return result;
         }},
        {"connect to an engine", refused,     none,    bad_state,   bad_state,
         [](Bench& b) { return doca_pe_connect_ctx(b.other_engine.pe, b.ctx()); }},
        {"set send tasks",       ok,          none,    bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_producer_task_send_set_conf(b.producer.producer, ProducerParty::sent,
                                                           ProducerParty::sent, 1);
         }},
        {"set state callback",   ok,          none,    bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_set_state_changed_cb(b.ctx(), on_state); }},
        {"set user data",        ok,          none,    none,        none,
         [](Bench& b) { return set_user_data(b.ctx()); }},
        {"get the id",           bad_state,   none,    ok,          ok,
         [](Bench& b) {
             std::uint32_t id = 0;
             return doca_comch_producer_get_id(b.producer.producer, &id);
         }},
        {"count tasks",          ok,          none,    ok,          ok,
         [](Bench& b) { return count_tasks(b.ctx()); }},
        {"allocate a task",      bad_state,   none,    ok,          bad_state,
         [](Bench& b) { return b.allocate(); }},
        {"submit a task",        none,        none,    ok,          bad_state,
         [](Bench& b) {
             if (b.kept == nullptr) {
                 EXPECT_OK(b.allocate());
             }
             doca_task* const task = doca_comch_producer_task_send_as_task(b.kept);
             const doca_error_t result = doca_task_submit(task);
             b.kept = result == DOCA_SUCCESS ? nullptr : b.kept;
             return result;
         }},
        {"stop its client",      in_progress, none,    in_use,      in_use,
         [](Bench& b) { return doca_ctx_stop(b.sides.client.ctx); }},
        {"destroy its client",   bad_state,   none,    bad_state,   bad_state,
         [](Bench& b) { return doca_comch_client_destroy(b.sides.client.client); }},
        {"destroy its engine",   in_use,      none,    in_use,      in_use,
         [](Bench& b) { return doca_pe_destroy(b.engine.pe); }},
        // clang-format on
    });
}

TEST(DocaStates, EveryCallOfAConsumerInEveryState) {
    using Bench = ConsumerBench;
    check<Bench>({
        // clang-format off
        //                       idle         starting     running      stopping
        {"start",                in_progress, bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_start(b.ctx()); }},
        {"stop",                 bad_state,   ok,          ok,          in_progress,
         [](Bench& b) { return doca_ctx_stop(b.ctx()); }},
        {"destroy",              ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             const doca_error_t result = doca_comch_consumer_destroy(b.consumer.consumer);
             b.consumer.consumer = result == DOCA_SUCCESS ? nullptr : b.consumer.consumer;
             return result;
         }},
        {"connect to an engine", refused,     bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_pe_connect_ctx(b.other_engine.pe, b.ctx()); }},
        {"set receive tasks",    ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) {
             return doca_comch_consumer_task_post_recv_set_conf(
                 b.consumer.consumer, ConsumerParty::received, ConsumerParty::received, 1);
         }},
        {"set immediate length", ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_comch_consumer_set_imm_data_len(b.consumer.consumer, 8); }},
        {"set state callback",   ok,          bad_state,   bad_state,   bad_state,
         [](Bench& b) { return doca_ctx_set_state_changed_cb(b.ctx(), on_state); }},
        {"get immediate length", ok,          ok,          ok,          ok,
         [](Bench& b) {
             std::uint32_t length = 0;
             return doca_comch_consumer_get_imm_data_len(b.consumer.consumer, &length);
         }},
        {"get the id",           ok,          none,        ok,          ok,
         [](Bench& b) {
             std::uint32_t id = 0;
             return doca_comch_consumer_get_id(b.consumer.consumer, &id);
         }},
        {"count tasks",          ok,          ok,          ok,          ok,
         [](Bench& b) { return count_tasks(b.ctx()); }},
        {"allocate a task",      bad_state,   bad_state,   ok,          bad_state,
         [](Bench& b) { return b.allocate(); }},
        {"submit a task",        none,        none,        ok,          bad_state,
         [](Bench& b) {
             if (b.kept == nullptr) {
                 EXPECT_OK(b.allocate());
             }
             doca_task* const task = doca_comch_consumer_task_post_recv_as_task(b.kept);
             const doca_error_t result = doca_task_submit(task);
             b.kept = result == DOCA_SUCCESS ? nullptr : b.kept;
             return result;
         }},
        {"disconnect it",        ok,          in_use,      in_use,      in_use,
         [](Bench& b) {
             return doca_comch_server_disconnect(b.sides.server.server, b.sides.at_server);
         }},
        {"stop its server",      in_progress, in_use,      in_use,      in_use,
         [](Bench& b) { return doca_ctx_stop(b.sides.server.ctx); }},
        {"stop its memory map",  ok,          refused,     refused,     refused,
         [](Bench& b) {
             const doca_error_t result = doca_mmap_stop(b.memory.mmap);
             EXPECT_TRUE(result != DOCA_SUCCESS ||
                         doca_ctx_start(b.ctx()) == DOCA_ERROR_BAD_STATE);
             return result;
         }},
        {"destroy its engine",   in_use,      in_use,      in_use,      in_use,
         [](Bench& b) { return doca_pe_destroy(b.engine.pe); }},
        // clang-format on
    });
}

} // namespace
