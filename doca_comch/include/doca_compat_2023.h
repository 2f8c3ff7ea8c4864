/*
 * The spellings of 2023 and before, for programs of that time (DOCA 1.3 to 2.2). Each part is there once
 * the header with the present spelling is: doca_types.h, doca_error.h, doca_log.h, doca_dev.h,
 * doca_mmap.h, doca_buf.h, doca_buf_inventory.h, doca_dma.h and doca_comm_channel.h include this file at
 * their end. Work queues and jobs are in doca_workq.h.
 *
 * Nobody says which generation a program is of. Most names are of one only. Those of both are told apart
 * where they are called:
 *
 *   by the number of arguments, which a macro of that name counts:
 *                                     today                       then
 *     doca_mmap_create                (mmap)                      (user data or name, mmap)
 *     doca_dma_create                 (dev, dma)                  (dma)
 *     doca_buf_inventory_create       (elements, inventory)       (user data or name, elements,
 *                                                                  extensions, inventory)
 *   by the type of an argument:
 *     doca_mmap_create_from_export    (user data, ...)            (user data or name, ...)
 *   by the object, which knows how it was created:
 *     doca_ctx_start, doca_ctx_stop, doca_mmap_start, doca_dma_destroy and the like
 *
 * With today's arguments a macro is the function of its name, type checks and all; what is no call, as in
 * &doca_dma_create, is no macro's. Names were for people, and are forgotten.
 *
 * Memory maps came in two forms then. From DOCA 2.0 on they are given a range, and permissions, before
 * they are started, as today. Before, they were started empty, and then given devices, and ranges with
 * doca_mmap_populate(). A map that was created by the call of that time takes either.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <doca_compat.h>

/* ---- telling the generations apart ------------------------------------------------------------ */
#ifndef DOCA_COMPAT_2023_ARGUMENTS
#define DOCA_COMPAT_2023_ARGUMENTS

/* One of the arguments: behind those of a call, which of two names it is depends on their number. */
#define DOCA_COMPAT_2023_3RD(a, b, c, ...) c
#define DOCA_COMPAT_2023_5TH(a, b, c, d, e, ...) e

/* Where either user data or a name is given: the user data, or null. */
union doca_data;
#ifdef __cplusplus
template <class Char> struct doca_compat_2023_name;
template <> struct doca_compat_2023_name<char> {
    typedef const union doca_data *user_data;
};
template <> struct doca_compat_2023_name<const char> {
    typedef const union doca_data *user_data;
};
inline const union doca_data *doca_compat_2023_user_data(const union doca_data *user_data) {
    return user_data;
}
template <class Char>
inline typename doca_compat_2023_name<Char>::user_data doca_compat_2023_user_data(Char *) {
    return NULL;
}
#else
#define doca_compat_2023_user_data(first)                                                          \
    (__extension__ _Generic((first), char *: NULL, const char *: NULL, default: (first)))
#endif

#endif

/* ---- doca_types.h ----------------------------------------------------------------------------- */
#if defined(DOCA_TYPES_COMPLETE) && !defined(DOCA_COMPAT_2023_TYPES)
#define DOCA_COMPAT_2023_TYPES
enum doca_access_flags {
    DOCA_ACCESS_LOCAL_READ_ONLY = DOCA_ACCESS_FLAG_LOCAL_READ_ONLY,
    DOCA_ACCESS_LOCAL_READ_WRITE = DOCA_ACCESS_FLAG_LOCAL_READ_WRITE,
    DOCA_ACCESS_RDMA_READ = DOCA_ACCESS_FLAG_RDMA_READ,
    DOCA_ACCESS_RDMA_WRITE = DOCA_ACCESS_FLAG_RDMA_WRITE,
    DOCA_ACCESS_RDMA_ATOMIC = DOCA_ACCESS_FLAG_RDMA_ATOMIC,
    DOCA_ACCESS_DPU_READ_ONLY = DOCA_ACCESS_FLAG_PCI_READ_ONLY,
    DOCA_ACCESS_DPU_READ_WRITE = DOCA_ACCESS_FLAG_PCI_READ_WRITE,
    /* before 2.0 */
    DOCA_ACCESS_LOCAL_READ = DOCA_ACCESS_FLAG_LOCAL_READ_ONLY,
    DOCA_ACCESS_LOCAL_WRITE = DOCA_ACCESS_FLAG_LOCAL_READ_WRITE,
    DOCA_ACCESS_REMOTE_READ = DOCA_ACCESS_FLAG_RDMA_READ,
    DOCA_ACCESS_REMOTE_WRITE = DOCA_ACCESS_FLAG_RDMA_WRITE,
    DOCA_ACCESS_REMOTE_ATOMIC = DOCA_ACCESS_FLAG_RDMA_ATOMIC
};
#define DOCA_PCI_FUNC_PF DOCA_PCI_FUNC_TYPE_PF
#define DOCA_PCI_FUNC_VF DOCA_PCI_FUNC_TYPE_VF
#define DOCA_PCI_FUNC_SF DOCA_PCI_FUNC_TYPE_SF
#endif

