// Two processes that talk over the soft link: every way there is, once.
#include <algorithm>
#include <array>
#include <csignal>
#include <deque>

#include "core/link/soft/test_process.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

/// The other process connects to us and does what it is told; we serve.
class TwoProcesses : public ::testing::Test {
protected:
    Lab lab;
    Line to_child;
    Line to_parent;

    /// In the child: a connected end.
    struct Client {
        End end;
        Connection* connection;
        explicit Client(TwoProcesses& test, bool one_way = false)
            : end(test.lab, Side::host, 0, {.face = "test", .one_way = one_way}),
              connection(end.port->connect(test.to_child.get<PortAddress>(), {}, nullptr).value()) {
        }
    };
};

Errc complete(End& end, Errc started) {
    if (started != Errc::in_progress) {
        return started;
    }
    const std::size_t before = end.seen.completions.size();
    if (!until([&] { return end.seen.completions.size() > before; }, end)) {
        return Errc::again;
    }
    return end.seen.completions.back().status;
}

TEST_F(TwoProcesses, ExchangeMessagesOfEveryKind) {
    constexpr unsigned rounds = 300;
    Process other([&] {
        Client client(*this);
        for (unsigned i = 0; i < rounds; ++i) {
            const auto message = pattern(i % 3 == 1 ? 20'000 + i : i % 500, i);
            const auto length = static_cast<std::uint32_t>(message.size());
            Errc result = Errc::again;
            ASSERT_TRUE(until(
                [&] {
                    if (i % 3 == 0) {
                        result = client.connection->send(static_cast<std::uint8_t>(i), message);
                    } else if (i % 3 == 1) {
                        const auto sent = client.connection->send_packed(
                            static_cast<std::uint8_t>(i), length, [&](std::byte* to) {
                                std::memcpy(to, message.data(), length);
                                return length;
                            });
                        result = sent < 0 ? static_cast<Errc>(-sent) : Errc::ok;
                    } else {
                        result =
                            client.connection->send_ordered(static_cast<std::uint8_t>(i), message);
                    }
                    return result != Errc::again;
                },
                client.end));
            ASSERT_EQ(result, Errc::ok);
        }
        ASSERT_TRUE(until([&] { return client.end.seen.messages.size() == rounds; }, client.end));
        for (unsigned i = 0; i < rounds; ++i) {
            EXPECT_EQ(client.end.seen.messages[i].id, static_cast<std::uint8_t>(i));
            EXPECT_EQ(client.end.seen.messages[i].bytes, pattern(i, i + 1));
        }
        EXPECT_EQ(client.connection->peer().side, Side::dpu);
        EXPECT_EQ(client.connection->peer().pid, static_cast<std::uint64_t>(::getppid()));
        EXPECT_TRUE(until([&] { return client.connection->confirmed() == rounds; }, client.end));
        client.end.port->close(client.connection);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return server.seen.messages.size() == rounds; }, server));
    for (unsigned i = 0; i < rounds; ++i) {
        ASSERT_EQ(server.seen.messages[i].id, static_cast<std::uint8_t>(i));
        ASSERT_EQ(server.seen.messages[i].bytes, pattern(i % 3 == 1 ? 20'000 + i : i % 500, i));
    }
    Connection* const back = server.seen.accepted.at(0);
    for (unsigned i = 0; i < rounds; ++i) {
        Errc result = Errc::again;
        ASSERT_TRUE(until(
            [&] {
                result = back->send(static_cast<std::uint8_t>(i), pattern(i, i + 1));
                return result != Errc::again;
            },
            server));
        ASSERT_EQ(result, Errc::ok);
    }
    ASSERT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(server.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(other.wait(), 0);
}

/// One-sided operations from the child on `memory` of the parent.
void exercise(End& end, Connection& connection, RemoteRegion& region, bool expect_direct) {
    const RegionKey& key = region.key();
    int token = 0;
    if (expect_direct) { // the first operation asks for the mapping
        std::byte first{};
        EXPECT_EQ(complete(end, connection.get(&first, 1, region, key.base, &token)), Errc::ok);
        EXPECT_TRUE(until(
            [&] {
                std::byte more{};
                EXPECT_EQ(complete(end, connection.get(&more, 1, region, key.base, &token)),
                          Errc::ok);
                return region.mapped() != nullptr;
            },
            end));
    }
    const auto start = [&](Errc result) {
        if (expect_direct) {
            EXPECT_EQ(result, Errc::ok);
        }
        return complete(end, result);
    };
    for (const std::size_t length : {0u, 1u, 1000u, 1025u, 40'000u, 300'000u}) {
        const auto data = pattern(length, static_cast<std::uint32_t>(length));
        Errc result = Errc::again;
        ASSERT_TRUE(until(
            [&] {
                result = connection.put(data.data(), length, region, key.base + 64, &token);
                return result != Errc::again;
            },
            end));
        ASSERT_EQ(start(result), Errc::ok);
        std::vector<std::byte> got(length);
        ASSERT_EQ(start(connection.get(got.data(), length, region, key.base + 64, &token)),
                  Errc::ok);
        EXPECT_TRUE(got == data) << length;
    }
    ASSERT_EQ(complete(end, connection.flush(&token)), Errc::ok);
    std::uint64_t old = 1;
    const std::uint64_t zero = 0;
    ASSERT_EQ(start(connection.put(&zero, 8, region, key.base + 8, &token)), Errc::ok);
    ASSERT_EQ(
        start(connection.atomic({AtomicOp::add, 8, 40, 0, &old}, region, key.base + 8, &token)),
        Errc::ok);
    EXPECT_EQ(old, 0u);
    ASSERT_EQ(start(connection.atomic({AtomicOp::add, 8, 2}, region, key.base + 8, &token)),
              Errc::ok);
    ASSERT_EQ(connection.fence(), Errc::ok);
    Errc result = Errc::again;
    ASSERT_TRUE(until(
        [&] {
            result = connection.atomic({AtomicOp::compare_swap, 8, 7, 42, &old}, region,
                                       key.base + 8, &token);
            return result != Errc::again;
        },
        end));
    ASSERT_EQ(complete(end, result), Errc::ok);
    EXPECT_EQ(old, 42u);
    std::uint32_t half = 0;
    ASSERT_EQ(
        start(connection.atomic({AtomicOp::swap, 4, 9, 0, &half}, region, key.base + 8, &token)),
        Errc::ok);
    EXPECT_EQ(half, 7u);
    EXPECT_EQ(connection.put(&zero, 8, region, key.base + key.length - 7, &token),
              Errc::invalid_argument);
}

class OneSidedInAnotherProcess : public TwoProcesses, public ::testing::WithParamInterface<bool> {};

TEST_P(OneSidedInAnotherProcess, OperationsReachThePeersMemory) {
    constexpr std::size_t size = 512 * 1024;
    const bool mapped = GetParam();
    Process other([&] {
        Client client(*this);
        RemoteRegion region(to_child.get<RegionKey>());
        exercise(client.end, *client.connection, region, mapped);
        EXPECT_EQ(region.mapped() != nullptr, mapped);
        client.end.port->close(client.connection);
        settle(std::chrono::milliseconds(1), client.end);
    });
    End server(lab, Side::dpu);
    SharedMemory shared = create_shared_memory("comch-test", size).value();
    std::vector<std::byte> heap(mapped ? 0 : size);
    std::byte* const base = mapped ? shared.mapping.data() : heap.data();
    const auto key = RegionTable::instance().add({.base = base,
                                                  .length = size,
                                                  .access = access_remote_all,
                                                  .memfd = mapped ? shared.fd.get() : -1});
    ASSERT_TRUE(key.has_value());
    to_child.put(server.port->address());
    to_child.put(*key);
    ASSERT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(server.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(other.wait(), 0);
    const auto expected = pattern(300'000, 300'000);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), base + 64));
    std::uint64_t word = 0;
    std::memcpy(&word, base + 8, sizeof(word));
    EXPECT_EQ(word, 9u);
    RegionTable::instance().remove(key->region);
}
INSTANTIATE_TEST_SUITE_P(Over, OneSidedInAnotherProcess, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "MappedMemory" : "TheRing"; });

