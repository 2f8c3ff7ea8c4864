// Messages between reliable-datagram endpoints: plain and tagged, of every length.
#include <array>
#include <optional>
#include <thread>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::size_t lengths[] = {0,     1,     8,     47,    48,    49,      56,
                                   57,    1000,  2040,  2048,  2049,  4096,    32000,
                                   32760, 32768, 32769, 65536, 99999, 1000000, 5000000};

class Message : public testing::Test {
protected:
    Pair pair_;
    Node& a_ = pair_.a;
    Node& b_ = pair_.b;

    Event sent() { return await(a_.tx, pair_.cqs); }
    Event received() { return await(b_.rx, pair_.cqs); }
    /// `data` must stay until the message has been received.
    void send(const std::vector<char>&& data, std::uint64_t tag) = delete;
    void send(const std::vector<char>& data, std::uint64_t tag) {
        post(
            [&] {
                return fi_tsend(a_.ep, data.data(), data.size(), nullptr, pair_.to_b, tag, &a_);
            },
            pair_.cqs);
    }
};

TEST_F(Message, EveryLengthArrivesPostedBefore) {
    for (const std::size_t length : lengths) {
        const auto data = pattern(length, 1);
        std::vector<char> buffer(length + 1, 'x');
        COMCH_FI(fi_recv(b_.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, &buffer));
        post([&] { return fi_send(a_.ep, data.data(), length, nullptr, pair_.to_b, &a_); },
             pair_.cqs);
        const Event event = received();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, &buffer);
        EXPECT_EQ(event.entry.len, length);
        EXPECT_EQ(event.entry.flags, FI_RECV | FI_MSG);
        EXPECT_EQ(event.source, pair_.to_a);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), buffer.begin())) << length;
        EXPECT_EQ(buffer[length], 'x');
        const Event done = sent();
        EXPECT_EQ(done.error, 0);
        EXPECT_EQ(done.entry.op_context, &a_);
        EXPECT_EQ(done.entry.flags, FI_SEND | FI_MSG);
    }
}

TEST_F(Message, EveryLengthArrivesPostedAfter) {
    for (const std::size_t length : lengths) {
        const auto data = pattern(length, 2);
        send(data, 7);
        for (int i = 0; i < 100; ++i) {
            (void)fi_cq_read(b_.rx, nullptr, 0);
        }
        std::vector<char> buffer(length + 1, 'x');
        COMCH_FI(fi_trecv(b_.ep, buffer.data(), buffer.size(), nullptr, pair_.to_a, 7, 0, &buffer));
        const Event event = received();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.len, length);
        EXPECT_EQ(event.entry.tag, 7u);
        EXPECT_EQ(event.entry.flags, FI_RECV | FI_TAGGED);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), buffer.begin())) << length;
        EXPECT_EQ(sent().error, 0);
    }
}

TEST_F(Message, LongOnesWhoseSenderLeavesInOrderAreLostAsOfOneThatDied) {
    const auto data = pattern(1'000'000, 1);
    std::array<std::vector<char>, 3> buffers;
    for (std::vector<char>& buffer : buffers) {
        buffer.resize(data.size());
        COMCH_FI(fi_trecv(b_.ep, buffer.data(), buffer.size(), nullptr, pair_.to_a, 1, 0, &buffer));
    }
    send(data, 2); // so that they know each other
    std::vector<char> other(data.size());
    COMCH_FI(fi_trecv(b_.ep, other.data(), other.size(), nullptr, pair_.to_a, 2, 0, &other));
    EXPECT_EQ(received().error, 0);
    for (unsigned i = 0; i < buffers.size(); ++i) {
        send(data, 1);
    }
    COMCH_FI(fi_close(&std::exchange(a_.ep, nullptr)->fid));
    for (std::vector<char>& buffer : buffers) {
        const Event event = await(b_.rx);
        EXPECT_EQ(event.error, FI_ECONNRESET);
        EXPECT_EQ(event.failure.op_context, &buffer);
    }
}

