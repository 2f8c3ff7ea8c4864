// Memory maps, inventories and buffers with the calls of 2023 and before.
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_dev.h>
#include <doca_mmap.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

TEST(DocaMemory2023, MapsAreCreatedWithUserDataOrAName) {
    doca_mmap* mmap = nullptr;
    doca_data data{};
    data.u64 = 4711;
    doca_data told{};
    ASSERT_OK(doca_mmap_create(&data, &mmap));
    EXPECT_OK(doca_mmap_get_user_data(mmap, &told));
    EXPECT_EQ(told.u64, 4711u);
    EXPECT_OK(doca_mmap_destroy(mmap));
    const char* const name = "a name";
    ASSERT_OK(doca_mmap_create(name, &mmap));
    EXPECT_OK(doca_mmap_get_user_data(mmap, &told));
    EXPECT_EQ(told.u64, 0u);
    EXPECT_OK(doca_mmap_destroy(mmap));
    ASSERT_OK(doca_mmap_create(NULL, &mmap));
    EXPECT_OK(doca_mmap_destroy(mmap));
    EXPECT_EQ(doca_mmap_create(NULL, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_mmap_create_2023(&data, nullptr), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaMemory2023, InventoriesAreCreatedWithUserDataOrAName) {
    doca_buf_inventory* inventory = nullptr;
    doca_data data{};
    data.u64 = 4711;
    doca_data told{};
    std::uint32_t count = 0;
    ASSERT_OK(doca_buf_inventory_create(&data, 3, DOCA_BUF_EXTENSION_LINKED_LIST, &inventory));
    EXPECT_OK(doca_buf_inventory_get_user_data(inventory, &told));
    EXPECT_EQ(told.u64, 4711u);
    EXPECT_OK(doca_buf_inventory_get_num_elements(inventory, &count));
    EXPECT_EQ(count, 3u);
    EXPECT_OK(doca_buf_inventory_destroy(inventory));
    ASSERT_OK(doca_buf_inventory_create("a name", 3, DOCA_BUF_EXTENSION_NONE, &inventory));
    EXPECT_OK(doca_buf_inventory_destroy(inventory));
    EXPECT_EQ(doca_buf_inventory_create(NULL, 0, 0, &inventory), DOCA_ERROR_INVALID_VALUE);
}

/// A map that was started without a range, as before 2.0, and an inventory.
struct DocaPopulate : testing::Test {
    Lab lab;
    std::vector<char> bytes = std::vector<char>(8192);
    std::vector<char> more = std::vector<char>(4096);
    doca_mmap* mmap = nullptr;
    doca_buf_inventory* inventory = nullptr;

    DocaPopulate() {
        EXPECT_OK(doca_mmap_create(NULL, &mmap));
        EXPECT_OK(doca_mmap_start(mmap));
        EXPECT_OK(doca_mmap_dev_add(mmap, lab.host));
        EXPECT_OK(doca_buf_inventory_create(NULL, 4, DOCA_BUF_EXTENSION_NONE, &inventory));
        EXPECT_OK(doca_buf_inventory_start(inventory));
    }
    ~DocaPopulate() override {
        EXPECT_OK(doca_buf_inventory_destroy(inventory));
        if (mmap != nullptr) {
            EXPECT_OK(doca_mmap_destroy(mmap));
        }
    }
    doca_error_t populate(void* at, std::size_t size) {
        return doca_mmap_populate(mmap, at, size, 4096, NULL, NULL);
    }
    doca_error_t take(void* at, std::size_t size, doca_buf** buf) {
        return doca_buf_inventory_buf_by_addr(inventory, mmap, at, size, buf);
    }
};

TEST_F(DocaPopulate, RangesAreAddedAndBuffersAreOfOne) {
    doca_buf* buf = nullptr;
    EXPECT_EQ(take(bytes.data(), 64, &buf), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(populate(bytes.data(), 4096));
    ASSERT_OK(populate(more.data(), more.size()));
    EXPECT_EQ(take(bytes.data() + 4095, 2, &buf), DOCA_ERROR_INVALID_VALUE);
    std::array<doca_buf*, 3> taken{};
    ASSERT_OK(take(bytes.data() + 4095, 1, &taken[0]));
    ASSERT_OK(take(more.data(), more.size(), &taken[1]));
    ASSERT_OK(doca_buf_inventory_buf_dup(inventory, taken[1], &taken[2]));
    std::uint32_t count = 0;
    EXPECT_OK(doca_mmap_get_num_bufs(mmap, &count));
    EXPECT_EQ(count, 3u);
    void* head = nullptr;
    EXPECT_OK(doca_buf_get_head(taken[2], &head));
    EXPECT_EQ(head, more.data());
    EXPECT_EQ(doca_mmap_destroy(mmap), DOCA_ERROR_NOT_PERMITTED);
    std::uint16_t references = 0;
    for (doca_buf* const each : taken) {
        EXPECT_OK(doca_buf_refcount_rm(each, &references));
        EXPECT_EQ(references, 1);
    }
}

TEST_F(DocaPopulate, WhatMakesNoSenseIsRefused) {
    EXPECT_EQ(populate(nullptr, 64), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(populate(bytes.data(), 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(populate(bytes.data(), SIZE_MAX), DOCA_ERROR_INVALID_VALUE);
    for (const std::size_t page : {std::size_t{0}, std::size_t{2048}, std::size_t{6144}}) {
        EXPECT_EQ(doca_mmap_populate(mmap, bytes.data(), 64, page, NULL, NULL),
                  DOCA_ERROR_INVALID_VALUE);
    }
    EXPECT_EQ(populate(reinterpret_cast<void*>(4096), 64), DOCA_ERROR_INVALID_VALUE); // not there
    ASSERT_OK(populate(bytes.data() + 1024, 1024));
    EXPECT_EQ(populate(bytes.data(), 1025), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(populate(bytes.data() + 2047, 10), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(populate(bytes.data(), 8192), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(populate(bytes.data(), 1024));
    EXPECT_OK(populate(bytes.data() + 2048, 1024));
    EXPECT_EQ(doca_mmap_set_memrange(mmap, more.data(), 64), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_start(mmap), DOCA_ERROR_BAD_STATE);

    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create(NULL, &other));
    EXPECT_EQ(doca_mmap_populate(other, more.data(), 64, 4096, NULL, NULL),
              DOCA_ERROR_NOT_PERMITTED); // not started
    ASSERT_OK(doca_mmap_dev_add(other, lab.host));
    ASSERT_OK(doca_mmap_set_memrange(other, more.data(), 64));
    ASSERT_OK(doca_mmap_start(other));
    EXPECT_EQ(doca_mmap_populate(other, more.data() + 64, 64, 4096, NULL, NULL),
              DOCA_ERROR_NOT_PERMITTED); // started with a range
    EXPECT_OK(doca_mmap_destroy(other));
    ASSERT_OK(doca_mmap_create(&other)); // today's
    EXPECT_EQ(doca_mmap_start(other), DOCA_ERROR_BAD_STATE);
    EXPECT_OK(doca_mmap_destroy(other));
}

TEST_F(DocaPopulate, AsManyRangesAsWereSet) {
    EXPECT_EQ(doca_mmap_set_max_num_chunks(mmap, 2), DOCA_ERROR_BAD_STATE);
    doca_mmap* other = nullptr;
    ASSERT_OK(doca_mmap_create("a name", &other));
    std::uint32_t count = 0;
    EXPECT_OK(doca_mmap_get_max_num_chunks(other, &count));
    EXPECT_EQ(count, 1024u);
    EXPECT_EQ(doca_mmap_set_max_num_chunks(other, 0), DOCA_ERROR_INVALID_VALUE);
    const std::uint32_t two = 2;
    EXPECT_EQ(doca_mmap_property_set(other, DOCA_MMAP_MAX_NUM_CHUNKS, (const std::uint8_t*)&two, 3),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_mmap_property_set(other, DOCA_MMAP_MAX_NUM_CHUNKS, (const std::uint8_t*)&two,
                                     sizeof(two)));
    EXPECT_OK(doca_mmap_get_max_num_chunks(other, &count));
    EXPECT_EQ(count, 2u);
    ASSERT_OK(doca_mmap_start(other));
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(doca_mmap_populate(other, bytes.data() + i * 64, 64, 4096, NULL, NULL),
                  i < 2 ? DOCA_SUCCESS : DOCA_ERROR_NO_MEMORY);
    }
    EXPECT_OK(doca_mmap_destroy(other));
}

TEST_F(DocaPopulate, RangesAreGivenBackWhenTheMapIsDestroyed) {
    static std::vector<std::pair<void*, std::size_t>> given;
    given.clear();
    const auto on_free = [](void* at, std::size_t size, void* cookie) {
        EXPECT_EQ(cookie, &given);
        given.emplace_back(at, size);
    };
    ASSERT_OK(doca_mmap_populate(mmap, bytes.data(), 64, 4096, on_free, &given));
    ASSERT_OK(doca_mmap_populate(mmap, more.data(), 128, 4096, on_free, &given));
    EXPECT_TRUE(given.empty());
    ASSERT_OK(doca_mmap_destroy(mmap));
    mmap = nullptr;
    EXPECT_EQ(given,
              (std::vector<std::pair<void*, std::size_t>>{{bytes.data(), 64}, {more.data(), 128}}));
}

TEST_F(DocaPopulate, ExportsBelongToTheProgramAndEndTheChanges) {
    char* exported = nullptr;
    std::uint8_t* again = nullptr; // as in 1.3
    std::size_t length = 0;
    EXPECT_EQ(doca_mmap_export(mmap, lab.host, (void**)&exported, &length),
              DOCA_ERROR_NOT_PERMITTED); // nothing to export
    ASSERT_OK(populate(bytes.data(), 4096));
    EXPECT_EQ(doca_mmap_export(mmap, lab.dpu, (void**)&exported, &length), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(doca_mmap_export(mmap, lab.host, (void**)nullptr, &length), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_mmap_dev_add(mmap, lab.dpu)); // reaches what is there
    EXPECT_EQ(doca_mmap_dev_add(mmap, lab.dpu), DOCA_ERROR_IN_USE);
    std::uint8_t is_exported = 77;
    EXPECT_OK(doca_mmap_get_exported(mmap, &is_exported));
    EXPECT_EQ(is_exported, 0);
    ASSERT_OK(doca_mmap_export(mmap, lab.host, (void**)&exported, &length));
    const std::string bytes_of_it(exported, length);
    ASSERT_OK(doca_mmap_export(mmap, lab.host, &again, &length));
    EXPECT_EQ(std::string((const char*)again, length), bytes_of_it);
    EXPECT_NE((const void*)again, (const void*)exported);
    std::free(exported);
    std::free(again);
    EXPECT_OK(doca_mmap_get_exported(mmap, &is_exported));
    EXPECT_EQ(is_exported, 1);
    EXPECT_EQ(populate(more.data(), 64), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_dev_rm(mmap, lab.dpu), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_LE(length, 1024u); // the room that programs have for it

    doca_mmap* imported = nullptr;
    ASSERT_OK(
        doca_mmap_create_from_export("a name", bytes_of_it.data(), length, lab.dpu, &imported));
    void* at = nullptr;
    EXPECT_OK(doca_mmap_get_memrange(imported, &at, &length));
    EXPECT_EQ(at, bytes.data());
    EXPECT_EQ(length, 4096u);
    EXPECT_EQ(doca_mmap_dev_add(imported, lab.host), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(doca_mmap_destroy(imported));
}

TEST_F(DocaPopulate, SeveralRangesAreNotExported) {
    ASSERT_OK(populate(bytes.data(), 4096));
    ASSERT_OK(populate(more.data(), 4096));
    void* exported = nullptr;
    std::size_t length = 0;
    EXPECT_EQ(doca_mmap_export(mmap, lab.host, &exported, &length), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_OK(doca_mmap_dev_rm(mmap, lab.host));
    EXPECT_EQ(doca_mmap_dev_rm(mmap, lab.host), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaPopulate, AStoppedMapHasNoBuffers) {
    ASSERT_OK(populate(bytes.data(), 4096));
    doca_buf* buf = nullptr;
    ASSERT_OK(take(bytes.data(), 64, &buf));
    EXPECT_EQ(doca_mmap_stop(mmap), DOCA_ERROR_NOT_PERMITTED);
    ASSERT_OK(doca_buf_refcount_rm(buf, NULL));
    ASSERT_OK(doca_mmap_stop(mmap));
    EXPECT_EQ(take(bytes.data(), 64, &buf), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_mmap_stop(mmap), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_mmap_start(mmap));
    ASSERT_OK(take(bytes.data(), 64, &buf));
    ASSERT_OK(doca_buf_refcount_rm(buf, NULL));
}

TEST(DocaMemory2023, DevicesTellPropertiesByNumber) {
    const Lab lab;
    doca_devinfo* const info = doca_dev_as_devinfo(lab.dpu);
    doca_pci_bdf one{};
    doca_pci_bdf other{};
    ASSERT_OK(doca_devinfo_property_get(info, DOCA_DEVINFO_PROPERTY_PCI_ADDR, (std::uint8_t*)&one,
                                        sizeof(one)));
    ASSERT_OK(doca_devinfo_get_pci_addr(info, &other));
    EXPECT_EQ(one.raw, other.raw);
    EXPECT_EQ(
        doca_devinfo_property_get(info, DOCA_DEVINFO_PROPERTY_PCI_ADDR, (std::uint8_t*)&one, 1),
        DOCA_ERROR_INVALID_VALUE);
    std::array<char, DOCA_DEVINFO_IFACE_NAME_SIZE> name{};
    std::array<char, DOCA_DEVINFO_IFACE_NAME_SIZE> today{};
    ASSERT_OK(doca_devinfo_property_get(info, DOCA_DEVINFO_PROPERTY_IFACE_NAME,
                                        (std::uint8_t*)name.data(), name.size()));
    ASSERT_OK(doca_devinfo_get_iface_name(info, today.data(), today.size()));
    EXPECT_EQ(name, today);
    std::uint8_t can = 0;
    EXPECT_OK(doca_devinfo_get_is_mmap_export_supported(info, &can));
    EXPECT_EQ(can, 1);
    EXPECT_OK(doca_devinfo_get_is_mmap_from_export_supported(info, &can));
    EXPECT_EQ(can, 1);
}

} // namespace
