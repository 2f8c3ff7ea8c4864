/* The generation of the API that these headers are of, and the library that runs. */
#ifndef DOCA_VERSION_H_
#define DOCA_VERSION_H_

#include <doca_compat.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOCA_VER_MAJOR 3
#define DOCA_VER_MINOR 1
#define DOCA_VER_PATCH 0

#define DOCA_VER_STRING "3.1.0"

/* A version as one number that grows with it. */
#define DOCA_VERSION_BITS_PER_PART 8
#define DOCA_VERSION_NUM(major, minor, patch)                                                      \
    ((size_t)(((size_t)(major) << 24) | ((size_t)(minor) << 16) | ((size_t)(patch) << 8)))

#define DOCA_CURRENT_VERSION_NUM DOCA_VERSION_NUM(DOCA_VER_MAJOR, DOCA_VER_MINOR, DOCA_VER_PATCH)

#define DOCA_VERSION_EQ_CURRENT(major, minor, patch)                                               \
    (DOCA_VERSION_NUM(major, minor, patch) == DOCA_CURRENT_VERSION_NUM)
#define DOCA_VERSION_LTE_CURRENT(major, minor, patch)                                              \
    (DOCA_VERSION_NUM(major, minor, patch) <= DOCA_CURRENT_VERSION_NUM)

/* Of the headers that the program was compiled with. */
static inline const char *doca_version(void)
{
    return DOCA_VER_STRING;
}

/* Of the library that it runs with. */
DOCA_STABLE const char *doca_version_runtime(void);

#ifdef __cplusplus
}
#endif

#endif
