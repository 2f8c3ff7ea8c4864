/*
 * Consumers: post buffers, into which producers of the other end of a connection write.
 *
 * A consumer starts with IN_PROGRESS: it is running, and known to the other end, after progress of
 * its own engine and of the connection's. Only then can buffers be posted. The first message of each
 * producer needs progress of the connection's engine, too; sends never do.
 */
#ifndef DOCA_COMCH_CONSUMER_H_
#define DOCA_COMCH_CONSUMER_H_

#include <stdint.h>

#include <doca_comch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_comch_consumer;
struct doca_comch_consumer_completion;
struct doca_comch_consumer_task_post_recv;
struct doca_dpa_thread;
struct doca_mmap;

/* Handles for programs on the DPA. */
typedef uint64_t doca_dpa_dev_comch_consumer_t;
typedef uint64_t doca_dpa_dev_comch_consumer_completion_t;

/* A message has landed in the task's buffer, appended to its data; or, on errors, none has. */
typedef void (*doca_comch_consumer_task_post_recv_completion_cb_t)(
    struct doca_comch_consumer_task_post_recv *task, union doca_data task_user_data,
    union doca_data ctx_user_data);

/* `buf_mmap` holds all buffers that are posted. NOT_PERMITTED: it was not started with
 * DOCA_ACCESS_FLAG_PCI_READ_WRITE. BAD_STATE: the connection has ended. */
DOCA_STABLE doca_error_t doca_comch_consumer_create(struct doca_comch_connection *comch_connection,
                                                    struct doca_mmap *buf_mmap,
                                                    struct doca_comch_consumer **consumer);
/* BAD_STATE: not idle. */
DOCA_STABLE doca_error_t doca_comch_consumer_destroy(struct doca_comch_consumer *consumer);
DOCA_STABLE struct doca_ctx *doca_comch_consumer_as_ctx(struct doca_comch_consumer *consumer);

DOCA_STABLE doca_error_t doca_comch_consumer_cap_is_supported(const struct doca_devinfo *devinfo);
DOCA_STABLE doca_error_t doca_comch_consumer_cap_get_max_num_tasks(
    const struct doca_devinfo *devinfo, uint32_t *max_num_tasks);
DOCA_STABLE doca_error_t doca_comch_consumer_cap_get_max_buf_size(
    const struct doca_devinfo *devinfo, uint32_t *max_buf_size);
/* 1: chained buffers are refused. */
DOCA_STABLE doca_error_t doca_comch_consumer_cap_get_max_buf_list_len(
    const struct doca_devinfo *devinfo, uint32_t *max_buf_list_len);
/* Of one connection and side. */
DOCA_STABLE doca_error_t doca_comch_consumer_cap_get_max_consumers(
    const struct doca_devinfo *devinfo, uint32_t *max_consumers);
DOCA_STABLE doca_error_t doca_comch_consumer_cap_get_max_imm_data_len(
    const struct doca_devinfo *devinfo, uint32_t *max_imm_data_len);

/* Unique on the connection over both ends, never 0; another one after each stop. BAD_STATE: the
 * connection has ended. */
DOCA_STABLE doca_error_t doca_comch_consumer_get_id(const struct doca_comch_consumer *consumer,
                                                    uint32_t *id);
/* The longest immediate data that is wanted; the device's maximum at first. */
DOCA_STABLE doca_error_t doca_comch_consumer_set_imm_data_len(struct doca_comch_consumer *consumer,
                                                              uint32_t imm_data_len);
DOCA_STABLE doca_error_t doca_comch_consumer_get_imm_data_len(
    const struct doca_comch_consumer *consumer, uint32_t *imm_data_len);

/* ---- posting ---------------------------------------------------------------------------------- */

DOCA_STABLE doca_error_t doca_comch_consumer_task_post_recv_set_conf(
    struct doca_comch_consumer *consumer,
    doca_comch_consumer_task_post_recv_completion_cb_t task_completion_cb,
    doca_comch_consumer_task_post_recv_completion_cb_t task_error_cb, uint32_t num_post_recv_tasks);