TEST_F(Message, VectorsAreGatheredAndScattered) {
    for (const std::size_t length : {std::size_t{12}, std::size_t{3000}, std::size_t{300000}}) {
        auto data = pattern(length, 3);
        std::vector<char> buffer(length);
        const std::size_t third = length / 3;
        const iovec from[] = {
            {data.data(), third}, {nullptr, 0}, {data.data() + third, length - third}};
        const iovec to[] = {{buffer.data(), length - 5}, {buffer.data() + length - 5, 5}};
        COMCH_FI(fi_trecvv(b_.ep, to, nullptr, 2, FI_ADDR_UNSPEC, 1, 0, nullptr));
        post([&] { return fi_tsendv(a_.ep, from, nullptr, 3, pair_.to_b, 1, nullptr); }, pair_.cqs);
        EXPECT_EQ(received().entry.len, length);
        EXPECT_EQ(sent().error, 0);
        EXPECT_EQ(buffer, data);
    }
}

TEST_F(Message, TagsMatchWithIgnoredBitsInOrder) {
    int low = 0;
    int high = 0;
    int any = 0;
    COMCH_FI(fi_trecv(b_.ep, &high, sizeof(high), nullptr, FI_ADDR_UNSPEC, 0x200, 0xff, &high));
    COMCH_FI(fi_trecv(b_.ep, &low, sizeof(low), nullptr, FI_ADDR_UNSPEC, 0x105, 0, &low));
    COMCH_FI(
        fi_trecv(b_.ep, &any, sizeof(any), nullptr, FI_ADDR_UNSPEC, 0, ~std::uint64_t{0}, &any));
    const std::pair<int, std::uint64_t> messages[] = {{1, 0x105}, {2, 0x2ab}, {3, 0x105}};
    for (const auto& message : messages) {
        post(
            [&] {
                return fi_tinject(a_.ep, &message.first, sizeof(message.first), pair_.to_b,
                                  message.second);
            },
            pair_.cqs);
    }
    EXPECT_EQ(received().entry.op_context, &low);
    const Event second = received();
    EXPECT_EQ(second.entry.op_context, &high);
    EXPECT_EQ(second.entry.tag, 0x2abu);
    EXPECT_EQ(received().entry.op_context, &any);
    EXPECT_EQ(low, 1);
    EXPECT_EQ(high, 2);
    EXPECT_EQ(any, 3);
}

TEST_F(Message, LongAndShortOnesOfOneTagStayInOrder) {
    // Named: they are read until they have been received.
    const auto large = pattern(200000, 1);
    const auto small = pattern(10, 1);
    for (int i = 0; i < 20; ++i) {
        send(i % 2 == 0 ? large : small, 5);
    }
    for (int i = 0; i < 20; ++i) {
        std::vector<char> buffer(large.size());
        COMCH_FI(
            fi_trecv(b_.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, 5, 0, nullptr));
        EXPECT_EQ(received().entry.len, i % 2 == 0 ? large.size() : 10);
    }
}

