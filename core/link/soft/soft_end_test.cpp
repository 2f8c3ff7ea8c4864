// Ends of connections at awkward moments: inside a callback, in the middle of a withdrawal, between two
// looks of one progress call, without a descriptor to spare.
#include <array>
#include <fstream>

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "core/link/soft/test_raw_peer.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

TEST(End, InACompletionWithMoreUnderWayLeavesNothingBehind) {
    const Lab lab;
    End dpu(lab, Side::dpu);
    End host(lab, Side::host);
    const Connected pair = connect(host, dpu);
    const auto content = pattern(64, 1);
    auto key = RegionTable::instance()
                   .add({.base = const_cast<std::byte*>(content.data()),
                         .length = content.size(),
                         .access = access_remote_all})
                   .value();
    key.process_id ^= 1; // another process's, as far as short cuts are concerned
    RemoteRegion region(key);
    std::array<std::array<std::byte, 64>, 2> got{};
    for (auto& to : got) {
        ASSERT_EQ(pair.initiator->get(to.data(), to.size(), region, key.base, &to),
                  Errc::in_progress);
    }
    host.seen.completion_hook = [&](Connection& connection, void*) {
        host.port->close(&connection);
    };
    ASSERT_TRUE(until([&] { return !host.seen.completions.empty(); }, host, dpu));
    ASSERT_TRUE(until([&] { return !dpu.seen.ends.empty(); }, host, dpu));
    settle(std::chrono::milliseconds(1), host, dpu); // whatever is freed is freed by then
    EXPECT_EQ(host.seen.completions.size(), 1u);
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::closed);
    RegionTable::instance().remove(key.region);
}

/// Connections whose other ends are played by hand.
class EndOfARawPeer : public ::testing::Test {
protected:
    Lab lab;
    std::shared_ptr<Domain> domain = lab.domain();
    End end{lab, Side::dpu};
    RawPeer peer{domain};
    alignas(8) std::array<std::uint64_t, 2> memory{};
    const std::uint64_t value = 4711;

    void SetUp() override { peer.join(end); }

    Errc put(RawPeer& to, std::size_t word) {
        RemoteRegion region({.process_id = to.hello.process_id,
                             .region = 77,
                             .base = reinterpret_cast<std::uint64_t>(memory.data()),
                             .length = sizeof(memory),
                             .access = access_remote_all | access_by_kernel});
        return to.connection->put(&value, sizeof(value), region,
                                  reinterpret_cast<std::uint64_t>(&memory.at(word)), nullptr);
    }
    /// Takes one record out, and is done with it if it is not a put.
    static void take_out(RawPeer& from) {
        RingReader::Record record;
        ASSERT_EQ(from.pipe.rx().peek(record), RingReader::Peek::record);
        from.pipe.pop(record);
        from.pipe.idle();
    }
    static void close(RawPeer& which) {
        which.pipe.say_goodbye();
        ::shutdown(which.socket.get(), SHUT_RDWR);
    }
    bool begin_put() {
        return PutOwner(&peer.control().direction[1].puts).begin(peer.pipe.rx().position(), [] {
            std::atomic_thread_fence(std::memory_order_seq_cst);
        });
    }
    void end_put() { PutOwner(&peer.control().direction[1].puts).end(peer.pipe.rx().position()); }
    /// Whether the end of the connection told of puts that were lost.
    bool told_of_loss() {
        bool lost = false;
        end.seen.end_hook = [&](Connection& connection) { lost = connection.lost_writes(); };
        EXPECT_TRUE(until([&] { return !end.seen.ends.empty(); }, end));
        end.seen.end_hook = nullptr;
        return lost;
    }
    /// With one put at hand at the owner's, the requester takes back what it can.
    void withdraw_puts() {
        ASSERT_TRUE(begin_put());
        const auto& withdrawn = peer.control().direction[1].puts.withdrawn;
        ASSERT_TRUE(until(
            [&] {
                EXPECT_EQ(peer.connection->flush(nullptr), Errc::in_progress);
                return withdrawn.load() != 0;
            },
            end));
    }
};

