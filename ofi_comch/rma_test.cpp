// Reads, writes and atomics.
#include <atomic>
#include <limits>
#include <thread>

#include "test_node.hpp"
#include "wire.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::size_t rma_lengths[] = {1, 8, 64, 2000, 2048, 4000, 32000, 32768, 100000, 3000000};

class Rma : public testing::TestWithParam<int> {
protected:
    Rma() {
        mr_ = pair_.b.expose(memory_.data(), memory_.size(), 42);
        virtual_ = (pair_.b.info->domain_attr->mr_mode == mr_basic);
    }
    static NodeOptions options() {
        NodeOptions made;
        made.counters = true;
        made.mr_mode = GetParam();
        made.order = FI_ORDER_SAS | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW;
        return made;
    }
    [[nodiscard]] std::uint64_t at(std::size_t offset) const {
        return virtual_ ? reinterpret_cast<std::uint64_t>(memory_.data()) + offset : offset;
    }
    [[nodiscard]] std::uint64_t key() const { return fi_mr_key(mr_); }
    Event done() { return await(pair_.a.tx, pair_.cqs); }

    std::vector<char> memory_ = std::vector<char>(4'000'000);
    Pair pair_{options()};
    fid_mr* mr_ = nullptr;
    bool virtual_ = false;
};

TEST_P(Rma, WritesAndReadsOfEveryLength) {
    int n = 0;
    for (const std::size_t length : rma_lengths) {
        const auto data = pattern(length, 1);
        post(
            [&] {
                return fi_write(pair_.a.ep, data.data(), length, nullptr, pair_.to_b, at(16), key(),
                                &n);
            },
            pair_.cqs);
        Event event = done();
        ASSERT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, &n);
        EXPECT_EQ(event.entry.flags, FI_RMA | FI_WRITE);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin() + 16)) << length;
        std::vector<char> back(length);
        post(
            [&] {
                return fi_read(pair_.a.ep, back.data(), length, nullptr, pair_.to_b, at(16), key(),
                               nullptr);
            },
            pair_.cqs);
        event = done();
        ASSERT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.flags, FI_RMA | FI_READ);
        EXPECT_EQ(back, data) << length;
        ++n;
    }
    const auto count = static_cast<std::uint64_t>(n);
    EXPECT_EQ(fi_cntr_read(pair_.a.counters[3]), count);
    EXPECT_EQ(fi_cntr_read(pair_.a.counters[2]), count);
    EXPECT_EQ(fi_cntr_read(pair_.b.counters[5]), count);
    EXPECT_EQ(fi_cntr_read(pair_.b.counters[4]), count);
}

TEST_P(Rma, VectorsAndRemoteData) {
    for (const std::size_t length : {std::size_t{30}, std::size_t{300000}}) {
        auto data = pattern(length, 2);
        const iovec from[] = {{data.data(), 10}, {data.data() + 10, length - 10}};
        fi_rma_iov target{at(0), length, key()};
        fi_msg_rma message{};
        message.msg_iov = from;
        message.iov_count = 2;
        message.addr = pair_.to_b;
        message.rma_iov = &target;
        message.rma_iov_count = 1;
        message.data = 99;
        post([&] { return fi_writemsg(pair_.a.ep, &message, FI_REMOTE_CQ_DATA); }, pair_.cqs);
        EXPECT_EQ(done().error, 0);
        const Event remote = await(pair_.b.rx, pair_.cqs);
        EXPECT_EQ(remote.entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        EXPECT_EQ(remote.entry.data, 99u);
        EXPECT_EQ(remote.source, pair_.to_a);
        EXPECT_EQ(remote.entry.len, length);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin()));
        std::vector<char> back(length);
        const iovec to[] = {{back.data(), length - 3}, {back.data() + length - 3, 3}};
        post(
            [&] { return fi_readv(pair_.a.ep, to, nullptr, 2, pair_.to_b, at(0), key(), nullptr); },
            pair_.cqs);
        EXPECT_EQ(done().error, 0);
        EXPECT_EQ(back, data);
    }
}

