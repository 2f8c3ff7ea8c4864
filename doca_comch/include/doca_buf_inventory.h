/* Where buffers come from: a fixed number of buffer objects, for pieces of any memory map. */
#ifndef DOCA_BUF_INVENTORY_H_
#define DOCA_BUF_INVENTORY_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_buf.h>
#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;
struct doca_buf_inventory;
struct doca_mmap;

DOCA_STABLE doca_error_t doca_buf_inventory_create(size_t num_elements,
                                                   struct doca_buf_inventory **buf_inventory);
/* IN_USE: buffers are not given back. */
DOCA_STABLE doca_error_t doca_buf_inventory_destroy(struct doca_buf_inventory *inventory);
DOCA_STABLE doca_error_t doca_buf_inventory_start(struct doca_buf_inventory *inventory);
DOCA_STABLE doca_error_t doca_buf_inventory_stop(struct doca_buf_inventory *inventory);
/* BAD_STATE: not started. */
DOCA_STABLE doca_error_t doca_buf_inventory_expand(struct doca_buf_inventory *inventory,
                                                   uint32_t num_elements);

/* A buffer. NO_MEMORY: all are in use. INVALID_VALUE: the range is not inside the map, or the data
 * not inside the range. BAD_STATE: inventory or map are not started. */
DOCA_STABLE doca_error_t doca_buf_inventory_buf_get_by_args(struct doca_buf_inventory *inventory,
                                                            struct doca_mmap *mmap, void *addr,
                                                            size_t len, void *data, size_t data_len,
                                                            struct doca_buf **buf);
/* Without data. */
DOCA_STABLE doca_error_t doca_buf_inventory_buf_get_by_addr(struct doca_buf_inventory *inventory,
                                                            struct doca_mmap *mmap, void *addr,
                                                            size_t len, struct doca_buf **buf);
/* All of it data. */
DOCA_STABLE doca_error_t doca_buf_inventory_buf_get_by_data(struct doca_buf_inventory *inventory,
                                                            struct doca_mmap *mmap, void *data,
                                                            size_t data_len, struct doca_buf **buf);
/* Another buffer for the same piece. */
DOCA_STABLE doca_error_t doca_buf_inventory_buf_dup(struct doca_buf_inventory *inventory,
                                                    const struct doca_buf *src_buf,
                                                    struct doca_buf **dst_buf);

/* Moves a buffer to another piece of its map. NOT_PERMITTED: others hold references, it is in a
 * list, or a pool's. */
DOCA_STABLE doca_error_t doca_buf_inventory_buf_reuse_by_args(struct doca_buf *buf, void *addr,
                                                              size_t len, void *data,
                                                              size_t data_len);
DOCA_STABLE doca_error_t doca_buf_inventory_buf_reuse_by_addr(struct doca_buf *buf, void *addr,
                                                              size_t len);
DOCA_STABLE doca_error_t doca_buf_inventory_buf_reuse_by_data(struct doca_buf *buf, void *data,
                                                              size_t data_len);

DOCA_STABLE doca_error_t doca_buf_inventory_get_num_elements(
    const struct doca_buf_inventory *inventory, uint32_t *num_of_elements);
DOCA_STABLE doca_error_t doca_buf_inventory_get_num_free_elements(
    const struct doca_buf_inventory *inventory, uint32_t *num_of_free_elements);
DOCA_STABLE doca_error_t doca_buf_inventory_set_user_data(struct doca_buf_inventory *inventory,
                                                          union doca_data user_data);
DOCA_STABLE doca_error_t doca_buf_inventory_get_user_data(
    const struct doca_buf_inventory *inventory, union doca_data *user_data);

#ifdef __cplusplus
}
#endif

#define DOCA_BUF_INVENTORY_COMPLETE
#include <doca_compat_2023.h>

#endif
