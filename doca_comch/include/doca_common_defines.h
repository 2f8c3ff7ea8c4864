/* Small macros that the other headers and programs share. */
#ifndef DOCA_COMMON_DEFINES_H_
#define DOCA_COMMON_DEFINES_H_

#include <doca_compat.h>

#define DOCA_STRUCT_START                                                                          \
    uint32_t struct_version; /* of the structure's layout, for programs that were built earlier */ \
    uint32_t struct_size

/* What a condition mostly is, for the compiler. */
#define doca_likely(x) __builtin_expect(!!(x), 1)
#define doca_unlikely(x) __builtin_expect(!!(x), 0)
#define DOCA_LIKELY(x) doca_likely(x)
#define DOCA_UNLIKELY(x) doca_unlikely(x)

#endif
