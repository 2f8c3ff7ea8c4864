/*
 * Comch: servers on the DPU, clients on the host, and the connections between them.
 *
 * A server listens under a name that is unique for its device and representor; clients of the host
 * function that the representor stands for reach it by that exact name. On a connection both ends
 * send control messages, and open producers and consumers (doca_comch_producer.h,
 * doca_comch_consumer.h) for the fast path.
 *
 * Mandatory before start: the tasks' configuration and the callback for messages; for a server
 * also the callbacks for connections.
 *
 * Start: a server is running (SUCCESS); a client is starting (IN_PROGRESS), and progress makes it
 * running, or idle if it could not connect. Losing the server makes a client stopping, then idle.
 * Stop: IN_PROGRESS; IN_USE while producers or consumers of a connection are not idle. What was
 * submitted before a stop or disconnect is delivered first.
 */
#ifndef DOCA_COMCH_H_
#define DOCA_COMCH_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_ctx.h>
#include <doca_error.h>
#include <doca_pe.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_comch_client;
struct doca_comch_connection;
struct doca_comch_event_connection_status_changed;
struct doca_comch_event_consumer;
struct doca_comch_event_msg_recv;
struct doca_comch_server;
struct doca_comch_task_send;
struct doca_dev;
struct doca_dev_rep;
struct doca_devinfo;

/* A send is complete: the message is with the other end. On errors it is not, or nobody knows. */
typedef void (*doca_comch_task_send_completion_cb_t)(struct doca_comch_task_send *task,
                                                     union doca_data task_user_data,
                                                     union doca_data ctx_user_data);

/* A message. The bytes are valid inside the call only. */
typedef void (*doca_comch_event_msg_recv_cb_t)(struct doca_comch_event_msg_recv *event,
                                               uint8_t *recv_buffer, uint32_t msg_len,
                                               struct doca_comch_connection *comch_connection);

/* A client has connected, or is gone. `change_successful` is 1, but: 0 on connecting says that a
 * client was turned away (then the connection is good for nothing), and 0 on disconnecting that the
 * connection did not end in an orderly way: its process died or broke the protocol. */
typedef void (*doca_comch_event_connection_status_changed_cb_t)(
    struct doca_comch_event_connection_status_changed *event,
    struct doca_comch_connection *comch_connection, uint8_t change_successful);

/* A consumer of the other end can be sent to from now on, or not any more. */
typedef void (*doca_comch_event_consumer_cb_t)(struct doca_comch_event_consumer *event,
                                               struct doca_comch_connection *comch_connection,
                                               uint32_t id);

/* ---- connections ------------------------------------------------------------------------------ */

/* A connection is valid until its disconnect callback has returned (on a client: until it is idle);
 * later uses are told NOT_CONNECTED. */
DOCA_STABLE doca_error_t doca_comch_connection_set_user_data(
    struct doca_comch_connection *connection, union doca_data user_data);
DOCA_STABLE union doca_data doca_comch_connection_get_user_data(
    const struct doca_comch_connection *connection);
/* The server or client that the connection is of; null if it is of the other kind. */
DOCA_STABLE struct doca_comch_server *doca_comch_server_get_server_ctx(
    const struct doca_comch_connection *connection);
DOCA_STABLE struct doca_comch_client *doca_comch_client_get_client_ctx(
    const struct doca_comch_connection *connection);

enum doca_comch_counter {
    DOCA_COMCH_COUNTER_SENT_MESSAGES = 1,
    DOCA_COMCH_COUNTER_SENT_BYTES = 2,
    DOCA_COMCH_COUNTER_RECV_MESSAGES = 3,
    DOCA_COMCH_COUNTER_RECV_BYTES = 4
};
/* Takes a snapshot of the counters; get_counter reads it. CONNECTION_ABORTED: the connection has
 * ended. */
DOCA_STABLE doca_error_t doca_comch_connection_update_info(
    struct doca_comch_connection *comch_connection);
