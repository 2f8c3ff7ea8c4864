// Two processes, one on each side: traffic in all forms, sleeping, and sudden death.
#include <thread>
#include <utility>

#include <poll.h>

#include "core/base/test_process.hpp"
#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::Line;
using comch::test::Process;

/// Tells each other who they are.
fi_addr_t meet(Node& node, Line& line) {
    line.put_bytes(node.name());
    return node.add(line.get_bytes());
}

void on_side(const char* side) {
    ::setenv("COMCH_SIDE", side, 1);
}

NodeOptions sleeping() {
    NodeOptions options;
    options.wait_object = FI_WAIT_FD;
    options.counters = true;
    return options;
}

/// One completion, asleep until it comes.
Event sleep_for(fid_cq* cq) {
    Event event;
    const ssize_t result = fi_cq_sread(cq, &event.entry, 1, nullptr, 60'000);
    if (result == -FI_EAVAIL) {
        (void)fi_cq_readerr(cq, &event.failure, 0);
        event.error = event.failure.err;
    } else if (result != 1) {
        throw std::runtime_error(std::string("fi_cq_sread: ") +
                                 fi_strerror(static_cast<int>(-result)));
    }
    return event;
}

TEST(TwoSides, EveryLengthThereAndBackWhileBothSleep) {
    (void)environment();
    constexpr std::size_t lengths[] = {1, 64, 4000, 40000, 1000000};
    const auto echo = [&](Line& line) {
        on_side("dpu");
        Node node(sleeping());
        const fi_addr_t peer = meet(node, line);
        std::vector<char> buffer(1000000);
        for (int i = 0; i < 3; ++i) {
            for (std::size_t n = 0; n < std::size(lengths); ++n) {
                COMCH_FI(
                    fi_trecv(node.ep, buffer.data(), buffer.size(), nullptr, peer, 1, 0, nullptr));
                const Event event = sleep_for(node.rx);
                post(
                    [&] {
                        return fi_tsend(node.ep, buffer.data(), event.entry.len, nullptr, peer, 2,
                                        nullptr);
                    },
                    {node.rx, node.tx});
                EXPECT_EQ(sleep_for(node.tx).error, 0);
            }
        }
        (void)line.get<int>();
    };
    Process other(echo);
    on_side("host");
    Node node(sleeping());
    const fi_addr_t peer = meet(node, other.line());
    for (unsigned i = 0; i < 3; ++i) {
        for (const std::size_t length : lengths) {
            const auto data = pattern(length, i);
            std::vector<char> buffer(length);
            COMCH_FI(fi_trecv(node.ep, buffer.data(), length, nullptr, peer, 2, 0, nullptr));
            post([&] { return fi_tsend(node.ep, data.data(), length, nullptr, peer, 1, nullptr); },
                 {node.rx, node.tx});
            EXPECT_EQ(sleep_for(node.tx).error, 0);
            EXPECT_EQ(sleep_for(node.rx).entry.len, length);
            EXPECT_EQ(buffer, data);
        }
    }
    other.line().put(1);
    EXPECT_EQ(other.wait(), 0);
}

TEST(TwoSides, AFileDescriptorTellsOfAMessage) {
    (void)environment();
    Process other([](Line& line) {
        on_side("dpu");
        Node node;
        const fi_addr_t peer = meet(node, line);
        for (int i = 0; i < 50; ++i) {
            (void)line.get<int>();
            post([&] { return fi_inject(node.ep, &i, sizeof(i), peer); }, {node.rx, node.tx});
        }
        (void)line.get<int>();
    });
    on_side("host");
    Node node(sleeping());
    (void)meet(node, other.line());
    int fd = -1;
    COMCH_FI(fi_control(&node.rx->fid, FI_GETWAIT, &fd));
    for (int i = 0; i < 50; ++i) {
        int got = -1;
        COMCH_FI(fi_recv(node.ep, &got, sizeof(got), nullptr, FI_ADDR_UNSPEC, nullptr));
        other.line().put(i);
        fi_cq_tagged_entry entry{};
        while (fi_cq_read(node.rx, &entry, 1) == -FI_EAGAIN) {
            fid* fids[] = {&node.rx->fid};
            if (fi_trywait(node.fabric, fids, 1) == 0) {
                pollfd waiting{fd, POLLIN, 0};
                ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
            }
        }
        EXPECT_EQ(got, i);
    }
    other.line().put(1);
    EXPECT_EQ(other.wait(), 0);
}

TEST(TwoSides, ASleepEndsByTimeOrSignal) {
    NodeOptions options = sleeping();
    Node node(options);
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(node.rx, &entry, 1, nullptr, 10), -FI_EAGAIN);
    // Without a limit, as the end of one would look like a signal.
    COMCH_FI(fi_cq_signal(node.rx));
    EXPECT_EQ(fi_cq_sread(node.rx, &entry, 1, nullptr, -1), -FI_EAGAIN);
    std::thread signaller([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        (void)fi_cq_signal(node.rx);
    });
    EXPECT_EQ(fi_cq_sread(node.rx, &entry, 1, nullptr, -1), -FI_EAGAIN);
    signaller.join();
    EXPECT_EQ(fi_cntr_wait(node.counters[0], 1, 10), -FI_ETIMEDOUT);
}

