// What programs get wrong on the fast path, and what they may change when: the documented error,
// and nothing else changed.
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;

TEST(DocaMisuse, AConsumersMemoryMapStaysWhileItReceives) {
    FastPath path;
    EXPECT_EQ(doca_mmap_stop(path.there.mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_destroy(path.there.mmap), DOCA_ERROR_NOT_PERMITTED);
    path.stop();
    // Idle, it uses nothing; but it does not start on what is gone, or may not be written any more.
    doca_mmap* const map = path.there.mmap;
    ASSERT_OK(doca_mmap_stop(map));
    EXPECT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_mmap_set_permissions(map, DOCA_ACCESS_FLAG_PCI_READ_ONLY));
    ASSERT_OK(doca_mmap_start(map));
    EXPECT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_BAD_STATE);
    Memory other(path.sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    std::swap(path.there.mmap, other.mmap);
    ASSERT_OK(doca_mmap_destroy(other.mmap));
    other.mmap = nullptr;
    ASSERT_OK(doca_mmap_create(&other.mmap)); // perhaps at the same address
    EXPECT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(state_of(path.consumer.ctx), idle);
}

TEST(DocaMisuse, ConsumersNeedMemoryThatTheOtherSideMayWrite) {
    TwoSides sides;
    doca_comch_consumer* consumer = nullptr;
    for (const std::uint32_t access :
         {std::uint32_t{DOCA_ACCESS_FLAG_LOCAL_READ_ONLY},
          std::uint32_t{DOCA_ACCESS_FLAG_LOCAL_READ_WRITE},
          std::uint32_t{DOCA_ACCESS_FLAG_RDMA_READ | DOCA_ACCESS_FLAG_RDMA_WRITE},
          std::uint32_t{DOCA_ACCESS_FLAG_PCI_READ_ONLY},
          std::uint32_t{DOCA_ACCESS_FLAG_PCI_READ_ONLY | DOCA_ACCESS_FLAG_LOCAL_READ_WRITE}}) {
        const Memory memory(sides.lab.dpu, 4096, access);
        EXPECT_EQ(doca_comch_consumer_create(sides.at_server, memory.mmap, &consumer),
                  DOCA_ERROR_NOT_PERMITTED)
            << access;
    }
    Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    const void* descriptor = nullptr;
    std::size_t length = 0;
    ASSERT_OK(doca_mmap_export_pci(memory.mmap, sides.lab.dpu, &descriptor, &length));
    doca_mmap* imported = nullptr;
    ASSERT_OK(doca_mmap_create_from_export(nullptr, descriptor, length, sides.lab.host, &imported));
    EXPECT_EQ(doca_comch_consumer_create(sides.at_server, imported, &consumer),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_OK(doca_mmap_destroy(imported));
    ASSERT_OK(doca_mmap_stop(memory.mmap));
    EXPECT_EQ(doca_comch_consumer_create(sides.at_server, memory.mmap, &consumer),
              DOCA_ERROR_NOT_PERMITTED);
}

TEST(DocaMisuse, AProducerSendsItsOwnMemoryOnly) {
    FastPath path;
    doca_buf* const place = path.there.room(0, 64);
    ASSERT_OK(path.consumer.post(place));
    // Imported: it is the other side's.
    Memory far(path.sides.lab.host, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    const void* descriptor = nullptr;
    std::size_t length = 0;
    ASSERT_OK(doca_mmap_export_pci(far.mmap, path.sides.lab.host, &descriptor, &length));
    doca_mmap* imported = nullptr;
    ASSERT_OK(
        doca_mmap_create_from_export(nullptr, descriptor, length, path.sides.lab.dpu, &imported));
    doca_buf* buffer = nullptr;
    ASSERT_OK(
        doca_buf_inventory_buf_get_by_data(far.inventory, imported, far.bytes.data(), 8, &buffer));
    EXPECT_EQ(path.producer.send(path.consumer.id(), buffer), DOCA_ERROR_INVALID_VALUE);
    give_back(buffer);
    EXPECT_EQ(path.producer.send(path.consumer.id(), buffer), DOCA_ERROR_INVALID_VALUE)
        << "given back";
    EXPECT_OK(doca_mmap_destroy(imported));
    // Any local map will do, of whatever permissions.
    doca_buf* const own = far.data(0, 8);
    EXPECT_OK(path.send(own));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_THAT(path.consumer.done, ElementsAre(DOCA_SUCCESS));
    give_back(own);
    doca_buf* const returned = path.there.room(64, 64);
    give_back(returned);
    EXPECT_EQ(path.consumer.post(returned), DOCA_ERROR_INVALID_VALUE) << "given back";
    give_back(place);
}

TEST(DocaMisuse, AClosedDeviceMakesNothing) {
    Lab lab;
    doca_dev* const closed = closed_device();
    auto* const closed_representor = reinterpret_cast<doca_dev_rep*>(closed);
    doca_comch_server* server = nullptr;
    EXPECT_EQ(doca_comch_server_create(closed, lab.representor, "s", &server),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_server_create(lab.dpu, closed_representor, "s", &server),
              DOCA_ERROR_INVALID_VALUE);
    doca_comch_client* client = nullptr;
    EXPECT_EQ(doca_comch_client_create(closed, "s", &client), DOCA_ERROR_INVALID_VALUE);
    doca_mmap* mmap = nullptr;
    ASSERT_OK(doca_mmap_create(&mmap));
    EXPECT_EQ(doca_mmap_add_dev(mmap, closed), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_mmap_destroy(mmap));
    doca_devinfo_rep** list = nullptr;
    std::uint32_t count = 0;
    EXPECT_EQ(doca_devinfo_rep_create_list(closed, DOCA_DEVINFO_REP_FILTER_NET, &list, &count),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_close(closed), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_rep_close(closed_representor), DOCA_ERROR_INVALID_VALUE);
}

TEST(DocaMisuse, ABufferThatIsGivenBackTooEarlyReceives) {
    FastPath path;
    const auto in_use = [&] {
        std::uint32_t all = 0;
        std::uint32_t free = 0;
        EXPECT_OK(doca_buf_inventory_get_num_elements(path.there.inventory, &all));
        EXPECT_OK(doca_buf_inventory_get_num_free_elements(path.there.inventory, &free));
        return all - free;
    };
    doca_buf* const to = path.there.room(0, 64);
    ASSERT_OK(path.consumer.post(to));
    give_back(to);
    EXPECT_EQ(in_use(), 1u) << "until the task is done";
    EXPECT_EQ(doca_buf_inventory_destroy(path.there.inventory), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_buf_dec_refcount(to, nullptr), DOCA_ERROR_BAD_STATE) << "once is enough";
    doca_buf* const from = path.here.data(0, 4);
    EXPECT_OK(path.send(from));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_EQ(std::string(path.there.bytes.begin(), path.there.bytes.begin() + 4), "abcd");
    EXPECT_EQ(in_use(), 0u);
    // What is refused holds nothing.
    doca_buf* const head = path.there.room(0, 64);
    doca_buf* const tail = path.there.room(64, 64);
    ASSERT_OK(doca_buf_chain_list(head, tail));
    EXPECT_EQ(path.consumer.post(head), DOCA_ERROR_INVALID_VALUE);
    give_back(head);
    EXPECT_EQ(in_use(), 0u);
    // Nor does what comes back because its consumer stops.
    doca_buf* const flushed = path.there.room(0, 64);
    ASSERT_OK(path.consumer.post(flushed));
    give_back(flushed);
    path.stop();
    EXPECT_THAT(path.consumer.done, ElementsAre(DOCA_SUCCESS, ::testing::Ne(DOCA_SUCCESS)));
    EXPECT_EQ(in_use(), 0u);
    give_back(from);
}

TEST(DocaMisuse, ABufferThatIsGivenBackTooEarlyIsSent) {
    FastPath path;
    const auto in_use = [&] {
        std::uint32_t all = 0;
        std::uint32_t free = 0;
        EXPECT_OK(doca_buf_inventory_get_num_elements(path.here.inventory, &all));
        EXPECT_OK(doca_buf_inventory_get_num_free_elements(path.here.inventory, &free));
        return all - free;
    };
    const auto send_and_give_back = [&](std::size_t size) {
        doca_buf* const from = path.here.data(0, size);
        ASSERT_OK(path.send(from));
        give_back(from);
        EXPECT_EQ(in_use(), 1u) << "until the task is done";
        EXPECT_EQ(doca_buf_inventory_destroy(path.here.inventory), DOCA_ERROR_IN_USE);
        EXPECT_EQ(doca_mmap_destroy(path.here.mmap), DOCA_ERROR_NOT_PERMITTED);
    };
    // The first ones wait until a place for them is known.
    doca_buf* const place = path.there.room(0, 1 << 20);
    send_and_give_back(4);
    ASSERT_OK(path.consumer.post(place));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_EQ(data_of(place), "abcd");
    EXPECT_EQ(in_use(), 0u);
    // Later ones are under way at once, and long ones for long.
    for (const std::size_t size : {2048, 4096, 1 << 20}) {
        SCOPED_TRACE(size);
        const std::size_t before = path.producer.done.size();
        ASSERT_OK(doca_buf_reset_data_len(place));
        ASSERT_OK(path.consumer.post(place));
        send_and_give_back(size);
        ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == before + 1; }));
        EXPECT_EQ(data_of(place).size(), size);
        EXPECT_EQ(in_use(), 0u);
    }
    EXPECT_EQ(path.there.bytes, path.here.bytes);
    give_back(place);
    // A short one behind a long one is not on its way yet.
    doca_buf* const places[] = {path.there.room(0, 1 << 19), path.there.room(1 << 19, 64)};
    for (doca_buf* each : places) {
        ASSERT_OK(path.consumer.post(each));
    }
    path.producer.done.clear();
    doca_buf* const froms[] = {path.here.data(0, 1 << 19), path.here.data(8, 4)};
    ASSERT_OK(path.send(froms[0]));
    doca_error_t second = DOCA_ERROR_AGAIN;
    while (second == DOCA_ERROR_AGAIN && path.producer.done.empty()) { // its place is not known yet
        (void)doca_pe_progress(path.sides.server_engine.pe);
        second = path.producer.send(path.consumer.id(), froms[1]);
    }
    ASSERT_OK(second);
    for (doca_buf* each : froms) {
        give_back(each);
    }
    EXPECT_EQ(in_use(), 2u);
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 2; }));
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(data_of(places[1]), "ijkl");
    for (doca_buf* each : places) {
        give_back(each);
    }
    // One that waits while its producer stops.
    path.stop();
    ASSERT_OK(doca_ctx_start(path.producer.ctx));
    ASSERT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] {
        return state_of(path.consumer.ctx) == running &&
               path.sides.client.consumers.back() == path.consumer.id();
    }));
    send_and_give_back(4);
    path.stop();
    EXPECT_THAT(path.producer.done,
                ElementsAre(DOCA_SUCCESS, DOCA_SUCCESS, ::testing::Ne(DOCA_SUCCESS)));
    EXPECT_EQ(in_use(), 0u);
}