/* ---- doca_error.h ----------------------------------------------------------------------------- */
#if defined(DOCA_ERROR_COMPLETE) && !defined(DOCA_COMPAT_2023_ERROR)
#define DOCA_COMPAT_2023_ERROR
#define doca_get_error_name(error) doca_error_get_name(error)
#define doca_get_error_string(error) doca_error_get_descr(error)
#endif

/* ---- doca_log.h ------------------------------------------------------------------------------- */
#if defined(DOCA_LOG_COMPLETE) && !defined(DOCA_COMPAT_2023_LOG)
#define DOCA_COMPAT_2023_LOG
#define doca_logger_backend doca_log_backend
#define doca_log_create_standard_backend() doca_log_backend_create_standard()
#define doca_log_create_file_backend(file, backend) doca_log_backend_create_with_file(file, backend)
#define doca_log_create_fd_backend(fd, backend) doca_log_backend_create_with_fd(fd, backend)
#define doca_log_create_buffer_backend(buffer, capacity, handler, backend)                         \
    doca_log_backend_create_with_buf(buffer, capacity, handler, backend)
#define doca_log_create_syslog_backend(name, backend)                                              \
    doca_log_backend_create_with_syslog(name, backend)
#define doca_log_source_register(name, source) doca_log_register_source(name, source)
#define doca_log_source_destroy(source) doca_log_unregister_source(source)
/* The levels were 0 (critical) to 4 (debug) once; who wrote those numbers means these. */
#define doca_log_2023_level(level)                                                                 \
    ((uint32_t)(level) < 5 ? ((uint32_t)(level) + 2) * 10 : (uint32_t)(level))
#define doca_log_global_level_set(level)                                                           \
    doca_log_level_set_global_lower_limit(doca_log_2023_level(level))
#define doca_log_global_level_get() doca_log_level_get_global_lower_limit()
#define doca_log_backend_level_set(backend, level)                                                 \
    doca_log_backend_set_level_lower_limit(backend, doca_log_2023_level(level))
/* Messages for the program's author: not there but with DOCA_LOGGING_ALLOW_DLOG. */
#ifdef DOCA_LOGGING_ALLOW_DLOG
#define DOCA_DLOG_CRIT(format, ...) DOCA_LOG_CRIT(format, ##__VA_ARGS__)
#define DOCA_DLOG_ERR(format, ...) DOCA_LOG_ERR(format, ##__VA_ARGS__)
#define DOCA_DLOG_WARN(format, ...) DOCA_LOG_WARN(format, ##__VA_ARGS__)
#define DOCA_DLOG_INFO(format, ...) DOCA_LOG_INFO(format, ##__VA_ARGS__)
#define DOCA_DLOG_DBG(format, ...) DOCA_LOG_DBG(format, ##__VA_ARGS__)
#else
#define DOCA_DLOG_CRIT(...) ((void)0)
#define DOCA_DLOG_ERR(...) ((void)0)
#define DOCA_DLOG_WARN(...) ((void)0)
#define DOCA_DLOG_INFO(...) ((void)0)
#define DOCA_DLOG_DBG(...) ((void)0)
#endif
#endif

/* ---- doca_dev.h ------------------------------------------------------------------------------- */
#if defined(DOCA_DEV_COMPLETE) && !defined(DOCA_COMPAT_2023_DEV)
#define DOCA_COMPAT_2023_DEV

