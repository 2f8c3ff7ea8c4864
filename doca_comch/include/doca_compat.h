/* How symbols are marked. */
#ifndef DOCA_COMPAT_H_
#define DOCA_COMPAT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doca_config.h>

#define DOCA_USED __attribute__((used))

/* Part of the library's interface, for good. */
#define DOCA_STABLE __attribute__((visibility("default")))

/* Part of the interface, and may change: using it without having said DOCA_ALLOW_EXPERIMENTAL_API
 * is warned about. */
#ifdef DOCA_ALLOW_EXPERIMENTAL_API
#define DOCA_EXPERIMENTAL DOCA_STABLE
#else
#define DOCA_EXPERIMENTAL                                                                          \
    DOCA_STABLE __attribute__((deprecated("experimental: define DOCA_ALLOW_EXPERIMENTAL_API")))
#endif

/* Part of the interface, and going away. */
#ifdef DOCA_ALLOW_DEPRECATED_API
#define DOCA_DEPRECATED DOCA_STABLE
#else
#define DOCA_DEPRECATED DOCA_STABLE __attribute__((deprecated))
#endif

/* The older generation's spelling. */
#define __DOCA_EXPERIMENTAL DOCA_EXPERIMENTAL

#endif