TEST_P(Rma, WhatIsNotExposedIsRefusedAndHarmsNothing) {
    char byte = 'x';
    std::vector<char> large(100000);
    const auto refused = [&](auto&& call) {
        post(call, pair_.cqs);
        return done().error;
    };
    const std::size_t size = memory_.size();
    for (const std::size_t length : {std::size_t{1}, large.size()}) {
        EXPECT_EQ(refused([&] {
                      return fi_write(pair_.a.ep, large.data(), length, nullptr, pair_.to_b,
                                      at(size), key(), nullptr);
                  }),
                  FI_EACCES);
        EXPECT_EQ(refused([&] {
                      return fi_read(pair_.a.ep, large.data(), length, nullptr, pair_.to_b, at(0),
                                     key() + 1, nullptr);
                  }),
                  FI_EACCES);
        EXPECT_EQ(refused([&] {
                      return fi_read(pair_.a.ep, large.data(), length, nullptr, pair_.to_b,
                                     at(0) - 8, key(), nullptr);
                  }),
                  FI_EACCES);
    }
    fid_mr* const read_only = pair_.b.expose(&byte, 1, 43, FI_REMOTE_READ);
    const std::uint64_t address = virtual_ ? reinterpret_cast<std::uint64_t>(&byte) : 0;
    EXPECT_EQ(refused([&] {
                  return fi_write(pair_.a.ep, "y", 1, nullptr, pair_.to_b, address,
                                  fi_mr_key(read_only), nullptr);
              }),
              FI_EACCES);
    EXPECT_EQ(byte, 'x');
    EXPECT_EQ(fi_cntr_readerr(pair_.a.counters[3]), 3u);
    // An injected one has no context of its own, but is reported: with the endpoint's.
    pair_.a.ep->fid.context = &pair_;
    post([&] { return fi_inject_write(pair_.a.ep, "y", 1, pair_.to_b, at(size), key()); },
         pair_.cqs);
    const Event event = done();
    EXPECT_EQ(event.error, FI_EACCES);
    EXPECT_EQ(event.failure.op_context, &pair_);
    EXPECT_EQ(event.failure.flags, FI_RMA | FI_WRITE);
    const std::uint64_t one = 1;
    post(
        [&] {
            return fi_inject_atomic(pair_.a.ep, &one, 1, pair_.to_b, at(1), key(), FI_UINT64,
                                    FI_SUM);
        },
        pair_.cqs);
    const Event atomic = done();
    EXPECT_EQ(atomic.error, FI_EINVAL);
    EXPECT_EQ(atomic.failure.flags, FI_ATOMIC | FI_WRITE);
    EXPECT_EQ(fi_cntr_read(pair_.a.counters[3]), 0u);
    EXPECT_EQ(fi_cntr_readerr(pair_.a.counters[3]), 5u);
    post([&] { return fi_write(pair_.a.ep, "y", 1, nullptr, pair_.to_b, at(0), key(), nullptr); },
         pair_.cqs);
    EXPECT_EQ(done().error, 0);
}

TEST_P(Rma, NoPartsAreNoBytes) {
    fi_rma_iov remote{at(0), 0, key()};
    fi_msg_rma message{};
    message.addr = pair_.to_b;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &remote;
    post([&] { return fi_writemsg(pair_.a.ep, &message, FI_COMPLETION); }, pair_.cqs);
    Event event = done();
    EXPECT_EQ(event.error, 0);
    EXPECT_EQ(event.entry.op_context, &remote);
    post([&] { return fi_readmsg(pair_.a.ep, &message, FI_COMPLETION); }, pair_.cqs);
    EXPECT_EQ(done().error, 0);
    remote.key = key() + 1000;
    post([&] { return fi_readmsg(pair_.a.ep, &message, FI_COMPLETION); }, pair_.cqs);
    EXPECT_EQ(done().error, FI_EACCES);
}

