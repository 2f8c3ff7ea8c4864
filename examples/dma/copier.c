#include "copier.h"

#include <poll.h>
#include <string.h>

#include <doca_ctx.h>
#include <doca_log.h>

DOCA_LOG_REGISTER(EXAMPLE::COPIER)

doca_error_t map_memory(struct doca_dev *dev, void *memory, size_t length, uint32_t permissions,
                        struct doca_mmap **map)
{
    doca_error_t result = doca_mmap_create(NULL, map);

    if (result != DOCA_SUCCESS) {
        *map = NULL;
        return result;
    }
    result = doca_mmap_dev_add(*map, dev);
    DOCA_ERROR_PROPAGATE(result, doca_mmap_set_permissions(*map, permissions));
    DOCA_ERROR_PROPAGATE(result, doca_mmap_set_memrange(*map, memory, length));
    DOCA_ERROR_PROPAGATE(result, doca_mmap_start(*map));
    return result;
}

doca_error_t copier_open(struct copier *copier, struct doca_dev *dev, void *memory, size_t length)
{
    struct doca_ctx *ctx;
    doca_error_t result;

    memset(copier, 0, sizeof(*copier));
    copier->dev = dev;
    result = map_memory(dev, memory, length, DOCA_ACCESS_LOCAL_READ_WRITE, &copier->memory);
    if (result == DOCA_SUCCESS)
        result = doca_buf_inventory_create(NULL, 2, DOCA_BUF_EXTENSION_NONE, &copier->buffers);
    if (result == DOCA_SUCCESS)
        result = doca_buf_inventory_start(copier->buffers);
    if (result == DOCA_SUCCESS)
        result = doca_workq_create(1, &copier->queue);
    if (result == DOCA_SUCCESS)
        result = doca_workq_set_event_driven_enable(copier->queue, 1);
    if (result == DOCA_SUCCESS)
        result = doca_dma_create(&copier->dma);
    if (result != DOCA_SUCCESS)
        return result;
    ctx = doca_dma_as_ctx(copier->dma);
    result = doca_ctx_dev_add(ctx, dev);
    if (result == DOCA_SUCCESS)
        result = doca_ctx_start(ctx);
    if (result == DOCA_SUCCESS)
        result = doca_ctx_workq_add(ctx, copier->queue);
    copier->is_open = result == DOCA_SUCCESS;
    return result;
}

doca_error_t copier_close(struct copier *copier)
{
    doca_error_t result = DOCA_SUCCESS;

    if (copier->is_open) {
        struct doca_ctx *ctx = doca_dma_as_ctx(copier->dma);

        result = doca_ctx_workq_rm(ctx, copier->queue);
        DOCA_ERROR_PROPAGATE(result, doca_ctx_stop(ctx));
        DOCA_ERROR_PROPAGATE(result, doca_ctx_dev_rm(ctx, copier->dev));
    }
    if (copier->queue != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_workq_destroy(copier->queue));
    if (copier->dma != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_dma_destroy(copier->dma));
    if (copier->buffers != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_buf_inventory_destroy(copier->buffers));
    if (copier->memory != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_mmap_destroy(copier->memory));
    return result;
}

/* The next event, asleep until there is one. */
static doca_error_t wait_for_event(struct doca_workq *queue, struct doca_event *event)
{
    doca_event_handle_t handle;
    struct pollfd wait = {.events = POLLIN};
    doca_error_t result = doca_workq_get_event_handle(queue, &handle);

    wait.fd = handle;
    while (result == DOCA_SUCCESS) {
        doca_error_t answer =
            doca_workq_progress_retrieve(queue, event, DOCA_WORKQ_RETRIEVE_FLAGS_NONE);

        if (answer != DOCA_ERROR_AGAIN)
            return answer;
        result = doca_workq_event_handle_arm(queue);
        if (result == DOCA_SUCCESS) {
            (void)poll(&wait, 1, -1);
            result = doca_workq_event_handle_clear(queue, handle);
        }
    }
    return result;
}

doca_error_t copier_copy(struct copier *copier, struct doca_mmap *from_map, void *from,
                         struct doca_mmap *to_map, void *to, size_t length)
{
    struct doca_buf *source = NULL, *destination = NULL;
    struct doca_dma_job_memcpy job = {0};
    struct doca_event event = {0};
    doca_error_t result =
        doca_buf_inventory_buf_by_addr(copier->buffers, from_map, from, length, &source);

    if (result == DOCA_SUCCESS)
        result = doca_buf_inventory_buf_by_addr(copier->buffers, to_map, to, length, &destination);
    if (result == DOCA_SUCCESS)
        result = doca_buf_set_data(source, from, length);
    if (result == DOCA_SUCCESS) {
        job.base.type = DOCA_DMA_JOB_MEMCPY;
        job.base.flags = DOCA_JOB_FLAGS_NONE;
        job.base.ctx = doca_dma_as_ctx(copier->dma);
        job.src_buff = source;
        job.dst_buff = destination;
        result = doca_workq_submit(copier->queue, &job.base);
    }
    if (result == DOCA_SUCCESS) {
        result = wait_for_event(copier->queue, &event);
        if (result == DOCA_ERROR_IO_FAILED)
            result = (doca_error_t)event.result.u64;
    }
    if (result != DOCA_SUCCESS)
        DOCA_LOG_ERR("Cannot copy: %s", doca_get_error_string(result));
    if (destination != NULL)
        (void)doca_buf_refcount_rm(destination, NULL);
    if (source != NULL)
        (void)doca_buf_refcount_rm(source, NULL);
    return result;
}
