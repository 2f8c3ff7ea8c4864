/*
 * The progress engine: what a program calls to make things happen; and tasks, the units of work.
 *
 * An engine belongs to one thread at a time; a program has as many as it wants. To sleep:
 *
 *     doca_pe_get_notification_handle(pe, &handle);          once; put it into an epoll set
 *     for (;;) {
 *         while (doca_pe_progress(pe)) {}
 *         doca_pe_request_notification(pe);
 *         epoll_wait(...);
 *         doca_pe_clear_notification(pe, handle);
 *     }
 */
#ifndef DOCA_PE_H_
#define DOCA_PE_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_ctx;
struct doca_pe;
struct doca_task;

/* How much one progress call does: until something has happened, or all there is. One call of this
 * implementation does all there is in either mode. */
enum doca_pe_event_mode {
    DOCA_PE_EVENT_MODE_PROGRESS_SELECTIVE = 0,
    DOCA_PE_EVENT_MODE_PROGRESS_ALL = 1
};

/* How a task is submitted; doca_task_submit() flushes. A producer's task that is submitted without
 * FLUSH may wait, so that an RDMA device hears of several at once: until a task of that producer is
 * submitted with it, doca_ctx_flush_tasks(), progress, or a request for a notification. */
enum doca_task_submit_flag {
    DOCA_TASK_SUBMIT_FLAG_NONE = 0,
    DOCA_TASK_SUBMIT_FLAG_FLUSH = 1 << 0,
    DOCA_TASK_SUBMIT_FLAG_OPTIMIZE_REPORTS = 1 << 1
};

DOCA_STABLE doca_error_t doca_pe_create(struct doca_pe **pe);
/* IN_USE: contexts are connected to it, or it is progressing. */
DOCA_STABLE doca_error_t doca_pe_destroy(struct doca_pe *pe);

/* 1: something happened; 0: there was nothing to do (also inside a callback, and for null). */
DOCA_STABLE uint8_t doca_pe_progress(struct doca_pe *pe);

/* A context has one engine. BAD_STATE: it is not idle. NOT_PERMITTED: it has one already. */
DOCA_STABLE doca_error_t doca_pe_connect_ctx(struct doca_pe *pe, struct doca_ctx *ctx);

DOCA_STABLE doca_error_t doca_pe_get_notification_handle(const struct doca_pe *pe,
                                                         doca_notification_handle_t *handle);
/* The handle becomes readable when there is something to progress, or what was answered AGAIN may be
 * submitted again; at once if there is now. What the program does before it sleeps ends the sleep if
 * it gives progress something to do. */
DOCA_STABLE doca_error_t doca_pe_request_notification(struct doca_pe *pe);
DOCA_STABLE doca_error_t doca_pe_clear_notification(struct doca_pe *pe,
                                                    doca_notification_handle_t handle);

DOCA_STABLE doca_error_t doca_pe_get_num_inflight_tasks(const struct doca_pe *pe,
                                                        size_t *num_inflight_tasks);
DOCA_STABLE doca_error_t doca_pe_set_event_mode(struct doca_pe *pe, enum doca_pe_event_mode mode);

/*
 * Tasks come from a context's alloc-init calls, as many as its set_conf said. A task is submitted,
 * completes through the callback for success or for errors, and is then the program's again: it
 * submits it anew or frees it, inside the callback or later.
 */

/* BAD_STATE: the task is submitted already or freed, or its context is not running. AGAIN: no room
 * now, submit again after progress; other errors are the task's own, see where it is made. */
DOCA_STABLE doca_error_t doca_task_submit(struct doca_task *task);
DOCA_STABLE doca_error_t doca_task_try_submit(struct doca_task *task);
/* The flags are hints, and need nothing done here. */
DOCA_EXPERIMENTAL doca_error_t doca_task_submit_ex(struct doca_task *task, uint32_t flags);

/* A task that is submitted is freed when it completes, without a callback. Freeing it twice does
 * nothing. */
DOCA_STABLE void doca_task_free(struct doca_task *task);

/* How the task ended; IN_PROGRESS while it is submitted. */
DOCA_STABLE doca_error_t doca_task_get_status(const struct doca_task *task);

DOCA_STABLE void doca_task_set_user_data(struct doca_task *task, union doca_data user_data);
DOCA_STABLE union doca_data doca_task_get_user_data(const struct doca_task *task);
DOCA_STABLE struct doca_ctx *doca_task_get_ctx(const struct doca_task *task);

#ifdef __cplusplus
}
#endif

#endif
