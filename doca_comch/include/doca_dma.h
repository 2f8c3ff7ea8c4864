/*
 * DMA: copies between memory of this process and memory that the other side exported
 * (doca_mmap_export_pci, doca_mmap_create_from_export), without its program's help.
 */
#ifndef DOCA_DMA_H_
#define DOCA_DMA_H_

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

#ifdef __cplusplus
}
#endif

#endif
