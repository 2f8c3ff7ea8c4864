/*
 * Work queues and jobs: how contexts were used until 2023 (DOCA 1.3 to 2.2), before progress engines
 * and tasks. doca_ctx.h includes this file, since programs of that time look for it there.
 *
 *     doca_dma_create(&dma); ctx = doca_dma_as_ctx(dma);        a context, of no device yet
 *     doca_ctx_dev_add(ctx, dev); doca_ctx_start(ctx);
 *     doca_workq_create(depth, &workq); doca_ctx_workq_add(ctx, workq);
 *     doca_workq_submit(workq, &job.base);
 *     while (doca_workq_progress_retrieve(workq, &event, 0) == DOCA_ERROR_AGAIN) {}
 *     doca_ctx_workq_rm(ctx, workq); doca_ctx_stop(ctx); doca_ctx_dev_rm(ctx, dev);
 *     doca_workq_destroy(workq); doca_dma_destroy(dma);
 *
 * Which generation a context is of is decided where it is created: doca_dma_create() with one argument
 * makes one of these, with two one of today's (doca_compat_2023.h says how the two are told apart).
 * The calls below answer NOT_SUPPORTED to today's contexts, as doca_pe_connect_ctx() does to these;
 * doca_ctx_start(), doca_ctx_stop() and doca_ctx_get_state() take both.
 *
 * A queue is an engine of its own, and belongs to one thread at a time. It may serve several contexts,
 * and a context several queues, each in its own thread; contexts are started, stopped and given devices
 * by one thread at a time.
 *
 * To sleep until a job is done:
 *
 *     doca_workq_set_event_driven_enable(workq, 1);       before the queue is added to a context
 *     doca_workq_get_event_handle(workq, &handle);        once; put it into an epoll set
 *     for (;;) {
 *         doca_workq_event_handle_arm(workq);
 *         epoll_wait(...);
 *         doca_workq_event_handle_clear(workq, handle);
 *         while (doca_workq_progress_retrieve(workq, &event, 0) != DOCA_ERROR_AGAIN) { ... }
 *     }
 *
 * Any call answers INVALID_VALUE to a null pointer.
 */
#ifndef DOCA_WORKQ_H_
#define DOCA_WORKQ_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_ctx;
struct doca_workq;

/* Numbers of jobs: each library's begin at a multiple of 1 << DOCA_ACTION_SDK_RANGE. Of the libraries
 * there is the one for DMA. */
#define DOCA_ACTION_SDK_RANGE 16
enum doca_action_type {
    DOCA_ACTION_NONE = 0,
    DOCA_ACTION_DMA_FIRST = 1 << DOCA_ACTION_SDK_RANGE
};

enum doca_job_flags {
    DOCA_JOB_FLAGS_NONE = 0 /* the only one; others are not looked at */
};

/* What all jobs begin with. A job is copied when it is submitted. */
struct doca_job {
    int type; /* DOCA_DMA_JOB_MEMCPY, say */
    int flags;
    struct doca_ctx *ctx;      /* that is to do it */
    union doca_data user_data; /* its event has the same */
};

/* A job that has ended. */
struct doca_event {
    int type; /* the job's */
    union doca_data user_data;
    union doca_data result; /* u64: how it ended, a doca_error_t */
};

enum doca_workq_retrieve_flags {
    DOCA_WORKQ_RETRIEVE_FLAGS_NONE = 0 /* the only one */
};

/* ---- queues ----------------------------------------------------------------------------------- */

/* `depth`: jobs that may be under way, until their events are retrieved. INVALID_VALUE: 0, or above
 * 65536. */
DOCA_STABLE doca_error_t doca_workq_create(uint32_t depth, struct doca_workq **workq);
/* Events that were not retrieved are gone. IN_USE: it is added to a context. */
DOCA_STABLE doca_error_t doca_workq_destroy(struct doca_workq *workq);

DOCA_STABLE doca_error_t doca_workq_get_depth(const struct doca_workq *workq, uint32_t *depth);
/* INVALID_VALUE: as for create. IN_USE: jobs are under way, or events were not retrieved. */
DOCA_STABLE doca_error_t doca_workq_set_depth(struct doca_workq *workq, uint32_t depth);

