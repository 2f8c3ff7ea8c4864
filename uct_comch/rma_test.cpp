// Put and get: every kind and size, on memory that the peer maps and on memory that it only
// registered, which its process must serve.
#include <functional>
#include <random>

#include <sched.h>

#include "core/counters/counter_files.hpp"
#include "iface.hpp"
#include "test_target.hpp"

namespace comch::uct::test {
namespace {

struct Rma : testing::TestWithParam<Kind> {
    Lab lab;
    Target target{GetParam(), 8 * mib};
    Interface host{"host"};
    Endpoint ep{host, target.address()};
    RemoteKey key{target.key()};

    ucs_status_t put_zcopy(const std::byte* from, std::size_t length, std::uint64_t to) {
        return put_zcopy(from, length, to, key);
    }
    ucs_status_t put_zcopy(const std::byte* from, std::size_t length, std::uint64_t to,
                           const RemoteKey& by) {
        const uct_iov_t iov = iov_of(from, length);
        Completion completion;
        const ucs_status_t status =
            persist([&] { return uct_ep_put_zcopy(ep, &iov, 1, to, by, &completion.super); }, host);
        return finish(status, completion, host);
    }
    ucs_status_t get_zcopy(std::byte* to, std::size_t length, std::uint64_t from) {
        return get_zcopy(to, length, from, key);
    }
    ucs_status_t get_zcopy(std::byte* to, std::size_t length, std::uint64_t from,
                           const RemoteKey& by) {
        const uct_iov_t iov = iov_of(to, length);
        Completion completion;
        const ucs_status_t status = persist(
            [&] { return uct_ep_get_zcopy(ep, &iov, 1, from, by, &completion.super); }, host);
        return finish(status, completion, host);
    }

