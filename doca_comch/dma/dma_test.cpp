// Memory copies between this process and another that does nothing for it.
#include <algorithm>
#include <csignal>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doca_dma.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

struct Map {
    doca_mmap* mmap = nullptr;

    Map(doca_dev* dev, std::vector<char>& bytes, std::optional<std::uint32_t> access) {
        EXPECT_OK(doca_mmap_create(&mmap));
        EXPECT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
        if (access) {
            EXPECT_OK(doca_mmap_set_permissions(mmap, *access));
        }
        EXPECT_OK(doca_mmap_add_dev(mmap, dev));
        EXPECT_OK(doca_mmap_start(mmap));
    }
    explicit Map(doca_mmap* imported) : mmap(imported) {}
    ~Map() { EXPECT_OK(doca_mmap_destroy(mmap)); }
};

struct Copier {
    Lab& lab;
    Engine engine;
    doca_dma* dma = nullptr;
    doca_buf_inventory* inventory = nullptr;
    std::vector<doca_error_t> done;

    explicit Copier(Lab& where) : lab(where) {
        EXPECT_OK(doca_dma_create(lab.dpu, &dma));
        doca_data data{};
        data.ptr = this;
        EXPECT_OK(doca_ctx_set_user_data(doca_dma_as_ctx(dma), data));
        EXPECT_OK(doca_dma_task_memcpy_set_conf(dma, on_done, on_done, 4));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, doca_dma_as_ctx(dma)));
        EXPECT_OK(doca_ctx_start(doca_dma_as_ctx(dma)));
        EXPECT_OK(doca_buf_inventory_create(8, &inventory));
        EXPECT_OK(doca_buf_inventory_start(inventory));
    }
    ~Copier() {
        EXPECT_OK(doca_ctx_stop(doca_dma_as_ctx(dma)));
        EXPECT_OK(doca_dma_destroy(dma));
        EXPECT_OK(doca_buf_inventory_destroy(inventory));
    }
    static void on_done(doca_dma_task_memcpy* task, doca_data, doca_data user) {
        doca_task* const base = doca_dma_task_memcpy_as_task(task);
        static_cast<Copier*>(user.ptr)->done.push_back(doca_task_get_status(base));
        doca_task_free(base);
    }
    /// From the data of one map to the other's room; the status in the end.
    doca_error_t copy(doca_mmap* from, void* source, doca_mmap* to, void* destination,
                      std::size_t size) {
        doca_buf* src = nullptr;
        doca_buf* dst = nullptr;
        EXPECT_OK(doca_buf_inventory_buf_get_by_data(inventory, from, source, size, &src));
        EXPECT_OK(doca_buf_inventory_buf_get_by_addr(inventory, to, destination, size, &dst));
        const doca_error_t result = copy(src, dst);
        std::size_t length = 0;
        EXPECT_OK(doca_buf_get_data_len(dst, &length));
        EXPECT_EQ(length, result == DOCA_SUCCESS ? size : 0);
        EXPECT_OK(doca_buf_dec_refcount(src, nullptr));
        EXPECT_OK(doca_buf_dec_refcount(dst, nullptr));
        return result;
    }
    doca_error_t copy(doca_buf* src, doca_buf* dst) {
        doca_dma_task_memcpy* task = nullptr;
        EXPECT_OK(doca_dma_task_memcpy_alloc_init(dma, src, dst, doca_data{}, &task));
        doca_error_t result = DOCA_ERROR_AGAIN;
        done.clear();
        EXPECT_TRUE(progress_until(
            [&] {
                result = doca_task_submit(doca_dma_task_memcpy_as_task(task));
                return result != DOCA_ERROR_AGAIN;
            },
            engine));
        if (result != DOCA_SUCCESS) {
            doca_task_free(doca_dma_task_memcpy_as_task(task));
            return result;
        }
        EXPECT_TRUE(progress_until([&] { return !done.empty(); }, engine));
        return done.empty() ? DOCA_ERROR_TIME_OUT : done[0];
    }
    /// A list of buffers with data.
    doca_buf* list(doca_mmap* map, const std::vector<std::pair<void*, std::size_t>>& pieces) {
        doca_buf* head = nullptr;
        for (const auto& [address, size] : pieces) {
            doca_buf* piece = nullptr;
            EXPECT_OK(doca_buf_inventory_buf_get_by_data(inventory, map, address, size, &piece));
            if (head == nullptr) {
                head = piece;
            } else {
                EXPECT_OK(doca_buf_chain_list(head, piece));
            }
        }
        return head;
    }
};

