// Sleeping on the interface's descriptor: whatever there is to do ends the sleep, and nothing is
// missed between the last look and the sleep.
#include <functional>
#include <random>

#include <poll.h>

#include "core/base/test_yields.hpp"
#include "test_target.hpp"

namespace comch::uct::test {
namespace {

constexpr unsigned all_events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;

int event_fd(const Interface& interface) {
    int fd = -1;
    check_ok(uct_iface_event_fd_get(interface.iface, &fd), "event fd");
    return fd;
}

bool readable(const Interface& interface, int wait_ms) {
    pollfd entry{event_fd(interface), POLLIN, 0};
    return ::poll(&entry, 1, wait_ms) == 1;
}

/// Sleeps, rather than polls, until `done`; false if a sleep was not ended in time.
template <class Done> bool sleep_until(Interface& interface, Done done) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        if (interface.progress() != 0 || done()) {
            continue;
        }
        const ucs_status_t status = uct_iface_event_arm(interface.iface, all_events);
        if (status == UCS_ERR_BUSY) {
            continue;
        }
        check_ok(status, "arm");
        if (!readable(interface, 10'000)) {
            return false;
        }
    }
    return true;
}

/// Progresses until the interface may sleep.
void arm(Interface& interface) {
    ASSERT_TRUE(until([&] { return uct_iface_event_arm(interface.iface, all_events) == UCS_OK; },
                      interface));
}

struct Wakeup : testing::Test {
    Lab lab;
    Interface host{"host"};
    Interface dpu{"dpu"};
    Endpoint ep{host, dpu};

    void establish() {
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_TRUE(until([&] { return dpu.messages.size() == 1; }, host, dpu));
        dpu.messages.clear();
        ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    }
};

TEST_F(Wakeup, WhoPollsInVainForLongYields) {
    establish();
    ASSERT_TRUE(until([&] { return host.progress() == 0 && dpu.progress() == 0; }));
    EXPECT_EQ(comch::test::yields_in_vain([&] { EXPECT_EQ(host.progress(), 0u); }), 2u);
    EXPECT_EQ(comch::test::yields_in_vain([&] {
                  EXPECT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
                  EXPECT_EQ(dpu.progress(), 1u);
                  host.progress();
              }),
              2u)
        << "the host's, and not of whom something came for";
    // UCP progresses with a lock held that its other threads may spin for.
    Interface shared("host", {}, true, {.thread_mode = UCS_THREAD_MODE_SERIALIZED});
    EXPECT_EQ(comch::test::yields_in_vain([&] { EXPECT_EQ(shared.progress(), 0u); }), 0u);
}

TEST_F(Wakeup, IsDeclared) {
    constexpr unsigned flags =
        UCT_IFACE_FLAG_EVENT_FD | UCT_IFACE_FLAG_EVENT_RECV | UCT_IFACE_FLAG_EVENT_SEND_COMP;
    EXPECT_EQ(host.attr.cap.event_flags & flags, flags);
}

TEST_F(Wakeup, NothingToDoMeansASleep) {
    establish();
    arm(dpu);
    EXPECT_FALSE(readable(dpu, 50));
    arm(host);
    EXPECT_FALSE(readable(host, 50));
}

TEST_F(Wakeup, AMessageBeforeTheSleepKeepsAwake) {
    establish();
    ASSERT_EQ(uct_ep_am_short(ep, 0, 1, nullptr, 0), UCS_OK);
    EXPECT_EQ(uct_iface_event_arm(dpu.iface, all_events), UCS_ERR_BUSY);
    ASSERT_TRUE(until([&] { return dpu.messages.size() == 1; }, dpu));
    arm(dpu);
}

TEST_F(Wakeup, AMessageEndsTheSleepAndTheDescriptorStaysReadable) {
    establish();
    arm(dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 1, nullptr, 0), UCS_OK);
    EXPECT_TRUE(readable(dpu, 1000));
    EXPECT_TRUE(readable(dpu, 0));
    EXPECT_EQ(uct_iface_event_arm(dpu.iface, all_events), UCS_ERR_BUSY);
    ASSERT_TRUE(until([&] { return dpu.messages.size() == 1; }, dpu));
    arm(dpu);
    EXPECT_FALSE(readable(dpu, 20));
}