TEST_F(EndOfARawPeer, TellsOfPutsThatWereTakenBackAndThatNobodyExecuted) {
    ASSERT_EQ(put(peer, 0), Errc::ok);
    ASSERT_EQ(put(peer, 1), Errc::ok);
    withdraw_puts();
    memory[0] = value; // the owner executes the first, leaves the second alone, and leaves
    end_put();
    take_out(peer);
    EXPECT_FALSE(begin_put());
    take_out(peer);
    close(peer);
    EXPECT_TRUE(told_of_loss());
    EXPECT_EQ(end.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(memory[1], 0u);
}

TEST_F(EndOfARawPeer, TellsOfNoLossWhereAllThatWasTakenBackWasExecuted) {
    ASSERT_EQ(put(peer, 0), Errc::ok);
    withdraw_puts();
    end_put();
    take_out(peer);
    close(peer);
    EXPECT_FALSE(told_of_loss());
}

TEST_F(EndOfARawPeer, CompletesAFlushOfWhatWasExecuted) {
    RawPeer other{domain};
    other.hello.process_id = peer.hello.process_id + 1;
    other.join(end);
    ASSERT_EQ(put(peer, 0), Errc::ok);
    ASSERT_EQ(put(other, 1), Errc::ok);
    int first = 0;
    int second = 0;
    ASSERT_EQ(peer.connection->flush(&first), Errc::in_progress);
    ASSERT_EQ(other.connection->flush(&second), Errc::in_progress);
    take_out(other);
    // After the flush of `peer` has been looked at, and before its socket is.
    end.seen.completion_hook = [&](Connection&, void* token) {
        if (token == &second) {
            take_out(peer);
            close(peer);
        }
    };
    (void)end.port->arm(); // so that the next call looks at sockets
    ASSERT_TRUE(until([&] { return end.seen.completions.size() == 2; }, end));
    EXPECT_EQ(end.seen.completions[1].token, &first);
    EXPECT_EQ(end.seen.completions[1].status, Errc::ok);
}

TEST(End, InACompletionOfAPeerThatDiedLeavesNothingBehind) {
    const Lab lab;
    const auto domain = lab.domain();
    End host(lab, Side::host, 0, PortOptions{.face = "test", .one_way = true});
    RawListener listener(domain, 4242);
    Connection* const connection = host.port->connect(listener.address, {}, nullptr).value();
    ASSERT_TRUE(listener.accept());
    const wire::Answer answer = RawListener::good_answer();
    const UniqueFd process = own_process();
    const int descriptor = process.get();
    ASSERT_TRUE(listener.say(raw(answer), std::span(&descriptor, 1)));
    ASSERT_TRUE(until([&] { return !host.seen.connected.empty(); }, host));
    RemoteRegion region({.process_id = answer.process_id,
                         .region = 7,
                         .base = 0x1000,
                         .length = 4096,
                         .access = access_remote_all});
    // More answers than one look at the ring hands out; the rest is handled when the end is seen.
    std::array<std::uint64_t, tuning::poll_budget + 4> got{};
    for (std::uint64_t& word : got) {
        ASSERT_EQ(connection->get(&word, sizeof(word), region, 0x1000, &word), Errc::in_progress);
    }
    const std::uint64_t value = 1;
    ASSERT_EQ(connection->put(&value, sizeof(value), region, 0x1000, nullptr), Errc::ok);
    ASSERT_EQ(connection->flush(nullptr), Errc::in_progress);
    for (std::size_t i = 0; i < got.size(); ++i) {
        RingReader::Record record;
        ASSERT_EQ(listener.pipe.rx().peek(record), RingReader::Peek::record);
        OneSided request{};
        std::memcpy(&request, record.payload, sizeof(request));
        const Reply head{request.op, 0};
        ASSERT_EQ(listener.pipe.put_record(Kind::get_reply, 0, sizeof(head) + sizeof(value),
                                           [&](std::byte* to) {
                                               std::memcpy(to, &head, sizeof(head));
                                               std::memcpy(to + sizeof(head), &value,
                                                           sizeof(value));
                                           }),
                  Errc::ok);
        listener.pipe.pop(record);
    }
    ::shutdown(listener.peer.get(), SHUT_RDWR);
    host.seen.completion_hook = [&](Connection& c, void*) {
        if (host.seen.completions.size() == tuning::poll_budget + 1) {
            c.cancel([](void*, Errc) {});
            host.port->close(&c);
        }
    };
    (void)host.port->arm(); // so that the next call looks at sockets
    ASSERT_TRUE(until([&] { return host.seen.completions.size() > tuning::poll_budget; }, host));
    settle(std::chrono::milliseconds(1), host); // whatever is freed is freed by then
    EXPECT_EQ(host.seen.completions.size(), tuning::poll_budget + 1);
    EXPECT_TRUE(host.seen.ends.empty());
}

TEST(End, DoesNotComeOfAPutForWhoseBytesThereIsNoDescriptor) {
    const Lab lab;
    Line up;
    Line down;
    constexpr std::size_t puts = 16; // more than the ring holds without a bulk ring
    const auto data = pattern(puts * tuning::max_message, 3);
    Process owner([&] {
        End server(lab, Side::dpu);
        std::vector<std::byte> memory(data.size());
        up.put(server.port->address());
        up.put(
            RegionTable::instance()
                .add(
                    {.base = memory.data(), .length = memory.size(), .access = access_remote_write})
                .value());
        while (!down.has_something()) {
            server.progress();
        }
        up.put(memory == data);
    });
    End host(lab, Side::host, 0, PortOptions{.face = "test", .one_way = true});
    Connection* const connection = host.port->connect(up.get<PortAddress>(), {}, nullptr).value();
    const auto key = up.get<RegionKey>(); // neither to be mapped nor to be reached by the kernel
    ASSERT_TRUE(until([&] { return !host.seen.connected.empty(); }, host));
    RemoteRegion region(key);
    std::vector<std::byte> source(tuning::max_message);
    {
        const NoDescriptorLeft none;
        for (std::size_t at = 0; at < data.size(); at += source.size()) {
            std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(at), source.size(),
                        source.begin());
            Errc put = Errc::again;
            const auto is_put = [&] {
                put = put == Errc::again ? connection->put_copy(source.data(), source.size(),
                                                                region, key.base + at)
                                         : put;
                return put != Errc::again;
            };
            ASSERT_TRUE(until(is_put, host));
            ASSERT_EQ(put, Errc::ok);
            std::fill(source.begin(), source.end(), std::byte{0});
        }
    }
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, host));
    down.put(1);
    EXPECT_TRUE(up.get<bool>());
    EXPECT_TRUE(host.seen.ends.empty());
}

