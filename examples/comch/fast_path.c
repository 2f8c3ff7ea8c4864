#include "fast_path.h"

#include <string.h>

#include <doca_buf.h>
#include <doca_ctx.h>
#include <doca_log.h>

DOCA_LOG_REGISTER(EXAMPLE::FAST_PATH)

static struct doca_ctx *consumer_ctx(struct fast_path *path)
{
    return path->consumer != NULL ? doca_comch_consumer_as_ctx(path->consumer) : NULL;
}

static struct doca_ctx *producer_ctx(struct fast_path *path)
{
    return path->producer != NULL ? doca_comch_producer_as_ctx(path->producer) : NULL;
}

static bool is_idle(struct doca_ctx *ctx)
{
    enum doca_ctx_states state = DOCA_CTX_STATE_IDLE;

    return ctx == NULL ||
           (doca_ctx_get_state(ctx, &state) == DOCA_SUCCESS && state == DOCA_CTX_STATE_IDLE);
}

/* It is idle when on_state() says so. One that still starts, or stops already, refuses: on_state() will
 * be told of that, too. */
static void stop(struct fast_path *path, struct doca_ctx *ctx)
{
    doca_error_t result = is_idle(ctx) ? DOCA_SUCCESS : doca_ctx_stop(ctx);

    if (result != DOCA_SUCCESS && result != DOCA_ERROR_IN_PROGRESS &&
        result != DOCA_ERROR_BAD_STATE) {
        DOCA_LOG_ERR("A context cannot be stopped: %s", doca_error_get_descr(result));
        DOCA_ERROR_PROPAGATE(path->session->result, result);
    }
}

static void stop_both(struct fast_path *path)
{
    stop(path, consumer_ctx(path));
    stop(path, producer_ctx(path));
}

/* The first error ends the session, which stops these, on both sides. */
static void note(struct fast_path *path, doca_error_t result, const char *what)
{
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("%s: %s", what, doca_error_get_descr(result));
        DOCA_ERROR_PROPAGATE(path->session->result, result);
        session_stop(path->session);
    }
}

/* Both directions are done: the contexts are not needed any more. */
static void finish(struct fast_path *path)
{
    if (path->sent && path->received)
        stop_both(path);
}

/* ---- receiving -------------------------------------------------------------------------------- */

static void on_received(struct doca_comch_consumer_task_post_recv *task,
                        union doca_data task_user_data, union doca_data ctx_user_data)
{
    struct fast_path *path = ctx_user_data.ptr;
    struct doca_buf *buf = doca_comch_consumer_task_post_recv_get_buf(task);
    void *data = NULL;
    size_t length = 0;

    (void)task_user_data;
    (void)doca_buf_get_data(buf, &data);
    (void)doca_buf_get_data_len(buf, &length);
    DOCA_LOG_INFO("Received on the fast path: %.*s", (int)length, (const char *)data);
    (void)doca_buf_dec_refcount(buf, NULL);
    doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
    path->received = true;
    finish(path);
}

static void on_not_received(struct doca_comch_consumer_task_post_recv *task,
                            union doca_data task_user_data, union doca_data ctx_user_data)
{
    struct fast_path *path = ctx_user_data.ptr;

    (void)task_user_data;
    (void)doca_buf_dec_refcount(doca_comch_consumer_task_post_recv_get_buf(task), NULL);
    doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
    note(path, DOCA_ERROR_CONNECTION_RESET, "Nothing was received");
}

static void post_buffer(struct fast_path *path)
{
    struct doca_comch_consumer_task_post_recv *task = NULL;
    struct doca_buf *buf = NULL;
    doca_error_t result = doca_buf_inventory_buf_get_by_addr(path->inventory, path->mmap,
                                                             path->memory[1], MAX_TEXT, &buf);

    if (result == DOCA_SUCCESS)
        result = doca_comch_consumer_task_post_recv_alloc_init(path->consumer, buf, &task);
    if (result == DOCA_SUCCESS)
        result = doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task));
    if (result != DOCA_SUCCESS) {
        if (task != NULL)
            doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
        if (buf != NULL)
            (void)doca_buf_dec_refcount(buf, NULL);
    }
    note(path, result, "No buffer could be posted");
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void on_sent(struct doca_comch_producer_task_send *task, union doca_data task_user_data,
                    union doca_data ctx_user_data)
{
    struct fast_path *path = ctx_user_data.ptr;

    (void)doca_buf_dec_refcount(task_user_data.ptr, NULL);
    doca_task_free(doca_comch_producer_task_send_as_task(task));
    path->sent = true;
    finish(path);
}

static void on_not_sent(struct doca_comch_producer_task_send *task, union doca_data task_user_data,
                        union doca_data ctx_user_data)
{
    struct fast_path *path = ctx_user_data.ptr;
    doca_error_t status = doca_task_get_status(doca_comch_producer_task_send_as_task(task));

    (void)doca_buf_dec_refcount(task_user_data.ptr, NULL);
    doca_task_free(doca_comch_producer_task_send_as_task(task));
    note(path, status, "The text could not be sent");
}

