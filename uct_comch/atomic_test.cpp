// Atomics: every operation, both widths, posted and fetching, on both kinds of memory; and against
// others who change the same word at the same time.

#include "test_target.hpp"

namespace comch::uct::test {
namespace {

struct Operation {
    uct_atomic_op_t op;
    const char* name;
    std::uint64_t (*apply)(std::uint64_t, std::uint64_t);
};
constexpr Operation operations[] = {
    {UCT_ATOMIC_OP_ADD, "add", [](std::uint64_t a, std::uint64_t b) { return a + b; }},
    {UCT_ATOMIC_OP_AND, "and", [](std::uint64_t a, std::uint64_t b) { return a & b; }},
    {UCT_ATOMIC_OP_OR, "or", [](std::uint64_t a, std::uint64_t b) { return a | b; }},
    {UCT_ATOMIC_OP_XOR, "xor", [](std::uint64_t a, std::uint64_t b) { return a ^ b; }},
    {UCT_ATOMIC_OP_SWAP, "swap", [](std::uint64_t, std::uint64_t b) { return b; }},
};
constexpr std::uint64_t values[] = {
    0, 1, 0xffffffffu, 0x100000000u, 0x8000000080000000u, 0x0123456789abcdefu, ~std::uint64_t{0}};

struct Atomics : testing::TestWithParam<Kind> {
    Lab lab;
    Target target{GetParam(), 65536};
    Interface host{"host"};
    Endpoint ep{host, target.address()};
    RemoteKey key{target.key()};

    template <class Word> ucs_status_t post(uct_atomic_op_t op, Word value, std::uint64_t to) {
        return persist(
            [&] {
                if constexpr (sizeof(Word) == 4) {
                    return uct_ep_atomic32_post(ep, op, value, to, key);
                } else {
                    return uct_ep_atomic64_post(ep, op, value, to, key);
                }
            },
            host);
    }
    template <class Word>
    ucs_status_t fetch(uct_atomic_op_t op, Word value, Word& result, std::uint64_t to) {
        Completion completion;
        return finish(persist(
                          [&] {
                              if constexpr (sizeof(Word) == 4) {
                                  return uct_ep_atomic32_fetch(ep, op, value, &result, to, key,
                                                               &completion.super);
                              } else {
                                  return uct_ep_atomic64_fetch(ep, op, value, &result, to, key,
                                                               &completion.super);
                              }
                          },
                          host),
                      completion, host);
    }
    template <class Word>
    ucs_status_t compare_swap(Word compare, Word value, Word& result, std::uint64_t at) {
        Completion completion;
        return finish(persist(
                          [&] {
                              if constexpr (sizeof(Word) == 4) {
                                  return uct_ep_atomic_cswap32(ep, compare, value, at, key, &result,
                                                               &completion.super);
                              } else {
                                  return uct_ep_atomic_cswap64(ep, compare, value, at, key, &result,
                                                               &completion.super);
                              }
                          },
                          host),
                      completion, host);
    }

