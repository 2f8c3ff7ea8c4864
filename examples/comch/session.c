#include "session.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <doca_ctx.h>
#include <doca_log.h>

#include "../common/devices.h"

DOCA_LOG_REGISTER(EXAMPLE::SESSION)

static struct session *session_of(union doca_data ctx_user_data)
{
    return ctx_user_data.ptr;
}

/* Null: the connection could not be begun. */
static struct session *session_of_connection(struct doca_comch_connection *connection)
{
    return doca_comch_connection_get_user_data(connection).ptr;
}

static void record(struct session *session, doca_error_t result, const char *what)
{
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("%s: %s", what, doca_error_get_descr(result));
        DOCA_ERROR_PROPAGATE(session->result, result);
    }
}

/* An error ends the session: the other end would wait for ever. */
static void note(struct session *session, doca_error_t result, const char *what)
{
    record(session, result, what);
    if (result != DOCA_SUCCESS)
        session_stop(session);
}

/* The callbacks of a connection get to know its session by its user data. */
static doca_error_t begin(struct session *session, struct doca_comch_connection *connection)
{
    union doca_data self = {.ptr = session};

    session->connection = connection;
    return doca_comch_connection_set_user_data(connection, self);
}

/* ---- callbacks -------------------------------------------------------------------------------- */

static void on_sent(struct doca_comch_task_send *task, union doca_data task_user_data,
                    union doca_data ctx_user_data)
{
    (void)ctx_user_data;
    free(task_user_data.ptr);
    doca_task_free(doca_comch_task_send_as_task(task));
}

static void on_send_failed(struct doca_comch_task_send *task, union doca_data task_user_data,
                           union doca_data ctx_user_data)
{
    note(session_of(ctx_user_data), doca_task_get_status(doca_comch_task_send_as_task(task)),
         "A message could not be sent");
    on_sent(task, task_user_data, ctx_user_data);
}

static void on_message(struct doca_comch_event_msg_recv *event, uint8_t *recv_buffer,
                       uint32_t msg_len, struct doca_comch_connection *connection)
{
    struct session *session = session_of_connection(connection);

    (void)event;
    if (session != NULL && session->message != NULL)
        session->message(session, (const char *)recv_buffer, msg_len);
}

static void on_connected(struct doca_comch_event_connection_status_changed *event,
                         struct doca_comch_connection *connection, uint8_t change_successful)
{
    union doca_data user_data = {.ptr = NULL};
    struct doca_ctx *server;
    struct session *session;
    doca_error_t result;

    (void)event;
    if (!change_successful || connection == NULL)
        return; /* somebody was turned away */
    server = doca_comch_server_as_ctx(doca_comch_server_get_server_ctx(connection));
    result = doca_ctx_get_user_data(server, &user_data);
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("A client cannot be served: %s", doca_error_get_descr(result));
        return;
    }
    session = session_of(user_data);
    result = begin(session, connection);
    note(session, result, "A client cannot be served");
    if (result == DOCA_SUCCESS && session->connected != NULL)
        session->connected(session);
}

static void on_disconnected(struct doca_comch_event_connection_status_changed *event,
                            struct doca_comch_connection *connection, uint8_t change_successful)
{
    struct session *session = session_of_connection(connection);

    (void)event;
    if (session == NULL)
        return;
    session->connection = NULL;
    if (!change_successful)
        record(session, DOCA_ERROR_CONNECTION_RESET, "The client is gone");
    session_stop(session); /* the examples' servers serve one client */
}

static void on_consumer(struct doca_comch_event_consumer *event,
                        struct doca_comch_connection *connection, uint32_t id)
{
    struct session *session = session_of_connection(connection);

    (void)event;
    if (session != NULL && session->consumer_added != NULL)
        session->consumer_added(session, id);
}

static void on_consumer_gone(struct doca_comch_event_consumer *event,
                             struct doca_comch_connection *connection, uint32_t id)
{
    (void)event;
    (void)connection;
    DOCA_LOG_DBG("Consumer %u is gone", id);
}

static void on_state(const union doca_data user_data, struct doca_ctx *ctx,
                     enum doca_ctx_states prev_state, enum doca_ctx_states next_state)
{
    struct session *session = session_of(user_data);

    (void)ctx;
    session->state = next_state;
    if (session->client == NULL)
        return;
    if (next_state == DOCA_CTX_STATE_RUNNING) {
        struct doca_comch_connection *connection = NULL;
        doca_error_t result = doca_comch_client_get_connection(session->client, &connection);

        if (result == DOCA_SUCCESS)
            result = begin(session, connection);
        note(session, result, "There is no connection");
        if (result == DOCA_SUCCESS && session->connected != NULL)
            session->connected(session);
    } else if (next_state == DOCA_CTX_STATE_IDLE) {
        session->connection = NULL;
        if (prev_state == DOCA_CTX_STATE_STARTING)
            record(session, DOCA_ERROR_NOT_CONNECTED, "The server could not be reached");
    }
}

static doca_error_t can_serve(struct doca_devinfo *devinfo)
{
    return doca_comch_cap_server_is_supported(devinfo);
}

static doca_error_t can_connect(struct doca_devinfo *devinfo)
{
    return doca_comch_cap_client_is_supported(devinfo);
}

/* ---- opening ---------------------------------------------------------------------------------- */

