// Devices, memory, engines, clocks, logs and flags, while there is no memory.
#include <array>
#include <string>

#include <doca_argp.h>
#include <doca_buf_pool.h>
#include <doca_clock.h>
#include <doca_log.h>

#include "doca_comch/comch/fast_path_support.hpp"
#include "doca_comch/no_memory/failing_new.hpp"

namespace {

using namespace comch::doca::test;

void devices() {
    const Lab lab;
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(outlast([&] { return doca_devinfo_create_list(&list, &count); }));
    std::uint8_t equal = 0;
    EXPECT_OK(
        outlast([&] { return doca_devinfo_is_equal_pci_addr(list[0], "0000:03:00.0", &equal); }));
    std::vector<doca_dev*> opened(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_OK(outlast([&] { return doca_dev_open(list[i], &opened[i]); }));
    }
    for (doca_dev* const dev : opened) {
        EXPECT_OK(doca_dev_close(dev));
    }
    EXPECT_OK(doca_devinfo_destroy_list(list));

    doca_devinfo_rep** representors = nullptr;
    ASSERT_OK(outlast([&] {
        return doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_NET, &representors,
                                            &count);
    }));
    doca_dev_rep* representor = nullptr;
    ASSERT_OK(outlast([&] { return doca_dev_rep_open(representors[0], &representor); }));
    EXPECT_OK(doca_dev_rep_close(representor));
    EXPECT_OK(doca_devinfo_rep_destroy_list(representors));
}

TEST(DocaNoMemory, Devices) {
    after_a_warm_up(devices);
}

void clocks_and_engines() {
    const Lab lab;
    doca_clock* clock = nullptr;
    ASSERT_OK(outlast([&] { return doca_clock_create(lab.host, &clock); }));
    doca_clock_timespec_t now{};
    EXPECT_OK(doca_clock_get_timestamp(clock, DOCA_CLOCK_HOST_MONOTONIC, &now));
    EXPECT_OK(doca_clock_destroy(clock));
    doca_pe* pe = nullptr;
    ASSERT_OK(outlast([&] { return doca_pe_create(&pe); }));
    EXPECT_OK(outlast([&] { return doca_pe_request_notification(pe); }));
    EXPECT_EQ(doca_pe_progress(pe), 0);
    EXPECT_OK(doca_pe_destroy(pe));
}

TEST(DocaNoMemory, ClocksAndEngines) {
    after_a_warm_up(clocks_and_engines);
}

void memory_maps() {
    const Lab lab;
    std::vector<char> bytes(4096);
    doca_mmap* mmap = nullptr;
    ASSERT_OK(outlast([&] { return doca_mmap_create(&mmap); }));
    ASSERT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
    ASSERT_OK(doca_mmap_set_permissions(mmap, DOCA_ACCESS_FLAG_PCI_READ_WRITE));
    ASSERT_OK(outlast([&] { return doca_mmap_add_dev(mmap, lab.host); }));
    ASSERT_OK(outlast([&] { return doca_mmap_start(mmap); }));
    doca_dpa_dev_mmap_t handle = 0;
    EXPECT_OK(outlast([&] { return doca_mmap_dev_get_dpa_handle(mmap, lab.host, &handle); }));
    EXPECT_NE(handle, 0u);
    const void* descriptor = nullptr;
    std::size_t size = 0;
    ASSERT_OK(outlast([&] { return doca_mmap_export_pci(mmap, lab.host, &descriptor, &size); }));
    doca_mmap* imported = nullptr;
    ASSERT_OK(outlast([&] {
        return doca_mmap_create_from_export(nullptr, descriptor, size, lab.dpu, &imported);
    }));
    EXPECT_OK(doca_mmap_destroy(imported));
    EXPECT_OK(doca_mmap_destroy(mmap));
}

TEST(DocaNoMemory, MemoryMaps) {
    after_a_warm_up(memory_maps);
}