TEST(Inject, LimitsWhatGoesOutAndNotWhatComes) {
    NodeOptions options;
    options.tx_flags = FI_INJECT;
    Pair pair(options);
    auto memory = pattern(100'000, 4);
    pair.b.expose(memory.data(), memory.size(), 1);
    std::vector<char> back(memory.size());
    post([&] { return fi_read(pair.a.ep, back.data(), back.size(), nullptr, pair.to_b, 0, 1, {}); },
         pair.cqs);
    EXPECT_EQ(await(pair.a.tx, pair.cqs).error, 0);
    EXPECT_EQ(back, memory);
    EXPECT_EQ(fi_write(pair.a.ep, back.data(), back.size(), nullptr, pair.to_b, 0, 1, nullptr),
              -FI_EMSGSIZE);
}

TEST(Refused, AnInjectedAtomicIsReportedAsOne) {
    Pair pair; // without counters, for which it would have an operation
    std::uint64_t word = 0;
    fid_mr* const mr = pair.b.expose(&word, sizeof(word), 7);
    const std::uint64_t one = 1;
    post(
        [&] {
            return fi_inject_atomic(pair.a.ep, &one, 1, pair.to_b, 8, fi_mr_key(mr), FI_UINT64,
                                    FI_SUM);
        },
        pair.cqs);
    const Event event = await(pair.a.tx, pair.cqs);
    EXPECT_EQ(event.error, FI_EACCES);
    EXPECT_EQ(event.failure.flags, FI_ATOMIC | FI_WRITE);
}

TEST_P(Rma, WritesAndReadsAreAppliedInOrder) {
    std::uint64_t seen[200] = {};
    for (std::uint64_t i = 0; i < 200; ++i) {
        post([&] { return fi_inject_write(pair_.a.ep, &i, 8, pair_.to_b, at(0), key()); },
             pair_.cqs);
        post(
            [&] {
                return fi_read(pair_.a.ep, &seen[i], 8, nullptr, pair_.to_b, at(0), key(), nullptr);
            },
            pair_.cqs);
    }
    for (std::uint64_t i = 0; i < 200; ++i) {
        EXPECT_EQ(done().error, 0);
    }
    for (std::uint64_t i = 0; i < 200; ++i) {
        EXPECT_EQ(seen[i], i);
    }
}

TEST_P(Rma, AnEventCounterOfTheMemoryCounts) {
    char small[64] = {};
    fi_cntr_attr attr{};
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(pair_.b.domain, &attr, &cntr, nullptr));
    fid_mr* mr = nullptr;
    COMCH_FI(fi_mr_reg(pair_.b.domain, small, sizeof(small), FI_REMOTE_WRITE, 0, 50, FI_RMA_EVENT,
                       &mr, nullptr));
    COMCH_FI(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
    COMCH_FI(fi_mr_enable(mr));
    const std::uint64_t address = virtual_ ? reinterpret_cast<std::uint64_t>(small) : 0;
    post([&] { return fi_inject_write(pair_.a.ep, "abc", 3, pair_.to_b, address, fi_mr_key(mr)); },
         pair_.cqs);
    while (fi_cntr_read(cntr) != 1) { // which is all that the owner does
        (void)fi_cq_read(pair_.a.tx, nullptr, 0);
    }
    EXPECT_STREQ(small, "abc");
    EXPECT_EQ(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), -FI_EINVAL);
    EXPECT_EQ(fi_close(&cntr->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&mr->fid), 0);
    EXPECT_EQ(fi_close(&cntr->fid), 0);
}

