// Put, get and atomics over UCP, on memory from the heap, of comch, and of huge pages.
#include <random>

#include "test_ucp.hpp"

namespace comch::uct::test {
namespace {

class UcpRma : public ByMemory {};

/// A peer's buffer as seen from here.
struct Remote {
    Remote(Party& party, const Buffer& own) {
        const auto mine = own.key();
        party.line().put(reinterpret_cast<std::uint64_t>(own.data()));
        party.line().put_bytes(mine);
        address = party.line().get<std::uint64_t>();
        const auto theirs = party.line().get_bytes();
        check_ok(ucp_ep_rkey_unpack(party.ep(), theirs.data(), &key), "ucp_ep_rkey_unpack");
    }
    ~Remote() { ucp_rkey_destroy(key); }
    Remote(const Remote&) = delete;
    Remote& operator=(const Remote&) = delete;

    std::uint64_t address = 0;
    ucp_rkey_h key = nullptr;
};

ucs_status_t flush(Party& party) {
    ucp_request_param_t param{};
    return party.wait(ucp_ep_flush_nbx(party.ep(), &param));
}

TEST_P(UcpRma, PutAndGetOfAllSizes) {
    run_job(options(), [&](Party& party) {
        const Buffer window(party.context, 8 * mib + 64, mapped());
        const Buffer local(party.context, 8 * mib + 64, mapped());
        const Remote remote(party, window);
        ucp_request_param_t param{};
        std::uint64_t seed = 0;
        for (const std::size_t size :
             {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{57}, std::size_t{1000},
              std::size_t{1025}, std::size_t{8192}, std::size_t{32768}, std::size_t{32769},
              std::size_t{100'000}, mib, 8 * mib - 1}) {
            ++seed;
            window.clear();
            party.barrier();
            local.fill(size, 10 * seed + party.rank());
            ASSERT_EQ(party.wait(ucp_put_nbx(party.ep(), local.data(), size, remote.address + 3,
                                             remote.key, &param)),
                      UCS_OK);
            ASSERT_EQ(flush(party), UCS_OK);
            party.barrier();
            const auto expected = pattern(size, 10 * seed + 1 - party.rank());
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), window.data() + 3)) << size;
            ASSERT_EQ(window.data()[2], std::byte{0xee});
            ASSERT_EQ(window.data()[size + 3], std::byte{0xee});
            local.clear();
            ASSERT_EQ(party.wait(ucp_get_nbx(party.ep(), local.data(), size, remote.address + 3,
                                             remote.key, &param)),
                      UCS_OK);
            ASSERT_TRUE(local.holds(size, 10 * seed + party.rank())) << size << ", got back";
            ASSERT_EQ(local.data()[size], std::byte{0xee});
            party.barrier();
        }
    });
}

TEST_P(UcpRma, ManySmallOnesAtOnce) {
    run_job(options(), [&](Party& party) {
        constexpr std::size_t count = 2000;
        constexpr std::size_t size = 300;
        const Buffer window(party.context, count * size, mapped());
        const Buffer local(party.context, count * size, mapped());
        const Remote remote(party, window);
        window.clear();
        local.fill(count * size, party.rank());
        party.barrier();
        ucp_request_param_t param{};
        std::vector<ucs_status_ptr_t> requests;
        for (std::size_t i = 0; i < count; ++i) {
            requests.push_back(ucp_put_nbx(party.ep(), local.data() + i * size, size,
                                           remote.address + i * size, remote.key, &param));
        }
        for (const ucs_status_ptr_t request : requests) {
            ASSERT_EQ(party.wait(request), UCS_OK);
        }
        ASSERT_EQ(flush(party), UCS_OK);
        party.barrier();
        ASSERT_TRUE(window.holds(count * size, 1 - party.rank()));
        local.clear();
        requests.clear();
        for (std::size_t i = 0; i < count; ++i) {
            requests.push_back(ucp_get_nbx(party.ep(), local.data() + i * size, size,
                                           remote.address + i * size, remote.key, &param));
        }
        for (const ucs_status_ptr_t request : requests) {
            ASSERT_EQ(party.wait(request), UCS_OK);
        }
        ASSERT_TRUE(local.holds(count * size, party.rank()));
        party.barrier();
    });
}

TEST_P(UcpRma, AtomicsOfBothSidesAddUp) {
    run_job(options(), [&](Party& party) {
        constexpr std::uint64_t count = 1000;
        const Buffer window(party.context, 4096, mapped());
        std::memset(window.data(), 0, 4096);
        const Remote remote(party, window);
        party.barrier();
        // Both processes work on the words of the first.
        const std::uint64_t address =
            party.first() ? reinterpret_cast<std::uint64_t>(window.data()) : remote.address;
        ucp_rkey_h key = remote.key;
        const ucp_ep_h ep = party.ep(0);
        if (party.first()) {
            const auto own = window.key();
            check_ok(ucp_ep_rkey_unpack(ep, own.data(), &key), "own key");
        }
        const auto run = [&](ucp_atomic_op_t op, std::uint64_t value, std::uint64_t offset,
                             std::uint64_t* reply, std::size_t width) {
            ucp_request_param_t param{};
            param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
            param.datatype = ucp_dt_make_contig(width);
            if (reply != nullptr) {
                param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
                param.reply_buffer = reply;
            }
            ASSERT_EQ(
                party.wait(ucp_atomic_op_nbx(ep, op, &value, 1, address + offset, key, &param)),
                UCS_OK);
        };
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            std::uint64_t old = 0;
            run(UCP_ATOMIC_OP_ADD, 3, 0, nullptr, 8);
            run(UCP_ATOMIC_OP_ADD, 1, 8, &old, 8);
            run(UCP_ATOMIC_OP_ADD, 1, 20, nullptr, 4);
            run(UCP_ATOMIC_OP_XOR, 0xff, 24, nullptr, 8);
            run(UCP_ATOMIC_OP_OR, std::uint64_t{1} << (i % 64), 32, nullptr, 8);
            sum += old;
        }
        ucp_request_param_t param{};
        ASSERT_EQ(party.wait(ucp_ep_flush_nbx(ep, &param)), UCS_OK);
        party.barrier(); // nobody waits on the line while the other needs its progress
        const auto others = [&] {
            party.line().put(sum);
            return party.line().get<std::uint64_t>();
        }();
        party.barrier();
        // Each fetched value was seen exactly once.
        EXPECT_EQ(sum + others, (2 * count - 1) * (2 * count) / 2);
        if (party.first()) {
            std::uint64_t words[5];
            std::memcpy(words, window.data(), sizeof(words));
            EXPECT_EQ(words[0], 6 * count);
            EXPECT_EQ(words[1], 2 * count);
            EXPECT_EQ(words[2], (2 * count) << 32);
            EXPECT_EQ(words[3], 0u);
            EXPECT_EQ(words[4], ~std::uint64_t{0});
        }
        // A lock by compare-and-swap: what it guards is changed by plain operations.
        for (int i = 0; i < 50; ++i) {
            std::uint64_t expected = 1;
            while (expected != 0) {
                // The reply buffer holds the new value before, the old one afterwards.
                std::uint64_t compare = 0;
                expected = 1;
                ucp_request_param_t swap{};
                swap.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
                swap.datatype = ucp_dt_make_contig(8);
                swap.reply_buffer = &expected;
                ASSERT_EQ(party.wait(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_CSWAP, &compare, 1,
                                                       address + 64, key, &swap)),
                          UCS_OK);
            }
            std::uint64_t value = 0;
            ASSERT_EQ(party.wait(ucp_get_nbx(ep, &value, 8, address + 72, key, &param)), UCS_OK);
            ++value;
            ASSERT_EQ(party.wait(ucp_put_nbx(ep, &value, 8, address + 72, key, &param)), UCS_OK);
            ASSERT_EQ(party.wait(ucp_ep_flush_nbx(ep, &param)), UCS_OK);
            run(UCP_ATOMIC_OP_SWAP, 0, 64, &value, 8);
        }
        party.barrier();
        if (party.first()) {
            std::uint64_t value = 0;
            std::memcpy(&value, window.data() + 72, 8);
            EXPECT_EQ(value, 100u);
            ucp_rkey_destroy(key);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Job, UcpRma, ByMemory::all(), name_of_case);

} // namespace
} // namespace comch::uct::test
