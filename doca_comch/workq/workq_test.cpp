// Work queues and jobs in one process: states, errors, depths, contexts and queues that share.
#include <array>
#include <numeric>

#include <doca_pe.h>

#include "doca_comch/workq/test_support.hpp"

namespace comch::doca::test {
namespace {

/// A context and a queue of depth 4 that is added to it, and 8 KiB, of which half is there to be copied.
class DocaWorkq : public testing::Test {
protected:
    struct Opened : Lab {
        Opened() { open(); }
    };

    Opened lab;
    std::vector<char> bytes = uneven(8192);
    std::vector<char> expected{bytes.begin(), bytes.begin() + 4096};
    Map map{lab.dpu, bytes};
    Dma dma{lab.dpu};
    Queue queue{4};
    Buffers buffers;

    char* from() { return bytes.data(); }
    char* to() { return bytes.data() + 4096; }
    doca_buf* source(std::size_t size = 4096) { return buffers.data(map.mmap, from(), size); }
    doca_buf* room(std::size_t size = 4096) { return buffers.room(map.mmap, to(), size); }
};

/// Where nothing is started yet.
class DocaWorkqStates : public testing::Test {
protected:
    DocaWorkqStates() { lab.open(); }
    Lab lab;
};

TEST_F(DocaWorkq, ACopyIsAJobWhoseEventTellsOfIt) {
    const Attached attached(dma, queue);
    doca_buf* const there = room();
    queue.is_empty();
    ASSERT_OK(dma.submit(queue, source(), there, 0x1234567890abcdef));
    doca_event event{};
    ASSERT_OK(queue.next(event));
    EXPECT_EQ(event.type, DOCA_DMA_JOB_MEMCPY);
    EXPECT_EQ(event.user_data.u64, 0x1234567890abcdefu);
    EXPECT_EQ(event.result.u64, std::uint64_t{DOCA_SUCCESS});
    EXPECT_EQ(std::vector<char>(to(), to() + 4096), expected);
    EXPECT_EQ(data_length(there), 4096u);
    queue.is_empty();
    EXPECT_EQ(doca_workq_progress_retrieve(queue.workq, &event, 1), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaWorkq, ManyJobsAreEachToldOfOnce) {
    const Attached attached(dma, queue);
    std::vector<int> told(1000);
    std::uint64_t submitted = 0;
    doca_buf* const here = source(64);
    doca_buf* const there = room(64);
    for (std::size_t retrieved = 0; retrieved < told.size();) {
        while (submitted < told.size()) {
            const doca_error_t result = dma.submit(queue, here, there, submitted);
            if (result == DOCA_ERROR_NO_MEMORY) {
                break;
            }
            ASSERT_OK(result);
            ++submitted;
        }
        doca_event event{};
        ASSERT_OK(queue.next(event));
        ++told.at(event.user_data.u64);
        ++retrieved;
    }
    EXPECT_EQ(told, std::vector<int>(1000, 1));
}

TEST_F(DocaWorkq, AFullQueueTakesNoMoreUntilAnEventIsRetrieved) {
    const Attached attached(dma, queue);
    doca_buf* const here = source(64);
    doca_buf* const there = room(64 * 8);
    for (std::uint64_t i = 0; i < 4; ++i) {
        ASSERT_OK(dma.submit(queue, here, there, i));
    }
    EXPECT_EQ(dma.submit(queue, here, there), DOCA_ERROR_NO_MEMORY);
    doca_event event{};
    ASSERT_OK(queue.next(event)); // by now the others have ended, too
    ASSERT_OK(dma.submit(queue, here, there, 4));
    EXPECT_EQ(dma.submit(queue, here, there), DOCA_ERROR_NO_MEMORY);
    std::uint64_t sum = event.user_data.u64;
    for (int i = 0; i < 4; ++i) {
        ASSERT_OK(queue.next(event));
        sum += event.user_data.u64;
    }
    EXPECT_EQ(sum, 10u);
    queue.is_empty();
}

TEST_F(DocaWorkq, ItsDepthCanBeChangedWhileNothingIsUnderWay) {
    doca_workq* none = nullptr;
    EXPECT_EQ(doca_workq_create(0, &none), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_workq_create(65537, &none), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(none, nullptr);
    const Attached attached(dma, queue);
    doca_buf* const here = source(64);
    doca_buf* const there = room(64 * 16);
    ASSERT_OK(dma.submit(queue, here, there));
    EXPECT_EQ(doca_workq_set_depth(queue.workq, 6), DOCA_ERROR_IN_USE);
    doca_event event{};
    ASSERT_OK(queue.next(event));
    EXPECT_EQ(doca_workq_set_depth(queue.workq, 0), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_workq_set_depth(queue.workq, 65537), DOCA_ERROR_INVALID_VALUE);
    for (const std::uint32_t depth : {6u, 1u}) {
        ASSERT_OK(doca_workq_set_depth(queue.workq, depth));
        std::uint32_t told = 0;
        ASSERT_OK(doca_workq_get_depth(queue.workq, &told));
        EXPECT_EQ(told, depth);
        for (std::uint32_t i = 0; i < depth; ++i) {
            ASSERT_OK(dma.submit(queue, here, there, i));
        }
        EXPECT_EQ(dma.submit(queue, here, there), DOCA_ERROR_NO_MEMORY);
        for (std::uint32_t i = 0; i < depth; ++i) {
            ASSERT_OK(queue.next(event));
        }
    }
}

TEST_F(DocaWorkq, JobsThatCannotBeDoneAreRefusedAndLeaveNothing) {
    const Attached attached(dma, queue);
    doca_dma_job_memcpy job = dma.job(source(), room());
    EXPECT_EQ(doca_workq_submit(queue.workq, nullptr), DOCA_ERROR_INVALID_VALUE);
    for (const int type : {0, int{DOCA_DMA_JOB_MEMCPY} - 1, int{DOCA_DMA_JOB_MEMCPY} + 1}) {
        job.base.type = type;
        EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_INVALID_VALUE);
    }
    job = dma.job(nullptr, room());
    EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_INVALID_VALUE);
    job = dma.job(source(), nullptr);
    EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_INVALID_VALUE);
    job = dma.job(source(), room());
    job.base.ctx = nullptr;
    EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_INVALID_VALUE);