#ifdef __cplusplus
extern "C" {
#endif

enum doca_dev_rep_filter {
    DOCA_DEV_REP_FILTER_ALL = DOCA_DEVINFO_REP_FILTER_ALL,
    DOCA_DEV_REP_FILTER_NET = DOCA_DEVINFO_REP_FILTER_NET,
    DOCA_DEV_REP_FILTER_EMULATED = DOCA_DEVINFO_REP_FILTER_EMULATED
};

/* A PCI address, without its domain: bus:device.function. */
__extension__ struct doca_pci_bdf {
#define PCI_FUNCTION_MAX_VALUE 8
#define PCI_DEVICE_MAX_VALUE 32
#define PCI_BUS_MAX_VALUE 256
    __extension__ union {
        uint16_t raw;
        __extension__ struct {
            uint16_t function : 3;
            uint16_t device : 5;
            uint16_t bus : 8;
        };
    };
};

/* "0000:3b:00.0" */
static inline void doca_pci_bdf_from_text(const char *text, struct doca_pci_bdf *bdf) {
    bdf->bus = (uint16_t)(strtoul(text + 5, NULL, 16) & 0xff);
    bdf->device = (uint16_t)(strtoul(text + 8, NULL, 16) & 0x1f);
    bdf->function = (uint16_t)(strtoul(text + 11, NULL, 16) & 0x7);
}

static inline doca_error_t doca_devinfo_list_create(struct doca_devinfo ***dev_list,
                                                    uint32_t *nb_devs) {
    return doca_devinfo_create_list(dev_list, nb_devs);
}
static inline doca_error_t doca_devinfo_list_destroy(struct doca_devinfo **dev_list) {
    return doca_devinfo_destroy_list(dev_list);
}
static inline doca_error_t doca_devinfo_get_pci_addr(const struct doca_devinfo *devinfo,
                                                     struct doca_pci_bdf *pci_addr) {
    char text[DOCA_DEVINFO_PCI_ADDR_SIZE];
    doca_error_t result = pci_addr == NULL ? DOCA_ERROR_INVALID_VALUE
                                           : doca_devinfo_get_pci_addr_str(devinfo, text);
    if (result == DOCA_SUCCESS) {
        doca_pci_bdf_from_text(text, pci_addr);
    }
    return result;
}
static inline doca_error_t doca_devinfo_get_is_pci_addr_equal(const struct doca_devinfo *devinfo,
                                                              const char *pci_addr_str,
                                                              uint8_t *is_equal) {
    return doca_devinfo_is_equal_pci_addr(devinfo, pci_addr_str, is_equal);
}

static inline doca_error_t doca_devinfo_rep_list_create(struct doca_dev *dev, int filter,
                                                        struct doca_devinfo_rep ***dev_list_rep,
                                                        uint32_t *nb_devs_rep) {
    return doca_devinfo_rep_create_list(dev, filter, dev_list_rep, nb_devs_rep);
}
static inline doca_error_t doca_devinfo_rep_list_destroy(struct doca_devinfo_rep **dev_list_rep) {
    return doca_devinfo_rep_destroy_list(dev_list_rep);
}
static inline doca_error_t
doca_devinfo_rep_get_pci_addr(const struct doca_devinfo_rep *devinfo_rep,
                              struct doca_pci_bdf *pci_addr) {
    char text[DOCA_DEVINFO_REP_PCI_ADDR_SIZE];
    doca_error_t result = pci_addr == NULL ? DOCA_ERROR_INVALID_VALUE
                                           : doca_devinfo_rep_get_pci_addr_str(devinfo_rep, text);
    if (result == DOCA_SUCCESS) {
        doca_pci_bdf_from_text(text, pci_addr);
    }
    return result;
}
static inline doca_error_t
doca_devinfo_rep_get_is_pci_addr_equal(const struct doca_devinfo_rep *devinfo_rep,
                                       const char *pci_addr_str, uint8_t *is_equal) {
    return doca_devinfo_rep_is_equal_pci_addr(devinfo_rep, pci_addr_str, is_equal);
}
static inline doca_error_t
doca_devinfo_rep_get_is_list_all_supported(const struct doca_devinfo *devinfo,
                                           uint8_t *supported) {
    return doca_devinfo_rep_cap_is_filter_all_supported(devinfo, supported);
}
static inline doca_error_t
doca_devinfo_rep_get_is_list_net_supported(const struct doca_devinfo *devinfo,
                                           uint8_t *supported) {
    return doca_devinfo_rep_cap_is_filter_net_supported(devinfo, supported);
}

/* Of DOCA 1.3. `size` is that of the property's type: struct doca_pci_bdf for the PCI address, else as
 * the names of sizes in doca_dev.h say. */
enum doca_devinfo_property {
    DOCA_DEVINFO_PROPERTY_VUID,
    DOCA_DEVINFO_PROPERTY_PCI_ADDR,
    DOCA_DEVINFO_PROPERTY_IPV4_ADDR,
    DOCA_DEVINFO_PROPERTY_IPV6_ADDR,
    DOCA_DEVINFO_PROPERTY_IFACE_NAME,
    DOCA_DEVINFO_PROPERTY_IBDEV_NAME
};
static inline doca_error_t doca_devinfo_property_get(const struct doca_devinfo *devinfo,
                                                     enum doca_devinfo_property property,
                                                     uint8_t *value, uint32_t size) {
    switch (property) {
    case DOCA_DEVINFO_PROPERTY_VUID:
        return doca_devinfo_get_vuid(devinfo, (char *)value, size);
    case DOCA_DEVINFO_PROPERTY_PCI_ADDR:
        return size < sizeof(struct doca_pci_bdf)
                   ? DOCA_ERROR_INVALID_VALUE
                   : doca_devinfo_get_pci_addr(devinfo, (struct doca_pci_bdf *)(void *)value);
    case DOCA_DEVINFO_PROPERTY_IPV4_ADDR:
        return doca_devinfo_get_ipv4_addr(devinfo, value, size);
    case DOCA_DEVINFO_PROPERTY_IPV6_ADDR:
        return doca_devinfo_get_ipv6_addr(devinfo, value, size);
    case DOCA_DEVINFO_PROPERTY_IFACE_NAME:
        return doca_devinfo_get_iface_name(devinfo, (char *)value, size);
    case DOCA_DEVINFO_PROPERTY_IBDEV_NAME:
        return doca_devinfo_get_ibdev_name(devinfo, (char *)value, size);
    }
    return DOCA_ERROR_INVALID_VALUE;
}

#ifdef __cplusplus
}
#endif

