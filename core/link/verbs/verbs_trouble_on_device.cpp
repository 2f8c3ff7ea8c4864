// What the device says of itself and of its objects, told to the link by hand: no emulated device says
// it, and real ones only when they break.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <poll.h>

#include "core/base/clock.hpp"
#include "core/link/verbs/two_ends_on_device.hpp"

namespace comch::link::verbs {
namespace {

using contract::bytes_of;

class Trouble : public TwoEnds {
protected:
    static bool readable(int fd) {
        pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
        return ::poll(&entry, 1, 0) == 1;
    }
    /// A connection, with a message, whose initiator's kernel has agreed; its program has yet to
    /// say who it is, and has not been here since.
    Connection* meet() {
        Connection* const made = *host.port->connect(dpu.port->address(), {}, nullptr);
        EXPECT_EQ(made->send(1, bytes_of("hello")), Errc::ok);
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (Inside::met(*dpu.port).empty()) {
            dpu.progress();
            if (std::chrono::steady_clock::now() > deadline) {
                return nullptr;
            }
        }
        return made;
    }
    static ibv_async_event about(ibv_event_type type, Connection& connection) {
        ibv_async_event event{};
        event.event_type = type;
        event.element.qp = Inside::pipe(connection).queue_pair();
        return event;
    }
    void port_event(ibv_event_type type) {
        ibv_async_event event{};
        event.event_type = type;
        event.element.port_num = Inside::device_port(*host.port);
        host.port->rdma()->take(event);
    }
};

TEST_F(Trouble, AllConnectionsHearThatTheDeviceGoes) {
    for (int i = 0; i < 3; ++i) {
        connect();
    }
    std::vector<Errc> opened;
    host.seen.on_end_hook = [&](Connection& ended) {
        // What a program may do here; on the others it may do it with the device half gone.
        for (const auto& [other, data] : host.seen.connected) {
            if (other->established()) {
                const auto channel = other->open_channel(1);
                opened.push_back(channel ? Errc::ok : channel.error().code);
            }
        }
        host.port->close(&ended);
    };
    auto rdma = host.port->rdma();
    rdma->set_gone();
    ASSERT_TRUE(until([&] { return host.seen.ends.size() == 4; }));
    for (const auto& end : host.seen.ends) {
        EXPECT_EQ(end.reason, Reason::device_error);
    }
    EXPECT_EQ(host.port->rdma(), nullptr);
    EXPECT_TRUE(host.port->lost());
    const auto refused = host.port->connect(dpu.port->address(), {}, nullptr);
    ASSERT_FALSE(refused.has_value());
    const auto too_early = Port::open(host_device, {.face = "test"});
    ASSERT_FALSE(too_early.has_value()) << "somebody still holds the device";
    EXPECT_NE(too_early.error().message.find("being removed"), std::string::npos);
    rdma.reset();
    EXPECT_TRUE(Port::open(host_device, {.face = "test"}).has_value());
}

TEST_F(Trouble, AFatalQueuePairEndsItsConnectionOnly) {
    Connection* const other = connect();
    host.port->rdma()->take(about(IBV_EVENT_QP_FATAL, *connection));
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }));
    EXPECT_EQ(host.seen.ends[0].connection, connection);
    EXPECT_EQ(host.seen.ends[0].reason, Reason::device_error);
    EXPECT_NE(connection->error_text().find("reports"), std::string::npos)
        << connection->error_text();
    ASSERT_EQ(other->send(1, bytes_of("still here")), Errc::ok);
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    EXPECT_EQ(host.seen.ends.size(), 1u);
}

TEST_F(Trouble, WhatAPeerDoesWrongIsNotADeviceThatFails) {
    for (const auto said : {IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR}) {
        Connection* const broken = connect();
        host.seen.ends.clear();
        host.port->rdma()->take(about(said, *broken));
        ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }));
        EXPECT_EQ(host.seen.ends[0].connection, broken);
        EXPECT_EQ(host.seen.ends[0].reason, Reason::protocol_error);
        EXPECT_NE(broken->error_text().find("reports"), std::string::npos) << broken->error_text();
    }
    // As real devices say of a message that its buffer does not hold; emulated ones have another
    // word.
    host.seen.ends.clear();
    Inside::pipe(*connection).on_failed_receive(IBV_WC_LOC_LEN_ERR);
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty(); }));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::protocol_error);
}