TEST_F(Message, RemoteDataArrivesBesideTheMessage) {
    char buffer[8] = {};
    COMCH_FI(fi_recv(b_.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, nullptr));
    post(
        [&] {
            return fi_senddata(a_.ep, "hello", 6, nullptr, 0x123456789abcdef0, pair_.to_b, nullptr);
        },
        pair_.cqs);
    Event event = received();
    EXPECT_EQ(event.entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(event.entry.data, 0x123456789abcdef0u);
    EXPECT_STREQ(buffer, "hello");
    COMCH_FI(fi_trecv(b_.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, 3, 0, nullptr));
    post([&] { return fi_tinjectdata(a_.ep, "again", 6, 77, pair_.to_b, 3); }, pair_.cqs);
    event = received();
    EXPECT_EQ(event.entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(event.entry.data, 77u);
    EXPECT_STREQ(buffer, "again");
}

TEST_F(Message, TooLongForItsBufferIsAnErrorWithTheRest) {
    for (const std::size_t length : {std::size_t{20}, std::size_t{100000}}) {
        const auto data = pattern(length, 4);
        char buffer[8] = {};
        COMCH_FI(fi_trecv(b_.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, 1, 0, &buffer));
        send(data, 1);
        const Event event = received();
        EXPECT_EQ(event.error, FI_ETRUNC);
        EXPECT_EQ(event.failure.op_context, &buffer);
        EXPECT_EQ(event.failure.len, sizeof(buffer));
        EXPECT_EQ(event.failure.olen, length - sizeof(buffer));
        EXPECT_EQ(std::memcmp(buffer, data.data(), sizeof(buffer)), 0);
        EXPECT_EQ(sent().error, 0);
        char text[256];
        EXPECT_NE(std::string(
                      fi_cq_strerror(b_.rx, event.failure.prov_errno, nullptr, text, sizeof(text))),
                  "");
    }
}

TEST_F(Message, ACanceledReceiveTakesNothing) {
    char first[8] = {};
    char second[8] = {};
    COMCH_FI(fi_trecv(b_.ep, first, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &first));
    COMCH_FI(fi_trecv(b_.ep, second, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &second));
    EXPECT_EQ(fi_cancel(&b_.ep->fid, &first), 0);
    const Event event = received();
    EXPECT_EQ(event.error, FI_ECANCELED);
    EXPECT_EQ(event.failure.op_context, &first);
    EXPECT_EQ(fi_cancel(&b_.ep->fid, &first), -FI_ENOENT);
    const auto data = pattern(8, 1);
    send(data, 1);
    EXPECT_EQ(received().entry.op_context, &second);
}

TEST_F(Message, PeekClaimAndDiscard) {
    const auto peek = [&](std::uint64_t flags, void* context) {
        fi_msg_tagged message{};
        message.tag = 9;
        message.addr = FI_ADDR_UNSPEC;
        message.context = context;
        COMCH_FI(fi_trecvmsg(b_.ep, &message, flags));
        return received();
    };
    fi_context one{};
    EXPECT_EQ(peek(FI_PEEK, &one).error, FI_ENOMSG);
    for (const std::size_t length : {std::size_t{100}, std::size_t{200000}}) {
        const auto data = pattern(length, 5);
        for (int i = 0; i < 4; ++i) {
            send(data, 9);
        }
        Event event;
        while ((event = peek(FI_PEEK, &one)).error == FI_ENOMSG) {
        }
        EXPECT_EQ(event.entry.len, length);
        EXPECT_EQ(event.entry.tag, 9u);
        EXPECT_EQ(peek(FI_PEEK | FI_CLAIM, &one).entry.len, length);
        EXPECT_EQ(peek(FI_PEEK | FI_DISCARD, nullptr).error, 0);
        // What was claimed is not found by others.
        std::vector<char> buffer(length);
        COMCH_FI(fi_trecv(b_.ep, buffer.data(), length, nullptr, FI_ADDR_UNSPEC, 9, 0, &buffer));
        EXPECT_EQ(received().entry.op_context, &buffer);
        std::vector<char> claimed(length);
        iovec iov{claimed.data(), length};
        fi_msg_tagged message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.context = &one;
        message.tag = 9;
        COMCH_FI(fi_trecvmsg(b_.ep, &message, FI_CLAIM));
        event = received();
        EXPECT_EQ(event.entry.op_context, &one);
        EXPECT_EQ(claimed, data);
        fi_context two{};
        while ((event = peek(FI_PEEK | FI_CLAIM, &two)).error == FI_ENOMSG) {
        }
        message.context = &two;
        COMCH_FI(fi_trecvmsg(b_.ep, &message, FI_CLAIM | FI_DISCARD));
        EXPECT_EQ(received().entry.op_context, &two);
        EXPECT_EQ(peek(FI_PEEK, &one).error, FI_ENOMSG);
        for (int i = 0; i < 4; ++i) {
            EXPECT_EQ(sent().error, 0); // also those that nobody wanted
        }
    }
}

TEST_F(Message, AMultiReceiveTakesUntilItIsFull) {
    std::size_t minimum = 100;
    COMCH_FI(
        fi_setopt(&b_.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof(minimum)));
    std::vector<char> buffer(100000 + 450);
    const auto data = pattern(100, 6);
    const auto large = pattern(100000, 7);
    post([&] { return fi_send(a_.ep, data.data(), 100, nullptr, pair_.to_b, nullptr); }, pair_.cqs);
    post_multi_receive(b_.ep, buffer);
    for (int i = 0; i < 4; ++i) {
        const auto& next = i == 2 ? large : data;
        post([&] { return fi_send(a_.ep, next.data(), next.size(), nullptr, pair_.to_b, nullptr); },
             pair_.cqs);
    }
    std::size_t total = 0;
    for (int i = 0; i < 5; ++i) {
        const Event event = received();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, &buffer);
        EXPECT_GE(event.entry.buf, buffer.data());
        const auto& expected = event.entry.len == 100 ? data : large;
        EXPECT_EQ(std::memcmp(event.entry.buf, expected.data(), event.entry.len), 0);
        total += event.entry.len;
        EXPECT_EQ((event.entry.flags & FI_MULTI_RECV) != 0, i == 4) << i;
    }
    EXPECT_EQ(total, large.size() + 400);
}

TEST_F(Message, AMultiReceiveWithoutAMinimumTakesUntilItIsFull) {
    const std::size_t minimum = 0;
    COMCH_FI(
        fi_setopt(&b_.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum, sizeof(minimum)));
    std::vector<char> buffers[2] = {std::vector<char>(200), std::vector<char>(200)};
    for (std::vector<char>& buffer : buffers) {
        post_multi_receive(b_.ep, buffer);
    }
    const auto data = pattern(200, 1);
    for (const std::size_t length : {100, 99, 1, 200}) {
        post([&] { return fi_inject(a_.ep, data.data(), length, pair_.to_b); }, pair_.cqs);
        const Event event = received();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.len, length);
        EXPECT_EQ(event.entry.op_context, &buffers[length == 200 ? 1 : 0]);
        EXPECT_EQ((event.entry.flags & FI_MULTI_RECV) != 0, length == 1 || length == 200);
    }
}

