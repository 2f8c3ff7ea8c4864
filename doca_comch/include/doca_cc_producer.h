/* DOCA CC's producers: send to consumers of the other end; see doca_comch_producer.h. There is no
 * immediate data in this generation. For the two dialects see doca_cc.h. */
#ifndef DOCA_CC_PRODUCER_H_
#define DOCA_CC_PRODUCER_H_

#include <doca_cc.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_cc_producer;

DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_create(struct doca_cc_connection* cc_connection,
                                                       struct doca_cc_producer** producer);
DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_destroy(struct doca_cc_producer* producer);
DOCA_EXPERIMENTAL struct doca_ctx* doca_cc_producer_as_ctx(struct doca_cc_producer* producer);
/* As doca_cc_cap_is_producer_supported(). */
DOCA_EXPERIMENTAL doca_error_t
doca_cc_producer_cap_is_supported(const struct doca_devinfo* devinfo);
/* Of one connection and side. */
DOCA_EXPERIMENTAL doca_error_t
doca_cc_producer_cap_get_max_producers(const struct doca_devinfo* devinfo, uint32_t* max_producers);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_producer_cap_get_max_buf_size(const struct doca_devinfo* devinfo, uint32_t* max_buf_size);
DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_get_id(const struct doca_cc_producer* producer,
                                                       uint32_t* id);

#ifdef DOCA_CC_LATER_DIALECT

struct doca_cc_producer_task_send;

typedef void (*doca_cc_producer_task_send_completion_cb_t)(struct doca_cc_producer_task_send* task,
                                                           union doca_data task_user_data,
                                                           union doca_data ctx_user_data);

DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_task_send_set_conf(
    struct doca_cc_producer* producer,
    doca_cc_producer_task_send_completion_cb_t task_completion_cb,
    doca_cc_producer_task_send_completion_cb_t task_error_cb, uint32_t num_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_task_send_alloc_init(
    struct doca_cc_producer* producer, struct doca_buf* buf, uint32_t consumer_id,
    struct doca_cc_producer_task_send** task);
DOCA_EXPERIMENTAL uint32_t
doca_cc_producer_task_send_get_consumer_id(const struct doca_cc_producer_task_send* task);
DOCA_EXPERIMENTAL void
doca_cc_producer_task_send_set_consumer_id(struct doca_cc_producer_task_send* task,
                                           uint32_t consumer_id);
DOCA_EXPERIMENTAL struct doca_task*
doca_cc_producer_task_send_as_task(struct doca_cc_producer_task_send* task);
DOCA_EXPERIMENTAL struct doca_buf*
doca_cc_producer_task_send_get_buf(const struct doca_cc_producer_task_send* task);
DOCA_EXPERIMENTAL void doca_cc_producer_task_send_set_buf(struct doca_cc_producer_task_send* task,
                                                          struct doca_buf* buf);
DOCA_EXPERIMENTAL doca_error_t
doca_cc_producer_cap_get_max_num_tasks(const struct doca_devinfo* devinfo, uint32_t* max_num_tasks);

#else

struct doca_cc_producer_send_task;

typedef void (*doca_cc_producer_send_task_completion_cb_t)(struct doca_cc_producer_send_task* task,
                                                           union doca_data task_user_data,
                                                           union doca_data ctx_user_data);

DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_send_task_set_conf(
    struct doca_cc_producer* producer,
    doca_cc_producer_send_task_completion_cb_t task_completion_cb,
    doca_cc_producer_send_task_completion_cb_t task_error_cb, uint8_t log_num_tasks);
DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_send_task_alloc_init(
    struct doca_cc_producer* producer, const struct doca_buf* buf, uint32_t consumer_id,
    struct doca_cc_producer_send_task** task);
DOCA_EXPERIMENTAL uint32_t
doca_cc_producer_send_task_get_consumer_id(const struct doca_cc_producer_send_task* task);
DOCA_EXPERIMENTAL void
doca_cc_producer_send_task_set_consumer_id(struct doca_cc_producer_send_task* task,
                                           uint32_t consumer_id);
DOCA_EXPERIMENTAL struct doca_task*
doca_cc_producer_send_task_as_task(struct doca_cc_producer_send_task* task);
DOCA_EXPERIMENTAL struct doca_buf*
doca_cc_producer_send_task_get_buf(const struct doca_cc_producer_send_task* task);
DOCA_EXPERIMENTAL void doca_cc_producer_send_task_set_buf(struct doca_cc_producer_send_task* task,
                                                          struct doca_buf* buf);
DOCA_EXPERIMENTAL doca_error_t doca_cc_producer_cap_get_max_log_num_tasks(
    const struct doca_devinfo* devinfo, uint32_t* max_log_num_tasks);

#endif

#ifdef __cplusplus
}
#endif

#endif
