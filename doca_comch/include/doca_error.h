/* Error codes: what every call of the API returns, and what tasks end with. */
#ifndef DOCA_ERROR_H_
#define DOCA_ERROR_H_

#include <doca_common_defines.h>
#include <doca_compat.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum doca_error {
    DOCA_SUCCESS = 0,
    DOCA_ERROR_UNKNOWN = 1,
    DOCA_ERROR_NOT_PERMITTED = 2,          /* wrong side, missing access right */
    DOCA_ERROR_IN_USE = 3,                 /* something still depends on the object */
    DOCA_ERROR_NOT_SUPPORTED = 4,          /* this device or build cannot do it */
    DOCA_ERROR_AGAIN = 5,                  /* no room or nothing there now */
    DOCA_ERROR_INVALID_VALUE = 6,          /* a null pointer, a value out of its range */
    DOCA_ERROR_NO_MEMORY = 7,
    DOCA_ERROR_INITIALIZATION = 8,         /* an object could not be made */
    DOCA_ERROR_TIME_OUT = 9,
    DOCA_ERROR_SHUTDOWN = 10,              /* it is ending, or has ended */
    DOCA_ERROR_CONNECTION_RESET = 11,      /* by the peer */
    DOCA_ERROR_CONNECTION_ABORTED = 12,    /* by this side */
    DOCA_ERROR_CONNECTION_INPROGRESS = 13, /* not established yet */
    DOCA_ERROR_NOT_CONNECTED = 14,
    DOCA_ERROR_NO_LOCK = 15,
    DOCA_ERROR_NOT_FOUND = 16,
    DOCA_ERROR_IO_FAILED = 17,
    DOCA_ERROR_BAD_STATE = 18,             /* the object's state does not allow the call */
    DOCA_ERROR_UNSUPPORTED_VERSION = 19,   /* the peer is another version */
    DOCA_ERROR_OPERATING_SYSTEM = 20,      /* a system call failed */
    DOCA_ERROR_DRIVER = 21,
    DOCA_ERROR_UNEXPECTED = 22,
    DOCA_ERROR_ALREADY_EXIST = 23,
    DOCA_ERROR_FULL = 24,
    DOCA_ERROR_EMPTY = 25,
    DOCA_ERROR_IN_PROGRESS = 26,           /* begun; progress does the rest */
    DOCA_ERROR_TOO_BIG = 27,
    DOCA_ERROR_AUTHENTICATION = 28,
    DOCA_ERROR_BAD_CONFIG = 29,
    DOCA_ERROR_SKIPPED = 30,
    DOCA_ERROR_DEVICE_FATAL_ERROR = 31
} doca_error_t;

/* Keeps the first error: `r` becomes `t` unless it holds an error already. */
#define DOCA_ERROR_PROPAGATE(r, t)                                                                 \
    do {                                                                                           \
        if ((r) == DOCA_SUCCESS) {                                                                 \
            (r) = (t);                                                                             \
        }                                                                                          \
    } while (0)

#define DOCA_IS_ERROR(e) ((e) != DOCA_SUCCESS)

/* The code's name, "DOCA_ERROR_AGAIN"; never null. */
DOCA_STABLE const char *doca_error_get_name(doca_error_t error);

/* What it means, in a few words; never null. */
DOCA_STABLE const char *doca_error_get_descr(doca_error_t error);

#ifdef __cplusplus
}
#endif

#define DOCA_ERROR_COMPLETE
#include <doca_compat_2023.h>

#endif