    EXPECT_EQ(dma.submit(queue, room(), room()), DOCA_ERROR_INVALID_VALUE); // nothing to copy
    EXPECT_EQ(dma.submit(queue, source(65), room(64)), DOCA_ERROR_INVALID_VALUE);
    doca_buf* gone = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_by_data(buffers.inventory, map.mmap, from(), 64, &gone));
    ASSERT_OK(doca_buf_refcount_rm(gone, NULL));
    EXPECT_EQ(dma.submit(queue, gone, room()), DOCA_ERROR_INVALID_VALUE);
    std::vector<char> fixed(64);
    const Map read_only(lab.dpu, fixed, DOCA_ACCESS_LOCAL_READ_ONLY);
    Buffers more;
    EXPECT_EQ(dma.submit(queue, source(64), more.room(read_only.mmap, fixed.data(), 64)),
              DOCA_ERROR_NOT_PERMITTED);

    queue.is_empty();
    doca_buf* const here = source(64);
    doca_buf* const there = room();
    for (int i = 0; i < 4; ++i) {
        EXPECT_OK(dma.submit(queue, here, there)); // none of them took room
    }
    for (int i = 0; i < 4; ++i) {
        doca_event event{};
        EXPECT_OK(queue.next(event));
    }
}

TEST_F(DocaWorkq, DataGoesBehindWhatIsThereOrOverItIfThereIsNoRoom) {
    const Attached attached(dma, queue);
    doca_buf* const here = source(100);
    doca_buf* const there = room(250);
    const auto copied = [&](std::size_t length, std::size_t at) {
        std::fill_n(to(), 250, '\0');
        ASSERT_OK(dma.submit(queue, here, there));
        doca_event event{};
        ASSERT_OK(queue.next(event));
        EXPECT_EQ(data_length(there), length);
        EXPECT_TRUE(std::equal(from(), from() + 100, to() + at));
        EXPECT_EQ(std::count(to(), to() + at, '\0'), static_cast<std::ptrdiff_t>(at));
    };
    copied(100, 0);
    copied(200, 100);
    copied(100, 0); // 50 bytes are left
    EXPECT_OK(doca_buf_reset_data_len(there));
    copied(100, 0);
}

