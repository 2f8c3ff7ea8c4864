// Ends of peers: by death, in an orderly way, at any moment; and what is left afterwards.
#include "test_target.hpp"

namespace comch::uct::test {
namespace {

struct Holdings {
    std::size_t descriptors = 0;
    std::size_t mappings = 0; ///< of comch's memory

    static Holdings now() {
        Holdings result;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
            result.descriptors += entry.exists() || entry.is_symlink() ? 1 : 0;
        }
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            result.mappings += line.find("memfd:comch") != std::string::npos ? 1 : 0;
        }
        return result;
    }
    friend bool operator==(const Holdings&, const Holdings&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Holdings& holdings) {
        return out << holdings.descriptors << " descriptors, " << holdings.mappings << " mappings";
    }
};

struct Death : testing::Test {
    Lab lab;
    Target target{Kind::registered, 8 << 20};
    Interface host{"host"};
    Endpoint ep{host, target.address()};
    RemoteKey key{target.key()};
    Log log;

    void establish() {
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(flush(ep, host), UCS_OK);
    }
    void expect_one_error_line() {
        EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
        EXPECT_EQ(log.count(UCS_LOG_LEVEL_FATAL), 0u) << log.text();
        EXPECT_THAT(log.text(), testing::HasSubstr("comch"));
        EXPECT_THAT(log.text(), testing::HasSubstr("the dpu side"));
    }
    void expect_dead() {
        std::uint64_t word = 0;
        const uct_iov_t iov = iov_of(reinterpret_cast<std::byte*>(&word), 8);
        Packing packing{reinterpret_cast<std::byte*>(&word), 8};
        Unpacking unpacking;
        const std::uint64_t at = target.memory();
        for (const ssize_t status :
             {ssize_t{uct_ep_am_short(ep, 0, 0, nullptr, 0)},
              ssize_t{uct_ep_am_short_iov(ep, 0, &iov, 1)},
              ssize_t{uct_ep_am_bcopy(ep, 0, Packing::pack, &packing, 0)},
              ssize_t{uct_ep_am_zcopy(ep, 0, nullptr, 0, &iov, 1, 0, nullptr)},
              ssize_t{uct_ep_put_short(ep, &word, 8, at, key)},
              ssize_t{uct_ep_put_bcopy(ep, Packing::pack, &packing, at, key)},
              ssize_t{uct_ep_put_zcopy(ep, &iov, 1, at, key, nullptr)},
              ssize_t{uct_ep_get_short(ep, &word, 8, at, key)},
              ssize_t{uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 8, at, key, nullptr)},
              ssize_t{uct_ep_get_zcopy(ep, &iov, 1, at, key, nullptr)},
              ssize_t{uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, at, key)},
              ssize_t{uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &word, at, key, nullptr)},
              ssize_t{uct_ep_flush(ep, 0, nullptr)}, ssize_t{uct_ep_check(ep, 0, nullptr)}}) {
            EXPECT_EQ(status, UCS_ERR_ENDPOINT_TIMEOUT);
        }
        uct_pending_req_t request{};
        EXPECT_EQ(uct_ep_pending_add(ep, &request, 0), UCS_ERR_BUSY);
        EXPECT_EQ(uct_ep_flush(ep, UCT_FLUSH_FLAG_CANCEL, nullptr), UCS_OK);
        EXPECT_EQ(uct_ep_fence(ep, 0), UCS_OK);
    }
};

