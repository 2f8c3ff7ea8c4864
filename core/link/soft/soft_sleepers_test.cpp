// Programs put what they sleep on into epoll sets of their own, which may be in sets again.
#include <list>

#include <sys/epoll.h>

#include "core/link/soft/test_process.hpp"

namespace comch::link::soft::test {
namespace {

/// More than the kernel lets watch one file through so many sets (50).
constexpr unsigned peers = 60;
constexpr unsigned levels = 3;

/// Sets around a port's own, each in the next.
class Sets {
public:
    explicit Sets(int inner) {
        for (UniqueFd& set : sets_) {
            set.reset(::epoll_create1(EPOLL_CLOEXEC));
            epoll_event event{.events = EPOLLIN, .data = {}};
            EXPECT_EQ(::epoll_ctl(set.get(), EPOLL_CTL_ADD, inner, &event), 0);
            inner = set.get();
        }
    }

private:
    std::array<UniqueFd, levels> sets_;
};

struct Sleeper {
    End end;
    Sets sets;
    Sleeper(const Lab& lab, Side side) : end(lab, side), sets(end.port->event_fd()) {}
};

TEST(SoftSleepers, ManyClientsOfOneServerSleepInSetsOfTheirOwn) {
    Lab lab;
    End server{lab, Side::dpu};
    std::list<Sleeper> clients;
    for (unsigned i = 0; i < peers; ++i) {
        Sleeper& client = clients.emplace_back(lab, Side::host);
        ASSERT_NE(connect(client.end, server).initiator, nullptr) << i;
        ASSERT_FALSE(::testing::Test::HasFailure()) << i;
    }
}

TEST(SoftSleepers, ManyServersOfOneClientSleepInSetsOfTheirOwn) {
    Lab lab;
    End client{lab, Side::host};
    std::list<Sleeper> servers;
    for (unsigned i = 0; i < peers; ++i) {
        Sleeper& server = servers.emplace_back(lab, Side::dpu);
        ASSERT_NE(connect(client, server.end).initiator, nullptr) << i;
        ASSERT_FALSE(::testing::Test::HasFailure()) << i;
    }
}

TEST(SoftSleepers, WhatIsReturnedByWhoDoesNotComeToSleepWakesAllTheSame) {
    Lab lab;
    End client{lab, Side::host};
    End server{lab, Side::dpu};
    End other{lab, Side::dpu};
    const Connected first = connect(client, other);
    const Connected pair = connect(client, server);
    // As many as are taken at once: the ring is not found empty.
    for (unsigned i = 0; i < tuning::poll_budget; ++i) {
        ASSERT_EQ(pair.acceptor->send(0, bytes_of("to be confirmed")), Errc::ok);
    }
    while (server.port->arm(true) != Errc::ok) {
        server.progress();
    }
    client.progress();
    ASSERT_EQ(client.seen.message_count, tuning::poll_budget);
    ASSERT_NE(pair.acceptor->confirmed(), pair.acceptor->sent());
    ASSERT_EQ(first.acceptor->send(0, bytes_of("keeps it awake")), Errc::ok);
    ASSERT_EQ(client.port->arm(), Errc::again);
    EXPECT_EQ(pair.acceptor->confirmed(), pair.acceptor->sent());
    EXPECT_TRUE(readable(server.port->event_fd()));
}

} // namespace
} // namespace comch::link::soft::test