TEST(End, DoesNotComeOfAMappingForWhichThereIsNoDescriptor) {
    const Lab lab;
    Line up;
    Line down;
    Process owner([&] {
        End server(lab, Side::dpu);
        const SharedMemory shared = create_shared_memory("comch-test", 4096).value();
        const auto key = RegionTable::instance()
                             .add({.base = shared.mapping.data(),
                                   .length = 4096,
                                   .access = access_remote_all,
                                   .memfd = shared.fd.get()})
                             .value();
        up.put(server.port->address());
        up.put(key);
        while (!down.has_something()) {
            server.progress();
        }
        std::uint64_t word = 0;
        std::memcpy(&word, shared.mapping.data(), sizeof(word));
        up.put(word);
    });
    End host(lab, Side::host, 0, PortOptions{.face = "test", .one_way = true});
    Connection* const connection = host.port->connect(up.get<PortAddress>(), {}, nullptr).value();
    const auto key = up.get<RegionKey>();
    ASSERT_TRUE(until([&] { return !host.seen.connected.empty(); }, host));
    RemoteRegion region(key);
    const std::uint64_t value = 4711;
    int token = 0;
    {
        const NoDescriptorLeft none;
        ASSERT_EQ(connection->put(&value, sizeof(value), region, key.base, nullptr), Errc::ok);
        // (Until the refusal of the mapping is known.)
        ASSERT_TRUE(until(
            [&] {
                return !host.seen.ends.empty() || connection->put(&value, sizeof(value), region,
                                                                  key.base, nullptr) == Errc::ok;
            },
            host));
        const Errc flushed = connection->flush(&token);
        ASSERT_TRUE(flushed == Errc::ok || flushed == Errc::in_progress) << to_string(flushed);
        if (flushed == Errc::in_progress) {
            ASSERT_TRUE(until([&] { return !host.seen.completions.empty(); }, host));
            EXPECT_EQ(host.seen.completions[0].status, Errc::ok);
        }
        settle(std::chrono::milliseconds(5), host);
    }
    EXPECT_TRUE(host.seen.ends.empty()) << connection->error_text();
    down.put(true);
    EXPECT_EQ(up.get<std::uint64_t>(), value);
}

TEST(End, DoesNotComeOfAChannelForWhichThereIsNoDescriptor) {
    const Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu);
    const Connected pair = connect(host, dpu);
    Channel lost = pair.initiator->open_channel(1).value();
    {
        const NoDescriptorLeft none;
        ASSERT_TRUE(until([&] { return lost.check() != Errc::ok; }, host, dpu));
    }
    EXPECT_TRUE(dpu.seen.channels.empty());
    EXPECT_TRUE(dpu.seen.ends.empty());
    EXPECT_TRUE(host.seen.ends.empty());
    Channel later = pair.initiator->open_channel(2).value();
    ASSERT_TRUE(until([&] { return !dpu.seen.channels.empty(); }, host, dpu));
    EXPECT_EQ(later.check(), Errc::ok);
}

