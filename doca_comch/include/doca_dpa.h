/*
 * The DPA: what is needed to run programs next to message queues.
 *
 * On the soft device the DPA is a thread of this process for each DPA thread, and a "DPA
 * application" is a table of functions: the function's address is its name here.
 */
#ifndef DOCA_DPA_H_
#define DOCA_DPA_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_ctx.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_devinfo;
struct doca_dpa;
struct doca_dpa_app;
struct doca_dpa_completion;
struct doca_dpa_notification_completion;
struct doca_dpa_thread;

typedef uint64_t doca_dpa_dev_uintptr_t;
typedef uint64_t doca_dpa_dev_completion_t;
typedef uint64_t doca_dpa_dev_notification_completion_t;

/* From what matters most to what matters least. */
typedef enum doca_dpa_dev_log_level {
    DOCA_DPA_DEV_LOG_LEVEL_DISABLE = 10,
    DOCA_DPA_DEV_LOG_LEVEL_CRIT = 20,
    DOCA_DPA_DEV_LOG_LEVEL_ERROR = 30,
    DOCA_DPA_DEV_LOG_LEVEL_WARNING = 40,
    DOCA_DPA_DEV_LOG_LEVEL_INFO = 50,
    DOCA_DPA_DEV_LOG_LEVEL_DEBUG = 60
} doca_dpa_dev_log_level_t;

/* The address of a function void(uint64_t arg). */
typedef void doca_dpa_func_t(void);

/* NOT_SUPPORTED: never; every soft device has a DPA. */
DOCA_STABLE doca_error_t doca_dpa_cap_is_supported(const struct doca_devinfo *devinfo);

DOCA_STABLE doca_error_t doca_dpa_create(struct doca_dev *dev, struct doca_dpa **dpa);
/* IN_USE: threads, completions or message queues of it exist. */
DOCA_STABLE doca_error_t doca_dpa_destroy(struct doca_dpa *dpa);
/* Any pointer; programs of this process need nothing loaded. */
DOCA_STABLE doca_error_t doca_dpa_set_app(struct doca_dpa *dpa, struct doca_dpa_app *app);
/* What programs on the DPA log (doca_dpa_dev.h): up to this level, INFO at first; into a file, or
 * to standard output. The file is set before start (BAD_STATE). OPERATING_SYSTEM: it cannot be
 * written. */
DOCA_STABLE doca_error_t doca_dpa_set_log_level(struct doca_dpa *dpa,
                                                doca_dpa_dev_log_level_t log_level);
DOCA_STABLE doca_error_t doca_dpa_log_file_set_path(struct doca_dpa *dpa, const char *file_path);
DOCA_STABLE doca_error_t doca_dpa_start(struct doca_dpa *dpa);
DOCA_STABLE doca_error_t doca_dpa_stop(struct doca_dpa *dpa);

/* Runs a function of up to six 64-bit arguments on the DPA and waits for what it returns. On the
 * soft device it runs in the calling thread. */
DOCA_STABLE doca_error_t doca_dpa_rpc(struct doca_dpa *dpa, doca_dpa_func_t *func,
                                      uint64_t *retval, ...);

/* ---- threads ---------------------------------------------------------------------------------- */

DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_create(struct doca_dpa *dpa,
                                                      struct doca_dpa_thread **dpa_thread);
/* IN_USE: completions activate it. NOT_PERMITTED: it is the calling thread. */
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_destroy(struct doca_dpa_thread *dpa_thread);
/* The function is called with `arg` each time that something the thread waits for happens. */
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_set_func_arg(struct doca_dpa_thread *thread,
                                                            doca_dpa_func_t *func, uint64_t arg);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_set_local_storage(
    struct doca_dpa_thread *dpa_thread, doca_dpa_dev_uintptr_t thread_local_storage_addr);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_start(struct doca_dpa_thread *dpa_thread);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_stop(struct doca_dpa_thread *dpa_thread);
/* From here on it can be activated by completions. */
DOCA_EXPERIMENTAL doca_error_t doca_dpa_thread_run(struct doca_dpa_thread *dpa_thread);

/* ---- completions of the DPA's own operations --------------------------------------------------- */

/* So many completions are kept until the DPA acknowledges them; those beyond are lost. With a
 * thread: it runs when the first completion comes, and then whenever the DPA asked to be notified
 * (doca_dpa_dev.h). */
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_create(struct doca_dpa *dpa,
                                                          unsigned int queue_size,
                                                          struct doca_dpa_completion **dpa_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_destroy(struct doca_dpa_completion *dpa_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_set_thread(struct doca_dpa_completion *dpa_comp,
                                                              struct doca_dpa_thread *thread);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_start(struct doca_dpa_completion *dpa_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_stop(struct doca_dpa_completion *dpa_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_completion_get_dpa_handle(
    struct doca_dpa_completion *dpa_comp, doca_dpa_dev_completion_t *handle);

/* ---- running a thread by a call of the DPA's (doca_dpa_dev_thread_notify()) -------------------- */

DOCA_EXPERIMENTAL doca_error_t doca_dpa_notification_completion_create(
    struct doca_dpa *dpa, struct doca_dpa_thread *dpa_thread,
    struct doca_dpa_notification_completion **notify_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_notification_completion_destroy(
    struct doca_dpa_notification_completion *notify_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_notification_completion_start(
    struct doca_dpa_notification_completion *notify_comp);
DOCA_EXPERIMENTAL doca_error_t doca_dpa_notification_completion_stop(
    struct doca_dpa_notification_completion *notify_comp);
/* BAD_STATE: not started. */
DOCA_EXPERIMENTAL doca_error_t doca_dpa_notification_completion_get_dpa_handle(
    struct doca_dpa_notification_completion *notify_comp,
    doca_dpa_dev_notification_completion_t *handle);

/* ---- memory of the DPA, which is this process's ------------------------------------------------ */

DOCA_STABLE doca_error_t doca_dpa_mem_alloc(struct doca_dpa *dpa, size_t size,
                                            doca_dpa_dev_uintptr_t *dev_ptr);
DOCA_STABLE doca_error_t doca_dpa_mem_free(struct doca_dpa *dpa, doca_dpa_dev_uintptr_t dev_ptr);
DOCA_STABLE doca_error_t doca_dpa_h2d_memcpy(struct doca_dpa *dpa, doca_dpa_dev_uintptr_t dst_ptr,
                                             void *src_ptr, size_t size);
DOCA_STABLE doca_error_t doca_dpa_d2h_memcpy(struct doca_dpa *dpa, void *dst_ptr,
                                             doca_dpa_dev_uintptr_t src_ptr, size_t size);
DOCA_STABLE doca_error_t doca_dpa_memset(struct doca_dpa *dpa, doca_dpa_dev_uintptr_t dev_ptr,
                                         int value, size_t size);

#ifdef __cplusplus
}
#endif

#endif
