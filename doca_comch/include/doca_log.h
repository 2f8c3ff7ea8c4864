/*
 * Logging: sources that speak, and backends that show.
 *
 *     DOCA_LOG_REGISTER(MY_PROGRAM::NETWORK);         once in each file
 *     DOCA_LOG_ERR("cannot open '%s'", name);         anywhere in it
 *
 * Nothing is shown until the program creates a backend. A backend shows the program's own messages,
 * or, if it was created by a call whose name ends in _sdk, what the library itself has to say.
 *
 * A level is the more verbose the greater its number. A backend of the program shows the messages
 * from its upper limit (CRIT at first) to its lower limit (INFO at first). Any thread may log.
 */
#ifndef DOCA_LOG_H_
#define DOCA_LOG_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <doca_compat.h>
#include <doca_error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for a logger's name, its NUL included. */
#define DOCA_LOGGER_NAME_SIZE 256

enum doca_log_level {
    DOCA_LOG_LEVEL_DISABLE = 10, /* as a limit: nothing is shown */
    DOCA_LOG_LEVEL_CRIT = 20,
    DOCA_LOG_LEVEL_ERROR = 30,
    DOCA_LOG_LEVEL_WARNING = 40,
    DOCA_LOG_LEVEL_INFO = 50,
    DOCA_LOG_LEVEL_DEBUG = 60,
    DOCA_LOG_LEVEL_TRACE = 70 /* compiled in with DOCA_LOGGING_ALLOW_TRACE only */
};

struct doca_log_backend;
struct doca_logger;

/* Takes a record from a buffer backend; ends with a newline and a NUL. */
typedef void (*log_flush_callback)(char *buf);

/* ---- backends for the program's messages ------------------------------------------------------ */

/* INVALID_VALUE: a null pointer, an empty buffer, a bad descriptor. NO_MEMORY: there are as many
 * backends as there can be. Backends live as long as the process; so must what they write to. */
DOCA_STABLE doca_error_t doca_log_backend_create_with_file(FILE *fptr,
                                                           struct doca_log_backend **backend);
DOCA_STABLE doca_error_t doca_log_backend_create_with_fd(int fd, struct doca_log_backend **backend);
/* Each record is written to the front of `buf`, if it fits, and `handler` called. */
DOCA_STABLE doca_error_t doca_log_backend_create_with_buf(char *buf, size_t capacity,
                                                          log_flush_callback handler,
                                                          struct doca_log_backend **backend);
DOCA_STABLE doca_error_t doca_log_backend_create_with_syslog(const char *name,
                                                             struct doca_log_backend **backend);

/* What most programs want: WARNING and worse on stderr, the rest on stdout, within the global
 * limits. Again: nothing new. */
DOCA_STABLE doca_error_t doca_log_backend_create_standard(void);

DOCA_STABLE uint32_t doca_log_get_max_num_backends(void);

/* INVALID_VALUE: no such level. NOT_PERMITTED: the limit is strict and this would show more, or
 * the backend is the library's. */
DOCA_STABLE doca_error_t doca_log_backend_set_level_lower_limit(struct doca_log_backend *backend,
                                                                uint32_t level);
DOCA_STABLE doca_error_t doca_log_backend_set_level_upper_limit(struct doca_log_backend *backend,
                                                                uint32_t upper_limit);
/* From now on nothing makes this backend show more on that end, neither its own limit nor the
 * global one. */
DOCA_STABLE doca_error_t doca_log_backend_set_level_lower_limit_strict(
    struct doca_log_backend *backend);
DOCA_STABLE doca_error_t doca_log_backend_set_level_upper_limit_strict(
    struct doca_log_backend *backend);

/* The limits of all backends, those to come included. */
DOCA_STABLE doca_error_t doca_log_level_set_global_lower_limit(uint32_t level);
DOCA_STABLE doca_error_t doca_log_level_set_global_upper_limit(uint32_t upper_limit);
DOCA_STABLE uint32_t doca_log_level_get_global_lower_limit(void);
DOCA_STABLE uint32_t doca_log_level_get_global_upper_limit(void);

/* ---- backends for the library's messages ------------------------------------------------------ */

DOCA_STABLE doca_error_t doca_log_backend_create_with_file_sdk(FILE *fptr,
                                                               struct doca_log_backend **backend);
DOCA_STABLE doca_error_t doca_log_backend_create_with_fd_sdk(int fd,
                                                             struct doca_log_backend **backend);