    template <class Word> void every_operation() {
        constexpr std::uint64_t mask = sizeof(Word) == 4 ? 0xffffffffu : ~std::uint64_t{0};
        const std::uint64_t at = 64 + sizeof(Word); // a 32-bit word in the upper half of a line's
        for (const Operation& operation : operations) {
            for (const std::uint64_t before : values) {
                for (const std::uint64_t operand : values) {
                    // What stands beside a 32-bit word must stay.
                    target.set_word(at, before);
                    const std::uint64_t expected =
                        (before & ~mask) | (operation.apply(before & mask, operand & mask) & mask);
                    Word result = 0x5a;
                    ASSERT_EQ(
                        fetch(operation.op, static_cast<Word>(operand), result, target.memory(at)),
                        UCS_OK);
                    ASSERT_EQ(result, static_cast<Word>(before)) << operation.name;
                    ASSERT_EQ(target.word(at), expected) << operation.name;
                    if (operation.op == UCT_ATOMIC_OP_SWAP) {
                        continue;
                    }
                    target.set_word(at, before);
                    ASSERT_EQ(post(operation.op, static_cast<Word>(operand), target.memory(at)),
                              UCS_OK);
                    ASSERT_EQ(flush(ep, host), UCS_OK);
                    ASSERT_EQ(target.word(at), expected) << operation.name << ", posted";
                }
            }
        }
        for (const std::uint64_t before : values) {
            for (const std::uint64_t compare : values) {
                target.set_word(at, before);
                const std::uint64_t value = 0xa5a5a5a55a5a5a5a;
                Word result = 0;
                ASSERT_EQ(compare_swap(static_cast<Word>(compare), static_cast<Word>(value), result,
                                       target.memory(at)),
                          UCS_OK);
                ASSERT_EQ(result, static_cast<Word>(before));
                const bool equal = static_cast<Word>(before) == static_cast<Word>(compare);
                ASSERT_EQ(target.word(at), equal ? (before & ~mask) | (value & mask) : before);
            }
        }
    }
};

TEST_P(Atomics, EveryOperationOn64Bits) {
    every_operation<std::uint64_t>();
}
TEST_P(Atomics, EveryOperationOn32Bits) {
    every_operation<std::uint32_t>();
}

TEST_P(Atomics, DeclaredAreTheseAndNoOthers) {
    constexpr std::uint64_t posted = UCS_BIT(UCT_ATOMIC_OP_ADD) | UCS_BIT(UCT_ATOMIC_OP_AND) |
                                     UCS_BIT(UCT_ATOMIC_OP_OR) | UCS_BIT(UCT_ATOMIC_OP_XOR);
    constexpr std::uint64_t fetching =
        posted | UCS_BIT(UCT_ATOMIC_OP_SWAP) | UCS_BIT(UCT_ATOMIC_OP_CSWAP);
    EXPECT_EQ(host.attr.cap.atomic32.op_flags, posted);
    EXPECT_EQ(host.attr.cap.atomic64.op_flags, posted);
    EXPECT_EQ(host.attr.cap.atomic32.fop_flags, fetching);
    EXPECT_EQ(host.attr.cap.atomic64.fop_flags, fetching);
    EXPECT_NE(host.attr.cap.flags & UCT_IFACE_FLAG_ATOMIC_CPU, 0u);
    std::uint64_t result = 0;
    EXPECT_EQ(
        uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_LAST, 1, &result, target.memory(), key, nullptr),
        UCS_ERR_UNSUPPORTED);
}

TEST_P(Atomics, MisalignedAndOutsideAreRefused) {
    std::uint64_t result = 0;
    for (const std::uint64_t offset :
         {std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{target.length() - 4}}) {
        EXPECT_EQ(post<std::uint64_t>(UCT_ATOMIC_OP_ADD, 1, target.memory(offset)),
                  UCS_ERR_INVALID_PARAM);
    }
    EXPECT_EQ(post<std::uint32_t>(UCT_ATOMIC_OP_ADD, 1, target.memory(2)), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(fetch<std::uint64_t>(UCT_ATOMIC_OP_ADD, 1, result, target.memory(target.length())),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(post<std::uint32_t>(UCT_ATOMIC_OP_ADD, 1, target.memory(4)), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    EXPECT_EQ(target.word(0), std::uint64_t{1} << 32);
}

TEST_P(Atomics, ManyInFlightAddUp) {
    constexpr unsigned count = 3000;
    std::vector<std::uint64_t> results(count);
    Completion completion(count);
    unsigned at_once = 0;
    for (unsigned i = 0; i < count; ++i) {
        const ucs_status_t status = persist(
            [&] {
                return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &results[i], target.memory(),
                                             key, &completion.super);
            },
            host);
        ASSERT_GE(status, UCS_OK) << ucs_status_string(status);
        at_once += status == UCS_OK ? 1 : 0;
    }
    completion.super.count -= static_cast<int>(at_once);
    ASSERT_TRUE(until([&] { return completion.super.count == 0; }, host));
    // Each saw another value: together they saw all.
    std::sort(results.begin(), results.end());
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_EQ(results[i], i);
    }
    EXPECT_EQ(target.word(0), count);
}

INSTANTIATE_TEST_SUITE_P(Memory, Atomics, testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(AtomicsOfMany, OnOneWordAreNeverLost) {
    // Two processes add, the owner too; on allocated memory some go through messages at first.
    for (const Kind kind : kinds) {
        const Lab lab;
        constexpr std::uint64_t each = 5000;
        Target target(kind, 4096);
        const auto adder = [&](Line& line, const char* side) {
            Interface interface(side);
            Endpoint ep(interface, target.address());
            const RemoteKey key(target.key());
            for (std::uint64_t i = 0; i < each; ++i) {
                if (i % 2 == 0) {
                    ASSERT_EQ(persist(
                                  [&] {
                                      return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1,
                                                                  target.memory(), key);
                                  },
                                  interface),
                              UCS_OK);
                } else {
                    std::uint64_t result = 0;
                    Completion completion;
                    ASSERT_EQ(finish(persist(
                                         [&] {
                                             return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1,
                                                                          &result, target.memory(),
                                                                          key, &completion.super);
                                         },
                                         interface),
                                     completion, interface),
                              UCS_OK);
                }
            }
            ASSERT_EQ(flush(ep, interface), UCS_OK);
            line.put(1);
        };
        Process first([&](Line& line) { adder(line, "host"); });
        Process second([&](Line& line) { adder(line, "dpu"); });
        EXPECT_EQ(first.line().get<int>(), 1);
        EXPECT_EQ(second.line().get<int>(), 1);
        EXPECT_EQ(first.wait(), 0);
        EXPECT_EQ(second.wait(), 0);
        EXPECT_EQ(target.word(0), 2 * each) << name_of(kind);
    }
}

} // namespace
} // namespace comch::uct::test
