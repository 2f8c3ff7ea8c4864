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

TEST(VerbsWire, LowBitsAreWidenedToTheNearest) {
    EXPECT_EQ(widen(5, 8, 3), 5u);
    EXPECT_EQ(widen(3, 8, 5), 3u) << "an older number stays older";
    EXPECT_EQ(widen(2, 8, 0x1fe), 0x202u) << "over the edge";
    EXPECT_EQ(widen(0xff, 8, 0x201), 0x1ffu) << "and back";
    EXPECT_EQ(widen(0x10, 9, 0x7'0000'0000u), 0x7'0000'0010u);
    for (const unsigned bits : {records_bits, messages_bits}) {
        const std::uint64_t mask = (1u << bits) - 1;
        for (std::uint64_t known = max_limit; known < 5 * max_limit; ++known) {
            for (std::uint64_t is = known - max_limit; is <= known + max_limit; ++is) {
                ASSERT_EQ(widen(static_cast<std::uint32_t>(is & mask), bits, known), is);
            }
        }
    }
}

TEST(VerbsWire, AHeaderIsFourBytes) {
    for (const unsigned kind : {0u, 1u, 50u, 63u}) {
        for (const unsigned records : {0u, 1u, 0xffu, 0x100u, 0x1ffu}) {
            for (const bool at_hand : {false, true}) {
                const Header header{.kind = static_cast<std::uint8_t>(kind),
                                    .id = 0xa5,
                                    .at_hand = at_hand,
                                    .records = static_cast<std::uint16_t>(records),
                                    .messages = 0x5a};
                const Header back = Header::unpack(header.pack());
                EXPECT_EQ(back.kind, kind);
                EXPECT_EQ(back.id, 0xa5);
                EXPECT_EQ(back.at_hand, at_hand);
                EXPECT_EQ(back.records, records);
                EXPECT_EQ(back.messages, 0x5a);
            }
        }
    }
    // Both ends must agree.
    const Header header{.kind = 3, .id = 1, .at_hand = true, .records = 0x102, .messages = 4};
    const std::uint32_t word = header.pack();
    EXPECT_EQ(word, 0xc3020401u);
    EXPECT_EQ(Header::kind_of(word), 3);
    EXPECT_EQ(Header::credit_of(word), 0xc0020400u);
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