TEST_F(Message, ACanceledMultiReceiveIsReleasedOnceAndAfterWhatIsOnItsWay) {
    constexpr std::size_t length = 4 << 20;
    const auto data = pattern(length, 8);
    for (int round = 0; round < 8; ++round) {
        std::vector<char> buffer(3 * length);
        post_multi_receive(b_.ep, buffer);
        const char first = 'f';
        post([&] { return fi_inject(a_.ep, &first, 1, pair_.to_b); }, pair_.cqs);
        EXPECT_EQ(received().entry.len, 1u);
        post([&] { return fi_send(a_.ep, data.data(), length, nullptr, pair_.to_b, nullptr); },
             pair_.cqs);
        (void)fi_cq_read(b_.rx, nullptr, 0); // the message is there, its data may not be
        COMCH_FI(fi_cancel(&b_.ep->fid, &buffer));
        const Event whole = received();
        ASSERT_EQ(whole.error, 0);
        EXPECT_EQ(whole.entry.len, length);
        EXPECT_EQ(whole.entry.flags & FI_MULTI_RECV, 0u);
        EXPECT_EQ(std::memcmp(whole.entry.buf, data.data(), length), 0);
        const Event end = received();
        EXPECT_EQ(end.error, FI_ECANCELED);
        EXPECT_EQ(end.failure.op_context, &buffer);
        EXPECT_NE(end.failure.flags & FI_MULTI_RECV, 0u);
        EXPECT_EQ(sent().error, 0);
    }
}

TEST_F(Message, DirectedReceivesTakeFromTheirPeerOnly) {
    Node c;
    const fi_addr_t c_to_b = c.add(b_.name());
    const fi_addr_t to_c = b_.add(c.name());
    auto cqs = pair_.cqs;
    cqs.push_back(c.tx);
    int from_c = 0;
    int from_a = 0;
    COMCH_FI(fi_recv(b_.ep, &from_c, sizeof(from_c), nullptr, to_c, &from_c));
    COMCH_FI(fi_recv(b_.ep, &from_a, sizeof(from_a), nullptr, pair_.to_a, &from_a));
    const int one = 1;
    const int two = 2;
    post([&] { return fi_inject(a_.ep, &one, sizeof(one), pair_.to_b); }, cqs);
    const Event first = await(b_.rx, cqs);
    EXPECT_EQ(first.entry.op_context, &from_a);
    EXPECT_EQ(first.source, pair_.to_a);
    post([&] { return fi_inject(c.ep, &two, sizeof(two), c_to_b); }, cqs);
    const Event second = await(b_.rx, cqs);
    EXPECT_EQ(second.entry.op_context, &from_c);
    EXPECT_EQ(second.source, to_c);
    EXPECT_EQ(from_a, 1);
    EXPECT_EQ(from_c, 2);
}