TEST_P(Rma, NobodyAsksForMoreThanTheOwnerKeeps) {
    constexpr std::size_t length = 8000;
    std::vector<char> to(length);
    unsigned asked = 0;
    while (asked < 100'000) { // whose answers are not taken
        const ssize_t result =
            fi_read(pair_.a.ep, to.data(), length, nullptr, pair_.to_b, at(0), key(), nullptr);
        if (result == -FI_EAGAIN && asked * length > wire::max_unanswered / 2) {
            break;
        }
        asked += result == 0 ? 1 : 0;
        if (result == -FI_EAGAIN) { // not connected yet
            (void)fi_cq_read(pair_.a.tx, nullptr, 0);
        }
        (void)fi_cq_read(pair_.b.rx, nullptr, 0);
    }
    EXPECT_LE(asked * length, wire::max_unanswered + length);
    while (asked-- != 0) {
        EXPECT_EQ(done().error, 0);
    }
    EXPECT_TRUE(std::equal(to.begin(), to.end(), memory_.begin()));
    post(
        [&] {
            return fi_read(pair_.a.ep, to.data(), 1, nullptr, pair_.to_b, at(0), key(), nullptr);
        },
        pair_.cqs);
    EXPECT_EQ(done().error, 0);
}

TEST_P(Rma, WhoSleepsOnTheMemorysCounterIsWoken) {
    char small[64] = {};
    fid_cntr* cntr = nullptr;
    fid_mr* mr = nullptr;
    {
        fi_cntr_attr attr{};
        attr.wait_obj = FI_WAIT_FD;
        COMCH_FI(fi_cntr_open(pair_.b.domain, &attr, &cntr, nullptr));
    }
    COMCH_FI(fi_mr_reg(pair_.b.domain, small, sizeof(small), FI_REMOTE_WRITE, 0, 50, FI_RMA_EVENT,
                       &mr, nullptr));
    COMCH_FI(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
    COMCH_FI(fi_mr_enable(mr));
    const std::uint64_t address = virtual_ ? reinterpret_cast<std::uint64_t>(small) : 0;
    const std::uint64_t key = fi_mr_key(mr);
    std::atomic<bool> over{false};
    std::thread writer([&] {
        post([&] { return fi_inject_write(pair_.a.ep, "abc", 3, pair_.to_b, address, key); },
             {pair_.a.tx});
        while (!over) {
            (void)fi_cq_read(pair_.a.tx, nullptr, 0);
        }
    });
    EXPECT_EQ(fi_cntr_wait(cntr, 1, 30'000), 0);
    EXPECT_STREQ(small, "abc");
    over = true;
    writer.join();
    EXPECT_EQ(fi_close(&mr->fid), 0);
    EXPECT_EQ(fi_close(&cntr->fid), 0);
}

TEST_P(Rma, TheMemorysCounterCountsEveryAtomicThatChangesIt) {
    std::uint64_t word = 5;
    fi_cntr_attr attr{};
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(pair_.b.domain, &attr, &cntr, nullptr));
    fid_mr* mr = nullptr;
    COMCH_FI(fi_mr_reg(pair_.b.domain, &word, sizeof(word), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 51,
                       FI_RMA_EVENT, &mr, nullptr));
    COMCH_FI(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
    COMCH_FI(fi_mr_enable(mr));
    const std::uint64_t address = virtual_ ? reinterpret_cast<std::uint64_t>(&word) : 0;
    std::uint64_t one = 1;
    std::uint64_t old = 0;
    const auto fetch = [&](fi_op op) {
        post(
            [&] {
                return fi_fetch_atomic(pair_.a.ep, &one, 1, nullptr, &old, nullptr, pair_.to_b,
                                       address, fi_mr_key(mr), FI_UINT64, op, nullptr);
            },
            pair_.cqs);
        EXPECT_EQ(done().error, 0);
    };
    fetch(FI_SUM);
    EXPECT_EQ(old, 5u);
    EXPECT_EQ(word, 6u);
    EXPECT_EQ(fi_cntr_read(cntr), 1u);
    fetch(FI_ATOMIC_READ);
    EXPECT_EQ(old, 6u);
    EXPECT_EQ(fi_cntr_read(cntr), 1u);
    EXPECT_EQ(fi_close(&mr->fid), 0);
    EXPECT_EQ(fi_close(&cntr->fid), 0);
}

/// Overflow wraps around: computed without a sign, in at least int's width.
template <class T> auto unsigned_of(T value) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<std::common_type_t<std::make_unsigned_t<T>, unsigned>>(value);
    } else {
        return value;
    }
}

template <class T> T expected(int op, T old, T operand, T compare) {
    switch (op) {
    case FI_MIN:
        return operand < old ? operand : old;
    case FI_MAX:
        return operand > old ? operand : old;
    case FI_SUM:
        return static_cast<T>(unsigned_of(old) + unsigned_of(operand));
    case FI_PROD:
        return static_cast<T>(unsigned_of(old) * unsigned_of(operand));
    case FI_LOR:
        return static_cast<T>(old != T{} || operand != T{});
    case FI_LAND:
        return static_cast<T>(old != T{} && operand != T{});
    case FI_LXOR:
        return static_cast<T>((old != T{}) != (operand != T{}));
    case FI_ATOMIC_WRITE:
        return operand;
    case FI_ATOMIC_READ:
        return old;
    case FI_CSWAP:
        return compare == old ? operand : old;
    case FI_CSWAP_NE:
        return compare != old ? operand : old;
    case FI_CSWAP_LE:
        return compare <= old ? operand : old;
    case FI_CSWAP_LT:
        return compare < old ? operand : old;
    case FI_CSWAP_GE:
        return compare >= old ? operand : old;
    case FI_CSWAP_GT:
        return compare > old ? operand : old;
    default:
        break;
    }
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
        case FI_BOR:
            return static_cast<T>(old | operand);
        case FI_BAND:
            return static_cast<T>(old & operand);
        case FI_BXOR:
            return static_cast<T>(old ^ operand);
        case FI_MSWAP:
            return static_cast<T>((operand & compare) | (old & ~compare));
        default:
            break;
        }
    }
    ADD_FAILURE() << "operation " << op;
    return old;
}