TEST_F(DocaWorkq, WithoutDataAJobSaysHowMuchToCopy) {
    const Attached attached(dma, queue);
    doca_buf* const here = room(4096);
    doca_buf* const there = buffers.room(map.mmap, from(), 4096);
    const std::vector<char> data(to(), to() + 100);
    doca_dma_job_memcpy job = dma.job(here, there);
    job.num_bytes_to_copy = 4097;
    EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_INVALID_VALUE);
    job.num_bytes_to_copy = 100;
    for (int i = 0; i < 2; ++i) { // to the same place each time
        std::fill_n(from(), 4096, '\0');
        ASSERT_OK(doca_workq_submit(queue.workq, &job.base));
        doca_event event{};
        ASSERT_OK(queue.next(event));
        EXPECT_EQ(std::vector<char>(from(), from() + 100), data);
        EXPECT_EQ(std::count(from() + 100, from() + 4096, '\0'), 3996);
    }
}

TEST_F(DocaWorkq, ListsAreGathered) {
    const Attached attached(dma, queue);
    doca_buf* const first = source(10);
    doca_buf* const second = buffers.data(map.mmap, from() + 100, 20);
    ASSERT_OK(doca_buf_list_chain(first, second));
    bool last = true;
    ASSERT_OK(doca_buf_list_is_last(first, &last));
    EXPECT_FALSE(last);
    std::uint32_t elements = 0;
    ASSERT_OK(doca_buf_list_num_elements(first, &elements));
    EXPECT_EQ(elements, 2u);
    EXPECT_EQ(dma.submit(queue, second, room()), DOCA_ERROR_INVALID_VALUE); // not its head
    ASSERT_OK(dma.submit(queue, first, room()));
    doca_event event{};
    ASSERT_OK(queue.next(event));
    EXPECT_TRUE(std::equal(from(), from() + 10, to()));
    EXPECT_TRUE(std::equal(from() + 100, from() + 120, to() + 10));
    ASSERT_OK(doca_buf_list_unchain(first, second));
}

TEST_F(DocaWorkq, ServesSeveralContexts) {
    const Dma other(lab.dpu);
    const Attached attached(dma, queue);
    doca_buf* const here = source(64);
    doca_buf* const there = room();
    {
        const Attached also(other, queue);
        ASSERT_OK(dma.submit(queue, here, there, 1));
        ASSERT_OK(other.submit(queue, here, there, 2));
        ASSERT_OK(dma.submit(queue, here, there, 3));
        ASSERT_OK(other.submit(queue, here, there, 4));
        EXPECT_EQ(dma.submit(queue, here, there), DOCA_ERROR_NO_MEMORY); // the depth is for all
        std::array<int, 5> told{};
        for (int i = 0; i < 4; ++i) {
            doca_event event{};
            ASSERT_OK(queue.next(event));
            ++told.at(event.user_data.u64);
        }
        EXPECT_EQ(told, (std::array<int, 5>{0, 1, 1, 1, 1}));
    }
    EXPECT_EQ(other.submit(queue, here, there), DOCA_ERROR_NOT_FOUND);
    EXPECT_OK(copy(dma, queue, map.mmap, from(), map.mmap, to(), 4096));
}

TEST_F(DocaWorkq, AContextServesSeveralQueuesInThreads) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t each = 16384;
    std::vector<char> source = uneven(threads * each);
    std::vector<char> destination(source.size());
    const Map sources(lab.dpu, source);
    const Map destinations(lab.dpu, destination);
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < threads; ++i) {
        all.emplace_back([&, i] {
            const Queue own(8);
            const Attached attached(dma, own);
            for (std::size_t at = i * each; at < (i + 1) * each; at += 64) {
                EXPECT_OK(copy(dma, own, sources.mmap, source.data() + at, destinations.mmap,
                               destination.data() + at, 64));
            }
        });
    }
    for (std::thread& thread : all) {
        thread.join();
    }
    EXPECT_EQ(destination, source);
}

TEST_F(DocaWorkq, WhatHasEndedIsRetrievedAfterTheQueueWasRemoved) {
    ASSERT_OK(doca_ctx_workq_add(dma.ctx, queue.workq));
    doca_buf* const here = source(64);
    ASSERT_OK(dma.submit(queue, here, room(), 1));
    ASSERT_OK(dma.submit(queue, here, room(), 2));
    EXPECT_EQ(doca_ctx_workq_rm(dma.ctx, queue.workq), DOCA_ERROR_NOT_PERMITTED);
    doca_event event{};
    ASSERT_OK(queue.next(event)); // progress has ended both
    ASSERT_OK(doca_ctx_workq_rm(dma.ctx, queue.workq));
    ASSERT_OK(queue.next(event));
    queue.is_empty();
}