TEST(DocaMisuse, DataThatIsMovedInAPostedBufferStaysInsideIt) {
    FastPath path;
    doca_buf* const to = path.there.room(0, 64);
    ASSERT_OK(path.consumer.post(to));
    EXPECT_EQ(doca_buf_inventory_buf_reuse_by_addr(to, path.there.bytes.data(), 8),
              DOCA_ERROR_NOT_PERMITTED);
    ASSERT_OK(doca_buf_set_data(to, path.there.bytes.data() + 2, 60));
    doca_buf* const from = path.here.data(0, 8);
    ASSERT_OK(path.send(from));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_EQ(std::string(path.there.bytes.begin(), path.there.bytes.begin() + 8), "abcdefgh")
        << "where its data ended when it was posted";
    EXPECT_EQ(data_of(to).size(), 62u) << "to the buffer's end";
    EXPECT_OK(doca_buf_inventory_buf_reuse_by_addr(to, path.there.bytes.data(), 8));
    give_back(to);
    give_back(from);
}

TEST(DocaMisuse, ConsumersThatAreNotThereAreNotFound) {
    FastPath path;
    Memory mine(path.sides.lab.host, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty own(path.sides.client.connection(), path.sides.client_engine, mine.mmap);
    ASSERT_EQ(doca_ctx_start(own.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(own.ctx) == running; }));
    EXPECT_EQ(path.producer.send(0, nullptr, "x"), DOCA_ERROR_NOT_FOUND) << "never a number";
    EXPECT_EQ(path.producer.send(own.id(), nullptr, "x"), DOCA_ERROR_NOT_FOUND)
        << "the producer's own side's";
    EXPECT_EQ(path.producer.send(own.id() + path.consumer.id(), nullptr, "x"),
              DOCA_ERROR_NOT_FOUND);
    EXPECT_OK(doca_ctx_stop(own.ctx));
    ASSERT_TRUE(path.sides.until([&] { return state_of(own.ctx) == idle; }));
}