void buffers() {
    const Lab lab;
    Memory memory(lab.host, 4096, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    doca_buf_inventory* inventory = nullptr;
    ASSERT_OK(outlast([&] { return doca_buf_inventory_create(1, &inventory); }));
    ASSERT_OK(doca_buf_inventory_start(inventory));
    ASSERT_OK(outlast([&] { return doca_buf_inventory_expand(inventory, 2); }));
    std::uint32_t count = 0;
    EXPECT_OK(doca_buf_inventory_get_num_elements(inventory, &count));
    EXPECT_EQ(count, 3u);
    EXPECT_OK(doca_buf_inventory_destroy(inventory));
    doca_buf_pool* pool = nullptr;
    ASSERT_OK(outlast([&] { return doca_buf_pool_create(2, 64, memory.mmap, &pool); }));
    ASSERT_OK(doca_buf_pool_start(pool));
    doca_buf* buffer = nullptr;
    EXPECT_OK(doca_buf_pool_buf_alloc(pool, &buffer));
    give_back(buffer);
    EXPECT_OK(doca_buf_pool_stop(pool));
    EXPECT_OK(doca_buf_pool_destroy(pool));
}

TEST(DocaNoMemory, Buffers) {
    after_a_warm_up(buffers);
}

TEST(DocaNoMemory, Logs) {
    static std::string shown;
    static std::array<char, 4096> room;
    const auto show = [](char* text) { shown += text; };
    doca_log_backend* backend = nullptr;
    ASSERT_OK(outlast([&] {
        return doca_log_backend_create_with_buf(room.data(), room.size(), show, &backend);
    }));
    ASSERT_OK(outlast([] { return doca_log_backend_create_standard(); }));
    int source = -1;
    ASSERT_OK(outlast(
        [&] { return doca_log_register_source("A::LONG::NAME::OF::SOME::SOURCE", &source); }));
    const auto say = [&] {
        return doca_log(DOCA_LOG_LEVEL_WARNING, source, "file", 1, "function", "%s: %d",
                        "a text that is longer than any string holds by itself", 42);
    };
    testing::internal::CaptureStderr();
    EXPECT_OK(outlast(say));
    (void)testing::internal::GetCapturedStderr();
    EXPECT_NE(shown.find("OF::SOME::SOURCE"), std::string::npos) << shown;
    EXPECT_NE(shown.find("by itself: 42"), std::string::npos) << shown;
    doca_logger** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(outlast([&] { return doca_logger_create_list(nullptr, 0, &list, &count); }));
    doca_logger* const logger = doca_logger_find_by_name(list, "A::LONG");
    ASSERT_NE(logger, nullptr);
    EXPECT_OK(outlast([&] { return doca_logger_set_level(logger, DOCA_LOG_LEVEL_ERROR, 1); }));
    EXPECT_OK(doca_logger_destroy_list(list));
}

doca_error_t take_count(void* value, void* config) {
    *static_cast<int*>(config) = *static_cast<int*>(value);
    return DOCA_SUCCESS;
}

TEST(DocaNoMemory, Flags) {
    int count = 0;
    ASSERT_OK(outlast([&] { return doca_argp_init("a_program_with_a_long_name", &count); }));
    doca_argp_param* param = nullptr;
    ASSERT_OK(outlast([&] { return doca_argp_param_create(&param); }));
    doca_argp_param_set_long_name(param, "count");
    doca_argp_param_set_type(param, DOCA_ARGP_TYPE_INT);
    doca_argp_param_set_callback(param, take_count);
    {
        const FailingAllocation failing(1); // without a code to tell it
        doca_argp_param_set_description(param, "how many there are, in words that need some room");
        EXPECT_TRUE(failing.happened());
    }
    doca_argp_param_set_description(param, "how many there are, in words that need some room");
    ASSERT_OK(outlast([&] { return doca_argp_register_param(param); }));
    doca_argp_cmd* command = nullptr;
    ASSERT_OK(outlast([&] { return doca_argp_cmd_create(&command); }));
    doca_argp_cmd_set_name(command, "measure");
    doca_argp_cmd_set_description(command, "measures what there is to be measured");
    ASSERT_OK(outlast([&] { return doca_argp_register_cmd(command); }));
    {
        const FailingAllocation failing(1);
        doca_argp_usage();
        EXPECT_TRUE(failing.happened());
    }
    std::array<char*, 4> words{const_cast<char*>("program"), const_cast<char*>("--count"),
                               const_cast<char*>("42"), nullptr};
    EXPECT_OK(outlast([&] { return doca_argp_start(3, words.data()); }));
    EXPECT_EQ(count, 42);
    EXPECT_OK(doca_argp_destroy());
}

} // namespace