void fast_path_send_to(struct fast_path *path, uint32_t consumer)
{
    const size_t length = strlen(path->text);
    struct doca_comch_producer_task_send *task = NULL;
    struct doca_buf *buf = NULL;
    union doca_data user_data;
    doca_error_t result;

    if (path->target != 0)
        return; /* one is enough */
    path->target = consumer;
    memcpy(path->memory[0], path->text, length);
    result = doca_buf_inventory_buf_get_by_data(path->inventory, path->mmap, path->memory[0],
                                                length, &buf);
    if (result == DOCA_SUCCESS)
        result = doca_comch_producer_task_send_alloc_init(path->producer, buf, NULL, 0, consumer,
                                                          &task);
    if (result == DOCA_SUCCESS) {
        user_data.ptr = buf;
        doca_task_set_user_data(doca_comch_producer_task_send_as_task(task), user_data);
        result = doca_task_submit(doca_comch_producer_task_send_as_task(task));
    }
    if (result != DOCA_SUCCESS) {
        if (task != NULL)
            doca_task_free(doca_comch_producer_task_send_as_task(task));
        if (buf != NULL)
            (void)doca_buf_dec_refcount(buf, NULL);
    }
    note(path, result, "The text could not be sent");
}

/* ---- the contexts ----------------------------------------------------------------------------- */

static void on_state(const union doca_data user_data, struct doca_ctx *ctx,
                     enum doca_ctx_states prev_state, enum doca_ctx_states next_state)
{
    struct fast_path *path = user_data.ptr;

    (void)prev_state;
    if (next_state == DOCA_CTX_STATE_RUNNING && path->session->stop_wanted)
        stop(path, ctx); /* it was starting when the others were stopped */
    else if (next_state == DOCA_CTX_STATE_RUNNING && ctx == consumer_ctx(path))
        post_buffer(path);
    if (next_state == DOCA_CTX_STATE_IDLE && path->sent && path->received && !path->told &&
        is_idle(consumer_ctx(path)) && is_idle(producer_ctx(path))) {
        path->told = true;
        path->finished(path);
    }
}

static void stop_with_session(struct session *session)
{
    stop_both(session->user);
}

static doca_error_t start(struct fast_path *path, struct doca_ctx *ctx)
{
    union doca_data self = {.ptr = path};
    doca_error_t result = doca_pe_connect_ctx(path->session->pe, ctx);

    DOCA_ERROR_PROPAGATE(result, doca_ctx_set_user_data(ctx, self));
    DOCA_ERROR_PROPAGATE(result, doca_ctx_set_state_changed_cb(ctx, on_state));
    if (result == DOCA_SUCCESS)
        result = doca_ctx_start(ctx);
    return result == DOCA_ERROR_IN_PROGRESS ? DOCA_SUCCESS : result; /* a consumer takes a while */
}

static doca_error_t prepare_memory(struct fast_path *path)
{
    doca_error_t result = doca_mmap_create(&path->mmap);

    DOCA_ERROR_PROPAGATE(
        result, doca_mmap_set_permissions(path->mmap, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE |
                                                          DOCA_ACCESS_FLAG_PCI_READ_WRITE));
    DOCA_ERROR_PROPAGATE(
        result, doca_mmap_set_memrange(path->mmap, path->memory, sizeof(path->memory)));
    DOCA_ERROR_PROPAGATE(result, doca_mmap_add_dev(path->mmap, path->session->dev));
    DOCA_ERROR_PROPAGATE(result, doca_mmap_start(path->mmap));
    DOCA_ERROR_PROPAGATE(result, doca_buf_inventory_create(2, &path->inventory));
    DOCA_ERROR_PROPAGATE(result, doca_buf_inventory_start(path->inventory));
    return result;
}

void fast_path_open(struct fast_path *path)
{
    struct doca_comch_connection *connection = path->session->connection;
    doca_error_t result = prepare_memory(path);

    path->session->stop_others = stop_with_session;
    DOCA_ERROR_PROPAGATE(result,
                         doca_comch_consumer_create(connection, path->mmap, &path->consumer));
    DOCA_ERROR_PROPAGATE(result, doca_comch_producer_create(connection, &path->producer));
    DOCA_ERROR_PROPAGATE(result, doca_comch_consumer_task_post_recv_set_conf(
                                     path->consumer, on_received, on_not_received, 1));
    DOCA_ERROR_PROPAGATE(result, doca_comch_producer_task_send_set_conf(path->producer, on_sent,
                                                                        on_not_sent, 1));
    if (result == DOCA_SUCCESS)
        result = start(path, doca_comch_producer_as_ctx(path->producer));
    if (result == DOCA_SUCCESS)
        result = start(path, doca_comch_consumer_as_ctx(path->consumer));
    note(path, result, "The fast path could not be opened");
}

void fast_path_close(struct fast_path *path)
{
    doca_error_t result = DOCA_SUCCESS;

    if (path->consumer != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_comch_consumer_destroy(path->consumer));
    if (path->producer != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_comch_producer_destroy(path->producer));
    if (path->inventory != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_buf_inventory_destroy(path->inventory));
    if (path->mmap != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_mmap_destroy(path->mmap));
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("The fast path could not be closed: %s", doca_error_get_descr(result));
        DOCA_ERROR_PROPAGATE(path->session->result, result);
    }
}