TEST_F(TwoProcesses, APutToNewlyMappedMemoryDoesNotOvertakeOneThatTravels) {
    Process other([&] {
        Client client(*this);
        RemoteRegion region(to_child.get<RegionKey>());
        std::uint64_t value = 0;
        const auto put = [&] {
            ++value;
            return client.connection->put(&value, 8, region, region.key().base, nullptr);
        };
        // The server reads its ring and socket only while it is asked to, so the last put before
        // the mapping is known here is still in the ring when it becomes known.
        for (int round = 0; region.mapped() == nullptr; ++round) {
            ASSERT_LT(round, 1000) << "the memory is never mapped";
            ASSERT_EQ(put(), Errc::ok);
            to_parent.put(true);
            ASSERT_TRUE(to_child.get<bool>());
            ASSERT_EQ(put(), Errc::ok);
            client.end.progress();
        }
        ASSERT_EQ(put(), Errc::ok);
        to_parent.put(false);
        ASSERT_TRUE(
            until([&] { return client.connection->flush(nullptr) == Errc::ok; }, client.end));
        std::uint64_t now = 0;
        ASSERT_EQ(client.connection->get(&now, 8, region, region.key().base, nullptr), Errc::ok);
        EXPECT_EQ(now, value);
        // All has arrived, so the next one is direct.
        ASSERT_EQ(put(), Errc::ok);
        std::memcpy(&now, region.mapped(), sizeof(now));
        EXPECT_EQ(now, value);
        client.end.port->close(client.connection);
        settle(std::chrono::milliseconds(1), client.end);
    });
    End server(lab, Side::dpu);
    SharedMemory shared = create_shared_memory("comch-test", 4096).value();
    const auto key = RegionTable::instance().add({.base = shared.mapping.data(),
                                                  .length = 4096,
                                                  .access = access_remote_all,
                                                  .memfd = shared.fd.get()});
    ASSERT_TRUE(key.has_value());
    to_child.put(server.port->address());
    to_child.put(*key);
    while (to_parent.get<bool>()) {
        settle(std::chrono::milliseconds(1), server);
        to_child.put(true);
    }
    EXPECT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(other.wait(), 0);
    RegionTable::instance().remove(key->region);
}

