// Contexts of each family: created, connected, started and used while there is no memory.
#include <doca_cc.h>
#include <doca_dma.h>

#include "doca_comch/comch/fast_path_support.hpp"
#include "doca_comch/no_memory/failing_new.hpp"

namespace {

using namespace comch::doca::test;

void servers_and_clients() {
    Lab lab;
    Engine engine;
    doca_comch_server* server = nullptr;
    ASSERT_OK(outlast([&] {
        return doca_comch_server_create(lab.dpu, lab.representor,
                                        "a name that needs some memory of its own", &server);
    }));
    doca_comch_client* client = nullptr;
    ASSERT_OK(outlast([&] {
        return doca_comch_client_create(lab.host, "a name that needs some memory of its own",
                                        &client);
    }));
    EXPECT_OK(outlast([&] { return doca_comch_server_destroy(server); }));
    EXPECT_OK(outlast([&] { return doca_comch_client_destroy(client); }));

    ServerParty at_server(lab, engine, "server");
    ClientParty at_client(lab, engine, "server");
    at_server.steps.reserve(100); // callbacks are called from inside
    at_client.steps.reserve(100);
    for (int round = 0; round < 2; ++round) { // the second with what the first has left
        at_server.connected.clear();
        ASSERT_OK(outlast([&] { return doca_ctx_start(at_server.ctx); }));
        ASSERT_EQ(outlast([&] { return doca_ctx_start(at_client.ctx); }), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until(
            [&] {
                return state_of(at_client.ctx) == DOCA_CTX_STATE_RUNNING &&
                       !at_server.connected.empty();
            },
            engine));
        ASSERT_EQ(outlast([&] { return doca_ctx_stop(at_client.ctx); }), DOCA_ERROR_IN_PROGRESS);
        ASSERT_EQ(outlast([&] { return doca_ctx_stop(at_server.ctx); }), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until(
            [&] {
                return state_of(at_client.ctx) == DOCA_CTX_STATE_IDLE &&
                       state_of(at_server.ctx) == DOCA_CTX_STATE_IDLE;
            },
            engine));
    }
}

TEST(DocaNoMemory, ServersAndClients) {
    after_a_warm_up(servers_and_clients);
}

TEST(DocaNoMemory, OfAConnectionEndsIt) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "server");
    ClientParty client(lab, engine, "server");
    ASSERT_OK(doca_ctx_start(server.ctx));
    unsigned failures = 0;
    for (bool fails = true; fails;) {
        server.connected.clear();
        ASSERT_EQ(doca_ctx_start(client.ctx), DOCA_ERROR_IN_PROGRESS);
        const FailingAllocation failing(failures + 1);
        const auto is_idle = [&] { return state_of(client.ctx) == DOCA_CTX_STATE_IDLE; };
        const auto is_connected = [&] {
            return state_of(client.ctx) == DOCA_CTX_STATE_RUNNING && !server.connected.empty();
        };
        ASSERT_TRUE(progress_until([&] { return is_idle() || is_connected(); }, engine));
        fails = failing.happened();
        failures += fails ? 1 : 0;
        EXPECT_EQ(is_connected(), !fails); // the next one connects well
    }
    EXPECT_GE(failures, 2u); // of the client's, and of the server's
    for (doca_ctx* const ctx : {client.ctx, server.ctx}) {
        EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_TRUE(progress_until([&] { return state_of(ctx) == DOCA_CTX_STATE_IDLE; }, engine));
    }
}

/// Submits a task of the client's until it is taken, or there is no room for it.
doca_error_t send(TwoSides& pair, const std::string& message) {
    doca_comch_task_send* task = nullptr;
    const doca_error_t allocated = doca_comch_client_task_send_alloc_init(
        pair.client.client, pair.client.connection(), message.data(),
        static_cast<std::uint32_t>(message.size()), &task);
    if (allocated != DOCA_SUCCESS) {
        return allocated;
    }
    doca_task* const base = doca_comch_task_send_as_task(task);
    return outlast([&] { return doca_task_submit(base); });
}

void control_messages() {
    constexpr std::uint32_t count = 2000; // more than the link has room for
    TwoSides pair(count);
    std::vector<std::string> sent;
    for (std::uint32_t i = 0; i < count; ++i) {
        sent.push_back("message " + std::to_string(i));
        ASSERT_OK(send(pair, sent.back()));
    }
    ASSERT_TRUE(pair.until([&] { return pair.client.sends.size() == count; }));
    EXPECT_EQ(pair.server.messages, sent);
    EXPECT_OK(
        outlast([&] { return doca_comch_server_disconnect(pair.server.server, pair.at_server); }));
    EXPECT_TRUE(pair.until([&] { return !pair.server.disconnected.empty(); }));
    EXPECT_TRUE(pair.until([&] { return state_of(pair.client.ctx) == DOCA_CTX_STATE_IDLE; }));
}

TEST(DocaNoMemory, ControlMessages) {
    after_a_warm_up(control_messages);
}