    /// The range and its surroundings: nothing beside it may have changed.
    void expect_only_changed(std::uint64_t offset, std::size_t length, std::uint64_t seed) {
        ASSERT_EQ(flush(ep, host), UCS_OK);
        EXPECT_EQ(target.wrong_bytes(offset, length, seed), 0u) << length << " bytes";
        EXPECT_EQ(target.wrong_bytes(offset - 64, 64, 1001), 0u) << "before " << length;
        EXPECT_EQ(target.wrong_bytes(offset + length, 64, 1002), 0u) << "after " << length;
    }
    void surround(std::uint64_t offset, std::size_t length) {
        target.fill(offset - 64, 64, 1001);
        target.fill(offset + length, 64, 1002);
    }
};

std::vector<std::size_t> small_sizes(std::size_t limit) {
    std::vector<std::size_t> sizes = {
        0,   1,   2,   7,   8,   9,   23,  24,   25,   55,   56,   57,   63,   64,    65,    127,
        128, 129, 248, 249, 991, 992, 993, 1023, 1024, 1025, 4087, 4096, 4097, 16375, 16376, 16377};
    sizes.push_back(limit - 1);
    sizes.push_back(limit);
    return sizes;
}

const std::size_t large_sizes[] = {32769, 65536,   131071,      524287,     524288,
                                   mib,   mib + 3, 3 * mib - 1, 5 * mib + 1};

TEST_P(Rma, PutShort) {
    std::uint64_t seed = 1;
    for (const std::size_t length : small_sizes(host.attr.cap.put.max_short)) {
        const std::uint64_t offset = 4096 + seed % 64;
        surround(offset, length);
        auto bytes = pattern(length, seed);
        ASSERT_EQ(persist(
                      [&] {
                          return uct_ep_put_short(ep, bytes.data(), static_cast<unsigned>(length),
                                                  target.memory(offset), key);
                      },
                      host),
                  UCS_OK);
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee}); // it is the caller's again
        expect_only_changed(offset, length, seed++);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_P(Rma, PutBcopy) {
    std::uint64_t seed = 100;
    for (const std::size_t length : small_sizes(host.attr.cap.put.max_bcopy)) {
        const std::uint64_t offset = 4096 + seed % 64;
        surround(offset, length);
        const auto bytes = pattern(length, seed);
        Packing packing{bytes.data(), length};
        ASSERT_EQ(persist(
                      [&] {
                          return uct_ep_put_bcopy(ep, Packing::pack, &packing,
                                                  target.memory(offset), key);
                      },
                      host),
                  static_cast<ssize_t>(length));
        expect_only_changed(offset, length, seed++);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_P(Rma, PutZcopy) {
    auto sizes = small_sizes(32768);
    sizes.insert(sizes.end(), std::begin(large_sizes), std::end(large_sizes));
    std::uint64_t seed = 200;
    for (const std::size_t length : sizes) {
        const std::uint64_t offset = 4096 + seed % 64;
        surround(offset, length);
        auto bytes = pattern(length, seed);
        ASSERT_EQ(put_zcopy(bytes.data(), length, target.memory(offset)), UCS_OK);
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
        expect_only_changed(offset, length, seed++);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_P(Rma, GetShort) {
    std::uint64_t seed = 300;
    for (const std::size_t length : small_sizes(host.attr.cap.get.max_short)) {
        const std::uint64_t offset = 8192 + seed % 64;
        target.fill(offset, length, seed);
        std::vector<std::byte> bytes(length + 64, std::byte{0x5a});
        ASSERT_EQ(persist(
                      [&] {
                          return uct_ep_get_short(ep, bytes.data(), static_cast<unsigned>(length),
                                                  target.memory(offset), key);
                      },
                      host),
                  UCS_OK);
        const auto expected = pattern(length, seed++);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin())) << length;
        ASSERT_EQ(std::count(bytes.begin() + static_cast<std::ptrdiff_t>(length), bytes.end(),
                             std::byte{0x5a}),
                  64);
    }
}

TEST_P(Rma, GetBcopy) {
    std::uint64_t seed = 400;
    for (const std::size_t length : small_sizes(host.attr.cap.get.max_bcopy)) {
        const std::uint64_t offset = 8192 + seed % 64;
        target.fill(offset, length, seed);
        Unpacking unpacking;
        Completion completion;
        const ucs_status_t status = persist(
            [&] {
                return uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, length,
                                        target.memory(offset), key, &completion.super);
            },
            host);
        ASSERT_EQ(finish(status, completion, host), UCS_OK);
        ASSERT_EQ(unpacking.calls, 1);
        ASSERT_TRUE(unpacking.bytes == pattern(length, seed++)) << length;
    }
}

TEST_P(Rma, GetZcopy) {
    auto sizes = small_sizes(32768);
    sizes.insert(sizes.end(), std::begin(large_sizes), std::end(large_sizes));
    std::uint64_t seed = 500;
    for (const std::size_t length : sizes) {
        const std::uint64_t offset = 8192 + seed % 64;
        target.fill(offset, length, seed);
        std::vector<std::byte> bytes(length + 64, std::byte{0x5a});
        ASSERT_EQ(get_zcopy(bytes.data(), length, target.memory(offset)), UCS_OK);
        const auto expected = pattern(length, seed++);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin())) << length;
        ASSERT_EQ(std::count(bytes.begin() + static_cast<std::ptrdiff_t>(length), bytes.end(),
                             std::byte{0x5a}),
                  64);
    }
}

TEST_P(Rma, AnEmptyVectorIsDoneAtOnce) {
    EXPECT_EQ(uct_ep_put_zcopy(ep, nullptr, 0, target.memory(), key, nullptr), UCS_OK);
    EXPECT_EQ(uct_ep_get_zcopy(ep, nullptr, 0, target.memory(), key, nullptr), UCS_OK);
}

TEST_P(Rma, OfNothingIsDoneAtOnceAndNeedsNoKey) {
    Packing nothing{nullptr, 0};
    Unpacking unpacking;
    const uct_iov_t iov = iov_of(nullptr, 0);
    int calls = 0;
    for (const uct_rkey_t any : {uct_rkey_t{key}, uct_rkey_t{UCT_INVALID_RKEY}, uct_rkey_t{0}}) {
        EXPECT_EQ(uct_ep_put_short(ep, nullptr, 0, 0, any), UCS_OK);
        EXPECT_EQ(uct_ep_put_bcopy(ep, Packing::pack, &nothing, 0, any), 0);
        EXPECT_EQ(uct_ep_put_zcopy(ep, &iov, 1, 0, any, nullptr), UCS_OK);
        EXPECT_EQ(uct_ep_get_short(ep, nullptr, 0, 0, any), UCS_OK);
        EXPECT_EQ(uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 0, 0, any, nullptr), UCS_OK);
        EXPECT_EQ(unpacking.calls, ++calls);
        EXPECT_EQ(uct_ep_get_zcopy(ep, &iov, 1, 0, any, nullptr), UCS_OK);
    }
    EXPECT_EQ(flush(ep, host), UCS_OK);
}

