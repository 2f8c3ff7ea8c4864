// What the tests of work queues share, written as programs of 2023 were: maps, buffers, a DMA context.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_ctx.h>
#include <doca_dma.h>
#include <doca_mmap.h>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {

#define EXPECT_OK(call) EXPECT_EQ(call, DOCA_SUCCESS)
#define ASSERT_OK(call) ASSERT_EQ(call, DOCA_SUCCESS)

/// Bytes that are the same nowhere near.
inline std::vector<char> uneven(std::size_t size, std::uint64_t state = 1) {
    std::vector<char> bytes(size);
    for (char& byte : bytes) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        byte = static_cast<char>(state >> 56);
    }
    return bytes;
}

/// A map with a range, as of 2.0.
struct Map {
    doca_mmap* mmap = nullptr;

    explicit Map(doca_mmap* imported) : mmap(imported) {}
    Map(doca_dev* dev, std::vector<char>& bytes,
        std::uint32_t access = DOCA_ACCESS_LOCAL_READ_WRITE) {
        EXPECT_OK(doca_mmap_create(NULL, &mmap));
        EXPECT_OK(doca_mmap_dev_add(mmap, dev));
        EXPECT_OK(doca_mmap_set_permissions(mmap, access));
        EXPECT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
        EXPECT_OK(doca_mmap_start(mmap));
    }
    ~Map() { EXPECT_OK(doca_mmap_destroy(mmap)); }
    Map(const Map&) = delete;
    Map& operator=(const Map&) = delete;
};

/// Buffers, given back with this.
struct Buffers {
    doca_buf_inventory* inventory = nullptr;
    std::vector<doca_buf*> taken;

    explicit Buffers(std::size_t count = 16) {
        EXPECT_OK(doca_buf_inventory_create(NULL, count, DOCA_BUF_EXTENSION_NONE, &inventory));
        EXPECT_OK(doca_buf_inventory_start(inventory));
    }
    ~Buffers() {
        for (doca_buf* const buf : taken) {
            EXPECT_OK(doca_buf_refcount_rm(buf, NULL));
        }
        EXPECT_OK(doca_buf_inventory_destroy(inventory));
    }
    Buffers(const Buffers&) = delete;
    Buffers& operator=(const Buffers&) = delete;

    /// Without data.
    doca_buf* room(doca_mmap* mmap, void* at, std::size_t size) {
        doca_buf* buf = nullptr;
        EXPECT_OK(doca_buf_inventory_buf_by_addr(inventory, mmap, at, size, &buf));
        taken.push_back(buf);
        return buf;
    }
    doca_buf* data(doca_mmap* mmap, void* at, std::size_t size) {
        doca_buf* const buf = room(mmap, at, size);
        EXPECT_OK(doca_buf_set_data(buf, at, size));
        return buf;
    }
};

inline std::size_t data_length(const doca_buf* buf) {
    std::size_t length = 0;
    EXPECT_OK(doca_buf_get_data_len(buf, &length));
    return length;
}

/// A work queue, destroyed with this.
struct Queue {
    doca_workq* workq = nullptr;

    explicit Queue(std::uint32_t depth) { EXPECT_OK(doca_workq_create(depth, &workq)); }
    ~Queue() { EXPECT_OK(doca_workq_destroy(workq)); }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// The next event: how retrieving it was answered.
    doca_error_t next(doca_event& event) const {
        doca_error_t result = DOCA_ERROR_AGAIN;
        EXPECT_TRUE(eventually([&] {
            result = doca_workq_progress_retrieve(workq, &event, DOCA_WORKQ_RETRIEVE_FLAGS_NONE);
            return result != DOCA_ERROR_AGAIN;
        }));
        return result;
    }
    /// Nothing is there.
    void is_empty() const {
        doca_event event{};
        event.type = 77;
        EXPECT_EQ(doca_workq_progress_retrieve(workq, &event, DOCA_WORKQ_RETRIEVE_FLAGS_NONE),
                  DOCA_ERROR_AGAIN);
        EXPECT_EQ(event.type, 77);
    }
};

/// A DMA context that is started.
struct Dma {
    doca_dev* dev;
    doca_dma* dma = nullptr;
    doca_ctx* ctx = nullptr;

    explicit Dma(doca_dev* device) : dev(device) {
        EXPECT_OK(doca_dma_create(&dma));
        ctx = doca_dma_as_ctx(dma);
        EXPECT_OK(doca_ctx_dev_add(ctx, dev));
        EXPECT_OK(doca_ctx_start(ctx));
    }
    ~Dma() {
        EXPECT_OK(doca_ctx_stop(ctx));
        EXPECT_OK(doca_ctx_dev_rm(ctx, dev));
        EXPECT_OK(doca_dma_destroy(dma));
    }
    Dma(const Dma&) = delete;
    Dma& operator=(const Dma&) = delete;

    [[nodiscard]] doca_dma_job_memcpy job(doca_buf* from, doca_buf* to,
                                          std::uint64_t number = 0) const {
        doca_dma_job_memcpy job{};
        job.base.type = DOCA_DMA_JOB_MEMCPY;
        job.base.flags = DOCA_JOB_FLAGS_NONE;
        job.base.ctx = ctx;
        job.base.user_data.u64 = number;
        job.src_buff = from;
        job.dst_buff = to;
        return job;
    }
    doca_error_t submit(const Queue& queue, doca_buf* from, doca_buf* to,
                        std::uint64_t number = 0) const {
        const doca_dma_job_memcpy job = this->job(from, to, number);
        return doca_workq_submit(queue.workq, &job.base);
    }
};

/// A queue that is added to a context meanwhile.
struct Attached {
    const Dma& dma;
    const Queue& queue;

    Attached(const Dma& to, const Queue& what) : dma(to), queue(what) {
        EXPECT_OK(doca_ctx_workq_add(dma.ctx, queue.workq));
    }
    ~Attached() { EXPECT_OK(doca_ctx_workq_rm(dma.ctx, queue.workq)); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
};

/// Copies a piece; what its event says, or why it was not submitted.
inline doca_error_t copy(const Dma& dma, const Queue& queue, doca_mmap* from, void* source,
                         doca_mmap* to, void* destination, std::size_t size) {
    Buffers buffers(2);
    const doca_error_t submitted = dma.submit(queue, buffers.data(from, source, size),
                                              buffers.room(to, destination, size), 4711);
    if (submitted != DOCA_SUCCESS) {
        return submitted;
    }
    doca_event event{};
    const doca_error_t result = queue.next(event);
    EXPECT_EQ(event.type, DOCA_DMA_JOB_MEMCPY);
    EXPECT_EQ(event.user_data.u64, 4711u);
    EXPECT_EQ(result, event.result.u64 == DOCA_SUCCESS ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED);
    return static_cast<doca_error_t>(event.result.u64);
}

} // namespace comch::doca::test
