/* DOCA CC's consumers: post buffers, into which producers of the other end write; see
 * doca_comch_consumer.h. There is no immediate data in this generation. For the two dialects see
 * doca_cc.h. */
#ifndef DOCA_CC_CONSUMER_H_
#define DOCA_CC_CONSUMER_H_

#include <doca_cc.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_cc_consumer;
struct doca_mmap;

DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_create(struct doca_cc_connection* cc_connection,
                                                       struct doca_mmap* buf_mmap,
                                                       struct doca_cc_consumer** consumer);
DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_destroy(struct doca_cc_consumer* consumer);
DOCA_EXPERIMENTAL struct doca_ctx* doca_cc_consumer_as_ctx(struct doca_cc_consumer* consumer);
/* As doca_cc_cap_is_consumer_supported(). */
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_cap_is_supported(const struct doca_devinfo* devinfo);
/* Of one connection and side. */
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_cap_get_max_consumers(const struct doca_devinfo* devinfo, uint32_t* max_consumers);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_cap_get_max_buf_size(const struct doca_devinfo* devinfo, uint32_t* max_buf_size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_get_id(const struct doca_cc_consumer* consumer,
                                                       uint32_t* id);

#ifdef DOCA_CC_LATER_DIALECT

struct doca_cc_consumer_task_post_recv;

typedef void (*doca_cc_consumer_task_post_recv_completion_cb_t)(
    struct doca_cc_consumer_task_post_recv* task, union doca_data task_user_data,
    union doca_data ctx_user_data);

DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_task_post_recv_set_conf(
    struct doca_cc_consumer* consumer,
    doca_cc_consumer_task_post_recv_completion_cb_t task_completion_cb,
    doca_cc_consumer_task_post_recv_completion_cb_t task_error_cb, uint32_t num_tasks);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_task_post_recv_alloc_init(struct doca_cc_consumer* consumer, struct doca_buf* buf,
                                           struct doca_cc_consumer_task_post_recv** task);
DOCA_EXPERIMENTAL struct doca_task*
doca_cc_consumer_task_post_recv_as_task(struct doca_cc_consumer_task_post_recv* task);
DOCA_EXPERIMENTAL struct doca_buf*
doca_cc_consumer_task_post_recv_get_buf(const struct doca_cc_consumer_task_post_recv* task);
DOCA_EXPERIMENTAL void
doca_cc_consumer_task_post_recv_set_buf(struct doca_cc_consumer_task_post_recv* task,
                                        struct doca_buf* buf);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_cap_get_max_num_tasks(const struct doca_devinfo* devinfo, uint32_t* max_num_tasks);
DOCA_EXPERIMENTAL uint32_t
doca_cc_consumer_task_post_recv_get_producer_id(const struct doca_cc_consumer_task_post_recv* task);

#else

struct doca_cc_consumer_post_recv_task;

typedef void (*doca_cc_consumer_post_recv_task_completion_cb_t)(
    struct doca_cc_consumer_post_recv_task* task, union doca_data task_user_data,
    union doca_data ctx_user_data);

DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_post_recv_task_set_conf(
    struct doca_cc_consumer* consumer,
    doca_cc_consumer_post_recv_task_completion_cb_t task_completion_cb,
    doca_cc_consumer_post_recv_task_completion_cb_t task_error_cb, uint8_t log_num_tasks);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_consumer_post_recv_task_alloc_init(struct doca_cc_consumer* consumer, struct doca_buf* buf,
                                           struct doca_cc_consumer_post_recv_task** task);
DOCA_EXPERIMENTAL struct doca_task*
doca_cc_consumer_post_recv_task_as_task(struct doca_cc_consumer_post_recv_task* task);
DOCA_EXPERIMENTAL struct doca_buf*
doca_cc_consumer_post_recv_task_get_buf(const struct doca_cc_consumer_post_recv_task* task);
DOCA_EXPERIMENTAL void
doca_cc_consumer_post_recv_task_set_buf(struct doca_cc_consumer_post_recv_task* task,
                                        struct doca_buf* buf);
DOCA_EXPERIMENTAL doca_error_t doca_cc_consumer_cap_get_max_log_num_tasks(
    const struct doca_devinfo* devinfo, uint32_t* max_log_num_tasks);
DOCA_EXPERIMENTAL uint32_t
doca_cc_consumer_post_recv_task_get_producer_id(const struct doca_cc_consumer_post_recv_task* task);

#endif

#ifdef __cplusplus
}
#endif

#endif
