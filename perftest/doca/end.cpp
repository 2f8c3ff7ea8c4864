#include "perftest/doca/end.hpp"

#include <doca_ctx.h>

#include "perftest/doca/check.hpp"

namespace comch::perftest {
namespace {

constexpr const char* server_name = "comch_doca_perf";

doca_dev* open_device(bool client) {
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    must(doca_devinfo_create_list(&list, &count), "cannot list the devices");
    doca_dev* device = nullptr;
    for (std::uint32_t i = 0; i < count && device == nullptr; ++i) {
        const doca_error_t fits = client ? doca_comch_cap_client_is_supported(list[i])
                                         : doca_comch_cap_server_is_supported(list[i]);
        if (fits == DOCA_SUCCESS) {
            must(doca_dev_open(list[i], &device), "cannot open the device");
        }
    }
    (void)doca_devinfo_destroy_list(list);
    must(device == nullptr ? DOCA_ERROR_NOT_FOUND : DOCA_SUCCESS, "cannot find a device");
    return device;
}

doca_ctx_states state_of(const doca_ctx* ctx) {
    doca_ctx_states state = DOCA_CTX_STATE_IDLE;
    must(doca_ctx_get_state(ctx, &state), "cannot get the state");
    return state;
}

void on_sent(doca_comch_task_send*, doca_data, doca_data) {}
void on_message(doca_comch_event_msg_recv*, std::uint8_t*, std::uint32_t, doca_comch_connection*) {}
void on_expired(doca_comch_event_consumer*, doca_comch_connection*, std::uint32_t) {}

template <class Owner> DocaEnd& end_of(Owner* owner, doca_ctx* (*as_ctx)(Owner*)) {
    doca_data data{};
    must(doca_ctx_get_user_data(as_ctx(owner), &data), "cannot get the user data");
    return *static_cast<DocaEnd*>(data.ptr);
}

} // namespace

DocaEnd::DocaEnd(bool client) : is_client_(client), device_(open_device(client)) {
    must(doca_pe_create(&pe_), "cannot create a progress engine");
    if (client) {
        create_client();
    } else {
        create_server();
    }
    doca_data self{};
    self.ptr = this;
    must(doca_ctx_set_user_data(ctx(), self), "cannot set the user data");
    must(doca_pe_connect_ctx(pe_, ctx()), "cannot connect the context");
}

DocaEnd::~DocaEnd() {
    if (client_ != nullptr) {
        (void)doca_comch_client_destroy(client_);
    }
    if (server_ != nullptr) {
        (void)doca_comch_server_destroy(server_);
    }
    (void)doca_pe_destroy(pe_);
    if (representor_ != nullptr) {
        (void)doca_dev_rep_close(representor_);
    }
    (void)doca_dev_close(device_);
}

doca_ctx* DocaEnd::ctx() const {
    return is_client_ ? doca_comch_client_as_ctx(client_) : doca_comch_server_as_ctx(server_);
}

void DocaEnd::create_server() {
    doca_devinfo_rep** list = nullptr;
    std::uint32_t count = 0;
    must(doca_devinfo_rep_create_list(device_, DOCA_DEVINFO_REP_FILTER_NET, &list, &count),
         "cannot list the representors");
    must(doca_dev_rep_open(list[0], &representor_), "cannot open the representor");
    (void)doca_devinfo_rep_destroy_list(list);
    must(doca_comch_server_create(device_, representor_, server_name, &server_),
         "cannot create the server");
    must(doca_comch_server_task_send_set_conf(server_, on_sent, on_sent, 1),
         "cannot configure the server's tasks");
    must(doca_comch_server_event_msg_recv_register(server_, on_message),
         "cannot register for messages");
    must(doca_comch_server_event_connection_status_changed_register(
             server_,
             [](doca_comch_event_connection_status_changed*, doca_comch_connection* connection,
                std::uint8_t) {
                 end_of(doca_comch_server_get_server_ctx(connection), doca_comch_server_as_ctx)
                     .connection_ = connection;
             },
             [](doca_comch_event_connection_status_changed*, doca_comch_connection* connection,
                std::uint8_t) {
                 end_of(doca_comch_server_get_server_ctx(connection), doca_comch_server_as_ctx)
                     .ended_ = true;
             }),
         "cannot register for connections");
    must(doca_comch_server_event_consumer_register(
             server_,
             [](doca_comch_event_consumer*, doca_comch_connection* connection, std::uint32_t id) {
                 end_of(doca_comch_server_get_server_ctx(connection), doca_comch_server_as_ctx)
                     .peer_consumer_ = id;
             },
             on_expired),
         "cannot register for consumers");
}

void DocaEnd::create_client() {
    must(doca_comch_client_create(device_, server_name, &client_), "cannot create the client");
    must(doca_comch_client_task_send_set_conf(client_, on_sent, on_sent, 1),
         "cannot configure the client's tasks");
    must(doca_comch_client_event_msg_recv_register(client_, on_message),
         "cannot register for messages");
    must(doca_comch_client_event_consumer_register(
             client_,
             [](doca_comch_event_consumer*, doca_comch_connection* connection, std::uint32_t id) {
                 end_of(doca_comch_client_get_client_ctx(connection), doca_comch_client_as_ctx)
                     .peer_consumer_ = id;
             },
             on_expired),
         "cannot register for consumers");
}

void DocaEnd::start() {
    must(doca_ctx_start(ctx()), "cannot start the context", DOCA_ERROR_IN_PROGRESS);
}

void DocaEnd::wait_until_connected() {
    if (!is_client_) {
        while (connection_ == nullptr) {
            progress();
        }
        return;
    }
    while (state_of(ctx()) != DOCA_CTX_STATE_RUNNING) {
        progress();
        must(state_of(ctx()) == DOCA_CTX_STATE_IDLE ? DOCA_ERROR_NOT_CONNECTED : DOCA_SUCCESS,
             "cannot connect to the server");
    }
    must(doca_comch_client_get_connection(client_, &connection_), "cannot get the connection");
}

void DocaEnd::progress() {
    (void)doca_pe_progress(pe_);
}

void DocaEnd::disconnect() {
    while (!is_client_ && !ended_) {
        progress();
    }
    must(doca_ctx_stop(ctx()), "cannot stop the context", DOCA_ERROR_IN_PROGRESS);
    while (state_of(ctx()) != DOCA_CTX_STATE_IDLE) {
        progress();
    }
}

} // namespace comch::perftest
