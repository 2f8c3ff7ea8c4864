/*
 * The spellings of 2023 and before, for programs of that time. Each part is there once the header
 * with the present spelling is: doca_error.h, doca_log.h, doca_dev.h and doca_comm_channel.h include
 * this file at their end.
 */
#include <stdint.h>
#include <stdlib.h>

#include <doca_compat.h>

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
struct doca_pci_bdf {
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

#ifdef __cplusplus
}
#endif

#endif

/* ---- doca_comm_channel.h ---------------------------------------------------------------------- */
#if defined(DOCA_COMM_CHANNEL_COMPLETE) && !defined(DOCA_COMPAT_2023_COMM_CHANNEL)
#define DOCA_COMPAT_2023_COMM_CHANNEL
#define doca_comm_channel_peer_addr_user_data_set(peer_addr, user_context)                         \
    doca_comm_channel_peer_addr_set_user_data(peer_addr, user_context)
#define doca_comm_channel_peer_addr_user_data_get(peer_addr, user_data)                            \
    doca_comm_channel_peer_addr_get_user_data(peer_addr, user_data)
#endif
