#include "core/link/verbs/wire.hpp"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs::wire {
namespace {

TEST(VerbsWire, PrivateDataIsPaddedAndReadBack) {
    Request request{};
    request.magic = magic;
    request.version = version;
    request.size = sizeof(request);
    request.tag = 77;
    std::array<std::byte, 196> padded{};
    std::memcpy(padded.data(), &request, sizeof(request));
    Request out{};
    EXPECT_EQ(read_private(padded.data(), padded.size(), out), Check::ok);
    EXPECT_EQ(out.tag, 77u);
    EXPECT_EQ(read_private(padded.data(), sizeof(request) - 1, out), Check::foreign) << "cut";
    EXPECT_EQ(read_private(padded.data(), 7, out), Check::foreign);
    EXPECT_EQ(read_private(nullptr, 0, out), Check::foreign);
    request.size = 1;
    EXPECT_EQ(read_private(&request, sizeof(request), out), Check::foreign);
    request.version = version + 1; // whatever else it says
    EXPECT_EQ(read_private(&request, sizeof(request), out), Check::other_version);
    request.magic ^= 1;
    EXPECT_EQ(read_private(&request, sizeof(request), out), Check::foreign);
}

TEST(VerbsWire, ANamesPortsAreInTheRangeAndTheNextOnes) {
    std::set<std::uint16_t> first;
    for (unsigned i = 0; i < 200; ++i) {
        const std::string name = "server " + std::to_string(i);
        std::set<std::uint16_t> ports;
        for (unsigned probe = 0; probe < tuning::name_probes; ++probe) {
            const std::uint16_t port = service_port(7, name, probe, 65000, 536);
            EXPECT_GE(port, 65000);
            ports.insert(port);
        }
        EXPECT_EQ(ports.size(), tuning::name_probes);
        first.insert(service_port(7, name, 0, 65000, 536));
    }
    EXPECT_GT(first.size(), 150u) << "names are spread over the range";
}

TEST(VerbsWire, TheSameNameOfAnotherFunctionIsAnotherService) {
    EXPECT_NE(service_hash(1, "name"), service_hash(2, "name"));
    EXPECT_NE(service_hash(1, "name"), service_hash(1, "Name"));
    // Both ends compute it: it must not change.
    EXPECT_EQ(service_hash(0x12345678, "a server"), service_hash(0x12345678, "a server"));
}

TEST(VerbsWire, LowHalvesAreWidenedToTheNearest) {
    EXPECT_EQ(widen(5, 3), 5u);
    EXPECT_EQ(widen(3, 5), 3u) << "an older number stays older";
    EXPECT_EQ(widen(2, 0xfffffffeu), 0x1'0000'0002u) << "over the edge";
    EXPECT_EQ(widen(0xffffffffu, 0x1'0000'0001u), 0xffffffffu) << "and back";
    EXPECT_EQ(widen(0x10, 0x7'0000'0000u), 0x7'0000'0010u);
}

TEST(VerbsWire, WhatNeedsNoCreditIsToldApart) {
    EXPECT_TRUE(is_credited(static_cast<std::uint8_t>(Kind::data)));
    EXPECT_TRUE(is_credited(static_cast<std::uint8_t>(Kind::error_reply)));
    EXPECT_TRUE(is_credited(static_cast<std::uint8_t>(Control::hello)));
    EXPECT_TRUE(is_credited(static_cast<std::uint8_t>(Control::attach)));
    EXPECT_FALSE(is_credited(static_cast<std::uint8_t>(Control::want_credit)));
    EXPECT_FALSE(is_credited(static_cast<std::uint8_t>(Control::goodbye)));
}

} // namespace
} // namespace comch::link::verbs::wire