#endif

/* ---- doca_mmap.h ------------------------------------------------------------------------------ */
#if defined(DOCA_MMAP_COMPLETE) && !defined(DOCA_COMPAT_2023_MMAP)
#define DOCA_COMPAT_2023_MMAP
#include <doca_dev.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As doca_mmap_create(), for both forms of that time. `user_data` may be null. */
DOCA_STABLE doca_error_t doca_mmap_create_2023(const union doca_data *user_data,
                                               struct doca_mmap **mmap);

/* Adds a range to a map that was started without one; devices of that map reach it, and what is
 * exported may be read and written. Buffers are of one range. `pg_sz`: a power of two, at least 4096.
 * `free_cb` may be null; it is called with `opaque` when the map is destroyed.
 * INVALID_VALUE: as for doca_mmap_set_memrange() and doca_mmap_start(). NOT_PERMITTED: it was started
 * with a range, or not, or is exported; the range overlaps with one that is there. NO_MEMORY: it has as
 * many as it may have.
 * From the process's first such call on, jobs write where the data of their destination begins, as DMA
 * did then, and not behind the data (doca_dma.h). */
DOCA_STABLE doca_error_t doca_mmap_populate(struct doca_mmap *mmap, void *addr, size_t len,
                                            size_t pg_sz, doca_mmap_memrange_free_cb_t *free_cb,
                                            void *opaque);
/* How many ranges it may have; 1024 at first. BAD_STATE: it is started. INVALID_VALUE: 0. */
DOCA_STABLE doca_error_t doca_mmap_set_max_num_chunks(struct doca_mmap *mmap,
                                                      uint32_t max_num_chunks);
DOCA_STABLE doca_error_t doca_mmap_get_max_num_chunks(const struct doca_mmap *mmap,
                                                      uint32_t *max_num_chunks);
/* As doca_mmap_export_pci(), in memory of the caller's, who gives it to free(). NOT_SUPPORTED: the map
 * has more than one range. */
DOCA_STABLE doca_error_t doca_mmap_export(struct doca_mmap *mmap, const struct doca_dev *dev,
                                          void **export_desc, size_t *export_desc_len);