void contexts_of_cc() {
    Lab lab;
    Engine engine;
    doca_cc_server* server = nullptr;
    doca_cc_client* client = nullptr;
    ASSERT_OK(
        outlast([&] { return doca_cc_server_create(lab.dpu, lab.representor, "cc", &server); }));
    ASSERT_OK(outlast([&] { return doca_cc_client_create(lab.host, "cc", &client); }));
    EXPECT_OK(doca_cc_server_destroy(server));
    EXPECT_OK(doca_cc_client_destroy(client));
}

TEST(DocaNoMemory, ContextsOfCc) {
    after_a_warm_up(contexts_of_cc);
}

void producers_and_consumers() {
    constexpr std::size_t size = 1 << 20;
    TwoSides sides;
    Memory there(sides.lab.dpu, size, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Memory here(sides.lab.host, size, DOCA_ACCESS_FLAG_LOCAL_READ_ONLY);
    doca_comch_consumer* created = nullptr;
    ASSERT_OK(
        outlast([&] { return doca_comch_consumer_create(sides.at_server, there.mmap, &created); }));
    EXPECT_OK(doca_comch_consumer_destroy(created));
    doca_comch_producer* made = nullptr;
    ASSERT_OK(
        outlast([&] { return doca_comch_producer_create(sides.client.connection(), &made); }));
    EXPECT_OK(doca_comch_producer_destroy(made));

    ConsumerParty consumer(sides.at_server, sides.server_engine, there.mmap);
    ProducerParty producer(sides.client.connection(), sides.client_engine);
    ASSERT_EQ(outlast([&] { return doca_ctx_start(consumer.ctx); }), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(outlast([&] { return doca_ctx_start(producer.ctx); }));
    ASSERT_TRUE(sides.until([&] {
        return state_of(consumer.ctx) == DOCA_CTX_STATE_RUNNING && !sides.client.consumers.empty();
    }));
    here.bytes[0] = 'a';
    doca_buf* const room = there.room(0, size);
    doca_buf* const data = here.data(0, size);
    // Before the consumer has a buffer, the send waits.
    ASSERT_OK(outlast([&] { return producer.send(consumer.id(), data, "now"); }, Files::kept));
    ASSERT_OK(outlast([&] { return consumer.post(room); }));
    ASSERT_TRUE(
        sides.until([&] { return producer.done.size() == 1 && consumer.done.size() == 1; }));
    EXPECT_EQ(producer.done[0], DOCA_SUCCESS);
    EXPECT_EQ(consumer.immediates[0], "now");
    EXPECT_EQ(data_of(room)[0], 'a');
    // The next one does not.
    EXPECT_OK(doca_buf_reset_data_len(room));
    ASSERT_OK(outlast([&] { return consumer.post(room); }));
    doca_error_t result = DOCA_ERROR_AGAIN;
    ASSERT_TRUE(sides.until([&] {
        result = outlast([&] { return producer.send(consumer.id(), data); }, Files::kept);
        return result != DOCA_ERROR_AGAIN;
    }));
    EXPECT_OK(result);
    ASSERT_TRUE(
        sides.until([&] { return producer.done.size() == 2 && consumer.done.size() == 2; }));
    ASSERT_OK(outlast([&] { return doca_ctx_stop(producer.ctx); }));
    ASSERT_OK(outlast([&] { return doca_ctx_stop(consumer.ctx); }));
    ASSERT_TRUE(sides.until([&] {
        return state_of(consumer.ctx) == DOCA_CTX_STATE_IDLE &&
               state_of(producer.ctx) == DOCA_CTX_STATE_IDLE;
    }));
    give_back(room);
    give_back(data);
}

TEST(DocaNoMemory, ProducersAndConsumers) {
    after_a_warm_up(producers_and_consumers);
}

void memory_copies() {
    const Lab lab;
    Engine engine;
    Memory memory(lab.dpu, 8192, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    const void* descriptor = nullptr;
    std::size_t length = 0;
    ASSERT_OK(doca_mmap_export_pci(memory.mmap, lab.dpu, &descriptor, &length));
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(nullptr, descriptor, length, lab.dpu, &imported));
    memory.bytes[0] = 'a';

    doca_dma* dma = nullptr;
    ASSERT_OK(outlast([&] { return doca_dma_create(lab.dpu, &dma); }));
    doca_ctx* const ctx = doca_dma_as_ctx(dma);
    static std::vector<doca_error_t> done;
    done.clear();
    const auto on_done = [](doca_dma_task_memcpy* task, doca_data, doca_data) {
        done.push_back(doca_task_get_status(doca_dma_task_memcpy_as_task(task)));
        doca_task_free(doca_dma_task_memcpy_as_task(task));
    };
    ASSERT_OK(doca_dma_task_memcpy_set_conf(dma, on_done, on_done, 4));
    ASSERT_OK(outlast([&] { return doca_pe_connect_ctx(engine.pe, ctx); }));
    ASSERT_OK(outlast([&] { return doca_ctx_start(ctx); }));
    doca_buf* const from = memory.data(0, 1024);
    doca_buf* const here = memory.room(1024, 1024);
    doca_buf* there = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(memory.inventory, imported,
                                                 memory.bytes.data() + 2048, 1024, &there));
    for (doca_buf* const to : {here, there}) {
        doca_dma_task_memcpy* task = nullptr;
        ASSERT_OK(doca_dma_task_memcpy_alloc_init(dma, from, to, doca_data{}, &task));
        doca_error_t result = DOCA_ERROR_AGAIN;
        ASSERT_TRUE(progress_until(
            [&] {
                result =
                    outlast([&] { return doca_task_submit(doca_dma_task_memcpy_as_task(task)); });
                return result != DOCA_ERROR_AGAIN;
            },
            engine));
        EXPECT_OK(result);
    }
    ASSERT_TRUE(progress_until([&] { return done.size() == 2; }, engine));
    EXPECT_EQ(done, (std::vector<doca_error_t>{DOCA_SUCCESS, DOCA_SUCCESS}));
    EXPECT_EQ(memory.bytes[1024], 'a');
    EXPECT_EQ(memory.bytes[2048], 'a');
    for (doca_buf* const buffer : {from, here, there}) {
        give_back(buffer);
    }
    ASSERT_OK(outlast([&] { return doca_ctx_stop(ctx); }));
    EXPECT_OK(doca_dma_destroy(dma));
    EXPECT_OK(doca_mmap_destroy(imported));
}

TEST(DocaNoMemory, MemoryCopies) {
    after_a_warm_up(memory_copies);
}

/// The same with the calls of 2023: maps that are populated, contexts with queues, jobs.
void jobs() {
    Lab lab;
    std::vector<char> bytes(4096, 'a');
    doca_mmap* mmap = nullptr;
    ASSERT_OK(outlast([&] { return doca_mmap_create(NULL, &mmap); }));
    ASSERT_OK(outlast([&] { return doca_mmap_start(mmap); }));
    ASSERT_OK(outlast(
        [&] { return doca_mmap_populate(mmap, bytes.data(), bytes.size(), 4096, NULL, NULL); }));
    ASSERT_OK(outlast([&] { return doca_mmap_dev_add(mmap, lab.dpu); })); // and to its range
    doca_buf_inventory* inventory = nullptr;
    ASSERT_OK(outlast([&] { return doca_buf_inventory_create(NULL, 2, 0, &inventory); }));
    ASSERT_OK(doca_buf_inventory_start(inventory));
    doca_dma* dma = nullptr;
    ASSERT_OK(outlast([&] { return doca_dma_create(&dma); }));
    doca_ctx* const ctx = doca_dma_as_ctx(dma);
    ASSERT_OK(outlast([&] { return doca_ctx_dev_add(ctx, lab.dpu); }));
    ASSERT_OK(outlast([&] { return doca_ctx_start(ctx); }));
    doca_workq* workq = nullptr;
    ASSERT_OK(outlast([&] { return doca_workq_create(4, &workq); }));
    ASSERT_OK(outlast([&] { return doca_ctx_workq_add(ctx, workq); }));
    std::uint32_t depth = 0;
    ASSERT_OK(outlast([&] {
        const doca_error_t result = doca_workq_set_depth(workq, 8);
        EXPECT_OK(doca_workq_get_depth(workq, &depth));
        EXPECT_EQ(depth, result == DOCA_SUCCESS ? 8u : 4u);
        return result;
    }));
    doca_dma_job_memcpy job{};
    job.base.type = DOCA_DMA_JOB_MEMCPY;
    job.base.ctx = ctx;
    doca_buf* from = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_by_data(inventory, mmap, bytes.data(), 1024, &from));
    ASSERT_OK(
        doca_buf_inventory_buf_by_addr(inventory, mmap, bytes.data() + 2048, 1024, &job.dst_buff));
    job.src_buff = from;
    std::fill(bytes.begin() + 2048, bytes.end(), '-');
    for (int i = 0; i < 8; ++i) {
        ASSERT_OK(outlast([&] { return doca_workq_submit(workq, &job.base); }));
    }
    ASSERT_EQ(doca_workq_submit(workq, &job.base), DOCA_ERROR_NO_MEMORY);
    for (int i = 0; i < 8; ++i) {
        doca_event event{};
        ASSERT_OK(outlast([&] { return doca_workq_progress_retrieve(workq, &event, 0); }));
    }
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 'a'), 3072);
    ASSERT_OK(outlast([&] { return doca_ctx_workq_rm(ctx, workq); }));
    ASSERT_OK(outlast([&] { return doca_ctx_stop(ctx); }));
    EXPECT_OK(doca_workq_destroy(workq));
    EXPECT_OK(doca_dma_destroy(dma));
    give_back(from);
    give_back(job.dst_buff);
    EXPECT_OK(doca_buf_inventory_destroy(inventory));
    EXPECT_OK(doca_mmap_destroy(mmap));
}

TEST(DocaNoMemory, JobsOfWorkQueues) {
    after_a_warm_up(jobs);
}

} // namespace