TEST_F(Death, IsReportedOnceAndEveryCallFailsFromThenOn) {
    establish();
    EXPECT_EQ(uct_ep_check(ep, 0, nullptr), UCS_OK);
    target.kill();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    // The promise is 100 ms; the rest is for a busy machine.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    settle(std::chrono::milliseconds(20), host);
    ASSERT_EQ(host.failures.size(), 1u);
    EXPECT_EQ(host.failures[0].ep, static_cast<uct_ep_h>(ep));
    EXPECT_EQ(host.failures[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    expect_one_error_line();
    EXPECT_THAT(log.text(), testing::HasSubstr("ended without closing"));
    expect_dead();
    settle(std::chrono::milliseconds(20), host);
    EXPECT_EQ(host.failures.size(), 1u);
    expect_one_error_line();
}

TEST_F(Death, OfATargetNobodyHasHeardFromIsReported) {
    // Paused before it is connected to, so that it can't have answered when it dies.
    Target unheard(Kind::registered, 4096);
    unheard.pause();
    Endpoint first(host, unheard.address());
    unheard.kill();
    (void)uct_ep_am_short(first, 0, 0, nullptr, 0);
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_EQ(host.failures.size(), 1u);
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    EXPECT_THAT(log.text(), testing::HasSubstr("has not answered yet"));
}

TEST_F(Death, EndsEveryOperationThoughTheFirstsCompletionDestroysTheEndpoint) {
    const RemoteKey revocable(target.revocable_key());
    establish();
    target.pause();
    struct Get {
        uct_completion_t super{};
        Endpoint* ep = nullptr;
        unsigned* calls = nullptr;
    };
    unsigned calls = 0;
    std::array<Get, 4> gets;
    Unpacking unpacking;
    for (Get& get : gets) {
        get.ep = &ep;
        get.calls = &calls;
        get.super.count = 1;
        get.super.func = [](uct_completion_t* completion) {
            auto& self = *reinterpret_cast<Get*>(completion);
            EXPECT_EQ(completion->status, UCS_ERR_ENDPOINT_TIMEOUT);
            if (++*self.calls == 1) {
                self.ep->destroy();
            }
        };
        ASSERT_EQ(uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 8, target.memory(), revocable,
                                   &get.super),
                  UCS_INPROGRESS);
    }
    target.kill();
    ASSERT_TRUE(until([&] { return calls == gets.size(); }, host));
    EXPECT_TRUE(host.failures.empty()) << "of an endpoint that is gone";
}

TEST_F(Death, EndsEveryOperationInFlightBeforeItIsReported) {
    const RemoteKey revocable(target.revocable_key()); // nothing is done without the owner
    establish();
    target.pause();
    std::vector<std::byte> bytes(8 << 20); // more than the rings hold
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    std::vector<Completion> completions(8);
    std::uint64_t result = 0;
    Unpacking unpacking;
    std::size_t started = 0;
    const auto note = [&](ucs_status_t status) {
        started += status == UCS_INPROGRESS ? 1 : 0;
        EXPECT_EQ(status, UCS_INPROGRESS);
    };
    note(uct_ep_get_zcopy(ep, &iov, 1, target.memory(), revocable, &completions[0].super));
    note(uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 100, target.memory(), revocable,
                          &completions[1].super));
    note(uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &result, target.memory(), revocable,
                               &completions[2].super));
    note(uct_ep_put_zcopy(ep, &iov, 1, target.memory(), revocable, &completions[3].super));
    note(uct_ep_flush(ep, 0, &completions[4].super));
    EXPECT_EQ(uct_ep_get_short(ep, &result, 8, target.memory(), revocable), UCS_ERR_NO_RESOURCE);
    std::size_t done_before = 0;
    host.on_failure = [&](uct_ep_h, ucs_status_t) {
        done_before = static_cast<std::size_t>(std::count_if(
            completions.begin(), completions.end(), [](const auto& c) { return c.done(); }));
    };
    target.kill();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_EQ(done_before, started);
    for (std::size_t i = 0; i < started; ++i) {
        EXPECT_EQ(completions[i].calls, 1);
        EXPECT_EQ(completions[i].status(), UCS_ERR_ENDPOINT_TIMEOUT) << i;
    }
    EXPECT_EQ(unpacking.calls, 0);
    expect_one_error_line();
    expect_dead();
}

TEST_F(Death, LeavesTheQueueToBePurged) {
    establish();
    target.pause();
    std::uint64_t sent = 1;
    while (uct_ep_am_short(ep, 0, sent, nullptr, 0) == UCS_OK) {
        ++sent;
    }
    uct_pending_req_t request{};
    request.func = [](uct_pending_req_t*) { return UCS_ERR_NO_RESOURCE; };
    ASSERT_EQ(uct_ep_pending_add(ep, &request, 0), UCS_OK);
    target.kill();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    int purged = 0;
    uct_ep_pending_purge(
        ep, [](uct_pending_req_t*, void* arg) { ++*static_cast<int*>(arg); }, &purged);
    EXPECT_EQ(purged, 1);
    expect_dead();
}

