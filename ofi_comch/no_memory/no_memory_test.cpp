// While there is no memory: a call answers -FI_ENOMEM and can be made again, what cannot be received ends
// its connection, and a queue that cannot hold what is to be reported says that it is overrun.
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/test_failing_new.hpp"
#include "core/base/test_failing_new_operators.hpp"
#include "ofi_comch/test_connection.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::FailingAllocation;
using comch::test::Files;

template <class Call> auto outlast(Call call, Files after = Files::as_before) {
    return comch::test::outlast<decltype(call())>(-FI_ENOMEM, call, after);
}

#define COMCH_OUTLAST_AND(call, files)                                                             \
    do {                                                                                           \
        SCOPED_TRACE(#call);                                                                       \
        EXPECT_EQ(outlast([&] { return (call); }, files), 0);                                      \
    } while (false)
#define COMCH_OUTLAST(call) COMCH_OUTLAST_AND(call, Files::as_before)
/// For the first of its kind, which makes what is kept and found again.
#define COMCH_OUTLAST_FIRST(call) COMCH_OUTLAST_AND(call, Files::kept)

/// Sends and receives, with all of both ends progressing.
void exchange(Pair& pair, std::size_t length, unsigned seed) {
    const std::vector<char> sent = pattern(length, seed);
    std::vector<char> got(length);
    COMCH_FI(fi_trecv(pair.b.ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, seed, 0, nullptr));
    post(
        [&] { return fi_tsend(pair.a.ep, sent.data(), length, nullptr, pair.to_b, seed, nullptr); },
        pair.cqs);
    EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
    EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
    EXPECT_EQ(got, sent);
}

TEST(NoMemory, ObjectsCanBeMadeOnceThereIsSome) {
    InfoHints hints;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    (void)environment();
    fi_freeinfo(query(hints.value)); // libfabric loads its providers
    fi_info* info = nullptr;
    // (libfabric takes the error of one provider for an answer that there is nothing.)
    EXPECT_EQ(comch::test::outlast<int>(
                  -FI_ENODATA,
                  [&] {
                      return fi_getinfo(FI_VERSION(1, 17), nullptr, "named", FI_SOURCE, hints.value,
                                        &info);
                  },
                  Files::kept),
              0);
    ASSERT_NE(info, nullptr);
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_cq* cq = nullptr;
    fid_cntr* cntr = nullptr;
    fid_eq* eq = nullptr;
    fid_poll* poll = nullptr;
    fid_av* av = nullptr;
    fid_ep* srx = nullptr;
    fid_ep* ep = nullptr;
    fid_mr* mr = nullptr;
    COMCH_OUTLAST(fi_fabric(info->fabric_attr, &fabric, nullptr));
    COMCH_OUTLAST(fi_domain(fabric, info, &domain, nullptr));
    fi_eq_attr eq_attr{};
    COMCH_OUTLAST(fi_eq_open(fabric, &eq_attr, &eq, nullptr));
    COMCH_OUTLAST(fi_domain_bind(domain, &eq->fid, 0));
    fi_cq_attr cq_attr{};
    cq_attr.size = 1000;
    COMCH_OUTLAST(fi_cq_open(domain, &cq_attr, &cq, nullptr));
    fi_cntr_attr cntr_attr{};
    COMCH_OUTLAST(fi_cntr_open(domain, &cntr_attr, &cntr, nullptr));
    fi_poll_attr poll_attr{};
    COMCH_OUTLAST(fi_poll_open(domain, &poll_attr, &poll));
    COMCH_OUTLAST(fi_poll_add(poll, &cq->fid, 0));
    fi_rx_attr rx_attr{};
    COMCH_OUTLAST(fi_srx_context(domain, &rx_attr, &srx, nullptr));
    fi_av_attr av_attr{};
    COMCH_OUTLAST(fi_av_open(domain, &av_attr, &av, nullptr));
    COMCH_OUTLAST(fi_endpoint(domain, info, &ep, nullptr));
    COMCH_OUTLAST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    COMCH_OUTLAST(fi_ep_bind(ep, &cntr->fid, FI_SEND));
    COMCH_OUTLAST(fi_ep_bind(ep, &av->fid, 0));
    COMCH_OUTLAST(fi_ep_bind(ep, &srx->fid, 0));
    std::array<char, 64> memory{};
    COMCH_OUTLAST(fi_mr_reg(domain, memory.data(), memory.size(), FI_REMOTE_WRITE, 0, 7,
                            FI_RMA_EVENT, &mr, nullptr));
    COMCH_OUTLAST(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
    COMCH_OUTLAST_FIRST(fi_enable(ep));

    {
        // It is the one that was asked for, and the name is its.
        NodeOptions options;
        options.caps = hints->caps;
        Node peer(options);
        char got[8] = {};
        COMCH_FI(fi_trecv(srx, got, sizeof(got), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        const fi_addr_t to = peer.look_up("named");
        post([&] { return fi_tinject(peer.ep, "hello", 6, to, 1); }, {peer.tx, cq});
        EXPECT_EQ(await(cq, {peer.tx}).error, 0);
        EXPECT_STREQ(got, "hello");
        const std::uint64_t word = 3;
        post([&] { return fi_inject_write(peer.ep, &word, sizeof(word), to, 0, 7); },
             {peer.tx, cq});
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (fi_cntr_read(cntr) == 0 && Clock::now() < end) {
            (void)fi_cq_read(peer.tx, nullptr, 0);
        }
        EXPECT_EQ(memory[0], 3);
    }
    COMCH_OUTLAST(fi_close(&ep->fid));
    COMCH_OUTLAST(fi_close(&mr->fid));
    COMCH_OUTLAST(fi_close(&srx->fid));
    COMCH_OUTLAST(fi_close(&av->fid));
    COMCH_OUTLAST(fi_close(&poll->fid));
    COMCH_OUTLAST(fi_close(&cntr->fid));
    COMCH_OUTLAST(fi_close(&cq->fid));
    COMCH_OUTLAST(fi_close(&domain->fid));
    COMCH_OUTLAST(fi_close(&eq->fid));
    COMCH_OUTLAST(fi_close(&fabric->fid));
    fi_freeinfo(info);
}

TEST(NoMemory, AddressesAreInsertedAndRemovedLater) {
    Pair pair;
    Node other;
    const std::vector<char> name = other.name();
    fi_addr_t first = FI_ADDR_NOTAVAIL;
    fi_addr_t second = FI_ADDR_NOTAVAIL;
    // Each address that there is no memory for is one that was not inserted.
    const auto insert = [&](auto&& call) { EXPECT_EQ(comch::test::outlast<int>(0, call), 1); };
    insert([&] { return fi_av_insert(pair.a.av, name.data(), 1, &first, 0, nullptr); });
    insert([&] {
        return fi_av_insertsvc(pair.a.av, nullptr, "a-name-of-some-length", &second, 0, nullptr);
    });
    EXPECT_NE(first, second);
    COMCH_OUTLAST(fi_av_remove(pair.a.av, &first, 1, 0));
    fi_addr_t again = FI_ADDR_NOTAVAIL;
    insert([&] { return fi_av_insert(pair.a.av, name.data(), 1, &again, 0, nullptr); });
    EXPECT_EQ(again, first);
    // And what was inserted is whom it names.
    char got[8] = {};
    COMCH_FI(fi_trecv(other.ep, got, sizeof(got), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    post([&] { return fi_tinject(pair.a.ep, "hello", 6, again, 1); }, {pair.a.tx, other.rx});
    EXPECT_EQ(await(other.rx, {pair.a.tx}).error, 0);
    EXPECT_STREQ(got, "hello");
}

class NoMemoryFor : public testing::TestWithParam<std::size_t> {};

/// A message, a write and a read whose posts find none at first, the one that connects included.
TEST_P(NoMemoryFor, PostsCanBeMadeAgain) {
    const std::size_t length = GetParam();
    Pair pair;
    const std::vector<char> sent = pattern(length, 1);
    std::vector<char> got(length);
    std::vector<char> read(length);
    const iovec parts[] = {{got.data(), length / 2},
                           {got.data() + length / 2, length - length / 2}};
    const auto run = [&](auto&& begin) {
        post([&] { return outlast(begin, Files::kept); }, pair.cqs);
        EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
    };
    for (int round = 0; round < 2; ++round) {
        std::fill(got.begin(), got.end(), 0);
        EXPECT_EQ(outlast([&] {
                      return fi_trecvv(pair.b.ep, parts, nullptr, 2, FI_ADDR_UNSPEC, 1, 0, nullptr);
                  }),
                  0);
        run([&] {
            return fi_tsend(pair.a.ep, sent.data(), length, nullptr, pair.to_b, 1, nullptr);
        });
        EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        EXPECT_EQ(got, sent);
    }
    pair.b.expose(got.data(), length, 5);
    std::fill(got.begin(), got.end(), 0);
    run([&] {
        return fi_write(pair.a.ep, sent.data(), length, nullptr, pair.to_b, 0, 5, nullptr);
    });
    EXPECT_EQ(got, sent);
    run([&] { return fi_read(pair.a.ep, read.data(), length, nullptr, pair.to_b, 0, 5, nullptr); });
    EXPECT_EQ(read, sent);
}

/// The receiver's n-th allocation fails, for each n: of the connection, and of a message that somebody has
/// asked for, or nobody yet. That message may be lost with its connection, which who asked for it is told;
/// the next one comes.
void expect_one_or_the_next(std::size_t length, bool is_asked_for) {
    const std::vector<char> sent = pattern(length, 1);
    bool failed = true;
    for (unsigned n = 1; failed; ++n) {
        SCOPED_TRACE(n);
        Pair pair;
        std::vector<char> got(length);
        const auto send = [&] {
            return fi_tsend(pair.a.ep, sent.data(), length, nullptr, pair.to_b, 1, nullptr);
        };
        const auto ask = [&] {
            COMCH_FI(
                fi_trecv(pair.b.ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        };
        unsigned left = n;
        fi_cq_tagged_entry entry{};
        ssize_t received = -FI_EAGAIN;
        const auto receiver_progresses = [&] {
            const FailingAllocation failing(left);
            const ssize_t result = fi_cq_read(pair.b.rx, &entry, received == -FI_EAGAIN ? 1 : 0);
            received = result == 1 || result == -FI_EAVAIL ? result : received;
            EXPECT_TRUE(received == result || result == -FI_EAGAIN || result == -FI_ENOMEM)
                << result;
            left = FailingAllocation::left();
        };
        if (is_asked_for) {
            ask();
        }
        ssize_t posted = -FI_EAGAIN;
        for (const auto end = Clock::now() + std::chrono::seconds(60);
             posted == -FI_EAGAIN && Clock::now() < end;) {
            posted = send();
            receiver_progresses();
        }
        ASSERT_TRUE(posted == 0 || posted == -FI_ENOMEM) << posted;
        for (int rounds = 0; rounds < 1000; ++rounds) {
            receiver_progresses();
            (void)fi_cq_read(pair.a.tx, nullptr, 0);
        }
        failed = left == 0;
        if (!is_asked_for) {
            ask();
        }
        for (int rounds = 0; received == -FI_EAGAIN && rounds < 10000; ++rounds) {
            receiver_progresses();
            (void)fi_cq_read(pair.a.tx, nullptr, 0);
        }
        if (posted == 0) {
            const Event event = await(pair.a.tx, pair.cqs);
            EXPECT_TRUE(event.error == 0 || event.error == FI_ECONNREFUSED ||
                        event.error == FI_ECONNRESET || event.error == FI_ENOMEM)
                << fi_strerror(event.error);
        }
        if (received != 1) { // it was lost
            EXPECT_TRUE(failed);
            if (received == -FI_EAVAIL) {
                fi_cq_err_entry error{};
                EXPECT_EQ(fi_cq_readerr(pair.b.rx, &error, 0), 1);
                EXPECT_TRUE(error.err == FI_ENOMEM || error.err == FI_EIO) << error.err;
                ask();
            }
            post(send, pair.cqs);
            EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
            EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        }
        EXPECT_EQ(got, sent);
        exchange(pair, length, 2);
    }
}

TEST_P(NoMemoryFor, WhatIsAskedForComesOrFails) {
    expect_one_or_the_next(GetParam(), true);
}

TEST_P(NoMemoryFor, WhatComesUnaskedIsKeptOrEndsItsConnection) {
    expect_one_or_the_next(GetParam(), false);
}

/// A receive that finds none, of a message that has waited, is not posted, and the message waits on.
TEST_P(NoMemoryFor, WhatHasWaitedIsStillThere) {
    const std::size_t length = GetParam();
    Pair pair;
    const std::vector<char> sent = pattern(length, 1);
    std::vector<char> got(length);
    const auto send = [&] {
        return fi_tsend(pair.a.ep, sent.data(), length, nullptr, pair.to_b, 1, nullptr);
    };
    const auto ask = [&] {
        return outlast([&] {
            return fi_trecv(pair.b.ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr);
        });
    };
    for (int round = 0; round < 3; ++round) {
        std::fill(got.begin(), got.end(), 0);
        post(send, pair.cqs);
        for (int turns = 0; turns < 1000;
             ++turns) { // one that was posted all the same would be served
            EXPECT_EQ(fi_cq_read(pair.b.rx, nullptr, 0), -FI_EAGAIN);
        }
        EXPECT_EQ(ask(), 0);
        EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        EXPECT_EQ(got, sent);
    }
    // Several into one buffer.
    std::vector<char> buffer(4 * length + 64);
    post(send, pair.cqs);
    post(send, pair.cqs);
    for (int turns = 0; turns < 1000; ++turns) {
        (void)fi_cq_read(pair.b.rx, nullptr, 0);
    }
    const iovec iov{buffer.data(), buffer.size()};
    fi_msg_tagged message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.tag = 1;
    EXPECT_EQ(outlast([&] { return fi_trecvmsg(pair.b.ep, &message, FI_MULTI_RECV); }), 0);
    for (unsigned i = 0; i < 2; ++i) {
        EXPECT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        EXPECT_EQ(std::memcmp(buffer.data() + i * length, sent.data(), length), 0);
    }
}

TEST(NoMemory, NobodyIsToldSoLater) {
    Node node;
    const fi_addr_t to = node.look_up("a name that nobody listens under");
    for (int round = 0; round < 3; ++round) {
        post(
            [&] {
                return outlast(
                    [&] { return fi_tsend(node.ep, "hello", 6, nullptr, to, 1, nullptr); },
                    Files::kept);
            },
            {node.tx});
        const Event event = await(node.tx);
        EXPECT_EQ(event.error, FI_EHOSTUNREACH);
    }
}

/// The n-th allocation of who hears of its peer's end fails, for each n: everything under way ends all the
/// same, once.
TEST(NoMemory, APeersEndIsTold) {
    constexpr std::size_t length = 1 << 20;
    constexpr int count = 5;
    const std::vector<char> sent = pattern(length, 1);
    bool failed = true;
    for (unsigned n = 1; failed; ++n) {
        SCOPED_TRACE(n);
        Node a;
        auto b = std::make_unique<Node>();
        const fi_addr_t to = a.add(b->name());
        for (int i = 0; i < count; ++i) {
            post([&] { return fi_tsend(a.ep, sent.data(), length, nullptr, to, 1, nullptr); },
                 {a.tx, b->rx});
        }
        b.reset();
        unsigned left = n;
        int ended = 0;
        const auto end = Clock::now() + std::chrono::seconds(60);
        for (int idle = 0; (ended < count || idle < 100) && Clock::now() < end;) {
            fi_cq_tagged_entry entry{};
            ssize_t result = 0;
            {
                const FailingAllocation failing(left);
                result = fi_cq_read(a.tx, &entry, 1);
                left = FailingAllocation::left();
            }
            EXPECT_TRUE(result == -FI_EAGAIN || result == -FI_EAVAIL || result == -FI_ENOMEM)
                << result;
            idle += ended >= count ? 1 : 0;
            if (result == -FI_EAVAIL) {
                fi_cq_err_entry error{};
                EXPECT_EQ(fi_cq_readerr(a.tx, &error, 0), 1);
                EXPECT_TRUE(error.err == FI_ECONNRESET || error.err == FI_EIO ||
                            error.err == FI_EOVERRUN)
                    << error.err;
                ended = error.err == FI_EOVERRUN ? count : ended + 1;
                if (error.err == FI_EOVERRUN) {
                    break; // and so for ever
                }
            }
        }
        EXPECT_EQ(ended, count);
        failed = left == 0;
    }
}

INSTANTIATE_TEST_SUITE_P(Lengths, NoMemoryFor, testing::Values(8, 8 << 10, 40 << 10, 1 << 20));

/// A message comes in the call in which somebody who connects finds none.
TEST(NoMemory, WhatHasComeIsToldIfTheRestFails) {
    Pair pair;
    exchange(pair, 8, 1);
    Node third;
    const fi_addr_t to = third.add(pair.b.name());
    EXPECT_EQ(fi_tinject(third.ep, "late", 5, to, 9), -FI_EAGAIN); // it connects
    bool failed = false;
    for (const auto end = Clock::now() + std::chrono::seconds(60); !failed && Clock::now() < end;) {
        char got[8] = {};
        COMCH_FI(fi_trecv(pair.b.ep, got, sizeof(got), nullptr, FI_ADDR_UNSPEC, 7, 0, got));
        ASSERT_EQ(fi_tinject(pair.a.ep, "hello", 6, pair.to_b, 7), 0);
        fi_cq_tagged_entry entry{};
        ssize_t read = 0;
        {
            const FailingAllocation failing(1);
            read = fi_cq_read(pair.b.rx, &entry, 1);
            failed = FailingAllocation::happened();
        }
        ASSERT_EQ(read, 1);
        EXPECT_EQ(entry.op_context, got);
        EXPECT_STREQ(got, "hello");
    }
    EXPECT_TRUE(failed);
}

TEST(NoMemory, OverrunsACompletionQueue) {
    Pair pair;
    exchange(pair, 8, 1);
    char text[8] = "hello";
    std::vector<char> got(1000);
    unsigned sent = 0;
    bool failed = false;
    for (; !failed && sent < 1000; ++sent) {
        const ssize_t result = [&] {
            const FailingAllocation failing(1);
            const ssize_t posted =
                fi_tsend(pair.a.ep, text, sizeof(text), nullptr, pair.to_b, 7, nullptr);
            failed = FailingAllocation::happened();
            return posted;
        }();
        if (result == -FI_EAGAIN) {
            (void)fi_cq_read(pair.b.rx, nullptr, 0);
            --sent;
            continue;
        }
        ASSERT_EQ(result, 0);
    }
    ASSERT_TRUE(failed);
    // One more is not reported either.
    post([&] { return fi_tsend(pair.a.ep, text, sizeof(text), nullptr, pair.to_b, 7, nullptr); },
         {pair.b.rx});
    std::array<fi_cq_tagged_entry, 7> entries{};
    unsigned reported = 0;
    for (ssize_t read = 0; (read = fi_cq_read(pair.a.tx, entries.data(), entries.size())) > 0;) {
        reported += static_cast<unsigned>(read);
    }
    EXPECT_EQ(reported, sent - 1);
    for (int look = 0; look < 3; ++look) {
        EXPECT_EQ(fi_cq_read(pair.a.tx, entries.data(), entries.size()), -FI_EAVAIL);
        fi_cq_err_entry error{};
        EXPECT_EQ(fi_cq_readerr(pair.a.tx, &error, 0), 1);
        EXPECT_EQ(error.err, FI_EOVERRUN);
        EXPECT_STRNE(fi_cq_strerror(pair.a.tx, error.prov_errno, nullptr, nullptr, 0), "");
    }
    // The messages have gone, and the other queue is as it was.
    for (unsigned i = 0; i < sent + 1; ++i) {
        char room[8] = {};
        COMCH_FI(fi_trecv(pair.b.ep, room, sizeof(room), nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr));
        EXPECT_EQ(await(pair.b.rx).error, 0);
        EXPECT_STREQ(room, text);
    }
}

TEST(NoMemory, LeavesNothingInAnEventQueue) {
    Node node(connected());
    const std::uint64_t entry[4] = {1, 2, 3, 4};
    const auto write = [&] { return fi_eq_write(node.eq, FI_NOTIFY, entry, sizeof(entry), 0); };
    EXPECT_EQ(outlast(write), 32);
    std::uint64_t got[8] = {};
    std::uint32_t event = 0;
    EXPECT_EQ(fi_eq_read(node.eq, &event, got, sizeof(got), 0), 32);
    EXPECT_EQ(event, std::uint32_t{FI_NOTIFY});
    EXPECT_EQ(got[3], 4u);
    EXPECT_EQ(fi_eq_read(node.eq, &event, got, sizeof(got), 0), -FI_EAGAIN);
}

/// What a listener hears of one client: its request, or nothing, if the client is refused.
fi_info* request_of(Listener& listener, Client& client, unsigned& left) {
    std::uint32_t event = 0;
    alignas(fi_eq_cm_entry) char bytes[sizeof(fi_eq_cm_entry) + 64];
    for (const auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;) {
        const ssize_t read = [&] {
            const FailingAllocation failing(left);
            const ssize_t result = fi_eq_read(listener.eq, &event, bytes, sizeof(bytes), 0);
            left = FailingAllocation::left();
            return result;
        }();
        if (read > 0) {
            EXPECT_EQ(event, std::uint32_t{FI_CONNREQ});
            return reinterpret_cast<const fi_eq_cm_entry*>(bytes)->info;
        }
        EXPECT_TRUE(read == -FI_EAGAIN || read == -FI_ENOMEM) << read;
        if (fi_eq_read(client.node.eq, &event, bytes, sizeof(bytes), FI_PEEK) == -FI_EAVAIL) {
            fi_eq_err_entry error{};
            EXPECT_GT(fi_eq_readerr(client.node.eq, &error, 0), 0);
            EXPECT_TRUE(error.err == FI_ECONNREFUSED || error.err == FI_ENOMEM)
                << fi_strerror(error.err);
            return nullptr;
        }
    }
    ADD_FAILURE() << "neither heard anything";
    return nullptr;
}

/// The listener's n-th allocation fails, for each n.
TEST(NoMemory, RefusesConnectionsOrMakesThem) {
    bool failed = true;
    unsigned refused = 0;
    for (unsigned n = 1; failed; ++n) {
        SCOPED_TRACE(n);
        Listener listener("kitchen");
        unsigned left = n;
        for (int attempt = 0; attempt < 2; ++attempt) {
            Client client("kitchen", "hungry");
            ASSERT_EQ(client.result, 0);
            fi_info* const offer = request_of(listener, client, left);
            if (attempt == 0) {
                failed = std::exchange(left, 0u) == 0;
            }
            if (offer == nullptr) {
                EXPECT_EQ(attempt, 0); // the second finds memory
                ++refused;
                continue;
            }
            Node server(connected(), offer, listener.fabric);
            fi_freeinfo(offer);
            COMCH_OUTLAST(fi_accept(server.ep, nullptr, 0));
            EXPECT_EQ(next_event(server.eq, {client.node.eq}).event, std::uint32_t{FI_CONNECTED});
            EXPECT_EQ(next_event(client.node.eq, {server.eq}).event, std::uint32_t{FI_CONNECTED});
        }
    }
    EXPECT_GT(refused, 0u);
}

TEST(NoMemory, ConnectsLater) {
    Listener listener("kitchen");
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    fi_info* const found = query(hints.value, "kitchen");
    Node node(connected());
    COMCH_OUTLAST_FIRST(fi_connect(node.ep, found->dest_addr, "hungry", 6));
    fi_freeinfo(found);
    const CmEvent request = next_event(listener.eq, {node.eq});
    EXPECT_EQ(request.event, std::uint32_t{FI_CONNREQ});
    EXPECT_EQ(request.data, "hungry");
    fi_freeinfo(request.info);
    fid_pep* pep = nullptr;
    COMCH_OUTLAST(fi_passive_ep(listener.fabric, listener.info, &pep, nullptr));
    COMCH_OUTLAST(fi_pep_bind(pep, &listener.eq->fid, 0));
    EXPECT_EQ(outlast([&] { return fi_listen(pep); }, Files::kept),
              -FI_EADDRINUSE); // as it is named
    COMCH_OUTLAST(fi_close(&pep->fid));
}

} // namespace
} // namespace comch::ofi::test