TEST(DocaMisuse, ASubmittedTaskIsTheLibrarys) {
    FastPath path;
    const std::uint32_t id = path.consumer.id();
    std::uint8_t immediate[] = {'a', 'b'};
    doca_comch_producer_task_send* task = nullptr;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(path.producer.producer, nullptr, immediate,
                                                       1, 1000, &task));
    doca_buf* const from = path.here.data(0, 4);
    doca_comch_producer_task_send_set_buf(task, from);
    doca_comch_producer_task_send_set_consumer_id(task, id);
    doca_comch_producer_task_send_set_imm_data(task, immediate, 2);
    EXPECT_EQ(doca_comch_producer_task_send_get_buf(task), from);
    EXPECT_EQ(doca_comch_producer_task_send_get_consumer_id(task), id);
    EXPECT_EQ(doca_comch_producer_task_send_get_imm_data(task), immediate);
    EXPECT_EQ(doca_comch_producer_task_send_get_imm_data_len(task), 2u);
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    ASSERT_OK(doca_task_submit(base)); // the first one waits for a buffer
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_BAD_STATE);
    doca_comch_producer_task_send_set_buf(task, nullptr);
    doca_comch_producer_task_send_set_consumer_id(task, 1000);
    doca_comch_producer_task_send_set_imm_data(task, nullptr, 0);

    doca_buf* const to = path.there.room(0, 64);
    doca_comch_consumer_task_post_recv* post = nullptr;
    ASSERT_OK(path.consumer.post(to, &post));
    doca_comch_consumer_task_post_recv_set_buf(post, nullptr);
    doca_task* const posted = doca_comch_consumer_task_post_recv_as_task(post);
    EXPECT_EQ(doca_task_submit(posted), DOCA_ERROR_BAD_STATE);
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_EQ(data_of(to), "abcd");
    EXPECT_THAT(path.consumer.immediates, ElementsAre("ab"));
    // Their callbacks freed them: again does no harm, and they are not submitted any more.
    for (doca_task* const freed : {base, posted}) {
        doca_task_free(freed);
        EXPECT_EQ(doca_task_submit(freed), DOCA_ERROR_BAD_STATE);
    }
    std::vector<doca_comch_consumer_task_post_recv*> all(16);
    for (doca_comch_consumer_task_post_recv*& one : all) {
        ASSERT_OK(
            doca_comch_consumer_task_post_recv_alloc_init(path.consumer.consumer, nullptr, &one));
    }
    doca_comch_consumer_task_post_recv* more = nullptr;
    EXPECT_EQ(doca_comch_consumer_task_post_recv_alloc_init(path.consumer.consumer, nullptr, &more),
              DOCA_ERROR_NO_MEMORY)
        << "a task freed twice is not there twice";
    for (doca_comch_consumer_task_post_recv* const one : all) {
        doca_task_free(doca_comch_consumer_task_post_recv_as_task(one));
    }
    give_back(from);
    give_back(to);
}