TEST_F(DocaWorkqStates, ContextsSayWhatMustComeFirst) {
    doca_dma* dma = nullptr;
    ASSERT_OK(doca_dma_create(&dma));
    doca_ctx* const ctx = doca_dma_as_ctx(dma);
    doca_workq* workq = nullptr;
    ASSERT_OK(doca_workq_create(4, &workq));
    doca_dma_job_memcpy job{};
    job.base.type = DOCA_DMA_JOB_MEMCPY;
    job.base.ctx = ctx;

    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_INVALID_VALUE); // no device
    EXPECT_EQ(doca_ctx_dev_rm(ctx, lab.dpu), DOCA_ERROR_NOT_FOUND);
    alignas(64) static char nothing[4096] = {};
    EXPECT_EQ(doca_ctx_dev_add(ctx, reinterpret_cast<doca_dev*>(nothing)),
              DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_ctx_dev_add(ctx, lab.dpu));
    EXPECT_EQ(doca_ctx_dev_add(ctx, lab.dpu), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_ctx_dev_add(ctx, lab.hosts.at(0)), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_dev_close(lab.dpu), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_ctx_workq_add(ctx, workq), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_workq_rm(ctx, workq), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_workq_submit(workq, &job.base), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_BAD_STATE);

    ASSERT_OK(doca_ctx_start(ctx));
    doca_ctx_states state = DOCA_CTX_STATE_IDLE;
    ASSERT_OK(doca_ctx_get_state(ctx, &state));
    EXPECT_EQ(state, DOCA_CTX_STATE_RUNNING);
    EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_dev_add(ctx, lab.hosts.at(0)), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_dev_rm(ctx, lab.dpu), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_ctx_workq_rm(ctx, workq), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(doca_workq_submit(workq, &job.base), DOCA_ERROR_NOT_FOUND);
    ASSERT_OK(doca_ctx_workq_add(ctx, workq));
    EXPECT_EQ(doca_ctx_workq_add(ctx, workq), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_workq_destroy(workq), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_dma_destroy(dma), DOCA_ERROR_IN_USE);
    ASSERT_OK(doca_ctx_workq_rm(ctx, workq));
    EXPECT_EQ(doca_dma_destroy(dma), DOCA_ERROR_IN_USE);
    ASSERT_OK(doca_ctx_stop(ctx));
    EXPECT_EQ(doca_workq_submit(workq, &job.base), DOCA_ERROR_BAD_STATE);

    ASSERT_OK(doca_ctx_dev_rm(ctx, lab.dpu));
    ASSERT_OK(doca_ctx_dev_add(ctx, lab.hosts.at(0))); // and so on with another
    ASSERT_OK(doca_ctx_start(ctx));
    ASSERT_OK(doca_ctx_workq_add(ctx, workq));
    ASSERT_OK(doca_ctx_workq_rm(ctx, workq));
    ASSERT_OK(doca_ctx_stop(ctx));
    EXPECT_OK(doca_dma_destroy(dma)); // with its device
    EXPECT_EQ(doca_workq_submit(workq, &job.base), DOCA_ERROR_NOT_FOUND);
    EXPECT_OK(doca_workq_destroy(workq));
}

TEST_F(DocaWorkqStates, TheGenerationsAreNotMixed) {
    doca_dma* today = nullptr;
    ASSERT_OK(doca_dma_create(lab.dpu, &today));
    doca_ctx* const of_today = doca_dma_as_ctx(today);
    const Queue queue(4);
    EXPECT_EQ(doca_ctx_dev_add(of_today, lab.dpu), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_ctx_dev_rm(of_today, lab.dpu), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_ctx_workq_add(of_today, queue.workq), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_ctx_workq_rm(of_today, queue.workq), DOCA_ERROR_NOT_SUPPORTED);
    std::uint8_t supported = 77;
    ASSERT_OK(doca_ctx_get_event_driven_supported(of_today, &supported));
    EXPECT_EQ(supported, 0);
    doca_dma_job_memcpy job{};
    job.base.type = DOCA_DMA_JOB_MEMCPY;
    job.base.ctx = of_today;
    EXPECT_EQ(doca_workq_submit(queue.workq, &job.base), DOCA_ERROR_NOT_FOUND);
    ASSERT_OK(doca_dma_destroy(today));

    const Dma then(lab.dpu);
    doca_pe* pe = nullptr;
    ASSERT_OK(doca_pe_create(&pe));
    EXPECT_EQ(doca_pe_connect_ctx(pe, then.ctx), DOCA_ERROR_NOT_SUPPORTED);
    const auto nothing = [](doca_dma_task_memcpy*, doca_data, doca_data) {};
    EXPECT_EQ(doca_dma_task_memcpy_set_conf(then.dma, nothing, nothing, 1),
              DOCA_ERROR_NOT_SUPPORTED);
    doca_dma_task_memcpy* task = nullptr;
    EXPECT_EQ(doca_dma_task_memcpy_alloc_init(then.dma, nullptr, nullptr, doca_data{}, &task),
              DOCA_ERROR_NO_MEMORY);
    ASSERT_OK(doca_ctx_get_event_driven_supported(then.ctx, &supported));
    EXPECT_EQ(supported, 1);
    EXPECT_OK(doca_pe_destroy(pe));
}

