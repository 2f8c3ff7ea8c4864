// A server and a client of DOCA CC in its default dialect, connected, for the tests of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doca_cc.h>
#include <doca_cc_consumer.h>
#include <doca_cc_producer.h>

#include "doca_comch/comch/test_support.hpp"

namespace comch::doca::test {

struct End {
    std::vector<std::string> messages;
    std::vector<doca_error_t> sends;
    std::vector<doca_error_t> fast;
    std::vector<std::uint32_t> consumers;
    doca_cc_connection* connection = nullptr;
    int gone = 0;
    // inside the callbacks
    std::function<void()> on_message;
    std::function<void()> on_sent;
    std::function<void()> on_connected;
    std::function<void()> on_gone;
};

inline End& end_of(doca_data data) {
    return *static_cast<End*>(data.ptr);
}
inline End& end_of(doca_cc_connection* connection) {
    return end_of(doca_cc_connection_get_user_data(connection));
}
/// A copy of it: it may be replaced meanwhile.
inline void call(std::function<void()> hook) {
    if (hook) {
        hook();
    }
}
inline End* server_end = nullptr; ///< for connections that are new

inline void on_sent(doca_cc_send_task* task, doca_data, doca_data user) {
    End& end = end_of(user);
    end.sends.push_back(doca_task_get_status(doca_cc_send_task_as_task(task)));
    doca_task_free(doca_cc_send_task_as_task(task));
    call(end.on_sent);
}
inline void on_message(doca_cc_event_msg_recv*, std::uint8_t* bytes, std::size_t length,
                       doca_cc_connection* connection) {
    End& end = end_of(connection);
    end.messages.emplace_back(reinterpret_cast<const char*>(bytes), length);
    call(end.on_message);
}
inline void on_connect(doca_cc_event_connection_status_changed*, doca_cc_connection* connection,
                       bool ok) {
    EXPECT_TRUE(ok);
    doca_data data{};
    data.ptr = server_end;
    EXPECT_OK(doca_cc_connection_set_user_data(connection, data));
    server_end->connection = connection;
    call(server_end->on_connected);
}
inline void on_disconnect(doca_cc_event_connection_status_changed*, doca_cc_connection* connection,
                          bool) {
    End& end = end_of(connection);
    ++end.gone;
    call(end.on_gone);
}
inline void on_consumer(doca_cc_event_consumer*, doca_cc_connection* connection, std::uint32_t id) {
    end_of(connection).consumers.push_back(id);
}
inline void on_expired(doca_cc_event_consumer*, doca_cc_connection*, std::uint32_t) {}

inline void on_fast(doca_cc_producer_send_task* task, doca_data, doca_data user) {
    doca_task* const base = doca_cc_producer_send_task_as_task(task);
    end_of(user).fast.push_back(doca_task_get_status(base));
    doca_task_free(base);
}
inline void on_posted(doca_cc_consumer_post_recv_task* task, doca_data, doca_data user) {
    doca_task* const base = doca_cc_consumer_post_recv_task_as_task(task);
    end_of(user).fast.push_back(doca_task_get_status(base));
    doca_task_free(base);
}

struct Cc {
    Lab lab;
    Engine engine;
    End at_server;
    End at_client;
    doca_cc_server* server = nullptr;
    doca_cc_client* client = nullptr;
    doca_ctx* server_ctx = nullptr;
    doca_ctx* client_ctx = nullptr;

    Cc() {
        server_end = &at_server;
        EXPECT_OK(doca_cc_server_create(lab.dpu, lab.representor, "cc", &server));
        EXPECT_OK(doca_cc_client_create(lab.host, "cc", &client));
        server_ctx = doca_cc_server_as_ctx(server);
        client_ctx = doca_cc_client_as_ctx(client);
        doca_data data{};
        data.ptr = &at_server;
        EXPECT_OK(doca_ctx_set_user_data(server_ctx, data));
        data.ptr = &at_client;
        EXPECT_OK(doca_ctx_set_user_data(client_ctx, data));
        EXPECT_OK(doca_cc_server_send_task_set_conf(server, on_sent, on_sent, 4));
        EXPECT_OK(doca_cc_client_send_task_set_conf(client, on_sent, on_sent, 4));
        EXPECT_OK(doca_cc_server_event_msg_recv_register(server, on_message));
        EXPECT_OK(doca_cc_client_event_msg_recv_register(client, on_message));
        EXPECT_OK(doca_cc_server_event_connection_register(server, on_connect, on_disconnect));
        EXPECT_OK(doca_cc_server_event_consumer_register(server, on_consumer, on_expired));
        EXPECT_OK(doca_cc_client_event_consumer_register(client, on_consumer, on_expired));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, server_ctx));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, client_ctx));
        connect();
    }
    void connect() {
        at_server.connection = nullptr;
        if (state_of(server_ctx) == DOCA_CTX_STATE_IDLE) {
            EXPECT_OK(doca_ctx_start(server_ctx));
        }
        EXPECT_EQ(doca_ctx_start(client_ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until(
            [&] {
                return state_of(client_ctx) == DOCA_CTX_STATE_RUNNING &&
                       at_server.connection != nullptr;
            },
            engine));
        EXPECT_OK(doca_cc_client_get_connection(client, &at_client.connection));
        doca_data data{};
        data.ptr = &at_client;
        EXPECT_OK(doca_cc_connection_set_user_data(at_client.connection, data));
    }
    ~Cc() {
        EXPECT_OK(doca_cc_client_destroy(client));
        EXPECT_OK(doca_cc_server_destroy(server));
    }
};

} // namespace comch::doca::test
