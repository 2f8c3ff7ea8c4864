/* Pools: buffers of one size, cut from one memory map. */
#ifndef DOCA_BUF_POOL_H_
#define DOCA_BUF_POOL_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_buf_pool;
struct doca_mmap;

/* The map has room for `num_elements` times `element_size` bytes, and is started when the pool is.
 * All buffers are without data at first. */
DOCA_STABLE doca_error_t doca_buf_pool_create(size_t num_elements, size_t element_size,
                                              const struct doca_mmap *mmap,
                                              struct doca_buf_pool **buf_pool);
/* IN_USE: buffers are not given back. */
DOCA_STABLE doca_error_t doca_buf_pool_destroy(struct doca_buf_pool *buf_pool);
/* INITIALIZATION: the map is too small. BAD_STATE: it is not started. */
DOCA_STABLE doca_error_t doca_buf_pool_start(struct doca_buf_pool *buf_pool);
DOCA_STABLE doca_error_t doca_buf_pool_stop(struct doca_buf_pool *buf_pool);

/* EMPTY: all are in use. */
DOCA_STABLE doca_error_t doca_buf_pool_buf_alloc(struct doca_buf_pool *buf_pool,
                                                 struct doca_buf **buf);

DOCA_STABLE doca_error_t doca_buf_pool_get_element_size(const struct doca_buf_pool *buf_pool,
                                                        size_t *element_size);
DOCA_STABLE doca_error_t doca_buf_pool_get_num_elements(const struct doca_buf_pool *buf_pool,
                                                        uint32_t *num_elements);
DOCA_STABLE doca_error_t doca_buf_pool_get_num_free_elements(const struct doca_buf_pool *buf_pool,
                                                             uint32_t *num_free_elements);
/* A power of two; 1 at first. Before start. */
DOCA_STABLE doca_error_t doca_buf_pool_set_element_alignment(struct doca_buf_pool *buf_pool,
                                                             size_t element_alignment);
DOCA_STABLE doca_error_t doca_buf_pool_get_element_alignment(const struct doca_buf_pool *buf_pool,
                                                             size_t *element_alignment);
DOCA_STABLE doca_error_t doca_buf_pool_set_user_data(struct doca_buf_pool *buf_pool,
                                                     union doca_data user_data);
DOCA_STABLE doca_error_t doca_buf_pool_get_user_data(const struct doca_buf_pool *buf_pool,
                                                     union doca_data *user_data);

#ifdef __cplusplus
}
#endif

#endif
