// What happens when there is no room: refusals, pending queues and their order; flush and fence.
#include <functional>

#include "test_target.hpp"

namespace comch::uct::test {
namespace {

/// A request in a pending queue.
struct Request {
    uct_pending_req_t super{};
    std::function<ucs_status_t()> run;
    int calls = 0;

    explicit Request(std::function<ucs_status_t()> function) : run(std::move(function)) {
        super.func = [](uct_pending_req_t* self) {
            auto* request = reinterpret_cast<Request*>(self);
            ++request->calls;
            return request->run();
        };
    }
};

void count_purged(uct_pending_req_t* request, void* arg) {
    static_cast<std::vector<uct_pending_req_t*>*>(arg)->push_back(request);
}

struct Pending : testing::Test {
    Lab lab;
    Interface host{"host"};
    Interface dpu{"dpu"};
    Endpoint ep{host, dpu};
    std::uint64_t sent = 0; ///< numbers given to messages so far
    std::vector<std::unique_ptr<Request>> requests;

    ucs_status_t send() {
        const ucs_status_t status = uct_ep_am_short(ep, 0, sent, nullptr, 0);
        sent += status == UCS_OK ? 1 : 0;
        return status;
    }
    void fill() {
        while (send() == UCS_OK) {
            ASSERT_LT(sent, 1'000'000u);
        }
    }
    /// So many requests, each of which sends one message.
    void queue_up(int count) {
        for (int i = 0; i < count; ++i) {
            requests.push_back(std::make_unique<Request>([&] { return send(); }));
            ASSERT_EQ(uct_ep_pending_add(ep, &requests.back()->super, 0), UCS_OK);
        }
    }
    void establish() {
        ASSERT_EQ(send(), UCS_OK);
        ASSERT_TRUE(until([&] { return dpu.messages.size() == sent; }, host, dpu));
    }
    /// The peer takes out everything that is there; this side does not progress.
    void drain() {
        std::size_t before = 0;
        do {
            before = dpu.messages.size();
            for (int i = 0; i < 100; ++i) {
                dpu.progress();
            }
        } while (dpu.messages.size() != before);
    }
    void expect_all_in_order() {
        ASSERT_TRUE(until([&] { return dpu.messages.size() >= sent; }, host, dpu));
        settle(std::chrono::milliseconds(5), host, dpu);
        ASSERT_EQ(dpu.messages.size(), sent);
        for (std::uint64_t i = 0; i < sent; ++i) {
            std::uint64_t number = 0;
            std::memcpy(&number, dpu.messages[i].bytes.data(), sizeof(number));
            ASSERT_EQ(number, i);
        }
    }
};

TEST_F(Pending, LaterSendsDoNotOvertakeTheQueue) {
    establish();
    fill();
    Request first([&] { return send(); });
    Request second([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &second.super, 0), UCS_OK);
    EXPECT_EQ(send(), UCS_ERR_NO_RESOURCE);
    drain();
    // There is room, but those in the queue come first, with all that is sent after them.
    EXPECT_EQ(send(), UCS_ERR_NO_RESOURCE);
    std::uint64_t word = 0;
    const uct_iov_t iov = iov_of(reinterpret_cast<std::byte*>(&word), 8);
    EXPECT_EQ(uct_ep_am_zcopy(ep, 0, nullptr, 0, &iov, 1, 0, nullptr), UCS_ERR_NO_RESOURCE);
    EXPECT_EQ(uct_ep_am_short_iov(ep, 0, &iov, 1), UCS_ERR_NO_RESOURCE);
    Packing packing{reinterpret_cast<std::byte*>(&word), 8};
    EXPECT_EQ(uct_ep_am_bcopy(ep, 0, Packing::pack, &packing, 0), UCS_ERR_NO_RESOURCE);
    Request third([&] { return send(); });
    EXPECT_EQ(uct_ep_pending_add(ep, &third.super, 0), UCS_OK) << "the queue is not empty";
    const std::uint64_t before = sent;
    ASSERT_TRUE(until([&] { return sent == before + 3; }, host));
    EXPECT_EQ(first.calls, 1);
    EXPECT_EQ(third.calls, 1);
    EXPECT_EQ(send(), UCS_OK);
    expect_all_in_order();
}

TEST_F(Pending, WithRoomThereIsNoQueueing) {
    Request request([&] { return send(); });
    EXPECT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_ERR_BUSY);
    establish();
    fill();
    drain();
    EXPECT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_ERR_BUSY);
    EXPECT_EQ(send(), UCS_OK) << "told to retry, and there is no room";
    expect_all_in_order();
    EXPECT_EQ(request.calls, 0);
}