template <class T>
void all_operations(Pair& pair, fi_datatype datatype, std::vector<char>& memory,
                    std::uint64_t address, std::uint64_t key) {
    const T values[] = {T{0}, T{1}, T{3}, T{12}, std::numeric_limits<T>::max() / T{4}};
    auto* const word = reinterpret_cast<T*>(memory.data());
    for (int op = FI_MIN; op <= FI_MSWAP; ++op) {
        const auto operation = static_cast<fi_op>(op);
        const bool compares = op >= FI_CSWAP;
        std::size_t count = 0;
        const int valid = compares ? fi_compare_atomicvalid(pair.a.ep, datatype, operation, &count)
                                   : fi_fetch_atomicvalid(pair.a.ep, datatype, operation, &count);
        const bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
        ASSERT_EQ(valid, bits && std::is_floating_point_v<T> ? -FI_EOPNOTSUPP : 0) << op;
        if (valid != 0) {
            continue;
        }
        EXPECT_GE(count, 2u);
        for (const T old : values) {
            for (const T operand : values) {
                word[0] = old;
                word[1] = T{3};
                const T operands[2] = {operand, T{1}};
                const T compare[2] = {T{3}, T{3}};
                T fetched[2] = {};
                post(
                    [&] {
                        return compares
                                   ? fi_compare_atomic(pair.a.ep, operands, 2, nullptr, compare,
                                                       nullptr, fetched, nullptr, pair.to_b,
                                                       address, key, datatype, operation, nullptr)
                                   : fi_fetch_atomic(pair.a.ep, operands, 2, nullptr, fetched,
                                                     nullptr, pair.to_b, address, key, datatype,
                                                     operation, nullptr);
                    },
                    pair.cqs);
                const Event event = await(pair.a.tx, pair.cqs);
                ASSERT_EQ(event.error, 0);
                EXPECT_EQ(event.entry.flags, FI_ATOMIC | FI_READ);
                EXPECT_EQ(fetched[0], old);
                EXPECT_EQ(fetched[1], T{3});
                EXPECT_EQ(word[0], expected(op, old, operand, compare[0])) << op;
                EXPECT_EQ(word[1], expected(op, T{3}, T{1}, T{3})) << op;
                if (compares || op == FI_ATOMIC_READ) {
                    continue;
                }
                word[0] = old;
                post(
                    [&] {
                        return fi_atomic(pair.a.ep, operands, 1, nullptr, pair.to_b, address, key,
                                         datatype, operation, nullptr);
                    },
                    pair.cqs);
                ASSERT_EQ(await(pair.a.tx, pair.cqs).error, 0);
                EXPECT_EQ(word[0], expected(op, old, operand, T{})) << op;
            }
        }
    }
}