TEST(TwoSides, AThreadSleepsWhileAnotherPolls) {
    Pair pair(sleeping());
    constexpr int count = 200;
    std::thread sleeper([&] {
        for (int i = 0; i < count; ++i) {
            EXPECT_EQ(sleep_for(pair.b.rx).error, 0);
        }
    });
    std::vector<char> buffer(100000);
    for (int i = 0; i < count; ++i) {
        COMCH_FI(
            fi_recv(pair.b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    }
    const auto data = pattern(100000, 1);
    for (int i = 0; i < count; ++i) {
        const std::size_t length = i % 3 == 0 ? 100000 : 10;
        post([&] { return fi_send(pair.a.ep, data.data(), length, nullptr, pair.to_b, nullptr); },
             {pair.a.tx, pair.b.tx});
        EXPECT_EQ(await(pair.a.tx, {pair.b.tx}).error, 0);
    }
    sleeper.join();
}

TEST(TwoSides, TwoThreadsSleepOnOneQueue) {
    Pair pair(sleeping());
    constexpr int count = 300;
    std::vector<char> buffers(2 * count);
    for (int i = 0; i < 2 * count; ++i) {
        COMCH_FI(fi_recv(pair.b.ep, &buffers[static_cast<std::size_t>(i)], 1, nullptr,
                         FI_ADDR_UNSPEC, nullptr));
    }
    const auto take = [&] {
        for (int i = 0; i < count; ++i) {
            EXPECT_EQ(sleep_for(pair.b.rx).error, 0);
        }
    };
    std::thread first(take);
    std::thread second(take);
    for (int i = 0; i < 2 * count; ++i) {
        post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, {pair.a.tx});
        if (i % 10 == 0) {
            std::this_thread::yield();
        }
    }
    first.join();
    second.join();
}

/// A service is under one host function: processes on that function can reach it, others cannot.
TEST(Representor, HoldsForNames) {
    (void)environment();
    constexpr const char* function = "host_pf0vf0";
    Process server([&](Line& line) {
        on_side("dpu");
        NodeOptions options;
        options.node = function;
        options.service = "vault";
        Node node(options);
        char buffer[8] = {};
        COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
        line.put(1);
        EXPECT_EQ(await(node.rx, {node.tx}).error, 0);
        EXPECT_STREQ(buffer, "mine");
    });
    (void)server.line().get<int>();
    const auto send_to_vault = [&](const char* text) {
        Node node;
        fi_addr_t to = FI_ADDR_NOTAVAIL;
        EXPECT_EQ(fi_av_insertsvc(node.av, function, "vault", &to, 0, nullptr), 1);
        post([&] { return fi_send(node.ep, text, 5, nullptr, to, nullptr); }, {node.rx, node.tx});
        return await(node.tx, {node.rx}).error;
    };
    Process stranger([&](Line&) {
        on_side("host"); // the first function
        EXPECT_NE(send_to_vault("evil"), 0);
    });
    EXPECT_EQ(stranger.wait(), 0);
    Process owner([&](Line&) {
        on_side("host");
        ::setenv("COMCH_DEVICE", function, 1);
        EXPECT_EQ(send_to_vault("mine"), 0);
    });
    EXPECT_EQ(owner.wait(), 0);
    EXPECT_EQ(server.wait(), 0);
}

/// Who is on the host or on the DPU finds a service on either.
TEST(Representor, IsOpenToTheDpu) {
    (void)environment();
    for (const char* const there : {"host", "dpu"}) {
        for (const char* const here : {"host", "dpu"}) {
            Process server([&](Line& line) {
                on_side(there);
                NodeOptions options;
                options.node = "host_pf0";
                options.service = "mill";
                Node node(options);
                char buffer[8] = {};
                COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
                line.put(1);
                EXPECT_EQ(await(node.rx, {node.tx}).error, 0);
                EXPECT_STREQ(buffer, "corn");
            });
            (void)server.line().get<int>();
            Process client([&](Line&) {
                on_side(here);
                Node node;
                fi_addr_t to = FI_ADDR_NOTAVAIL;
                EXPECT_EQ(fi_av_insertsvc(node.av, "host_pf0", "mill", &to, 0, nullptr), 1);
                post([&] { return fi_send(node.ep, "corn", 5, nullptr, to, nullptr); },
                     {node.rx, node.tx});
                EXPECT_EQ(await(node.tx, {node.rx}).error, 0) << here << " to " << there;
            });
            EXPECT_EQ(client.wait(), 0);
            EXPECT_EQ(server.wait(), 0);
        }
    }
}

/// A peer that is killed: whatever was outstanding towards it fails, and nothing else.
TEST(Death, EverythingOutstandingFails) {
    (void)environment();
    Process victim([](Line& line) {
        on_side("dpu");
        Node node;
        const fi_addr_t peer = meet(node, line);
        post([&] { return fi_inject(node.ep, "alive", 6, peer); }, {node.rx, node.tx});
        (void)line.get<int>(); // never progresses again
    });
    Process bystander([](Line& line) {
        on_side("dpu");
        Node node;
        const fi_addr_t peer = meet(node, line);
        char buffer[8] = {};
        COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
        EXPECT_EQ(await(node.rx).entry.len, 6u);
        post([&] { return fi_inject(node.ep, buffer, 6, peer); }, {node.rx, node.tx});
        (void)line.get<int>();
    });
    on_side("host");
    NodeOptions options;
    Node node(options);
    const fi_addr_t to_victim = meet(node, victim.line());
    const fi_addr_t to_other = meet(node, bystander.line());
    char buffer[8] = {};
    COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, to_victim, nullptr));
    EXPECT_EQ(await(node.rx).entry.len, 6u);

    std::vector<char> large(1000000);
    char read[8] = {};
    std::uint64_t value = 1;
    int send = 0;
    int rma = 0;
    int atomic = 0;
    int directed = 0;
    int anybody = 0;
    const std::vector<fid_cq*> cqs = {node.rx};
    post(
        [&] { return fi_tsend(node.ep, large.data(), large.size(), nullptr, to_victim, 1, &send); },
        cqs);
    post([&] { return fi_read(node.ep, read, 8, nullptr, to_victim, 0, 1, &rma); }, cqs);
    post(
        [&] {
            return fi_fetch_atomic(node.ep, &value, 1, nullptr, read, nullptr, to_victim, 0, 1,
                                   FI_UINT64, FI_SUM, &atomic);
        },
        cqs);
    COMCH_FI(fi_trecv(node.ep, read, 8, nullptr, to_victim, 5, 0, &directed));
    COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, &anybody));
    victim.kill();
    std::vector<void*> failed;
    for (int i = 0; i < 3; ++i) {
        const Event event = await(node.tx, cqs);
        EXPECT_EQ(event.error, FI_ECONNRESET);
        char text[256];
        EXPECT_NE(std::string(fi_cq_strerror(node.tx, event.failure.prov_errno, nullptr, text,
                                             sizeof(text)))
                      .find("peer"),
                  std::string::npos);
        failed.push_back(event.failure.op_context);
    }
    for (void* const context : std::initializer_list<void*>{&send, &rma, &atomic}) {
        EXPECT_NE(std::find(failed.begin(), failed.end(), context), failed.end());
    }
    const Event lost = await(node.rx, {node.tx});
    EXPECT_EQ(lost.error, FI_ECONNRESET);
    EXPECT_EQ(lost.failure.op_context, &directed);
    post([&] { return fi_send(node.ep, "x", 1, nullptr, to_victim, &send); }, cqs);
    EXPECT_EQ(await(node.tx, cqs).error, FI_ECONNRESET);

    post([&] { return fi_inject(node.ep, "still", 6, to_other); }, cqs);
    const Event event = await(node.rx, {node.tx});
    EXPECT_EQ(event.error, 0);
    EXPECT_EQ(event.entry.op_context, &anybody);
    EXPECT_STREQ(buffer, "still");
    bystander.line().put(1);
    EXPECT_EQ(bystander.wait(), 0);
}