TEST_P(Rma, ManyAtOnceAllComplete) {
    // More than the link has in flight: those refused are tried again.
    constexpr std::size_t count = 700;
    constexpr std::size_t length = 1000;
    target.fill(0, count * length, 42);
    const auto expected = pattern(count * length, 42);
    std::vector<std::byte> bytes(count * length);
    std::vector<Completion> completions(count);
    std::vector<ucs_status_t> started(count);
    for (std::size_t i = 0; i < count; ++i) {
        const uct_iov_t iov = iov_of(bytes.data() + i * length, length);
        started[i] = persist(
            [&] {
                return uct_ep_get_zcopy(ep, &iov, 1, target.memory(i * length), key,
                                        &completions[i].super);
            },
            host);
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(finish(started[i], completions[i], host), UCS_OK) << i;
    }
    EXPECT_TRUE(bytes == expected);
}

TEST_P(Rma, OneCompletionCountsSeveralOperations) {
    constexpr int count = 5;
    const auto bytes = pattern(count * mib, 6);
    Completion completion(count);
    for (int i = 0; i < count; ++i) {
        const uct_iov_t iov = iov_of(bytes.data() + static_cast<std::size_t>(i) * mib, mib);
        const ucs_status_t status = persist(
            [&] {
                return uct_ep_put_zcopy(ep, &iov, 1,
                                        target.memory(static_cast<std::uint64_t>(i) * mib), key,
                                        &completion.super);
            },
            host);
        ASSERT_GE(status, UCS_OK) << ucs_status_string(status);
        if (status == UCS_OK) {
            --completion.super.count;
        }
    }
    ASSERT_TRUE(until([&] { return completion.super.count == 0; }, host));
    EXPECT_LE(completion.calls, 1);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    EXPECT_EQ(target.wrong_bytes(0, bytes.size(), 6), 0u);
}

TEST_P(Rma, FencedPutsLandInOrderFromTheFirstOn) {
    // Memory that can be mapped is written through messages at first and directly later: what was
    // sent first must not land last.
    constexpr std::size_t length = 5000;
    std::uint64_t seed = 0;
    for (int round = 0; round < 300; ++round) {
        ++seed;
        const auto bytes = pattern(length, seed);
        Packing packing{bytes.data(), length};
        ASSERT_EQ(
            persist(
                [&] { return uct_ep_put_bcopy(ep, Packing::pack, &packing, target.memory(), key); },
                host),
            static_cast<ssize_t>(length));
        ASSERT_EQ(uct_ep_fence(ep, 0), UCS_OK);
        if (round % 16 == 0) {
            host.progress();
        }
    }
    ASSERT_EQ(flush(ep, host), UCS_OK);
    EXPECT_EQ(target.wrong_bytes(0, length, seed), 0u);
}

TEST_P(Rma, AFencedMessageFollowsWhatWasPut) {
    // Long puts that wait for room, then a message: when it is there, so is the data.
    const auto bytes = pattern(4 * mib, 77);
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    Completion completion;
    const ucs_status_t status = persist(
        [&] { return uct_ep_put_zcopy(ep, &iov, 1, target.memory(), key, &completion.super); },
        host);
    ASSERT_GE(status, UCS_OK);
    ASSERT_EQ(uct_ep_fence(ep, 0), UCS_OK);
    ASSERT_EQ(persist([&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }, host), UCS_OK);
    ASSERT_TRUE(until([&] { return target.messages() == 1; }, host));
    EXPECT_EQ(target.wrong_bytes(0, bytes.size(), 77), 0u);
    EXPECT_EQ(finish(status, completion, host), UCS_OK);
}

