/* Copies of memory as they were made until 2023: jobs on a work queue. */
#ifndef EXAMPLES_DMA_COPIER_H
#define EXAMPLES_DMA_COPIER_H

#include <stddef.h>
#include <stdint.h>

#include <doca_buf_inventory.h>
#include <doca_dma.h>
#include <doca_mmap.h>

/* The client's message to the server: where its memory is, and behind that how to reach it. */
struct offer {
    uint64_t address; /* the client's */
    uint64_t length;
};

struct copier {
    struct doca_dev *dev;
    struct doca_mmap *memory; /* this side's */
    struct doca_buf_inventory *buffers;
    struct doca_dma *dma;
    struct doca_workq *queue;
    int is_open;
};

/* A map of memory that this side has. */
doca_error_t map_memory(struct doca_dev *dev, void *memory, size_t length, uint32_t permissions,
                        struct doca_mmap **map);

/* From and to `memory`; close what was opened even if that failed. */
doca_error_t copier_open(struct copier *copier, struct doca_dev *dev, void *memory, size_t length);
doca_error_t copier_close(struct copier *copier);

/* Copies, and sleeps until it is done. */
doca_error_t copier_copy(struct copier *copier, struct doca_mmap *from_map, void *from,
                         struct doca_mmap *to_map, void *to, size_t length);

#endif
