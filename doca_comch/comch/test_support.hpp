// What the tests of this folder share: both sides of a domain in one process, through the C API.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_comch.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>
#include <doca_ctx.h>
#include <doca_dev.h>
#include <doca_mmap.h>
#include <doca_pe.h>

#include "core/device/test_support.hpp"

namespace comch::doca::test {

inline constexpr auto patience = std::chrono::seconds(100); ///< far more than anything takes

// A context's states.
inline constexpr doca_ctx_states idle = DOCA_CTX_STATE_IDLE;
inline constexpr doca_ctx_states starting = DOCA_CTX_STATE_STARTING;
inline constexpr doca_ctx_states running = DOCA_CTX_STATE_RUNNING;
inline constexpr doca_ctx_states stopping = DOCA_CTX_STATE_STOPPING;

#define EXPECT_OK(call) EXPECT_EQ(call, DOCA_SUCCESS)
#define ASSERT_OK(call) ASSERT_EQ(call, DOCA_SUCCESS)

/// A domain of its own, and its devices opened: the DPU's with its first representor, the host's.
/// What a program has that kept a handle for too long, or mixed two up.
inline doca_dev* closed_device() {
    alignas(64) static char nothing[4096] = {};
    return reinterpret_cast<doca_dev*>(nothing);
}

struct Lab {
    comch::test::TempDir directory;
    comch::test::ScopedEnvironment environment{
        {"COMCH_DOMAIN", directory / "domain"},
        {"COMCH_SIDE", std::nullopt},
        {"COMCH_DEVICE", std::nullopt},
        {"COMCH_DOMAIN_FILE", comch::test::test_description()}};
    doca_dev* dpu = nullptr;
    doca_dev* host = nullptr;
    doca_dev_rep* representor = nullptr;

    Lab() {
        doca_devinfo** list = nullptr;
        std::uint32_t count = 0;
        EXPECT_OK(doca_devinfo_create_list(&list, &count));
        for (std::uint32_t i = 0; i < count; ++i) {
            if (dpu == nullptr && doca_comch_cap_server_is_supported(list[i]) == DOCA_SUCCESS) {
                EXPECT_OK(doca_dev_open(list[i], &dpu));
            } else if (host == nullptr &&
                       doca_comch_cap_client_is_supported(list[i]) == DOCA_SUCCESS) {
                EXPECT_OK(doca_dev_open(list[i], &host));
            }
        }
        EXPECT_OK(doca_devinfo_destroy_list(list));
        doca_devinfo_rep** representors = nullptr;
        EXPECT_OK(
            doca_devinfo_rep_create_list(dpu, DOCA_DEVINFO_REP_FILTER_NET, &representors, &count));
        EXPECT_OK(doca_dev_rep_open(representors[0], &representor));
        EXPECT_OK(doca_devinfo_rep_destroy_list(representors));
    }
    ~Lab() {
        EXPECT_OK(doca_dev_rep_close(representor));
        EXPECT_OK(doca_dev_close(host));
        EXPECT_OK(doca_dev_close(dpu));
    }
};

/// A progress engine.
struct Engine {
    doca_pe* pe = nullptr;

    Engine() { EXPECT_OK(doca_pe_create(&pe)); }
    ~Engine() { EXPECT_OK(doca_pe_destroy(pe)); }