static doca_error_t open_server(struct session *session)
{
    doca_error_t result =
        doca_comch_server_create(session->dev, session->rep, SERVER_NAME, &session->server);

    if (result != DOCA_SUCCESS)
        return result;
    session->ctx = doca_comch_server_as_ctx(session->server);
    result = doca_comch_server_task_send_set_conf(session->server, on_sent, on_send_failed,
                                                  SEND_TASKS);
    DOCA_ERROR_PROPAGATE(result,
                         doca_comch_server_event_msg_recv_register(session->server, on_message));
    DOCA_ERROR_PROPAGATE(result, doca_comch_server_event_connection_status_changed_register(
                                     session->server, on_connected, on_disconnected));
    DOCA_ERROR_PROPAGATE(result, doca_comch_server_event_consumer_register(
                                     session->server, on_consumer, on_consumer_gone));
    return result;
}

static doca_error_t open_client(struct session *session)
{
    doca_error_t result = doca_comch_client_create(session->dev, SERVER_NAME, &session->client);

    if (result != DOCA_SUCCESS)
        return result;
    session->ctx = doca_comch_client_as_ctx(session->client);
    result = doca_comch_client_task_send_set_conf(session->client, on_sent, on_send_failed,
                                                  SEND_TASKS);
    DOCA_ERROR_PROPAGATE(result,
                         doca_comch_client_event_msg_recv_register(session->client, on_message));
    DOCA_ERROR_PROPAGATE(result, doca_comch_client_event_consumer_register(
                                     session->client, on_consumer, on_consumer_gone));
    return result;
}

doca_error_t session_open(struct session *session, enum side side, const struct options *options)
{
    union doca_data self = {.ptr = session};
    doca_error_t result = open_device(options->pci_addr, side == SIDE_DPU ? can_serve : can_connect,
                                      &session->dev);

    if (result == DOCA_SUCCESS && side == SIDE_DPU)
        result = open_representor(session->dev, options->rep_pci, &session->rep);
    if (result == DOCA_SUCCESS)
        result = doca_pe_create(&session->pe);
    if (result == DOCA_SUCCESS)
        result = side == SIDE_DPU ? open_server(session) : open_client(session);
    if (result == DOCA_SUCCESS)
        result = doca_pe_connect_ctx(session->pe, session->ctx);
    DOCA_ERROR_PROPAGATE(result, doca_ctx_set_user_data(session->ctx, self));
    DOCA_ERROR_PROPAGATE(result, doca_ctx_set_state_changed_cb(session->ctx, on_state));
    if (result == DOCA_SUCCESS) {
        result = doca_ctx_start(session->ctx);
        if (result == DOCA_ERROR_IN_PROGRESS)
            result = DOCA_SUCCESS; /* a client: progress does the rest */
    }
    record(session, result, "The session could not be opened");
    return result;
}

/* ---- running ---------------------------------------------------------------------------------- */

void session_run(struct session *session)
{
    doca_notification_handle_t handle = doca_event_invalid_handle;
    struct pollfd wake = {.events = POLLIN};

    /* Without one this does not sleep, but works. */
    record(session, doca_pe_get_notification_handle(session->pe, &handle), "There is no sleep");
    wake.fd = handle;
    while (session->state != DOCA_CTX_STATE_IDLE) {
        if (doca_pe_progress(session->pe) != 0) {
            if (session->stop_wanted)
                session_stop(session);
            continue;
        }
        if (handle != doca_event_invalid_handle &&
            doca_pe_request_notification(session->pe) == DOCA_SUCCESS)
            (void)poll(&wake, 1, -1);
        (void)doca_pe_clear_notification(session->pe, handle);
    }
}

void session_send(struct session *session, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    struct doca_comch_task_send *task;
    union doca_data copy = {.ptr = strdup(text)};
    doca_error_t result;

    if (copy.ptr == NULL) {
        note(session, DOCA_ERROR_NO_MEMORY, "A message could not be sent");
        return;
    }
    if (session->server != NULL)
        result = doca_comch_server_task_send_alloc_init(session->server, session->connection,
                                                        copy.ptr, length, &task);
    else
        result = doca_comch_client_task_send_alloc_init(session->client, session->connection,
                                                        copy.ptr, length, &task);
    if (result == DOCA_SUCCESS) {
        doca_task_set_user_data(doca_comch_task_send_as_task(task), copy);
        result = doca_task_submit(doca_comch_task_send_as_task(task));
        if (result == DOCA_SUCCESS)
            return; /* freed when it is complete */
        doca_task_free(doca_comch_task_send_as_task(task));
    }
    free(copy.ptr);
    note(session, result, "A message could not be sent");
}

void session_stop(struct session *session)
{
    doca_error_t result = doca_ctx_stop(session->ctx);

    if (result == DOCA_ERROR_IN_USE && !session->stop_wanted) {
        session->stop_wanted = true;
        if (session->stop_others != NULL)
            session->stop_others(session);
        result = doca_ctx_stop(session->ctx); /* they may be idle at once */
    }
    session->stop_wanted = result == DOCA_ERROR_IN_USE;
    if (session->stop_wanted)
        return; /* once they are */
    /* Stopping already: the other end was quicker. */
    if (result != DOCA_SUCCESS && result != DOCA_ERROR_IN_PROGRESS && result != DOCA_ERROR_BAD_STATE)
        record(session, result, "The session cannot be stopped");
}

doca_error_t session_close(struct session *session)
{
    doca_error_t result = DOCA_SUCCESS;

    if (session->server != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_comch_server_destroy(session->server));
    if (session->client != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_comch_client_destroy(session->client));
    if (session->pe != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_pe_destroy(session->pe));
    if (session->rep != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_dev_rep_close(session->rep));
    if (session->dev != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_dev_close(session->dev));
    record(session, result, "The session could not be closed");
    return session->result;
}