DOCA_STABLE doca_error_t doca_comch_connection_get_counter(
    const struct doca_comch_connection *comch_connection, enum doca_comch_counter counter_type,
    uint64_t *counter_value);

/* ---- what a device can do --------------------------------------------------------------------- */

/* NOT_SUPPORTED: not on this side. */
DOCA_STABLE doca_error_t doca_comch_cap_server_is_supported(const struct doca_devinfo *devinfo);
DOCA_STABLE doca_error_t doca_comch_cap_client_is_supported(const struct doca_devinfo *devinfo);
/* With the NUL. */
DOCA_STABLE doca_error_t doca_comch_cap_get_max_name_len(const struct doca_devinfo *devinfo,
                                                         uint32_t *max_name_len);
DOCA_STABLE doca_error_t doca_comch_cap_get_max_msg_size(const struct doca_devinfo *devinfo,
                                                         uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_cap_get_max_recv_queue_size(const struct doca_devinfo *devinfo,
                                                                uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_cap_get_max_send_tasks(const struct doca_devinfo *devinfo,
                                                           uint32_t *max_send_tasks);
DOCA_STABLE doca_error_t doca_comch_cap_get_max_clients(const struct doca_devinfo *devinfo,
                                                        uint32_t *num_clients);

/* ---- servers ---------------------------------------------------------------------------------- */

/* NOT_SUPPORTED: the device is not the DPU's. INVALID_VALUE: the name is empty or too long. */
DOCA_STABLE doca_error_t doca_comch_server_create(struct doca_dev *dev, struct doca_dev_rep *repr,
                                                  const char *name,
                                                  struct doca_comch_server **comch_server);
/* BAD_STATE: not idle. */
DOCA_STABLE doca_error_t doca_comch_server_destroy(struct doca_comch_server *comch_server);
DOCA_STABLE struct doca_ctx *doca_comch_server_as_ctx(struct doca_comch_server *comch_server);

/* Setters: BAD_STATE when not idle; INVALID_VALUE: 0, or above what the device can do. A maximum
 * message size that both ends set must be the same, or the connection is refused. An end that sets
 * none takes the other's: a connected client's getter tells what holds. */
DOCA_STABLE doca_error_t doca_comch_server_set_max_msg_size(struct doca_comch_server *comch_server,
                                                            uint32_t size);
DOCA_STABLE doca_error_t doca_comch_server_get_max_msg_size(
    const struct doca_comch_server *comch_server, uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_server_set_recv_queue_size(
    struct doca_comch_server *comch_server, uint32_t size);
DOCA_STABLE doca_error_t doca_comch_server_get_recv_queue_size(
    const struct doca_comch_server *comch_server, uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_server_get_device(const struct doca_comch_server *comch_server,
                                                      struct doca_dev **dev);
DOCA_STABLE doca_error_t doca_comch_server_get_device_rep(
    const struct doca_comch_server *comch_server, struct doca_dev_rep **rep);

/* Ends one connection; the client is told. IN_USE: producers or consumers are not idle on it.
 * NOT_CONNECTED: it has ended. INVALID_VALUE: it is not one of this server's. */
DOCA_STABLE doca_error_t doca_comch_server_disconnect(struct doca_comch_server *comch_server,
                                                      struct doca_comch_connection *connection);

DOCA_STABLE doca_error_t doca_comch_server_task_send_set_conf(
    struct doca_comch_server *comch_server, doca_comch_task_send_completion_cb_t task_completion_cb,
    doca_comch_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_STABLE doca_error_t doca_comch_server_event_msg_recv_register(
    struct doca_comch_server *comch_server, doca_comch_event_msg_recv_cb_t recv_event_cb);
DOCA_STABLE doca_error_t doca_comch_server_event_connection_status_changed_register(
    struct doca_comch_server *comch_server,
    doca_comch_event_connection_status_changed_cb_t connect_event_cb,
    doca_comch_event_connection_status_changed_cb_t disconnect_event_cb);
DOCA_STABLE doca_error_t doca_comch_server_event_consumer_register(
    struct doca_comch_server *comch_server, doca_comch_event_consumer_cb_t new_consumer_event_cb,
    doca_comch_event_consumer_cb_t expired_consumer_event_cb);

/* As Comch's first release spelled two of the above. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_server_get_device_repr(
    const struct doca_comch_server *comch_server, struct doca_dev_rep **repr);
DOCA_EXPERIMENTAL doca_error_t doca_comch_server_event_connection_register(
    struct doca_comch_server *comch_server,
    doca_comch_event_connection_status_changed_cb_t connect_event_cb,
    doca_comch_event_connection_status_changed_cb_t disconnect_event_cb);

/* ---- clients ---------------------------------------------------------------------------------- */

/* NOT_SUPPORTED: the device is not a host's. INVALID_VALUE: the name is empty or too long. */
DOCA_STABLE doca_error_t doca_comch_client_create(struct doca_dev *dev, const char *name,
                                                  struct doca_comch_client **comch_client);
DOCA_STABLE doca_error_t doca_comch_client_destroy(struct doca_comch_client *comch_client);
DOCA_STABLE struct doca_ctx *doca_comch_client_as_ctx(struct doca_comch_client *comch_client);

DOCA_STABLE doca_error_t doca_comch_client_set_max_msg_size(struct doca_comch_client *comch_client,
                                                            uint32_t size);
DOCA_STABLE doca_error_t doca_comch_client_get_max_msg_size(
    const struct doca_comch_client *comch_client, uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_client_set_recv_queue_size(
    struct doca_comch_client *comch_client, uint32_t size);
DOCA_STABLE doca_error_t doca_comch_client_get_recv_queue_size(
    const struct doca_comch_client *comch_client, uint32_t *size);
DOCA_STABLE doca_error_t doca_comch_client_get_device(const struct doca_comch_client *comch_client,
                                                      struct doca_dev **dev);
/* BAD_STATE: it is not running. */
DOCA_STABLE doca_error_t doca_comch_client_get_connection(
    const struct doca_comch_client *comch_client, struct doca_comch_connection **connection);

DOCA_STABLE doca_error_t doca_comch_client_task_send_set_conf(
    struct doca_comch_client *comch_client, doca_comch_task_send_completion_cb_t task_completion_cb,
    doca_comch_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks);
DOCA_STABLE doca_error_t doca_comch_client_event_msg_recv_register(
    struct doca_comch_client *comch_client, doca_comch_event_msg_recv_cb_t recv_event_cb);
DOCA_STABLE doca_error_t doca_comch_client_event_consumer_register(
    struct doca_comch_client *comch_client, doca_comch_event_consumer_cb_t new_consumer_event_cb,
    doca_comch_event_consumer_cb_t expired_consumer_event_cb);

/* ---- sending ---------------------------------------------------------------------------------- */

/* A task that sends a message of any memory, which must stay as it is until the task is complete.
 * INVALID_VALUE: it is empty or longer than the maximum. NO_MEMORY: all tasks are allocated.
 * NOT_CONNECTED: the connection has ended. BAD_STATE: the context is not running. */
DOCA_STABLE doca_error_t doca_comch_server_task_send_alloc_init(
    struct doca_comch_server *comch_server, struct doca_comch_connection *peer, const void *msg,
    uint32_t len, struct doca_comch_task_send **task);
DOCA_STABLE doca_error_t doca_comch_client_task_send_alloc_init(
    struct doca_comch_client *comch_client, struct doca_comch_connection *peer, const void *msg,
    uint32_t len, struct doca_comch_task_send **task);
DOCA_STABLE struct doca_task *doca_comch_task_send_as_task(struct doca_comch_task_send *task);

#ifdef __cplusplus
}
#endif

#endif
