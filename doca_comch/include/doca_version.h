/* The generation of the API that these headers are of, and the library that runs. */
#ifndef DOCA_VERSION_H_
#define DOCA_VERSION_H_

#include <stddef.h>

#include <doca_compat.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOCA_VERSION_MAJOR 3
#define DOCA_VERSION_MINOR 1
#define DOCA_VERSION_PATCH 0

#define DOCA_VERSION_STRING "3.1.0"

/* A version as one number that grows with it, in two scales. Exact: with the patch as it is
 * numbered in DOCA_VERSION_PATCH. Official: with the patch as releases are called (3.1.1), of which
 * each holds a thousand exact ones. */
#define DOCA_VERSION_CALC_EXACT(major, minor, patch)                                               \
    ((size_t)(((size_t)(major) << 24) | ((size_t)(minor) << 16) | (size_t)(patch)))
#define DOCA_VERSION_CALC(major, minor, patch)                                                     \
    DOCA_VERSION_CALC_EXACT(major, minor, (size_t)(patch) * 1000)

#define DOCA_VERSION_EXACT                                                                         \
    DOCA_VERSION_CALC_EXACT(DOCA_VERSION_MAJOR, DOCA_VERSION_MINOR, DOCA_VERSION_PATCH)
#define DOCA_VERSION_OFFICIAL                                                                      \
    DOCA_VERSION_CALC(DOCA_VERSION_MAJOR, DOCA_VERSION_MINOR, DOCA_VERSION_PATCH)

#define DOCA_VERSION_EQ_CURRENT(major, minor, patch)                                               \
    (DOCA_VERSION_CALC(major, minor, patch) == DOCA_VERSION_OFFICIAL)
#define DOCA_VERSION_LTE_CURRENT(major, minor, patch)                                              \
    (DOCA_VERSION_CALC(major, minor, patch) <= DOCA_VERSION_OFFICIAL)

/* The spellings of 2023 and before. */
#define DOCA_VER_MAJOR DOCA_VERSION_MAJOR
#define DOCA_VER_MINOR DOCA_VERSION_MINOR
#define DOCA_VER_PATCH DOCA_VERSION_PATCH
#define DOCA_VER_STRING DOCA_VERSION_STRING
#define DOCA_VERSION_NUM(major, minor, patch) DOCA_VERSION_CALC_EXACT(major, minor, patch)
#define DOCA_CURRENT_VERSION_NUM DOCA_VERSION_EXACT

/* Of the headers that the program was compiled with. */
static inline const char *doca_version(void)
{
    return DOCA_VERSION_STRING;
}

/* Of the library that it runs with. */
DOCA_STABLE const char *doca_version_runtime(void);

#ifdef __cplusplus
}
#endif

#endif
