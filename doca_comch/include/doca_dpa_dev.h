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

/* Ends this activation of the thread; the next completion that asked for it begins another. Both
 * return here: leave the function afterwards. */
DOCA_STABLE void doca_dpa_dev_thread_reschedule(void);
DOCA_STABLE void doca_dpa_dev_thread_finish(void);

/* What doca_dpa_thread_set_local_storage() gave. */
DOCA_EXPERIMENTAL doca_dpa_dev_uintptr_t doca_dpa_dev_thread_get_local_storage(void);

#ifdef __cplusplus
}
#endif

#endif