static inline doca_error_t doca_mmap_export_dpu(struct doca_mmap *mmap, const struct doca_dev *dev,
                                                const void **export_desc,
                                                size_t *export_desc_len) {
    return doca_mmap_export_pci(mmap, dev, export_desc, export_desc_len);
}
/* These two also while a map is started without a range; else as doca_mmap_add_dev() and
 * doca_mmap_rm_dev(). IN_USE: it has that device. INVALID_VALUE: it does not have it. */
static inline doca_error_t doca_mmap_dev_add(struct doca_mmap *mmap, struct doca_dev *dev) {
    doca_error_t result = doca_mmap_add_dev(mmap, dev);
    return result == DOCA_ERROR_ALREADY_EXIST ? DOCA_ERROR_IN_USE : result;
}
static inline doca_error_t doca_mmap_dev_rm(struct doca_mmap *mmap, struct doca_dev *dev) {
    doca_error_t result = doca_mmap_rm_dev(mmap, dev);
    return result == DOCA_ERROR_NOT_FOUND ? DOCA_ERROR_INVALID_VALUE : result;
}

/* Of DOCA 1.3. Both are uint32_t. */
enum doca_mmap_property {
    DOCA_MMAP_MAX_NUM_CHUNKS,
    DOCA_MMAP_MAX_NUM_DEVICES
};
static inline doca_error_t doca_mmap_property_set(struct doca_mmap *mmap,
                                                  enum doca_mmap_property property,
                                                  const uint8_t *value, uint32_t size) {
    uint32_t number = 0;
    unsigned i;
    if (value == NULL || size != sizeof(number)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < size; ++i) {
        ((uint8_t *)&number)[i] = value[i];
    }
    switch (property) {
    case DOCA_MMAP_MAX_NUM_CHUNKS:
        return doca_mmap_set_max_num_chunks(mmap, number);
    case DOCA_MMAP_MAX_NUM_DEVICES:
        return doca_mmap_set_max_num_devices(mmap, number);
    }
    return DOCA_ERROR_INVALID_VALUE;
}

static inline doca_error_t
doca_devinfo_get_is_mmap_export_supported(const struct doca_devinfo *devinfo,
                                          uint8_t *mmap_export) {
    return doca_mmap_cap_is_export_pci_supported(devinfo, mmap_export);
}
static inline doca_error_t
doca_devinfo_get_is_mmap_from_export_supported(const struct doca_devinfo *devinfo,
                                               uint8_t *from_export) {
    return doca_mmap_cap_is_create_from_export_pci_supported(devinfo, from_export);
}
static inline doca_error_t
doca_devinfo_get_is_mmap_export_dpu_supported(const struct doca_devinfo *devinfo,
                                              uint8_t *mmap_export) {
    return doca_mmap_cap_is_export_pci_supported(devinfo, mmap_export);
}
static inline doca_error_t
doca_devinfo_get_is_mmap_from_export_dpu_supported(const struct doca_devinfo *devinfo,
                                                   uint8_t *from_export) {
    return doca_mmap_cap_is_create_from_export_pci_supported(devinfo, from_export);
}

#ifdef __cplusplus
}
#endif

#define doca_mmap_create(...)                                                                      \
    DOCA_COMPAT_2023_3RD(__VA_ARGS__, doca_mmap_create_of_2023, doca_mmap_create, 0)(__VA_ARGS__)
#define doca_mmap_create_of_2023(first, mmap)                                                      \
    doca_mmap_create_2023(doca_compat_2023_user_data(first), mmap)
#define doca_mmap_create_from_export(first, ...)                                                   \
    doca_mmap_create_from_export(doca_compat_2023_user_data(first), __VA_ARGS__)
/* DOCA 1.3 had uint8_t ** here. */
#define doca_mmap_export(mmap, dev, export_desc, export_desc_len)                                  \
    doca_mmap_export(mmap, dev, (void **)(export_desc), export_desc_len)

#endif