TEST_F(Pending, ARequestMayBeDispatchedOnlyWhenThereIsRoom) {
    establish();
    fill();
    ASSERT_NO_FATAL_FAILURE(queue_up(1000));
    const std::uint64_t before = sent;
    settle(std::chrono::milliseconds(20), host);
    EXPECT_EQ(sent, before);
    ASSERT_TRUE(until([&] { return sent == before + 1000; }, host, dpu));
    expect_all_in_order();
}

TEST_F(Pending, AFlushInTheQueueDoesNotWaitForWhatIsBehindIt) {
    establish();
    fill();
    Completion flushed;
    Request ahead([&] { return send(); });
    Request flush([&] {
        const ucs_status_t status = uct_ep_flush(ep, 0, &flushed.super);
        EXPECT_EQ(status, UCS_INPROGRESS);
        EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_ERR_NO_RESOURCE) << "a second one does";
        EXPECT_EQ(send(), UCS_ERR_NO_RESOURCE) << "as does what is sent after it";
        return status == UCS_INPROGRESS ? UCS_OK : status;
    });
    Request behind([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &ahead.super, 0), UCS_OK);
    EXPECT_EQ(uct_ep_flush(ep, 0, &flushed.super), UCS_ERR_NO_RESOURCE);
    ASSERT_EQ(uct_ep_pending_add(ep, &flush.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &behind.super, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return behind.calls != 0 && flushed.calls != 0; }, host, dpu));
    EXPECT_EQ(flushed.status(), UCS_OK);
    EXPECT_GE(dpu.messages.size(), sent - 1) << "flushed before what was ahead had arrived";
    expect_all_in_order();
}

TEST_F(Pending, ARequestThatMadeProgressIsCalledAgain) {
    establish();
    fill();
    int left = 5;
    Request slow([&] {
        const ucs_status_t status = send();
        return status != UCS_OK ? status : --left == 0 ? UCS_OK : UCS_INPROGRESS;
    });
    Request next([&] {
        EXPECT_EQ(left, 0);
        return send();
    });
    ASSERT_EQ(uct_ep_pending_add(ep, &slow.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &next.super, 0), UCS_OK);
    const std::uint64_t before = sent;
    ASSERT_TRUE(until([&] { return sent == before + 6; }, host, dpu));
    expect_all_in_order();
}

TEST_F(Pending, PurgeHandsBackEveryRequestInOrder) {
    fill();
    Request first([&] { return send(); });
    Request second([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &second.super, 0), UCS_OK);
    std::vector<uct_pending_req_t*> purged;
    uct_ep_pending_purge(ep, count_purged, &purged);
    EXPECT_THAT(purged, testing::ElementsAre(&first.super, &second.super));
    purged.clear();
    uct_ep_pending_purge(ep, count_purged, &purged);
    EXPECT_TRUE(purged.empty());
    // The endpoint is as before.
    ASSERT_EQ(persist([&] { return send(); }, host, dpu), UCS_OK);
    expect_all_in_order();
    EXPECT_EQ(first.calls + second.calls, 0);
}