TEST_P(Rma, WhatIsAboveTheLimitIsRefused) {
    const Log log;
    std::vector<std::byte> bytes(4 * mib);
    const auto above = static_cast<unsigned>(host.attr.cap.put.max_short + 1);
    const auto large = static_cast<unsigned>(bytes.size());
    EXPECT_EQ(uct_ep_put_short(ep, bytes.data(), above, target.memory(), key),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_put_short(ep, bytes.data(), large, target.memory(), key),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_get_short(ep, bytes.data(), above, target.memory(), key),
              UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_get_short(ep, bytes.data(), large, target.memory(), key),
              UCS_ERR_INVALID_PARAM);
    Unpacking unpacking;
    EXPECT_EQ(uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, host.attr.cap.get.max_bcopy + 1,
                               target.memory(), key, nullptr),
              UCS_ERR_INVALID_PARAM);
    const uct_iov_t two[] = {iov_of(bytes.data(), 1), iov_of(bytes.data() + 1, 1)};
    EXPECT_EQ(uct_ep_put_zcopy(ep, two, 2, target.memory(), key, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(uct_ep_get_zcopy(ep, two, 2, target.memory(), key, nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(flush(ep, host), UCS_OK);
    EXPECT_EQ(unpacking.calls, 0);
}

TEST_P(Rma, WhatLiesOutsideTheRegionIsRefused) {
    std::vector<std::byte> bytes(64);
    const std::uint64_t end = target.memory(target.length());
    for (const std::uint64_t address :
         {target.memory() - 1, end - 63, end, end + 1, std::uint64_t{0}, ~std::uint64_t{0} - 8}) {
        EXPECT_EQ(uct_ep_put_short(ep, bytes.data(), 64, address, key), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(uct_ep_get_short(ep, bytes.data(), 64, address, key), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(put_zcopy(bytes.data(), 64, address), UCS_ERR_INVALID_PARAM);
        EXPECT_EQ(get_zcopy(bytes.data(), 64, address), UCS_ERR_INVALID_PARAM);
    }
    // And the last bytes inside it are not.
    EXPECT_EQ(put_zcopy(bytes.data(), 64, end - 64), UCS_OK);
    EXPECT_EQ(flush(ep, host), UCS_OK);
}

TEST_P(Rma, AStalledTargetServesWhenItProgressesAgain) {
    target.fill(0, 64 * 1024, 9);
    target.pause();
    std::vector<std::byte> bytes(64 * 1024);
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    Completion completion;
    const ucs_status_t status =
        uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &completion.super);
    ASSERT_EQ(status, UCS_INPROGRESS); // nobody has answered yet, so nothing is mapped
    settle(std::chrono::milliseconds(50), host);
    EXPECT_FALSE(completion.done());
    target.resume();
    EXPECT_EQ(finish(status, completion, host), UCS_OK);
    EXPECT_TRUE(bytes == pattern(bytes.size(), 9));
}

TEST_P(Rma, AGetShortThatIsGivenUpDoesNotDisturbTheNext) {
    target.fill(0, 4096, 1);
    target.fill(4096, 4096, 2);
    std::vector<std::byte> first(1000);
    std::vector<std::byte> second(1000);
    (void)uct_ep_get_short(ep, first.data(), 1000, target.memory(), key);
    // The caller has changed its mind: another place, the same length.
    ASSERT_EQ(
        persist([&] { return uct_ep_get_short(ep, second.data(), 1000, target.memory(4096), key); },
                host),
        UCS_OK);
    const auto expected = pattern(4096, 2);
    EXPECT_TRUE(std::equal(second.begin(), second.end(), expected.begin()));
    // And what was asked for long ago is not what is there now.
    ASSERT_EQ(
        persist([&] { return uct_ep_get_short(ep, first.data(), 1000, target.memory(), key); },
                host),
        UCS_OK);
}

TEST_P(Rma, AfterTheEndOfTheRegistrationAGetFails) {
    const RemoteKey revocable(target.revocable_key());
    std::vector<std::byte> bytes(4096);
    ASSERT_EQ(get_zcopy(bytes.data(), 64, target.memory(), revocable), UCS_OK);
    settle(std::chrono::milliseconds(20), host);
    target.deregister();
    const ucs_status_t status =
        get_zcopy(bytes.data(), bytes.size(), target.memory(4096), revocable);
    if (GetParam() == Kind::registered) {
        EXPECT_LT(status, UCS_OK);
        // The connection lives on.
        EXPECT_EQ(uct_ep_am_short(ep, 0, 0, nullptr, 0), UCS_OK);
        EXPECT_EQ(flush(ep, host), UCS_OK);
        EXPECT_EQ(target.messages(), 1u);
        EXPECT_TRUE(host.failures.empty());
    } // a mapping of memory that was freed may still be read: zeroes, but no crash
}

TEST_P(Rma, AfterTheEndOfTheRegistrationAPutBreaksTheEndpointButNobodyCrashes) {
    const Log log;
    const RemoteKey revocable(target.revocable_key());
    std::vector<std::byte> bytes(4096);
    ASSERT_EQ(put_zcopy(bytes.data(), 64, target.memory(), revocable), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    settle(std::chrono::milliseconds(20), host);
    target.deregister();
    (void)put_zcopy(bytes.data(), bytes.size(), target.memory(4096), revocable);
    (void)flush(ep, host);
    if (GetParam() == Kind::registered) {
        ASSERT_TRUE(until([&] { return !host.failures.empty(); }, host));
        EXPECT_EQ(host.failures.size(), 1u);
        EXPECT_LT(host.failures[0].status, UCS_OK);
        EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
    }
    EXPECT_EQ(target.leave(), 0);
}

INSTANTIATE_TEST_SUITE_P(Memory, Rma, testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(PutBcopy, IsNotPackedInVainBehindAQueue) {
    const Lab lab;
    Target target(Kind::registered, 1 << 20);
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.revocable_key());
    ASSERT_EQ(persist([&] { return uct_ep_am_short(ep, 0, 0, nullptr, 0); }, host), UCS_OK);
    ASSERT_EQ(flush(ep, host), UCS_OK);
    target.pause();
    unsigned packed = 0;
    const auto put = [&] {
        return uct_ep_put_bcopy(
            ep,
            [](void* to, void* arg) -> std::size_t {
                std::memset(to, 0, 4096);
                ++*static_cast<unsigned*>(arg);
                return 4096;
            },
            &packed, target.memory(), key);
    };
    unsigned sent = 0;
    while (put() > 0) {
        ASSERT_LT(++sent, 1'000'000u);
    }
    uct_pending_req_t request{};
    request.func = [](uct_pending_req_t*) { return UCS_ERR_NO_RESOURCE; };
    ASSERT_EQ(uct_ep_pending_add(ep, &request, 0), UCS_OK);
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(put(), UCS_ERR_NO_RESOURCE);
    }
    EXPECT_EQ(packed, sent + 1);
    uct_ep_pending_purge(ep, nullptr, nullptr);
}

/// Answers of a get_short that are there, and that nobody has fetched.
struct LateGetShort : testing::Test {
    Lab lab;
    Target target{Kind::registered, 4096};
    Interface host{"host"};
    Endpoint ep{host, target.address()};
    RemoteKey key{target.revocable_key()}; // goes by the target's CPU
    std::uint64_t word = 0;

    ucs_status_t get() { return uct_ep_get_short(ep, &word, 8, target.memory(), key); }
    /// A get_short of 1 is answered, after which its caller did something else.
    void leave_one() {
        target.set_word(0, 1);
        ASSERT_EQ(get(), UCS_ERR_NO_RESOURCE);
        std::uint64_t other = 0;
        const uct_iov_t iov = iov_of(reinterpret_cast<std::byte*>(&other), 8);
        Completion completion; // answers come in the order of the questions
        ASSERT_EQ(finish(uct_ep_get_zcopy(ep, &iov, 1, target.memory(64), key, &completion.super),
                         completion, host),
                  UCS_OK);
    }
};

TEST_F(LateGetShort, IsNotFromBeforeAWriteToTheSamePlace) {
    std::uint64_t value = 2;
    std::uint64_t old = 0;
    Packing packing{reinterpret_cast<std::byte*>(&value), 8};
    const uct_iov_t iov = iov_of(reinterpret_cast<std::byte*>(&value), 8);
    const std::uint64_t at = target.memory();
    const std::function<ucs_status_t(Completion&)> writes[] = {
        [&](Completion&) { return uct_ep_put_short(ep, &value, 8, at, key); },
        [&](Completion&) {
            return uct_ep_put_bcopy(ep, Packing::pack, &packing, at, key) == 8 ? UCS_OK
                                                                               : UCS_ERR_LAST;
        },
        [&](Completion& done) { return uct_ep_put_zcopy(ep, &iov, 1, at, key, &done.super); },
        [&](Completion&) { return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, at, key); },
        [&](Completion& done) {
            return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_SWAP, 2, &old, at, key, &done.super);
        },
        [&](Completion& done) {
            return uct_ep_atomic_cswap64(ep, 1, 2, at, key, &old, &done.super);
        },
    };
    for (const auto& write : writes) {
        leave_one();
        Completion completion;
        ASSERT_EQ(finish(write(completion), completion, host), UCS_OK);
        ASSERT_EQ(persist([&] { return get(); }, host), UCS_OK);
        EXPECT_EQ(word, 2u) << "write " << &write - writes;
    }
    target.set_word(0, 1);
    EXPECT_TRUE(until(
        [&] {
            EXPECT_EQ(persist([&] { return uct_ep_put_short(ep, &value, 8, at + 8, key); }, host),
                      UCS_OK);
            return get() == UCS_OK;
        },
        host))
        << "written elsewhere";
    EXPECT_EQ(word, 1u);
}

TEST_F(LateGetShort, IsNotFromBeforeWhatItsCallerHasSeenSince) {
    leave_one();
    target.set_word(0, 2); // and says so, by this call's answer
    host.progress();
    host.progress(); // without having tried again after the first: it had gone on
    ASSERT_EQ(persist([&] { return get(); }, host), UCS_OK);
    EXPECT_EQ(word, 2u);
}

TEST_F(LateGetShort, ThatTheOwnerRefusesSaysSo) {
    leave_one();
    target.deregister();
    ASSERT_TRUE(until([&] { return get() != UCS_ERR_NO_RESOURCE; }, host));
    EXPECT_EQ(persist([&] { return get(); }, host), UCS_ERR_REJECTED);
    // From the queue, too: what is behind it must get its turn.
    struct Request {
        uct_pending_req_t super{};
        LateGetShort* test = nullptr;
        ucs_status_t status = UCS_ERR_NO_RESOURCE;
    } request;
    request.test = this;
    request.super.func = [](uct_pending_req_t* self) {
        auto& mine = *reinterpret_cast<Request*>(self);
        mine.status = mine.test->get();
        return mine.status == UCS_ERR_NO_RESOURCE ? UCS_ERR_NO_RESOURCE : UCS_OK;
    };
    ASSERT_EQ(get(), UCS_ERR_NO_RESOURCE);
    ASSERT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_OK);
    ASSERT_TRUE(until([&] { return request.status != UCS_ERR_NO_RESOURCE; }, host));
    EXPECT_EQ(request.status, UCS_ERR_REJECTED);
    EXPECT_EQ(flush(ep, host), UCS_OK);
}

TEST_F(LateGetShort, IsNotFromBeforeAFlushOrFence) {
    const std::function<ucs_status_t()> calls[] = {
        [&] { return flush(ep, host); },
        [&] { return uct_ep_flush(ep, UCT_FLUSH_FLAG_CANCEL, nullptr); },
        [&] { return uct_ep_fence(ep, 0); },
        [&] { return uct_iface_fence(host.iface, 0); },
    };
    for (const auto& call : calls) {
        leave_one();
        target.set_word(0, 2);
        ASSERT_EQ(call(), UCS_OK);
        ASSERT_EQ(persist([&] { return get(); }, host), UCS_OK);
        EXPECT_EQ(word, 2u) << "call " << &call - calls;
    }
}

TEST_F(LateGetShort, ComesThoughItsCallerFencesAndFlushesBetweenItsTries) {
    target.set_word(0, 3);
    EXPECT_TRUE(until(
        [&] {
            const ucs_status_t status = get();
            EXPECT_EQ(uct_iface_fence(host.iface, 0), UCS_OK);
            (void)uct_ep_flush(ep, 0, nullptr);
            return status == UCS_OK;
        },
        host));
    EXPECT_EQ(word, 3u);
}

TEST_F(LateGetShort, InTheQueueIsServedHoweverOftenOthersFenceAndFlush) {
    ASSERT_EQ(get(), UCS_ERR_NO_RESOURCE);
    struct Request {
        uct_pending_req_t super{};
        LateGetShort* test = nullptr;
        bool done = false;
    } request;
    request.test = this;
    request.super.func = [](uct_pending_req_t* self) {
        auto* r = reinterpret_cast<Request*>(self);
        const ucs_status_t status = r->test->get();
        r->done = status == UCS_OK;
        return status;
    };
    ASSERT_EQ(uct_ep_pending_add(ep, &request.super, 0), UCS_OK);
    EXPECT_TRUE(until(
        [&] {
            EXPECT_EQ(uct_ep_fence(ep, 0), UCS_OK);
            return uct_ep_flush(ep, 0, nullptr) != UCS_ERR_NO_RESOURCE;
        },
        host));
    EXPECT_TRUE(request.done);
}

TEST(ManyGets, DoNotKeepAllTheirBuffersWhenTheyAreDone) {
    if (comch::test::test_description()) {
        GTEST_SKIP() << "looks into an interface over the soft device";
    }
    const Lab lab;
    Target target(Kind::registered, 4096);
    // What is used in flight outlives the endpoints.
    Unpacking unpacking;
    std::vector<std::unique_ptr<Completion>> completions;
    Interface host("host");
    const RemoteKey key(target.revocable_key()); // goes by the target's CPU
    std::vector<Endpoint> eps;
    target.pause();
    while (completions.size() <= most_kept_gets) {
        const Endpoint& ep = eps.emplace_back(host, target.address());
        ucs_status_t status = UCS_OK;
        do {
            completions.push_back(std::make_unique<Completion>());
            status = uct_ep_get_bcopy(ep, Unpacking::unpack, &unpacking, 8, target.memory(), key,
                                      &completions.back()->super);
        } while (status == UCS_INPROGRESS);
        ASSERT_EQ(status, UCS_ERR_NO_RESOURCE);
        completions.pop_back();
        ASSERT_LT(eps.size(), 100u);
    }
    target.resume();
    ASSERT_TRUE(
        until([&] { return unpacking.calls == static_cast<int>(completions.size()); }, host));
    const std::size_t kept = Iface<SoftLink>::of(host.iface)->get_pool.size();
    EXPECT_GT(kept, 0u);
    EXPECT_LE(kept, most_kept_gets);
}

struct ReadOnly : testing::TestWithParam<Kind> {};

TEST_P(ReadOnly, APutIsRefusedAndAGetIsNot) {
    const Lab lab;
    Target target(GetParam(), 65536,
                  UCT_MD_MEM_ACCESS_REMOTE_GET | UCT_MD_MEM_ACCESS_LOCAL_READ |
                      UCT_MD_MEM_ACCESS_LOCAL_WRITE);
    Interface host("host");
    Endpoint ep(host, target.address());
    const RemoteKey key(target.key());
    const Log log;
    target.fill(0, 65536, 3);
    std::vector<std::byte> bytes(65536);
    const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
    for (int round = 0; round < 3; ++round) {
        Completion completion;
        const ucs_status_t status = persist(
            [&] { return uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &completion.super); },
            host);
        ASSERT_EQ(finish(status, completion, host), UCS_OK);
        ASSERT_TRUE(bytes == pattern(bytes.size(), 3));
        settle(std::chrono::milliseconds(10), host);
    }
    const std::uint64_t word = 1;
    const ucs_status_t status = uct_ep_put_short(ep, &word, 8, target.memory(), key);
    if (status == UCS_OK) {
        EXPECT_TRUE(until([&] { return !host.failures.empty(); }, host));
    }
    EXPECT_EQ(target.wrong_bytes(0, 65536, 3), 0u);
}