/* ---- doca_buf.h ------------------------------------------------------------------------------- */
#if defined(DOCA_BUF_COMPLETE) && !defined(DOCA_COMPAT_2023_BUF)
#define DOCA_COMPAT_2023_BUF
/* What buffers of an inventory can: lists always. */
enum doca_buf_extension {
    DOCA_BUF_EXTENSION_NONE = 0,
    DOCA_BUF_EXTENSION_LINKED_LIST = 1 << 0
};
#define doca_buf_refcount_add(buf, refcount) doca_buf_inc_refcount(buf, refcount)
#define doca_buf_refcount_rm(buf, refcount) doca_buf_dec_refcount(buf, refcount)
#define doca_buf_list_next(buf, next_buf) doca_buf_get_next_in_list(buf, next_buf)
#define doca_buf_list_last(buf, last_buf) doca_buf_get_last_in_list(buf, last_buf)
/* A bool once, a uint8_t later. */
#define doca_buf_list_is_last(buf, is_last) doca_buf_is_last_in_list(buf, (uint8_t *)(is_last))
#define doca_buf_list_is_first(buf, is_first) doca_buf_is_first_in_list(buf, (uint8_t *)(is_first))
#define doca_buf_list_num_elements(buf, num_elements) doca_buf_get_list_len(buf, num_elements)
#define doca_buf_list_chain(list1, list2) doca_buf_chain_list(list1, list2)
#define doca_buf_list_unchain(list1, list2) doca_buf_unchain_list(list1, list2)
#endif

/* ---- doca_buf_inventory.h --------------------------------------------------------------------- */
#if defined(DOCA_BUF_INVENTORY_COMPLETE) && !defined(DOCA_COMPAT_2023_BUF_INVENTORY)
#define DOCA_COMPAT_2023_BUF_INVENTORY
#define doca_buf_inventory_buf_by_addr(inventory, mmap, addr, len, buf)                            \
    doca_buf_inventory_buf_get_by_addr(inventory, mmap, addr, len, buf)
#define doca_buf_inventory_buf_by_data(inventory, mmap, data, data_len, buf)                       \
    doca_buf_inventory_buf_get_by_data(inventory, mmap, data, data_len, buf)
#define doca_buf_inventory_buf_by_args(inventory, mmap, addr, len, data, data_len, buf)            \
    doca_buf_inventory_buf_get_by_args(inventory, mmap, addr, len, data, data_len, buf)

#ifdef __cplusplus
extern "C" {
#endif
static inline doca_error_t doca_buf_inventory_create_2023(const union doca_data *user_data,
                                                          size_t num_elements, uint32_t extensions,
                                                          struct doca_buf_inventory **inventory) {
    doca_error_t result = doca_buf_inventory_create(num_elements, inventory);
    (void)extensions;
    if (result == DOCA_SUCCESS && user_data != NULL) {
        result = doca_buf_inventory_set_user_data(*inventory, *user_data);
    }
    return result;
}
#ifdef __cplusplus
}
#endif

#define doca_buf_inventory_create(...)                                                             \
    DOCA_COMPAT_2023_5TH(__VA_ARGS__, doca_buf_inventory_create_of_2023, 0,                        \
                         doca_buf_inventory_create, 0, 0)(__VA_ARGS__)
#define doca_buf_inventory_create_of_2023(first, num_elements, extensions, inventory)              \
    doca_buf_inventory_create_2023(doca_compat_2023_user_data(first), num_elements, extensions,    \
                                   inventory)
#endif

/* ---- doca_dma.h ------------------------------------------------------------------------------- */
#if defined(DOCA_DMA_COMPLETE) && !defined(DOCA_COMPAT_2023_DMA)
#define DOCA_COMPAT_2023_DMA
#define doca_dma_create(...)                                                                       \
    DOCA_COMPAT_2023_3RD(__VA_ARGS__, doca_dma_create, doca_dma_create_2023, 0)(__VA_ARGS__)
#endif

/* ---- doca_comm_channel.h ---------------------------------------------------------------------- */
#if defined(DOCA_COMM_CHANNEL_COMPLETE) && !defined(DOCA_COMPAT_2023_COMM_CHANNEL)
#define DOCA_COMPAT_2023_COMM_CHANNEL
#define doca_comm_channel_peer_addr_user_data_set(peer_addr, user_context)                         \
    doca_comm_channel_peer_addr_set_user_data(peer_addr, user_context)
#define doca_comm_channel_peer_addr_user_data_get(peer_addr, user_data)                            \
    doca_comm_channel_peer_addr_get_user_data(peer_addr, user_data)
#endif