TEST(DocaDma, IsCreatedOnAnOpenDevice) {
    doca_dma* dma = nullptr;
    EXPECT_EQ(doca_dma_create(closed_device(), &dma), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaDma, LocalCopiesAndRefusals) {
    Lab lab;
    Copier copier(lab);
    std::vector<char> bytes(8192);
    std::iota(bytes.begin(), bytes.begin() + 4096, 'a');
    Map map(lab.dpu, bytes, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    EXPECT_OK(copier.copy(map.mmap, bytes.data(), map.mmap, bytes.data() + 4096, 4096));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 4096, bytes.begin() + 4096));
    std::vector<char> fixed(64);
    Map read_only(lab.dpu, fixed, DOCA_ACCESS_FLAG_LOCAL_READ_ONLY);
    EXPECT_EQ(copier.copy(map.mmap, bytes.data(), read_only.mmap, fixed.data(), 64),
              DOCA_ERROR_NOT_PERMITTED);
    const void* descriptor = nullptr;
    std::size_t length = 0;
    EXPECT_EQ(doca_mmap_export_pci(map.mmap, lab.dpu, &descriptor, &length),
              DOCA_ERROR_NOT_PERMITTED); // it grants the peer nothing
    doca_mmap* imported = nullptr;
    EXPECT_EQ(doca_mmap_create_from_export(nullptr, bytes.data(), 100, lab.dpu, &imported),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dma_destroy(copier.dma), DOCA_ERROR_BAD_STATE);
}

TEST(DocaDma, ATaskMayGetItsBuffersLater) {
    Lab lab;
    Copier copier(lab);
    std::vector<char> bytes(128, 'x');
    std::fill(bytes.begin() + 64, bytes.end(), '-');
    Map map(lab.dpu, bytes, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    doca_buf* source = nullptr;
    doca_buf* room = nullptr;
    ASSERT_OK(
        doca_buf_inventory_buf_get_by_data(copier.inventory, map.mmap, bytes.data(), 64, &source));
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(copier.inventory, map.mmap, bytes.data() + 64, 64,
                                                 &room));
    doca_dma_task_memcpy* task = nullptr;
    ASSERT_OK(doca_dma_task_memcpy_alloc_init(copier.dma, nullptr, nullptr, doca_data{}, &task));
    doca_task* const base = doca_dma_task_memcpy_as_task(task);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_INVALID_VALUE);
    doca_dma_task_memcpy_set_src(task, source);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_INVALID_VALUE);
    doca_dma_task_memcpy_set_dst(task, room);
    ASSERT_OK(doca_task_submit(base));
    ASSERT_TRUE(progress_until([&] { return !copier.done.empty(); }, copier.engine));
    EXPECT_OK(copier.done[0]);
    EXPECT_EQ(bytes, std::vector<char>(128, 'x'));
    EXPECT_OK(doca_buf_dec_refcount(source, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));
}

TEST(DocaDma, AMapWithoutPermissionsIsThisProcesssToWrite) {
    Lab lab;
    Copier copier(lab);
    std::vector<char> from(64, 'x');
    std::vector<char> to(64);
    Map source(lab.dpu, from, std::nullopt);
    Map destination(lab.dpu, to, std::nullopt);
    EXPECT_OK(copier.copy(source.mmap, from.data(), destination.mmap, to.data(), to.size()));
    EXPECT_EQ(to, from);
    // The other side may not as much as read it.
    const void* descriptor = nullptr;
    std::size_t length = 0;
    EXPECT_EQ(doca_mmap_export_pci(destination.mmap, lab.dpu, &descriptor, &length),
              DOCA_ERROR_NOT_PERMITTED);
}