TEST_F(Trouble, OnlyThePortBehindTheAddressCounts) {
    const std::shared_ptr<RdmaDevice> rdma = host.port->rdma();
    const std::uint8_t ours = Inside::device_port(*host.port);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_PORT_ERR;
    event.element.port_num = ours + 1;
    rdma->take(event);
    EXPECT_EQ(rdma->down_since_ns(ours), 0u);
    EXPECT_NE(rdma->down_since_ns(ours + 1), 0u);
    event.event_type = IBV_EVENT_PORT_ACTIVE;
    rdma->take(event);
    EXPECT_EQ(rdma->down_since_ns(ours + 1), 0u);
}

TEST_F(Trouble, WhoComputesAfterConnectingIsWaitedFor) {
    ASSERT_NE(meet(), nullptr);
    EXPECT_GT(Inside::deadline(*Inside::met(*dpu.port)[0]),
              monotonic_ns() + 10 * tuning::hello_timeout_ns);
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
}

TEST_F(Trouble, WhatIsBehindOthersMessagesHasCome) {
    Connection* const made = meet();
    ASSERT_NE(made, nullptr);
    for (unsigned i = 0; i < tuning::poll_batch; ++i) { // more than are taken at once
        ASSERT_EQ(connection->send(1, bytes_of("others'")), Errc::ok);
    }
    // Who it is is in the acceptor's queue when its time is up and its program comes back.
    Pipe& pipe = Inside::pipe(*made);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (pipe.posted() == 0 || !pipe.done(pipe.posted())) {
        host.progress();
        (void)pipe.ask_for_completion();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    Inside::expire(*Inside::met(*dpu.port)[0]);
    const std::uint64_t seen = monotonic_ns();
    while (monotonic_ns() - seen <= 2 * tuning::look_at_all_ns) {
    }
    EXPECT_TRUE(until([&] { return dpu.seen.messages.size() == tuning::poll_batch + 1; }));
    EXPECT_TRUE(dpu.seen.ends.empty());
}

TEST_F(Trouble, WhatWasSentBeforeACloseWaitsForAnAcceptorThatComputes) {
    Connection* const made = *host.port->connect(dpu.port->address(), {}, nullptr);
    ASSERT_EQ(made->send(1, bytes_of("hello")), Errc::ok);
    host.port->close(made);
    const auto computed = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
    while (std::chrono::steady_clock::now() < computed) {
        host.progress();
    }
    EXPECT_TRUE(until([&] { return !dpu.seen.messages.empty() && !dpu.seen.ends.empty(); }));
    EXPECT_EQ(dpu.seen.ends.at(0).reason, Reason::closed);
}

TEST_F(Trouble, AQueuePairThatIsTakenForAnOldOneIsReplaced) {
    constexpr int stale = 10;
    const ServiceName name{host_device.function().id, "known from before"};
    ASSERT_TRUE(dpu.port->listen(name).has_value());
    Connection* const made = *host.port->connect(name, {}, nullptr);
    ASSERT_EQ(Inside::refuse(*host.port, *made, stale), std::nullopt);
    EXPECT_EQ(Inside::probe(*made), 0u) << "it asks the same server again";
    ASSERT_TRUE(until([&] { return made->established(); }));
    EXPECT_TRUE(host.seen.ends.empty());
    // But not for ever.
    Connection* const another = *host.port->connect(dpu.port->address(), {}, nullptr);
    unsigned attempts = 1;
    while (!Inside::refuse(*host.port, *another, stale)) {
        ASSERT_LT(++attempts, 100u);
    }
    EXPECT_EQ(attempts, tuning::stale_attempts);
    host.port->close(another);
}

TEST_F(Trouble, ACancelThatTheDeviceIsDoneWithEndsNothing) {
    std::vector<std::byte> memory(1u << 20);
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    RemoteRegion region(key);
    const auto source = contract::pattern(memory.size(), 1);
    int token = 0;
    ASSERT_EQ(connection->put(source.data(), source.size(), region, key.base, &token),
              Errc::in_progress);
    Pipe& pipe = Inside::pipe(*connection);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!pipe.done(pipe.posted())) { // and progress has not looked since
        Inside::queues(*host.port).fetch_all();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    unsigned canceled = 0;
    connection->cancel([&](void*, Errc) { ++canceled; });
    EXPECT_EQ(canceled, 1u);
    EXPECT_FALSE(pipe.failed());
    ASSERT_EQ(connection->send(1, bytes_of("still here")), Errc::ok);
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    EXPECT_EQ(memory, source);
    RegionTable::instance().remove(key.region);
}

TEST_F(Trouble, AForkIsSafeForTheDevice) {
    EXPECT_NE(::ibv_is_fork_initialized(), IBV_FORK_DISABLED);
}

TEST_F(Trouble, AnEndIsToldWhileOthersSendAllTheTime) {
    std::array<Connection*, 2> busy{connect(), connect()};
    std::size_t sent = 0;
    // There is always more here than one call hands out.
    const auto keep_busy = [&] {
        while (sent - dpu.seen.messages.size() <= tuning::poll_budget) {
            host.progress();
            for (Connection* const each : busy) {
                while (each->send(1, bytes_of("more")) == Errc::ok) {
                    ++sent;
                }
            }
        }
        for (Connection* const each : busy) {
            Pipe& pipe = Inside::pipe(*each);
            while (!pipe.ask_for_completion() || !pipe.done(pipe.posted())) {
                host.progress();
            }
        }
    };
    keep_busy();
    Connection* const theirs = dpu.seen.requests[0].connection;
    dpu.port->rdma()->take(about(IBV_EVENT_QP_FATAL, *theirs));
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (dpu.seen.ends.empty() && std::chrono::steady_clock::now() < deadline) {
        keep_busy();
        dpu.progress();
    }
    ASSERT_EQ(dpu.seen.ends.size(), 1u);
    EXPECT_EQ(dpu.seen.ends[0].connection, theirs);
    EXPECT_EQ(dpu.seen.ends[0].reason, Reason::device_error);
}

TEST_F(Trouble, AnErrorOfTheQueuesEndsAllConnectionsOfThePort) {
    connect();
    End bystander(host_device);
    Connection* const other = *bystander.port->connect(dpu.port->address(), {}, nullptr);
    ASSERT_TRUE(until([&] {
        bystander.progress();
        return !bystander.seen.connected.empty();
    }));
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = Inside::queues(*host.port).cq();
    host.port->rdma()->take(event);
    ASSERT_TRUE(until([&] { return host.seen.ends.size() == 2; }));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::device_error);
    EXPECT_NE(connection->error_text().find("reports"), std::string::npos)
        << connection->error_text();
    ASSERT_EQ(other->send(1, bytes_of("still here")), Errc::ok);
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    EXPECT_TRUE(bystander.seen.ends.empty());
}