TEST_F(DocaWorkqStates, DevicesTellWhatDmaCan) {
    doca_devinfo* const info = doca_dev_as_devinfo(lab.dpu);
    EXPECT_OK(doca_dma_job_get_supported(info, DOCA_DMA_JOB_MEMCPY));
    EXPECT_EQ(doca_dma_job_get_supported(info, static_cast<doca_dma_job_types>(0)),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dma_job_get_supported(nullptr, DOCA_DMA_JOB_MEMCPY), DOCA_ERROR_INVALID_VALUE);
    std::uint64_t size = 0;
    std::uint64_t today = 1;
    EXPECT_OK(doca_dma_get_max_buf_size(info, &size));
    EXPECT_OK(doca_dma_cap_task_memcpy_get_max_buf_size(info, &today));
    EXPECT_EQ(size, today);
    std::uint32_t elements = 0;
    EXPECT_OK(doca_dma_get_max_list_buf_num_elem(info, &elements));
    EXPECT_EQ(elements, 64u);
    EXPECT_OK(doca_ctx_get_max_num_ctx(&elements));
    EXPECT_GT(elements, 1000u);
}

TEST_F(DocaWorkq, SleepsUntilAJobIsDone) {
    doca_event_handle_t handle = doca_event_invalid_handle;
    EXPECT_EQ(doca_workq_get_event_handle(queue.workq, &handle), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_workq_event_handle_arm(queue.workq), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_workq_event_handle_clear(queue.workq, 0), DOCA_ERROR_BAD_STATE);
    std::uint8_t enabled = 77;
    EXPECT_OK(doca_workq_get_event_driven_enable(queue.workq, &enabled));
    EXPECT_EQ(enabled, 0);
    ASSERT_OK(doca_workq_set_event_driven_enable(queue.workq, 1));
    EXPECT_OK(doca_workq_get_event_driven_enable(queue.workq, &enabled));
    EXPECT_EQ(enabled, 1);
    const Attached attached(dma, queue);
    EXPECT_OK(doca_workq_set_event_driven_enable(queue.workq, 1)); // as it is
    EXPECT_EQ(doca_workq_set_event_driven_enable(queue.workq, 0), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_workq_get_event_handle(queue.workq, &handle));
    doca_event_handle_t again = doca_event_invalid_handle;
    ASSERT_OK(doca_workq_get_event_handle(queue.workq, &again));
    EXPECT_EQ(again, handle);

    doca_buf* const here = source(64);
    doca_buf* const there = room();
    doca_event event{};
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
        EXPECT_FALSE(readable(handle));
        ASSERT_OK(dma.submit(queue, here, there)); // armed before: as programs do it
        EXPECT_TRUE(wakes(handle));
        ASSERT_OK(doca_workq_event_handle_clear(queue.workq, handle));
        ASSERT_OK(queue.next(event));

        ASSERT_OK(dma.submit(queue, here, there)); // and armed afterwards
        ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
        EXPECT_TRUE(wakes(handle));
        ASSERT_OK(doca_workq_event_handle_clear(queue.workq, handle));
        ASSERT_OK(queue.next(event));
    }
    // An event that waits is something to wake for.
    ASSERT_OK(dma.submit(queue, here, there));
    ASSERT_OK(dma.submit(queue, here, there));
    ASSERT_OK(queue.next(event));
    ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
    EXPECT_TRUE(wakes(handle));
    ASSERT_OK(queue.next(event));
    ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
    EXPECT_FALSE(readable(handle));
}

} // namespace
} // namespace comch::doca::test