/// Another process, which exports memory and then only waits for the pipe's end.
struct Exporter {
    int commands[2];
    int answers[2];
    pid_t child = -1;
    std::vector<char> descriptor;
    void* address = nullptr;

    Exporter(std::size_t size, std::uint32_t access) {
        EXPECT_EQ(pipe(commands), 0);
        EXPECT_EQ(pipe(answers), 0);
        child = fork();
        if (child == 0) {
            close(commands[1]);
            close(answers[0]);
            run(size, access);
        }
        close(commands[0]);
        close(answers[1]);
        std::size_t length = 0;
        EXPECT_EQ(read(answers[0], &length, sizeof(length)), ssize_t{sizeof(length)});
        EXPECT_EQ(read(answers[0], &address, sizeof(address)), ssize_t{sizeof(address)});
        descriptor.resize(length);
        EXPECT_EQ(read(answers[0], descriptor.data(), length), static_cast<ssize_t>(length));
    }
    ~Exporter() {
        close(commands[1]);
        close(answers[0]);
        if (child > 0) {
            kill(child, SIGKILL);
            waitpid(child, nullptr, 0);
        }
    }
    [[noreturn]] void run(std::size_t size, std::uint32_t access) {
        doca_devinfo** list = nullptr;
        std::uint32_t count = 0;
        doca_dev* dev = nullptr;
        if (doca_devinfo_create_list(&list, &count) != DOCA_SUCCESS ||
            doca_dev_open(list[count - 1], &dev) != DOCA_SUCCESS) {
            _exit(2);
        }
        std::vector<char> bytes(size);
        std::iota(bytes.begin(), bytes.end(), char{0});
        Map map(dev, bytes, access);
        const void* exported = nullptr;
        std::size_t length = 0;
        void* const at = bytes.data();
        if (doca_mmap_export_pci(map.mmap, dev, &exported, &length) != DOCA_SUCCESS ||
            write(answers[1], &length, sizeof(length)) < 0 ||
            write(answers[1], &at, sizeof(at)) < 0 || write(answers[1], exported, length) < 0) {
            _exit(3);
        }
        char command = 0;
        while (read(commands[0], &command, 1) == 1) {
            // Tells what is in its memory now.
            if (write(answers[1], bytes.data(), 64) < 0) {
                _exit(4);
            }
        }
        _exit(0);
    }
    std::vector<char> first_bytes() {
        std::vector<char> bytes(64);
        EXPECT_EQ(write(commands[1], "?", 1), 1);
        EXPECT_EQ(read(answers[0], bytes.data(), bytes.size()), ssize_t{64});
        return bytes;
    }
    /// Not even its library's thread does anything from here on.
    void freeze() {
        kill(child, SIGSTOP);
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
    }
    void thaw() { kill(child, SIGCONT); }
    void die() {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        child = -1;
    }
};