TEST_F(Trouble, ASleeperOnAChannelSleepsOnAfterThePortWasDownForAMoment) {
    auto channel = *connection->open_channel(1);
    ASSERT_EQ(channel.send(1, bytes_of("hello")), Errc::ok);
    unsigned seen = 0;
    ASSERT_TRUE(until([&] {
        for (auto& [tag, taken] : dpu.seen.channels) {
            seen += taken.poll([](auto, auto, auto) { return true; }, 1);
        }
        return seen == 1 && channel.confirmed() == 1;
    }));
    const auto sleeps = [&] {
        (void)channel.poll([](auto, auto, auto) { return true; }, 1);
        return channel.arm() == Errc::ok && !readable(channel.event_fd());
    };
    ASSERT_TRUE(until(sleeps));
    port_event(IBV_EVENT_PORT_ERR);
    EXPECT_TRUE(readable(channel.event_fd()));
    port_event(IBV_EVENT_PORT_ACTIVE);
    EXPECT_TRUE(until(sleeps));
    EXPECT_EQ(channel.check(), Errc::ok);
}

TEST_F(Trouble, ASleeperOnAChannelHearsOfARefusalThatAnotherThreadTook) {
    // Which the host's port does not hear of meanwhile.
    dpu.port->close(dpu.seen.requests.back().connection);
    auto opened = *connection->open_channel(1);
    ASSERT_EQ(opened.arm(), Errc::ok);
    // A port of this process moves the channel on: the sleeper has no part in it.
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!opened.peer_gone() && std::chrono::steady_clock::now() < deadline) {
        dpu.progress();
    }
    EXPECT_TRUE(readable(opened.event_fd()));
    EXPECT_EQ(opened.arm(), Errc::again);
    EXPECT_NE(opened.check(), Errc::ok);
}

