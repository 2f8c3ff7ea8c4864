// What a connection counts, as comch_stat reads it: each counter moves when it must, and only then.
#include "core/counters/counter_files.hpp"
#include "core/link/soft/test_process.hpp"
#include "core/memory/region_table.hpp"

namespace comch::link::soft::test {
namespace {

using counters::ConnectionSample;
using counters::SlotKind;
using counters::SlotState;

/// All connections that a process of the domain shows, in the order of their slots.
std::vector<ConnectionSample> shown(const Lab& lab, pid_t pid = ::getpid()) {
    const auto processes = counters::read_counter_files(*lab.domain());
    EXPECT_TRUE(processes.has_value());
    for (const auto& process : processes ? *processes : std::vector<counters::ProcessSample>{}) {
        if (process.pid == static_cast<std::uint64_t>(pid)) {
            return process.connections;
        }
    }
    return {};
}

void must_send(Errc result) {
    ASSERT_EQ(result, Errc::ok);
}

std::int64_t pack(auto& sender, std::uint32_t length, std::uint32_t max) {
    return sender.send_packed(1, max, [&](std::byte* to) {
        std::memset(to, 1, length);
        return length;
    });
}

/// Two ends in this process: the initiator has slot 0, the acceptor slot 1.
class SoftCounters : public ::testing::Test {
protected:
    Lab lab;
    End dpu{lab, Side::dpu};
    End host{lab, Side::host};
    Connected pair = connect(host, dpu);