TEST_F(Wakeup, TheFirstMessageOfANewEndpointEndsTheSleep) {
    arm(dpu);
    Endpoint fresh(host, dpu);
    ASSERT_EQ(uct_ep_am_short(fresh, 0, 1, nullptr, 0), UCS_OK);
    ASSERT_TRUE(sleep_until(dpu, [&] { return dpu.messages.size() == 1; }));
}

TEST_F(Wakeup, RoomEndsTheSleepOfASenderWithAQueue) {
    establish();
    std::uint64_t sent = 0;
    while (uct_ep_am_short(ep, 0, sent, nullptr, 0) == UCS_OK) {
        ++sent;
    }
    struct Request {
        uct_pending_req_t super;
        uct_ep_h ep;
        bool done;
    } request{};
    request.ep = ep;
    request.super.func = [](uct_pending_req_t* self) {
        auto* r = reinterpret_cast<Request*>(self);
        const ucs_status_t status = uct_ep_am_short(r->ep, 0, 0, nullptr, 0);
        r->done = status == UCS_OK;
        return status;
    };
    ASSERT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_OK);
    arm(host);
    EXPECT_FALSE(readable(host, 20));
    while (dpu.progress() != 0) {
    }
    EXPECT_TRUE(readable(host, 1000));
    EXPECT_EQ(uct_iface_event_arm(host.iface, all_events), UCS_ERR_BUSY);
    EXPECT_TRUE(sleep_until(host, [&] { return request.done; }));
}

TEST_F(Wakeup, ACompletedFlushEndsTheSleep) {
    establish();
    ASSERT_EQ(uct_ep_am_short(ep, 0, 1, nullptr, 0), UCS_OK);
    Completion completion;
    ASSERT_EQ(uct_ep_flush(ep, 0, &completion.super), UCS_INPROGRESS);
    arm(host);
    EXPECT_FALSE(readable(host, 20));
    ASSERT_TRUE(until([&] { return dpu.messages.size() == 1; }, dpu));
    settle(std::chrono::milliseconds(1), dpu);
    EXPECT_TRUE(readable(host, 1000));
    EXPECT_TRUE(sleep_until(host, [&] { return completion.done(); }));
}

TEST(WakeupOfTwo, OneSidedCompletionsEndTheSleep) {
    for (const Kind kind : kinds) {
        const Lab lab;
        Target target(kind, 1 << 20);
        Interface host("host");
        Endpoint ep(host, target.address());
        const RemoteKey key(target.key());
        target.fill(0, 1 << 20, 5);
        const auto expected = pattern(1 << 20, 5);
        std::vector<std::byte> bytes(1 << 20);
        for (int round = 0; round < 30; ++round) {
            std::fill(bytes.begin(), bytes.end(), std::byte{0});
            const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
            Completion completion;
            ucs_status_t status = UCS_ERR_NO_RESOURCE;
            while (status == UCS_ERR_NO_RESOURCE) {
                host.progress();
                status = uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &completion.super);
            }
            if (status == UCS_INPROGRESS) {
                ASSERT_TRUE(sleep_until(host, [&] { return completion.done(); })) << round;
            }
            ASSERT_TRUE(bytes == expected);
        }
    }
}