TEST_F(Pending, OneStalledPeerDoesNotHoldUpAnother) {
    Interface other("dpu");
    Endpoint free(host, other);
    fill();
    Request stuck([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &stuck.super, 0), UCS_OK);
    std::uint64_t number = 0;
    ASSERT_TRUE(until(
        [&] {
            number += uct_ep_am_short(free, 0, number, nullptr, 0) == UCS_OK ? 1 : 0;
            return number == 5000;
        },
        host, other));
    ASSERT_TRUE(until([&] { return other.messages.size() == 5000; }, host, other));
    EXPECT_EQ(dpu.messages.size(), 0u);
    expect_all_in_order();
}

TEST_F(Pending, AQueueWithRoomIsEmptiedByOneCall) {
    // As many as ucx_perftest keeps under way: what is left would be there for the next ones to wait
    // behind, and so on for ever.
    establish();
    fill();
    ASSERT_NO_FATAL_FAILURE(queue_up(32));
    drain();
    const std::uint64_t before = sent;
    host.progress();
    EXPECT_EQ(sent, before + 32);
    EXPECT_EQ(send(), UCS_OK);
    expect_all_in_order();
}

TEST_F(Pending, ALongQueueLetsOthersGoInBetween) {
    establish();
    Interface other("dpu");
    Endpoint second(host, other);
    ASSERT_EQ(uct_ep_am_short(second, 0, 0, nullptr, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return other.messages.size() == 1; }, host, other));
    const auto send_second = [&] { return uct_ep_am_short(second, 0, 0, nullptr, 0); };
    fill();
    while (send_second() == UCS_OK) {
    }
    ASSERT_NO_FATAL_FAILURE(queue_up(100));
    const std::uint64_t before = sent;
    std::uint64_t of_first = 0;
    Request between([&] {
        of_first = sent - before;
        return send_second();
    });
    ASSERT_EQ(uct_ep_pending_add(second, &between.super, 0), UCS_OK);
    drain();
    const std::size_t stuck = other.messages.size();
    ASSERT_TRUE(until([&] { return other.messages.size() > stuck; }, other));
    settle(std::chrono::milliseconds(5), other);
    host.progress();
    EXPECT_EQ(between.calls, 1);
    EXPECT_GT(of_first, 0u) << "the other was the first";
    EXPECT_LT(of_first, 100u);
    EXPECT_EQ(sent, before + 100);
}