TEST_F(Trouble, NobodySleepsOnAChannelAfterItsOrderlyEnd) {
    auto opened = *connection->open_channel(1);
    ASSERT_EQ(opened.send(1, bytes_of("hello")), Errc::ok);
    const auto ignore = [](auto, auto, auto) { return true; };
    ASSERT_TRUE(until([&] {
        (void)opened.poll(ignore, 1);
        return dpu.seen.channels.size() == 1 && dpu.seen.channels[0].second.poll(ignore, 1) == 1;
    }));
    // Its last word, which is taken out like a message, before what rdma_cm says of the end.
    Inside::pipe(dpu.seen.channels[0].second).say_goodbye();
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!opened.peer_gone() && std::chrono::steady_clock::now() < deadline) {
        (void)opened.poll(ignore, 1);
    }
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(opened.arm(), Errc::again) << "nothing more will come";
    }
    EXPECT_EQ(opened.check(), Errc::not_connected);
}

TEST_F(Trouble, AChannelThatEndsAfterTheLastPortHoldsNothingAfterwards) {
    auto opened = *connection->open_channel(1);
    ASSERT_EQ(opened.send(1, bytes_of("hello")), Errc::ok);
    ASSERT_TRUE(until([&] { return !dpu.seen.channels.empty(); }));
    const std::weak_ptr<RdmaDevice> device = host.port->rdma();
    host.port.reset();
    dpu.port.reset();
    EXPECT_FALSE(device.expired()) << "the channel is there";
    opened = Channel();
    EXPECT_TRUE(device.expired());
}

TEST_F(Trouble, AChannelThatNobodyAcceptedEndsWithTheLastPort) {
    auto opened = *connection->open_channel(1);
    ASSERT_EQ(opened.send(1, bytes_of("hello")), Errc::ok); // to a peer that computes
    const std::weak_ptr<RdmaDevice> device = host.port->rdma();
    opened = Channel();
    host.port.reset();
    dpu.port.reset();
    EXPECT_TRUE(device.expired());
}