INSTANTIATE_TEST_SUITE_P(Memory, ReadOnly, testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// An endpoint to oneself reaches one's own memory.
struct OwnMemory : testing::TestWithParam<Kind> {};

TEST_P(OwnMemory, IsPutGotAndChangedAtOnce) {
    const Lab lab;
    Interface host("host");
    Endpoint self(host, host);
    Memory memory(host.md, GetParam(), 2 * mib);
    const RemoteKey key(pack_key(host, memory));
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, mib + 5}) {
        const auto bytes = pattern(length, length);
        const uct_iov_t iov = iov_of(bytes.data(), length);
        Completion put;
        ASSERT_EQ(finish(persist(
                             [&] {
                                 return uct_ep_put_zcopy(self, &iov, 1, memory.address() + 11, key,
                                                         &put.super);
                             },
                             host),
                         put, host),
                  UCS_OK);
        ASSERT_EQ(flush(self, host), UCS_OK);
        ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.data() + 11));
        std::vector<std::byte> back(length);
        const uct_iov_t to = iov_of(back.data(), length);
        Completion get;
        ASSERT_EQ(finish(persist(
                             [&] {
                                 return uct_ep_get_zcopy(self, &to, 1, memory.address() + 11, key,
                                                         &get.super);
                             },
                             host),
                         get, host),
                  UCS_OK);
        ASSERT_TRUE(back == bytes);
    }
    std::uint64_t old = 1;
    std::memset(memory.data(), 0, 8);
    Completion add;
    ASSERT_EQ(finish(persist(
                         [&] {
                             return uct_ep_atomic64_fetch(self, UCT_ATOMIC_OP_ADD, 5, &old,
                                                          memory.address(), key, &add.super);
                         },
                         host),
                     add, host),
              UCS_OK);
    EXPECT_EQ(old, 0u);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(memory.data()), 5u);
}