TEST_F(Pending, ARequestMayDestroyItsEndpointAndAddOthers) {
    fill();
    Endpoint second(host, dpu);
    bool destroyed = false;
    int later = 0;
    Request again([&] {
        ++later;
        return UCS_OK;
    });
    Request last([&] {
        ep.destroy();
        destroyed = true;
        return UCS_OK;
    });
    Request first([&] { return uct_ep_pending_add(ep, &again.super, 0); });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return later == 1; }, host, dpu));
    ASSERT_TRUE(until(
        [&] {
            while (send() == UCS_OK) {
            }
            return uct_ep_pending_add(ep, &last.super, 0) == UCS_OK;
        },
        host));
    ASSERT_TRUE(until([&] { return destroyed; }, host, dpu));
    settle(std::chrono::milliseconds(5), host, dpu);
    EXPECT_EQ(dpu.messages.size(), sent);
    ASSERT_EQ(uct_ep_am_short(second, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_TRUE(until([&] { return dpu.messages.size() == sent + 1; }, host, dpu));
}

TEST_F(Pending, ARequestMayDestroyItsEndpointAndFail) {
    fill();
    bool destroyed = false;
    Request last([&] {
        ep.destroy();
        destroyed = true;
        return UCS_ERR_NO_RESOURCE;
    });
    ASSERT_TRUE(until(
        [&] {
            while (send() == UCS_OK) {
            }
            return uct_ep_pending_add(ep, &last.super, 0) == UCS_OK;
        },
        host));
    ASSERT_TRUE(until([&] { return destroyed; }, host, dpu));
    Endpoint second(host, dpu);
    ASSERT_EQ(uct_ep_am_short(second, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_TRUE(until([&] { return dpu.messages.size() == sent + 1; }, host, dpu));
}

/// As UCP does it: the request's message is out, it completes, and its owner sends the next one.
TEST_F(Pending, WhoSendsFromWithinARequestDoesNotOvertakeTheOnesBehindIt) {
    establish();
    std::vector<std::byte> bytes(1000);
    const auto numbered = [&](std::size_t length) {
        std::memcpy(bytes.data(), &sent, sizeof(sent));
        return iov_of(bytes.data(), length);
    };
    Packing packing{bytes.data(), 8};
    const std::function<ucs_status_t()> sends[] = {
        [&] { return uct_ep_am_short(ep, 0, sent, nullptr, 0); },
        [&] { return uct_ep_am_short(ep, 0, sent, bytes.data(), 1000); },
        [&] {
            const uct_iov_t iov = numbered(8);
            return uct_ep_am_short_iov(ep, 0, &iov, 1);
        },
        [&] {
            (void)numbered(8);
            const ssize_t status = uct_ep_am_bcopy(ep, 0, Packing::pack, &packing, 0);
            return status == 8 ? UCS_OK : static_cast<ucs_status_t>(status);
        },
        [&] {
            const uct_iov_t iov = numbered(8);
            return uct_ep_am_zcopy(ep, 0, nullptr, 0, &iov, 1, 0, nullptr);
        },
    };
    for (const auto& first_send : sends) {
        SCOPED_TRACE(&first_send - sends);
        fill();
        ucs_status_t after_first = UCS_ERR_LAST;
        ucs_status_t after_last = UCS_ERR_LAST;
        Request first([&] {
            const ucs_status_t status = first_send();
            if (status == UCS_OK) {
                ++sent;
                after_first = send();
            }
            return status;
        });
        Request last([&] {
            const ucs_status_t status = send();
            if (status == UCS_OK) {
                after_last = send();
            }
            return status;
        });
        ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
        ASSERT_EQ(uct_ep_pending_add(ep, &last.super, 0), UCS_OK);
        drain();
        ASSERT_TRUE(until([&] { return after_last != UCS_ERR_LAST; }, host));
        EXPECT_EQ(after_first, UCS_ERR_NO_RESOURCE);
        EXPECT_EQ(after_last, UCS_OK) << "nothing is behind it";
        EXPECT_EQ(send(), UCS_OK);
        expect_all_in_order();
    }
}

TEST_F(Pending, WhoSendsFromWithinARequestThatFailsOrIsEmptyDoesNotOvertakeTheOnesBehindIt) {
    const Log log;
    establish();
    const std::vector<std::byte> bytes(1 << 20);
    const std::function<ucs_status_t()> operations[] = {
        [&] { return uct_ep_am_short(ep, 0, sent, bytes.data(), 1 << 20); },
        [&] { return uct_ep_put_zcopy(ep, nullptr, 0, 0, 0, nullptr); },
        [&] { return uct_ep_get_zcopy(ep, nullptr, 0, 0, 0, nullptr); },
    };
    for (const auto& operation : operations) {
        SCOPED_TRACE(&operation - operations);
        fill();
        ucs_status_t after = UCS_ERR_LAST;
        Request first([&] {
            EXPECT_NE(operation(), UCS_ERR_NO_RESOURCE);
            after = send();
            return UCS_OK;
        });
        Request last([&] { return send(); });
        ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
        ASSERT_EQ(uct_ep_pending_add(ep, &last.super, 0), UCS_OK);
        drain();
        ASSERT_TRUE(until([&] { return last.calls != 0; }, host));
        EXPECT_EQ(after, UCS_ERR_NO_RESOURCE);
        expect_all_in_order();
    }
}

TEST_F(Pending, AWrongCallFromTheQueueOfAnEndedOneIsRefusedAsEver) {
    const Log log;
    establish();
    fill();
    ucs_status_t status = UCS_ERR_LAST;
    Request first([&] {
        status = uct_ep_am_short(ep, UCT_AM_ID_MAX, 0, nullptr, 0);
        return UCS_OK;
    });
    Request last([&] { return send() == UCS_ERR_NO_RESOURCE ? UCS_ERR_NO_RESOURCE : UCS_OK; });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &last.super, 0), UCS_OK);
    dpu.close();
    ASSERT_TRUE(until([&] { return last.calls != 0; }, host));
    EXPECT_EQ(first.calls, 1);
    EXPECT_EQ(status, UCS_ERR_INVALID_PARAM);
}

TEST_F(Pending, ARequestThatFlushesAnewBeforeItSendsIsThroughAllTheSame) {
    establish();
    fill();
    Request first(
        [&] { return uct_ep_flush(ep, 0, nullptr) == UCS_OK ? send() : UCS_ERR_NO_RESOURCE; });
    Request second([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &second.super, 0), UCS_OK);
    const std::uint64_t before = sent;
    ASSERT_TRUE(until([&] { return sent == before + 2; }, host, dpu));
    expect_all_in_order();
}

/// An endpoint with a full ring, and a request that waits there.
struct Stuck {
    Stuck(const Interface& from, const Interface& to) : ep(from, to) {
        while (uct_ep_am_short(ep, 0, 0, nullptr, 0) == UCS_OK) {
        }
        check_ok(uct_ep_pending_add(ep, &request.super, 0), "pending_add");
    }
    Request request{[] { return UCS_ERR_NO_RESOURCE; }};
    Endpoint ep;
};

TEST_F(Pending, AQueueIsNotOvertakenThoughARequestPutsOtherEndpointsOutOfTheList) {
    Interface other("dpu");
    const std::function<void(Stuck&)> ways[] = {
        [](Stuck& stuck) { uct_ep_pending_purge(stuck.ep, nullptr, nullptr); },
        [](Stuck& stuck) { stuck.ep.destroy(); }};
    for (const auto& leave : ways) {
        Stuck first(host, other); // ahead in the interface's list
        Stuck second(host, other);
        fill();
        bool room = false;
        Request leaving([&] {
            leave(first);
            leave(second);
            return send();
        });
        Request behind([&] { return room ? send() : UCS_ERR_NO_RESOURCE; });
        ASSERT_EQ(uct_ep_pending_add(ep, &leaving.super, 0), UCS_OK);
        ASSERT_EQ(uct_ep_pending_add(ep, &behind.super, 0), UCS_OK);
        drain();
        host.progress();
        ASSERT_EQ(leaving.calls, 1);
        EXPECT_EQ(send(), UCS_ERR_NO_RESOURCE);
        EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_ERR_NO_RESOURCE);
        room = true;
        const std::uint64_t before = sent;
        ASSERT_TRUE(until([&] { return sent == before + 1; }, host, dpu));
        expect_all_in_order();
    }
}