TEST(DocaMisuse, ImmediateDataIsCheckedWhenItIsSubmitted) {
    FastPath path;
    ASSERT_OK(path.consumer.post(nullptr));
    std::array<std::uint8_t, 64> bytes{};
    doca_comch_producer_task_send* task = nullptr;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(
        path.producer.producer, nullptr, bytes.data(), 32, path.consumer.id(), &task));
    doca_comch_producer_task_send_set_imm_data(task, bytes.data(), 33);
    EXPECT_EQ(doca_task_submit(doca_comch_producer_task_send_as_task(task)),
              DOCA_ERROR_INVALID_VALUE);
    doca_comch_producer_task_send_set_imm_data(task, bytes.data(), 32);
    EXPECT_OK(doca_task_submit(doca_comch_producer_task_send_as_task(task)));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_EQ(path.consumer.immediates[0].size(), 32u);
}

TEST(DocaMisuse, ATaskWithNothingToSendIsRefusedWhenItIsSubmitted) {
    FastPath path;
    ASSERT_OK(path.consumer.post(nullptr));
    std::array<std::uint8_t, 8> bytes{};
    doca_comch_producer_task_send* task = nullptr;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(path.producer.producer, nullptr,
                                                       bytes.data(), 8, path.consumer.id(), &task));
    doca_comch_producer_task_send_set_imm_data(task, nullptr, 0);
    EXPECT_EQ(doca_task_submit(doca_comch_producer_task_send_as_task(task)),
              DOCA_ERROR_INVALID_VALUE);
    doca_comch_producer_task_send_set_imm_data(task, bytes.data(), 8);
    EXPECT_OK(doca_task_submit(doca_comch_producer_task_send_as_task(task)));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 1; }));
    EXPECT_EQ(path.consumer.immediates[0].size(), 8u);
}

