// Memory, consumers and producers for tests of the fast path, through the C API.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/comch/test_support.hpp"

namespace comch::doca::test {

/// Memory with a map and an inventory of buffers.
struct Memory {
    std::vector<char> bytes;
    doca_mmap* mmap = nullptr;
    doca_buf_inventory* inventory = nullptr;

    Memory(doca_dev* dev, std::size_t size, std::uint32_t access, std::size_t buffers = 64)
        : bytes(size) {
        EXPECT_OK(doca_mmap_create(&mmap));
        EXPECT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
        EXPECT_OK(doca_mmap_set_permissions(mmap, access));
        EXPECT_OK(doca_mmap_add_dev(mmap, dev));
        EXPECT_OK(doca_mmap_start(mmap));
        EXPECT_OK(doca_buf_inventory_create(buffers, &inventory));
        EXPECT_OK(doca_buf_inventory_start(inventory));
    }
    ~Memory() {
        EXPECT_OK(doca_buf_inventory_destroy(inventory));
        EXPECT_OK(doca_mmap_destroy(mmap));
    }
    doca_buf* room(std::size_t at, std::size_t size) {
        doca_buf* buffer = nullptr;
        EXPECT_OK(
            doca_buf_inventory_buf_get_by_addr(inventory, mmap, bytes.data() + at, size, &buffer));
        return buffer;
    }
    doca_buf* data(std::size_t at, std::size_t size) {
        doca_buf* buffer = nullptr;
        EXPECT_OK(
            doca_buf_inventory_buf_get_by_data(inventory, mmap, bytes.data() + at, size, &buffer));
        return buffer;
    }
};

/// Bytes that are the same nowhere near, however far what was copied is off.
inline void fill_unevenly(std::vector<char>& bytes) {
    std::uint64_t state = 1;
    for (std::size_t i = 0; i + sizeof(state) <= bytes.size(); i += sizeof(state)) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::memcpy(bytes.data() + i, &state, sizeof(state));
    }
}

inline void give_back(doca_buf* buffer) {
    EXPECT_OK(doca_buf_dec_refcount(buffer, nullptr));
}

inline std::string data_of(doca_buf* buffer) {
    void* at = nullptr;
    std::size_t length = 0;
    EXPECT_OK(doca_buf_get_data(buffer, &at));
    EXPECT_OK(doca_buf_get_data_len(buffer, &length));
    return {static_cast<const char*>(at), length};
}

struct ConsumerParty {
    doca_comch_consumer* consumer = nullptr;
    doca_ctx* ctx = nullptr;
    std::vector<doca_error_t> done;
    std::vector<std::string> immediates;
    std::vector<std::uint32_t> producers;
    std::function<void(doca_comch_consumer_task_post_recv*)> on_done;

    ConsumerParty(doca_comch_connection* connection, Engine& engine, doca_mmap* mmap,
                  std::uint32_t tasks = 16) {
        EXPECT_OK(doca_comch_consumer_create(connection, mmap, &consumer));
        ctx = doca_comch_consumer_as_ctx(consumer);
        doca_data data{};
        data.ptr = this;
        EXPECT_OK(doca_ctx_set_user_data(ctx, data));
        EXPECT_OK(doca_comch_consumer_task_post_recv_set_conf(consumer, received, received, tasks));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    }
    ~ConsumerParty() {
        if (consumer != nullptr) {
            EXPECT_OK(doca_comch_consumer_destroy(consumer));
        }
    }

    static void received(doca_comch_consumer_task_post_recv* task, doca_data, doca_data user) {
        auto& self = *static_cast<ConsumerParty*>(user.ptr);
        doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
        self.done.push_back(doca_task_get_status(base));
        const auto* const immediate = doca_comch_consumer_task_post_recv_get_imm_data(task);
        self.immediates.emplace_back(reinterpret_cast<const char*>(immediate),
                                     doca_comch_consumer_task_post_recv_get_imm_data_len(task));
        self.producers.push_back(doca_comch_consumer_task_post_recv_get_producer_id(task));
        if (self.on_done) {
            self.on_done(task);
        } else {
            doca_task_free(base);
        }
    }
    [[nodiscard]] doca_error_t post(doca_buf* buffer,
                                    doca_comch_consumer_task_post_recv** out = nullptr) const {
        doca_comch_consumer_task_post_recv* task = nullptr;
        const doca_error_t allocated =
            doca_comch_consumer_task_post_recv_alloc_init(consumer, buffer, &task);
        if (allocated != DOCA_SUCCESS) {
            return allocated;
        }
        const doca_error_t result =
            doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task));
        if (out != nullptr) {
            *out = task;
        } else if (result != DOCA_SUCCESS) {
            doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
        }
        return result;
    }
    [[nodiscard]] std::uint32_t id() const {
        std::uint32_t id = 0;
        EXPECT_OK(doca_comch_consumer_get_id(consumer, &id));
        return id;
    }
};

