// Memory maps, buffers, and where buffers come from.
#include <array>
#include <cstring>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_buf_pool.h>
#include <doca_mmap.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

/// A started map of 4 KiB, and an inventory of four buffers.
struct DocaMemory : testing::Test {
    Lab lab;
    std::vector<char> bytes = std::vector<char>(4096);
    doca_mmap* mmap = nullptr;
    doca_buf_inventory* inventory = nullptr;

    DocaMemory() {
        EXPECT_OK(doca_mmap_create(&mmap));
        EXPECT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
        EXPECT_OK(doca_mmap_set_permissions(mmap, DOCA_ACCESS_FLAG_PCI_READ_WRITE));
        EXPECT_OK(doca_mmap_add_dev(mmap, lab.host));
        EXPECT_OK(doca_mmap_start(mmap));
        EXPECT_OK(doca_buf_inventory_create(4, &inventory));
        EXPECT_OK(doca_buf_inventory_start(inventory));
    }
    ~DocaMemory() override {
        EXPECT_OK(doca_buf_inventory_destroy(inventory));
        EXPECT_OK(doca_mmap_destroy(mmap));
    }
    [[nodiscard]] doca_buf* get(std::size_t offset, std::size_t length) {
        doca_buf* buf = nullptr;
        EXPECT_OK(doca_buf_inventory_buf_get_by_addr(inventory, mmap, bytes.data() + offset, length,
                                                     &buf));
        return buf;
    }
    [[nodiscard]] std::uint32_t free_elements() const {
        std::uint32_t count = 0;
        EXPECT_OK(doca_buf_inventory_get_num_free_elements(inventory, &count));
        return count;
    }
};

