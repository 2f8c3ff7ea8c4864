// doca_cc.h, doca_cc_producer.h and doca_cc_consumer.h: DOCA CC in the dialect that is the default,
// and what both dialects share. Servers, clients, connections, producers and consumers are
// Comch's; only how they stop and how their callbacks are called differs.
#include "doca_comch/cc/cc.hpp"

#include <bit>

using comch::doca::Callback;
using comch::doca::ConnectionHandle;
using comch::doca::ControlCalls;
using comch::doca::ControlContext;
using comch::doca::SendTask;
using namespace comch::doca::cc;

namespace {

const ControlCalls calls{
    .message =
        [](ControlContext& context, ConnectionHandle& from, std::span<const std::byte> message) {
            const auto callback = reinterpret_cast<doca_cc_event_msg_recv_cb_t>(context.on_message);
            callback(opaque<doca_cc_event_msg_recv>(&context), bytes_of(message), message.size(),
                     opaque<doca_cc_connection>(&from));
        },
    .connection =
        [](Callback generic, ControlContext& context, ConnectionHandle& handle, bool success) {
            const auto callback =
                reinterpret_cast<doca_cc_event_connection_status_changed_cb_t>(generic);
            callback(opaque<doca_cc_event_connection_status_changed>(&context),
                     opaque<doca_cc_connection>(&handle), success);
        },
    .consumer = report_consumer,
    .task = report_send,
};

/// 2 to the power of a task count's logarithm; 0 if there are not so many.
std::uint32_t count_of(std::uint8_t log) {
    return log < 32 ? std::uint32_t{1} << log : 0;
}

doca_error_t logarithm(doca_error_t result, std::uint32_t* value) {
    if (result == DOCA_SUCCESS) {
        *value = static_cast<std::uint32_t>(std::bit_width(*value)) - 1;
    }
    return result;
}

} // namespace

// ---- the same as Comch

doca_error_t doca_cc_connection_set_user_data(doca_cc_connection* connection, doca_data user_data) {
    return doca_comch_connection_set_user_data(as_comch(connection), user_data);
}

doca_data doca_cc_connection_get_user_data(const doca_cc_connection* connection) {
    return doca_comch_connection_get_user_data(as_comch(connection));
}

doca_error_t doca_cc_connection_update_info(doca_cc_connection* cc_connection) {
    return doca_comch_connection_update_info(as_comch(cc_connection));
}

doca_error_t doca_cc_cap_server_is_supported(const doca_devinfo* devinfo) {
    return doca_comch_cap_server_is_supported(devinfo);
}

doca_error_t doca_cc_cap_client_is_supported(const doca_devinfo* devinfo) {
    return doca_comch_cap_client_is_supported(devinfo);
}

doca_error_t doca_cc_cap_is_producer_supported(const doca_devinfo* devinfo) {
    return doca_comch_producer_cap_is_supported(devinfo);
}

doca_error_t doca_cc_cap_is_consumer_supported(const doca_devinfo* devinfo) {
    return doca_comch_consumer_cap_is_supported(devinfo);
}

doca_error_t doca_cc_cap_get_max_name_len(const doca_devinfo* devinfo, uint32_t* max_name_len) {
    return doca_comch_cap_get_max_name_len(devinfo, max_name_len);
}

doca_error_t doca_cc_cap_get_max_msg_size(const doca_devinfo* devinfo, uint32_t* size) {
    return doca_comch_cap_get_max_msg_size(devinfo, size);
}

doca_error_t doca_cc_cap_get_max_recv_queue_size(const doca_devinfo* devinfo, uint32_t* size) {
    return doca_comch_cap_get_max_recv_queue_size(devinfo, size);
}

doca_error_t doca_cc_cap_get_max_send_tasks(const doca_devinfo* devinfo, uint32_t* max_send_tasks) {
    return doca_comch_cap_get_max_send_tasks(devinfo, max_send_tasks);
}

doca_error_t doca_cc_cap_get_max_clients(const doca_devinfo* devinfo, uint32_t* num_clients) {
    return doca_comch_cap_get_max_clients(devinfo, num_clients);
}

doca_error_t doca_cc_producer_cap_get_max_buf_size(const doca_devinfo* devinfo,
                                                   uint32_t* max_buf_size) {
    return doca_comch_producer_cap_get_max_buf_size(devinfo, max_buf_size);
}