TEST_F(Message, ThousandsOfReceivesAndBothWaysAtOnce) {
    constexpr int count = 5000;
    std::vector<int> at_b(count);
    std::vector<int> at_a(count);
    for (int i = 0; i < count; ++i) {
        COMCH_FI(fi_trecv(b_.ep, &at_b[i], sizeof(int), nullptr, FI_ADDR_UNSPEC,
                          static_cast<std::uint64_t>(i), 0, nullptr));
        COMCH_FI(fi_trecv(a_.ep, &at_a[i], sizeof(int), nullptr, FI_ADDR_UNSPEC,
                          static_cast<std::uint64_t>(i), 0, nullptr));
    }
    int received_a = 0;
    int received_b = 0;
    fi_cq_tagged_entry entries[64];
    const auto drain = [&] {
        received_a += std::max<int>(0, static_cast<int>(fi_cq_read(a_.rx, entries, 64)));
        received_b += std::max<int>(0, static_cast<int>(fi_cq_read(b_.rx, entries, 64)));
    };
    for (int i = 0; i < count; ++i) {
        const int value = i * 3;
        const auto tag = static_cast<std::uint64_t>(i);
        while (fi_tinject(a_.ep, &value, sizeof(value), pair_.to_b, tag) == -FI_EAGAIN) {
            drain();
        }
        while (fi_tinject(b_.ep, &value, sizeof(value), pair_.to_a, tag) == -FI_EAGAIN) {
            drain();
        }
    }
    while (received_a < count || received_b < count) {
        drain();
    }
    for (int i = 0; i < count; ++i) {
        EXPECT_EQ(at_a[i], i * 3);
        EXPECT_EQ(at_b[i], i * 3);
    }
}

TEST_F(Message, ToOneself) {
    const fi_addr_t self = a_.add(a_.name());
    for (const std::size_t length : lengths) {
        const auto data = pattern(length, 8);
        std::vector<char> buffer(length);
        COMCH_FI(fi_trecv(a_.ep, buffer.data(), length, nullptr, self, 1, 0, nullptr));
        post([&] { return fi_tsend(a_.ep, data.data(), length, nullptr, self, 1, nullptr); },
             {a_.tx, a_.rx});
        EXPECT_EQ(await(a_.rx, {a_.tx}).entry.len, length);
        EXPECT_EQ(await(a_.tx, {a_.rx}).error, 0);
        EXPECT_EQ(buffer, data);
    }
}

TEST_F(Message, NobodyThereIsAnErrorCompletion) {
    std::vector<char> gone;
    {
        Node c;
        gone = c.name();
    }
    const fi_addr_t nobody = a_.add(gone);
    post([&] { return fi_tsend(a_.ep, "x", 1, nullptr, nobody, 1, &gone); }, pair_.cqs);
    const Event event = sent();
    EXPECT_EQ(event.error, FI_EHOSTUNREACH);
    EXPECT_EQ(event.failure.op_context, &gone);
    EXPECT_EQ(fi_send(a_.ep, "x", 1, nullptr, 12345, nullptr), -FI_EINVAL);
}