TEST(End, WhoCannotBeAcceptedForWantOfADescriptorIsRefused) {
    const Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu);
    std::array<Connection*, 3> callers{};
    for (Connection*& caller : callers) {
        caller = host.port->connect(dpu.port->address(), {}, nullptr).value();
    }
    {
        const NoDescriptorLeft none;
        ASSERT_TRUE(until([&] { return host.seen.ends.size() == callers.size(); }, host, dpu));
        // And nobody is kept awake by them.
        while (dpu.progress() != 0) {
        }
        EXPECT_EQ(dpu.port->arm(), Errc::ok);
    }
    for (std::size_t i = 0; i < callers.size(); ++i) {
        EXPECT_EQ(host.seen.ends[i].reason, Reason::rejected);
        EXPECT_NE(callers[i]->error_text().find("no_memory"), std::string::npos)
            << callers[i]->error_text();
    }
    const Connected later = connect(host, dpu);
    EXPECT_EQ(later.initiator->send(1, bytes_of("x")), Errc::ok);
}

TEST(End, WithoutADescriptorForABulkRingOneSidedOperationsGoByLines) {
    const Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu);
    const Connected pair = connect(host, dpu);
    std::vector<std::byte> memory(256u << 10);
    const auto source = pattern(memory.size(), 1);
    auto key = RegionTable::instance()
                   .add({.base = memory.data(),
                         .length = memory.size(),
                         .access = access_remote_read | access_remote_write})
                   .value();
    key.process_id ^= 1; // another process's, as far as the requester is concerned
    RemoteRegion region(key);
    std::vector<std::byte> back(memory.size());
    int token = 0;
    {
        const NoDescriptorLeft none;
        Errc put = Errc::again;
        ASSERT_TRUE(until(
            [&] {
                put = pair.initiator->put(source.data(), source.size(), region, key.base, &token);
                return put != Errc::again;
            },
            host, dpu));
        ASSERT_EQ(put, Errc::in_progress);
        ASSERT_TRUE(until([&] { return host.seen.completions.size() == 1; }, host, dpu));
        ASSERT_EQ(pair.initiator->get(back.data(), back.size(), region, key.base, &token),
                  Errc::in_progress);
        ASSERT_TRUE(until([&] { return host.seen.completions.size() == 2; }, host, dpu));
    }
    EXPECT_EQ(host.seen.completions[1].status, Errc::ok);
    EXPECT_EQ(back, source);
    RegionTable::instance().remove(key.region);
}

/// No more descriptors may be on their way, of all processes of this user, than this one may have.
void let_descriptors_in_flight_count(rlim_t limit) {
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct none[2]{};
    ASSERT_EQ(::syscall(SYS_capset, &head, none), 0); // they would be an exemption
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = limit;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
}

TEST(End, AnAnswerThatCannotBeSentAtOnceIsSentLater) {
    const Lab lab;
    Process alone([&] {
        End host(lab, Side::host);
        End dpu(lab, Side::dpu);
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
        UniqueFd from(ends[0]);
        UniqueFd to(ends[1]);
        // The request first: it has two of its own.
        Connection* const connection = host.port->connect(dpu.port->address(), {}, nullptr).value();
        ASSERT_EQ(connection->send(1, bytes_of("early")), Errc::ok);
        // (No socket: one that lies in its own queue goes when the kernel finds the time.)
        const UniqueFd any(::eventfd(0, EFD_CLOEXEC));
        const int descriptor = any.get();
        for (int i = 0; i < 200; ++i) {
            ASSERT_TRUE(send_raw(from.get(), raw(i), std::span(&descriptor, 1)));
        }
        let_descriptors_in_flight_count(150);
        ASSERT_TRUE(until([&] { return !dpu.seen.accepted.empty(); }, host, dpu));
        ASSERT_EQ(dpu.seen.accepted[0]->send(1, bytes_of("answer")), Errc::ok);
        settle(std::chrono::milliseconds(20), host, dpu);
        EXPECT_TRUE(host.seen.connected.empty()) << "nothing was in the way";
        EXPECT_EQ(dpu.port->arm(), Errc::again) << "no event will tell";
        from.reset();
        to.reset(); // and with it what was on its way there
        ASSERT_TRUE(until([&] { return host.seen.messages.size() == 1; }, host, dpu));
        EXPECT_EQ(host.seen.connected.size(), 1u);
        EXPECT_TRUE(until([&] { return dpu.seen.messages.size() == 1; }, host, dpu));
        EXPECT_TRUE(host.seen.ends.empty());
    });
    EXPECT_EQ(alone.wait(), 0);
}