doca_error_t doca_cc_consumer_cap_get_max_buf_size(const doca_devinfo* devinfo,
                                                   uint32_t* max_buf_size) {
    return doca_comch_consumer_cap_get_max_buf_size(devinfo, max_buf_size);
}

doca_error_t doca_cc_producer_cap_is_supported(const doca_devinfo* devinfo) {
    return doca_cc_cap_is_producer_supported(devinfo);
}

doca_error_t doca_cc_consumer_cap_is_supported(const doca_devinfo* devinfo) {
    return doca_cc_cap_is_consumer_supported(devinfo);
}

doca_error_t doca_cc_producer_cap_get_max_producers(const doca_devinfo* devinfo,
                                                    uint32_t* max_producers) {
    return doca_comch_producer_cap_get_max_producers(devinfo, max_producers);
}

doca_error_t doca_cc_consumer_cap_get_max_consumers(const doca_devinfo* devinfo,
                                                    uint32_t* max_consumers) {
    return doca_comch_consumer_cap_get_max_consumers(devinfo, max_consumers);
}

doca_error_t doca_cc_server_destroy(doca_cc_server* cc_server) {
    return doca_comch_server_destroy(as_comch(cc_server));
}

doca_ctx* doca_cc_server_as_ctx(doca_cc_server* cc_server) {
    return doca_comch_server_as_ctx(as_comch(cc_server));
}

doca_error_t doca_cc_server_get_device(const doca_cc_server* cc_server, doca_dev** dev) {
    return doca_comch_server_get_device(as_comch(cc_server), dev);
}

doca_error_t doca_cc_server_set_max_msg_size(doca_cc_server* cc_server, uint32_t size) {
    return doca_comch_server_set_max_msg_size(as_comch(cc_server), size);
}

doca_error_t doca_cc_server_get_max_msg_size(const doca_cc_server* cc_server, uint32_t* size) {
    return doca_comch_server_get_max_msg_size(as_comch(cc_server), size);
}

doca_error_t doca_cc_server_set_recv_queue_size(doca_cc_server* cc_server, uint32_t size) {
    return doca_comch_server_set_recv_queue_size(as_comch(cc_server), size);
}

doca_error_t doca_cc_server_get_recv_queue_size(const doca_cc_server* cc_server, uint32_t* size) {
    return doca_comch_server_get_recv_queue_size(as_comch(cc_server), size);
}

doca_error_t doca_cc_client_destroy(doca_cc_client* cc_client) {
    return doca_comch_client_destroy(as_comch(cc_client));
}

doca_ctx* doca_cc_client_as_ctx(doca_cc_client* cc_client) {
    return doca_comch_client_as_ctx(as_comch(cc_client));
}

doca_error_t doca_cc_client_get_device(const doca_cc_client* cc_client, doca_dev** dev) {
    return doca_comch_client_get_device(as_comch(cc_client), dev);
}

doca_error_t doca_cc_client_set_max_msg_size(doca_cc_client* cc_client, uint32_t size) {
    return doca_comch_client_set_max_msg_size(as_comch(cc_client), size);
}

doca_error_t doca_cc_client_get_max_msg_size(const doca_cc_client* cc_client, uint32_t* size) {
    return doca_comch_client_get_max_msg_size(as_comch(cc_client), size);
}

doca_error_t doca_cc_client_set_recv_queue_size(doca_cc_client* cc_client, uint32_t size) {
    return doca_comch_client_set_recv_queue_size(as_comch(cc_client), size);
}

doca_error_t doca_cc_client_get_recv_queue_size(const doca_cc_client* cc_client, uint32_t* size) {
    return doca_comch_client_get_recv_queue_size(as_comch(cc_client), size);
}

doca_error_t doca_cc_producer_destroy(doca_cc_producer* producer) {
    return doca_comch_producer_destroy(as_comch(producer));
}

doca_ctx* doca_cc_producer_as_ctx(doca_cc_producer* producer) {
    return doca_comch_producer_as_ctx(as_comch(producer));
}

doca_error_t doca_cc_producer_get_id(const doca_cc_producer* producer, uint32_t* id) {
    return doca_comch_producer_get_id(as_comch(producer), id);
}

doca_error_t doca_cc_consumer_destroy(doca_cc_consumer* consumer) {
    return doca_comch_consumer_destroy(as_comch(consumer));
}