TEST_F(Death, OfOnePeerIsToldToEachEndpointToItAndToNoOther) {
    Interface other("dpu");
    Endpoint second(host, target.address());
    Endpoint elsewhere(host, other);
    establish();
    ASSERT_EQ(uct_ep_am_short(second, 0, 1, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(second, host), UCS_OK);
    target.kill();
    ASSERT_TRUE(until([&] { return host.failures.size() == 2; }, host, other));
    settle(std::chrono::milliseconds(20), host, other);
    EXPECT_EQ(host.failures.size(), 2u);
    EXPECT_NE(host.failures[0].ep, host.failures[1].ep);
    EXPECT_EQ(uct_ep_am_short(elsewhere, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_TRUE(until([&] { return other.messages.size() == 1; }, host, other));
    EXPECT_TRUE(other.failures.empty());
}

TEST_F(Death, TheHandlerMayDestroyTheEndpoint) {
    establish();
    host.on_failure = [&](uct_ep_h, ucs_status_t) { ep.destroy(); };
    target.kill();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    settle(std::chrono::milliseconds(10), host);
    EXPECT_EQ(host.failures.size(), 1u);
}

TEST_F(Death, OfAProcessWhoseChildHoldsItsDescriptorsIsSeenAllTheSame) {
    // The target's copy: a process that forks, and whose child lives on.
    Process parent([](Line& line) {
        Interface interface("dpu");
        line.put(address_of(interface));
        Endpoint back(interface, line.get<Address>());
        ASSERT_EQ(uct_ep_am_short(back, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_TRUE(until([&] { return interface.messages.size() == 1; }, interface));
        if (const pid_t child = ::fork(); child != 0) {
            line.put(child);
        }
        for (;;) {
            ::pause();
        }
    });
    const auto address = parent.line().get<Address>();
    Endpoint to_parent(host, address);
    parent.line().put(address_of(host));
    ASSERT_EQ(uct_ep_am_short(to_parent, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return parent.line().has_something(); }, host));
    const auto child = parent.line().get<pid_t>();
    parent.kill();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    // The promise is 100 ms; the rest is for a busy machine.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    EXPECT_EQ(host.failures.size(), 1u);
    ::kill(child, SIGKILL);
}

TEST_F(Death, LeavesOnlyWhatTheNextOpenerRemoves) {
    establish();
    target.kill();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    ep.destroy();
    host.close();
    EXPECT_FALSE(lab.files().empty()) << "the test is no test";
    {
        Process next([](Line&) { Interface interface("host"); });
        EXPECT_EQ(next.wait(), 0);
    }
    EXPECT_THAT(lab.files(), testing::IsEmpty());
}

TEST(DeathOfASender, IsToldInOneLineIfNothingElseTellsIt) {
    const Lab lab;
    const Log log;
    Process sender([](Line& line) {
        Interface interface("host");
        Endpoint ep(interface, line.get<Address>());
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(flush(ep, interface), UCS_OK);
        line.put(true);
        ::pause();
    });
    Interface dpu("dpu");
    sender.line().put(address_of(dpu));
    ASSERT_TRUE(until([&] { return sender.line().has_something(); }, dpu));
    const pid_t pid = sender.pid();
    sender.kill();
    ASSERT_TRUE(until([&] { return !Log::lines().empty(); }, dpu));
    settle(std::chrono::milliseconds(10), dpu);
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    EXPECT_THAT(log.text(), testing::HasSubstr(std::to_string(pid)));
    EXPECT_THAT(log.text(), testing::HasSubstr("the host side"));
    EXPECT_TRUE(dpu.failures.empty()) << "no endpoint has failed";
}

TEST(DeathOfATarget, IsToldThoughItClosedOneOfItsInterfacesBeforeOnAQueue) {
    const Lab lab;
    Process target([](Line& line) {
        Interface first("dpu");
        Interface second("dpu");
        line.put(address_of(first));
        line.put(address_of(second));
        ASSERT_TRUE(until([&] { return line.has_something(); }, first, second));
        first.close_iface();
        ::pause();
    });
    uct_pending_req_t request{};
    request.func = [](uct_pending_req_t*) { return UCS_ERR_NO_RESOURCE; };
    Interface host("host");
    Endpoint to_first(host, target.line().get<Address>());
    Endpoint to_second(host, target.line().get<Address>());
    for (const uct_ep_h ep : {uct_ep_h{to_first}, uct_ep_h{to_second}}) {
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(flush(ep, host), UCS_OK);
    }
    const Log log;
    ucs_status_t added = UCS_ERR_BUSY;
    while (added == UCS_ERR_BUSY) { // there is room again: the target progresses
        while (uct_ep_am_short(to_first, 0, 0, nullptr, 0) == UCS_OK) {
        }
        added = uct_ep_pending_add(to_first, &request, 0);
    }
    ASSERT_EQ(added, UCS_OK);
    target.line().put(true);
    ASSERT_TRUE(until([&] { return host.failures.size() == 1; }, host));
    EXPECT_EQ(host.failures[0].ep, uct_ep_h{to_first});
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    target.kill();
    ASSERT_TRUE(until([&] { return host.failures.size() == 2; }, host));
    EXPECT_EQ(host.failures[1].ep, uct_ep_h{to_second});
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 2u) << log.text();
}

TEST(DeathWithoutHandler, IsVisible) {
    const Lab lab;
    Target target(Kind::registered, 4096);
    Interface host("host", {}, false);
    Endpoint ep(host, target.address());
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    const Log log;
    target.kill();
    ASSERT_TRUE(until([&] { return !Log::lines().empty(); }, host));
    EXPECT_EQ(Log::lines().size(), 1u) << log.text();
    EXPECT_LE(Log::lines()[0].level, UCS_LOG_LEVEL_ERROR);
}

// ---- orderly ends -------------------------------------------------------------------------------

struct OrderlyEnd : testing::Test {
    Lab lab;
    Interface host{"host"};
    Interface dpu{"dpu"};
    Log log;
};

TEST_F(OrderlyEnd, OfThePeerIsNoError) {
    Endpoint ep(host, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    dpu.close();
    settle(std::chrono::milliseconds(20), host);
    EXPECT_TRUE(host.failures.empty());
    EXPECT_TRUE(Log::lines().empty()) << log.text();
    EXPECT_LT(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_OK);
    EXPECT_LT(uct_ep_check(ep, 0, nullptr), UCS_OK) << "who asks hears that it has gone";
    ep.destroy();
    EXPECT_TRUE(Log::lines().empty()) << log.text();
}

TEST_F(OrderlyEnd, OfThePeerIsToldOnceToWhoChecksIt) {
    Endpoint ep(host, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    dpu.close();
    settle(std::chrono::milliseconds(20), host);
    ASSERT_TRUE(host.failures.empty());
    EXPECT_LT(uct_ep_check(ep, 0, nullptr), UCS_OK);
    EXPECT_TRUE(host.failures.empty()) << "not from inside the call";
    EXPECT_EQ(uct_iface_event_arm(host.iface, UCT_EVENT_RECV), UCS_ERR_BUSY);
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_LT(uct_ep_check(ep, 0, nullptr), UCS_OK);
    settle(std::chrono::milliseconds(5), host);
    EXPECT_EQ(host.failures.size(), 1u);
    EXPECT_EQ(host.failures[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
}

TEST_F(OrderlyEnd, OfThePeerIsToldToWhoChecksItByAMessage) {
    // (So UCP does once it knows the peer's endpoint.)
    for (const bool before : {true, false}) {
        Interface peer("dpu");
        Endpoint ep(host, peer);
        Packing word{reinterpret_cast<const std::byte*>("alive?"), 6};
        const auto ask = [&] {
            return uct_ep_am_bcopy(ep, 0, Packing::pack, &word, UCT_SEND_FLAG_PEER_CHECK);
        };
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(flush(ep, host, peer), UCS_OK);
        if (before) {
            ASSERT_EQ(persist(ask, host, peer), 6);
            ASSERT_EQ(flush(ep, host, peer), UCS_OK);
        }
        host.failures.clear();
        peer.close();
        if (!before) {
            settle(std::chrono::milliseconds(20), host);
            ASSERT_TRUE(host.failures.empty());
            EXPECT_EQ(ask(), UCS_ERR_ENDPOINT_TIMEOUT);
        }
        ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
        EXPECT_EQ(host.failures[0].ep, uct_ep_h{ep});
        EXPECT_EQ(host.failures[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
        settle(std::chrono::milliseconds(5), host);
        EXPECT_EQ(host.failures.size(), 1u);
        EXPECT_TRUE(Log::lines().empty()) << "it was handled; " << log.text();
    }
}

TEST_F(OrderlyEnd, WithoutAHandlerIsAnErrorAndNoMore) {
    Interface deaf("host", {}, false);
    Endpoint ep(deaf, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, deaf, dpu), UCS_OK);
    ASSERT_EQ(uct_ep_check(ep, 0, nullptr), UCS_OK);
    dpu.close();
    ASSERT_TRUE(until([&] { return !Log::lines().empty(); }, deaf));
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_FATAL), 0u) << log.text();
}

TEST_F(OrderlyEnd, OfThePeerIsToldToWhoHasCheckedItBefore) {
    Endpoint ep(host, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    dpu.close();
    // Nothing has been noticed yet.
    EXPECT_EQ(uct_ep_check(ep, 0, nullptr), UCS_OK);
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_EQ(host.failures[0].ep, uct_ep_h{ep});
    EXPECT_EQ(host.failures[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_OK) << "nothing is lost";
    settle(std::chrono::milliseconds(5), host);
    EXPECT_EQ(host.failures.size(), 1u);
}

TEST_F(OrderlyEnd, IsNoErrorForAFlushOfMessagesThatItDidNotTakeOut) {
    Endpoint ep(host, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    }
    Completion flushed;
    ASSERT_EQ(uct_ep_flush(ep, 0, &flushed.super), UCS_INPROGRESS);
    dpu.close();
    ASSERT_TRUE(until([&] { return flushed.done(); }, host));
    EXPECT_EQ(flushed.status(), UCS_OK);
    EXPECT_TRUE(host.failures.empty());
}

TEST(OrderlyEndOfAProcess, IsAnErrorForAFlushBehindAPutThatItDidNotExecute) {
    Lab lab;
    Target target(Kind::registered, 4096);
    Interface host{"host"};
    Endpoint ep(host, target.address());
    // (By any other key the kernel could stand in for an owner that seems busy.)
    const RemoteKey key(target.revocable_key());
    const Log log;
    const std::uint64_t number = 0;
    ASSERT_EQ(uct_ep_am_short(ep, 0, number, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    const auto bytes = pattern(8, 7);
    target.pause();
    ASSERT_EQ(uct_ep_put_short(ep, bytes.data(), 8, target.memory(), key), UCS_OK);
    target.close_interface();
    ASSERT_TRUE(
        until([&] { return uct_ep_am_short(ep, 0, number + 1, nullptr, 0) != UCS_OK; }, host));
    EXPECT_NE(target.wrong_bytes(0, 8, 7), 0u);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(uct_iface_flush(host.iface, 0, nullptr), UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(uct_iface_flush(host.iface, 0, nullptr), UCS_OK) << "once is enough for the others";
    EXPECT_EQ(uct_ep_flush(ep, UCT_FLUSH_FLAG_CANCEL, nullptr), UCS_OK);
    EXPECT_TRUE(host.failures.empty()) << "nobody has asked for anything since";
    EXPECT_TRUE(Log::lines().empty()) << log.text();
}

TEST(OrderlyEndOfAProcess, IsAnErrorForAnAtomicThatItEnded) {
    Lab lab;
    Target target(Kind::registered, 4096);
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.key());
    const Log log;
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    target.pause();
    std::uint64_t word = 0;
    Completion fetched;
    const auto fetch = [&] {
        return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &word, target.memory(), key,
                                     &fetched.super);
    };
    ASSERT_EQ(persist(fetch, host), UCS_INPROGRESS);
    target.close_interface();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_EQ(host.failures[0].status, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(fetched.calls, 1);
    EXPECT_EQ(fetched.status(), UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(fetch(), UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
}

TEST_F(OrderlyEnd, IsAnErrorForWhatWasPending) {
    Endpoint ep(host, dpu);
    ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    while (uct_ep_am_short(ep, 0, 0, nullptr, 0) == UCS_OK) {
    }
    uct_pending_req_t request{};
    request.func = [](uct_pending_req_t*) { return UCS_ERR_NO_RESOURCE; };
    ASSERT_EQ(uct_ep_pending_add(ep, &request, 0), UCS_OK);
    dpu.close();
    ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
    EXPECT_EQ(host.failures.size(), 1u);
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    uct_ep_pending_purge(ep, nullptr, nullptr);
}

TEST_F(OrderlyEnd, OfASenderDeliversWhatItSentBefore) {
    for (const std::uint64_t count : {1u, 40u, 200u}) {
        dpu.messages.clear();
        std::uint64_t sent = 0;
        {
            Endpoint ep(host, dpu);
            while (sent < count && uct_ep_am_short(ep, 0, sent, nullptr, 0) == UCS_OK) {
                ++sent;
            }
        } // gone before the peer has looked even once
        ASSERT_TRUE(until([&] { return dpu.messages.size() == sent; }, host, dpu)) << sent;
    }
    EXPECT_TRUE(Log::lines().empty()) << log.text();
}

TEST_F(OrderlyEnd, OfTheInterfaceWithEndpointsOfPeersAlive) {
    std::vector<Endpoint> endpoints;
    for (int i = 0; i < 20; ++i) {
        endpoints.emplace_back(host, dpu);
        ASSERT_EQ(uct_ep_am_short(endpoints.back(), 0, 0, nullptr, 0), UCS_OK);
        if (i % 2 == 0) {
            ASSERT_EQ(flush(endpoints.back(), host, dpu), UCS_OK);
        }
    }
    dpu.close(); // ten of them it has never heard of, perhaps
    settle(std::chrono::milliseconds(20), host);
    endpoints.clear();
    host.close();
    EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR) + log.count(UCS_LOG_LEVEL_WARN), 0u) << log.text();
    EXPECT_THAT(lab.files(), testing::IsEmpty());
}

TEST_F(OrderlyEnd, ANewPeerAfterwardsIsReached) {
    for (int round = 0; round < 10; ++round) {
        Interface passing("dpu");
        Endpoint ep(host, passing);
        Endpoint back(passing, host);
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(uct_ep_am_short(back, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_TRUE(until([&] { return passing.messages.size() == 1; }, host, passing));
    }
    ASSERT_TRUE(until([&] { return host.messages.size() == 10; }, host));
    EXPECT_TRUE(Log::lines().empty()) << log.text();
}

TEST_F(OrderlyEnd, ConnectingToNobodyIsRefusedAtOnce) {
    const Address address = address_of(dpu);
    dpu.close();
    const auto [ep, status] = try_create_ep(host, address);
    EXPECT_EQ(status, UCS_ERR_UNREACHABLE);
}

TEST(ManyEndpoints, TwoHundredWorkAndLeaveNothingBehind) {
    const Lab lab;
    Interface host("host");
    Interface dpu("dpu");
    { // whatever is opened once only
        Endpoint ep(host, dpu);
        ASSERT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    }
    settle(std::chrono::milliseconds(20), host, dpu);
    dpu.messages.clear();
    const Holdings before = Holdings::now();
    {
        std::vector<Endpoint> endpoints;
        for (std::uint64_t i = 0; i < 200; ++i) {
            endpoints.emplace_back(host, dpu);
            ASSERT_EQ(uct_ep_am_short(endpoints.back(), 0, i, nullptr, 0), UCS_OK);
        }
        const auto bytes = pattern(20'000, 1);
        for (const Endpoint& ep : endpoints) {
            Packing packing{bytes.data(), bytes.size()};
            ASSERT_EQ(persist([&] { return uct_ep_am_bcopy(ep, 1, Packing::pack, &packing, 0); },
                              host, dpu),
                      static_cast<ssize_t>(bytes.size()));
        }
        for (const Endpoint& ep : endpoints) {
            ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
        }
        ASSERT_EQ(dpu.messages.size(), 400u);
        // At rest an endpoint costs two descriptors on either end.
        EXPECT_LE(Holdings::now().descriptors, before.descriptors + 200 * 4);
    }
    ASSERT_TRUE(until(
        [&] {
            settle(std::chrono::milliseconds(5), host, dpu);
            return Holdings::now() == before;
        },
        host, dpu))
        << "before: " << before << "; now: " << Holdings::now();
    EXPECT_TRUE(host.failures.empty());
    EXPECT_TRUE(dpu.failures.empty());
}

} // namespace
} // namespace comch::uct::test
