/*
 * Clocks of a device and of the machine it is in, and pairs of readings of two at once.
 *
 * A soft device's clocks are the machine's: both sides see the same ones, as the two sides of a
 * DPU do. Devices over RDMA have no clocks here.
 */
#ifndef DOCA_CLOCK_H_
#define DOCA_CLOCK_H_

#include <stdint.h>
#include <time.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_clock;
struct doca_dev;
struct doca_devinfo;

#define DOCA_CLOCK_NIC_FREE_RUNNING (1 << 0)
#define DOCA_CLOCK_NIC_REAL_TIME (1 << 1)
#define DOCA_CLOCK_NIC_DPA_TIMER (1 << 8)
#define DOCA_CLOCK_HOST_COUNTER_CYCLES (1 << 16) /* the CPU's counter, as a number */
#define DOCA_CLOCK_HOST_REAL_TIME (1 << 17)
#define DOCA_CLOCK_HOST_MONOTONIC (1 << 18)
#define DOCA_CLOCK_HOST_MONOTONIC_RAW (1 << 19)

union doca_clock_timespec_t {
    struct timespec ts;
    uint64_t counter;
};

/* NOT_SUPPORTED: the device has no such clock. */
DOCA_EXPERIMENTAL doca_error_t
doca_clock_cap_nic_free_running_is_supported(const struct doca_devinfo *devinfo);
DOCA_EXPERIMENTAL doca_error_t
doca_clock_cap_nic_real_time_is_supported(const struct doca_devinfo *devinfo);
DOCA_EXPERIMENTAL doca_error_t
doca_clock_cap_nic_dpa_timer_is_supported(const struct doca_devinfo *devinfo);

DOCA_EXPERIMENTAL doca_error_t doca_clock_create(const struct doca_dev *dev,
                                                 struct doca_clock **clock);
DOCA_EXPERIMENTAL doca_error_t doca_clock_destroy(struct doca_clock *clock);

/* INVALID_VALUE: this is no clock's type. NOT_SUPPORTED: there is no such clock here. */
DOCA_EXPERIMENTAL doca_error_t doca_clock_get_timestamp(const struct doca_clock *clock,
                                                        uint64_t clock_type,
                                                        union doca_clock_timespec_t *clock_ts);
/* The second is one of the device's. They were not read further apart than `error_margin_nsecs`. */
DOCA_EXPERIMENTAL doca_error_t doca_clock_get_crosstimestamp(
    const struct doca_clock *clock, uint64_t primary_clock_type, uint64_t nic_clock_type,
    union doca_clock_timespec_t *primary_clock_ts, union doca_clock_timespec_t *nic_clock_ts,
    uint64_t *error_margin_nsecs);

#ifdef __cplusplus
}
#endif

#endif