    ConnectionSample initiator() { return shown(lab).at(0); }
    ConnectionSample acceptor() { return shown(lab).at(1); }
};

TEST_F(SoftCounters, SayWhoIsConnectedWithWhom) {
    const auto pid = static_cast<std::uint64_t>(::getpid());
    const auto from = initiator();
    const auto to = acceptor();
    EXPECT_EQ(shown(lab).size(), 2u);
    for (const auto& c : {from, to}) {
        EXPECT_EQ(c.state, SlotState::connected);
        EXPECT_EQ(c.kind, SlotKind::connection);
        EXPECT_EQ(c.face, "test");
        EXPECT_EQ(c.peer_pid, pid);
        EXPECT_NE(c.connection, 0u);
    }
    EXPECT_EQ(from.connection, to.connection);
    EXPECT_EQ(from.local_side, static_cast<std::uint32_t>(Side::host));
    EXPECT_EQ(from.peer_side, static_cast<std::uint32_t>(Side::dpu));
    EXPECT_EQ(to.local_side, static_cast<std::uint32_t>(Side::dpu));
    EXPECT_EQ(to.peer_side, static_cast<std::uint32_t>(Side::host));
    EXPECT_EQ(from.peer, device_of(lab.domain(), Side::dpu).function().name);
    EXPECT_EQ(to.peer, device_of(lab.domain(), Side::host).function().name);
    (void)connect(host, dpu);
    EXPECT_NE(shown(lab).at(2).connection, from.connection);
}

TEST_F(SoftCounters, TellOfAnEnd) {
    host.port->close(pair.initiator);
    ASSERT_TRUE(until([&] { return !dpu.seen.ends.empty(); }, host, dpu));
    EXPECT_EQ(initiator().state, SlotState::closed);
    EXPECT_EQ(acceptor().state, SlotState::closed);
}

TEST_F(SoftCounters, CountMessagesAndWhatIsInFlight) {
    must_send(pair.initiator->send(1, pattern(100, 1)));
    must_send(pair.initiator->send(1, pattern(8, 1)));
    must_send(pair.initiator->send_ordered(1, pattern(50, 1)));
    auto from = initiator();
    EXPECT_EQ(from.figures.tx_messages, 3u);
    EXPECT_EQ(from.figures.tx_bytes, 158u);
    EXPECT_EQ(from.in_flight, 3u);
    EXPECT_EQ(acceptor().in_flight, 0u);
    ASSERT_TRUE(until([&] { return dpu.seen.message_count == 3; }, dpu));
    from = initiator();
    EXPECT_EQ(from.in_flight, 0u);
    EXPECT_EQ(from.figures.rx_messages, 0u);
    auto to = acceptor();
    EXPECT_EQ(to.figures.rx_messages, 3u);
    EXPECT_EQ(to.figures.rx_bytes, 158u);
    EXPECT_EQ(to.figures.tx_messages, 0u);
    must_send(pair.acceptor->send(1, pattern(5, 1)));
    to = acceptor();
    EXPECT_EQ(to.in_flight, 1u);
    EXPECT_EQ(to.figures.tx_bytes, 5u);
    for (const auto& c : {initiator(), acceptor()}) {
        EXPECT_EQ(c.figures.tx_bulk_ring_bytes + c.figures.rx_bulk_ring_bytes, 0u);
        EXPECT_EQ(c.figures.credit_stalls + c.figures.buffer_stalls + c.figures.wakeups, 0u);
        EXPECT_EQ(c.figures.tx_one_sided + c.figures.one_sided_served, 0u);
    }
}

TEST_F(SoftCounters, TellWhatTheBulkRingCarried) {
    ASSERT_EQ(pack(*pair.initiator, 20'000, 32'768), 20'000);
    EXPECT_EQ(initiator().figures.tx_bulk_ring_bytes, 20'000u);
    EXPECT_EQ(initiator().figures.tx_bytes, 20'000u);
    EXPECT_EQ(acceptor().figures.rx_bulk_ring_bytes, 0u);
    ASSERT_TRUE(until([&] { return dpu.seen.message_count == 1; }, dpu));
    EXPECT_EQ(acceptor().figures.rx_bulk_ring_bytes, 20'000u);
    EXPECT_EQ(acceptor().figures.rx_bytes, 20'000u);
    ASSERT_EQ(pack(*pair.initiator, 10, 32'768), 10) << "short after all: in line";
    ASSERT_TRUE(until([&] { return dpu.seen.message_count == 2; }, dpu));
    EXPECT_EQ(initiator().figures.tx_bulk_ring_bytes, 20'000u);
    EXPECT_EQ(acceptor().figures.rx_bulk_ring_bytes, 20'000u);
    EXPECT_EQ(initiator().figures.tx_messages, 2u);
}

TEST_F(SoftCounters, LongMessagesMakeRoomInARingThatFillsUp) {
    const auto length_of = [](std::uint64_t i) {
        return static_cast<std::size_t>(i % 3) * 500 + 24;
    };
    std::uint64_t sent = 0;
    const auto send = [&] {
        const auto seed = static_cast<std::uint32_t>(sent);
        const Errc result = pair.initiator->send(static_cast<std::uint8_t>(sent % 100),
                                                 pattern(length_of(sent), seed));
        sent += result == Errc::ok ? 1 : 0;
        return result;
    };
    for (unsigned round = 0; round < 3; ++round) {
        const std::uint64_t before = initiator().figures.tx_bulk_ring_bytes;
        for (unsigned i = 0; i < 10; ++i) {
            must_send(send());
        }
        EXPECT_EQ(initiator().figures.tx_bulk_ring_bytes, before) << "few stay in the ring";
        const std::uint64_t first = sent;
        while (send() == Errc::ok) {
        }
        EXPECT_GT(sent - first, 100u);
        const std::uint64_t past = initiator().figures.tx_bulk_ring_bytes - before;
        EXPECT_GT(past, 50u * 500);
        EXPECT_EQ(initiator().in_flight, sent - dpu.seen.message_count);
        ASSERT_TRUE(until([&] { return dpu.seen.message_count == sent; }, dpu));
    }
    for (std::uint64_t i = 0; i < sent; ++i) {
        EXPECT_EQ(dpu.seen.messages[i].id, i % 100);
        EXPECT_EQ(dpu.seen.messages[i].bytes, pattern(length_of(i), static_cast<std::uint32_t>(i)));
    }
    const std::uint64_t past = initiator().figures.tx_bulk_ring_bytes;
    while (pair.initiator->send(1, pattern(tuning::inline_when_crowded, 1)) == Errc::ok) {
    }
    EXPECT_EQ(initiator().figures.tx_bulk_ring_bytes, past) << "short ones stay";
}

TEST_F(SoftCounters, CountWhatFoundNoRoom) {
    const auto message = pattern(tuning::max_inline, 1);
    std::uint64_t sent = 0;
    while (pair.initiator->send(1, message) == Errc::ok) {
        ++sent;
    }
    EXPECT_EQ(initiator().figures.credit_stalls, 1u);
    EXPECT_EQ(pair.initiator->send(1, message), Errc::again);
    EXPECT_EQ(initiator().figures.credit_stalls, 2u);
    EXPECT_EQ(initiator().figures.tx_messages, sent);
    ASSERT_TRUE(until([&] { return dpu.seen.message_count == sent; }, dpu));
    EXPECT_EQ(pair.initiator->send(1, message), Errc::ok);
    EXPECT_EQ(initiator().figures.credit_stalls, 2u);
    pair.initiator->hold(true);
    EXPECT_EQ(pair.initiator->send(1, message), Errc::again);
    EXPECT_EQ(initiator().figures.credit_stalls, 2u) << "there was room: it waits for its turn";
    pair.initiator->hold(false);

    while (pack(*pair.initiator, 32'768, 32'768) > 0) { // the other ring
    }
    EXPECT_EQ(initiator().figures.credit_stalls, 3u);
}

TEST_F(SoftCounters, CountTheDoorbellsThatEndASleep) {
    must_send(pair.initiator->send(1, pattern(8, 1)));
    ASSERT_TRUE(until([&] { return dpu.seen.message_count == 1; }, dpu));
    EXPECT_EQ(acceptor().figures.wakeups, 0u);
    ASSERT_TRUE(until([&] { return dpu.port->arm() == Errc::ok; }, dpu));
    must_send(pair.initiator->send(1, pattern(8, 1)));
    must_send(pair.initiator->send(1, pattern(8, 1)));
    ASSERT_TRUE(readable(dpu.port->event_fd()));
    ASSERT_TRUE(until([&] { return acceptor().figures.wakeups != 0; }, dpu));
    EXPECT_EQ(acceptor().figures.wakeups, 1u) << "one for one sleep";
    EXPECT_EQ(initiator().figures.wakeups, 0u);
}

TEST_F(SoftCounters, AChannelSaysWhoseItIsAndCountsForItself) {
    auto opened = pair.acceptor->open_channel(1);
    ASSERT_TRUE(opened.has_value());
    ASSERT_TRUE(until([&] { return !host.seen.channels.empty(); }, host, dpu));
    auto& other = host.seen.channels[0].second;
    auto ours = shown(lab).at(2);
    auto theirs = shown(lab).at(3);
    const auto pid = static_cast<std::uint64_t>(::getpid());
    for (const auto& c : {ours, theirs}) {
        EXPECT_EQ(c.kind, SlotKind::channel);
        EXPECT_EQ(c.state, SlotState::connected);
        EXPECT_EQ(c.face, "test");
        EXPECT_EQ(c.peer_pid, pid);
    }
    EXPECT_EQ(ours.connection, theirs.connection);
    EXPECT_NE(ours.connection, 0u);
    EXPECT_NE(ours.connection, initiator().connection);
    EXPECT_EQ(ours.local_side, static_cast<std::uint32_t>(Side::dpu));
    EXPECT_EQ(ours.peer_side, static_cast<std::uint32_t>(Side::host));
    EXPECT_EQ(ours.peer, acceptor().peer);
    EXPECT_EQ(theirs.local_side, static_cast<std::uint32_t>(Side::host));
    EXPECT_EQ(theirs.peer_side, static_cast<std::uint32_t>(Side::dpu));
    EXPECT_EQ(theirs.peer, initiator().peer);

    must_send(opened->send(1, pattern(30, 1)));
    ASSERT_EQ(pack(*opened, 5000, 5000), 5000);
    opened->buffer_stalls().add(6);
    ours = shown(lab).at(2);
    EXPECT_EQ(ours.figures.tx_messages, 2u);
    EXPECT_EQ(ours.figures.tx_bytes, 5030u);
    EXPECT_EQ(ours.figures.tx_bulk_ring_bytes, 5000u);
    EXPECT_EQ(ours.figures.buffer_stalls, 6u);
    EXPECT_EQ(ours.in_flight, 2u);
    EXPECT_EQ(other.poll([](auto, auto, auto) { return true; }, 16), 2u);
    theirs = shown(lab).at(3);
    EXPECT_EQ(theirs.figures.rx_messages, 2u);
    EXPECT_EQ(theirs.figures.rx_bytes, 5030u);
    EXPECT_EQ(theirs.figures.rx_bulk_ring_bytes, 5000u);
    EXPECT_EQ(shown(lab).at(2).in_flight, 0u);
    EXPECT_EQ(acceptor().figures, counters::Figures{}) << "the connection itself carried nothing";

    ASSERT_EQ(other.arm(), Errc::ok);
    must_send(opened->send(1, pattern(30, 1)));
    ASSERT_TRUE(readable(other.event_fd()));
    EXPECT_EQ(other.check(), Errc::ok); // looks at the doorbell
    EXPECT_EQ(shown(lab).at(3).figures.wakeups, 1u);
    { auto gone = std::move(*opened); }
    EXPECT_EQ(shown(lab).at(2).state, SlotState::closed);
}

TEST_F(SoftCounters, OneSidedOperationsOnMappedMemoryTakeNoRing) {
    SharedMemory memory = create_shared_memory("comch-test", 4096).value();
    const auto key = RegionTable::instance().add({.base = memory.mapping.data(),
                                                  .length = 4096,
                                                  .access = access_remote_all,
                                                  .memfd = memory.fd.get()});
    ASSERT_TRUE(key.has_value());
    RemoteRegion region(*key);
    std::array<std::byte, 100> bytes{};
    EXPECT_EQ(pair.initiator->put(bytes.data(), 100, region, key->base, nullptr), Errc::ok);
    EXPECT_EQ(pair.initiator->get(bytes.data(), 60, region, key->base, nullptr), Errc::ok);
    EXPECT_EQ(pair.initiator->atomic({AtomicOp::add, 8, 1}, region, key->base, nullptr), Errc::ok);
    const auto from = initiator();
    EXPECT_EQ(from.figures.tx_one_sided, 3u);
    EXPECT_EQ(from.figures.tx_mapped_bytes, 168u);
    EXPECT_EQ(from.figures.tx_bytes, 0u);
    settle(std::chrono::milliseconds(1), host, dpu);
    EXPECT_EQ(acceptor().figures.one_sided_served, 0u);
    RegionTable::instance().remove(key->region);
}

/// The other process connects to us and does what it is told; we serve and look.
class SoftCountersOfTwo : public ::testing::Test {
protected:
    Lab lab;
    Line to_child;
    Line to_parent;
};

TEST_F(SoftCountersOfTwo, OneSidedOperationsByRingAreCountedAtBothEnds) {
    Process other([&] {
        const auto address = to_child.get<PortAddress>();
        RemoteRegion region(to_child.get<RegionKey>());
        const RegionKey& key = region.key();
        End end(lab, Side::host);
        Connection& c = *end.port->connect(address, {}, nullptr).value();
        ASSERT_TRUE(until([&] { return !end.seen.connected.empty(); }, end));
        int token = 0;
        const auto finish = [&](auto start) {
            Errc result = Errc::again;
            ASSERT_TRUE(until([&] { return (result = start()) != Errc::again; }, end));
            if (result == Errc::in_progress) {
                const std::size_t before = end.seen.completions.size();
                ASSERT_TRUE(until([&] { return end.seen.completions.size() > before; }, end));
                result = end.seen.completions.back().status;
            }
            ASSERT_EQ(result, Errc::ok);
        };
        std::vector<std::byte> bytes(40'000);
        finish([&] { return c.put(bytes.data(), 100, region, key.base, &token); });
        finish([&] { return c.put(bytes.data(), 40'000, region, key.base, &token); });
        finish([&] { return c.get(bytes.data(), 50, region, key.base, &token); });
        finish([&] { return c.get(bytes.data(), 30'000, region, key.base, &token); });
        std::uint64_t old = 0;
        finish([&] { return c.atomic({AtomicOp::add, 8, 1, 0, &old}, region, key.base, &token); });
        finish([&] { return c.flush(&token); });
        to_parent.put(true);
        (void)to_child.get<bool>();
    });
    End server(lab, Side::dpu);
    std::vector<std::byte> memory(50'000);
    const auto key = RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all, .memfd = -1});
    ASSERT_TRUE(key.has_value());
    to_child.put(server.port->address());
    to_child.put(*key);
    ASSERT_TRUE(until([&] { return to_parent.has_something(); }, server));
    const auto requester = shown(lab, other.pid()).at(0).figures;
    const auto target = shown(lab).at(0).figures;
    EXPECT_EQ(requester.tx_one_sided, 5u);
    EXPECT_EQ(requester.tx_bytes, 100u + 40'000u + 8u);
    EXPECT_EQ(requester.tx_bulk_ring_bytes, 40'000u);
    EXPECT_EQ(requester.tx_mapped_bytes, 0u);
    EXPECT_EQ(requester.rx_bytes, 50u + 30'000u);
    EXPECT_EQ(requester.rx_bulk_ring_bytes, 30'000u);
    EXPECT_EQ(requester.tx_messages + requester.rx_messages, 0u);
    EXPECT_EQ(target.one_sided_served, 6u) << "a long put comes in two pieces";
    EXPECT_EQ(target.rx_bytes, requester.tx_bytes);
    EXPECT_EQ(target.rx_bulk_ring_bytes, requester.tx_bulk_ring_bytes);
    EXPECT_EQ(target.tx_bytes, requester.rx_bytes);
    EXPECT_EQ(target.tx_bulk_ring_bytes, requester.rx_bulk_ring_bytes);
    EXPECT_EQ(target.tx_one_sided, 0u);
    to_child.put(true);
    ASSERT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(other.wait(), 0);
    RegionTable::instance().remove(key->region);
}

TEST_F(SoftCountersOfTwo, ADeathIsAFailureAndEndsWhatIsKnown) {
    Process other([&] {
        const auto address = to_child.get<PortAddress>();
        End end(lab, Side::host);
        Connection& c = *end.port->connect(address, {}, nullptr).value();
        ASSERT_EQ(c.send(1, pattern(8, 1)), Errc::ok);
        ASSERT_TRUE(until([&] { return !end.seen.connected.empty(); }, end));
        to_parent.put(true);
        (void)to_child.get<bool>(); // without progress
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return to_parent.has_something(); }, server));
    ASSERT_TRUE(until([&] { return server.seen.message_count == 1; }, server));
    ASSERT_EQ(server.seen.accepted.at(0)->send(1, pattern(8, 1)), Errc::ok);
    EXPECT_EQ(shown(lab).at(0).in_flight, 1u);
    EXPECT_EQ(shown(lab).at(0).peer_pid, static_cast<std::uint64_t>(other.pid()));
    EXPECT_EQ(shown(lab, other.pid()).at(0).in_flight, 0u);
    other.kill();
    EXPECT_TRUE(shown(lab, other.pid()).empty()) << "its file is there still, but it is dead";
    EXPECT_EQ(shown(lab).at(0).in_flight, std::nullopt);
    ASSERT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(shown(lab).at(0).state, SlotState::failed);
}

} // namespace
} // namespace comch::link::soft::test