TEST(Completion, SelectiveOnesComeWhenAskedFor) {
    NodeOptions options;
    options.bind_flags = FI_SELECTIVE_COMPLETION;
    options.counters = true;
    Pair pair(options);
    char buffer[8] = {};
    const auto send = [&](std::uint64_t flags, void* context) {
        char byte = 'x';
        iovec iov{&byte, 1};
        fi_msg message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = pair.to_b;
        message.context = context;
        post([&] { return fi_sendmsg(pair.a.ep, &message, flags); }, pair.cqs);
    };
    for (int i = 0; i < 3; ++i) {
        COMCH_FI(fi_recv(pair.b.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
    }
    send(0, nullptr);
    send(FI_COMPLETION | FI_DELIVERY_COMPLETE, &buffer);
    send(FI_INJECT, nullptr);
    EXPECT_EQ(await(pair.a.tx, pair.cqs).entry.op_context, &buffer);
    while (fi_cntr_read(pair.b.counters[1]) < 3) {
    }
    EXPECT_EQ(fi_cntr_read(pair.a.counters[0]), 3u);
    EXPECT_EQ(fi_cq_read(pair.b.rx, nullptr, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_cq_read(pair.a.tx, nullptr, 0), -FI_EAGAIN);
}

TEST(Completion, DeliveryAndMatchCompleteWaitForTheReceive) {
    for (const std::uint64_t degree : {FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE}) {
        Pair pair;
        char buffer[8] = {};
        char byte = 'x';
        iovec iov{&byte, 1};
        fi_msg message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = pair.to_b;
        post([&] { return fi_sendmsg(pair.a.ep, &message, degree); }, pair.cqs);
        fi_cq_tagged_entry entry{};
        for (int i = 0; i < 1000; ++i) {
            (void)fi_cq_read(pair.b.rx, nullptr, 0);
            ASSERT_EQ(fi_cq_read(pair.a.tx, &entry, 1), -FI_EAGAIN);
        }
        COMCH_FI(fi_recv(pair.b.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
        EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        EXPECT_EQ(buffer[0], 'x');
    }
    NodeOptions options;
    options.tx_flags = FI_MATCH_COMPLETE;
    Pair pair(options);
    char buffer = 0;
    post([&] { return fi_tsend(pair.a.ep, "y", 1, nullptr, pair.to_b, 1, nullptr); }, pair.cqs);
    fi_cq_tagged_entry entry{};
    for (int i = 0; i < 1000; ++i) {
        (void)fi_cq_read(pair.b.rx, nullptr, 0);
        ASSERT_EQ(fi_cq_read(pair.a.tx, &entry, 1), -FI_EAGAIN);
    }
    COMCH_FI(fi_trecv(pair.b.ep, &buffer, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
}

/// Endpoints of `owner` on one shared receive context, each with a queue of its own.
struct Sharer {
    Sharer(Node& owner, fid_ep* srx, std::uint64_t bind_flags) {
        fi_cq_attr attr{};
        attr.format = FI_CQ_FORMAT_TAGGED;
        COMCH_FI(fi_cq_open(owner.domain, &attr, &cq, nullptr));
        COMCH_FI(fi_endpoint(owner.domain, owner.info, &ep, nullptr));
        COMCH_FI(fi_ep_bind(ep, &cq->fid, FI_RECV | bind_flags));
        COMCH_FI(fi_ep_bind(ep, &owner.tx->fid, FI_TRANSMIT));
        COMCH_FI(fi_ep_bind(ep, &owner.av->fid, 0));
        COMCH_FI(fi_ep_bind(ep, &srx->fid, 0));
        COMCH_FI(fi_enable(ep));
    }
    Sharer(const Sharer&) = delete;
    Sharer& operator=(const Sharer&) = delete;
    ~Sharer() {
        EXPECT_EQ(fi_close(&ep->fid), 0);
        EXPECT_EQ(fi_close(&cq->fid), 0);
    }
    [[nodiscard]] std::vector<char> name() const {
        std::size_t length = FI_NAME_MAX;
        std::vector<char> bytes(length);
        COMCH_FI(fi_getname(&ep->fid, bytes.data(), &length));
        bytes.resize(length);
        return bytes;
    }
    fid_cq* cq = nullptr;
    fid_ep* ep = nullptr;
};

TEST(Completion, ASharedReceiveCanBeCanceledBeforeThereIsAnEndpoint) {
    Node sender;
    Node owner;
    fi_rx_attr attr{};
    fid_ep* srx = nullptr;
    COMCH_FI(fi_srx_context(owner.domain, &attr, &srx, nullptr));
    char gone = '.';
    char next = '.';
    COMCH_FI(fi_recv(srx, &gone, 1, nullptr, FI_ADDR_UNSPEC, &gone));
    COMCH_FI(fi_recv(srx, &next, 1, nullptr, FI_ADDR_UNSPEC, &next));
    EXPECT_EQ(fi_cancel(&srx->fid, &gone), 0);
    EXPECT_EQ(fi_cancel(&srx->fid, &gone), -FI_ENOENT);
    {
        Sharer sharer(owner, srx, 0);
        const fi_addr_t to = sender.add(sharer.name());
        const std::vector<fid_cq*> cqs = {sender.tx, sharer.cq};
        post([&] { return fi_inject(sender.ep, "x", 1, to); }, cqs);
        EXPECT_EQ(await(sharer.cq, cqs).entry.op_context, &next);
    }
    EXPECT_EQ(next, 'x');
    EXPECT_EQ(gone, '.');
    EXPECT_EQ(fi_close(&srx->fid), 0);
}

TEST(Completion, OfASharedReceiveIsAsTheEndpointWants) {
    Node sender;
    Node owner;
    fi_rx_attr attr{};
    fid_ep* srx = nullptr;
    COMCH_FI(fi_srx_context(owner.domain, &attr, &srx, nullptr));
    std::vector<char> buffers(8);
    const auto receive = [&](std::size_t i, std::uint64_t flags) {
        const iovec iov{&buffers[i], 1};
        fi_msg message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = FI_ADDR_UNSPEC;
        message.context = &buffers[i];
        COMCH_FI(fi_recvmsg(srx, &message, flags));
    };
    receive(0, 0); // there is no endpoint yet
    {
        Sharer silent(owner, srx, FI_SELECTIVE_COMPLETION);
        Sharer talking(owner, srx, 0);
        const fi_addr_t to_silent = sender.add(silent.name());
        const fi_addr_t to_talking = sender.add(talking.name());
        const std::vector<fid_cq*> cqs = {sender.tx, silent.cq, talking.cq};
        const auto send = [&](fi_addr_t to) {
            post([&] { return fi_inject(sender.ep, "x", 1, to); }, cqs);
        };
        receive(1, FI_COMPLETION);
        send(to_silent);
        send(to_silent);
        EXPECT_EQ(await(silent.cq, cqs).entry.op_context, &buffers[1]) << "the first is not told";
        receive(2, 0);
        send(to_talking);
        EXPECT_EQ(await(talking.cq, cqs).entry.op_context, &buffers[2]);
        COMCH_FI(fi_recv(srx, &buffers[3], 1, nullptr, FI_ADDR_UNSPEC, &buffers[3]));
        send(to_talking);
        EXPECT_EQ(await(talking.cq, cqs).entry.op_context, &buffers[3]);
    }
    EXPECT_EQ(fi_close(&srx->fid), 0);
}

TEST(MultiReceive, ASharedOneIsReleasedAtItsMinimum) {
    NodeOptions options;
    options.shared_receives = true;
    Pair pair(options);
    std::size_t minimum = 4096;
    COMCH_FI(fi_setopt(&pair.b.srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &minimum,
                       sizeof(minimum)));
    std::vector<char> buffers[2] = {std::vector<char>(8192), std::vector<char>(8192)};
    for (std::vector<char>& buffer : buffers) {
        post_multi_receive(pair.b.srx, buffer);
    }
    const auto data = pattern(5000, 1);
    for (std::vector<char>& buffer : buffers) {
        post([&] { return fi_send(pair.a.ep, data.data(), 5000, nullptr, pair.to_b, nullptr); },
             pair.cqs);
        const Event event = await(pair.b.rx, pair.cqs);
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, &buffer);
        EXPECT_NE(event.entry.flags & FI_MULTI_RECV, 0u);
        EXPECT_EQ(std::memcmp(buffer.data(), data.data(), 5000), 0);
    }
}

TEST(Service, AnEndpointIsFoundByItsName) {
    NodeOptions named;
    named.service = "sorter";
    Node server(named);
    Node client;
    fi_addr_t to = FI_ADDR_NOTAVAIL;
    ASSERT_EQ(fi_av_insertsvc(client.av, nullptr, "sorter", &to, 0, nullptr), 1);
    char buffer[8] = {};
    COMCH_FI(fi_recv(server.ep, buffer, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
    const std::vector<fid_cq*> cqs = {server.rx, client.tx, client.rx, server.tx};
    post([&] { return fi_inject(client.ep, "hello", 6, to); }, cqs);
    EXPECT_EQ(await(server.rx, cqs).entry.len, 6u);
    // And answers, which the client knows to be from there.
    const fi_addr_t back = server.add(client.name());
    char answer[8] = {};
    COMCH_FI(fi_recv(client.ep, answer, 8, nullptr, to, nullptr));
    post([&] { return fi_inject(server.ep, "there", 6, back); }, cqs);
    const Event event = await(client.rx, cqs);
    EXPECT_EQ(event.source, to);
    EXPECT_STREQ(answer, "there");
    EXPECT_THROW(Node second(named), std::runtime_error);
}

/// A server that is known to its client by name only, and speaks first.
struct Unasked {
    static NodeOptions named() {
        NodeOptions options;
        options.service = "sorter";
        return options;
    }
    fi_addr_t look_up() {
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        EXPECT_EQ(fi_av_insertsvc(client.av, nullptr, "sorter", &address, 0, nullptr), 1);
        return address;
    }
    void send(int value) {
        post([&] { return fi_tinject(server->ep, &value, sizeof(value), to_client, 1); }, cqs());
    }
    void receive(int& value, fi_addr_t from) {
        COMCH_FI(fi_trecv(client.ep, &value, sizeof(value), nullptr, from, 1, 0, &value));
    }
    void start_server() {
        server.emplace(named());
        to_client = server->add(client.name());
    }
    std::vector<fid_cq*> cqs() { return {server->tx, server->rx, client.tx, client.rx}; }
    Event received() { return await(client.rx, cqs()); }
    /// Is there a message from `from`?
    bool peek(fi_addr_t from) {
        fi_msg_tagged message{};
        message.tag = 1;
        message.addr = from;
        COMCH_FI(fi_trecvmsg(client.ep, &message, FI_PEEK));
        return received().error != FI_ENOMSG;
    }
    void await_message(fi_addr_t from) {
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (!peek(from)) {
            ASSERT_LT(Clock::now(), end);
        }
    }

    Unasked() { start_server(); }
    Node client;
    std::optional<Node> server;
    fi_addr_t to_client = FI_ADDR_NOTAVAIL;
};

TEST(Service, WhoSpeaksFirstIsKnownByItsName) {
    Unasked between;
    const fi_addr_t there = between.look_up();
    int got = 0;
    between.receive(got, there);
    between.send(7);
    const Event event = between.received();
    EXPECT_EQ(event.entry.op_context, &got);
    EXPECT_EQ(event.source, there);
    EXPECT_EQ(got, 7);
    between.send(8);
    ASSERT_NO_FATAL_FAILURE(between.await_message(there));
    EXPECT_FALSE(between.peek(between.client.add(between.client.name())));
    between.receive(got, there);
    EXPECT_EQ(between.received().source, there);
    EXPECT_EQ(got, 8);
}

TEST(Service, ANameThatIsLookedUpLaterIsThatOfTheMessagesBefore) {
    Unasked between;
    between.send(7);
    ASSERT_NO_FATAL_FAILURE(between.await_message(FI_ADDR_UNSPEC));
    const fi_addr_t there = between.look_up();
    int got = 0;
    between.receive(got, there);
    EXPECT_EQ(between.received().source, there);
    EXPECT_EQ(got, 7);
}

TEST(Service, ANameThatItsHolderHasGivenUpInOrderIsTheSuccessors) {
    Unasked between;
    const fi_addr_t there = between.look_up();
    post([&] { return fi_tinject(between.client.ep, "x", 1, there, 2); }, between.cqs());
    between.server.reset();
    between.start_server();
    between.send(1);
    ASSERT_NO_FATAL_FAILURE(between.await_message(FI_ADDR_UNSPEC));
    EXPECT_TRUE(between.peek(there)) << "sends to the address reach it, too";
    int first = 0;
    int second = 0;
    between.receive(first, there);
    EXPECT_EQ(between.received().entry.op_context, &first);
    between.receive(second, there);
    post([&] { return fi_tinject(between.client.ep, "x", 1, there, 2); }, between.cqs());
    between.send(2);
    EXPECT_EQ(between.received().entry.op_context, &second);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 2);
}

} // namespace
} // namespace comch::ofi::test