TEST(End, WhoseServerStopsListeningIsThatNobodyListens) {
    const Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu);
    const ServiceName name{device_of(lab.domain(), Side::host).function().id, "stops"};
    ASSERT_TRUE(dpu.port->listen(name));
    ASSERT_TRUE(host.port->connect(name, {}, nullptr)); // waits in the backlog
    dpu.port->unlisten(name);
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }, host, dpu));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::not_found);
}

TEST(End, AForkedChildThatClosesEndsNothingOfItsParents) {
    const Lab lab;
    End host(lab, Side::host);
    End dpu(lab, Side::dpu);
    const Connected pair = connect(host, dpu);
    Process child([&] { host.port->close(pair.initiator); });
    ASSERT_EQ(child.wait(), 0);
    ASSERT_EQ(pair.initiator->send(1, bytes_of("still here")), Errc::ok);
    ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == 1; }, host, dpu));
    EXPECT_TRUE(host.seen.ends.empty());
    EXPECT_TRUE(dpu.seen.ends.empty());
}

TEST(End, IsFoundByAProcessWhoseFirstThreadHasEnded) {
    const Lab lab;
    End dpu(lab, Side::dpu);
    const PortAddress address = dpu.port->address();
    const pid_t child = ::fork();
    if (child == 0) {
        std::thread([&] {
            // Until /proc says that the first one is a zombie.
            std::string state;
            while (state.find("Z (zombie)") == std::string::npos) {
                std::ifstream status(fmt::format("/proc/{}/status", ::getpid()));
                std::string line;
                while (std::getline(status, line) && !line.starts_with("State:")) {
                }
                state = line;
            }
            End host(lab, Side::host);
            Connection* const connection = host.port->connect(address, {}, nullptr).value();
            const bool sent = connection->send(1, bytes_of("from another")) == Errc::ok;
            const bool done = until([&] { return connection->confirmed() == 1; }, host);
            ::_exit(sent && done ? 0 : 1);
        }).detach();
        (void)::syscall(SYS_exit, 0); // of this thread alone
    }
    int status = -1;
    pid_t ended = 0;
    EXPECT_TRUE(until([&] { return (ended = ::waitpid(child, &status, WNOHANG)) != 0; }, dpu));
    if (ended == 0) {
        (void)::kill(child, SIGKILL);
        (void)::waitpid(child, &status, 0);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(dpu.seen.messages.size(), 1u);
}

TEST(End, WhoAnswersAGetThatHasNoRoomMaySleep) {
    const Lab lab;
    End host(lab, Side::host, 0, PortOptions{.face = "test", .one_way = true});
    End dpu(lab, Side::dpu);
    const Connected pair = connect(host, dpu);
    std::vector<std::byte> memory(16u << 20);
    auto key =
        RegionTable::instance()
            .add({.base = memory.data(), .length = memory.size(), .access = access_remote_read})
            .value();
    key.process_id ^= 1; // another process's, as far as the requester is concerned
    RemoteRegion region(key);
    std::vector<std::byte> into(memory.size());
    int token = 0;
    ASSERT_EQ(pair.initiator->get(into.data(), into.size(), region, key.base, &token),
              Errc::in_progress);
    ASSERT_EQ(pair.initiator->send(1, bytes_of("behind it")), Errc::ok);
    // The host computes.
    ASSERT_TRUE(until([&] { return dpu.port->arm() == Errc::ok; }, dpu));
    EXPECT_TRUE(dpu.seen.messages.empty());
    // And when it does not any more, the sleeper is woken.
    ASSERT_TRUE(
        until([&] { return readable(dpu.port->event_fd(), std::chrono::milliseconds(0)); }, host));
    ASSERT_TRUE(
        until([&] { return dpu.seen.messages.size() == 1 && host.seen.completions.size() == 1; },
              host, dpu));
    RegionTable::instance().remove(key.region);
}

TEST_F(EndOfARawPeer, ForWantOfADescriptorIsNotThePeersFault) {
    const UniqueFd bulk = test_memfd(tuning::bulk_size);
    const int descriptor = bulk.get();
    const wire::Packet packet{static_cast<std::uint32_t>(wire::Type::bulk), 0, tuning::bulk_size,
                              0};
    ASSERT_TRUE(peer.packet(packet, std::span(&descriptor, 1)));
    {
        const NoDescriptorLeft none;
        ASSERT_TRUE(until([&] { return !end.seen.ends.empty(); }, end));
    }
    EXPECT_EQ(end.seen.ends[0].reason, Reason::device_error);
    EXPECT_NE(peer.connection->error_text().find("ulimit -n"), std::string::npos)
        << peer.connection->error_text();
}

} // namespace
} // namespace comch::link::soft::test