    /// The handle is readable now, or within so many milliseconds.
    [[nodiscard]] bool readable(int timeout = 0) const {
        pollfd fd{.fd = -1, .events = POLLIN, .revents = 0};
        EXPECT_OK(doca_pe_get_notification_handle(pe, &fd.fd));
        return ::poll(&fd, 1, timeout) == 1;
    }
    [[nodiscard]] bool wakes() const {
        return readable(static_cast<int>(std::chrono::milliseconds(patience).count()));
    }
    /// As programs do: there is nothing to progress, and the handle is quiet.
    void fall_asleep() const {
        do {
            while (doca_pe_progress(pe) != 0) {
            }
            EXPECT_OK(doca_pe_request_notification(pe));
        } while (readable());
    }
};

/// A step of a context's state.
using Step = std::pair<doca_ctx_states, doca_ctx_states>;

inline doca_ctx_states state_of(doca_ctx* ctx) {
    doca_ctx_states state = DOCA_CTX_STATE_IDLE;
    EXPECT_OK(doca_ctx_get_state(ctx, &state));
    return state;
}

/// A server or client that remembers what it is told. Its hooks run inside the callbacks.
struct Party {
    std::vector<Step> steps;
    std::vector<std::string> messages;
    std::list<std::string> kept; ///< messages being sent
    std::vector<doca_error_t> sends;
    std::vector<std::pair<doca_comch_connection*, bool>> connected;
    std::vector<std::pair<doca_comch_connection*, bool>> disconnected;
    std::vector<std::uint32_t> consumers;
    std::vector<std::uint32_t> expired;
    std::function<void(doca_ctx_states)> on_state;
    std::function<void(doca_comch_connection*, const std::string&)> on_message;
    std::function<void(doca_comch_task_send*)> on_sent;
    std::function<void(doca_comch_connection*)> on_connected;
    std::function<void(doca_comch_connection*)> on_disconnected;

    static Party& of(doca_comch_connection* connection) {
        doca_data data{};
        if (doca_comch_server* const server = doca_comch_server_get_server_ctx(connection)) {
            EXPECT_OK(doca_ctx_get_user_data(doca_comch_server_as_ctx(server), &data));
        } else {
            EXPECT_OK(doca_ctx_get_user_data(
                doca_comch_client_as_ctx(doca_comch_client_get_client_ctx(connection)), &data));
        }
        return *static_cast<Party*>(data.ptr);
    }

    void watch(doca_ctx* ctx) {
        doca_data data{};
        data.ptr = this;
        EXPECT_OK(doca_ctx_set_user_data(ctx, data));
        EXPECT_OK(doca_ctx_set_state_changed_cb(
            ctx, [](const doca_data user, doca_ctx*, doca_ctx_states from, doca_ctx_states to) {
                auto& self = *static_cast<Party*>(user.ptr);
                self.steps.emplace_back(from, to);
                if (self.on_state) {
                    self.on_state(to);
                }
            }));
    }

    static void sent(doca_comch_task_send* task, doca_data, doca_data ctx) {
        auto& self = *static_cast<Party*>(ctx.ptr);
        self.sends.push_back(doca_task_get_status(doca_comch_task_send_as_task(task)));
        if (self.on_sent) {
            self.on_sent(task);
        } else {
            doca_task_free(doca_comch_task_send_as_task(task));
        }
    }
    static void message(doca_comch_event_msg_recv*, std::uint8_t* bytes, std::uint32_t length,
                        doca_comch_connection* connection) {
        Party& self = of(connection);
        self.messages.emplace_back(reinterpret_cast<const char*>(bytes), length);
        if (self.on_message) {
            self.on_message(connection, self.messages.back());
        }
    }
    static void connect(doca_comch_event_connection_status_changed*,
                        doca_comch_connection* connection, std::uint8_t ok) {
        Party& self = of(connection);
        self.connected.emplace_back(connection, ok != 0);
        if (self.on_connected) {
            self.on_connected(connection);
        }
    }
    static void disconnect(doca_comch_event_connection_status_changed*,
                           doca_comch_connection* connection, std::uint8_t ok) {
        Party& self = of(connection);
        self.disconnected.emplace_back(connection, ok != 0);
        if (self.on_disconnected) {
            self.on_disconnected(connection);
        }
    }
    static void consumer(doca_comch_event_consumer*, doca_comch_connection* connection,
                         std::uint32_t id) {
        of(connection).consumers.push_back(id);
    }
    static void expire(doca_comch_event_consumer*, doca_comch_connection* connection,
                       std::uint32_t id) {
        of(connection).expired.push_back(id);
    }
};

struct ServerParty : Party {
    doca_comch_server* server = nullptr;
    doca_ctx* ctx = nullptr;