TEST(DocaMisuse, WhatWaitsBehindAnotherSendIsCheckedWhenItIsSubmitted) {
    FastPath path;
    const std::uint32_t id = path.consumer.id();
    ASSERT_OK(path.producer.send(id, nullptr, "first"));
    std::uint32_t free = 0;
    doca_buf* const returned = path.here.data(0, 4);
    give_back(returned);
    EXPECT_EQ(path.producer.send(id, returned), DOCA_ERROR_INVALID_VALUE);
    std::uint8_t byte = 0;
    doca_comch_producer_task_send* task = nullptr;
    ASSERT_OK(doca_comch_producer_task_send_alloc_init(path.producer.producer, nullptr, &byte, 1,
                                                       id, &task));
    doca_comch_producer_task_send_set_imm_data(task, nullptr, 0);
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    EXPECT_EQ(doca_task_submit(base), DOCA_ERROR_INVALID_VALUE) << "nothing to send";
    doca_task_free(base);
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    path.stop();
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_OK(doca_buf_inventory_get_num_free_elements(path.here.inventory, &free));
    EXPECT_EQ(free, 64u);
}

TEST(DocaMisuse, NothingStartsOnAConnectionThatHasEnded) {
    TwoSides sides;
    Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty consumer(sides.at_server, sides.server_engine, memory.mmap);
    ProducerParty producer(sides.at_server, sides.server_engine);
    ProducerParty other(sides.client.connection(), sides.client_engine);
    ASSERT_OK(doca_comch_server_disconnect(sides.server.server, sides.at_server));
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    for (doca_ctx* const ctx : {consumer.ctx, producer.ctx, other.ctx}) {
        EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_NOT_CONNECTED);
        EXPECT_EQ(state_of(ctx), idle);
    }
    doca_comch_consumer* late = nullptr;
    EXPECT_EQ(doca_comch_consumer_create(sides.at_server, memory.mmap, &late),
              DOCA_ERROR_BAD_STATE);
    // A new connection of the same two is another one.
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
    EXPECT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_NOT_CONNECTED);
}