TEST_F(Pending, ARequestThatSendsSeveralTimesIsThroughAsSoonAsThereIsRoom) {
    establish();
    fill();
    unsigned of_first = 0;
    Request first([&] { // as one of several parts that remembers how far it has come
        while (of_first < 10) {
            if (const ucs_status_t status = send(); status != UCS_OK) {
                return status;
            }
            ++of_first;
        }
        return UCS_OK;
    });
    Request second([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &first.super, 0), UCS_OK);
    ASSERT_EQ(uct_ep_pending_add(ep, &second.super, 0), UCS_OK);
    const std::uint64_t before = sent;
    drain();
    EXPECT_NE(host.progress(), 0u);
    EXPECT_EQ(of_first, 10u);
    EXPECT_EQ(sent, before + 11);
    expect_all_in_order();
}

TEST_F(Pending, ARequestMayPurgeItsOwnEndpointWhoseFlushesWaitForTheNextQueueAllTheSame) {
    fill();
    Request purging([&] {
        uct_ep_pending_purge(ep, nullptr, nullptr);
        return UCS_OK;
    });
    ASSERT_EQ(uct_ep_pending_add(ep, &purging.super, 0), UCS_OK);
    host.progress();
    ASSERT_EQ(purging.calls, 1);
    fill();
    Request next([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &next.super, 0), UCS_OK);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_ERR_NO_RESOURCE);
    const std::uint64_t before = sent;
    ASSERT_TRUE(until([&] { return sent == before + 1; }, host, dpu));
    expect_all_in_order();
}

