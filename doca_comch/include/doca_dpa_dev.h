/* What programs on the DPA use besides message queues. */
#ifndef DOCA_DPA_DEV_H_
#define DOCA_DPA_DEV_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_dpa.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that are started by the CPU; nothing to be said on the soft device. */
#define __dpa_global__
#define __dpa_rpc__

#ifndef __forceinline
#define __forceinline static inline __attribute__((always_inline))
#endif

/* Of one completion; valid until it is acknowledged. */
typedef uint64_t doca_dpa_dev_completion_element_t;

typedef enum {
    DOCA_DPA_DEV_COMP_SEND = 0x0,
    DOCA_DPA_DEV_COMP_RECV_RDMA_WRITE_IMM = 0x1,
    DOCA_DPA_DEV_COMP_RECV_SEND = 0x2,
    DOCA_DPA_DEV_COMP_RECV_SEND_IMM = 0x3,
    DOCA_DPA_DEV_COMP_SEND_ERR = 0xD,
    DOCA_DPA_DEV_COMP_RECV_ERR = 0xE
} doca_dpa_dev_completion_type_t;

/* How an operation is submitted. Everything is done at once here, so FLUSH adds nothing. With
 * OPTIMIZE_REPORTS, the completion of an operation that went well comes with that of the next one
 * without. */
enum doca_dpa_dev_submit_flag {
    DOCA_DPA_DEV_SUBMIT_FLAG_NONE = 0U,
    DOCA_DPA_DEV_SUBMIT_FLAG_FLUSH = (1U << 0),
    DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS = (1U << 1)
};

/* Ends this activation of the thread; the next completion that asked for it begins another. Neither
 * returns, and what the function has on its stack is not destroyed. In functions that were called by
 * the CPU they do nothing. */
DOCA_STABLE void doca_dpa_dev_thread_reschedule(void);
DOCA_STABLE void doca_dpa_dev_thread_finish(void);

/* What doca_dpa_thread_set_local_storage() gave. */
DOCA_EXPERIMENTAL doca_dpa_dev_uintptr_t doca_dpa_dev_thread_get_local_storage(void);

/* Runs the thread of a notification completion. */
DOCA_EXPERIMENTAL void doca_dpa_dev_thread_notify(
    doca_dpa_dev_notification_completion_t comp_handle);

/* ---- completions of what the DPA submitted ---------------------------------------------------- */

/* The next completion; 1 if there is one, else 0. */
DOCA_EXPERIMENTAL int doca_dpa_dev_get_completion(
    doca_dpa_dev_completion_t dpa_comp_handle, doca_dpa_dev_completion_element_t *comp_element);
DOCA_EXPERIMENTAL doca_dpa_dev_completion_type_t doca_dpa_dev_get_completion_type(
    doca_dpa_dev_completion_element_t comp_element);
/* The lower half of the user data of the context that it is of. */
DOCA_EXPERIMENTAL uint32_t doca_dpa_dev_get_completion_user_data(
    doca_dpa_dev_completion_element_t comp_element);
/* Of receive completions, which message queues do not have: 0. */
DOCA_EXPERIMENTAL uint32_t doca_dpa_dev_get_completion_immediate(
    doca_dpa_dev_completion_element_t comp_element);
/* The program is done with `num_comp` of what it got. */
DOCA_EXPERIMENTAL void doca_dpa_dev_completion_ack(doca_dpa_dev_completion_t dpa_comp_handle,
                                                   uint64_t num_comp);
/* Runs the completion's thread again when there is one, at once if there is one now. */
DOCA_EXPERIMENTAL void doca_dpa_dev_completion_request_notification(
    doca_dpa_dev_completion_t dpa_comp_handle);

/* ---- what programs on the DPA have to say (doca_dpa_set_log_level()) -------------------------- */

DOCA_EXPERIMENTAL void doca_dpa_dev_log(doca_dpa_dev_log_level_t log_level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define DOCA_DPA_DEV_LOG_CRIT(...) doca_dpa_dev_log(DOCA_DPA_DEV_LOG_LEVEL_CRIT, __VA_ARGS__)
#define DOCA_DPA_DEV_LOG_ERR(...) doca_dpa_dev_log(DOCA_DPA_DEV_LOG_LEVEL_ERROR, __VA_ARGS__)
#define DOCA_DPA_DEV_LOG_WARN(...) doca_dpa_dev_log(DOCA_DPA_DEV_LOG_LEVEL_WARNING, __VA_ARGS__)
#define DOCA_DPA_DEV_LOG_INFO(...) doca_dpa_dev_log(DOCA_DPA_DEV_LOG_LEVEL_INFO, __VA_ARGS__)
#define DOCA_DPA_DEV_LOG_DBG(...) doca_dpa_dev_log(DOCA_DPA_DEV_LOG_LEVEL_DEBUG, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
