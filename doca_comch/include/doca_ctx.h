/*
 * Contexts: what every server, client, producer, consumer and DMA engine is.
 *
 *     idle ──start──► starting ──(progress)──► running ──stop──► stopping ──(progress)──► idle
 *       └───────────start──────────────────────►┘ └──────────── a fatal error ─►┘
 *
 *   idle      configure, start, destroy
 *   starting  progress; stop
 *   running   allocate and submit tasks, progress, stop
 *   stopping  progress, free tasks: idle comes when all tasks are complete and freed
 *
 * A context belongs to the thread of its progress engine. Its callbacks come from
 * doca_pe_progress(), and the callback for changes of state also from start and stop. All of this
 * may be called inside callbacks, but for destroying a context that is not idle.
 *
 * Contexts of 2023 and before have work queues in place of an engine, and jobs in place of tasks:
 * doca_workq.h.
 */
#ifndef DOCA_CTX_H_
#define DOCA_CTX_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_ctx;
struct doca_devinfo;
struct doca_dpa;
struct doca_gpu;

enum doca_ctx_states {
    DOCA_CTX_STATE_IDLE = 0,
    DOCA_CTX_STATE_STARTING = 1,
    DOCA_CTX_STATE_RUNNING = 2,
    DOCA_CTX_STATE_STOPPING = 3
};

typedef void (*doca_ctx_state_changed_callback_t)(const union doca_data user_data,
                                                  struct doca_ctx *ctx,
                                                  enum doca_ctx_states prev_state,
                                                  enum doca_ctx_states next_state);

/* SUCCESS: running. IN_PROGRESS: starting, progress does the rest. BAD_STATE: it is not idle.
 * NOT_CONNECTED: it has no progress engine. INVALID_VALUE: a mandatory setting is missing. */
DOCA_STABLE doca_error_t doca_ctx_start(struct doca_ctx *ctx);

/* SUCCESS: idle. IN_PROGRESS: stopping, progress does the rest. IN_USE: something still depends on
 * the context. BAD_STATE: it is idle. */
DOCA_STABLE doca_error_t doca_ctx_stop(struct doca_ctx *ctx);

/* Tasks that were submitted and are not complete. */
DOCA_STABLE doca_error_t doca_ctx_get_num_inflight_tasks(const struct doca_ctx *ctx,
                                                         size_t *num_inflight_tasks);

/* Given to the callbacks of the context and of its tasks. */
DOCA_STABLE doca_error_t doca_ctx_set_user_data(struct doca_ctx *ctx, union doca_data user_data);
DOCA_STABLE doca_error_t doca_ctx_get_user_data(const struct doca_ctx *ctx,
                                                union doca_data *user_data);

/* BAD_STATE: the context is not idle. */
DOCA_STABLE doca_error_t doca_ctx_set_state_changed_cb(struct doca_ctx *ctx,
                                                       doca_ctx_state_changed_callback_t cb);
DOCA_STABLE doca_error_t doca_ctx_get_state(const struct doca_ctx *ctx,
                                            enum doca_ctx_states *state);

/* Tasks that were submitted without DOCA_TASK_SUBMIT_FLAG_FLUSH wait for no others when this returns. */
DOCA_EXPERIMENTAL void doca_ctx_flush_tasks(struct doca_ctx *ctx);

/* Lets a DPA thread do the context's data path: consumers and producers of a message queue whose
 * end on that side is the DPA's. NOT_SUPPORTED for others. */
DOCA_EXPERIMENTAL doca_error_t doca_ctx_set_datapath_on_dpa(struct doca_ctx *ctx,
                                                            struct doca_dpa *dpa_dev);
/* NOT_SUPPORTED. */
DOCA_EXPERIMENTAL doca_error_t doca_ctx_set_datapath_on_gpu(struct doca_ctx *ctx,
                                                            struct doca_gpu *gpu_dev);

/* A soft device has one completion vector, 0. */
DOCA_EXPERIMENTAL doca_error_t doca_ctx_cap_get_num_completion_vectors(
    const struct doca_devinfo *devinfo, uint32_t *num_comp_vectors);
DOCA_EXPERIMENTAL doca_error_t doca_ctx_set_completion_vector(struct doca_ctx *ctx,
                                                              uint32_t comp_vector);

#ifdef __cplusplus
}
#endif

#include <doca_workq.h>

#endif