// ---- flush and fence ----------------------------------------------------------------------------

TEST_F(Pending, FlushWaitsForThePeerToTakeOutWhatWasSent) {
    establish();
    ASSERT_EQ(flush(ep, host, dpu), UCS_OK);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_OK) << "nothing is under way";
    ASSERT_EQ(send(), UCS_OK);
    Completion completion;
    ASSERT_EQ(uct_ep_flush(ep, 0, &completion.super), UCS_INPROGRESS);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_INPROGRESS);
    EXPECT_EQ(uct_iface_flush(host.iface, 0, nullptr), UCS_INPROGRESS);
    settle(std::chrono::milliseconds(10), host);
    EXPECT_FALSE(completion.done());
    ASSERT_TRUE(until([&] { return completion.done(); }, host, dpu));
    EXPECT_EQ(completion.status(), UCS_OK);
    EXPECT_EQ(completion.calls, 1);
    EXPECT_EQ(dpu.messages.size(), sent);
    EXPECT_EQ(uct_ep_flush(ep, 0, nullptr), UCS_OK);
    EXPECT_EQ(uct_iface_flush(host.iface, 0, nullptr), UCS_OK);
}

TEST_F(Pending, AFlushBehindAQueueWaitsInIt) {
    fill();
    Request request([&] { return send(); });
    ASSERT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_OK);
    Completion completion;
    ASSERT_EQ(uct_ep_flush(ep, 0, &completion.super), UCS_ERR_NO_RESOURCE);
    ucs_status_t answer = UCS_ERR_LAST;
    std::size_t arrived = 0;
    Request flush_request([&] {
        answer = uct_ep_flush(ep, 0, &completion.super);
        return answer == UCS_INPROGRESS ? UCS_OK : answer;
    });
    ASSERT_EQ(uct_ep_pending_add(ep, &flush_request.super, 0), UCS_OK);
    ASSERT_TRUE(until(
        [&] {
            arrived = dpu.messages.size();
            return answer == UCS_OK || completion.done();
        },
        host, dpu));
    EXPECT_GE(dpu.messages.size(), arrived);
    EXPECT_EQ(dpu.messages.size(), sent) << "flushed before all had arrived";
}

TEST_F(Pending, ManyFlushesCompleteEachOnce) {
    std::vector<Completion> completions(300);
    std::size_t in_progress = 0;
    for (Completion& completion : completions) {
        ASSERT_EQ(persist([&] { return send(); }, host, dpu), UCS_OK);
        in_progress += uct_ep_flush(ep, 0, &completion.super) == UCS_INPROGRESS ? 1 : 0;
    }
    ASSERT_TRUE(until(
        [&] {
            return static_cast<std::size_t>(
                       std::count_if(completions.begin(), completions.end(),
                                     [](const auto& c) { return c.done(); })) == in_progress;
        },
        host, dpu));
    for (const Completion& completion : completions) {
        EXPECT_LE(completion.calls, 1);
    }
}

TEST_F(Pending, AFenceOfTheInterfaceIsAnswered) {
    EXPECT_EQ(uct_iface_fence(host.iface, 0), UCS_OK);
    ASSERT_EQ(send(), UCS_OK);
    EXPECT_EQ(uct_ep_fence(ep, 0), UCS_OK);
    EXPECT_EQ(uct_iface_fence(host.iface, 0), UCS_OK);
    ASSERT_EQ(persist([&] { return send(); }, host, dpu), UCS_OK);
    expect_all_in_order();
}

