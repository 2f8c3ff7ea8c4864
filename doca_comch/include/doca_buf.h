/*
 * Buffers: pieces of a memory map's range.
 *
 *     head            data                      data + data_len            head + len
 *      ├── head room ──┼──────── data ────────────┼────────── tail room ──────┤
 *
 * What is sent is the data; what is received is appended to it, into the tail room. Buffers are
 * counted: the last reference that is given back returns the buffer to where it came from.
 */
#ifndef DOCA_BUF_H_
#define DOCA_BUF_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_buf;

DOCA_STABLE doca_error_t doca_buf_inc_refcount(struct doca_buf *buf, uint16_t *refcount);
/* Both: `refcount` may be null; it gets the count before the call. NOT_PERMITTED: the buffer is in
 * a list (give its head back, or unchain it). One that a task still receives or copies into returns to
 * its inventory, or pool, when the task is done: until then that is in use. */
DOCA_STABLE doca_error_t doca_buf_dec_refcount(struct doca_buf *buf, uint16_t *refcount);
DOCA_STABLE doca_error_t doca_buf_get_refcount(const struct doca_buf *buf, uint16_t *refcount);

DOCA_STABLE doca_error_t doca_buf_get_len(const struct doca_buf *buf, size_t *len);
DOCA_STABLE doca_error_t doca_buf_get_head(const struct doca_buf *buf, void **head);
DOCA_STABLE doca_error_t doca_buf_get_data_len(const struct doca_buf *buf, size_t *data_len);
DOCA_STABLE doca_error_t doca_buf_get_data(const struct doca_buf *buf, void **data);

/* INVALID_VALUE: the data is not inside the buffer. */
DOCA_STABLE doca_error_t doca_buf_set_data(struct doca_buf *buf, void *data, size_t data_len);
DOCA_STABLE doca_error_t doca_buf_set_data_len(struct doca_buf *buf, size_t data_len);
DOCA_STABLE doca_error_t doca_buf_reset_data_len(struct doca_buf *buf);

/* Lists of buffers. Consumers and producers refuse them. */
DOCA_STABLE doca_error_t doca_buf_get_list_len(const struct doca_buf *buf, uint32_t *num_elements);
DOCA_STABLE doca_error_t doca_buf_get_next_in_list(struct doca_buf *buf,
                                                   struct doca_buf **next_buf);
DOCA_STABLE doca_error_t doca_buf_get_last_in_list(struct doca_buf *buf,
                                                   struct doca_buf **last_buf);
DOCA_STABLE doca_error_t doca_buf_is_last_in_list(const struct doca_buf *buf, uint8_t *is_last);
DOCA_STABLE doca_error_t doca_buf_is_first_in_list(const struct doca_buf *buf, uint8_t *is_first);
DOCA_STABLE doca_error_t doca_buf_is_in_list(const struct doca_buf *buf, uint8_t *is_in_list);
/* Both must be heads. `list2` follows the end of `list1`. NOT_PERMITTED: `list2` has other references. */
DOCA_STABLE doca_error_t doca_buf_chain_list(struct doca_buf *list1, struct doca_buf *list2);
/* The same, when the end of the first list is known. */
DOCA_STABLE doca_error_t doca_buf_chain_list_tail(struct doca_buf *list1,
                                                  struct doca_buf *list1_tail,
                                                  struct doca_buf *list2);
/* `list2` is an element of `list1`, and becomes a head of its own. */
DOCA_STABLE doca_error_t doca_buf_unchain_list(struct doca_buf *list1, struct doca_buf *list2);

#ifdef __cplusplus
}
#endif

#define DOCA_BUF_COMPLETE
#include <doca_compat_2023.h>

#endif
