// Producers and consumers: several on a connection, their callbacks, and how they end.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(DocaFastPath, SeveralProducersAndConsumersOnAConnection) {
    FastPath path;
    TwoSides& sides = path.sides;
    ConsumerParty second(sides.at_server, sides.server_engine, path.there.mmap);
    ProducerParty other(sides.client.connection(), sides.client_engine);
    ASSERT_EQ(doca_ctx_start(second.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(doca_ctx_start(other.ctx));
    ASSERT_TRUE(sides.until(
        [&] { return state_of(second.ctx) == running && sides.client.consumers.size() == 2; }));
    EXPECT_THAT(sides.client.consumers, UnorderedElementsAre(path.consumer.id(), second.id()));
    std::uint32_t first_id = 0;
    std::uint32_t other_id = 0;
    EXPECT_OK(doca_comch_producer_get_id(path.producer.producer, &first_id));
    EXPECT_OK(doca_comch_producer_get_id(other.producer, &other_id));
    EXPECT_NE(first_id, other_id);
    for (const ConsumerParty* const consumer : {&path.consumer, &second}) {
        ASSERT_OK(consumer->post(nullptr));
        ASSERT_OK(consumer->post(nullptr));
    }
    // Each of the two to each of the two.
    EXPECT_OK(path.producer.send(path.consumer.id(), nullptr, "1 to 1"));
    EXPECT_OK(path.producer.send(second.id(), nullptr, "1 to 2"));
    ASSERT_TRUE(sides.until([&] { return path.producer.done.size() == 2; }));
    EXPECT_OK(other.send(path.consumer.id(), nullptr, "2 to 1"));
    EXPECT_OK(other.send(second.id(), nullptr, "2 to 2"));
    ASSERT_TRUE(sides.until([&] { return other.done.size() == 2; }));
    EXPECT_THAT(path.consumer.immediates, ElementsAre("1 to 1", "2 to 1"));
    EXPECT_THAT(second.immediates, ElementsAre("1 to 2", "2 to 2"));
    EXPECT_THAT(path.consumer.producers, ElementsAre(first_id, other_id));
    EXPECT_THAT(second.producers, ElementsAre(first_id, other_id));
    for (doca_ctx* const ctx : {second.ctx, other.ctx}) {
        EXPECT_OK(doca_ctx_stop(ctx));
        ASSERT_TRUE(sides.until([&] { return state_of(ctx) == idle; }));
    }
    EXPECT_EQ(state_of(path.consumer.ctx), running);
    EXPECT_EQ(state_of(path.producer.ctx), running);
}

TEST(DocaFastPath, AConsumerWithoutBuffersKeepsSendsToNoOtherWaiting) {
    FastPath path;
    TwoSides& sides = path.sides;
    ConsumerParty second(sides.at_server, sides.server_engine, path.there.mmap);
    ASSERT_EQ(doca_ctx_start(second.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until(
        [&] { return state_of(second.ctx) == running && sides.client.consumers.size() == 2; }));
    ASSERT_OK(path.producer.send(second.id(), nullptr, "a"));
    ASSERT_OK(path.producer.send(second.id(), nullptr, "b"));
    EXPECT_EQ(path.producer.send(0, nullptr, "x"), DOCA_ERROR_NOT_FOUND);
    EXPECT_EQ(path.producer.send(1000, nullptr, "x"), DOCA_ERROR_NOT_FOUND);
    // One that waits as well, behind those.
    ASSERT_OK(path.producer.send(path.consumer.id(), nullptr, "c"));
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_TRUE(sides.until([&] { return path.producer.done.size() == 1; }));
    // One that need not.
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_OK(path.send(nullptr, "d"));
    ASSERT_TRUE(sides.until([&] { return path.producer.done.size() == 2; }));
    EXPECT_THAT(path.consumer.immediates, ElementsAre("c", "d"));
    EXPECT_TRUE(second.immediates.empty());
    // And each consumer's own come in order.
    ASSERT_OK(path.producer.send(second.id(), nullptr, "e"));
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(second.post(nullptr));
    }
    ASSERT_TRUE(sides.until([&] { return path.producer.done.size() == 5; }));
    EXPECT_THAT(second.immediates, ElementsAre("a", "b", "e"));
    EXPECT_OK(doca_ctx_stop(second.ctx));
    ASSERT_TRUE(sides.until([&] { return state_of(second.ctx) == idle; }));
}

TEST(DocaFastPath, ASendCompletesWithoutProgressOfTheConnection) {
    TwoSides sides;
    Engine consuming;
    Engine producing;
    Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty consumer(sides.at_server, consuming, memory.mmap);
    ProducerParty producer(sides.client.connection(), producing);
    const auto with_the_connection = [&](auto&& condition) {
        return progress_until(condition, consuming, producing, sides.server_engine,
                              sides.client_engine);
    };
    ASSERT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(doca_ctx_start(producer.ctx));
    ASSERT_TRUE(with_the_connection(
        [&] { return state_of(consumer.ctx) == running && !sides.client.consumers.empty(); }));
    ASSERT_OK(consumer.post(nullptr));
    ASSERT_OK(producer.send(consumer.id(), nullptr, "the first finds the way"));
    ASSERT_TRUE(with_the_connection([&] { return producer.done.size() == 1; }));
    ASSERT_OK(consumer.post(nullptr));
    ASSERT_TRUE(
        progress_until([&] { return producer.send(consumer.id(), nullptr, "x") == DOCA_SUCCESS; },
                       producing, consuming));
    ASSERT_TRUE(progress_until([&] { return producer.done.size() == 2; }, producing, consuming));
    EXPECT_THAT(producer.done, ElementsAre(DOCA_SUCCESS, DOCA_SUCCESS));
    for (doca_ctx* const ctx : {producer.ctx, consumer.ctx}) {
        EXPECT_OK(doca_ctx_stop(ctx));
        ASSERT_TRUE(with_the_connection([&] { return state_of(ctx) == idle; }));
    }
}

TEST(DocaFastPath, TheFirstSendCompletesOnTheProducersEngineAlone) {
    TwoSides sides;
    Engine consuming;
    Engine producing;
    Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty consumer(sides.at_server, consuming, memory.mmap);
    ProducerParty producer(sides.client.connection(), producing);
    ASSERT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(doca_ctx_start(producer.ctx));
    ASSERT_TRUE(progress_until(
        [&] { return state_of(consumer.ctx) == running && !sides.client.consumers.empty(); },
        consuming, producing, sides.server_engine, sides.client_engine));
    // From here on the client's own engine rests: what its connection hears is not heard.
    ASSERT_OK(producer.send(consumer.id(), nullptr, "before there is a buffer"));
    ASSERT_OK(consumer.post(nullptr));
    ASSERT_TRUE(progress_until([&] { return producer.done.size() == 1; }, consuming, producing,
                               sides.server_engine));
    EXPECT_THAT(producer.done, ElementsAre(DOCA_SUCCESS));
    for (doca_ctx* const ctx : {producer.ctx, consumer.ctx}) {
        EXPECT_OK(doca_ctx_stop(ctx));
        ASSERT_TRUE(progress_until([&] { return state_of(ctx) == idle; }, consuming, producing,
                                   sides.server_engine, sides.client_engine));
    }
}

TEST(DocaFastPath, OneSendTaskIsEnoughForRequestsAndAnswers) {
    TwoSides sides;
    Memory here(sides.lab.host, 64, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Memory there(sides.lab.dpu, 64, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty answers_in(sides.client.connection(), sides.client_engine, here.mmap);
    ConsumerParty requests_in(sides.at_server, sides.server_engine, there.mmap);
    ProducerParty requests(sides.client.connection(), sides.client_engine, 1);
    ProducerParty answers(sides.at_server, sides.server_engine, 1);
    for (const ConsumerParty* const consumer : {&answers_in, &requests_in}) {
        ASSERT_EQ(doca_ctx_start(consumer->ctx), DOCA_ERROR_IN_PROGRESS);
    }
    for (const ProducerParty* const producer : {&requests, &answers}) {
        ASSERT_OK(doca_ctx_start(producer->ctx));
    }
    ASSERT_TRUE(sides.until([&] {
        return state_of(answers_in.ctx) == running && state_of(requests_in.ctx) == running &&
               sides.client.consumers.size() == 1 && sides.server.consumers.size() == 1;
    }));
    for (const ConsumerParty* const consumer : {&answers_in, &requests_in}) {
        for (int i = 0; i < 4; ++i) {
            ASSERT_OK(consumer->post(nullptr));
        }
    }
    const auto take = [](const ConsumerParty& consumer, auto* task) {
        doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
        EXPECT_OK(consumer.post(nullptr));
    };
    constexpr std::size_t rounds = 100;
    requests_in.on_done = [&](auto* task) {
        if (requests_in.done.back() == DOCA_SUCCESS) {
            take(requests_in, task);
            EXPECT_OK(answers.send(answers_in.id(), nullptr, "answer"));
        }
    };
    answers_in.on_done = [&](auto* task) {
        if (answers_in.done.back() == DOCA_SUCCESS) {
            take(answers_in, task);
            if (answers_in.done.size() < rounds) {
                EXPECT_OK(requests.send(requests_in.id(), nullptr, "request"));
            }
        }
    };
    ASSERT_OK(requests.send(requests_in.id(), nullptr, "request"));
    ASSERT_EQ(requests.send(requests_in.id(), nullptr, "and no more"), DOCA_ERROR_NO_MEMORY);
    ASSERT_TRUE(sides.until([&] {
        return answers_in.done.size() == rounds && requests.done.size() == rounds &&
               answers.done.size() == rounds;
    }));
    answers_in.on_done = requests_in.on_done = nullptr;
    for (doca_ctx* const ctx : {requests.ctx, answers.ctx}) {
        EXPECT_OK(doca_ctx_stop(ctx));
    }
    for (doca_ctx* const ctx : {answers_in.ctx, requests_in.ctx}) { // with buffers posted
        EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
        ASSERT_TRUE(sides.until([&] { return state_of(ctx) == idle; }));
    }
}

TEST(DocaFastPath, AClientThatLeavesEndsTheServersProducersAndConsumers) {
    TwoSides sides;
    Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty consumer(sides.at_server, sides.server_engine, memory.mmap);
    ProducerParty producer(sides.at_server, sides.server_engine);
    ASSERT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(doca_ctx_start(producer.ctx));
    ASSERT_TRUE(sides.until(
        [&] { return state_of(consumer.ctx) == running && !sides.client.consumers.empty(); }));
    doca_buf* const room = memory.room(0, 64);
    ASSERT_OK(consumer.post(room));
    EXPECT_EQ(doca_ctx_stop(sides.client.ctx), DOCA_ERROR_IN_PROGRESS) << "nothing of its own";
    ASSERT_TRUE(sides.until([&] {
        return state_of(sides.client.ctx) == idle && state_of(consumer.ctx) == idle &&
               state_of(producer.ctx) == idle && !sides.server.disconnected.empty();
    }));
    EXPECT_THAT(consumer.done, ElementsAre(DOCA_ERROR_NOT_CONNECTED));
    EXPECT_EQ(data_of(room), "");
    give_back(room);
    // The server goes on, for the next one.
    EXPECT_EQ(state_of(sides.server.ctx), running);
    ASSERT_EQ(doca_ctx_start(sides.client.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == running; }));
}

TEST(DocaFastPath, ContextsStopInsideTheirCompletionCallbacks) {
    FastPath path;
    path.consumer.on_done = [&](doca_comch_consumer_task_post_recv* task) {
        doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
        if (path.consumer.done.size() == 1) {
            EXPECT_EQ(doca_ctx_stop(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
        }
    };
    path.producer.on_done = [&] {
        if (path.producer.done.size() == 1) {
            EXPECT_OK(doca_ctx_stop(path.producer.ctx));
        }
    };
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_OK(path.send(nullptr, "last"));
    ASSERT_TRUE(path.sides.until([&] {
        return state_of(path.producer.ctx) == idle && state_of(path.consumer.ctx) == idle;
    }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_THAT(path.consumer.done, ElementsAre(DOCA_SUCCESS, DOCA_ERROR_SHUTDOWN));
}

/// The callbacks that tasks ended in, with their status and user data.
struct Ending {
    std::string callback;
    doca_error_t status = DOCA_SUCCESS;
    std::uint64_t user_data = 0;
    friend bool operator==(const Ending&, const Ending&) = default;
};
std::vector<Ending> endings;

template <bool success> void sent(doca_comch_producer_task_send* task, doca_data data, doca_data) {
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    endings.push_back({success ? "sent" : "send failed", doca_task_get_status(base), data.u64});
    doca_task_free(base);
}
template <bool success>
void received(doca_comch_consumer_task_post_recv* task, doca_data data, doca_data) {
    doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
    endings.push_back(
        {success ? "received" : "receive failed", doca_task_get_status(base), data.u64});
    doca_task_free(base);
}

TEST(DocaFastPath, TasksEndInTheCallbackForTheirOutcomeWithTheirUserData) {
    endings.clear();
    FastPath path;
    path.stop();
    ASSERT_OK(
        doca_comch_producer_task_send_set_conf(path.producer.producer, sent<true>, sent<false>, 4));
    ASSERT_OK(doca_comch_consumer_task_post_recv_set_conf(path.consumer.consumer, received<true>,
                                                          received<false>, 4));
    ASSERT_EQ(doca_ctx_start(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_OK(doca_ctx_start(path.producer.ctx));
    ASSERT_TRUE(path.sides.until([&] {
        return state_of(path.consumer.ctx) == running && path.sides.client.consumers.size() == 2;
    }));
    const std::uint32_t id = path.consumer.id();
    EXPECT_NE(path.sides.client.consumers[0], id) << "started again it is another consumer";
    doca_data data{};
    for (data.u64 = 1; data.u64 <= 2; ++data.u64) {
        doca_comch_consumer_task_post_recv* post = nullptr;
        ASSERT_OK(
            doca_comch_consumer_task_post_recv_alloc_init(path.consumer.consumer, nullptr, &post));
        doca_task* const base = doca_comch_consumer_task_post_recv_as_task(post);
        doca_task_set_user_data(base, data);
        ASSERT_OK(doca_task_submit(base));
    }
    static std::uint8_t immediate = 'i';
    doca_buf* const longer = path.here.data(0, 8); // than the posted buffer, which there is none of
    for (const auto& [buffer, user_data] :
         {std::pair<doca_buf*, std::uint64_t>{nullptr, 11}, {longer, 12}}) {
        doca_comch_producer_task_send* send = nullptr;
        ASSERT_OK(doca_comch_producer_task_send_alloc_init(path.producer.producer, buffer,
                                                           &immediate, 1, id, &send));
        data.u64 = user_data;
        doca_task* const base = doca_comch_producer_task_send_as_task(send);
        doca_task_set_user_data(base, data);
        ASSERT_OK(doca_task_submit(base)); // both wait for the way to the consumer
    }
    ASSERT_TRUE(path.sides.until([&] { return endings.size() == 3; }));
    EXPECT_EQ(doca_ctx_stop(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(path.consumer.ctx) == idle; }));
    EXPECT_THAT(endings, UnorderedElementsAre(Ending{"received", DOCA_SUCCESS, 1},
                                              Ending{"sent", DOCA_SUCCESS, 11},
                                              Ending{"send failed", DOCA_ERROR_INVALID_VALUE, 12},
                                              Ending{"receive failed", DOCA_ERROR_SHUTDOWN, 2}));
    give_back(longer);
}

TEST(DocaFastPath, BuffersAboveTheDevicesLimitAreRefused) {
    FastPath path;
    std::uint32_t most = 0;
    ASSERT_OK(
        doca_comch_consumer_cap_get_max_buf_size(doca_dev_as_devinfo(path.sides.lab.dpu), &most));
    const std::size_t size = std::size_t{most} + 4096;
    void* const range = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(range, MAP_FAILED);
    doca_mmap* map = nullptr;
    ASSERT_OK(doca_mmap_create(&map));
    ASSERT_OK(doca_mmap_set_memrange(map, range, size));
    ASSERT_OK(doca_mmap_set_permissions(map, DOCA_ACCESS_FLAG_PCI_READ_WRITE));
    ASSERT_OK(doca_mmap_add_dev(map, path.sides.lab.dpu));
    ASSERT_OK(doca_mmap_start(map));
    ConsumerParty consumer(path.sides.at_server, path.sides.server_engine, map);
    ASSERT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(consumer.ctx) == running; }));
    doca_buf* buffer = nullptr;
    ASSERT_OK(doca_buf_inventory_buf_get_by_addr(path.there.inventory, map, range,
                                                 std::size_t{most} + 1, &buffer));
    EXPECT_EQ(consumer.post(buffer), DOCA_ERROR_INVALID_VALUE);
    ASSERT_OK(doca_buf_set_data_len(buffer, std::size_t{most} + 1));
    EXPECT_EQ(path.producer.send(path.consumer.id(), buffer), DOCA_ERROR_TOO_BIG);
    // As much as the limit is too long only for what was posted. (The first send finds that out.)
    std::uint32_t most_sent = 0;
    ASSERT_OK(doca_comch_producer_cap_get_max_buf_size(doca_dev_as_devinfo(path.sides.lab.host),
                                                       &most_sent));
    EXPECT_EQ(most_sent, most);
    ASSERT_OK(doca_buf_set_data_len(buffer, most));
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_OK(path.send(buffer));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_ERROR_INVALID_VALUE));
    ASSERT_OK(doca_buf_inventory_buf_reuse_by_addr(buffer, range, most));
    EXPECT_OK(consumer.post(buffer));
    EXPECT_EQ(doca_ctx_stop(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(consumer.ctx) == idle; }));
    give_back(buffer);
    EXPECT_OK(doca_mmap_destroy(map));
    munmap(range, size);
}

TEST(DocaFastPath, MemoryMapsOutliveTheirDevices) {
    Lab lab;
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_create_list(&list, &count));
    doca_dev* device = nullptr;
    for (std::uint32_t i = 0; i < count && device == nullptr; ++i) {
        doca_dev* opened = nullptr;
        ASSERT_OK(doca_dev_open(list[i], &opened));
        if (opened == lab.dpu || opened == lab.host) {
            ASSERT_OK(doca_dev_close(opened));
        } else {
            device = opened;
        }
    }
    ASSERT_OK(doca_devinfo_destroy_list(list));
    ASSERT_NE(device, nullptr);
    {
        Memory memory(device, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
        doca_buf* const buffer = memory.data(0, 8);
        ASSERT_OK(doca_dev_close(device));
        const void* descriptor = nullptr;
        std::size_t length = 0;
        EXPECT_EQ(doca_mmap_export_pci(memory.mmap, device, &descriptor, &length),
                  DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(data_of(buffer).size(), 8u);
        doca_buf* const after = memory.room(64, 64);
        give_back(after);
        give_back(buffer);
    } // its map is stopped and destroyed here
}

} // namespace