    ServerParty(Lab& lab, Engine& engine, const char* name, std::uint32_t tasks = 16) {
        EXPECT_OK(doca_comch_server_create(lab.dpu, lab.representor, name, &server));
        ctx = doca_comch_server_as_ctx(server);
        watch(ctx);
        EXPECT_OK(doca_comch_server_task_send_set_conf(server, sent, sent, tasks));
        EXPECT_OK(doca_comch_server_event_msg_recv_register(server, message));
        EXPECT_OK(doca_comch_server_event_connection_status_changed_register(server, connect,
                                                                             disconnect));
        EXPECT_OK(doca_comch_server_event_consumer_register(server, consumer, expire));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    }
    ~ServerParty() {
        if (server != nullptr) {
            EXPECT_OK(doca_comch_server_destroy(server));
        }
    }
    [[nodiscard]] doca_error_t send(doca_comch_connection* to, const std::string& what,
                                    doca_comch_task_send** out = nullptr) {
        doca_comch_task_send* task = nullptr;
        const std::string& text = kept.emplace_back(what);
        const doca_error_t result = doca_comch_server_task_send_alloc_init(
            server, to, text.data(), static_cast<std::uint32_t>(text.size()), &task);
        if (result != DOCA_SUCCESS) {
            return result;
        }
        if (out != nullptr) {
            *out = task;
        }
        return doca_task_submit(doca_comch_task_send_as_task(task));
    }
};

struct ClientParty : Party {
    doca_comch_client* client = nullptr;
    doca_ctx* ctx = nullptr;

    ClientParty(Lab& lab, Engine& engine, const char* name, std::uint32_t tasks = 16) {
        EXPECT_OK(doca_comch_client_create(lab.host, name, &client));
        ctx = doca_comch_client_as_ctx(client);
        watch(ctx);
        EXPECT_OK(doca_comch_client_task_send_set_conf(client, sent, sent, tasks));
        EXPECT_OK(doca_comch_client_event_msg_recv_register(client, message));
        EXPECT_OK(doca_comch_client_event_consumer_register(client, consumer, expire));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    }
    ~ClientParty() {
        if (client != nullptr) {
            EXPECT_OK(doca_comch_client_destroy(client));
        }
    }
    [[nodiscard]] doca_comch_connection* connection() const {
        doca_comch_connection* connection = nullptr;
        EXPECT_OK(doca_comch_client_get_connection(client, &connection));
        return connection;
    }
    [[nodiscard]] doca_error_t send(const std::string& what, doca_comch_task_send** out = nullptr) {
        doca_comch_task_send* task = nullptr;
        const std::string& text = kept.emplace_back(what);
        const doca_error_t result = doca_comch_client_task_send_alloc_init(
            client, connection(), text.data(), static_cast<std::uint32_t>(text.size()), &task);
        if (result != DOCA_SUCCESS) {
            return result;
        }
        if (out != nullptr) {
            *out = task;
        }
        return doca_task_submit(doca_comch_task_send_as_task(task));
    }
};

/// Progresses all engines until the condition holds.
template <class Condition, class... Engines>
[[nodiscard]] bool progress_until(Condition&& condition, Engines&... engines) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        if ((doca_pe_progress(engines.pe) + ... + 0) == 0) {
            std::this_thread::yield();
        }
    }
    return true;
}

/// A server and a client, connected, each with an engine of its own.
struct TwoSides {
    Lab lab;
    Engine server_engine;
    Engine client_engine;
    ServerParty server;
    ClientParty client;
    doca_comch_connection* at_server = nullptr;

    explicit TwoSides(std::uint32_t tasks = 16)
        : server(lab, server_engine, "pair", tasks), client(lab, client_engine, "pair", tasks) {
        EXPECT_OK(doca_ctx_start(server.ctx));
        EXPECT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(until([&] {
            return state_of(client.ctx) == DOCA_CTX_STATE_RUNNING && !server.connected.empty();
        }));
        at_server = server.connected.empty() ? nullptr : server.connected[0].first;
    }
    ~TwoSides() { stop(); }

    template <class Condition> [[nodiscard]] bool until(Condition&& condition) {
        return progress_until(std::forward<Condition>(condition), server_engine, client_engine);
    }
    void stop() {
        for (doca_ctx* ctx : {client.ctx, server.ctx}) {
            if (state_of(ctx) != DOCA_CTX_STATE_IDLE) {
                EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
            }
        }
        EXPECT_TRUE(until([&] {
            return state_of(client.ctx) == DOCA_CTX_STATE_IDLE &&
                   state_of(server.ctx) == DOCA_CTX_STATE_IDLE;
        }));
    }
};

} // namespace comch::doca::test