// ---- one-sided operations -----------------------------------------------------------------------

/// Refusals of any kind, against a target that works at the same time: a caller that is told
/// "there is room, try again" again and again, without progressing, would never come to an end.
TEST(PendingOneSided, ARefusalIsNeverFollowedByEndlessBusy) {
    for (const Kind kind : kinds) {
        const Lab lab;
        Target target(kind, 4 << 20);
        Interface host("host");
        // What is used in flight outlives the endpoint, whatever fails.
        std::vector<std::byte> bytes(1 << 20);
        std::uint64_t results[2] = {};
        std::uint64_t number = 0;
        int open = 0;
        struct Counting {
            uct_completion_t super{};
            int* open = nullptr;
        };
        std::vector<std::unique_ptr<Counting>> completions;
        Unpacking unpacking;
        Endpoint ep(host, target.address());
        const RemoteKey key(target.key());
        const auto completion = [&] {
            completions.push_back(std::make_unique<Counting>());
            completions.back()->open = &open;
            completions.back()->super = {
                [](uct_completion_t* self) { --*reinterpret_cast<Counting*>(self)->open; }, 1,
                UCS_OK};
            return &completions.back()->super;
        };
        const std::function<ucs_status_t()> operations[] = {
            [&] {
                const ucs_status_t status = uct_ep_am_short(ep, 0, number, nullptr, 0);
                number += status == UCS_OK ? 1 : 0;
                return status;
            },
            [&] { return uct_ep_put_short(ep, bytes.data(), 5000, target.memory(), key); },
            [&] {
                const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
                return uct_ep_put_zcopy(ep, &iov, 1, target.memory(), key, completion());
            },
            [&] {
                const uct_iov_t iov = iov_of(bytes.data(), 8);
                return uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, completion());
            },
            [&] {
                return uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 8, target.memory(), key,
                                        completion());
            },
            [&] { return uct_ep_get_short(ep, bytes.data(), 8, target.memory(), key); },
            [&] {
                return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &results[0], target.memory(),
                                             key, completion());
            },
            [&] { return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, target.memory(), key); },
        };
        unsigned index = 0;
        for (const auto& operation : operations) {
            SCOPED_TRACE(testing::Message() << "operation " << index++ << ", " << name_of(kind));
            for (int i = 0; i < 2000; ++i) {
                bool done = false;
                Request request([&] {
                    const ucs_status_t status = operation();
                    open += status == UCS_INPROGRESS ? 1 : 0;
                    done = status != UCS_ERR_NO_RESOURCE;
                    EXPECT_TRUE(!done || status >= UCS_OK) << ucs_status_string(status);
                    return done ? UCS_OK : status;
                });
                for (int busy = 0; request.run() == UCS_ERR_NO_RESOURCE; ++busy) {
                    ASSERT_LT(busy, 1000) << "told to retry, refused, told to retry, ...";
                    const ucs_status_t added = uct_ep_pending_add(ep, &request.super, 0);
                    if (added == UCS_OK) {
                        ASSERT_TRUE(until([&] { return done; }, host));
                        break;
                    }
                    ASSERT_EQ(added, UCS_ERR_BUSY);
                }
            }
            ASSERT_TRUE(until([&] { return open == 0; }, host));
            ASSERT_EQ(flush(ep, host), UCS_OK);
        }
        ASSERT_EQ(target.messages(), number);
    }
}

