/* Types that all parts share. */
#ifndef DOCA_TYPES_H_
#define DOCA_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A file descriptor that can be waited on. */
typedef int doca_event_handle_t;
#define doca_event_invalid_handle (-1)

typedef doca_event_handle_t doca_notification_handle_t;

/* Integers in network order. */
typedef uint16_t doca_be16_t;
typedef uint32_t doca_be32_t;
typedef uint64_t doca_be64_t;

#define DOCA_GID_BYTE_LENGTH 16

/* Whatever the program wants to be given back with an object. */
union doca_data {
    void *ptr;
    uint64_t u64;
};

/* What may be done with a memory map's range. */
enum doca_access_flag {
    DOCA_ACCESS_FLAG_LOCAL_READ_ONLY = 0,
    DOCA_ACCESS_FLAG_LOCAL_READ_WRITE = 1 << 0,
    DOCA_ACCESS_FLAG_RDMA_READ = 1 << 1,
    DOCA_ACCESS_FLAG_RDMA_WRITE = 1 << 2,
    DOCA_ACCESS_FLAG_RDMA_ATOMIC = 1 << 3,
    DOCA_ACCESS_FLAG_PCI_READ_ONLY = 1 << 4,
    DOCA_ACCESS_FLAG_PCI_READ_WRITE = 1 << 5,
    DOCA_ACCESS_FLAG_PCI_RELAXED_ORDERING = 1 << 6
};

enum doca_pci_func_type {
    DOCA_PCI_FUNC_TYPE_PF = 0,
    DOCA_PCI_FUNC_TYPE_VF = 1,
    DOCA_PCI_FUNC_TYPE_SF = 2
};

/* A list of pieces of memory. */
struct doca_gather_list {
    void *addr;
    uint64_t len;
    struct doca_gather_list *next;
};

#ifdef __cplusplus
}
#endif

#define DOCA_TYPES_COMPLETE
#include <doca_compat_2023.h>

#endif