/* Hands a job to its context. The job's buffers must stay until its event is retrieved, unchanged.
 * Several jobs under way may end in any order.
 * NO_MEMORY: as many as the queue's depth are under way: retrieve. INVALID_VALUE: the context has no
 * job of that type; or something that the job's description names. BAD_STATE: the context is stopped.
 * NOT_FOUND: the queue is not added to the context. NOT_PERMITTED, NOT_SUPPORTED: see the job. After
 * any of them there will be no event. */
DOCA_STABLE doca_error_t doca_workq_submit(struct doca_workq *workq, const struct doca_job *job);

/* Makes things happen, and gives the next event.
 * SUCCESS: of a job that is done. IO_FAILED: of a job that failed; the event says which, and
 * result.u64 why (CONNECTION_RESET or NOT_FOUND: the owner of imported memory has gone, or its memory map has).
 * AGAIN: there is none now; the event is as it was. INVALID_VALUE: a flag. */
DOCA_STABLE doca_error_t doca_workq_progress_retrieve(struct doca_workq *workq,
                                                      struct doca_event *ev, int flags);

/* ---- sleeping --------------------------------------------------------------------------------- */

/* Off (0) at first. BAD_STATE: the queue is added to a context, and this would change something. */
DOCA_STABLE doca_error_t doca_workq_set_event_driven_enable(struct doca_workq *workq,
                                                            uint8_t enable);
DOCA_STABLE doca_error_t doca_workq_get_event_driven_enable(struct doca_workq *workq,
                                                            uint8_t *enabled);
/* These three: BAD_STATE if it is off. */
/* The descriptor stays the queue's, and the same. */
DOCA_STABLE doca_error_t doca_workq_get_event_handle(struct doca_workq *workq,
                                                     doca_event_handle_t *handle);
/* The descriptor becomes readable when there is something to progress or to retrieve, at once if there
 * is now. A wake-up may turn out to be none: the next retrieve then answers AGAIN. */
DOCA_STABLE doca_error_t doca_workq_event_handle_arm(struct doca_workq *workq);
/* It is quiet again from the next arming on, unless there is something. */
DOCA_STABLE doca_error_t doca_workq_event_handle_clear(struct doca_workq *workq,
                                                       doca_event_handle_t handle);

/* ---- contexts --------------------------------------------------------------------------------- */

/* Of contexts of that generation:
 *   doca_ctx_start()  INVALID_VALUE: it has no device. BAD_STATE: started already. Else SUCCESS.
 *   doca_ctx_stop()   NOT_PERMITTED: queues are added to it. BAD_STATE: not started. Else SUCCESS. */

/* BAD_STATE: it is started. IN_USE: it has that device. NOT_SUPPORTED: it has another one, and takes no
 * more. The device cannot be closed until it is taken away. */
DOCA_STABLE doca_error_t doca_ctx_dev_add(struct doca_ctx *ctx, struct doca_dev *dev);
/* BAD_STATE: it is started. NOT_FOUND: it does not have the device. */
DOCA_STABLE doca_error_t doca_ctx_dev_rm(struct doca_ctx *ctx, struct doca_dev *dev);

/* By the queue's thread, as all that concerns the queue. BAD_STATE: the context is not started. IN_USE:
 * the queue is added already. */
DOCA_STABLE doca_error_t doca_ctx_workq_add(struct doca_ctx *ctx, struct doca_workq *workq);
/* BAD_STATE: the context is not started. NOT_FOUND: the queue is not added to it. NOT_PERMITTED: jobs of
 * the context are under way on it; what has ended can still be retrieved afterwards. */
DOCA_STABLE doca_error_t doca_ctx_workq_rm(struct doca_ctx *ctx, struct doca_workq *workq);

/* 1 for contexts of that generation, 0 for others. */
DOCA_STABLE doca_error_t doca_ctx_get_event_driven_supported(struct doca_ctx *ctx,
                                                             uint8_t *event_supported);
/* As many as there is memory for. */
DOCA_STABLE doca_error_t doca_ctx_get_max_num_ctx(uint32_t *max_num_ctx);

#ifdef __cplusplus
}
#endif

#endif