// Not over RDMA, where the device reads to the end without the requester.
enum class Known : std::uint8_t { by_port, by_name, by_name_before_it_was_there };

/// What a dead peer has left is still received; a receive for more fails, whenever it is posted.
void receive_from_the_dead(Known known) {
    (void)environment();
    Process victim([&](Line& line) {
        (void)line.get<int>();
        on_side("dpu");
        NodeOptions options;
        options.service = known != Known::by_port ? "oracle" : nullptr;
        Node node(options);
        const fi_addr_t peer = meet(node, line);
        post([&] { return fi_tinject(node.ep, "last", 5, peer, 9); }, {node.rx, node.tx});
        (void)line.get<int>(); // never progresses again
    });
    on_side("host");
    Node node;
    fi_addr_t there = FI_ADDR_NOTAVAIL;
    const auto look_up = [&] {
        EXPECT_EQ(fi_av_insertsvc(node.av, nullptr, "oracle", &there, 0, nullptr), 1);
    };
    if (known == Known::by_name_before_it_was_there) {
        look_up();
        post([&] { return fi_tsend(node.ep, "x", 1, nullptr, there, 1, nullptr); }, {node.tx});
        EXPECT_NE(await(node.tx).error, 0);
    }
    victim.line().put(1);
    fi_addr_t by_port = meet(node, victim.line());
    if (known == Known::by_port) {
        there = by_port;
    } else {
        COMCH_FI(fi_av_remove(node.av, &by_port, 1, 0));
    }
    if (known == Known::by_name) {
        look_up();
    }
    char buffer[8] = {};
    const auto receive = [&](std::uint64_t tag, fi_addr_t from) {
        COMCH_FI(fi_trecv(node.ep, buffer, 8, nullptr, from, tag, 0, nullptr));
    };
    receive(7, FI_ADDR_UNSPEC);
    receive(8, there);
    fi_msg_tagged peek{};
    peek.tag = 9;
    peek.addr = there;
    const auto end = Clock::now() + std::chrono::seconds(60);
    do {
        ASSERT_LT(Clock::now(), end);
        COMCH_FI(fi_trecvmsg(node.ep, &peek, FI_PEEK));
    } while (await(node.rx).error == FI_ENOMSG);
    victim.kill();
    EXPECT_EQ(await(node.rx).error, FI_ECONNRESET);
    receive(8, there);
    EXPECT_EQ(await(node.rx).error, FI_ECONNRESET);
    receive(9, there);
    EXPECT_EQ(await(node.rx).error, 0);
    EXPECT_STREQ(buffer, "last");
    receive(9, there);
    EXPECT_EQ(await(node.rx).error, FI_ECONNRESET);
    // Anybody may still serve the one that is for anybody.
    const fi_addr_t self = node.add(node.name());
    post([&] { return fi_tinject(node.ep, "self", 5, self, 7); }, {node.rx, node.tx});
    EXPECT_EQ(await(node.rx, {node.tx}).error, 0);
    EXPECT_STREQ(buffer, "self");
}

