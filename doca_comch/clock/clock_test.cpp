#include <doca_clock.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

struct DocaClock : testing::Test {
    Lab lab;
    doca_clock* clock = nullptr;

    DocaClock() { EXPECT_OK(doca_clock_create(lab.dpu, &clock)); }
    ~DocaClock() override { EXPECT_OK(doca_clock_destroy(clock)); }

    [[nodiscard]] std::int64_t nanoseconds(doca_clock* which, std::uint64_t type) const {
        doca_clock_timespec_t time{};
        EXPECT_OK(doca_clock_get_timestamp(which, type, &time));
        return time.ts.tv_sec * 1'000'000'000 + time.ts.tv_nsec;
    }
};

TEST_F(DocaClock, BothSidesOfASoftDeviceSeeTheSameClocks) {
    EXPECT_OK(doca_clock_cap_nic_free_running_is_supported(doca_dev_as_devinfo(lab.host)));
    EXPECT_OK(doca_clock_cap_nic_real_time_is_supported(doca_dev_as_devinfo(lab.dpu)));
    EXPECT_OK(doca_clock_cap_nic_dpa_timer_is_supported(doca_dev_as_devinfo(lab.dpu)));
    doca_clock* at_host = nullptr;
    ASSERT_OK(doca_clock_create(lab.host, &at_host));
    for (const std::uint64_t type : {DOCA_CLOCK_NIC_FREE_RUNNING, DOCA_CLOCK_NIC_DPA_TIMER,
                                     DOCA_CLOCK_HOST_MONOTONIC, DOCA_CLOCK_HOST_MONOTONIC_RAW}) {
        const std::int64_t first = nanoseconds(clock, type);
        const std::int64_t second = nanoseconds(at_host, type);
        EXPECT_LE(first, second);
        EXPECT_LE(second, nanoseconds(clock, type));
    }
    EXPECT_OK(doca_clock_destroy(at_host));
}

TEST_F(DocaClock, TwoClocksAreReadAtOnceWithinAMargin) {
    doca_clock_timespec_t host{};
    doca_clock_timespec_t device{};
    std::uint64_t margin = 0;
    ASSERT_OK(doca_clock_get_crosstimestamp(clock, DOCA_CLOCK_HOST_MONOTONIC_RAW,
                                            DOCA_CLOCK_NIC_FREE_RUNNING, &host, &device, &margin));
    const std::int64_t apart =
        (device.ts.tv_sec - host.ts.tv_sec) * 1'000'000'000 + (device.ts.tv_nsec - host.ts.tv_nsec);
    EXPECT_GE(apart, 0);
    // The margin is of another clock, whose seconds may differ by some hundredths of a percent.
    EXPECT_LE(apart, static_cast<std::int64_t>(margin + margin / 100 + 100));
}

TEST_F(DocaClock, MisuseIsRefused) {
    doca_clock_timespec_t time{};
    std::uint64_t margin = 0;
    EXPECT_EQ(doca_clock_create(nullptr, &clock), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_create(closed_device(), &clock), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_create(lab.dpu, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_get_timestamp(nullptr, DOCA_CLOCK_HOST_MONOTONIC, &time),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_get_timestamp(clock, 1u << 5, &time), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_clock_get_timestamp(clock, 3, &time), DOCA_ERROR_INVALID_VALUE); // two at once
    EXPECT_EQ(doca_clock_get_crosstimestamp(clock, DOCA_CLOCK_HOST_MONOTONIC,
                                            DOCA_CLOCK_HOST_MONOTONIC, &time, &time, &margin),
              DOCA_ERROR_INVALID_VALUE); // the second is no device's
    EXPECT_EQ(doca_clock_cap_nic_real_time_is_supported(nullptr), DOCA_ERROR_INVALID_VALUE);
}

} // namespace