TEST_P(Rma, EveryAtomicOnEveryDatatype) {
    all_operations<std::int8_t>(pair_, FI_INT8, memory_, at(0), key());
    all_operations<std::uint8_t>(pair_, FI_UINT8, memory_, at(0), key());
    all_operations<std::int16_t>(pair_, FI_INT16, memory_, at(0), key());
    all_operations<std::uint16_t>(pair_, FI_UINT16, memory_, at(0), key());
    all_operations<std::int32_t>(pair_, FI_INT32, memory_, at(0), key());
    all_operations<std::uint32_t>(pair_, FI_UINT32, memory_, at(0), key());
    all_operations<std::int64_t>(pair_, FI_INT64, memory_, at(0), key());
    all_operations<std::uint64_t>(pair_, FI_UINT64, memory_, at(0), key());
    all_operations<float>(pair_, FI_FLOAT, memory_, at(0), key());
    all_operations<double>(pair_, FI_DOUBLE, memory_, at(0), key());
}

TEST_P(Rma, AtomicsThatCannotBeAreRefused) {
    std::uint64_t value = 1;
    EXPECT_EQ(fi_atomic(pair_.a.ep, &value, 1, nullptr, pair_.to_b, at(0), key(), FI_LONG_DOUBLE,
                        FI_SUM, nullptr),
              -FI_EOPNOTSUPP);
    std::size_t most = 0;
    EXPECT_EQ(fi_atomicvalid(pair_.a.ep, FI_UINT64, FI_SUM, &most), 0);
    const std::vector<std::uint64_t> values(most + 1);
    // The last of these are of no bytes, if one does not look.
    for (const std::size_t count : {most + 1, std::size_t{1} << 61, (std::size_t{1} << 61) + 1}) {
        EXPECT_EQ(fi_atomic(pair_.a.ep, values.data(), count, nullptr, pair_.to_b, at(0), key(),
                            FI_UINT64, FI_SUM, nullptr),
                  -FI_EMSGSIZE)
            << count;
    }
    const fi_ioc halves[] = {{&value, std::size_t{1} << 63}, {&value, (std::size_t{1} << 63) + 1}};
    EXPECT_EQ(fi_atomicv(pair_.a.ep, halves, nullptr, 2, pair_.to_b, at(0), key(), FI_UINT64,
                         FI_SUM, nullptr),
              -FI_EMSGSIZE);
    post(
        [&] {
            return fi_atomic(pair_.a.ep, &value, 1, nullptr, pair_.to_b, at(4), key(), FI_UINT64,
                             FI_SUM, nullptr);
        },
        pair_.cqs);
    EXPECT_EQ(done().error, FI_EINVAL); // not aligned
    post(
        [&] {
            return fi_atomic(pair_.a.ep, &value, 1, nullptr, pair_.to_b, at(0), key() + 1,
                             FI_UINT64, FI_SUM, nullptr);
        },
        pair_.cqs);
    EXPECT_EQ(done().error, FI_EACCES);
    post(
        [&] {
            return fi_inject_atomic(pair_.a.ep, &value, 1, pair_.to_b, at(8), key(), FI_UINT64,
                                    FI_SUM);
        },
        pair_.cqs);
    while (fi_cntr_read(pair_.b.counters[5]) == 0) {
    }
    EXPECT_EQ(memory_[8], 1);
}

INSTANTIATE_TEST_SUITE_P(MrModes, Rma, testing::Values(0, mr_basic, mr_scalable),
                         [](const auto& mode) {
                             return mode.param == mr_basic      ? "basic"
                                    : mode.param == mr_scalable ? "scalable"
                                                                : "none";
                         });

} // namespace
} // namespace comch::ofi::test