TEST(Death, AReceiveThatIsPostedLaterFails) {
    receive_from_the_dead(Known::by_port);
}

TEST(Death, AReceiveForANameThatIsPostedLaterFails) {
    receive_from_the_dead(Known::by_name);
}

TEST(Death, AReceiveForANameThatWasCalledTooEarlyFails) {
    receive_from_the_dead(Known::by_name_before_it_was_there);
}

TEST(SoftLink, AReadThatWasGivenUpIsNotCountedByTheOwner) {
    (void)environment();
    constexpr std::size_t length = 8'000'000;
    Process requester([&](Line& line) {
        on_side("dpu");
        std::vector<char> back(length);
        {
            Node node;
            const fi_addr_t owner = meet(node, line);
            post([&] { return fi_inject(node.ep, "x", 1, owner); }, {node.tx});
            (void)line.get<int>();
            COMCH_FI(fi_read(node.ep, back.data(), length, nullptr, owner, 0, 1, nullptr));
            line.put(1);
            (void)line.get<int>();
        }
        line.put(1);
    });
    on_side("host");
    NodeOptions options;
    options.counters = true;
    Node owner(options);
    fid_cntr* const reads = owner.counters[4];
    std::vector<char> memory(length);
    owner.expose(memory.data(), length, 1);
    (void)meet(owner, requester.line());
    char byte = 0;
    COMCH_FI(fi_recv(owner.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(owner.rx).error, 0);
    requester.line().put(1);
    (void)requester.line().get<int>();
    for (int i = 0; i < 100; ++i) { // it begins, and waits for the requester
        ASSERT_EQ(fi_cntr_read(reads), 0u);
    }
    requester.line().put(1);
    (void)requester.line().get<int>();
    for (int i = 0; i < 10'000; ++i) {
        ASSERT_EQ(fi_cntr_read(reads), 0u);
    }
    EXPECT_EQ(requester.wait(), 0);
}

TEST(TwoSides, SharedReceivesComeBackWhenTheEndpointThatTheyServeIsClosed) {
    (void)environment();
    constexpr std::size_t length = 4 << 20;
    constexpr int rounds = 8;
    Process sender([&](Line& line) {
        on_side("dpu");
        const auto data = pattern(length, 8);
        for (int i = 0; i < rounds; ++i) {
            Node node;
            const fi_addr_t to = meet(node, line);
            char byte = 0;
            COMCH_FI(fi_recv(node.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
            EXPECT_EQ(await(node.rx).error, 0);
            COMCH_FI(fi_send(node.ep, data.data(), length, nullptr, to, nullptr));
            line.put(1);
            (void)line.get<int>();
        }
    });
    on_side("host");
    NodeOptions options;
    options.shared_receives = true;
    std::vector<char> buffer(length);
    for (int i = 0; i < rounds; ++i) {
        Node node(options);
        const fi_addr_t from = meet(node, sender.line());
        // They are connected before the message comes.
        post([&] { return fi_inject(node.ep, "x", 1, from); }, {node.rx});
        (void)sender.line().get<int>();
        COMCH_FI(fi_recv(node.srx, buffer.data(), length, nullptr, FI_ADDR_UNSPEC, &buffer));
        (void)fi_cq_read(node.rx, nullptr, 0); // the message is there, its data may not be
        EXPECT_EQ(fi_close(&std::exchange(node.ep, nullptr)->fid), 0);
        fi_cq_tagged_entry entry{};
        const ssize_t result = fi_cq_read(node.rx, &entry, 1);
        if (result == -FI_EAVAIL) {
            fi_cq_err_entry failure{};
            ASSERT_EQ(fi_cq_readerr(node.rx, &failure, 0), 1);
            EXPECT_EQ(failure.err, FI_ECANCELED);
            entry.op_context = failure.op_context;
        } else {
            EXPECT_EQ(result, 1);
        }
        EXPECT_EQ(entry.op_context, &buffer);
        sender.line().put(1);
    }
    EXPECT_EQ(sender.wait(), 0);
}

} // namespace
} // namespace comch::ofi::test
