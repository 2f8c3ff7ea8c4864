/*
 * Producers: send to consumers of the other end of a connection. Running when start returns.
 */
#ifndef DOCA_COMCH_PRODUCER_H_
#define DOCA_COMCH_PRODUCER_H_

#include <stdint.h>

#include <doca_comch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_comch_producer;
struct doca_comch_producer_task_send;
struct doca_dpa_completion;

/* A handle for programs on the DPA. */
typedef uint64_t doca_dpa_dev_comch_producer_t;

/* The message is in the consumer's buffer; or, on errors, may not be: INVALID_VALUE: it was longer
 * than that buffer's room. Neither buffer object is changed then. */
typedef void (*doca_comch_producer_task_send_completion_cb_t)(
    struct doca_comch_producer_task_send *task, union doca_data task_user_data,
    union doca_data ctx_user_data);

/* BAD_STATE: the connection has ended. */
DOCA_STABLE doca_error_t doca_comch_producer_create(struct doca_comch_connection *comch_connection,
                                                    struct doca_comch_producer **producer);
/* BAD_STATE: not idle. */
DOCA_STABLE doca_error_t doca_comch_producer_destroy(struct doca_comch_producer *producer);
DOCA_STABLE struct doca_ctx *doca_comch_producer_as_ctx(struct doca_comch_producer *producer);

DOCA_STABLE doca_error_t doca_comch_producer_cap_is_supported(const struct doca_devinfo *devinfo);
DOCA_STABLE doca_error_t doca_comch_producer_cap_get_max_num_tasks(
    const struct doca_devinfo *devinfo, uint32_t *max_num_tasks);
DOCA_STABLE doca_error_t doca_comch_producer_cap_get_max_buf_size(
    const struct doca_devinfo *devinfo, uint32_t *max_buf_size);
/* 1: chained buffers are refused. */
DOCA_STABLE doca_error_t doca_comch_producer_cap_get_max_buf_list_len(
    const struct doca_devinfo *devinfo, uint32_t *max_buf_list_len);
/* Of one connection and side. */
DOCA_STABLE doca_error_t doca_comch_producer_cap_get_max_producers(
    const struct doca_devinfo *devinfo, uint32_t *max_producers);

/* BAD_STATE: not started. */
DOCA_STABLE doca_error_t doca_comch_producer_get_id(const struct doca_comch_producer *producer,
                                                    uint32_t *id);

/* ---- sending ---------------------------------------------------------------------------------- */

DOCA_STABLE doca_error_t doca_comch_producer_task_send_set_conf(
    struct doca_comch_producer *producer,
    doca_comch_producer_task_send_completion_cb_t task_completion_cb,
    doca_comch_producer_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks);
/* Sends the data of `buf`, which may be null, and immediate data. One buffer object may be in any
 * number of tasks. The immediate data is copied at submit.
 * On submit: AGAIN: the consumer has no free buffer posted; progress and submit again. NOT_FOUND:
 * no such consumer. INVALID_VALUE: the buffer is chained or imported, the message is known not to
 * fit the consumer's next buffer, the immediate data is too long. TOO_BIG: above the device's
 * maximum. */
DOCA_STABLE doca_error_t doca_comch_producer_task_send_alloc_init(
    struct doca_comch_producer *producer, const struct doca_buf *buf, uint8_t *imm_data,
    uint32_t imm_data_len, uint32_t consumer_id, struct doca_comch_producer_task_send **task);
DOCA_STABLE struct doca_task *doca_comch_producer_task_send_as_task(
    struct doca_comch_producer_task_send *task);
DOCA_STABLE const struct doca_buf *doca_comch_producer_task_send_get_buf(
    const struct doca_comch_producer_task_send *task);
DOCA_STABLE void doca_comch_producer_task_send_set_buf(struct doca_comch_producer_task_send *task,
                                                       const struct doca_buf *buf);
DOCA_STABLE uint32_t doca_comch_producer_task_send_get_consumer_id(
    const struct doca_comch_producer_task_send *task);
DOCA_STABLE void doca_comch_producer_task_send_set_consumer_id(
    struct doca_comch_producer_task_send *task, const uint32_t consumer_id);
DOCA_STABLE uint8_t *doca_comch_producer_task_send_get_imm_data(
    const struct doca_comch_producer_task_send *task);
DOCA_STABLE uint32_t doca_comch_producer_task_send_get_imm_data_len(
    const struct doca_comch_producer_task_send *task);
DOCA_STABLE void doca_comch_producer_task_send_set_imm_data(
    struct doca_comch_producer_task_send *task, uint8_t *imm_data, uint32_t imm_data_len);

/* ---- producers of the DPA (doca_comch_msgq.h) ------------------------------------------------- */

DOCA_EXPERIMENTAL doca_error_t doca_comch_producer_set_dev_max_num_send(
    struct doca_comch_producer *producer, uint32_t dev_num_send);
/* The same, as Comch's first release spelled it. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_producer_set_dev_num_send(
    struct doca_comch_producer *producer, uint32_t dev_num_send);
DOCA_EXPERIMENTAL doca_error_t doca_comch_producer_dpa_completion_attach(
    struct doca_comch_producer *producer, struct doca_dpa_completion *dpa_comp);
DOCA_EXPERIMENTAL doca_error_t doca_comch_producer_get_dpa_handle(
    struct doca_comch_producer *producer, doca_dpa_dev_comch_producer_t *dpa_producer);

#ifdef __cplusplus
}
#endif

#endif
