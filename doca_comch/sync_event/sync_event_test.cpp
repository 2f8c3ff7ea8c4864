// Counters that threads and processes update and wait for.
#include <csignal>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "doca_comch/sync_event/test_support.hpp"

namespace {

using namespace comch::doca::test;

TEST(DocaSyncEvent, ThreadsWaitForValues) {
    const Lab lab;
    Event here;
    alignas(8) std::uint64_t counter = 7;
    EXPECT_EQ(doca_ctx_start(doca_sync_event_as_ctx(here.event)), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_sync_event_add_publisher_location_cpu(here.event, lab.dpu));
    EXPECT_OK(doca_sync_event_add_subscriber_location_cpu(here.event, lab.dpu));
    EXPECT_OK(doca_sync_event_set_addr(here.event, &counter));
    ASSERT_OK(doca_ctx_start(doca_sync_event_as_ctx(here.event)));
    EXPECT_EQ(here.value(), 7u);
    std::thread publisher([&] {
        std::uint64_t before = 0;
        EXPECT_OK(doca_sync_event_update_add(here.event, 3, &before));
        EXPECT_EQ(before, 7u);
        EXPECT_OK(doca_sync_event_wait_neq_yield(here.event, 10, all));
        EXPECT_OK(doca_sync_event_update_set(here.event, 0x1234));
    });
    EXPECT_OK(doca_sync_event_wait_eq_yield(here.event, 10, all));
    EXPECT_OK(doca_sync_event_update_set(here.event, 0));
    EXPECT_OK(doca_sync_event_wait_gt_yield(here.event, 0x11, 0xff00)); // 0x1200
    publisher.join();
    EXPECT_OK(doca_sync_event_wait_eq(here.event, 0x34, 0xff));
    EXPECT_OK(doca_sync_event_wait_neq(here.event, 0, all));
    EXPECT_OK(doca_sync_event_wait_gt(here.event, 0x1233, all));
    EXPECT_EQ(counter, 0x1234u);
    EXPECT_OK(doca_ctx_stop(doca_sync_event_as_ctx(here.event)));
    std::uint64_t value = 0;
    EXPECT_EQ(doca_sync_event_get(here.event, &value), DOCA_ERROR_BAD_STATE);
}

/// A process of the other side that gets an exported event, and counts on it.
struct Importer {
    int descriptors[2];
    pid_t child = -1;