struct ProducerParty {
    doca_comch_producer* producer = nullptr;
    doca_ctx* ctx = nullptr;
    std::vector<doca_error_t> done;
    std::function<void()> on_done;

    ProducerParty(doca_comch_connection* connection, Engine& engine, std::uint32_t tasks = 16) {
        EXPECT_OK(doca_comch_producer_create(connection, &producer));
        ctx = doca_comch_producer_as_ctx(producer);
        doca_data data{};
        data.ptr = this;
        EXPECT_OK(doca_ctx_set_user_data(ctx, data));
        EXPECT_OK(doca_comch_producer_task_send_set_conf(producer, sent, sent, tasks));
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    }
    ~ProducerParty() {
        if (producer != nullptr) {
            EXPECT_OK(doca_comch_producer_destroy(producer));
        }
    }

    static void sent(doca_comch_producer_task_send* task, doca_data, doca_data user) {
        doca_task* const base = doca_comch_producer_task_send_as_task(task);
        auto& self = *static_cast<ProducerParty*>(user.ptr);
        self.done.push_back(doca_task_get_status(base));
        doca_task_free(base);
        if (self.on_done) {
            self.on_done();
        }
    }
    [[nodiscard]] doca_error_t send(std::uint32_t consumer, const doca_buf* buffer,
                                    std::string immediate = {},
                                    std::uint32_t flags = DOCA_TASK_SUBMIT_FLAG_FLUSH) const {
        doca_comch_producer_task_send* task = nullptr;
        auto* const bytes =
            immediate.empty() ? nullptr : reinterpret_cast<std::uint8_t*>(immediate.data());
        const doca_error_t allocated = doca_comch_producer_task_send_alloc_init(
            producer, buffer, bytes, static_cast<std::uint32_t>(immediate.size()), consumer, &task);
        if (allocated != DOCA_SUCCESS) {
            return allocated;
        }
        const doca_error_t result =
            doca_task_submit_ex(doca_comch_producer_task_send_as_task(task), flags);
        if (result != DOCA_SUCCESS) {
            doca_task_free(doca_comch_producer_task_send_as_task(task));
        }
        return result;
    }
};

/// The host produces, the DPU consumes.
struct FastPath {
    std::size_t size;
    TwoSides sides;
    Memory there{sides.lab.dpu, size, DOCA_ACCESS_FLAG_PCI_READ_WRITE};
    Memory here{sides.lab.host, size, DOCA_ACCESS_FLAG_LOCAL_READ_ONLY};
    ConsumerParty consumer{sides.at_server, sides.server_engine, there.mmap};
    ProducerParty producer{sides.client.connection(), sides.client_engine};

    explicit FastPath(std::size_t memory = 1 << 20) : size(memory) {
        EXPECT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_OK(doca_ctx_start(producer.ctx));
        EXPECT_TRUE(sides.until([&] {
            return state_of(consumer.ctx) == DOCA_CTX_STATE_RUNNING &&
                   !sides.client.consumers.empty();
        }));
        const std::size_t shown = std::min<std::size_t>(size, 1 << 20);
        std::iota(here.bytes.begin(), here.bytes.begin() + static_cast<std::ptrdiff_t>(shown), 'a');
    }
    ~FastPath() { stop(); }

    void stop() {
        for (doca_ctx* ctx : {producer.ctx, consumer.ctx}) {
            if (state_of(ctx) == DOCA_CTX_STATE_RUNNING) {
                EXPECT_THAT(doca_ctx_stop(ctx),
                            ::testing::AnyOf(DOCA_SUCCESS, DOCA_ERROR_IN_PROGRESS));
            }
        }
        EXPECT_TRUE(sides.until([&] {
            return state_of(producer.ctx) == DOCA_CTX_STATE_IDLE &&
                   state_of(consumer.ctx) == DOCA_CTX_STATE_IDLE;
        }));
    }
    /// Sends when the consumer is known to have a buffer.
    [[nodiscard]] doca_error_t send(const doca_buf* buffer, const std::string& immediate = {}) {
        doca_error_t result = DOCA_ERROR_AGAIN;
        EXPECT_TRUE(sides.until([&] {
            result = producer.send(consumer.id(), buffer, immediate);
            return result != DOCA_ERROR_AGAIN;
        }));
        return result;
    }
};

} // namespace comch::doca::test