TEST(DocaMisuse, TheFastPathNeedsTheEventsOfConsumers) {
    Lab lab;
    Engine engine;
    ServerParty server(lab, engine, "deaf");
    doca_comch_client* client = nullptr;
    ASSERT_OK(doca_comch_client_create(lab.host, "deaf", &client));
    doca_ctx* const ctx = doca_comch_client_as_ctx(client);
    Party party;
    party.watch(ctx);
    ASSERT_OK(doca_comch_client_task_send_set_conf(client, Party::sent, Party::sent, 1));
    ASSERT_OK(doca_comch_client_event_msg_recv_register(client, Party::message));
    ASSERT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    ASSERT_OK(doca_ctx_start(server.ctx));
    ASSERT_EQ(doca_ctx_start(ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(progress_until([&] { return state_of(ctx) == running; }, engine));
    doca_comch_connection* connection = nullptr;
    ASSERT_OK(doca_comch_client_get_connection(client, &connection));
    const Memory memory(lab.host, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    doca_comch_producer* producer = nullptr;
    doca_comch_consumer* consumer = nullptr;
    EXPECT_EQ(doca_comch_producer_create(connection, &producer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_consumer_create(connection, memory.mmap, &consumer), DOCA_ERROR_BAD_STATE);
    for (doca_ctx* const one : {ctx, server.ctx}) {
        EXPECT_EQ(doca_ctx_stop(one), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(progress_until([&] { return state_of(one) == idle; }, engine));
    }
    EXPECT_OK(doca_comch_client_destroy(client));
}

TEST(DocaMisuse, ProducersAndConsumersDoNotStartWithoutTheirTasks) {
    TwoSides sides;
    const Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    doca_comch_producer* producer = nullptr;
    doca_comch_consumer* consumer = nullptr;
    ASSERT_OK(doca_comch_producer_create(sides.at_server, &producer));
    ASSERT_OK(doca_comch_consumer_create(sides.at_server, memory.mmap, &consumer));
    for (doca_ctx* const ctx :
         {doca_comch_producer_as_ctx(producer), doca_comch_consumer_as_ctx(consumer)}) {
        EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_NOT_CONNECTED) << "no engine";
        ASSERT_OK(doca_pe_connect_ctx(sides.server_engine.pe, ctx));
        EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(doca_ctx_set_datapath_on_dpa(ctx, reinterpret_cast<doca_dpa*>(&sides)),
                  DOCA_ERROR_NOT_SUPPORTED)
            << "on a connection, the CPU's data path is the only one";
    }
    const doca_devinfo* const info = doca_dev_as_devinfo(sides.lab.dpu);
    std::uint32_t most = 0;
    ASSERT_OK(doca_comch_producer_cap_get_max_num_tasks(info, &most));
    const auto sent = ProducerParty::sent;
    EXPECT_EQ(doca_comch_producer_task_send_set_conf(producer, sent, sent, 0),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_producer_task_send_set_conf(producer, sent, sent, most + 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_producer_task_send_set_conf(producer, sent, nullptr, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_producer_task_send_set_conf(producer, sent, sent, most));
    ASSERT_OK(doca_comch_consumer_cap_get_max_num_tasks(info, &most));
    const auto received = ConsumerParty::received;
    EXPECT_EQ(doca_comch_consumer_task_post_recv_set_conf(consumer, received, received, 0),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_consumer_task_post_recv_set_conf(consumer, received, received, most + 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comch_consumer_task_post_recv_set_conf(consumer, nullptr, received, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_consumer_task_post_recv_set_conf(consumer, received, received, most));
    EXPECT_EQ(doca_comch_consumer_set_imm_data_len(consumer, 33), DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_comch_producer_destroy(producer));
    EXPECT_OK(doca_comch_consumer_destroy(consumer));
}

} // namespace
