// doca_comch.h: servers, clients and connections.
#include <doca_comch.h>

#include "doca_comch/comch/client.hpp"
#include "doca_comch/comch/server.hpp"
#include "doca_comch/common/capability.hpp"

using comch::doca::Callback;
using comch::doca::capability;
using comch::doca::ClientContext;
using comch::doca::ConnectionHandle;
using comch::doca::ControlCalls;
using comch::doca::ControlContext;
using comch::doca::guarded;
using comch::doca::handle_of;
using comch::doca::is_supported;
using comch::doca::SendTask;
using comch::doca::ServerContext;
using comch::doca::to_comch;

namespace {

ServerContext* of(doca_comch_server* server) {
    return reinterpret_cast<ServerContext*>(server);
}
const ServerContext* of(const doca_comch_server* server) {
    return reinterpret_cast<const ServerContext*>(server);
}
ClientContext* of(doca_comch_client* client) {
    return reinterpret_cast<ClientContext*>(client);
}
const ClientContext* of(const doca_comch_client* client) {
    return reinterpret_cast<const ClientContext*>(client);
}
template <class Function> Callback generic(Function function) {
    return reinterpret_cast<Callback>(function);
}

/// Events are only passed on; programs cannot look into them.
template <class Event> Event* event_of(ControlContext& context) {
    return reinterpret_cast<Event*>(&context);
}

const ControlCalls calls{
    .message =
        [](ControlContext& context, ConnectionHandle& from, std::span<const std::byte> message) {
            const auto callback =
                reinterpret_cast<doca_comch_event_msg_recv_cb_t>(context.on_message);
            callback(event_of<doca_comch_event_msg_recv>(context),
                     reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(message.data())),
                     static_cast<std::uint32_t>(message.size()), to_comch(from));
        },
    .connection =
        [](Callback generic_callback, ControlContext& context, ConnectionHandle& handle,
           bool success) {
            const auto callback =
                reinterpret_cast<doca_comch_event_connection_status_changed_cb_t>(generic_callback);
            callback(event_of<doca_comch_event_connection_status_changed>(context),
                     to_comch(handle), success ? 1 : 0);
        },
    .consumer =
        [](Callback generic_callback, ControlContext& context, ConnectionHandle& handle,
           std::uint32_t id) {
            const auto callback =
                reinterpret_cast<doca_comch_event_consumer_cb_t>(generic_callback);
            callback(event_of<doca_comch_event_consumer>(context), to_comch(handle), id);
        },
    .task =
        [](doca_task& task, bool success) {
            const auto& context = static_cast<const ControlContext&>(*task.ctx);
            const auto callback = reinterpret_cast<doca_comch_task_send_completion_cb_t>(
                success ? context.on_sent : context.on_send_failed);
            callback(reinterpret_cast<doca_comch_task_send*>(static_cast<SendTask*>(&task)),
                     task.user_data, context.user_data);
        },
};

