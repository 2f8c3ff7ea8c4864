// Every form that libfabric gives to a call does the same as the plainest one. (What messages,
// reads, writes and atomics do is tested in the other files.)
#include <array>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::uint64_t key = 9;

class Calls : public testing::Test {
protected:
    Calls() { pair_.b.expose(memory_.data(), sizeof(memory_), key); }
    Event sent() { return await(pair_.a.tx, pair_.cqs); }
    Event received() { return await(pair_.b.rx, pair_.cqs); }
    template <class Call> void run(Call&& call) { post(call, pair_.cqs); }
    void expect_sent(std::uint64_t flags) {
        const Event event = sent();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.flags, flags);
    }

    std::array<std::uint64_t, 64> memory_{};
    Pair pair_;
    fid_ep* ep_ = pair_.a.ep;
    fi_addr_t to_ = pair_.to_b;
};

TEST_F(Calls, Messages) {
    char text[] = "abcdef";
    const iovec parts[] = {{text, 2}, {text + 2, 5}};
    fi_msg message{};
    message.msg_iov = parts;
    message.iov_count = 2;
    message.addr = to_;
    message.data = 5;
    for (int form = 0; form < 5; ++form) {
        char got[8] = {};
        const iovec rooms[] = {{got, 3}, {got + 3, 5}};
        fi_msg room{};
        room.msg_iov = rooms;
        room.iov_count = 2;
        room.addr = FI_ADDR_UNSPEC;
        room.context = got;
        switch (form % 2) {
        case 0:
            COMCH_FI(fi_recvmsg(pair_.b.ep, &room, FI_COMPLETION));
            break;
        default:
            COMCH_FI(fi_recvv(pair_.b.ep, rooms, nullptr, 2, FI_ADDR_UNSPEC, got));
        }
        bool data = false;
        switch (form) {
        case 0:
            run([&] { return fi_sendv(ep_, parts, nullptr, 2, to_, nullptr); });
            break;
        case 1:
            run([&] { return fi_sendmsg(ep_, &message, 0); });
            break;
        case 2:
            run([&] { return fi_sendmsg(ep_, &message, FI_REMOTE_CQ_DATA | FI_INJECT); });
            data = true;
            break;
        case 3:
            run([&] { return fi_injectdata(ep_, text, 7, 5, to_); });
            data = true;
            break;
        default:
            run([&] { return fi_inject(ep_, text, 7, to_); });
        }
        const Event event = received();
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, got);
        EXPECT_EQ(event.entry.len, 7u);
        EXPECT_EQ((event.entry.flags & FI_REMOTE_CQ_DATA) != 0, data) << form;
        EXPECT_EQ(event.entry.data, data ? 5u : 0u);
        EXPECT_STREQ(got, text) << form;
        if (form < 3) {
            expect_sent(FI_SEND | FI_MSG);
        }
    }
    fi_cq_tagged_entry none{};
    EXPECT_EQ(fi_cq_read(pair_.a.tx, &none, 1), -FI_EAGAIN); // what is injected is not reported
}

TEST_F(Calls, TaggedMessages) {
    char text[] = "abcdef";
    const iovec part{text, 7};
    fi_msg_tagged message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = to_;
    message.tag = 3;
    message.data = 5;
    for (int form = 0; form < 3; ++form) {
        char got[8] = {};
        const iovec room{got, 8};
        fi_msg_tagged wanted{};
        wanted.msg_iov = &room;
        wanted.iov_count = 1;
        wanted.addr = FI_ADDR_UNSPEC;
        wanted.tag = 1;
        wanted.ignore = 2;
        COMCH_FI(fi_trecvmsg(pair_.b.ep, &wanted, 0));
        switch (form) {
        case 0:
            run([&] { return fi_tsendmsg(ep_, &message, FI_REMOTE_CQ_DATA); });
            break;
        case 1:
            run([&] { return fi_tsenddata(ep_, text, 7, nullptr, 5, to_, 3, nullptr); });
            break;
        default:
            run([&] { return fi_tsendv(ep_, &part, nullptr, 1, to_, 3, nullptr); });
        }
        const Event event = received();
        EXPECT_EQ(event.entry.tag, 3u);
        EXPECT_EQ(event.entry.data, form < 2 ? 5u : 0u);
        EXPECT_STREQ(got, text);
        expect_sent(FI_SEND | FI_TAGGED);
    }
}

