/*
 * DMA: copies between memory of this process and memory that the other side exported
 * (doca_mmap_export_pci, doca_mmap_create_from_export), without its program's help.
 *
 * Today by tasks on a progress engine; until 2023 by jobs on a work queue.
 */
#ifndef DOCA_DMA_H_
#define DOCA_DMA_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_ctx.h>
#include <doca_error.h>
#include <doca_pe.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_dev;
struct doca_devinfo;
struct doca_dma;
struct doca_dma_task_memcpy;

typedef void (*doca_dma_task_memcpy_completion_cb_t)(struct doca_dma_task_memcpy *task,
                                                     union doca_data task_user_data,
                                                     union doca_data ctx_user_data);

DOCA_STABLE doca_error_t doca_dma_create(struct doca_dev *dev, struct doca_dma **dma);
/* BAD_STATE: not idle. */
DOCA_STABLE doca_error_t doca_dma_destroy(struct doca_dma *dma);
/* Start and stop answer SUCCESS (stop: when no task is allocated). */
DOCA_STABLE struct doca_ctx *doca_dma_as_ctx(struct doca_dma *dma);

DOCA_STABLE doca_error_t doca_dma_cap_task_memcpy_is_supported(const struct doca_devinfo *devinfo);
DOCA_STABLE doca_error_t doca_dma_cap_task_memcpy_get_max_buf_size(
    const struct doca_devinfo *devinfo, uint64_t *buf_size);
/* Of a source. */
DOCA_STABLE doca_error_t doca_dma_cap_task_memcpy_get_max_buf_list_len(
    const struct doca_devinfo *devinfo, uint32_t *max_buf_list_len);
DOCA_STABLE doca_error_t doca_dma_cap_get_max_num_tasks(struct doca_dma *dma,
                                                        uint32_t *max_num_tasks);

DOCA_STABLE doca_error_t doca_dma_task_memcpy_set_conf(
    struct doca_dma *dma, doca_dma_task_memcpy_completion_cb_t task_completion_cb,
    doca_dma_task_memcpy_completion_cb_t task_error_cb, uint32_t num_memcpy_tasks);
/* Copies the data of `src`, which may be the head of a list, behind the data of `dst`, whose data
 * grows. Either may be of imported memory maps, and null until a setter names it. On submit:
 * INVALID_VALUE: no buffer, no data, more than the room of `dst`, `dst` is in a list, `src` is in one
 * and not its head, or the list is too long; NOT_PERMITTED: a memory map does not allow it; NOT_SUPPORTED: both are imported. */
DOCA_STABLE doca_error_t doca_dma_task_memcpy_alloc_init(struct doca_dma *dma,
                                                         const struct doca_buf *src,
                                                         struct doca_buf *dst,
                                                         union doca_data user_data,
                                                         struct doca_dma_task_memcpy **task);
DOCA_STABLE struct doca_task *doca_dma_task_memcpy_as_task(struct doca_dma_task_memcpy *task);
DOCA_STABLE void doca_dma_task_memcpy_set_src(struct doca_dma_task_memcpy *task,
                                              const struct doca_buf *src);
DOCA_STABLE const struct doca_buf *doca_dma_task_memcpy_get_src(
    const struct doca_dma_task_memcpy *task);
DOCA_STABLE void doca_dma_task_memcpy_set_dst(struct doca_dma_task_memcpy *task,
                                              struct doca_buf *dst);
DOCA_STABLE struct doca_buf *doca_dma_task_memcpy_get_dst(const struct doca_dma_task_memcpy *task);

/* ---- 2023 and before ---------------------------------------------------------------------------- */

/* A context for work queues (doca_workq.h): doca_dma_create(&dma) calls this. It takes one device. */
DOCA_STABLE doca_error_t doca_dma_create_2023(struct doca_dma **dma);
/* doca_dma_destroy() of such a context. IN_USE: it is not stopped.
 * doca_dma_task_memcpy_set_conf(): NOT_SUPPORTED. */

enum doca_dma_job_types {
    DOCA_DMA_JOB_MEMCPY = DOCA_ACTION_DMA_FIRST + 1
};

/* A copy. Errors of its submission are those of doca_dma_task_memcpy_alloc_init(), but that the other
 * side's end is told by the event.
 *
 * Where the data goes depends on the program's time. If it has called doca_mmap_populate(): where the data
 * of `dst_buff` begins, and that data is what was copied afterwards; the same job can be submitted again.
 * Else: behind the data of `dst_buff`, as today; or where it begins, if there is no room behind it. */
struct doca_dma_job_memcpy {
    struct doca_job base;
    struct doca_buf *dst_buff;
    const struct doca_buf *src_buff;
    /* Of DOCA 1.3, where buffers had no data: how much to copy. Looked at if `src_buff` has none. */
#if defined(__cplusplus) && __cplusplus >= 201402L
    size_t num_bytes_to_copy = 0; /* (who names the members before it is not warned of it) */
#else
    size_t num_bytes_to_copy;
#endif
};

/* The event's result.u64 is the same. */
struct doca_dma_memcpy_result {
    doca_error_t result;
};

enum doca_dma_devinfo_caps {
    DOCA_DMA_CAP_NONE = 0,
    DOCA_DMA_CAP_HW_OFFLOAD = 1U << 0
};

/* INVALID_VALUE: there is no such job. */
DOCA_STABLE doca_error_t doca_dma_job_get_supported(const struct doca_devinfo *devinfo,
                                                    enum doca_dma_job_types job_type);
static inline doca_error_t doca_dma_get_max_buf_size(const struct doca_devinfo *devinfo,
                                                     uint64_t *buf_size)
{
    return doca_dma_cap_task_memcpy_get_max_buf_size(devinfo, buf_size);
}
static inline doca_error_t doca_dma_get_max_list_buf_num_elem(const struct doca_devinfo *devinfo,
                                                              uint32_t *max_list_num_elem)
{
    return doca_dma_cap_task_memcpy_get_max_buf_list_len(devinfo, max_list_num_elem);
}

#ifdef __cplusplus
}
#endif

#define DOCA_DMA_COMPLETE
#include <doca_compat_2023.h>

#endif