doca_ctx* doca_cc_consumer_as_ctx(doca_cc_consumer* consumer) {
    return doca_comch_consumer_as_ctx(as_comch(consumer));
}

doca_error_t doca_cc_consumer_get_id(const doca_cc_consumer* consumer, uint32_t* id) {
    return doca_comch_consumer_get_id(as_comch(consumer), id);
}

doca_error_t doca_cc_server_get_device_rep(const doca_cc_server* cc_server, doca_dev_rep** rep) {
    return doca_comch_server_get_device_rep(as_comch(cc_server), rep);
}

doca_error_t doca_cc_server_get_device_repr(const doca_cc_server* cc_server, doca_dev_rep** repr) {
    return doca_cc_server_get_device_rep(cc_server, repr);
}

doca_error_t doca_cc_server_disconnect(doca_cc_server* cc_server, doca_cc_connection* connection) {
    return doca_comch_server_disconnect(as_comch(cc_server), as_comch(connection));
}

doca_error_t doca_cc_client_get_connection(const doca_cc_client* cc_client,
                                           doca_cc_connection** connection) {
    return doca_comch_client_get_connection(as_comch(cc_client), as_comch(connection));
}

doca_error_t doca_cc_connection_get_counter(const doca_cc_connection* cc_connection,
                                            doca_cc_counter counter_type, uint64_t* counter_value) {
    return doca_comch_connection_get_counter(
        as_comch(cc_connection), static_cast<doca_comch_counter>(counter_type), counter_value);
}

doca_cc_server* doca_cc_server_get_server_ctx(const doca_cc_connection* connection) {
    return opaque<doca_cc_server>(doca_comch_server_get_server_ctx(as_comch(connection)));
}

doca_cc_client* doca_cc_client_get_client_ctx(const doca_cc_connection* connection) {
    return opaque<doca_cc_client>(doca_comch_client_get_client_ctx(as_comch(connection)));
}

// ---- creating

doca_error_t doca_cc_server_create(doca_dev* dev, doca_dev_rep* repr, const char* name,
                                   doca_cc_server** cc_server) {
    const doca_error_t result = doca_comch_server_create(dev, repr, name, as_comch(cc_server));
    if (result == DOCA_SUCCESS) {
        prepare(*cc_server).use(calls);
    }
    return result;
}

doca_error_t doca_cc_client_create(doca_dev* dev, const char* name, doca_cc_client** cc_client) {
    const doca_error_t result = doca_comch_client_create(dev, name, as_comch(cc_client));
    if (result == DOCA_SUCCESS) {
        prepare(*cc_client).use(calls);
    }
    return result;
}

doca_error_t doca_cc_producer_create(doca_cc_connection* cc_connection,
                                     doca_cc_producer** producer) {
    const doca_error_t result =
        doca_comch_producer_create(as_comch(cc_connection), as_comch(producer));
    if (result == DOCA_SUCCESS) {
        doca_cc_producer_as_ctx(*producer)->lenient = true;
    }
    return result;
}

doca_error_t doca_cc_consumer_create(doca_cc_connection* cc_connection, doca_mmap* buf_mmap,
                                     doca_cc_consumer** consumer) {
    const doca_error_t result =
        doca_comch_consumer_create(as_comch(cc_connection), buf_mmap, as_comch(consumer));
    if (result == DOCA_SUCCESS) {
        doca_cc_consumer_as_ctx(*consumer)->lenient = true;
    }
    return result;
}

// ---- control messages

doca_error_t doca_cc_server_send_task_set_conf(doca_cc_server* cc_server,
                                               doca_cc_send_task_completion_cb_t task_completion_cb,
                                               doca_cc_send_task_completion_cb_t task_error_cb,
                                               uint32_t num_send_tasks) {
    return cc_server == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : context_of(cc_server)->set_send_tasks(callback_of(task_completion_cb),
                                                       callback_of(task_error_cb), num_send_tasks);
}

doca_error_t doca_cc_server_send_task_alloc_init(doca_cc_server* cc_server,
                                                 doca_cc_connection* peer, void* msg, size_t len,
                                                 doca_cc_send_task** task) {
    if (len > UINT32_MAX) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return doca_comch_server_task_send_alloc_init(as_comch(cc_server), as_comch(peer), msg,
                                                  static_cast<uint32_t>(len),
                                                  reinterpret_cast<doca_comch_task_send**>(task));
}