DOCA_STABLE doca_error_t doca_log_backend_create_with_buf_sdk(char *buf, size_t capacity,
                                                              log_flush_callback handler,
                                                              struct doca_log_backend **backend);
DOCA_STABLE doca_error_t doca_log_backend_create_with_syslog_sdk(const char *name,
                                                                 struct doca_log_backend **backend);

DOCA_STABLE uint32_t doca_log_get_max_num_backends_sdk(void);

/* INVALID_VALUE: no such level. NOT_PERMITTED: the backend is the program's. */
DOCA_STABLE doca_error_t doca_log_backend_set_sdk_level(struct doca_log_backend *backend,
                                                        uint32_t level);
/* Of all backends, those to come included; INFO at first. */
DOCA_STABLE doca_error_t doca_log_level_set_global_sdk_limit(uint32_t level);
DOCA_STABLE uint32_t doca_log_level_get_global_sdk_limit(void);

/* ---- sources ---------------------------------------------------------------------------------- */

/* Names are hierarchical, "A::B"; a longer one than fits is cut. The same name gives the same
 * source. Programs use DOCA_LOG_REGISTER. */
DOCA_STABLE doca_error_t doca_log_register_source(const char *source_name, int *source);
/* Sources stay, because others may have registered the same; this always succeeds. */
DOCA_STABLE doca_error_t doca_log_unregister_source(int source);

/* The loggers below `logger` (null: all of them), `depth` levels deep (0: all levels). The list
 * ends with a null pointer, must be given back, and does not own its loggers. */
DOCA_STABLE doca_error_t doca_logger_create_list(const struct doca_logger *logger, uint8_t depth,
                                                 struct doca_logger ***logger_list,
                                                 uint32_t *nb_loggers);
DOCA_STABLE doca_error_t doca_logger_destroy_list(struct doca_logger **logger_list);
/* The one of that name in a list; null if there is none. */
DOCA_STABLE struct doca_logger *doca_logger_find_by_name(struct doca_logger **logger_list,
                                                         const char *name);
/* A logger is silent above its level (TRACE at first), whatever the backends show. With
 * `propagate` those below it, too; a null logger stands for all and needs `propagate`.
 * NOT_FOUND: no such logger. */
DOCA_STABLE doca_error_t doca_logger_set_level(struct doca_logger *logger, int level,
                                               uint8_t propagate);
DOCA_STABLE doca_error_t doca_logger_get_level(const struct doca_logger *logger, int *level);
DOCA_STABLE doca_error_t doca_logger_get_name(const struct doca_logger *logger,
                                              char name[DOCA_LOGGER_NAME_SIZE]);

/* ---- speaking --------------------------------------------------------------------------------- */

/* INVALID_VALUE: no such source or level. Programs use the macros below. */
DOCA_STABLE doca_error_t doca_log(uint32_t level, int source, const char *fname, int line,
                                  const char *func, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#define DOCA_LOG(level, format, ...)                                                               \
    doca_log(level, log_source, __FILE__, __LINE__, __func__, format, ##__VA_ARGS__)
#define DOCA_LOG_CRIT(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_CRIT, format, ##__VA_ARGS__)
#define DOCA_LOG_ERR(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_ERROR, format, ##__VA_ARGS__)
#define DOCA_LOG_WARN(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_WARNING, format, ##__VA_ARGS__)
#define DOCA_LOG_INFO(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_INFO, format, ##__VA_ARGS__)
#define DOCA_LOG_DBG(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_DEBUG, format, ##__VA_ARGS__)
#ifdef DOCA_LOGGING_ALLOW_TRACE
#define DOCA_LOG_TRC(format, ...) DOCA_LOG(DOCA_LOG_LEVEL_TRACE, format, ##__VA_ARGS__)
#else
#define DOCA_LOG_TRC(format, ...)                                                                  \
    do {                                                                                           \
    } while (0)
#endif

/* Names the file's source, for the macros above. As early as a program can, so that its other
 * constructors may log. */
#define DOCA_LOG_REGISTER(source)                                                                  \
    static int log_source;                                                                         \
    static void __attribute__((constructor(101), used)) doca_log_register_this_file(void) {        \
        (void)doca_log_register_source(#source, &log_source);                                      \
    }

#ifdef __cplusplus
}
#endif

#define DOCA_LOG_COMPLETE
#include <doca_compat_2023.h>

#endif
