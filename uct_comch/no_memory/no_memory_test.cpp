// While there is no memory: a call of UCX's answers so and can be made again, and what cannot be received
// waits, or ends its connection.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/test_failing_new.hpp"
#include "core/base/test_failing_new_operators.hpp"
#include "uct_comch/test_uct.hpp"

namespace comch::uct::test {
namespace {

using comch::test::FailingAllocation;
using comch::test::Files;

template <class Call> ucs_status_t outlast(Call call, Files after = Files::as_before) {
    return comch::test::outlast<ucs_status_t>(UCS_ERR_NO_MEMORY, call, after);
}

TEST(NoMemory, ObjectsCanBeMadeOnceThereIsSome) {
    const Lab lab;
    uct_md_config_t* md_config = nullptr;
    check_ok(uct_md_config_read(comch_component(), nullptr, nullptr, &md_config), "md config");
    modify(md_config, {{"SIDE", "dpu"}});
    uct_md_h md = nullptr;
    EXPECT_EQ(outlast([&] { return uct_md_open(comch_component(), "comch", md_config, &md); },
                      Files::kept),
              UCS_OK);
    uct_config_release(md_config);
    uct_tl_resource_desc_t* resources = nullptr;
    unsigned count = 0;
    EXPECT_EQ(outlast([&] { return uct_md_query_tl_resources(md, &resources, &count); }), UCS_OK);
    ASSERT_EQ(count, 1u);
    ucs_async_context_t* async = nullptr;
    uct_worker_h worker = nullptr;
    check_ok(ucs_async_context_create(UCS_ASYNC_MODE_POLL, &async), "async");
    check_ok(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker), "worker");
    uct_iface_config_t* config = nullptr;
    check_ok(uct_md_iface_config_read(md, "comch", nullptr, nullptr, &config), "iface config");
    uct_iface_params_t params{};
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = resources[0].tl_name;
    params.mode.device.dev_name = resources[0].dev_name;
    uct_iface_h iface = nullptr;
    EXPECT_EQ(
        outlast([&] { return uct_iface_open(md, worker, &params, config, &iface); }, Files::kept),
        UCS_OK);
    uct_iface_close(iface);
    uct_config_release(config);
    uct_release_tl_resource_list(resources);
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async);
    uct_md_close(md);
}

TEST(NoMemory, MemoryIsRegisteredLater) {
    const Lab lab;
    Interface dpu("dpu");
    std::array<std::byte, 64> bytes{};
    uct_mem_h memh = nullptr;
    EXPECT_EQ(outlast([&] {
                  return uct_md_mem_reg(dpu.md, bytes.data(), bytes.size(), UCT_MD_MEM_ACCESS_ALL,
                                        &memh);
              }),
              UCS_OK);
    std::array<std::byte, 256> packed{};
    ASSERT_LE(dpu.md_attr.rkey_packed_size, packed.size());
    EXPECT_EQ(outlast([&] { return uct_md_mkey_pack(dpu.md, memh, packed.data()); }), UCS_OK);
    uct_rkey_bundle_t rkey{};
    EXPECT_EQ(outlast([&] { return uct_rkey_unpack(comch_component(), packed.data(), &rkey); }),
              UCS_OK);
    uct_rkey_release(comch_component(), &rkey);
    EXPECT_EQ(uct_md_mem_dereg(dpu.md, memh), UCS_OK);

    const uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MDS |
                        UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE;
    params.flags = UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS;
    params.mem_type = UCS_MEMORY_TYPE_HOST;
    params.mds.mds = &dpu.md;
    params.mds.count = 1;
    uct_allocated_memory_t memory{};
    EXPECT_EQ(outlast([&] { return uct_mem_alloc(100000, &method, 1, &params, &memory); }), UCS_OK);
    std::memset(memory.address, 1, memory.length);
    EXPECT_EQ(uct_mem_free(&memory), UCS_OK);
}

/// An operation of the host's, begun once there is memory for it, and through.
template <class Begin> void run(Interface& host, Interface& dpu, Begin begin) {
    Completion completion;
    const ucs_status_t status = persist(
        [&] { return outlast([&] { return begin(&completion.super); }, Files::kept); }, host, dpu);
    EXPECT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << status;
    EXPECT_TRUE(until([&] { return status == UCS_OK || completion.done(); }, host, dpu));
    EXPECT_EQ(completion.status(), UCS_OK);
}