TEST(DocaDma, ReadsAndWritesTheMemoryOfAProcessThatDoesNothing) {
    Lab lab;
    constexpr std::size_t size = 1 << 20;
    Exporter exporter(size, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Copier copier(lab);
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(nullptr, exporter.descriptor.data(),
                                           exporter.descriptor.size(), lab.dpu, &imported));
    Map remote(imported);
    void* address = nullptr;
    std::size_t length = 0;
    ASSERT_OK(doca_mmap_get_memrange(remote.mmap, &address, &length));
    EXPECT_EQ(address, exporter.address); // the owner's addresses
    EXPECT_EQ(length, size);
    std::vector<char> here(size);
    std::vector<char> expected(size);
    std::iota(expected.begin(), expected.end(), char{0});
    Map local(lab.dpu, here, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    ASSERT_OK(copier.copy(remote.mmap, address, local.mmap, here.data(), size));
    EXPECT_EQ(here, expected);
    std::fill(here.begin(), here.end(), 'w');
    ASSERT_OK(copier.copy(local.mmap, here.data(), remote.mmap, address, 64));
    EXPECT_EQ(exporter.first_bytes(), std::vector<char>(64, 'w'));
    EXPECT_EQ(copier.copy(remote.mmap, address, remote.mmap, static_cast<char*>(address) + 64, 64),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_mmap_stop(remote.mmap), DOCA_ERROR_NOT_PERMITTED);
    exporter.die();
    EXPECT_NE(copier.copy(remote.mmap, address, local.mmap, here.data(), 64), DOCA_SUCCESS);
}

TEST(DocaDma, ReadOnlyExportsCannotBeWritten) {
    Lab lab;
    Exporter exporter(4096, DOCA_ACCESS_FLAG_PCI_READ_ONLY);
    Copier copier(lab);
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(nullptr, exporter.descriptor.data(),
                                           exporter.descriptor.size(), lab.dpu, &imported));
    Map remote(imported);
    std::vector<char> here(4096);
    Map local(lab.dpu, here, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    EXPECT_OK(copier.copy(remote.mmap, exporter.address, local.mmap, here.data(), 4096));
    EXPECT_EQ(copier.copy(local.mmap, here.data(), remote.mmap, exporter.address, 64),
              DOCA_ERROR_NOT_PERMITTED);
}

TEST(DocaDma, ListsAreGathered) {
    Lab lab;
    constexpr std::size_t size = 1 << 20;
    Exporter exporter(size, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Copier copier(lab);
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(nullptr, exporter.descriptor.data(),
                                           exporter.descriptor.size(), lab.dpu, &imported));
    Map remote(imported);
    std::vector<char> here(size);
    Map local(lab.dpu, here, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    char* const there = static_cast<char*>(exporter.address);

    // From there, around a piece without data. What was in the room stays in front.
    constexpr std::size_t large = 300'001;
    doca_buf* source = copier.list(
        remote.mmap, {{there + 5, large}, {there, 0}, {there + 100, 64}, {there + 1, 3}});
    doca_buf* room = nullptr;
    ASSERT_OK(
        doca_buf_inventory_buf_get_by_data(copier.inventory, local.mmap, here.data(), 10, &room));
    EXPECT_EQ(copier.copy(source, room), DOCA_ERROR_INVALID_VALUE) << "it has no room";
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));
    ASSERT_OK(doca_buf_inventory_buf_get_by_args(copier.inventory, local.mmap, here.data(), size,
                                                 here.data(), 10, &room));
    ASSERT_OK(copier.copy(source, room));
    std::vector<char> expected(10);
    const auto append = [&](std::size_t begin, std::size_t count) {
        for (std::size_t i = begin; i < begin + count; ++i) {
            expected.push_back(static_cast<char>(i));
        }
    };
    append(5, large);
    append(100, 64);
    append(1, 3);
    std::size_t length = 0;
    EXPECT_OK(doca_buf_get_data_len(room, &length));
    ASSERT_EQ(length, expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), here.begin()));

    // Not from the middle, and not into a list.
    doca_buf* middle = nullptr;
    ASSERT_OK(doca_buf_get_next_in_list(source, &middle));
    EXPECT_EQ(copier.copy(middle, room), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(copier.copy(room, source), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_dec_refcount(source, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));

    // And to there.
    std::fill(here.begin(), here.end(), 'a');
    std::fill(here.begin() + 1000, here.begin() + 1030, 'b');
    source = copier.list(local.mmap, {{here.data(), 34}, {here.data() + 1000, 30}});
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(copier.inventory, remote.mmap, there, 64, &room));
    ASSERT_OK(copier.copy(source, room));
    EXPECT_EQ(exporter.first_bytes(), std::vector<char>(here.begin() + 966, here.begin() + 1030));
    EXPECT_OK(doca_buf_dec_refcount(source, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));
}