TEST_F(TwoProcesses, APutToNewlyMappedMemoryDoesNotChangeWhatAnEarlierGetReads) {
    constexpr std::size_t length = 8 << 20; // more than the rings hold: answered bit by bit
    Process other([&] {
        Client client(*this, true);
        RemoteRegion region(to_child.get<RegionKey>());
        const std::uint64_t last = region.key().base + length - 8;
        const auto server_progresses = [&] {
            to_parent.put(true);
            return to_child.get<bool>();
        };
        while (!client.connection->established()) {
            ASSERT_TRUE(server_progresses());
            client.end.progress();
        }
        std::uint64_t value = 1;
        ASSERT_EQ(client.connection->put(&value, 8, region, last, nullptr), Errc::ok);
        ASSERT_TRUE(server_progresses()); // and answers the request for the mapping
        std::vector<std::byte> copy(length);
        ASSERT_EQ(client.connection->get(copy.data(), length, region, region.key().base, &value),
                  Errc::in_progress);
        ASSERT_TRUE(server_progresses());
        ASSERT_TRUE(until([&] { return region.mapped() != nullptr; }, client.end));
        const auto answered = [&] { return !client.end.seen.completions.empty(); };
        ASSERT_FALSE(answered());
        value = 2;
        ASSERT_EQ(client.connection->put(&value, 8, region, last, nullptr), Errc::ok);
        to_parent.put(false);
        ASSERT_TRUE(until(answered, client.end));
        std::memcpy(&value, copy.data() + length - 8, sizeof(value));
        EXPECT_EQ(value, 1u);
        ASSERT_TRUE(
            until([&] { return client.connection->flush(nullptr) == Errc::ok; }, client.end));
        ASSERT_EQ(client.connection->get(&value, 8, region, last, nullptr), Errc::ok);
        EXPECT_EQ(value, 2u);
        client.end.port->close(client.connection);
        settle(std::chrono::milliseconds(1), client.end);
    });
    End server(lab, Side::dpu);
    SharedMemory shared = create_shared_memory("comch-test", length).value();
    const auto key = RegionTable::instance().add({.base = shared.mapping.data(),
                                                  .length = length,
                                                  .access = access_remote_all,
                                                  .memfd = shared.fd.get()});
    ASSERT_TRUE(key.has_value());
    to_child.put(server.port->address());
    to_child.put(*key);
    while (to_parent.get<bool>()) {
        settle(std::chrono::milliseconds(1), server);
        to_child.put(true);
    }
    EXPECT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
    EXPECT_EQ(other.wait(), 0);
    RegionTable::instance().remove(key->region);
}