doca_error_t doca_cc_server_event_msg_recv_register(doca_cc_server* cc_server,
                                                    doca_cc_event_msg_recv_cb_t recv_event_cb) {
    if (cc_server == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    context_of(cc_server)->use(calls);
    return context_of(cc_server)->set(context_of(cc_server)->on_message,
                                      callback_of(recv_event_cb));
}

doca_error_t
doca_cc_server_event_consumer_register(doca_cc_server* cc_server,
                                       doca_cc_event_consumer_cb_t new_consumer_event_cb,
                                       doca_cc_event_consumer_cb_t expired_consumer_event_cb) {
    return doca_comch_server_event_consumer_register(
        as_comch(cc_server),
        reinterpret_cast<doca_comch_event_consumer_cb_t>(new_consumer_event_cb),
        reinterpret_cast<doca_comch_event_consumer_cb_t>(expired_consumer_event_cb));
}

doca_error_t doca_cc_client_send_task_set_conf(doca_cc_client* cc_client,
                                               doca_cc_send_task_completion_cb_t task_completion_cb,
                                               doca_cc_send_task_completion_cb_t task_error_cb,
                                               uint32_t num_send_tasks) {
    return cc_client == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : context_of(cc_client)->set_send_tasks(callback_of(task_completion_cb),
                                                       callback_of(task_error_cb), num_send_tasks);
}

doca_error_t doca_cc_client_send_task_alloc_init(doca_cc_client* cc_client,
                                                 doca_cc_connection* peer, void* msg, size_t len,
                                                 doca_cc_send_task** task) {
    if (len > UINT32_MAX) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return doca_comch_client_task_send_alloc_init(as_comch(cc_client), as_comch(peer), msg,
                                                  static_cast<uint32_t>(len),
                                                  reinterpret_cast<doca_comch_task_send**>(task));
}

doca_error_t doca_cc_client_event_msg_recv_register(doca_cc_client* cc_client,
                                                    doca_cc_event_msg_recv_cb_t recv_event_cb) {
    if (cc_client == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    context_of(cc_client)->use(calls);
    return context_of(cc_client)->set(context_of(cc_client)->on_message,
                                      callback_of(recv_event_cb));
}

doca_error_t
doca_cc_client_event_consumer_register(doca_cc_client* cc_client,
                                       doca_cc_event_consumer_cb_t new_consumer_event_cb,
                                       doca_cc_event_consumer_cb_t expired_consumer_event_cb) {
    return doca_comch_client_event_consumer_register(
        as_comch(cc_client),
        reinterpret_cast<doca_comch_event_consumer_cb_t>(new_consumer_event_cb),
        reinterpret_cast<doca_comch_event_consumer_cb_t>(expired_consumer_event_cb));
}

doca_task* doca_cc_send_task_as_task(doca_cc_send_task* task) {
    return reinterpret_cast<SendTask*>(task);
}

doca_error_t doca_cc_server_event_connection_register(
    doca_cc_server* cc_server, doca_cc_event_connection_status_changed_cb_t connect_event_cb,
    doca_cc_event_connection_status_changed_cb_t disconnect_event_cb) {
    if (cc_server == nullptr || connect_event_cb == nullptr || disconnect_event_cb == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ControlContext& context = *context_of(cc_server);
    context.use(calls);
    const doca_error_t result = context.set(context.on_connected, callback_of(connect_event_cb));
    return result == DOCA_SUCCESS
               ? context.set(context.on_disconnected, callback_of(disconnect_event_cb))
               : result;
}

// ---- the fast path

doca_error_t doca_cc_producer_send_task_set_conf(
    doca_cc_producer* producer, doca_cc_producer_send_task_completion_cb_t task_completion_cb,
    doca_cc_producer_send_task_completion_cb_t task_error_cb, uint8_t log_num_tasks) {
    return doca_comch_producer_task_send_set_conf(
        as_comch(producer),
        reinterpret_cast<doca_comch_producer_task_send_completion_cb_t>(task_completion_cb),
        reinterpret_cast<doca_comch_producer_task_send_completion_cb_t>(task_error_cb),
        count_of(log_num_tasks));
}

doca_error_t doca_cc_producer_send_task_alloc_init(doca_cc_producer* producer, const doca_buf* buf,
                                                   uint32_t consumer_id,
                                                   doca_cc_producer_send_task** task) {
    return doca_comch_producer_task_send_alloc_init(
        as_comch(producer), buf, nullptr, 0, consumer_id,
        reinterpret_cast<doca_comch_producer_task_send**>(task));
}

uint32_t doca_cc_producer_send_task_get_consumer_id(const doca_cc_producer_send_task* task) {
    return doca_comch_producer_task_send_get_consumer_id(
        reinterpret_cast<const doca_comch_producer_task_send*>(task));
}

void doca_cc_producer_send_task_set_consumer_id(doca_cc_producer_send_task* task,
                                                uint32_t consumer_id) {
    doca_comch_producer_task_send_set_consumer_id(
        reinterpret_cast<doca_comch_producer_task_send*>(task), consumer_id);
}

doca_task* doca_cc_producer_send_task_as_task(doca_cc_producer_send_task* task) {
    return doca_comch_producer_task_send_as_task(
        reinterpret_cast<doca_comch_producer_task_send*>(task));
}

doca_buf* doca_cc_producer_send_task_get_buf(const doca_cc_producer_send_task* task) {
    return const_cast<doca_buf*>(doca_comch_producer_task_send_get_buf(
        reinterpret_cast<const doca_comch_producer_task_send*>(task)));
}

void doca_cc_producer_send_task_set_buf(doca_cc_producer_send_task* task, doca_buf* buf) {
    doca_comch_producer_task_send_set_buf(reinterpret_cast<doca_comch_producer_task_send*>(task),
                                          buf);
}

doca_error_t doca_cc_producer_cap_get_max_log_num_tasks(const doca_devinfo* devinfo,
                                                        uint32_t* max_log_num_tasks) {
    return logarithm(doca_comch_producer_cap_get_max_num_tasks(devinfo, max_log_num_tasks),
                     max_log_num_tasks);
}

doca_error_t doca_cc_consumer_post_recv_task_set_conf(
    doca_cc_consumer* consumer, doca_cc_consumer_post_recv_task_completion_cb_t task_completion_cb,
    doca_cc_consumer_post_recv_task_completion_cb_t task_error_cb, uint8_t log_num_tasks) {
    return doca_comch_consumer_task_post_recv_set_conf(
        as_comch(consumer),
        reinterpret_cast<doca_comch_consumer_task_post_recv_completion_cb_t>(task_completion_cb),
        reinterpret_cast<doca_comch_consumer_task_post_recv_completion_cb_t>(task_error_cb),
        count_of(log_num_tasks));
}

doca_error_t doca_cc_consumer_post_recv_task_alloc_init(doca_cc_consumer* consumer, doca_buf* buf,
                                                        doca_cc_consumer_post_recv_task** task) {
    return buf == nullptr ? DOCA_ERROR_INVALID_VALUE
                          : doca_comch_consumer_task_post_recv_alloc_init(
                                as_comch(consumer), buf,
                                reinterpret_cast<doca_comch_consumer_task_post_recv**>(task));
}

uint32_t
doca_cc_consumer_post_recv_task_get_producer_id(const doca_cc_consumer_post_recv_task* task) {
    return doca_comch_consumer_task_post_recv_get_producer_id(
        reinterpret_cast<const doca_comch_consumer_task_post_recv*>(task));
}

doca_task* doca_cc_consumer_post_recv_task_as_task(doca_cc_consumer_post_recv_task* task) {
    return doca_comch_consumer_task_post_recv_as_task(
        reinterpret_cast<doca_comch_consumer_task_post_recv*>(task));
}

doca_buf* doca_cc_consumer_post_recv_task_get_buf(const doca_cc_consumer_post_recv_task* task) {
    return doca_comch_consumer_task_post_recv_get_buf(
        reinterpret_cast<const doca_comch_consumer_task_post_recv*>(task));
}

void doca_cc_consumer_post_recv_task_set_buf(doca_cc_consumer_post_recv_task* task, doca_buf* buf) {
    doca_comch_consumer_task_post_recv_set_buf(
        reinterpret_cast<doca_comch_consumer_task_post_recv*>(task), buf);
}

doca_error_t doca_cc_consumer_cap_get_max_log_num_tasks(const doca_devinfo* devinfo,
                                                        uint32_t* max_log_num_tasks) {
    return logarithm(doca_comch_consumer_cap_get_max_num_tasks(devinfo, max_log_num_tasks),
                     max_log_num_tasks);
}