/// What one end sends, puts, gets and changes, each when there is memory for it again.
void work(Interface& host, Interface& dpu, Memory& target, uct_ep_h ep, unsigned seed) {
    const std::uint64_t header = seed;
    const std::size_t seen = dpu.messages.size();
    EXPECT_EQ(persist([&] { return uct_ep_am_short(ep, 1, header, "abc", 4); }, host, dpu), UCS_OK);
    EXPECT_TRUE(until([&] { return dpu.messages.size() > seen; }, host, dpu));

    const RemoteKey key(pack_key(dpu, target));
    std::vector<std::byte> local(target.length(), static_cast<std::byte>(seed));
    const auto has_come = [&] { return std::equal(local.begin(), local.end(), target.data()); };
    const uct_iov_t iov = iov_of(local.data(), local.size());
    run(host, dpu, [&](uct_completion_t* completion) {
        return uct_ep_put_zcopy(ep, &iov, 1, target.address(), key, completion);
    });
    EXPECT_TRUE(
        until([&] { return uct_iface_flush(host.iface, 0, nullptr) == UCS_OK; }, host, dpu));
    EXPECT_TRUE(has_come());

    std::fill(local.begin(), local.end(), std::byte{});
    run(host, dpu, [&](uct_completion_t* completion) {
        return uct_ep_get_zcopy(ep, &iov, 1, target.address(), key, completion);
    });
    EXPECT_TRUE(has_come());

    std::uint64_t word = 0;
    run(host, dpu, [&](uct_completion_t* completion) {
        return uct_ep_get_bcopy(
            ep,
            [](void* to, const void* from, std::size_t length) { std::memcpy(to, from, length); },
            &word, sizeof(word), target.address(), key, completion);
    });
    EXPECT_EQ(word, 0x0101010101010101u * seed);

    std::uint64_t old = 0;
    run(host, dpu, [&](uct_completion_t* completion) {
        return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &old, target.address(), key,
                                     completion);
    });
    EXPECT_EQ(old, 0x0101010101010101u * seed);
}

TEST(NoMemory, OperationsCanBeMadeAgain) {
    const Lab lab;
    Interface dpu("dpu");
    Interface host("host");
    Memory target(dpu.md, Kind::registered, std::size_t{1} << 20);
    const Address address = address_of(dpu);
    uct_ep_h ep = nullptr;
    EXPECT_EQ(outlast(
                  [&] {
                      const auto [created, status] = try_create_ep(host, address);
                      ep = created;
                      return status;
                  },
                  Files::kept),
              UCS_OK);
    for (unsigned round = 1; round < 4; ++round) {
        work(host, dpu, target, ep, round);
    }
    uct_ep_destroy(ep);
    EXPECT_TRUE(host.failures.empty());
}

/// The n-th allocation of the end that is connected to fails, for each n: who connects is refused, and
/// told so, or never notices.
TEST(NoMemory, ConnectionsAreRefusedOrMade) {
    const Lab lab;
    bool failed = true;
    unsigned refused = 0;
    for (unsigned n = 1; failed; ++n) {
        SCOPED_TRACE(n);
        Interface dpu("dpu");
        Interface host("host");
        dpu.messages.reserve(4);
        Memory target(dpu.md, Kind::registered, std::size_t{1} << 20);
        unsigned left = n;
        {
            Endpoint ep(host, dpu);
            const std::uint64_t header = 1;
            ASSERT_EQ(uct_ep_am_short(ep, 1, header, "abc", 4), UCS_OK);
            bool came = false;
            dpu.on_message = [&](std::uint8_t, const std::byte*, std::size_t) { came = true; };
            EXPECT_TRUE(until(
                [&] {
                    const FailingAllocation failing(left);
                    (void)dpu.progress();
                    left = FailingAllocation::left();
                    return came || !host.failures.empty();
                },
                host));
            dpu.on_message = nullptr;
            refused += host.failures.empty() ? 0 : 1;
        }
        failed = left == 0;
        Endpoint again(host, dpu);
        work(host, dpu, target, again, 1);
    }
    EXPECT_GT(refused, 0u);
}

} // namespace
} // namespace comch::uct::test