TEST_F(TwoProcesses, MayAskEachOtherForAnyNumberOfMappings) {
    constexpr unsigned count = 3 * tuning::max_one_sided; // more than are kept at once
    const auto play = [](End& end, Connection& connection, Line& to_other, Line& from_other) {
        SharedMemory shared = create_shared_memory("comch-test", 4096).value();
        const auto data = pattern(4096, 7);
        std::copy(data.begin(), data.end(), shared.mapping.data());
        std::vector<std::uint64_t> own;
        for (unsigned i = 0; i < count; ++i) {
            const auto key = RegionTable::instance().add({.base = shared.mapping.data(),
                                                          .length = 4096,
                                                          .access = access_remote_all,
                                                          .memfd = shared.fd.get()});
            ASSERT_TRUE(key.has_value());
            own.push_back(key->region);
            to_other.put(*key);
        }
        std::deque<RemoteRegion> regions;
        for (unsigned i = 0; i < count; ++i) {
            regions.emplace_back(from_other.get<RegionKey>());
        }
        // Neither progresses before both have asked for everything.
        std::array<std::byte, 8> got{};
        std::size_t on_their_way = 0;
        for (RemoteRegion& region : regions) {
            const Errc result = connection.get(got.data(), 8, region, region.key().base, nullptr);
            ASSERT_TRUE(result == Errc::in_progress || result == Errc::again);
            on_their_way += result == Errc::in_progress ? 1 : 0;
        }
        to_other.put(true);
        ASSERT_TRUE(from_other.get<bool>());
        ASSERT_TRUE(until(
            [&] {
                return end.seen.completions.size() == on_their_way &&
                       std::all_of(regions.begin(), regions.end(),
                                   [](const auto& region) { return region.mapped() != nullptr; });
            },
            end));
        for (const RemoteRegion& region : regions) {
            EXPECT_EQ(std::memcmp(region.mapped(), data.data(), data.size()), 0);
        }
        // The other one may not have its answers yet.
        to_other.put(true);
        EXPECT_TRUE(until([&] { return from_other.has_something(); }, end));
        EXPECT_TRUE(end.seen.ends.empty());
        for (const std::uint64_t region : own) {
            RegionTable::instance().remove(region);
        }
    };
    Process other([&] {
        Client client(*this);
        ASSERT_TRUE(until([&] { return client.connection->established(); }, client.end));
        play(client.end, *client.connection, to_parent, to_child);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    play(server, *server.seen.accepted.at(0), to_child, to_parent);
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(TwoProcesses, MayBothSleep) {
    constexpr unsigned rounds = 2000;
    const auto play = [](End& end, Connection* connection, bool serves) {
        unsigned sent = 0;
        if (serves) {
            ASSERT_EQ(connection->send(1, bytes_of("ping")), Errc::ok);
            ++sent;
        }
        while (end.seen.messages.size() < rounds) {
            const std::size_t before = end.seen.messages.size();
            ASSERT_TRUE(sleep_until(end, [&] { return end.seen.messages.size() > before; }))
                << "slept through message " << before;
            for (std::size_t i = before; i < end.seen.messages.size() && sent < rounds;
                 ++i, ++sent) {
                ASSERT_EQ(connection->send(1, bytes_of("ping")), Errc::ok);
            }
        }
    };
    Process other([&] {
        Client client(*this);
        play(client.end, client.connection, true);
        ASSERT_TRUE(sleep_until(client.end, [&] { return !client.end.seen.ends.empty(); }));
        EXPECT_EQ(client.end.seen.ends[0].reason, Reason::closed);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(sleep_until(server, [&] { return !server.seen.accepted.empty(); }));
    play(server, server.seen.accepted[0], false);
    ASSERT_TRUE(sleep_until(server, [&] {
        return server.seen.accepted[0]->confirmed() == server.seen.accepted[0]->sent() ||
               server.port->arm(true) == Errc::again;
    }));
    server.port->close(server.seen.accepted[0]);
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(TwoProcesses, ShareAChannel) {
    constexpr unsigned rounds = 1000;
    Process other([&] {
        Client client(*this);
        ASSERT_TRUE(until([&] { return client.end.seen.channels.size() == 1; }, client.end));
        EXPECT_EQ(client.end.seen.channels[0].first, 77u);
        Channel channel = std::move(client.end.seen.channels[0].second);
        unsigned got = 0;
        while (got < rounds) {
            if (channel.poll(
                    [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
                        EXPECT_EQ(id, static_cast<std::uint8_t>(got));
                        EXPECT_TRUE(pattern(length, got) == std::vector(data, data + length));
                        EXPECT_EQ(length, got % 2 == 0 ? got : 30'000 + got);
                        ++got;
                        return true;
                    },
                    8) == 0 &&
                channel.arm() == Errc::ok) {
                ASSERT_TRUE(readable(channel.event_fd()));
            }
        }
        EXPECT_EQ(channel.send(1, bytes_of("thanks")), Errc::ok);
        while (channel.check() == Errc::ok) {
            if (channel.arm() == Errc::ok) {
                ASSERT_TRUE(readable(channel.event_fd()));
            }
        }
        EXPECT_EQ(channel.check(), Errc::not_connected);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    {
        Channel channel = server.seen.accepted[0]->open_channel(77).value();
        for (unsigned i = 0; i < rounds; ++i) {
            const std::uint32_t length = i % 2 == 0 ? i : 30'000 + i;
            const auto message = pattern(length, i);
            for (;;) {
                const std::int64_t result =
                    i % 2 == 0 ? -static_cast<std::int64_t>(
                                     channel.send(static_cast<std::uint8_t>(i), message))
                               : channel.send_packed(static_cast<std::uint8_t>(i), length,
                                                     [&](std::byte* to) {
                                                         std::memcpy(to, message.data(), length);
                                                         return length;
                                                     });
                if (result >= 0) {
                    break;
                }
                ASSERT_EQ(static_cast<Errc>(-result), Errc::again);
                if (channel.arm() == Errc::ok) {
                    ASSERT_TRUE(readable(channel.event_fd())) << "no room for " << i;
                }
            }
        }
        unsigned got = 0;
        while (got == 0) {
            got = channel.poll([](auto, auto, auto) { return true; }, 1);
            if (got == 0 && channel.arm() == Errc::ok) {
                ASSERT_TRUE(readable(channel.event_fd()));
            }
        }
        while (channel.confirmed() != rounds) {
            std::this_thread::yield();
        }
    }
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(TwoProcesses, OneHearsOfTheOthersDeath) {
    Process other([&] {
        Client client(*this);
        EXPECT_EQ(client.connection->send(1, bytes_of("one")), Errc::ok);
        EXPECT_TRUE(until([&] { return !client.end.seen.connected.empty(); }, client.end));
        to_parent.put('r');
        (void)to_child.get<char>();
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(sleep_until(server, [&] { return !server.seen.messages.empty(); }));
    (void)to_parent.get<char>();
    other.kill();
    ASSERT_TRUE(sleep_until(server, [&] { return !server.seen.ends.empty(); }));
    EXPECT_EQ(server.seen.ends[0].reason, Reason::peer_died);
    EXPECT_EQ(server.seen.accepted[0]->send(1, bytes_of("x")), Errc::connection_reset);
    server.port->close(server.seen.accepted[0]);
}

TEST_F(TwoProcesses, AForkedChildMayDestroyWhatItInherited) {
    Process other([&] {
        Client client(*this);
        Channel channel;
        ASSERT_TRUE(until([&] { return !client.end.seen.connected.empty(); }, client.end));
        channel = client.connection->open_channel(1).value();
        Process child([&] {
            client.end.port.reset();
            channel = Channel();
        });
        EXPECT_EQ(child.wait(), 0);
        EXPECT_EQ(client.connection->send(1, bytes_of("still here")), Errc::ok);
        EXPECT_EQ(channel.send(1, bytes_of("and here")), Errc::ok);
        EXPECT_TRUE(until([&] { return client.end.seen.messages.size() == 1; }, client.end));
        EXPECT_TRUE(client.end.seen.ends.empty());
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until(
        [&] { return !server.seen.messages.empty() && !server.seen.channels.empty(); }, server));
    EXPECT_TRUE(server.seen.ends.empty());
    Channel& channel = server.seen.channels[0].second;
    while (channel.poll([](auto, auto, auto) { return true; }, 1) == 0) {
        ASSERT_EQ(channel.check(), Errc::ok);
    }
    EXPECT_EQ(server.seen.accepted[0]->send(1, bytes_of("good")), Errc::ok);
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(TwoProcesses, WhoComputesAndPollsAFewTimesInBetweenHearsOfADeathSoon) {
    Process other([&] {
        Client client(*this);
        (void)until([] { return false; }, client.end);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    const auto compute_and_poll = [&] {
        // (So long computes who is taken to be slow.)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        (void)server.progress();
        (void)server.progress();
    };
    for (unsigned i = 0; i < 32; ++i) { // longer than looks are counted
        compute_and_poll();
    }
    other.kill();
    unsigned times = 0;
    while (server.seen.ends.empty() && times < 32) {
        compute_and_poll();
        ++times;
    }
    ASSERT_FALSE(server.seen.ends.empty());
    EXPECT_EQ(server.seen.ends[0].reason, Reason::peer_died);
    EXPECT_LE(times, 2u);
    server.port->close(server.seen.accepted[0]);
}

TEST_F(TwoProcesses, AServiceIsReachedByName) {
    Process other([&] {
        End client(lab, Side::host);
        (void)to_child.get<char>();
        const FunctionId here = device_of(lab.domain(), Side::host).function().id;
        const auto nobody = client.port->connect(ServiceName{here, "nobody"}, {}, nullptr);
        ASSERT_FALSE(nobody.has_value());
        EXPECT_EQ(nobody.error().code, Errc::not_found);
        ASSERT_TRUE(client.port->connect(ServiceName{here, "one"}, {}, nullptr).has_value());
        ASSERT_TRUE(until([&] { return client.seen.connected.size() == 1; }, client));
        to_parent.put('d');
        (void)to_child.get<char>();
    });
    End server(lab, Side::dpu);
    const FunctionId function = device_of(lab.domain(), Side::host).function().id;
    ASSERT_TRUE(server.port->listen({function, "one"}).has_value());
    EXPECT_EQ(server.port->listen({function, "one"}).error().code, Errc::in_use);
    to_child.put('g');
    ASSERT_TRUE(until([&] { return to_parent.has_something(); }, server));
    to_child.put('x');
    EXPECT_EQ(other.wait(), 0);
    ASSERT_TRUE(until([&] { return !server.seen.ends.empty(); }, server));
}

} // namespace
} // namespace comch::link::soft::test