TEST_F(Calls, EveryDegreeOfCompletionIsMet) {
    const iovec part{const_cast<char*>("x"), 1};
    fi_msg message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = to_;
    for (const std::uint64_t degree :
         {std::uint64_t{FI_INJECT_COMPLETE}, std::uint64_t{FI_TRANSMIT_COMPLETE},
          std::uint64_t{FI_DELIVERY_COMPLETE}}) {
        char got = 0;
        COMCH_FI(fi_recv(pair_.b.ep, &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        run([&] { return fi_sendmsg(ep_, &message, degree | FI_COMPLETION); });
        expect_sent(FI_SEND | FI_MSG);
        EXPECT_EQ(received().error, 0);
        EXPECT_EQ(got, 'x');
    }
}

TEST_F(Calls, MoreIsAHintOnly) {
    constexpr int count = 20;
    for (int i = 0; i < count; ++i) {
        const iovec part{&i, sizeof(i)};
        fi_msg message{};
        message.msg_iov = &part;
        message.iov_count = 1;
        message.addr = to_;
        // (Nor does anything wait for a last one without it.)
        run([&] { return fi_sendmsg(ep_, &message, FI_MORE | FI_INJECT); });
    }
    for (int i = 0; i < count; ++i) {
        int got = -1;
        COMCH_FI(fi_recv(pair_.b.ep, &got, sizeof(got), nullptr, FI_ADDR_UNSPEC, nullptr));
        EXPECT_EQ(received().error, 0);
        EXPECT_EQ(got, i);
    }
}

TEST_F(Calls, ReadsAndWrites) {
    std::uint64_t words[] = {1, 2, 3};
    const iovec parts[] = {{words, 8}, {words + 1, 16}};
    fi_rma_iov target{8, 24, key};
    fi_msg_rma message{};
    message.msg_iov = parts;
    message.iov_count = 2;
    message.addr = to_;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.data = 77;
    const auto written = [&] {
        const bool right = memory_[1] == 1 && memory_[2] == 2 && memory_[3] == 3;
        memory_.fill(0);
        return right;
    };
    run([&] { return fi_writev(ep_, parts, nullptr, 2, to_, 8, key, nullptr); });
    expect_sent(FI_RMA | FI_WRITE);
    EXPECT_TRUE(written());
    run([&] { return fi_writemsg(ep_, &message, FI_COMPLETION | FI_REMOTE_CQ_DATA); });
    expect_sent(FI_RMA | FI_WRITE);
    EXPECT_TRUE(written());
    EXPECT_EQ(received().entry.data, 77u);
    run([&] { return fi_writedata(ep_, words, 24, nullptr, 78, to_, 8, key, nullptr); });
    expect_sent(FI_RMA | FI_WRITE);
    const Event event = received();
    EXPECT_EQ(event.entry.data, 78u);
    EXPECT_EQ(event.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    EXPECT_TRUE(written());
    run([&] { return fi_inject_writedata(ep_, words, 24, 79, to_, 8, key); });
    EXPECT_EQ(received().entry.data, 79u);
    EXPECT_TRUE(written());

    memory_[1] = 4;
    memory_[2] = 5;
    memory_[3] = 6;
    run([&] { return fi_readmsg(ep_, &message, FI_COMPLETION); });
    expect_sent(FI_RMA | FI_READ);
    EXPECT_EQ(words[0] + words[1] * 10 + words[2] * 100, 654u);
    target.len = 16; // not what the local parts come to
    EXPECT_EQ(fi_readmsg(ep_, &message, 0), -FI_EINVAL);
}

TEST_F(Calls, Atomics) {
    std::uint64_t operands[] = {1, 2};
    const fi_ioc parts[] = {{operands, 1}, {operands + 1, 1}};
    run([&] {
        return fi_atomicv(ep_, parts, nullptr, 2, to_, 0, key, FI_UINT64, FI_SUM, nullptr);
    });
    expect_sent(FI_ATOMIC | FI_WRITE);
    EXPECT_EQ(memory_[0], 1u);
    EXPECT_EQ(memory_[1], 2u);

    fi_rma_ioc target{0, 2, key};
    fi_msg_atomic message{};
    message.msg_iov = parts;
    message.iov_count = 2;
    message.addr = to_;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.datatype = FI_UINT64;
    message.op = FI_SUM;
    run([&] { return fi_atomicmsg(ep_, &message, FI_COMPLETION); });
    expect_sent(FI_ATOMIC | FI_WRITE);
    EXPECT_EQ(memory_[1], 4u);

    EXPECT_EQ(fi_atomicmsg(ep_, &message, FI_TAGGED), -FI_EOPNOTSUPP); // its key would be a tag

    std::uint64_t fetched[2] = {};
    fi_ioc results[] = {{fetched, 2}};
    run([&] { return fi_fetch_atomicmsg(ep_, &message, results, nullptr, 1, FI_COMPLETION); });
    expect_sent(FI_ATOMIC | FI_READ);
    EXPECT_EQ(fetched[0], 2u);
    EXPECT_EQ(fetched[1], 4u);
    EXPECT_EQ(memory_[1], 6u);

    std::uint64_t compares[] = {3, 0};
    const fi_ioc compared[] = {{compares, 2}};
    message.op = FI_CSWAP;
    run([&] {
        return fi_compare_atomicmsg(ep_, &message, compared, nullptr, 1, results, nullptr, 1,
                                    FI_COMPLETION);
    });
    expect_sent(FI_ATOMIC | FI_READ);
    EXPECT_EQ(memory_[0], 1u); // it was 3
    EXPECT_EQ(memory_[1], 6u); // it was not 0

    fi_atomic_attr attr{};
    EXPECT_EQ(fi_query_atomic(pair_.a.domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC), 0);
    EXPECT_EQ(attr.size, 8u);
    EXPECT_GE(attr.count, 2u);
    EXPECT_EQ(fi_query_atomic(pair_.a.domain, FI_LONG_DOUBLE_COMPLEX, FI_SUM, &attr, 0),
              -FI_EOPNOTSUPP);
    EXPECT_EQ(fi_query_atomic(pair_.a.domain, FI_UINT64, FI_SUM, &attr,
                              FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
              -FI_EINVAL);
}

TEST_F(Calls, AFencedSendWaitsForTheWriteBeforeIt) {
    const auto large = pattern(400, 1);
    for (int i = 0; i < 50; ++i) {
        memory_.fill(0);
        char got = 0;
        COMCH_FI(fi_recv(pair_.b.ep, &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        run([&] {
            return fi_write(ep_, large.data(), large.size(), nullptr, to_, 0, key, nullptr);
        });
        const iovec part{const_cast<char*>("x"), 1};
        fi_msg message{};
        message.msg_iov = &part;
        message.iov_count = 1;
        message.addr = to_;
        run([&] { return fi_sendmsg(ep_, &message, FI_FENCE | FI_COMPLETION); });
        EXPECT_EQ(received().error, 0);
        EXPECT_EQ(std::memcmp(memory_.data(), large.data(), large.size()), 0);
        expect_sent(FI_RMA | FI_WRITE);
        expect_sent(FI_SEND | FI_MSG);
    }
}

TEST_F(Calls, WhoTriesAFencedSendAgainAndReadsNothingGetsOn) {
    char got = 0;
    COMCH_FI(fi_recv(pair_.b.ep, &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    run([&] { return fi_write(ep_, "abc", 3, nullptr, to_, 0, key, nullptr); });
    const iovec part{const_cast<char*>("x"), 1};
    fi_msg message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = to_;
    ssize_t result = -FI_EAGAIN;
    for (const auto end = Clock::now() + std::chrono::seconds(30);
         result == -FI_EAGAIN && Clock::now() < end;) {
        (void)fi_cq_read(pair_.b.rx, nullptr, 0); // the other process
        result = fi_sendmsg(ep_, &message, FI_FENCE | FI_COMPLETION);
    }
    ASSERT_EQ(result, 0);
    EXPECT_EQ(received().error, 0);
    EXPECT_EQ(std::memcmp(memory_.data(), "abc", 3), 0);
    expect_sent(FI_RMA | FI_WRITE);
    expect_sent(FI_SEND | FI_MSG);
}

TEST_F(Calls, RegistrationInEveryForm) {
    char bytes[16] = {};
    const iovec range{bytes, sizeof(bytes)};
    fi_mr_attr attr{};
    attr.mr_iov = &range;
    attr.iov_count = 1;
    attr.access = FI_REMOTE_WRITE;
    attr.requested_key = 20;
    attr.iface = FI_HMEM_CUDA; // to be ignored: nobody asked for FI_HMEM
    fid_mr* first = nullptr;
    fid_mr* second = nullptr;
    COMCH_FI(fi_mr_regattr(pair_.b.domain, &attr, 0, &first));
    EXPECT_EQ(fi_mr_key(first), 20u);
    EXPECT_EQ(fi_mr_regv(pair_.b.domain, &range, 1, FI_REMOTE_WRITE, 0, 20, 0, &second, nullptr),
              -FI_ENOKEY); // it is taken
    COMCH_FI(fi_mr_regv(pair_.b.domain, &range, 1, FI_REMOTE_WRITE, 0, 21, 0, &second, nullptr));
    run([&] { return fi_write(ep_, "hello", 6, nullptr, to_, 4, 21, nullptr); });
    expect_sent(FI_RMA | FI_WRITE);
    EXPECT_STREQ(bytes + 4, "hello");
    EXPECT_EQ(fi_close(&first->fid), 0);
    run([&] { return fi_write(ep_, "x", 1, nullptr, to_, 0, 20, nullptr); });
    EXPECT_EQ(sent().error, FI_EACCES);
    EXPECT_EQ(fi_close(&second->fid), 0);
}

TEST_F(Calls, OptionsAreKept) {
    std::size_t value = 0;
    std::size_t length = sizeof(value);
    const std::size_t threshold = 500;
    COMCH_FI(fi_setopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &threshold,
                       sizeof(threshold)));
    COMCH_FI(fi_getopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length));
    EXPECT_EQ(value, threshold);
    length = 1;
    EXPECT_EQ(fi_getopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length),
              -FI_ETOOSMALL);
    EXPECT_EQ(fi_setopt(&ep_->fid, FI_OPT_ENDPOINT, 12345, &threshold, sizeof(threshold)),
              -FI_ENOPROTOOPT);
}

} // namespace
} // namespace comch::ofi::test