TEST(DocaDma, ListsHaveALongestLength) {
    Lab lab;
    std::uint32_t longest = 0;
    ASSERT_OK(
        doca_dma_cap_task_memcpy_get_max_buf_list_len(doca_dev_as_devinfo(lab.dpu), &longest));
    ASSERT_GT(longest, 1u);
    Copier copier(lab);
    ASSERT_OK(doca_buf_inventory_expand(copier.inventory, longest + 1));
    std::vector<char> bytes(4096, 'x');
    Map map(lab.dpu, bytes, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    doca_buf* const source = copier.list(
        map.mmap, std::vector<std::pair<void*, std::size_t>>(longest, {bytes.data(), 1}));
    doca_buf* room = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(copier.inventory, map.mmap, bytes.data() + 1024,
                                                 1024, &room));
    EXPECT_OK(copier.copy(source, room));
    doca_buf* const more = copier.list(map.mmap, {{bytes.data(), 1}});
    ASSERT_OK(doca_buf_chain_list(source, more));
    EXPECT_EQ(copier.copy(source, room), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_buf_dec_refcount(source, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));
}

TEST(DocaDma, ABufferAboveTheDevicesLimitIsRefused) {
    Lab lab;
    std::uint64_t most = 0;
    ASSERT_OK(doca_dma_cap_task_memcpy_get_max_buf_size(doca_dev_as_devinfo(lab.dpu), &most));
    const std::size_t size = most + 4096;
    void* const range = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(range, MAP_FAILED);
    {
        Copier copier(lab);
        doca_mmap* created = nullptr;
        ASSERT_OK(doca_mmap_create(&created));
        const Map map(created);
        ASSERT_OK(doca_mmap_set_memrange(map.mmap, range, size));
        ASSERT_OK(doca_mmap_set_permissions(map.mmap, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE));
        ASSERT_OK(doca_mmap_add_dev(map.mmap, lab.dpu));
        ASSERT_OK(doca_mmap_start(map.mmap));
        EXPECT_EQ(copier.copy(map.mmap, range, map.mmap, range, most + 1),
                  DOCA_ERROR_INVALID_VALUE);
        EXPECT_OK(copier.copy(map.mmap, range, map.mmap, static_cast<char*>(range) + 64, 64));
    }
    munmap(range, size);
}

/// Tasks that read an exporter's memory into pieces of a local one's.
struct Reads {
    static constexpr std::size_t piece = 1 << 18;
    Copier& copier;
    std::vector<char> bytes = std::vector<char>(4 * piece);
    Map local;
    Map remote;
    std::vector<doca_buf*> buffers;

    static doca_mmap* import(Copier& copier, Exporter& exporter) {
        doca_mmap* imported = nullptr;
        EXPECT_OK(doca_mmap_create_from_export(nullptr, exporter.descriptor.data(),
                                               exporter.descriptor.size(), copier.lab.dpu,
                                               &imported));
        return imported;
    }
    Reads(Copier& where, Exporter& exporter)
        : copier(where), local(copier.lab.dpu, bytes, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE),
          remote(import(copier, exporter)) {
        for (std::size_t i = 0; i < 4; ++i) {
            doca_buf* source = nullptr;
            doca_buf* room = nullptr;
            EXPECT_OK(doca_buf_inventory_buf_get_by_data(copier.inventory, remote.mmap,
                                                         exporter.address, piece, &source));
            EXPECT_OK(doca_buf_inventory_buf_get_by_addr(copier.inventory, local.mmap,
                                                         bytes.data() + i * piece, piece, &room));
            doca_dma_task_memcpy* task = nullptr;
            EXPECT_OK(
                doca_dma_task_memcpy_alloc_init(copier.dma, source, room, doca_data{}, &task));
            EXPECT_OK(doca_task_submit(doca_dma_task_memcpy_as_task(task)));
            buffers.insert(buffers.end(), {source, room});
        }
    }
    ~Reads() {
        for (doca_buf* const buffer : buffers) {
            EXPECT_OK(doca_buf_dec_refcount(buffer, nullptr));
        }
    }
};

/// Copies that are under way, and stay so.
struct DocaDmaFrozen : testing::Test {
    Lab lab;
    Exporter exporter{Reads::piece, DOCA_ACCESS_FLAG_PCI_READ_ONLY};
    Copier copier{lab};
    std::optional<Reads> reads;

    void SetUp() override {
        exporter.freeze();
        reads.emplace(copier, exporter);
    }
};

