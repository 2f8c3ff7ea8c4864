// Completion queues in every format, counters, event queues; and the ways to wait for them.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <future>
#include <thread>

#include <poll.h>

#include "core/base/test_yields.hpp"
#include "test_node.hpp"
#include "wire.hpp"

namespace comch::ofi::test {
namespace {

/// A completion queue of a format; closed with the object.
struct Queue {
    Queue(fid_domain* domain, fi_cq_format format, fi_wait_obj wait = FI_WAIT_NONE,
          fi_cq_wait_cond condition = FI_CQ_COND_NONE) {
        fi_cq_attr attr{};
        attr.format = format;
        attr.wait_obj = wait;
        attr.wait_cond = condition;
        attr.size = 2; // it grows
        COMCH_FI(fi_cq_open(domain, &attr, &cq, nullptr));
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue() { EXPECT_EQ(fi_close(&cq->fid), 0); }
    fid_cq* cq = nullptr;
};

/// An endpoint whose receives are reported to a queue of the test's own.
struct Receiver {
    Receiver(Node& node, Queue& queue) {
        COMCH_FI(fi_endpoint(node.domain, node.info, &ep, nullptr));
        COMCH_FI(fi_ep_bind(ep, &node.tx->fid, FI_TRANSMIT));
        COMCH_FI(fi_ep_bind(ep, &queue.cq->fid, FI_RECV));
        fi_av_attr attr{};
        attr.type = FI_AV_MAP;
        COMCH_FI(fi_av_open(node.domain, &attr, &av, nullptr));
        COMCH_FI(fi_ep_bind(ep, &av->fid, 0));
        COMCH_FI(fi_enable(ep));
    }
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;
    ~Receiver() {
        EXPECT_EQ(fi_close(&ep->fid), 0);
        EXPECT_EQ(fi_close(&av->fid), 0);
    }
    [[nodiscard]] std::vector<char> name() const {
        std::vector<char> bytes(256);
        std::size_t length = bytes.size();
        COMCH_FI(fi_getname(&ep->fid, bytes.data(), &length));
        bytes.resize(length);
        return bytes;
    }
    fid_ep* ep = nullptr;
    fid_av* av = nullptr;
};

template <class Entry> Entry receive_as(fi_cq_format format) {
    Node sender;
    Node owner;
    Queue queue(owner.domain, format);
    Receiver receiver(owner, queue);
    const fi_addr_t to = sender.add(receiver.name());
    static char buffer[8];
    COMCH_FI(fi_trecv(receiver.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, 6, 0, buffer));
    // More than one, so that entries of the wrong size would be seen.
    COMCH_FI(fi_trecv(receiver.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, buffer + 1));
    post([&] { return fi_tinjectdata(sender.ep, "abc", 4, 50, to, 6); }, {queue.cq, sender.tx});
    post([&] { return fi_tinjectdata(sender.ep, "abc", 4, 51, to, 7); }, {queue.cq, sender.tx});
    Entry entries[2] = {};
    std::size_t count = 0;
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (count < 2 && Clock::now() < end) {
        const ssize_t result = fi_cq_read(queue.cq, entries + count, 2 - count);
        count += result > 0 ? static_cast<std::size_t>(result) : 0;
        (void)fi_cq_read(sender.tx, nullptr, 0);
    }
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(entries[0].op_context, buffer);
    EXPECT_EQ(entries[1].op_context, buffer + 1);
    return entries[1];
}

TEST(Queue, EveryFormatTellsWhatItHasRoomFor) {
    (void)receive_as<fi_cq_entry>(FI_CQ_FORMAT_CONTEXT);
    EXPECT_EQ(receive_as<fi_cq_msg_entry>(FI_CQ_FORMAT_MSG).len, 4u);
    EXPECT_EQ(receive_as<fi_cq_data_entry>(FI_CQ_FORMAT_DATA).data, 51u);
    EXPECT_EQ(receive_as<fi_cq_tagged_entry>(FI_CQ_FORMAT_TAGGED).tag, 7u);
    EXPECT_EQ(receive_as<fi_cq_tagged_entry>(FI_CQ_FORMAT_UNSPEC).tag, 7u);
}

TEST(Queue, AFailureKeepsItsPlaceAmongCompletions) {
    for (const fi_cq_format format : {FI_CQ_FORMAT_TAGGED, FI_CQ_FORMAT_CONTEXT}) {
        Node sender;
        Node owner;
        Queue queue(owner.domain, format);
        Receiver receiver(owner, queue);
        const fi_addr_t to = sender.add(receiver.name());
        char buffers[6][8] = {};
        for (char(&buffer)[8] : buffers) {
            // The fourth is too small for its message.
            COMCH_FI(fi_trecv(receiver.ep, buffer, &buffer == &buffers[3] ? 2 : 8, nullptr,
                              FI_ADDR_UNSPEC, 1, 0, buffer));
        }
        // All have come when the queue is read.
        for (int i = 0; i < 6; ++i) {
            post([&] { return fi_tinject(sender.ep, "1234567", 8, to, 1); },
                 {i == 0 ? queue.cq : sender.tx, sender.tx});
        }
        fi_cq_tagged_entry entries[2] = {}; // fewer than there are
        std::vector<void*> seen;
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (seen.size() < 6 && Clock::now() < end) {
            const ssize_t result = fi_cq_read(queue.cq, entries, 2);
            for (ssize_t i = 0; i < result; ++i) {
                seen.push_back(format == FI_CQ_FORMAT_TAGGED
                                   ? entries[i].op_context
                                   : reinterpret_cast<fi_cq_entry*>(entries)[i].op_context);
            }
            if (result == -FI_EAVAIL) {
                fi_cq_err_entry failure{};
                ASSERT_EQ(fi_cq_readerr(queue.cq, &failure, 0), 1);
                EXPECT_EQ(failure.err, FI_ETRUNC);
                EXPECT_EQ(seen.size(), 3u);
                seen.push_back(failure.op_context);
            }
        }
        ASSERT_EQ(seen.size(), 6u);
        for (std::size_t i = 0; i < 6; ++i) {
            EXPECT_EQ(seen[i], buffers[i]);
        }
        EXPECT_EQ(fi_cq_read(queue.cq, entries, 2), -FI_EAGAIN);
    }
}

/// The entry of a failure has grown twice; what an older program has behind its own is not touched.
TEST(Queue, AnErrorIsAsLongAsTheProgramKnowsIt) {
    for (const std::uint32_t version : {FI_VERSION(1, 4), FI_VERSION(1, 5), FI_VERSION(1, 17)}) {
        InfoHints hints;
        hints->ep_attr->type = FI_EP_RDM;
        hints->caps = FI_MSG | FI_TAGGED;
        hints->domain_attr->mr_mode = FI_MR_SCALABLE; // for those before 1.5
        (void)environment();
        fi_info* info = nullptr;
        COMCH_FI(fi_getinfo(version, nullptr, nullptr, 0, hints.value, &info));
        {
            Node node({}, info);
            char room = 0;
            COMCH_FI(fi_trecv(node.ep, &room, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &room));
            COMCH_FI(fi_cancel(&node.ep->fid, &room));
            fi_cq_err_entry entries[2];
            std::memset(static_cast<void*>(entries), 0x5a, sizeof(entries));
            const auto* const bytes = reinterpret_cast<const char*>(entries);
            // (The call of later headers writes what is new in them by itself.)
            ASSERT_EQ(node.rx->ops->readerr(node.rx, entries, 0), 1);
            EXPECT_EQ(entries[0].op_context, &room);
            EXPECT_EQ(entries[0].err, FI_ECANCELED);
            std::size_t own = offsetof(fi_cq_err_entry, err_data_size);
            if (FI_VERSION_GE(version, FI_VERSION(1, 5))) {
                EXPECT_EQ(entries[0].err_data_size, 0u);
                own += sizeof(entries[0].err_data_size);
            }
            EXPECT_EQ(std::count(bytes + own, bytes + sizeof(entries), 0x5a),
                      static_cast<std::ptrdiff_t>(sizeof(entries) - own))
                << version;
        }
        fi_freeinfo(info);
    }
}

TEST(Queue, WhoReadsUntilThereIsNoMoreMissesNothing) {
    Node node; // one queue for what it sends and what it gets
    Queue queue(node.domain, FI_CQ_FORMAT_TAGGED);
    fid_ep* ep = nullptr;
    COMCH_FI(fi_endpoint(node.domain, node.info, &ep, nullptr));
    COMCH_FI(fi_ep_bind(ep, &queue.cq->fid, FI_TRANSMIT | FI_RECV));
    COMCH_FI(fi_ep_bind(ep, &node.av->fid, 0));
    COMCH_FI(fi_enable(ep));
    const fi_addr_t to = node.add(node.name());
    char name[256];
    std::size_t length = sizeof(name);
    COMCH_FI(fi_getname(&ep->fid, name, &length));
    const fi_addr_t back = node.add({name, name + length});
    static char buffers[2];
    for (std::uintptr_t i = 1; i <= 100; ++i) {
        auto* const sent = reinterpret_cast<void*>(2 * i);
        auto* const got = reinterpret_cast<void*>(2 * i + 1);
        COMCH_FI(fi_trecv(node.ep, buffers, 1, nullptr, FI_ADDR_UNSPEC, i, 0, nullptr));
        COMCH_FI(fi_trecv(ep, buffers + 1, 1, nullptr, FI_ADDR_UNSPEC, i, 0, got));
        post([&] { return fi_tsend(ep, "a", 1, nullptr, to, i, sent); }, {queue.cq, node.rx});
        post([&] { return fi_tinject(node.ep, "b", 1, back, i); }, {node.tx});
        EXPECT_EQ(await(node.rx, {node.tx}).entry.tag, i);
        std::vector<void*> seen;
        fi_cq_tagged_entry entries[4] = {};
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (seen.size() < 2 && Clock::now() < end) {
            const ssize_t result = fi_cq_read(queue.cq, entries, 4);
            for (ssize_t k = 0; k < result; ++k) {
                seen.push_back(entries[k].op_context);
            }
        }
        ASSERT_EQ(seen, (std::vector<void*>{sent, got}));
    }
    EXPECT_EQ(fi_close(&ep->fid), 0);
}

TEST(Queue, WhoReadsInVainForLongYields) {
    Node node;
    Queue tagged(node.domain, FI_CQ_FORMAT_TAGGED);
    Queue other(node.domain, FI_CQ_FORMAT_DATA);
    const Receiver receiver(node, tagged);
    fi_cq_tagged_entry entry{};
    for (Queue* const queue : {&tagged, &other}) {
        EXPECT_EQ(comch::test::yields_in_vain(
                      [&] { EXPECT_EQ(fi_cq_read(queue->cq, &entry, 1), -FI_EAGAIN); }),
                  2u);
    }
    fid_cntr* counter = nullptr;
    COMCH_FI(fi_cntr_open(node.domain, nullptr, &counter, nullptr));
    EXPECT_EQ(comch::test::yields_in_vain([&] { EXPECT_EQ(fi_cntr_read(counter), 0u); }), 2u);
    EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST(Queue, ASleeperMayWaitForSeveral) {
    Node sender;
    Node owner;
    for (const fi_wait_obj wait : {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD}) {
        Queue queue(owner.domain, FI_CQ_FORMAT_TAGGED, wait, FI_CQ_COND_THRESHOLD);
        Receiver receiver(owner, queue);
        const fi_addr_t to = sender.add(receiver.name());
        fi_addr_t known = FI_ADDR_NOTAVAIL;
        ASSERT_EQ(fi_av_insert(receiver.av, sender.name().data(), 1, &known, 0, nullptr), 1);
        char buffers[3] = {};
        for (char& buffer : buffers) {
            COMCH_FI(fi_recv(receiver.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        }
        std::thread sends([&] {
            for (int i = 0; i < 3; ++i) {
                post([&] { return fi_inject(sender.ep, "x", 1, to); }, {sender.tx});
            }
        });
        fi_cq_tagged_entry entries[3] = {};
        fi_addr_t sources[3] = {};
        EXPECT_EQ(fi_cq_sreadfrom(queue.cq, entries, 3, sources,
                                  reinterpret_cast<const void*>(std::uintptr_t{3}), 60'000),
                  3);
        EXPECT_EQ(sources[2], known);
        sends.join();
        ASSERT_EQ(fi_av_remove(sender.av, const_cast<fi_addr_t*>(&to), 1, 0), 0);
    }
    Queue deaf(owner.domain, FI_CQ_FORMAT_TAGGED);
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_sread(deaf.cq, &entry, 1, nullptr, 0), -FI_ENOSYS);
}

TEST(Counter, OfWhatPeersDoIsBoundBeforeTheyDoIt) {
    Node node; // enabled
    for (const std::uint64_t event : {FI_REMOTE_WRITE, FI_REMOTE_READ, FI_SEND}) {
        fi_cntr_attr attr{};
        fid_cntr* cntr = nullptr;
        COMCH_FI(fi_cntr_open(node.domain, &attr, &cntr, nullptr));
        node.counters.push_back(cntr);
        EXPECT_EQ(fi_ep_bind(node.ep, &cntr->fid, event), event == FI_SEND ? 0 : -FI_EOPBADSTATE);
    }
}

TEST(Queue, OpensWithFlagsThatAreDefinedOnly) {
    Node node;
    fi_cntr_attr counts{};
    fi_cq_attr completes{};
    counts.flags = completes.flags = 1;
    fid_cntr* cntr = nullptr;
    fid_cq* cq = nullptr;
    EXPECT_EQ(fi_cntr_open(node.domain, &counts, &cntr, nullptr), -FI_EINVAL);
    EXPECT_EQ(fi_cq_open(node.domain, &completes, &cq, nullptr), -FI_EINVAL);
    fi_eq_attr tells{};
    tells.flags = 1;
    fid_eq* eq = nullptr;
    EXPECT_EQ(fi_eq_open(node.fabric, &tells, &eq, nullptr), -FI_EINVAL);
    completes.flags = FI_AFFINITY; // a wish
    completes.signaling_vector = 0;
    COMCH_FI(fi_cq_open(node.domain, &completes, &cq, nullptr));
    COMCH_FI(fi_close(&cq->fid));
}

TEST(Counter, IsSetAndAddedTo) {
    Node node;
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(node.domain, &attr, &cntr, nullptr));
    COMCH_FI(fi_cntr_set(cntr, 5));
    COMCH_FI(fi_cntr_add(cntr, 2));
    EXPECT_EQ(fi_cntr_read(cntr), 7u);
    EXPECT_EQ(fi_cntr_wait(cntr, 7, 0), 0);
    std::thread adds([&] { COMCH_FI(fi_cntr_add(cntr, 1)); });
    EXPECT_EQ(fi_cntr_wait(cntr, 8, 60'000), 0);
    adds.join();
    COMCH_FI(fi_cntr_adderr(cntr, 3));
    EXPECT_EQ(fi_cntr_readerr(cntr), 3u);
    COMCH_FI(fi_cntr_seterr(cntr, 0));
    EXPECT_EQ(fi_cntr_readerr(cntr), 0u);
    std::thread fails([&] { COMCH_FI(fi_cntr_adderr(cntr, 1)); });
    const int result = fi_cntr_wait(cntr, 100, 1'000);
    EXPECT_TRUE(result == -FI_EAVAIL || result == -FI_ETIMEDOUT);
    fails.join();
    EXPECT_EQ(fi_close(&cntr->fid), 0);
}

TEST(Counter, AFailureBeforeTheWaitEndsItOnce) {
    std::vector<char> gone;
    {
        Node other;
        gone = other.name();
    }
    NodeOptions options;
    options.counters = true;
    options.wait_object = FI_WAIT_FD;
    Node node(options);
    const fi_addr_t nobody = node.add(gone);
    fid_cntr* const sends = node.counters[0];
    const auto fail = [&] { // in the call that sends: there is nothing to wait for
        post([&] { return fi_tsend(node.ep, "x", 1, nullptr, nobody, 1, nullptr); }, {});
    };
    fail();
    EXPECT_EQ(fi_cntr_wait(sends, 1, 20'000), -FI_EAVAIL);
    EXPECT_EQ(fi_cntr_wait(sends, 1, 1), -FI_ETIMEDOUT) << "it has been told";
    fail();
    EXPECT_EQ(fi_cntr_readerr(sends), 2u);
    EXPECT_EQ(fi_cntr_wait(sends, 1, 1), -FI_ETIMEDOUT) << "it has been read";
    // What fi_trywait says is that it is worth looking, and no answer.
    fail();
    fid* waits[] = {&sends->fid};
    EXPECT_EQ(fi_trywait(node.fabric, waits, 1), -FI_EAGAIN);
    EXPECT_EQ(fi_cntr_wait(sends, 1, 20'000), -FI_EAVAIL);
    COMCH_FI(fi_cntr_seterr(sends, 5));
    EXPECT_EQ(fi_cntr_wait(sends, 1, 1), -FI_ETIMEDOUT);
}

TEST(Counter, WhatWasCountedIsToldBeforeASleep) {
    NodeOptions options;
    options.counters = true;
    options.wait_object = FI_WAIT_FD;
    Pair pair(options);
    char buffer = 0;
    COMCH_FI(fi_recv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, pair.cqs);
    EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0); // counted by the progress of a queue
    fid_cntr* const receives = pair.b.counters[1];
    fid* waits[] = {&receives->fid};
    // The port, too, may have news: of the other end's device, which is done with something.
    const auto may_sleep = [&] {
        const auto deadline = Clock::now() + std::chrono::seconds(20);
        while (fi_trywait(pair.b.fabric, waits, 1) != 0) {
            if (Clock::now() > deadline) {
                return false;
            }
            (void)fi_cq_read(pair.b.rx, nullptr, 0);
        }
        return true;
    };
    EXPECT_EQ(fi_trywait(pair.b.fabric, waits, 1), -FI_EAGAIN);
    EXPECT_EQ(fi_cntr_read(receives), 1u);
    EXPECT_TRUE(may_sleep());
    COMCH_FI(fi_cntr_adderr(receives, 1));
    EXPECT_EQ(fi_trywait(pair.b.fabric, waits, 1), -FI_EAGAIN);
    EXPECT_TRUE(may_sleep()) << "also for who reads no errors";
}

TEST(Waiting, ADescriptorTellsOfWhatAnotherThreadHasRead) {
    NodeOptions options;
    options.wait_object = FI_WAIT_FD;
    Pair pair(options);
    int fd = -1;
    COMCH_FI(fi_control(&pair.b.rx->fid, FI_GETWAIT, &fd));
    post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, pair.cqs); // they are connected
    char first = 0;
    COMCH_FI(fi_recv(pair.b.ep, &first, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(pair.b.rx, {pair.a.tx}).error, 0);
    for (int i = 0; i < 3; ++i) {
        char buffer = 0;
        COMCH_FI(fi_recv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        fid* waits[] = {&pair.b.rx->fid};
        while (fi_trywait(pair.b.fabric, waits, 1) != 0) {
            ASSERT_EQ(fi_cq_read(pair.b.rx, nullptr, 0), -FI_EAGAIN);
        }
        // The reads of another thread come in between: before what comes, and after it until the
        // port has nothing more to tell.
        for (int k = 0; k < 10'000; ++k) {
            ASSERT_EQ(fi_cq_read(pair.b.rx, nullptr, 0), -FI_EAGAIN);
        }
        pollfd entry{fd, POLLIN, 0};
        EXPECT_EQ(::poll(&entry, 1, 0), 0);
        post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, {pair.a.tx});
        EXPECT_EQ(await(pair.b.rx, {pair.a.tx}).error, 0);
        for (int k = 0; k < 10'000; ++k) {
            ASSERT_EQ(fi_cq_read(pair.b.rx, nullptr, 0), -FI_EAGAIN);
        }
        EXPECT_EQ(::poll(&entry, 1, 5'000), 1);
    }
}

/// Two ends that count, and have said something to each other.
struct CountingPair : Pair {
    CountingPair() : Pair(options()) {
        COMCH_FI(fi_control(&receives->fid, FI_GETWAIT, &fd));
        send_one();
        while (fi_trywait(b.fabric, waits, 1) != 0) {
            (void)fi_cntr_read(receives);
        }
    }
    static NodeOptions options() {
        NodeOptions options;
        options.counters = true;
        options.wait_object = FI_WAIT_FD;
        return options;
    }
    /// It has been counted when this returns.
    void send_one() {
        COMCH_FI(fi_recv(b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        post([&] { return fi_inject(a.ep, "x", 1, to_b); }, cqs);
        EXPECT_EQ(await(b.rx, {a.tx}).error, 0);
        // The port has nothing more to tell then. (While a thread sleeps each read looks at all there is,
        // which takes a while: and a thread that is not back in a second counts as gone.)
        const auto end = Clock::now() + std::chrono::milliseconds(50);
        for (int i = 0; i < 10'000 && (i < 100 || Clock::now() < end); ++i) {
            (void)fi_cq_read(b.rx, nullptr, 0);
        }
    }
    [[nodiscard]] bool is_readable() const {
        pollfd entry{fd, POLLIN, 0};
        return ::poll(&entry, 1, 0) == 1;
    }
    [[nodiscard]] int try_wait() { return fi_trywait(b.fabric, waits, 1); }

    fid_cntr* const receives = b.counters[1];
    fid* waits[1] = {&receives->fid};
    int fd = -1;
    char buffer = 0;
};

TEST(Waiting, WhoSleepsForMoreLeavesTheProgramsDescriptorAlone) {
    CountingPair pair;
    EXPECT_FALSE(pair.is_readable());
    pair.send_one();
    EXPECT_EQ(fi_cntr_wait(pair.receives, 3, 10), -FI_ETIMEDOUT);
    EXPECT_TRUE(pair.is_readable());
}

TEST(Waiting, ACountIsNewToEachThreadThatWouldSleep) {
    CountingPair pair;
    pair.send_one();
    std::promise<void> turn;
    std::thread sleeps([&] { // there from the beginning: it is no thread that has ended before
        turn.get_future().wait();
        EXPECT_EQ(pair.try_wait(), -FI_EAGAIN);
        EXPECT_EQ(pair.try_wait(), 0) << "it has been told";
    });
    std::thread reads([&] { EXPECT_EQ(fi_cntr_read(pair.receives), 2u); });
    reads.join();
    EXPECT_EQ(pair.try_wait(), -FI_EAGAIN) << "the other thread knows";
    EXPECT_EQ(fi_cntr_read(pair.receives), 2u);
    EXPECT_EQ(pair.try_wait(), 0);
    turn.set_value();
    sleeps.join();
    EXPECT_EQ(pair.try_wait(), 0) << "it knows still";
}

TEST(Waiting, NobodyTakesBackTheWakingOfAThreadThatHasNotComeBack) {
    CountingPair pair; // this thread would sleep
    pair.send_one();
    std::thread other([&] {
        for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(pair.try_wait(), -FI_EAGAIN);
            EXPECT_EQ(fi_cntr_read(pair.receives), 2u);
        }
    });
    other.join();
    EXPECT_TRUE(pair.is_readable());
    EXPECT_EQ(fi_cntr_read(pair.receives), 2u);
    std::thread again([&] { EXPECT_EQ(pair.try_wait(), 0); });
    again.join();
    EXPECT_FALSE(pair.is_readable());
}

TEST(Waiting, AThreadThatNeverComesBackKeepsNobodyAwake) {
    CountingPair pair;
    std::thread leaves([&] {
        while (pair.try_wait() != 0) {
            (void)fi_cntr_read(pair.receives);
        }
    });
    leaves.join();
    pair.send_one();
    (void)fi_cntr_read(pair.receives);
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (pair.try_wait() != 0) {
        ASSERT_LT(Clock::now(), end);
        (void)fi_cntr_read(pair.receives);
    }
}

TEST(Waiting, WhoWaitsForMoreDoesNotTakeAnothersWaking) {
    NodeOptions options;
    options.counters = true;
    options.wait_object = FI_WAIT_UNSPEC;
    Pair pair(options);
    fid_cntr* const receives = pair.b.counters[1];
    char buffer = 0;
    for (std::uint64_t i = 1; i <= 30; ++i) {
        COMCH_FI(fi_recv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        auto waits =
            std::async(std::launch::async, [&] { return fi_cntr_wait(receives, i, 60'000); });
        for (int k = 0; k < 5; ++k) { // meanwhile it falls asleep
            EXPECT_EQ(fi_cntr_wait(receives, i + 1, 1), -FI_ETIMEDOUT);
        }
        post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, {pair.a.tx});
        const auto end = Clock::now() + std::chrono::seconds(20);
        while (waits.wait_for(std::chrono::seconds(0)) != std::future_status::ready &&
               Clock::now() < end) {
            EXPECT_EQ(fi_cntr_wait(receives, i + 1, 1), -FI_ETIMEDOUT);
        }
        ASSERT_EQ(waits.wait_for(std::chrono::seconds(0)), std::future_status::ready);
        EXPECT_EQ(waits.get(), 0);
    }
}

TEST(Waiting, ThreadsThatSleepInEveryWayOnOneCounterMissNothing) {
    constexpr std::uint64_t count = 200;
    NodeOptions options;
    options.counters = true;
    options.wait_object = FI_WAIT_FD;
    Pair pair(options);
    fid_cntr* const receives = pair.b.counters[1];
    int fd = -1;
    COMCH_FI(fi_control(&receives->fid, FI_GETWAIT, &fd));
    char buffer = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        COMCH_FI(fi_recv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    }
    std::atomic<std::uint64_t> seen[4] = {};
    std::atomic<bool> missed{false};
    std::vector<std::thread> threads;
    for (unsigned k = 0; k < 2; ++k) {
        threads.emplace_back([&, k] {
            fid* waits[] = {&receives->fid};
            while ((seen[k] = fi_cntr_read(receives)) < count && !missed) {
                pollfd entry{fd, POLLIN, 0};
                if (fi_trywait(pair.b.fabric, waits, 1) == 0 && ::poll(&entry, 1, 20'000) == 0) {
                    missed = true;
                }
            }
        });
    }
    for (unsigned k = 2; k < 4; ++k) {
        threads.emplace_back([&, k] {
            const std::uint64_t step = k == 2 ? 1 : 7;
            for (std::uint64_t i = step; i <= count && !missed; i += step) {
                if (fi_cntr_wait(receives, i, 20'000) != 0) {
                    missed = true;
                }
                seen[k] = i;
            }
        });
    }
    for (std::uint64_t i = 1; i <= count && !missed; ++i) { // each waits for what is there
        post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, {pair.a.tx});
        while ((seen[0] < i || seen[1] < i || seen[2] < i) && !missed) {
            std::this_thread::yield();
        }
    }
    EXPECT_FALSE(missed);
    COMCH_FI(fi_cntr_set(receives, count)); // whoever sleeps still need not
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(Waiting, WhoSleepsOnABusyQueueLetsOthersIn) {
    NodeOptions options;
    options.wait_object = FI_WAIT_FD;
    Pair pair(options);
    std::atomic<bool> posted{false};
    std::atomic<bool> too_late{false};
    std::atomic<unsigned> sent{0};
    std::thread sleeper([&] {
        fi_cq_tagged_entry entry{};
        EXPECT_EQ(fi_cq_sread(pair.b.rx, &entry, 1, nullptr, 60'000), 1);
    });
    std::thread floods([&] { // with what nobody has asked for
        const auto end = Clock::now() + std::chrono::seconds(20);
        while (!posted && !too_late) {
            if (fi_tinject(pair.a.ep, "x", 1, pair.to_b, 1) == 0) {
                ++sent;
            } else {
                (void)fi_cq_read(pair.a.tx, nullptr, 0);
            }
            too_late = Clock::now() > end;
        }
        post([&] { return fi_tinject(pair.a.ep, "x", 1, pair.to_b, 2); }, {pair.a.tx});
    });
    while (sent < 10'000 && !too_late) { // by then they come one after the other
        std::this_thread::yield();
    }
    char buffer = 0;
    for (int i = 0; i < 100; ++i) {
        COMCH_FI(fi_trecv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
    }
    posted = true;
    floods.join();
    sleeper.join();
    EXPECT_FALSE(too_late);
}

/// Interrupts this thread again and again, until it returns from a call.
class Interruptions {
public:
    Interruptions() = default;
    ~Interruptions() {
        over_ = true;
        thread_.join();
        (void)::sigaction(SIGUSR1, &before_, nullptr);
    }
    Interruptions(const Interruptions&) = delete;
    Interruptions& operator=(const Interruptions&) = delete;

private:
    static struct sigaction handle() {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        struct sigaction before {};
        (void)::sigaction(SIGUSR1, &action, &before);
        return before;
    }

    struct sigaction before_ = handle(); ///< before there is a thread that sends it
    std::atomic<bool> over_{false};
    pthread_t self_ = ::pthread_self();
    std::thread thread_{[this] {
        while (!over_) {
            (void)::pthread_kill(self_, SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }};
};

TEST(Waiting, EndsForAThreadThatIsInterrupted) {
    NodeOptions options;
    options.wait_object = FI_WAIT_FD;
    Node node(options);
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_eq* eq = nullptr;
    COMCH_FI(fi_eq_open(node.fabric, &attr, &eq, nullptr));
    fi_cntr_attr cntr_attr{};
    cntr_attr.wait_obj = FI_WAIT_FD;
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(node.domain, &cntr_attr, &cntr, nullptr));
    {
        const Interruptions interruptions;
        fi_cq_tagged_entry entry{};
        EXPECT_EQ(fi_cq_sread(node.rx, &entry, 1, nullptr, -1), -FI_EAGAIN);
        std::uint32_t event = 0;
        EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), -FI_EAGAIN);
        EXPECT_EQ(fi_cntr_wait(cntr, 1, -1), -FI_EINTR);
    }
    EXPECT_EQ(fi_close(&cntr->fid), 0);
    EXPECT_EQ(fi_close(&eq->fid), 0);
}

TEST(PollSet, ThreadsMayHaveSetsOfTheSameObject) {
    Node node;
    fi_cntr_attr attr{};
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(node.domain, &attr, &cntr, nullptr));
    fi_poll_attr none{};
    fid_poll* kept = nullptr;
    COMCH_FI(fi_poll_open(node.domain, &none, &kept));
    COMCH_FI(fi_poll_add(kept, &cntr->fid, 0));
    const auto come_and_go = [&] {
        fid_poll* set = nullptr;
        COMCH_FI(fi_poll_open(node.domain, &none, &set));
        for (int i = 0; i < 300000; ++i) {
            COMCH_FI(fi_poll_add(set, &cntr->fid, 0));
            COMCH_FI(fi_poll_del(set, &cntr->fid, 0));
        }
        EXPECT_EQ(fi_close(&set->fid), 0);
    };
    std::thread other(come_and_go);
    come_and_go();
    other.join();
    EXPECT_EQ(fi_close(&cntr->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&kept->fid), 0);
    EXPECT_EQ(fi_close(&cntr->fid), 0) << "a reference was lost";
}

TEST(EventQueue, ASleeperGetsWhatIsWritten) {
    Node node;
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_eq* eq = nullptr;
    COMCH_FI(fi_eq_open(node.fabric, &attr, &eq, nullptr));
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0), -FI_EAGAIN);
    std::thread writes([&] {
        fi_eq_entry written{};
        written.data = 9;
        EXPECT_EQ(fi_eq_write(eq, FI_NOTIFY, &written, sizeof(written), 0),
                  static_cast<ssize_t>(sizeof(written)));
    });
    EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof(entry), 60'000, FI_PEEK),
              static_cast<ssize_t>(sizeof(entry)));
    EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof(entry), 60'000, 0),
              static_cast<ssize_t>(sizeof(entry)));
    EXPECT_EQ(event, static_cast<std::uint32_t>(FI_NOTIFY));
    EXPECT_EQ(entry.data, 9u);
    writes.join();
    EXPECT_EQ(fi_close(&eq->fid), 0);
}

TEST(Vector, TheLowestUnusedIndexIsNext) {
    Node node;
    fi_av_attr attr{};
    attr.type = FI_AV_TABLE;
    fid_av* av = nullptr;
    COMCH_FI(fi_av_open(node.domain, &attr, &av, nullptr));
    Node a;
    Node b;
    Node c;
    const std::vector<char> names[] = {a.name(), b.name(), c.name()};
    const auto insert_all = [&] {
        for (const auto& name : names) {
            ASSERT_EQ(fi_av_insert(av, name.data(), 1, nullptr, 0, nullptr), 1);
        }
    };
    insert_all();
    fi_addr_t all[] = {0, 1, 2};
    COMCH_FI(fi_av_remove(av, all, 3, 0));
    insert_all();
    for (fi_addr_t at = 0; at < 3; ++at) {
        std::vector<char> found(names[at].size());
        std::size_t length = found.size();
        COMCH_FI(fi_av_lookup(av, at, found.data(), &length));
        EXPECT_EQ(found, names[at]) << at;
    }
    EXPECT_EQ(fi_close(&av->fid), 0);
}

TEST(Vector, NumberedServicesComeInARow) {
    NodeOptions first;
    first.service = "700";
    NodeOptions second;
    second.service = "701";
    Node one(first);
    Node two(second);
    Node client;
    fi_addr_t to[2] = {};
    ASSERT_EQ(fi_av_insertsym(client.av, nullptr, 1, "700", 2, to, 0, nullptr), 2);
    char buffer = 0;
    COMCH_FI(fi_recv(two.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    const std::vector<fid_cq*> cqs = {one.rx, two.rx, client.tx, client.rx};
    post([&] { return fi_inject(client.ep, "2", 1, to[1]); }, cqs);
    EXPECT_EQ(await(two.rx, cqs).error, 0);
    EXPECT_EQ(buffer, '2');
}

TEST(Threading, EveryModelIsGranted) {
    for (const fi_threading threading : {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN,
                                         FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT}) {
        NodeOptions options;
        options.threading = threading;
        Pair pair(options);
        EXPECT_EQ(pair.a.info->domain_attr->threading, threading);
        char buffer = 0;
        COMCH_FI(fi_recv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        post([&] { return fi_inject(pair.a.ep, "t", 1, pair.to_b); }, pair.cqs);
        EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        EXPECT_EQ(buffer, 't');
    }
}

/// Confirmations lie with a peer whose sender does not read: so many, then the sender waits.
TEST(Unconfirmed, ASenderWaitsWithWhatIsConfirmedOnly) {
    Pair pair;
    const iovec iov{const_cast<char*>("x"), 1};
    const auto send = [&](std::uint64_t flags) {
        fi_msg message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = pair.to_b;
        return fi_sendmsg(pair.a.ep, &message, flags);
    };
    // Again and again only if the peer's taking out what is there does not help.
    const auto send_patiently = [&](std::uint64_t flags) {
        ssize_t result = -FI_EAGAIN;
        for (int i = 0; result == -FI_EAGAIN && i < 1000; ++i) {
            result = send(flags);
            if (result == -FI_EAGAIN) {
                for (fid_cq* const cq : pair.cqs) {
                    (void)fi_cq_read(cq, nullptr, 0);
                }
            }
        }
        return result;
    };
    std::uint64_t sent = 0;
    ssize_t result = 0;
    while ((result = send_patiently(FI_DELIVERY_COMPLETE)) == 0 &&
           sent < 2 * wire::max_unconfirmed) {
        ++sent;
    }
    EXPECT_EQ(result, -FI_EAGAIN);
    EXPECT_EQ(sent, wire::max_unconfirmed + 1);
    EXPECT_EQ(send_patiently(0), 0) << "the peer may wait for just this";
    EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
    char byte = 0;
    COMCH_FI(fi_recv(pair.b.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
    EXPECT_EQ(send_patiently(FI_DELIVERY_COMPLETE), 0);
}

} // namespace
} // namespace comch::ofi::test
