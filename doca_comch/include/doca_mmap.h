/*
 * Memory maps: ranges of memory that devices, and through them the other side, may reach.
 *
 * A map is created, given its range, permissions and devices, and started; then buffers are taken
 * from it (doca_buf_inventory.h) and it can be exported. Maps and their buffers may be used by one
 * thread at a time, or by any after doca_mmap_enable_thread_safety().
 *
 * As they were until 2023: doca_compat_2023.h.
 */
#ifndef DOCA_MMAP_H_
#define DOCA_MMAP_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_devinfo;
struct doca_dpa;
struct doca_mmap;

/* A device's handle of a map, for programs on the DPA. */
typedef uint32_t doca_dpa_dev_mmap_t;

typedef void(doca_mmap_memrange_free_cb_t)(void *addr, size_t len, void *cookie);

DOCA_STABLE doca_error_t doca_mmap_create(struct doca_mmap **mmap);
/* NOT_PERMITTED: buffers of the map are not given back, or a consumer that receives into it is not idle. */
DOCA_STABLE doca_error_t doca_mmap_destroy(struct doca_mmap *mmap);

/* The setters below: BAD_STATE once the map is started; NOT_PERMITTED on an imported one. */
/* Once: NOT_PERMITTED for another range. INVALID_VALUE: the range is empty, or wraps. */
DOCA_STABLE doca_error_t doca_mmap_set_memrange(struct doca_mmap *mmap, void *addr, size_t len);
/* A combination of doca_access_flag, with one of the two for PCI at most. Without it: local reads
 * and writes. */
DOCA_STABLE doca_error_t doca_mmap_set_permissions(struct doca_mmap *mmap, uint32_t access_mask);
DOCA_STABLE doca_error_t doca_mmap_set_max_num_devices(struct doca_mmap *mmap,
                                                       uint32_t max_num_devices);
/* Called when a map that was started no longer holds the range: when it is destroyed. */
DOCA_STABLE doca_error_t doca_mmap_set_free_cb(struct doca_mmap *mmap,
                                               doca_mmap_memrange_free_cb_t *free_cb, void *cookie);
DOCA_STABLE doca_error_t doca_mmap_enable_thread_safety(struct doca_mmap *mmap);
DOCA_STABLE doca_error_t doca_mmap_set_user_data(struct doca_mmap *mmap, union doca_data user_data);

/* ALREADY_EXIST: the map has it. */
DOCA_STABLE doca_error_t doca_mmap_add_dev(struct doca_mmap *mmap, struct doca_dev *dev);
DOCA_STABLE doca_error_t doca_mmap_rm_dev(struct doca_mmap *mmap, struct doca_dev *dev);

/* BAD_STATE: started already, or without a range or a device. INVALID_VALUE: not all of the range is
 * memory of this process, or it may not be written and the permissions say otherwise. */
DOCA_STABLE doca_error_t doca_mmap_start(struct doca_mmap *mmap);
/* NOT_PERMITTED: as for doca_mmap_destroy(). What was exported cannot be reached any more. */
DOCA_STABLE doca_error_t doca_mmap_stop(struct doca_mmap *mmap);

DOCA_STABLE doca_error_t doca_mmap_get_memrange(const struct doca_mmap *mmap, void **addr,
                                                size_t *len);
DOCA_STABLE doca_error_t doca_mmap_get_max_num_devices(const struct doca_mmap *mmap,
                                                       uint32_t *max_num_devices);
/* Buffers of the map that are in use. */
DOCA_STABLE doca_error_t doca_mmap_get_num_bufs(const struct doca_mmap *mmap, uint32_t *num_bufs);
DOCA_STABLE doca_error_t doca_mmap_get_user_data(const struct doca_mmap *mmap,
                                                 union doca_data *user_data);
DOCA_STABLE doca_error_t doca_mmap_get_exported(const struct doca_mmap *mmap, uint8_t *exported);
DOCA_STABLE doca_error_t doca_mmap_get_from_export(const struct doca_mmap *mmap,
                                                   uint8_t *from_export);

/* Bytes by which the other side can import the map, sent to it by any means; they are the map's,
 * and valid until it is stopped. NOT_PERMITTED: neither PCI permission was set; the map is itself
 * imported, or not started. NOT_FOUND: the map does not have the device. */
DOCA_STABLE doca_error_t doca_mmap_export_pci(struct doca_mmap *mmap, const struct doca_dev *dev,
                                              const void **export_desc, size_t *export_desc_len);
/* NOT_SUPPORTED: there is no RDMA here. */
DOCA_STABLE doca_error_t doca_mmap_export_rdma(struct doca_mmap *mmap, const struct doca_dev *dev,
                                               const void **export_desc, size_t *export_desc_len);
/* The map is started when this returns. INVALID_VALUE: these bytes are no export. `user_data` may
 * be null. */
DOCA_STABLE doca_error_t doca_mmap_create_from_export(const union doca_data *user_data,
                                                      const void *export_desc,
                                                      size_t export_desc_len, struct doca_dev *dev,
                                                      struct doca_mmap **mmap);

DOCA_STABLE doca_error_t doca_mmap_cap_is_export_pci_supported(const struct doca_devinfo *devinfo,
                                                               uint8_t *mmap_export);
DOCA_STABLE doca_error_t doca_mmap_cap_is_create_from_export_pci_supported(
    const struct doca_devinfo *devinfo, uint8_t *from_export);

/* The map's handle for programs on the DPA. BAD_STATE: not started. NOT_FOUND: the map does not have the
 * device. */
DOCA_EXPERIMENTAL doca_error_t doca_mmap_dev_get_dpa_handle(struct doca_mmap *mmap,
                                                            const struct doca_dev *dev,
                                                            doca_dpa_dev_mmap_t *dpa_mmap);

#ifdef __cplusplus
}
#endif

#define DOCA_MMAP_COMPLETE
#include <doca_compat_2023.h>

#endif