TEST_F(DocaDmaFrozen, AnOwnerThatDiesFailsWhatIsUnderWay) {
    std::size_t inflight = 0;
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(doca_dma_as_ctx(copier.dma), &inflight));
    EXPECT_EQ(inflight, 4u);
    exporter.die();
    EXPECT_TRUE(progress_until([&] { return copier.done.size() == 4; }, copier.engine));
    for (const doca_error_t status : copier.done) {
        EXPECT_NE(status, DOCA_SUCCESS);
    }
    for (std::size_t i = 1; i < reads->buffers.size(); i += 2) {
        std::size_t length = 1;
        EXPECT_OK(doca_buf_get_data_len(reads->buffers[i], &length));
        EXPECT_EQ(length, 0u) << "a failed task does not change its buffers";
    }
}

TEST_F(DocaDmaFrozen, AStopWaitsForWhatIsUnderWay) {
    doca_ctx* const ctx = doca_dma_as_ctx(copier.dma);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
    EXPECT_EQ(doca_dma_destroy(copier.dma), DOCA_ERROR_BAD_STATE);
    exporter.thaw();
    EXPECT_TRUE(
        progress_until([&] { return state_of(ctx) == DOCA_CTX_STATE_IDLE; }, copier.engine));
    EXPECT_EQ(copier.done, std::vector<doca_error_t>(4, DOCA_SUCCESS));
    EXPECT_OK(doca_ctx_start(ctx)); // and once more, for the copier's own stop
}

TEST_F(DocaDmaFrozen, WhatIsGivenBackTooEarlyStaysUntilItsTaskIsDone) {
    const auto in_use = [&] {
        std::uint32_t all = 0;
        std::uint32_t free = 0;
        EXPECT_OK(doca_buf_inventory_get_num_elements(copier.inventory, &all));
        EXPECT_OK(doca_buf_inventory_get_num_free_elements(copier.inventory, &free));
        return all - free;
    };
    for (doca_buf* const buffer : reads->buffers) {
        EXPECT_EQ(doca_buf_inventory_buf_reuse_by_addr(buffer, reads->bytes.data(), 1),
                  DOCA_ERROR_NOT_PERMITTED);
        EXPECT_OK(doca_buf_dec_refcount(buffer, nullptr));
        EXPECT_EQ(doca_buf_dec_refcount(buffer, nullptr), DOCA_ERROR_BAD_STATE);
    }
    reads->buffers.clear();
    EXPECT_EQ(in_use(), 8u) << "sources and rooms";
    EXPECT_EQ(doca_buf_inventory_stop(copier.inventory), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_buf_inventory_destroy(copier.inventory), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_mmap_stop(reads->local.mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_destroy(reads->local.mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_destroy(reads->remote.mmap), DOCA_ERROR_NOT_PERMITTED);
    exporter.thaw();
    EXPECT_TRUE(progress_until([&] { return copier.done.size() == 4; }, copier.engine));
    EXPECT_EQ(copier.done, std::vector<doca_error_t>(4, DOCA_SUCCESS));
    std::vector<char> expected(Reads::piece);
    std::iota(expected.begin(), expected.end(), char{0});
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(
            std::equal(expected.begin(), expected.end(),
                       reads->bytes.begin() + static_cast<std::ptrdiff_t>(i * expected.size())));
    }
    EXPECT_EQ(in_use(), 0u);
}

TEST_F(DocaDmaFrozen, WhatIsCopiedIsSettledBySubmitting) {
    // Another one than those under way, of a list, which the program takes apart meanwhile.
    exporter.thaw();
    EXPECT_TRUE(progress_until([&] { return copier.done.size() == 4; }, copier.engine));
    for (doca_buf* const buffer : reads->buffers) {
        EXPECT_OK(doca_buf_dec_refcount(buffer, nullptr));
    }
    reads->buffers.clear();
    exporter.freeze();
    auto* const there = static_cast<char*>(exporter.address);
    doca_buf* const source =
        copier.list(reads->remote.mmap, {{there + 1, 1000}, {there + 2, 1000}, {there + 3, 1000}});
    doca_buf* second = nullptr;
    ASSERT_OK(doca_buf_get_next_in_list(source, &second));
    std::fill(reads->bytes.begin(), reads->bytes.end(), '-');
    doca_buf* room = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(copier.inventory, reads->local.mmap,
                                                 reads->bytes.data(), 3000, &room));
    doca_dma_task_memcpy* task = nullptr;
    ASSERT_OK(doca_dma_task_memcpy_alloc_init(copier.dma, source, room, doca_data{}, &task));
    ASSERT_OK(doca_task_submit(doca_dma_task_memcpy_as_task(task)));
    doca_dma_task_memcpy_set_src(task, room);
    doca_dma_task_memcpy_set_dst(task, source);
    EXPECT_EQ(doca_dma_task_memcpy_get_src(task), source) << "a submitted task is the library's";
    EXPECT_EQ(doca_dma_task_memcpy_get_dst(task), room);
    EXPECT_OK(doca_buf_unchain_list(source, second));
    EXPECT_OK(doca_buf_set_data(second, there + 2, 0));
    EXPECT_OK(doca_buf_dec_refcount(second, nullptr)); // with the third
    // So that there is no room behind what is being copied.
    EXPECT_OK(doca_buf_set_data(room, reads->bytes.data() + 2000, 1000));
    copier.done.clear();
    exporter.thaw();
    EXPECT_TRUE(progress_until([&] { return !copier.done.empty(); }, copier.engine));
    EXPECT_EQ(copier.done, std::vector<doca_error_t>(1, DOCA_SUCCESS));
    std::vector<char> expected;
    for (int first = 1; first <= 3; ++first) {
        for (int i = 0; i < 1000; ++i) {
            expected.push_back(static_cast<char>(first + i));
        }
    }
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), reads->bytes.begin()));
    EXPECT_EQ(reads->bytes[3000], '-');
    std::size_t length = 0;
    EXPECT_OK(doca_buf_get_data_len(room, &length));
    EXPECT_EQ(length, 1000u) << "there is not more data than room";
    EXPECT_OK(doca_buf_dec_refcount(source, nullptr));
    EXPECT_OK(doca_buf_dec_refcount(room, nullptr));
    std::uint32_t free = 0;
    EXPECT_OK(doca_buf_inventory_get_num_free_elements(copier.inventory, &free));
    EXPECT_EQ(free, 8u);
}

