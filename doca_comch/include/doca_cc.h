/*
 * DOCA CC: the generation between the 2023 Comm Channel and Comch. Servers on the DPU, clients on
 * the host, connections, control messages, and the fast path's producers and consumers
 * (doca_cc_producer.h, doca_cc_consumer.h).
 *
 * Two dialects were published. The first is the default:
 *   tasks are doca_cc_<object>_<what>_task_*, the fast path's task counts are logarithms (base 2);
 *   callbacks take size_t and bool.
 * With DOCA_CC_LATER_DIALECT defined: tasks are doca_cc_<object>_task_<what>_*, counts are plain,
 * callbacks take uint32_t and uint8_t.
 *
 * States are as in doca_ctx.h, but stop answers SUCCESS when nothing is outstanding; and while a
 * context is stopping, tasks are accepted, and end with an error. Mandatory and optional settings
 * are as in doca_comch.h.
 */
#ifndef DOCA_CC_H_
#define DOCA_CC_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_ctx.h>
#include <doca_error.h>
#include <doca_pe.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_cc_client;
struct doca_cc_connection;
struct doca_cc_event_connection_status_changed;
struct doca_cc_event_consumer;
struct doca_cc_event_msg_recv;
struct doca_cc_server;
struct doca_dev;
struct doca_dev_rep;
struct doca_devinfo;

/* ---- connections: valid until the disconnect callback has returned -----------------------------
 */

DOCA_EXPERIMENTAL doca_error_t
doca_cc_connection_set_user_data(struct doca_cc_connection* connection, union doca_data user_data);
DOCA_EXPERIMENTAL union doca_data
doca_cc_connection_get_user_data(const struct doca_cc_connection* connection);
DOCA_EXPERIMENTAL struct doca_cc_server*
doca_cc_server_get_server_ctx(const struct doca_cc_connection* connection);
DOCA_EXPERIMENTAL struct doca_cc_client*
doca_cc_client_get_client_ctx(const struct doca_cc_connection* connection);

enum doca_cc_counter {
    DOCA_CC_COUNTER_SENT_MESSAGES = 1,
    DOCA_CC_COUNTER_SENT_BYTES = 2,
    DOCA_CC_COUNTER_RECV_MESSAGES = 3,
    DOCA_CC_COUNTER_RECV_BYTES = 4
};
DOCA_EXPERIMENTAL doca_error_t
doca_cc_connection_update_info(struct doca_cc_connection* cc_connection);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_connection_get_counter(const struct doca_cc_connection* cc_connection,
                               enum doca_cc_counter counter_type, uint64_t* counter_value);

/* ---- what a device can do: NOT_SUPPORTED, or SUCCESS --------------------------------------------
 */

DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_server_is_supported(const struct doca_devinfo* devinfo);
DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_client_is_supported(const struct doca_devinfo* devinfo);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_cap_is_producer_supported(const struct doca_devinfo* devinfo);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_cap_is_consumer_supported(const struct doca_devinfo* devinfo);
DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_get_max_name_len(const struct doca_devinfo* devinfo,
                                                            uint32_t* max_name_len);
DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_get_max_msg_size(const struct doca_devinfo* devinfo,
                                                            uint32_t* size);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_cap_get_max_recv_queue_size(const struct doca_devinfo* devinfo, uint32_t* size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_get_max_send_tasks(const struct doca_devinfo* devinfo,
                                                              uint32_t* max_send_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_cap_get_max_clients(const struct doca_devinfo* devinfo,
                                                           uint32_t* num_clients);

/* ---- servers and clients: see doca_comch.h ------------------------------------------------------
 */

DOCA_EXPERIMENTAL doca_error_t doca_cc_server_create(struct doca_dev* dev,
                                                     struct doca_dev_rep* repr, const char* name,
                                                     struct doca_cc_server** cc_server);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_destroy(struct doca_cc_server* cc_server);
DOCA_EXPERIMENTAL struct doca_ctx* doca_cc_server_as_ctx(struct doca_cc_server* cc_server);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_disconnect(struct doca_cc_server* cc_server,
                                                         struct doca_cc_connection* connection);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_get_device(const struct doca_cc_server* cc_server,
                                                         struct doca_dev** dev);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_get_device_rep(const struct doca_cc_server* cc_server,
                                                             struct doca_dev_rep** rep);
/* The same, as it was published. */
DOCA_EXPERIMENTAL doca_error_t
doca_cc_server_get_device_repr(const struct doca_cc_server* cc_server, struct doca_dev_rep** repr);

DOCA_EXPERIMENTAL doca_error_t doca_cc_client_create(struct doca_dev* dev, const char* name,
                                                     struct doca_cc_client** cc_client);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_destroy(struct doca_cc_client* cc_client);
DOCA_EXPERIMENTAL struct doca_ctx* doca_cc_client_as_ctx(struct doca_cc_client* cc_client);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_get_device(const struct doca_cc_client* cc_client,
                                                         struct doca_dev** dev);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_get_connection(
    const struct doca_cc_client* cc_client, struct doca_cc_connection** connection);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_set_max_msg_size(struct doca_cc_server* cc_server,
                                                               uint32_t size);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_server_get_max_msg_size(const struct doca_cc_server* cc_server, uint32_t* size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_set_recv_queue_size(struct doca_cc_server* cc_server,
                                                                  uint32_t size);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_server_get_recv_queue_size(const struct doca_cc_server* cc_server, uint32_t* size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_set_max_msg_size(struct doca_cc_client* cc_client,
                                                               uint32_t size);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_client_get_max_msg_size(const struct doca_cc_client* cc_client, uint32_t* size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_set_recv_queue_size(struct doca_cc_client* cc_client,
                                                                  uint32_t size);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_client_get_recv_queue_size(const struct doca_cc_client* cc_client, uint32_t* size);

/* ---- sending and events -------------------------------------------------------------------------
 */

#ifdef DOCA_CC_LATER_DIALECT
/* What differs in its callbacks' types only has a symbol of its own in the library. */

struct doca_cc_task_send;

typedef void (*doca_cc_task_send_completion_cb_t)(struct doca_cc_task_send* task,
                                                  union doca_data task_user_data,
                                                  union doca_data ctx_user_data);
typedef void (*doca_cc_event_msg_recv_cb_t)(struct doca_cc_event_msg_recv* event,
                                            uint8_t* recv_buffer, uint32_t msg_len,
                                            struct doca_cc_connection* cc_connection);
typedef void (*doca_cc_event_connection_status_changed_cb_t)(
    struct doca_cc_event_connection_status_changed* event, struct doca_cc_connection* cc_connection,
    uint8_t change_successful);
typedef void (*doca_cc_event_consumer_cb_t)(struct doca_cc_event_consumer* event,
                                            struct doca_cc_connection* cc_connection, uint32_t id);

DOCA_EXPERIMENTAL doca_error_t doca_cc_server_task_send_set_conf(
    struct doca_cc_server* cc_server, doca_cc_task_send_completion_cb_t task_completion_cb,
    doca_cc_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_task_send_alloc_init(struct doca_cc_server* cc_server,
                                                                   struct doca_cc_connection* peer,
                                                                   const void* msg, uint32_t len,
                                                                   struct doca_cc_task_send** task);

DOCA_EXPERIMENTAL doca_error_t doca_cc_client_task_send_set_conf(
    struct doca_cc_client* cc_client, doca_cc_task_send_completion_cb_t task_completion_cb,
    doca_cc_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_task_send_alloc_init(struct doca_cc_client* cc_client,
                                                                   struct doca_cc_connection* peer,
                                                                   const void* msg, uint32_t len,
                                                                   struct doca_cc_task_send** task);
DOCA_EXPERIMENTAL struct doca_task* doca_cc_task_send_as_task(struct doca_cc_task_send* task);

DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_msg_recv_register(
    struct doca_cc_server* cc_server,
    doca_cc_event_msg_recv_cb_t
        recv_event_cb) __asm__("doca_cc_server_event_msg_recv_register_later");
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_consumer_register(
    struct doca_cc_server* cc_server, doca_cc_event_consumer_cb_t new_consumer_event_cb,
    doca_cc_event_consumer_cb_t expired_consumer_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_event_msg_recv_register(
    struct doca_cc_client* cc_client,
    doca_cc_event_msg_recv_cb_t
        recv_event_cb) __asm__("doca_cc_client_event_msg_recv_register_later");
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_event_consumer_register(
    struct doca_cc_client* cc_client, doca_cc_event_consumer_cb_t new_consumer_event_cb,
    doca_cc_event_consumer_cb_t expired_consumer_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_connection_register(
    struct doca_cc_server* cc_server, doca_cc_event_connection_status_changed_cb_t connect_event_cb,
    doca_cc_event_connection_status_changed_cb_t
        disconnect_event_cb) __asm__("doca_cc_server_event_connection_register_later");

#else

struct doca_cc_send_task;

typedef void (*doca_cc_send_task_completion_cb_t)(struct doca_cc_send_task* task,
                                                  union doca_data task_user_data,
                                                  union doca_data ctx_user_data);
typedef void (*doca_cc_event_msg_recv_cb_t)(struct doca_cc_event_msg_recv* event,
                                            uint8_t* recv_buffer, size_t msg_len,
                                            struct doca_cc_connection* cc_connection);
typedef void (*doca_cc_event_connection_status_changed_cb_t)(
    struct doca_cc_event_connection_status_changed* event, struct doca_cc_connection* cc_connection,
    bool change_successful);
typedef void (*doca_cc_event_consumer_cb_t)(struct doca_cc_event_consumer* event,
                                            struct doca_cc_connection* cc_connection, uint32_t id);

DOCA_EXPERIMENTAL doca_error_t doca_cc_server_send_task_set_conf(
    struct doca_cc_server* cc_server, doca_cc_send_task_completion_cb_t task_completion_cb,
    doca_cc_send_task_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_send_task_alloc_init(struct doca_cc_server* cc_server,
                                                                   struct doca_cc_connection* peer,
                                                                   void* msg, size_t len,
                                                                   struct doca_cc_send_task** task);

DOCA_EXPERIMENTAL doca_error_t doca_cc_client_send_task_set_conf(
    struct doca_cc_client* cc_client, doca_cc_send_task_completion_cb_t task_completion_cb,
    doca_cc_send_task_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_send_task_alloc_init(struct doca_cc_client* cc_client,
                                                                   struct doca_cc_connection* peer,
                                                                   void* msg, size_t len,
                                                                   struct doca_cc_send_task** task);
DOCA_EXPERIMENTAL struct doca_task* doca_cc_send_task_as_task(struct doca_cc_send_task* task);

DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_msg_recv_register(
    struct doca_cc_server* cc_server, doca_cc_event_msg_recv_cb_t recv_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_consumer_register(
    struct doca_cc_server* cc_server, doca_cc_event_consumer_cb_t new_consumer_event_cb,
    doca_cc_event_consumer_cb_t expired_consumer_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_event_msg_recv_register(
    struct doca_cc_client* cc_client, doca_cc_event_msg_recv_cb_t recv_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_client_event_consumer_register(
    struct doca_cc_client* cc_client, doca_cc_event_consumer_cb_t new_consumer_event_cb,
    doca_cc_event_consumer_cb_t expired_consumer_event_cb);
DOCA_EXPERIMENTAL doca_error_t doca_cc_server_event_connection_register(
    struct doca_cc_server* cc_server, doca_cc_event_connection_status_changed_cb_t connect_event_cb,
    doca_cc_event_connection_status_changed_cb_t disconnect_event_cb);

#endif

#ifdef __cplusplus
}
#endif

#endif
