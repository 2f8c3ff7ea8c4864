// DOCA CC in its later dialect: what it has of its own.
#define DOCA_CC_LATER_DIALECT
#include "doca_comch/cc/cc.hpp"

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
            callback(opaque<doca_cc_event_msg_recv>(&context), bytes_of(message),
                     static_cast<std::uint32_t>(message.size()), opaque<doca_cc_connection>(&from));
        },
    .connection =
        [](Callback generic, ControlContext& context, ConnectionHandle& handle, bool success) {
            const auto callback =
                reinterpret_cast<doca_cc_event_connection_status_changed_cb_t>(generic);
            callback(opaque<doca_cc_event_connection_status_changed>(&context),
                     opaque<doca_cc_connection>(&handle), success ? 1 : 0);
        },
    .consumer = report_consumer,
    .task = report_send,
};

} // namespace

// ---- control messages

doca_error_t doca_cc_server_task_send_set_conf(doca_cc_server* cc_server,
                                               doca_cc_task_send_completion_cb_t task_completion_cb,
                                               doca_cc_task_send_completion_cb_t task_error_cb,
                                               uint32_t num_send_tasks) {
    return cc_server == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : context_of(cc_server)->set_send_tasks(callback_of(task_completion_cb),
                                                       callback_of(task_error_cb), num_send_tasks);
}

doca_error_t doca_cc_server_task_send_alloc_init(doca_cc_server* cc_server,
                                                 doca_cc_connection* peer, const void* msg,
                                                 uint32_t len, doca_cc_task_send** task) {

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

doca_error_t doca_cc_client_task_send_set_conf(doca_cc_client* cc_client,
                                               doca_cc_task_send_completion_cb_t task_completion_cb,
                                               doca_cc_task_send_completion_cb_t task_error_cb,
                                               uint32_t num_send_tasks) {
    return cc_client == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : context_of(cc_client)->set_send_tasks(callback_of(task_completion_cb),
                                                       callback_of(task_error_cb), num_send_tasks);
}

doca_error_t doca_cc_client_task_send_alloc_init(doca_cc_client* cc_client,
                                                 doca_cc_connection* peer, const void* msg,
                                                 uint32_t len, doca_cc_task_send** task) {

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

doca_task* doca_cc_task_send_as_task(doca_cc_task_send* task) {
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

doca_error_t doca_cc_producer_task_send_set_conf(
    doca_cc_producer* producer, doca_cc_producer_task_send_completion_cb_t task_completion_cb,
    doca_cc_producer_task_send_completion_cb_t task_error_cb, uint32_t num_tasks) {
    return doca_comch_producer_task_send_set_conf(
        as_comch(producer),
        reinterpret_cast<doca_comch_producer_task_send_completion_cb_t>(task_completion_cb),
        reinterpret_cast<doca_comch_producer_task_send_completion_cb_t>(task_error_cb), num_tasks);
}

doca_error_t doca_cc_producer_task_send_alloc_init(doca_cc_producer* producer, doca_buf* buf,
                                                   uint32_t consumer_id,
                                                   doca_cc_producer_task_send** task) {
    return doca_comch_producer_task_send_alloc_init(
        as_comch(producer), buf, nullptr, 0, consumer_id,
        reinterpret_cast<doca_comch_producer_task_send**>(task));
}

uint32_t doca_cc_producer_task_send_get_consumer_id(const doca_cc_producer_task_send* task) {
    return doca_comch_producer_task_send_get_consumer_id(
        reinterpret_cast<const doca_comch_producer_task_send*>(task));
}

void doca_cc_producer_task_send_set_consumer_id(doca_cc_producer_task_send* task,
                                                uint32_t consumer_id) {
    doca_comch_producer_task_send_set_consumer_id(
        reinterpret_cast<doca_comch_producer_task_send*>(task), consumer_id);
}

doca_task* doca_cc_producer_task_send_as_task(doca_cc_producer_task_send* task) {
    return doca_comch_producer_task_send_as_task(
        reinterpret_cast<doca_comch_producer_task_send*>(task));
}

doca_buf* doca_cc_producer_task_send_get_buf(const doca_cc_producer_task_send* task) {
    return const_cast<doca_buf*>(doca_comch_producer_task_send_get_buf(
        reinterpret_cast<const doca_comch_producer_task_send*>(task)));
}

void doca_cc_producer_task_send_set_buf(doca_cc_producer_task_send* task, doca_buf* buf) {
    doca_comch_producer_task_send_set_buf(reinterpret_cast<doca_comch_producer_task_send*>(task),
                                          buf);
}

doca_error_t doca_cc_producer_cap_get_max_num_tasks(const doca_devinfo* devinfo,
                                                    uint32_t* max_num_tasks) {
    return doca_comch_producer_cap_get_max_num_tasks(devinfo, max_num_tasks);
}

doca_error_t doca_cc_consumer_task_post_recv_set_conf(
    doca_cc_consumer* consumer, doca_cc_consumer_task_post_recv_completion_cb_t task_completion_cb,
    doca_cc_consumer_task_post_recv_completion_cb_t task_error_cb, uint32_t num_tasks) {
    return doca_comch_consumer_task_post_recv_set_conf(
        as_comch(consumer),
        reinterpret_cast<doca_comch_consumer_task_post_recv_completion_cb_t>(task_completion_cb),
        reinterpret_cast<doca_comch_consumer_task_post_recv_completion_cb_t>(task_error_cb),
        num_tasks);
}

doca_error_t doca_cc_consumer_task_post_recv_alloc_init(doca_cc_consumer* consumer, doca_buf* buf,
                                                        doca_cc_consumer_task_post_recv** task) {
    return buf == nullptr ? DOCA_ERROR_INVALID_VALUE
                          : doca_comch_consumer_task_post_recv_alloc_init(
                                as_comch(consumer), buf,
                                reinterpret_cast<doca_comch_consumer_task_post_recv**>(task));
}

uint32_t
doca_cc_consumer_task_post_recv_get_producer_id(const doca_cc_consumer_task_post_recv* task) {
    return doca_comch_consumer_task_post_recv_get_producer_id(
        reinterpret_cast<const doca_comch_consumer_task_post_recv*>(task));
}

doca_task* doca_cc_consumer_task_post_recv_as_task(doca_cc_consumer_task_post_recv* task) {
    return doca_comch_consumer_task_post_recv_as_task(
        reinterpret_cast<doca_comch_consumer_task_post_recv*>(task));
}

doca_buf* doca_cc_consumer_task_post_recv_get_buf(const doca_cc_consumer_task_post_recv* task) {
    return doca_comch_consumer_task_post_recv_get_buf(
        reinterpret_cast<const doca_comch_consumer_task_post_recv*>(task));
}

void doca_cc_consumer_task_post_recv_set_buf(doca_cc_consumer_task_post_recv* task, doca_buf* buf) {
    doca_comch_consumer_task_post_recv_set_buf(
        reinterpret_cast<doca_comch_consumer_task_post_recv*>(task), buf);
}

doca_error_t doca_cc_consumer_cap_get_max_num_tasks(const doca_devinfo* devinfo,
                                                    uint32_t* max_num_tasks) {
    return doca_comch_consumer_cap_get_max_num_tasks(devinfo, max_num_tasks);
}