/* `buf` may be null: room for a message that is immediate data only. On submit: INVALID_VALUE: the
 * buffer is chained, or is not of the consumer's memory map. */
DOCA_STABLE doca_error_t doca_comch_consumer_task_post_recv_alloc_init(
    struct doca_comch_consumer *consumer, struct doca_buf *buf,
    struct doca_comch_consumer_task_post_recv **task);
DOCA_STABLE struct doca_task *doca_comch_consumer_task_post_recv_as_task(
    struct doca_comch_consumer_task_post_recv *task);
DOCA_STABLE struct doca_buf *doca_comch_consumer_task_post_recv_get_buf(
    const struct doca_comch_consumer_task_post_recv *task);
DOCA_STABLE void doca_comch_consumer_task_post_recv_set_buf(
    struct doca_comch_consumer_task_post_recv *task, struct doca_buf *buf);
/* Of the message that landed. The immediate data is valid inside the callback only; null if there
 * is none. */
DOCA_STABLE uint32_t doca_comch_consumer_task_post_recv_get_producer_id(
    const struct doca_comch_consumer_task_post_recv *task);
DOCA_STABLE const uint8_t *doca_comch_consumer_task_post_recv_get_imm_data(
    const struct doca_comch_consumer_task_post_recv *task);
DOCA_STABLE uint32_t doca_comch_consumer_task_post_recv_get_imm_data_len(
    const struct doca_comch_consumer_task_post_recv *task);

/* ---- consumers of the DPA (doca_comch_msgq.h) ------------------------------------------------- */

/* Where the completions of DPA consumers go; a DPA thread is run when one asks for it. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_create(
    struct doca_comch_consumer_completion **consumer_comp);
/* IN_USE: consumers that were given it are not destroyed. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_destroy(
    struct doca_comch_consumer_completion *consumer_comp);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_set_dpa_thread(
    struct doca_comch_consumer_completion *consumer_comp, struct doca_dpa_thread *dpa_thread);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_start(
    struct doca_comch_consumer_completion *consumer_comp);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_stop(
    struct doca_comch_consumer_completion *consumer_comp);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_get_dpa_handle(
    struct doca_comch_consumer_completion *consumer_comp,
    doca_dpa_dev_comch_consumer_completion_t *consumer_comp_handle);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_set_max_num_consumers(
    struct doca_comch_consumer_completion *consumer_comp, uint32_t max_num_consumers);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_get_max_num_consumers(
    const struct doca_comch_consumer_completion *consumer_comp, uint32_t *max_num_consumers);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_set_max_num_recv(
    struct doca_comch_consumer_completion *consumer_comp, uint32_t max_num_recv);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_get_max_num_recv(
    const struct doca_comch_consumer_completion *consumer_comp, uint32_t *max_num_recv);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_set_imm_data_len(
    struct doca_comch_consumer_completion *consumer_comp, uint32_t imm_data_len);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_completion_get_imm_data_len(
    const struct doca_comch_consumer_completion *consumer_comp, uint32_t *imm_data_len);

DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_set_completion(
    struct doca_comch_consumer *consumer, struct doca_comch_consumer_completion *consumer_comp,
    uint32_t user_data);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_set_dev_max_num_recv(
    struct doca_comch_consumer *consumer, uint32_t dev_num_recv);
/* The same, as Comch's first release spelled it. */
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_set_dev_num_recv(
    struct doca_comch_consumer *consumer, uint32_t dev_num_recv);
DOCA_EXPERIMENTAL doca_error_t doca_comch_consumer_get_dpa_handle(
    struct doca_comch_consumer *consumer, doca_dpa_dev_comch_consumer_t *dpa_consumer);

#ifdef __cplusplus
}
#endif

#endif