TEST_F(DocaMemory, AMapNeedsARangeAndADeviceAndIsFixedByItsStart) {
    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create(&other));
    EXPECT_EQ(doca_mmap_start(other), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_set_memrange(other, nullptr, 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_set_memrange(other, bytes.data(), 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_set_permissions(other, 1u << 20), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_set_permissions(other, DOCA_ACCESS_FLAG_PCI_READ_ONLY |
                                                   DOCA_ACCESS_FLAG_PCI_READ_WRITE),
              DOCA_ERROR_INVALID_VALUE); // one of them
    EXPECT_EQ(doca_mmap_set_max_num_devices(other, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_mmap_set_memrange(other, bytes.data(), 64));
    EXPECT_EQ(doca_mmap_start(other), DOCA_ERROR_BAD_STATE); // no device
    EXPECT_OK(doca_mmap_set_max_num_devices(other, 1));
    EXPECT_OK(doca_mmap_add_dev(other, lab.host));
    EXPECT_EQ(doca_mmap_add_dev(other, lab.host), DOCA_ERROR_ALREADY_EXIST);
    EXPECT_EQ(doca_mmap_add_dev(other, lab.dpu), DOCA_ERROR_NO_MEMORY);
    EXPECT_OK(doca_mmap_rm_dev(other, lab.host));
    EXPECT_EQ(doca_mmap_rm_dev(other, lab.host), DOCA_ERROR_NOT_FOUND);
    EXPECT_OK(doca_mmap_add_dev(other, lab.host));
    EXPECT_OK(doca_mmap_enable_thread_safety(other));
    EXPECT_OK(doca_mmap_start(other));
    EXPECT_EQ(doca_mmap_start(other), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_set_memrange(other, bytes.data(), 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_add_dev(other, lab.dpu), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_enable_thread_safety(other), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_mmap_stop(other));
    EXPECT_EQ(doca_mmap_stop(other), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_set_memrange(other, bytes.data(), 128), DOCA_ERROR_NOT_PERMITTED); // once
    EXPECT_OK(doca_mmap_set_permissions(other, DOCA_ACCESS_FLAG_PCI_READ_ONLY)); // again its own
    EXPECT_OK(doca_mmap_destroy(other));
}

TEST_F(DocaMemory, TheRangeIsGivenBackWhenTheMapEnds) {
    struct Given {
        void* address = nullptr;
        std::size_t length = 0;
    } given;
    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create(&other));
    EXPECT_OK(doca_mmap_set_memrange(other, bytes.data(), 64));
    EXPECT_OK(doca_mmap_set_free_cb(
        other,
        [](void* address, std::size_t length, void* cookie) {
            *static_cast<Given*>(cookie) = {address, length};
        },
        &given));
    EXPECT_OK(doca_mmap_add_dev(other, lab.host));
    EXPECT_OK(doca_mmap_start(other));
    EXPECT_EQ(given.address, nullptr);
    EXPECT_OK(doca_mmap_destroy(other));
    EXPECT_EQ(given.address, bytes.data());
    EXPECT_EQ(given.length, 64u);
}

TEST_F(DocaMemory, ARangeThatNoMapWasStartedOverIsNotGivenBack) {
    bool given = false;
    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create(&other));
    EXPECT_OK(doca_mmap_set_memrange(other, bytes.data(), 64));
    EXPECT_OK(doca_mmap_set_free_cb(
        other, [](void*, std::size_t, void* cookie) { *static_cast<bool*>(cookie) = true; },
        &given));
    EXPECT_EQ(doca_mmap_start(other), DOCA_ERROR_BAD_STATE); // no device
    EXPECT_OK(doca_mmap_destroy(other));
    EXPECT_FALSE(given);
}

TEST_F(DocaMemory, AMapCoversMemoryThatIsThere) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const area =
        ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(area, MAP_FAILED);
    auto* const first = static_cast<std::byte*>(area);
    ASSERT_EQ(::mprotect(first + page, page, PROT_READ), 0);
    ASSERT_EQ(::munmap(first + 2 * page, page), 0);
    const auto start = [&](std::byte* begin, std::size_t length, std::uint32_t access) {
        doca_mmap* map = nullptr;
        EXPECT_OK(doca_mmap_create(&map));
        EXPECT_OK(doca_mmap_set_memrange(map, begin, length));
        EXPECT_OK(doca_mmap_set_permissions(map, access));
        EXPECT_OK(doca_mmap_add_dev(map, lab.host));
        const doca_error_t result = doca_mmap_start(map);
        EXPECT_OK(doca_mmap_destroy(map));
        return result;
    };
    constexpr std::uint32_t written = DOCA_ACCESS_FLAG_PCI_READ_WRITE;
    constexpr std::uint32_t read = DOCA_ACCESS_FLAG_PCI_READ_ONLY;
    EXPECT_EQ(start(first, page, written), DOCA_SUCCESS);
    EXPECT_EQ(start(first + page - 1, 2, written), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(start(first + page - 1, 2, read), DOCA_SUCCESS);
    EXPECT_EQ(start(first + 2 * page - 1, 2, read), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(start(first + 2 * page, page, read), DOCA_ERROR_INVALID_VALUE);
    ASSERT_EQ(::munmap(first, 2 * page), 0);
    doca_mmap* map = nullptr;
    ASSERT_OK(doca_mmap_create(&map));
    EXPECT_EQ(doca_mmap_set_memrange(map, reinterpret_cast<void*>(UINTPTR_MAX - 10), 100),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_mmap_destroy(map));
}

TEST_F(DocaMemory, AMapWithBuffersCannotEnd) {
    doca_buf* const buf = get(0, 64);
    std::uint32_t count = 0;
    EXPECT_OK(doca_mmap_get_num_bufs(mmap, &count));
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(doca_mmap_stop(mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_destroy(mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_buf_inventory_stop(inventory), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_buf_inventory_destroy(inventory), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_buf_dec_refcount(buf, nullptr));
    EXPECT_OK(doca_mmap_get_num_bufs(mmap, &count));
    EXPECT_EQ(count, 0u);
}

TEST_F(DocaMemory, ExportsComeFromStartedMapsThatGrantSomething) {
    const void* descriptor = nullptr;
    std::size_t length = 0;
    EXPECT_EQ(doca_mmap_export_pci(mmap, lab.dpu, &descriptor, &length),
              DOCA_ERROR_NOT_FOUND); // not its device
    EXPECT_EQ(doca_mmap_export_rdma(mmap, lab.host, &descriptor, &length),
              DOCA_ERROR_NOT_SUPPORTED);
    std::uint8_t flag = 1;
    EXPECT_OK(doca_mmap_get_exported(mmap, &flag));
    EXPECT_EQ(flag, 0);
    ASSERT_OK(doca_mmap_export_pci(mmap, lab.host, &descriptor, &length));
    EXPECT_OK(doca_mmap_get_exported(mmap, &flag));
    EXPECT_EQ(flag, 1);
    const std::vector<char> copy(static_cast<const char*>(descriptor),
                                 static_cast<const char*>(descriptor) + length);

    doca_data data{};
    data.u64 = 7;
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(&data, copy.data(), copy.size(), lab.dpu, &imported));
    EXPECT_OK(doca_mmap_get_from_export(imported, &flag));
    EXPECT_EQ(flag, 1);
    doca_data got{};
    EXPECT_OK(doca_mmap_get_user_data(imported, &got));
    EXPECT_EQ(got.u64, 7u);
    EXPECT_EQ(doca_mmap_set_permissions(imported, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_export_pci(imported, lab.dpu, &descriptor, &length),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(doca_mmap_destroy(imported));
    for (std::size_t cut = 1; cut < copy.size(); ++cut) {
        EXPECT_NE(doca_mmap_create_from_export(nullptr, copy.data(), cut, lab.dpu, &imported),
                  DOCA_SUCCESS);
    }
}

TEST_F(DocaMemory, AnotherDeviceIsNotTakenForOneThatWasClosed) {
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_create_list(&list, &count));
    std::vector<doca_devinfo*> others;
    for (std::uint32_t i = 0; i < count; ++i) {
        doca_dev* dev = nullptr;
        ASSERT_OK(doca_dev_open(list[i], &dev));
        if (dev != lab.host && dev != lab.dpu) {
            others.push_back(list[i]);
        }
        ASSERT_OK(doca_dev_close(dev));
    }
    ASSERT_GE(others.size(), 2u);
    doca_dev* closed = nullptr;
    ASSERT_OK(doca_dev_open(others[0], &closed));
    doca_mmap* settable = nullptr;
    doca_mmap* started = nullptr;
    for (doca_mmap** const map : {&settable, &started}) {
        ASSERT_OK(doca_mmap_create(map));
        ASSERT_OK(doca_mmap_set_memrange(*map, bytes.data(), bytes.size()));
        ASSERT_OK(doca_mmap_set_permissions(*map, DOCA_ACCESS_FLAG_PCI_READ_WRITE));
        ASSERT_OK(doca_mmap_add_dev(*map, closed));
    }
    ASSERT_OK(doca_mmap_start(started));
    const void* descriptor = nullptr;
    std::size_t length = 0;
    ASSERT_OK(doca_mmap_export_pci(started, closed, &descriptor, &length));
    ASSERT_OK(doca_dev_close(closed));
    doca_dev* other = nullptr;
    ASSERT_OK(doca_dev_open(others[1], &other)); // at the same address, as a rule
    EXPECT_EQ(doca_mmap_export_pci(started, other, &descriptor, &length), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(doca_mmap_rm_dev(settable, other), DOCA_ERROR_NOT_FOUND);
    EXPECT_OK(doca_mmap_add_dev(settable, other));
    ASSERT_OK(doca_dev_open(others[0], &closed)); // again: the maps still have it
    EXPECT_OK(doca_mmap_export_pci(started, closed, &descriptor, &length));
    EXPECT_EQ(doca_mmap_add_dev(settable, closed), DOCA_ERROR_ALREADY_EXIST);
    ASSERT_OK(doca_dev_close(closed));
    ASSERT_OK(doca_dev_close(other));
    ASSERT_OK(doca_devinfo_destroy_list(list));
    EXPECT_OK(doca_mmap_destroy(settable));
    EXPECT_OK(doca_mmap_destroy(started));
}

TEST_F(DocaMemory, BuffersLieInsideTheirMapAndDataInsideItsBuffer) {
    doca_buf* buf = nullptr;
    char* const base = bytes.data();
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(inventory, mmap, base + 1, 4096, &buf),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(inventory, mmap, base - 1, 8, &buf),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_buf_get_by_args(inventory, mmap, base, 64, base + 32, 33, &buf),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(free_elements(), 4u) << "a refused one is not lost";
    ASSERT_OK(doca_buf_inventory_buf_get_by_args(inventory, mmap, base, 64, base + 16, 32, &buf));
    void* at = nullptr;
    std::size_t length = 0;
    EXPECT_OK(doca_buf_get_head(buf, &at));
    EXPECT_EQ(at, base);
    EXPECT_OK(doca_buf_get_len(buf, &length));
    EXPECT_EQ(length, 64u);
    EXPECT_OK(doca_buf_get_data(buf, &at));
    EXPECT_EQ(at, base + 16);
    EXPECT_OK(doca_buf_get_data_len(buf, &length));
    EXPECT_EQ(length, 32u);
    EXPECT_EQ(doca_buf_set_data(buf, base + 60, 5), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_set_data_len(buf, 49), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_set_data(buf, base + 60, 4));
    EXPECT_OK(doca_buf_reset_data_len(buf));
    EXPECT_OK(doca_buf_get_data_len(buf, &length));
    EXPECT_EQ(length, 0u);
    EXPECT_OK(doca_buf_get_data(buf, &at));
    EXPECT_EQ(at, base + 60) << "only the length is reset";
    EXPECT_OK(doca_buf_inventory_buf_reuse_by_data(buf, base + 128, 8));
    EXPECT_OK(doca_buf_get_head(buf, &at));
    EXPECT_EQ(at, base + 128);
    EXPECT_EQ(doca_buf_inventory_buf_reuse_by_addr(buf, base, 4097), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_dec_refcount(buf, nullptr));
}

TEST_F(DocaMemory, TheLastReferenceReturnsTheBuffer) {
    doca_buf* const buf = get(0, 64);
    std::uint16_t before = 0;
    EXPECT_OK(doca_buf_inc_refcount(buf, &before));
    EXPECT_EQ(before, 1);
    const doca_buf* const looked_at = buf; // without changing it
    EXPECT_OK(doca_buf_get_refcount(looked_at, &before));
    EXPECT_EQ(before, 2);
    EXPECT_EQ(doca_buf_inventory_buf_reuse_by_addr(buf, bytes.data(), 8),
              DOCA_ERROR_NOT_PERMITTED); // somebody else has it, too
    EXPECT_OK(doca_buf_dec_refcount(buf, &before));
    EXPECT_EQ(before, 2);
    EXPECT_EQ(free_elements(), 3u);
    EXPECT_OK(doca_buf_dec_refcount(buf, &before));
    EXPECT_EQ(before, 1);
    EXPECT_EQ(free_elements(), 4u);
    EXPECT_EQ(doca_buf_dec_refcount(buf, nullptr), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_buf_inc_refcount(buf, nullptr), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(free_elements(), 4u);
}

TEST_F(DocaMemory, AnInventoryHasSoManyAndCanGrow) {
    std::array<doca_buf*, 5> bufs{};
    for (std::size_t i = 0; i < 4; ++i) {
        bufs[i] = get(i * 64, 64);
    }
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(inventory, mmap, bytes.data(), 64, &bufs[4]),
              DOCA_ERROR_NO_MEMORY);
    EXPECT_OK(doca_buf_inventory_expand(inventory, 1));
    EXPECT_OK(doca_buf_inventory_buf_dup(inventory, bufs[3], &bufs[4]));
    void* at = nullptr;
    EXPECT_OK(doca_buf_get_head(bufs[4], &at));
    EXPECT_EQ(at, bytes.data() + 192);
    std::uint32_t count = 0;
    EXPECT_OK(doca_buf_inventory_get_num_elements(inventory, &count));
    EXPECT_EQ(count, 5u);
    for (doca_buf* const buf : bufs) {
        EXPECT_OK(doca_buf_dec_refcount(buf, nullptr));
    }
    EXPECT_OK(doca_buf_inventory_stop(inventory));
    doca_buf* buf = nullptr;
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(inventory, mmap, bytes.data(), 64, &buf),
              DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_buf_inventory_expand(inventory, 1), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_buf_inventory_start(inventory));
    EXPECT_EQ(doca_buf_inventory_start(inventory), DOCA_ERROR_BAD_STATE);
}

TEST_F(DocaMemory, ListsOfBuffers) {
    doca_buf* const first = get(0, 64);
    doca_buf* const second = get(64, 64);
    doca_buf* const third = get(128, 64);
    EXPECT_OK(doca_buf_inc_refcount(second, nullptr));
    EXPECT_EQ(doca_buf_chain_list(first, second), DOCA_ERROR_NOT_PERMITTED); // others refer to it
    EXPECT_OK(doca_buf_dec_refcount(second, nullptr));
    EXPECT_OK(doca_buf_chain_list(first, second));
    EXPECT_OK(doca_buf_chain_list_tail(first, second, third));
    EXPECT_EQ(doca_buf_chain_list(first, second), DOCA_ERROR_INVALID_VALUE); // no head any more
    EXPECT_EQ(doca_buf_chain_list(first, first), DOCA_ERROR_INVALID_VALUE);
    std::uint32_t count = 0;
    EXPECT_OK(doca_buf_get_list_len(first, &count));
    EXPECT_EQ(count, 3u);
    doca_buf* found = nullptr;
    EXPECT_OK(doca_buf_get_next_in_list(first, &found));
    EXPECT_EQ(found, second);
    EXPECT_OK(doca_buf_get_last_in_list(first, &found));
    EXPECT_EQ(found, third);
    std::uint8_t flag = 0;
    EXPECT_OK(doca_buf_is_in_list(second, &flag));
    EXPECT_EQ(flag, 1);
    EXPECT_OK(doca_buf_is_first_in_list(second, &flag));
    EXPECT_EQ(flag, 0);
    EXPECT_OK(doca_buf_is_last_in_list(third, &flag));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(doca_buf_dec_refcount(second, nullptr), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(doca_buf_unchain_list(first, third));
    EXPECT_EQ(doca_buf_unchain_list(first, third), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_dec_refcount(third, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(first, nullptr)); // and with it the second
    EXPECT_EQ(free_elements(), 4u);
    EXPECT_EQ(doca_buf_chain_list(first, second), DOCA_ERROR_INVALID_VALUE); // given back
    EXPECT_EQ(doca_buf_unchain_list(first, second), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_buf_dup(inventory, first, &found), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaMemory, PoolsCutAMapIntoPieces) {
    doca_buf_pool* pool = nullptr;
    ASSERT_OK(doca_buf_pool_create(3, 100, mmap, &pool));
    EXPECT_EQ(doca_buf_pool_set_element_alignment(pool, 3), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_pool_set_element_alignment(pool, 64));
    doca_buf* first = nullptr;
    EXPECT_EQ(doca_buf_pool_buf_alloc(pool, &first), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_buf_pool_start(pool));
    std::array<doca_buf*, 3> bufs{};
    for (doca_buf*& buf : bufs) {
        ASSERT_OK(doca_buf_pool_buf_alloc(pool, &buf));
        void* at = nullptr;
        std::size_t length = 0;
        EXPECT_OK(doca_buf_get_head(buf, &at));
        EXPECT_OK(doca_buf_get_len(buf, &length));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0u);
        EXPECT_EQ(length, 100u);
        EXPECT_OK(doca_buf_get_data_len(buf, &length));
        EXPECT_EQ(length, 0u);
    }
    EXPECT_EQ(doca_buf_pool_buf_alloc(pool, &first), DOCA_ERROR_EMPTY);
    EXPECT_EQ(doca_buf_inventory_buf_reuse_by_addr(bufs[0], bytes.data(), 200),
              DOCA_ERROR_NOT_PERMITTED); // it would overlap another one
    EXPECT_EQ(doca_buf_pool_stop(pool), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_buf_pool_destroy(pool), DOCA_ERROR_IN_USE);
    for (doca_buf* const buf : bufs) {
        EXPECT_OK(doca_buf_dec_refcount(buf, nullptr));
    }
    EXPECT_OK(doca_buf_pool_stop(pool));
    EXPECT_OK(doca_buf_pool_destroy(pool));
    ASSERT_OK(doca_buf_pool_create(41, 100, mmap, &pool));
    EXPECT_EQ(doca_buf_pool_start(pool), DOCA_ERROR_INITIALIZATION); // too small a map
    EXPECT_OK(doca_buf_pool_destroy(pool));
}

TEST_F(DocaMemory, APoolWithoutItsMapGivesNoBuffers) {
    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create(&other));
    ASSERT_OK(doca_mmap_set_memrange(other, bytes.data(), bytes.size()));
    ASSERT_OK(doca_mmap_add_dev(other, lab.host));
    ASSERT_OK(doca_mmap_start(other));
    doca_buf_pool* pool = nullptr;
    ASSERT_OK(doca_buf_pool_create(4, 64, other, &pool));
    ASSERT_OK(doca_buf_pool_start(pool));
    ASSERT_OK(doca_mmap_destroy(other)); // no buffer is in use
    doca_mmap* next = nullptr;
    ASSERT_OK(doca_mmap_create(&next)); // perhaps at the same address
    ASSERT_OK(doca_mmap_set_memrange(next, bytes.data(), 64));
    ASSERT_OK(doca_mmap_add_dev(next, lab.host));
    ASSERT_OK(doca_mmap_start(next));
    doca_buf* buffer = nullptr;
    EXPECT_EQ(doca_buf_pool_buf_alloc(pool, &buffer), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_buf_pool_stop(pool));
    EXPECT_EQ(doca_buf_pool_start(pool), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_buf_pool_destroy(pool));
    EXPECT_OK(doca_mmap_destroy(next));
}

// (A sanitizer's allocator ends the process instead.)
#if !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
bool too_many_are_refused(doca_mmap* mmap) {
    const rlimit little{.rlim_cur = 1UL << 32, .rlim_max = 1UL << 32};
    doca_buf_inventory* inventory = nullptr;
    doca_buf_pool* pool = nullptr;
    std::uint32_t count = 0;
    return setrlimit(RLIMIT_AS, &little) == 0 &&
           doca_buf_inventory_create(UINT32_MAX, &inventory) == DOCA_ERROR_NO_MEMORY &&
           doca_buf_pool_create(UINT32_MAX, 1, mmap, &pool) == DOCA_ERROR_NO_MEMORY &&
           doca_buf_inventory_create(1, &inventory) == DOCA_SUCCESS &&
           doca_buf_inventory_start(inventory) == DOCA_SUCCESS &&
           doca_buf_inventory_expand(inventory, UINT32_MAX - 1) == DOCA_ERROR_NO_MEMORY &&
           doca_buf_inventory_get_num_elements(inventory, &count) == DOCA_SUCCESS && count == 1;
}

TEST_F(DocaMemory, MoreBuffersThanThereIsMemoryForAreRefused) {
    // In a process of its own, which has little.
    const pid_t child = fork();
    if (child == 0) {
        _exit(too_many_are_refused(mmap) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}
#endif

TEST_F(DocaMemory, OneMapServesInventoriesOfManyThreads) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            doca_buf_inventory* own = nullptr;
            EXPECT_OK(doca_buf_inventory_create(1, &own));
            EXPECT_OK(doca_buf_inventory_start(own));
            for (int k = 0; k < 1000; ++k) {
                doca_buf* buf = nullptr;
                EXPECT_OK(doca_buf_inventory_buf_get_by_addr(own, mmap, bytes.data() + i * 1024,
                                                             1024, &buf));
                EXPECT_OK(doca_buf_dec_refcount(buf, nullptr));
            }
            EXPECT_OK(doca_buf_inventory_destroy(own));
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::uint32_t count = 1;
    EXPECT_OK(doca_mmap_get_num_bufs(mmap, &count));
    EXPECT_EQ(count, 0u);
}

TEST_F(DocaMemory, NullsAreRefused) {
    EXPECT_EQ(doca_mmap_create(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_stop(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_add_dev(mmap, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_export_pci(nullptr, lab.host, nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_create_from_export(nullptr, nullptr, 8, lab.dpu, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_create(0, &inventory), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_create(4, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    doca_buf* buf = nullptr;
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(nullptr, mmap, bytes.data(), 8, &buf),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_inventory_buf_get_by_addr(inventory, nullptr, bytes.data(), 8, &buf),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_get_data(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_dec_refcount(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_chain_list(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_pool_create(0, 1, mmap, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_buf_pool_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
}

} // namespace