doca_error_t set_both(ControlContext* context, Callback& first, Callback first_value,
                      Callback& second, Callback second_value) {
    if (first_value == nullptr || second_value == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = context->set(first, first_value);
    return result == DOCA_SUCCESS ? context->set(second, second_value) : result;
}

doca_error_t allocate_send(ControlContext* context, doca_comch_connection* peer, const void* msg,
                           std::uint32_t len, doca_comch_task_send** task) {
    if (context == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    SendTask* made = nullptr;
    const doca_error_t result = context->allocate_send(handle_of(peer), msg, len, made);
    if (result == DOCA_SUCCESS) {
        *task = reinterpret_cast<doca_comch_task_send*>(made);
    }
    return result;
}

} // namespace

// ---- connections --------------------------------------------------------------------------------

doca_error_t doca_comch_connection_set_user_data(doca_comch_connection* connection,
                                                 doca_data user_data) {
    if (connection == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    handle_of(connection)->user_data = user_data;
    return DOCA_SUCCESS;
}

doca_data doca_comch_connection_get_user_data(const doca_comch_connection* connection) {
    return connection == nullptr ? doca_data{} : handle_of(connection)->user_data;
}

doca_comch_server* doca_comch_server_get_server_ctx(const doca_comch_connection* connection) {
    ControlContext* const owner = connection == nullptr ? nullptr : handle_of(connection)->owner();
    return reinterpret_cast<doca_comch_server*>(dynamic_cast<ServerContext*>(owner));
}

doca_comch_client* doca_comch_client_get_client_ctx(const doca_comch_connection* connection) {
    ControlContext* const owner = connection == nullptr ? nullptr : handle_of(connection)->owner();
    return reinterpret_cast<doca_comch_client*>(dynamic_cast<ClientContext*>(owner));
}

doca_error_t doca_comch_connection_update_info(doca_comch_connection* comch_connection) {
    if (comch_connection == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ConnectionHandle& handle = *handle_of(comch_connection);
    if (handle.owner() == nullptr || handle.core() == nullptr) {
        return DOCA_ERROR_CONNECTION_ABORTED;
    }
    handle.snapshot = handle.core()->statistics();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_connection_get_counter(const doca_comch_connection* comch_connection,
                                               doca_comch_counter counter_type,
                                               uint64_t* counter_value) {
    if (comch_connection == nullptr || counter_value == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const comch::ConnectionStatistics& snapshot = handle_of(comch_connection)->snapshot;
    switch (counter_type) {
    case DOCA_COMCH_COUNTER_SENT_MESSAGES:
        *counter_value = snapshot.sent_messages;
        return DOCA_SUCCESS;
    case DOCA_COMCH_COUNTER_SENT_BYTES:
        *counter_value = snapshot.sent_bytes;
        return DOCA_SUCCESS;
    case DOCA_COMCH_COUNTER_RECV_MESSAGES:
        *counter_value = snapshot.received_messages;
        return DOCA_SUCCESS;
    case DOCA_COMCH_COUNTER_RECV_BYTES:
        *counter_value = snapshot.received_bytes;
        return DOCA_SUCCESS;
    }
    return DOCA_ERROR_INVALID_VALUE;
}

// ---- what a device can do -----------------------------------------------------------------------

doca_error_t doca_comch_cap_server_is_supported(const doca_devinfo* devinfo) {
    return is_supported(devinfo, &comch::Capabilities::server_supported);
}

doca_error_t doca_comch_cap_client_is_supported(const doca_devinfo* devinfo) {
    return is_supported(devinfo, &comch::Capabilities::client_supported);
}

doca_error_t doca_comch_cap_get_max_name_len(const doca_devinfo* devinfo, uint32_t* max_name_len) {
    return capability(devinfo, max_name_len,
                      [](const auto& device) { return device.max_server_name_size; });
}

doca_error_t doca_comch_cap_get_max_msg_size(const doca_devinfo* devinfo, uint32_t* size) {
    return capability(devinfo, size, [](const auto& device) { return device.max_message_size; });
}

doca_error_t doca_comch_cap_get_max_recv_queue_size(const doca_devinfo* devinfo, uint32_t* size) {
    return capability(devinfo, size,
                      [](const auto& device) { return device.max_recv_queue_depth; });
}

doca_error_t doca_comch_cap_get_max_send_tasks(const doca_devinfo* devinfo,
                                               uint32_t* max_send_tasks) {
    return comch::doca::fixed_capability(devinfo, max_send_tasks, comch::doca::most_send_tasks);
}

doca_error_t doca_comch_cap_get_max_clients(const doca_devinfo* devinfo, uint32_t* num_clients) {
    return capability(devinfo, num_clients,
                      [](const auto& device) { return device.max_clients_per_server; });
}

// ---- servers ------------------------------------------------------------------------------------

doca_error_t doca_comch_server_create(doca_dev* dev, doca_dev_rep* repr, const char* name,
                                      doca_comch_server** comch_server) {
    if (comch_server == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ServerContext* server = nullptr;
    const doca_error_t result =
        guarded([&] { return ServerContext::create(dev, repr, name, calls, server); });
    if (result == DOCA_SUCCESS) {
        *comch_server = reinterpret_cast<doca_comch_server*>(server);
    }
    return result;
}

doca_error_t doca_comch_server_destroy(doca_comch_server* comch_server) {
    return comch::doca::destroy(of(comch_server));
}

doca_ctx* doca_comch_server_as_ctx(doca_comch_server* comch_server) {
    return of(comch_server);
}

doca_error_t doca_comch_server_set_max_msg_size(doca_comch_server* comch_server, uint32_t size) {
    return comch_server == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_server)->set_message_size(size);
}

doca_error_t doca_comch_server_get_max_msg_size(const doca_comch_server* comch_server,
                                                uint32_t* size) {
    if (comch_server == nullptr || size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *size = of(comch_server)->message_size();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_set_recv_queue_size(doca_comch_server* comch_server, uint32_t size) {
    return comch_server == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_server)->set_recv_queue(size);
}

doca_error_t doca_comch_server_get_recv_queue_size(const doca_comch_server* comch_server,
                                                   uint32_t* size) {
    if (comch_server == nullptr || size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *size = of(comch_server)->recv_queue();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_get_device(const doca_comch_server* comch_server, doca_dev** dev) {
    if (comch_server == nullptr || dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dev = &of(comch_server)->device();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_get_device_rep(const doca_comch_server* comch_server,
                                              doca_dev_rep** rep) {
    if (comch_server == nullptr || rep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *rep = &of(comch_server)->representor();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_server_disconnect(doca_comch_server* comch_server,
                                          doca_comch_connection* connection) {
    return comch_server == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : guarded([&] { return of(comch_server)->disconnect(handle_of(connection)); });
}

doca_error_t doca_comch_server_task_send_set_conf(
    doca_comch_server* comch_server, doca_comch_task_send_completion_cb_t task_completion_cb,
    doca_comch_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks) {
    return comch_server == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_server)
                                         ->set_send_tasks(generic(task_completion_cb),
                                                          generic(task_error_cb), num_send_tasks);
}

doca_error_t
doca_comch_server_event_msg_recv_register(doca_comch_server* comch_server,
                                          doca_comch_event_msg_recv_cb_t recv_event_cb) {
    return comch_server == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(comch_server)->set(of(comch_server)->on_message, generic(recv_event_cb));
}

doca_error_t doca_comch_server_event_connection_status_changed_register(
    doca_comch_server* comch_server,
    doca_comch_event_connection_status_changed_cb_t connect_event_cb,
    doca_comch_event_connection_status_changed_cb_t disconnect_event_cb) {
    ServerContext* const server = of(comch_server);
    return server == nullptr ? DOCA_ERROR_INVALID_VALUE
                             : set_both(server, server->on_connected, generic(connect_event_cb),
                                        server->on_disconnected, generic(disconnect_event_cb));
}

doca_error_t doca_comch_server_event_consumer_register(
    doca_comch_server* comch_server, doca_comch_event_consumer_cb_t new_consumer_event_cb,
    doca_comch_event_consumer_cb_t expired_consumer_event_cb) {
    ServerContext* const server = of(comch_server);
    return server == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : set_both(server, server->on_consumer_added, generic(new_consumer_event_cb),
                          server->on_consumer_removed, generic(expired_consumer_event_cb));
}

// ---- clients ------------------------------------------------------------------------------------

doca_error_t doca_comch_client_create(doca_dev* dev, const char* name,
                                      doca_comch_client** comch_client) {
    if (comch_client == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ClientContext* client = nullptr;
    const doca_error_t result =
        guarded([&] { return ClientContext::create(dev, name, calls, client); });
    if (result == DOCA_SUCCESS) {
        *comch_client = reinterpret_cast<doca_comch_client*>(client);
    }
    return result;
}

doca_error_t doca_comch_client_destroy(doca_comch_client* comch_client) {
    return comch::doca::destroy(of(comch_client));
}

doca_ctx* doca_comch_client_as_ctx(doca_comch_client* comch_client) {
    return of(comch_client);
}

doca_error_t doca_comch_client_set_max_msg_size(doca_comch_client* comch_client, uint32_t size) {
    return comch_client == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_client)->set_message_size(size);
}

doca_error_t doca_comch_client_get_max_msg_size(const doca_comch_client* comch_client,
                                                uint32_t* size) {
    if (comch_client == nullptr || size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const ConnectionHandle* const connection = of(comch_client)->connection();
    *size = connection != nullptr && connection->core() != nullptr
                ? connection->core()->max_message_size()
                : of(comch_client)->message_size();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_set_recv_queue_size(doca_comch_client* comch_client, uint32_t size) {
    return comch_client == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_client)->set_recv_queue(size);
}

doca_error_t doca_comch_client_get_recv_queue_size(const doca_comch_client* comch_client,
                                                   uint32_t* size) {
    if (comch_client == nullptr || size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *size = of(comch_client)->recv_queue();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_get_device(const doca_comch_client* comch_client, doca_dev** dev) {
    if (comch_client == nullptr || dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dev = &of(comch_client)->device();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_client_get_connection(const doca_comch_client* comch_client,
                                              doca_comch_connection** connection) {
    if (comch_client == nullptr || connection == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ConnectionHandle* const handle = of(comch_client)->connection();
    // (Programs go on with what they did not get: then it is no handle at all.)
    *connection = handle != nullptr ? to_comch(*handle) : nullptr;
    return handle != nullptr ? DOCA_SUCCESS : DOCA_ERROR_BAD_STATE;
}

doca_error_t doca_comch_client_task_send_set_conf(
    doca_comch_client* comch_client, doca_comch_task_send_completion_cb_t task_completion_cb,
    doca_comch_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks) {
    return comch_client == nullptr ? DOCA_ERROR_INVALID_VALUE
                                   : of(comch_client)
                                         ->set_send_tasks(generic(task_completion_cb),
                                                          generic(task_error_cb), num_send_tasks);
}

doca_error_t
doca_comch_client_event_msg_recv_register(doca_comch_client* comch_client,
                                          doca_comch_event_msg_recv_cb_t recv_event_cb) {
    return comch_client == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(comch_client)->set(of(comch_client)->on_message, generic(recv_event_cb));
}

doca_error_t doca_comch_client_event_consumer_register(
    doca_comch_client* comch_client, doca_comch_event_consumer_cb_t new_consumer_event_cb,
    doca_comch_event_consumer_cb_t expired_consumer_event_cb) {
    ClientContext* const client = of(comch_client);
    return client == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : set_both(client, client->on_consumer_added, generic(new_consumer_event_cb),
                          client->on_consumer_removed, generic(expired_consumer_event_cb));
}

// ---- sending ------------------------------------------------------------------------------------

doca_error_t doca_comch_server_task_send_alloc_init(doca_comch_server* comch_server,
                                                    doca_comch_connection* peer, const void* msg,
                                                    uint32_t len, doca_comch_task_send** task) {
    return allocate_send(of(comch_server), peer, msg, len, task);
}

doca_error_t doca_comch_client_task_send_alloc_init(doca_comch_client* comch_client,
                                                    doca_comch_connection* peer, const void* msg,
                                                    uint32_t len, doca_comch_task_send** task) {
    return allocate_send(of(comch_client), peer, msg, len, task);
}

doca_task* doca_comch_task_send_as_task(doca_comch_task_send* task) {
    return reinterpret_cast<SendTask*>(task);
}
