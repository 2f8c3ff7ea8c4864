#include <doca_clock.h>

#include <chrono>

#include "core/base/ticks.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/status.hpp"

struct doca_clock {
    bool has_device_clocks;
};

namespace {

using comch::doca::refuse;

constexpr std::uint64_t device_clocks =
    DOCA_CLOCK_NIC_FREE_RUNNING | DOCA_CLOCK_NIC_REAL_TIME | DOCA_CLOCK_NIC_DPA_TIMER;

bool has_clocks(const doca_devinfo& info) {
    return !info.device.domain()->over_rdma();
}

doca_error_t supported(const doca_devinfo* info) {
    return comch::doca::is_supported(info, info != nullptr && has_clocks(*info));
}

doca_error_t read_system(clockid_t id, doca_clock_timespec_t& to) {
    return ::clock_gettime(id, &to.ts) == 0 ? DOCA_SUCCESS : DOCA_ERROR_OPERATING_SYSTEM;
}

doca_error_t read_clock(std::uint64_t type, doca_clock_timespec_t& to) {
    switch (type) {
    case DOCA_CLOCK_NIC_FREE_RUNNING:
    case DOCA_CLOCK_NIC_DPA_TIMER:
    case DOCA_CLOCK_HOST_MONOTONIC_RAW:
        return read_system(CLOCK_MONOTONIC_RAW, to);
    case DOCA_CLOCK_NIC_REAL_TIME:
    case DOCA_CLOCK_HOST_REAL_TIME:
        return read_system(CLOCK_REALTIME, to);
    case DOCA_CLOCK_HOST_MONOTONIC:
        return read_system(CLOCK_MONOTONIC, to);
    case DOCA_CLOCK_HOST_COUNTER_CYCLES:
        to.counter = comch::ticks();
        return DOCA_SUCCESS;
    default:
        return DOCA_ERROR_INVALID_VALUE;
    }
}

} // namespace

doca_error_t doca_clock_cap_nic_free_running_is_supported(const doca_devinfo* devinfo) {
    return supported(devinfo);
}

doca_error_t doca_clock_cap_nic_real_time_is_supported(const doca_devinfo* devinfo) {
    return supported(devinfo);
}

doca_error_t doca_clock_cap_nic_dpa_timer_is_supported(const doca_devinfo* devinfo) {
    return supported(devinfo);
}

doca_error_t doca_clock_create(const doca_dev* dev, doca_clock** clock) {
    if (!comch::doca::is_open(dev) || clock == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return comch::doca::guarded([&] {
        *clock = new doca_clock{has_clocks(dev->info)};
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_clock_destroy(doca_clock* clock) {
    if (clock == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    delete clock;
    return DOCA_SUCCESS;
}

doca_error_t doca_clock_get_timestamp(const doca_clock* clock, uint64_t clock_type,
                                      doca_clock_timespec_t* clock_ts) {
    if (clock == nullptr || clock_ts == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if ((clock_type & device_clocks) != 0 && !clock->has_device_clocks) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "cannot read the device's clock: only soft devices "
                                                "have one here");
    }
    return read_clock(clock_type, *clock_ts);
}

doca_error_t doca_clock_get_crosstimestamp(const doca_clock* clock, uint64_t primary_clock_type,
                                           uint64_t nic_clock_type,
                                           doca_clock_timespec_t* primary_clock_ts,
                                           doca_clock_timespec_t* nic_clock_ts,
                                           uint64_t* error_margin_nsecs) {
    if (error_margin_nsecs == nullptr || (nic_clock_type & ~device_clocks) != 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const auto before = std::chrono::steady_clock::now();
    doca_error_t result = doca_clock_get_timestamp(clock, primary_clock_type, primary_clock_ts);
    if (result == DOCA_SUCCESS) {
        result = doca_clock_get_timestamp(clock, nic_clock_type, nic_clock_ts);
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - before;
    *error_margin_nsecs = static_cast<std::uint64_t>(took.count());
    return result;
}