INSTANTIATE_TEST_SUITE_P(Memory, OwnMemory, testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// Long gets from memory that is mapped here into memory that the owner can map: it copies, too.
TEST(MappedByBoth, IsCopiedByBoth) {
    cpu_set_t cpus;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    if (CPU_COUNT(&cpus) < 2) {
        GTEST_SKIP() << "on one CPU nobody helps";
    }
    const Lab lab;
    // That takes longer than another process has the owner's CPU on a busy machine.
    constexpr std::size_t longest = 64 * mib;
    Target target(Kind::allocated, longest + 64);
    target.fill(7, longest, 1);
    const auto bytes = pattern(longest, 1);
    const RemoteKey key(target.key());
    const auto copied_by_owner = [&]() -> std::uint64_t {
        const auto domain = Domain::open({});
        const auto processes = counters::read_counter_files(**domain);
        std::uint64_t sum = 0;
        for (const auto& process : *processes) {
            for (const auto& connection : process.connections) {
                const bool owners =
                    process.pid == static_cast<std::uint64_t>(target.process().pid());
                sum += owners ? connection.figures.tx_mapped_bytes : 0;
            }
        }
        return sum;
    };
    Interface host("host");
    Endpoint ep(host, target.address());
    Memory memory(host.md, Kind::allocated, longest + 64);
    // Whether the owner comes in time is up to the machine. Gets of each length are tried by themselves, the
    // first ones at once.
    const std::vector<std::byte> around(64);
    for (std::size_t length = longest; copied_by_owner() == 0;
         length = length > mib ? length / 2 : longest) {
        for (unsigned i = 0; i < 40 && copied_by_owner() == 0; ++i) {
            std::memset(memory.data(), 0, length + 64);
            const uct_iov_t to = iov_of(memory.data() + 21, length);
            Completion get;
            ASSERT_EQ(finish(persist(
                                 [&] {
                                     return uct_ep_get_zcopy(ep, &to, 1, target.memory(7), key,
                                                             &get.super);
                                 },
                                 host),
                             get, host),
                      UCS_OK);
            ASSERT_EQ(std::memcmp(memory.data() + 21, bytes.data(), length), 0);
            ASSERT_EQ(std::memcmp(memory.data(), around.data(), 21), 0);
            ASSERT_EQ(std::memcmp(memory.data() + 21 + length, around.data(), 64 - 21), 0);
            // The owner asks for the memory to map it, and only progress answers.
            settle(std::chrono::milliseconds(1), host);
        }
    }
}

} // namespace
} // namespace comch::uct::test
