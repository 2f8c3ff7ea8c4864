#include "core/link/verbs/device_needs.hpp"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs {
namespace {

struct Attributes {
    ibv_device_attr device{};
    ibv_port_attr port{};
};

/// As a BlueField says, roughly.
Attributes large_device() {
    Attributes a;
    a.device.max_qp = 131072;
    a.device.max_qp_wr = 32768;
    a.device.max_sge = 30;
    a.device.max_srq = 65536;
    a.device.max_srq_wr = 32767;
    a.device.max_srq_sge = 31;
    a.device.max_cq = 1 << 24;
    a.device.max_cqe = 4194303;
    a.device.max_mr = 1 << 24;
    a.device.max_pd = 1 << 23;
    a.device.max_qp_rd_atom = 16;
    a.device.max_qp_init_rd_atom = 16;
    a.device.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    a.port.max_msg_sz = 1u << 30;
    return a;
}

TEST(DeviceNeeds, ALargeDeviceIsUsedWithinReason) {
    const Attributes a = large_device();
    const auto limits = judge_device("mlx5_0", IBV_TRANSPORT_IB, a.device, a.port);
    ASSERT_TRUE(limits.has_value()) << limits.error().message;
    EXPECT_EQ(limits->queue_depth, 32768u);
    EXPECT_EQ(limits->shared_depth, 32767u);
    EXPECT_FALSE(limits->shared_resize);
    EXPECT_EQ(limits->rdma_length, tuning::rdma_chunk);
    EXPECT_EQ(limits->reads, 16);
    EXPECT_TRUE(limits->windows);
}

TEST(DeviceNeeds, ASmallOneIsUsedAsFarAsItGoes) {
    Attributes a = large_device();
    a.device.max_qp_rd_atom = 4;
    a.device.device_cap_flags = IBV_DEVICE_SRQ_RESIZE;
    a.port.max_msg_sz = tuning::slot_size;
    const auto limits = judge_device("small", IBV_TRANSPORT_IB, a.device, a.port);
    ASSERT_TRUE(limits.has_value()) << limits.error().message;
    EXPECT_TRUE(limits->shared_resize);
    EXPECT_EQ(limits->rdma_length, tuning::slot_size);
    EXPECT_EQ(limits->reads, 4);
    EXPECT_FALSE(limits->windows);
}

TEST(DeviceNeeds, OneWithoutImmediateDataIsRefused) {
    const Attributes a = large_device();
    const auto limits = judge_device("cxgb4_0", IBV_TRANSPORT_IWARP, a.device, a.port);
    ASSERT_FALSE(limits.has_value());
    EXPECT_EQ(limits.error().code, Errc::unsupported);
    EXPECT_NE(limits.error().message.find("cxgb4_0 is neither InfiniBand nor RoCE"),
              std::string::npos)
        << limits.error().message;
}

TEST(DeviceNeeds, APortsSpeedAndWidthAreItsBandwidth) {
    const auto gigabits = [](std::uint8_t speed, std::uint8_t width) {
        ibv_port_attr port{};
        port.active_speed = speed;
        port.active_width = width;
        return port_bandwidth(port) * 8 / 1e9;
    };
    EXPECT_NEAR(gigabits(1, 1), 2, 0.01);    // an emulated device
    EXPECT_NEAR(gigabits(32, 1), 25, 0.01);  // 25 Gb/s Ethernet
    EXPECT_NEAR(gigabits(32, 2), 100, 0.01); // ConnectX-5, BlueField-2
    EXPECT_NEAR(gigabits(64, 2), 206, 1);    // HDR: 53.125 Gb/s a lane
    EXPECT_NEAR(gigabits(128, 2), 412, 1);   // BlueField-3
    EXPECT_NEAR(gigabits(32, 16), 50, 0.01); // two lanes
    EXPECT_GE(gigabits(255, 2), gigabits(128, 2)) << "a speed of the future";
}

TEST(DeviceNeeds, WhatIsNotEnoughIsNamed) {
    struct Case {
        std::function<void(Attributes&)> take;
        std::string says;
    };
    const Case cases[] = {
        {[](Attributes& a) { a.device.max_qp = 0; }, "0 queue pairs"},
        {[](Attributes& a) { a.device.max_qp_wr = 255; }, "255 work requests on a queue pair"},
        {[](Attributes& a) { a.device.max_sge = 0; }, "0 pieces of memory in a work request"},
        {[](Attributes& a) { a.device.max_srq = 0; }, "0 shared receive queues"},
        {[](Attributes& a) { a.device.max_srq_wr = 66; }, "66 buffers in a shared receive queue"},
        {[](Attributes& a) { a.device.max_srq_sge = 0; }, "0 pieces of memory in a buffer"},
        {[](Attributes& a) { a.device.max_cq = 0; }, "0 completion queues"},
        {[](Attributes& a) { a.device.max_cqe = 322; }, "322 entries in a completion queue"},
        {[](Attributes& a) { a.device.max_mr = 2; }, "2 registrations of memory"},
        {[](Attributes& a) { a.device.max_pd = 0; }, "0 protection domains"},
        {[](Attributes& a) { a.port.max_msg_sz = 4096; }, "4096 bytes in a message"},
        {[](Attributes& a) { a.device.max_qp_init_rd_atom = 0; }, "0 RDMA reads under way"},
        {[](Attributes& a) { a.device.max_qp_rd_atom = 0; }, "0 RDMA reads under way"},
    };
    for (const Case& each : cases) {
        Attributes a = large_device();
        each.take(a);
        const auto limits = judge_device("mlx5_0", IBV_TRANSPORT_IB, a.device, a.port);
        ASSERT_FALSE(limits.has_value()) << each.says;
        EXPECT_EQ(limits.error().code, Errc::unsupported);
        EXPECT_NE(limits.error().message.find("mlx5_0 allows " + each.says), std::string::npos)
            << limits.error().message;
    }
}

} // namespace
} // namespace comch::link::verbs