TEST(PendingOneSided, AGetShortInTheQueueIsServed) {
    for (const Kind kind : kinds) {
        const Lab lab;
        Target target(kind, 65536);
        Interface host("host");
        Endpoint ep(host, target.address());
        const RemoteKey key(target.key());
        target.fill(0, 4096, 8);
        const auto expected = pattern(4096, 8);
        std::vector<std::byte> bytes(4096);
        // As UCP does it: tries, queues the request, and progresses.
        for (int round = 0; round < 50; ++round) {
            std::fill(bytes.begin(), bytes.end(), std::byte{0});
            ucs_status_t status = UCS_ERR_LAST;
            Request request([&] {
                status = uct_ep_get_short(ep, bytes.data(), 4096, target.memory(), key);
                return status;
            });
            while (request.run() == UCS_ERR_NO_RESOURCE) {
                if (uct_ep_pending_add(ep, &request.super, 0) == UCS_OK) {
                    ASSERT_TRUE(until([&] { return status == UCS_OK; }, host));
                    break;
                }
            }
            ASSERT_EQ(status, UCS_OK);
            ASSERT_TRUE(bytes == expected);
        }
    }
}

TEST(PendingOneSided, FlushWithCancelEndsWhatIsInFlightAndLateAnswersAreIgnored) {
    const Lab lab;
    Target target(Kind::registered, 4 << 20);
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.key());
    target.fill(0, 4 << 20, 3);
    target.pause();
    std::vector<std::byte> bytes(1 << 20, std::byte{0x11});
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    Completion get;
    ASSERT_EQ(uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &get.super), UCS_INPROGRESS);
    std::uint64_t result = 77;
    Completion add;
    ASSERT_EQ(
        uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &result, target.memory(), key, &add.super),
        UCS_INPROGRESS);
    Unpacking unpacking;
    Completion bcopy;
    ASSERT_EQ(uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 100, target.memory(), key,
                               &bcopy.super),
              UCS_INPROGRESS);
    Completion flushed;
    ASSERT_EQ(uct_ep_flush(ep, 0, &flushed.super), UCS_INPROGRESS);
    ASSERT_EQ(uct_ep_flush(ep, UCT_FLUSH_FLAG_CANCEL, nullptr), UCS_OK);
    for (const Completion* completion : {&get, &add, &bcopy, &flushed}) {
        EXPECT_EQ(completion->calls, 1);
        EXPECT_EQ(completion->status(), UCS_ERR_CANCELED);
    }
    std::fill(bytes.begin(), bytes.end(), std::byte{0x22}); // the caller's again
    target.resume();
    settle(std::chrono::milliseconds(50), host);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0x22}), 1 << 20);
    EXPECT_EQ(result, 77u);
    EXPECT_EQ(unpacking.calls, 0);
    EXPECT_EQ(get.calls, 1);
    // The endpoint still works.
    Completion again;
    ASSERT_EQ(finish(persist(
                         [&] {
                             return uct_ep_get_zcopy(ep, &iov, 1, target.memory(65536), key,
                                                     &again.super);
                         },
                         host),
                     again, host),
              UCS_OK);
    const auto all = pattern(4 << 20, 3);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), all.begin() + 65536));
}

TEST(PendingOneSided, DestroyingAnEndpointEndsWhatIsInFlight) {
    const Lab lab;
    Target target(Kind::registered, 1 << 20);
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.key());
    target.pause();
    std::vector<std::byte> bytes(1 << 20);
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    Completion get;
    ASSERT_EQ(uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &get.super), UCS_INPROGRESS);
    Completion put;
    ucs_status_t status = UCS_OK;
    while (status == UCS_OK) {
        status = uct_ep_put_zcopy(ep, &iov, 1, target.memory(), key, &put.super);
    }
    (void)uct_ep_get_short(ep, &status, sizeof(status), target.memory(), key);
    ep.destroy();
    EXPECT_EQ(get.calls, 1);
    EXPECT_NE(get.status(), UCS_OK);
    target.resume();
    settle(std::chrono::milliseconds(20), host);
    EXPECT_EQ(target.leave(), 0);
}

} // namespace
} // namespace comch::uct::test