TEST_F(Trouble, AFlushThatACancelsCompletionAsksForIsToldOnce) {
    std::uint64_t cell = 0;
    auto key = *RegionTable::instance().add({.base = reinterpret_cast<std::byte*>(&cell),
                                             .length = sizeof(cell),
                                             .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    RemoteRegion region(key);
    std::uint64_t old = 0;
    int given_up[2] = {};
    int flush = 0;
    ASSERT_EQ(connection->atomic({.op = AtomicOp::add, .size = 8, .operand = 1, .result = &old},
                                 region, key.base, &given_up[0]),
              Errc::in_progress);
    ASSERT_EQ(connection->flush(&given_up[1]), Errc::in_progress);
    unsigned canceled = 0;
    connection->cancel([&](void* which, Errc) {
        ++canceled;
        EXPECT_NE(which, &flush);
        if (which == &given_up[0]) {
            EXPECT_EQ(connection->flush(&flush), Errc::in_progress);
        }
    });
    EXPECT_EQ(canceled, 2u);
    ASSERT_TRUE(until([&] { return !host.seen.completions.empty(); }));
    ASSERT_EQ(connection->send(1, bytes_of("and nothing more")), Errc::ok);
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    ASSERT_EQ(host.seen.completions.size(), 1u);
    EXPECT_EQ(host.seen.completions[0].token, &flush);
    RegionTable::instance().remove(key.region);
}

TEST_F(Trouble, ACanceledTransferIsOverAtOnceAndEndsItsConnection) {
    std::vector<std::byte> memory(4u << 20);
    auto key = *RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    RemoteRegion region(key);
    std::vector<std::byte> target(memory.size());
    int token = 0;
    ASSERT_EQ(connection->get(target.data(), target.size(), region, key.base, &token),
              Errc::in_progress);
    unsigned canceled = 0;
    connection->cancel([&](void* which, Errc status) {
        EXPECT_EQ(which, &token);
        EXPECT_EQ(status, Errc::canceled);
        ++canceled;
    });
    EXPECT_EQ(canceled, 1u);
    target.clear();
    target.shrink_to_fit(); // nobody writes to it any more
    ASSERT_TRUE(until([&] { return !host.seen.ends.empty() && !dpu.seen.ends.empty(); }));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::device_error);
    EXPECT_NE(connection->error_text().find("canceled"), std::string::npos);
    EXPECT_TRUE(host.seen.completions.empty());
    EXPECT_EQ(connect()->check(), Errc::ok);
    RegionTable::instance().remove(key.region);
}

TEST_F(Trouble, ANameThatIsTakenWhileItsLastOwnerStillClosesIsKept) {
    const ServiceName name{host_device.function().id, "handed over"};
    End owner(dpu_device);
    ASSERT_TRUE(owner.port->listen(name).has_value());
    // One that nobody accepts, with something to deliver: closing waits for it.
    End silent(host_device);
    Connection* const unmade = *owner.port->connect(silent.port->address(), {}, nullptr);
    ASSERT_EQ(unmade->send(1, bytes_of("hello")), Errc::ok);
    End heir(dpu_device);
    bool taken = false;
    std::atomic<bool> closed{false};
    std::thread closing([&] {
        owner.port.reset();
        closed = true;
    });
    while (!taken && !closed) {
        taken = heir.port->listen(name).has_value();
    }
    closing.join();
    ASSERT_TRUE(taken) << "nothing has been tried";
    const auto again = dpu.port->listen(name);
    ASSERT_FALSE(again.has_value()) << "two have the name";
    EXPECT_EQ(again.error().code, Errc::in_use);
}

TEST_F(Trouble, BuffersThatAnEndedConnectionHeldAreThereForOthers) {
    // A queue pair that is destroyed with buffers in its hands takes them along. Each of these has as
    // many under way as it may; so does each that follows, and none may be missing then.
    const auto message = contract::pattern(100, 1);
    for (int round = 0; round < 6; ++round) {
        Connection* const each = connect();
        while (each->send(1, message) == Errc::ok) {
        }
        const std::size_t before = dpu.seen.ends.size();
        dpu.port->close(dpu.seen.requests.back().connection);
        ASSERT_TRUE(until([&] { return host.seen.ends.size() == std::size_t(round) + 1; }));
        host.port->close(each);
        EXPECT_EQ(dpu.seen.ends.size(), before);
    }
    ASSERT_EQ(connection->send(1, message), Errc::ok);
    dpu.seen.messages.clear();
    for (unsigned sent = 0; sent < 500;) {
        if (connection->send(1, message) == Errc::ok) {
            ++sent;
        } else {
            host.progress();
            dpu.progress();
        }
    }
    ASSERT_TRUE(until([&] { return dpu.seen.messages.size() >= 500; }));
}

} // namespace
} // namespace comch::link::verbs