TEST(WakeupOfTwo, AGetShortInTheQueueLetsSleepUntilItIsAnswered) {
    const Lab lab;
    Target target(Kind::registered, 4096);
    struct Request {
        uct_pending_req_t super{};
        std::function<ucs_status_t()> run;
        bool done = false;
    } request;
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.revocable_key()); // goes by the target's CPU
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    target.set_word(0, 42);
    target.pause();
    std::uint64_t word = 0;
    request.run = [&] { return uct_ep_get_short(ep, &word, 8, target.memory(), key); };
    request.super.func = [](uct_pending_req_t* self) {
        auto* r = reinterpret_cast<Request*>(self);
        const ucs_status_t status = r->run();
        r->done = status == UCS_OK;
        return status;
    };
    ASSERT_EQ(request.run(), UCS_ERR_NO_RESOURCE);
    ASSERT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_OK);
    arm(host);
    EXPECT_FALSE(request.done);
    target.resume();
    EXPECT_TRUE(readable(host, 10'000));
    EXPECT_TRUE(sleep_until(host, [&] { return request.done; }));
    EXPECT_EQ(word, 42u);
}

TEST(WakeupOfTwo, TwoThatSleepNeverMissEachOther) {
    const Lab lab;
    constexpr std::uint64_t rounds = 3000;
    const auto play = [](Line& line, const char* side, bool first) {
        Interface interface(side);
        line.put(address_of(interface));
        Endpoint ep(interface, line.get<Address>());
        std::mt19937 random(first ? 1u : 2u);
        std::uint64_t received = 0;
        interface.on_message = [&](auto, const std::byte* data, std::size_t) {
            std::uint64_t number = 0;
            std::memcpy(&number, data, sizeof(number));
            ASSERT_EQ(number, received);
            ++received;
        };
        for (std::uint64_t round = 0; round < rounds; ++round) {
            if (first || round > 0) {
                // Now and then at the very moment at which the other one falls asleep.
                const auto until_then =
                    std::chrono::steady_clock::now() + std::chrono::nanoseconds(random() % 10'000);
                while (std::chrono::steady_clock::now() < until_then) {
                }
                ASSERT_EQ(
                    persist(
                        [&] { return uct_ep_am_short(ep, 0, round - (first ? 0 : 1), nullptr, 0); },
                        interface),
                    UCS_OK);
            }
            ASSERT_TRUE(sleep_until(interface, [&] { return received == round + 1; })) << round;
        }
        if (!first) {
            ASSERT_EQ(
                persist([&] { return uct_ep_am_short(ep, 0, rounds - 1, nullptr, 0); }, interface),
                UCS_OK);
        }
        ASSERT_EQ(flush(ep, interface), UCS_OK);
        line.put(true);
        (void)line.get<bool>();
    };
    Process one([&](Line& line) { play(line, "host", true); });
    Process two([&](Line& line) { play(line, "dpu", false); });
    one.line().put(two.line().get<Address>());
    two.line().put(one.line().get<Address>());
    EXPECT_TRUE(one.line().get<bool>());
    EXPECT_TRUE(two.line().get<bool>());
    one.line().put(true);
    two.line().put(true);
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(two.wait(), 0);
}

TEST(WakeupOfTwo, ADeathEndsTheSleepWithinTheTimePromised) {
    const Lab lab;
    Target target(Kind::registered, 4096);
    Interface host("host");
    Endpoint ep(host, target.address());
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    const Log log;
    arm(host);
    const auto start = std::chrono::steady_clock::now();
    target.kill();
    ASSERT_TRUE(sleep_until(host, [&] { return !host.failures.empty(); }));
    // The promise is 100 ms; the rest is for a busy machine.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

/// One thread has armed, and does not run before another has had its turn.
TEST_F(Wakeup, WhatAnotherThreadTakesEndsTheSleepAllTheSame) {
    Interface shared("dpu", {}, true, {.thread_mode = UCS_THREAD_MODE_SERIALIZED});
    Endpoint to(host, shared);
    Endpoint from(shared, dpu);
    ASSERT_EQ(uct_ep_am_short(to, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(uct_ep_am_short(from, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return shared.messages.size() == 1 && dpu.messages.size() == 1; }, host,
                      dpu, shared));
    ASSERT_EQ(flush(from, shared, dpu), UCS_OK);
    arm(shared);
    EXPECT_FALSE(readable(shared, 20));
    ASSERT_EQ(uct_ep_am_short(to, 0, 1, nullptr, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return shared.messages.size() == 2; }, shared));
    settle(std::chrono::milliseconds(1), shared);
    EXPECT_TRUE(readable(shared, 0)) << "a message";
    arm(shared);
    EXPECT_FALSE(readable(shared, 20));
    std::uint64_t sent = 1;
    while (uct_ep_am_short(from, 0, sent, nullptr, 0) == UCS_OK) {
        ++sent;
    }
    settle(std::chrono::milliseconds(1), shared);
    ASSERT_TRUE(until([&] { return dpu.messages.size() == sent; }, dpu));
    EXPECT_TRUE(readable(shared, 1000)) << "room, which it was not armed for";
}

TEST_F(Wakeup, EveryOperationAfterTheSleepIsStillCounted) {
    // Arming again and again without an event in between must not wear anything out.
    establish();
    for (std::uint64_t i = 0; i < 2000; ++i) {
        arm(dpu);
        ASSERT_EQ(uct_ep_am_short(ep, 0, i, nullptr, 0), UCS_OK);
        ASSERT_TRUE(readable(dpu, 1000)) << i;
        ASSERT_TRUE(until([&] { return dpu.messages.size() == i + 1; }, dpu));
    }
}

} // namespace
} // namespace comch::uct::test
