/* Small macros that the other headers and programs share. */
#ifndef DOCA_COMMON_DEFINES_H_
#define DOCA_COMMON_DEFINES_H_

#include <doca_compat.h>

#define DOCA_STRUCT_START                                                                          \
    uint32_t struct_version; /* of the structure's layout, for programs that were built earlier */ \
    uint32_t struct_size

#define DOCA_LIKELY(x) __builtin_expect(!!(x), 1)
#define DOCA_UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