TEST_F(DocaDmaFrozen, TasksOfBeforeAreRefused) {
    exporter.thaw();
    EXPECT_TRUE(progress_until([&] { return copier.done.size() == 4; }, copier.engine));
    doca_ctx* const ctx = doca_dma_as_ctx(copier.dma);
    doca_dma_task_memcpy* task = nullptr;
    ASSERT_OK(doca_dma_task_memcpy_alloc_init(copier.dma, reads->buffers[0], reads->buffers[1],
                                              doca_data{}, &task));
    doca_task* const stale = doca_dma_task_memcpy_as_task(task);
    doca_task_free(stale);
    for (const std::uint32_t tasks : {1, 50, 4}) {
        EXPECT_OK(doca_ctx_stop(ctx));
        EXPECT_EQ(doca_task_submit(stale), DOCA_ERROR_BAD_STATE);
        ASSERT_OK(
            doca_dma_task_memcpy_set_conf(copier.dma, Copier::on_done, Copier::on_done, tasks));
        ASSERT_OK(doca_ctx_start(ctx));
        doca_task_free(stale);
        EXPECT_EQ(doca_task_submit(stale), DOCA_ERROR_BAD_STATE);
        std::vector<doca_dma_task_memcpy*> all(tasks);
        for (doca_dma_task_memcpy*& one : all) {
            ASSERT_OK(doca_dma_task_memcpy_alloc_init(copier.dma, reads->buffers[0],
                                                      reads->buffers[1], doca_data{}, &one));
        }
        EXPECT_EQ(doca_dma_task_memcpy_alloc_init(copier.dma, reads->buffers[0], reads->buffers[1],
                                                  doca_data{}, &task),
                  DOCA_ERROR_NO_MEMORY);
        for (doca_dma_task_memcpy* const one : all) {
            doca_task_free(doca_dma_task_memcpy_as_task(one));
        }
    }
}

} // namespace