    explicit Importer(int rounds) {
        EXPECT_EQ(pipe(descriptors), 0);
        child = fork();
        if (child == 0) {
            close(descriptors[1]);
            _exit(run(rounds));
        }
        close(descriptors[0]);
    }
    ~Importer() {
        close(descriptors[1]);
        if (child > 0) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
    }
    /// Answers each odd value with the next one.
    [[nodiscard]] int run(int rounds) const {
        std::vector<std::uint8_t> bytes(4096);
        const ssize_t length = read(descriptors[0], bytes.data(), bytes.size());
        doca_devinfo** list = nullptr;
        std::uint32_t count = 0;
        doca_dev* dev = nullptr;
        if (length <= 0 || doca_devinfo_create_list(&list, &count) != DOCA_SUCCESS ||
            doca_dev_open(list[0], &dev) != DOCA_SUCCESS) {
            return 2;
        }
        doca_sync_event* event = nullptr;
        if (doca_sync_event_create_from_export(dev, bytes.data(), static_cast<std::size_t>(length),
                                               &event) != DOCA_SUCCESS ||
            doca_ctx_start(doca_sync_event_as_ctx(event)) != DOCA_SUCCESS) {
            return 3;
        }
        for (int i = 0; i < rounds; ++i) {
            std::uint64_t before = 0;
            if (doca_sync_event_wait_eq_yield(event, static_cast<std::uint64_t>(2 * i + 1), all) !=
                    DOCA_SUCCESS ||
                doca_sync_event_update_add(event, 1, &before) != DOCA_SUCCESS ||
                before != static_cast<std::uint64_t>(2 * i + 1)) {
                return 4;
            }
        }
        return doca_sync_event_update_set(event, 1000) == DOCA_SUCCESS &&
                       doca_sync_event_stop(event) == DOCA_SUCCESS &&
                       doca_sync_event_destroy(event) == DOCA_SUCCESS
                   ? 0
                   : 5;
    }
    [[nodiscard]] int finish() {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        child = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
};

TEST(DocaSyncEvent, AnotherProcessUpdatesAndWaits) {
    const Lab lab;
    constexpr int rounds = 20;
    Importer importer(rounds);
    Event here;
    EXPECT_OK(doca_sync_event_add_publisher_location_remote_pci(here.event));
    EXPECT_OK(doca_sync_event_add_subscriber_location_cpu(here.event, lab.host));
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    EXPECT_EQ(doca_sync_event_export_to_remote_pci(here.event, lab.host, &bytes, &size),
              DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_sync_event_start(here.event));
    ASSERT_OK(doca_sync_event_export_to_remote_pci(here.event, lab.host, &bytes, &size));
    ASSERT_EQ(write(importer.descriptors[1], bytes, size), static_cast<ssize_t>(size));
    for (int i = 0; i < rounds; ++i) {
        std::uint64_t before = 0;
        EXPECT_OK(doca_sync_event_update_add(here.event, 1, &before));
        EXPECT_EQ(before, static_cast<std::uint64_t>(2 * i));
        if (i + 1 < rounds) {
            ASSERT_TRUE(here.reaches(before + 2)) << importer.finish();
        }
    }
    EXPECT_TRUE(here.reaches(1000));
    EXPECT_EQ(importer.finish(), 0);
}

TEST(DocaSyncEvent, AnEventThatWasStoppedIsReachedNoMore) {
    const Lab lab;
    Event here;
    EXPECT_OK(doca_sync_event_add_publisher_location_remote_pci(here.event));
    EXPECT_OK(doca_sync_event_add_subscriber_location_cpu(here.event, lab.host));
    ASSERT_OK(doca_sync_event_start(here.event));
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    ASSERT_OK(doca_sync_event_export_to_remote_pci(here.event, lab.host, &bytes, &size));
    doca_sync_event* imported = nullptr;
    ASSERT_OK(doca_sync_event_create_from_export(lab.dpu, bytes, size, &imported));
    Event there(imported);
    EXPECT_EQ(doca_sync_event_add_publisher_location_remote_pci(imported),
              DOCA_ERROR_NOT_PERMITTED);
    ASSERT_OK(doca_sync_event_start(imported));
    EXPECT_EQ(doca_sync_event_export_to_remote_pci(imported, lab.dpu, &bytes, &size),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(doca_sync_event_update_set(here.event, 5));
    EXPECT_EQ(there.value(), 5u);
    EXPECT_EQ(doca_dev_close(lab.dpu), DOCA_ERROR_IN_USE);
    EXPECT_OK(doca_sync_event_stop(here.event));
    std::uint64_t value = 0;
    EXPECT_NE(doca_sync_event_get(imported, &value), DOCA_SUCCESS);
    EXPECT_NE(doca_sync_event_wait_eq(imported, 6, all), DOCA_SUCCESS);
}

TEST(DocaSyncEvent, MisuseIsRefused) {
    const Lab lab;
    Event here;
    std::uint64_t value = 0;
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    EXPECT_EQ(doca_sync_event_create(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_add_publisher_location_cpu(here.event, closed_device()),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_destroy(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_start(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_get(nullptr, &value), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_get(here.event, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_wait_gt(nullptr, 0, all), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_wait_gt(here.event, 0, all), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_sync_event_update_set(here.event, 1), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_sync_event_set_addr(here.event, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_set_addr(here.event, reinterpret_cast<std::uint64_t*>(
                                                       reinterpret_cast<char*>(&value) + 4)),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_add_publisher_location_cpu(here.event, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_sync_event_add_publisher_location_cpu(here.event, lab.dpu));
    EXPECT_EQ(doca_sync_event_add_publisher_location_cpu(here.event, lab.dpu),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_sync_event_add_publisher_location_remote_net(here.event),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_sync_event_export_to_remote_pci(here.event, lab.dpu, &bytes, &size),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_sync_event_export_to_remote_net(here.event, &bytes, &size),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_OK(doca_sync_event_add_subscriber_location_cpu(here.event, lab.dpu));
    EXPECT_OK(doca_sync_event_start(here.event));
    EXPECT_EQ(doca_sync_event_destroy(here.event), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_sync_event_set_addr(here.event, &value), DOCA_ERROR_BAD_STATE);
    doca_sync_event* imported = nullptr;
    const std::vector<std::uint8_t> nonsense(200, 1);
    EXPECT_EQ(
        doca_sync_event_create_from_export(lab.dpu, nonsense.data(), nonsense.size(), &imported),
        DOCA_ERROR_INVALID_VALUE);
}

} // namespace
