// Producers and consumers on a connection, through the C API.
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>

#include <gmock/gmock.h>
#include <poll.h>

#include "doca_comch/comch/fast_path_support.hpp"

namespace {

using namespace comch::doca::test;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(DocaFastPath, DataIsAppendedBehindData) {
    FastPath path;
    EXPECT_THAT(path.sides.client.consumers, ElementsAre(path.consumer.id()));
    doca_buf* const to = path.there.room(0, 100);
    ASSERT_OK(doca_buf_set_data(to, path.there.bytes.data() + 10, 3));
    std::memcpy(path.there.bytes.data() + 10, "xyz", 3);
    ASSERT_OK(path.consumer.post(to));
    doca_buf* const from = path.here.room(0, 50);
    ASSERT_OK(doca_buf_set_data(from, path.here.bytes.data() + 2, 5)); // only this is sent
    ASSERT_OK(path.send(from));
    ASSERT_TRUE(path.sides.until([&] { return !path.producer.done.empty(); }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_THAT(path.consumer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_EQ(data_of(to), "xyzcdefg");
    EXPECT_EQ(data_of(from), "cdefg");
    std::uint32_t id = 0;
    EXPECT_OK(doca_comch_producer_get_id(path.producer.producer, &id));
    EXPECT_THAT(path.consumer.producers, ElementsAre(id));
    give_back(to);
    give_back(from);
}

TEST(DocaFastPath, ImmediateDataWithAndWithoutABuffer) {
    FastPath path;
    doca_buf* const to = path.there.room(0, 100);
    ASSERT_OK(path.consumer.post(to));
    ASSERT_OK(path.consumer.post(nullptr)); // for immediate data only
    doca_buf* const from = path.here.data(0, 4);
    ASSERT_OK(path.send(from, "imm"));
    ASSERT_OK(path.send(nullptr, std::string(32, 'i')));
    ASSERT_TRUE(path.sides.until([&] { return path.consumer.done.size() == 2; }));
    EXPECT_THAT(path.consumer.immediates, ElementsAre("imm", std::string(32, 'i')));
    EXPECT_EQ(data_of(to), "abcd");
    EXPECT_EQ(path.producer.send(path.consumer.id(), nullptr, std::string(33, 'i')),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(path.producer.send(path.consumer.id(), nullptr), DOCA_ERROR_INVALID_VALUE);
    give_back(to);
    give_back(from);
}

TEST(DocaFastPath, OneBufferInManyTasksArrivesInOrder) {
    FastPath path;
    constexpr std::size_t count = 16;
    std::vector<doca_buf*> places;
    for (std::size_t i = 0; i < count; ++i) {
        places.push_back(path.there.room(i * 64, 64));
        ASSERT_OK(path.consumer.post(places.back()));
    }
    EXPECT_EQ(path.consumer.post(nullptr), DOCA_ERROR_NO_MEMORY); // all tasks are in use
    doca_buf* const from = path.here.data(0, 8);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_OK(path.send(from, std::string(1, static_cast<char>('A' + i))));
    }
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == count; }));
    EXPECT_THAT(path.producer.done, Each(DOCA_SUCCESS));
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(path.consumer.immediates[i], std::string(1, static_cast<char>('A' + i)));
        EXPECT_EQ(data_of(places[i]), "abcdefgh");
        give_back(places[i]);
    }
    give_back(from);
}

TEST(DocaFastPath, WhatIsSubmittedWithoutAFlushGoesOutWithOne) {
    FastPath path;
    doca_pe* const pe = path.sides.client_engine.pe;
    doca_buf* const from = path.here.data(0, 4096);
    const auto submit = [&](std::uint32_t flags) {
        doca_error_t result = DOCA_ERROR_AGAIN; // while it is not known that buffers are posted
        ASSERT_TRUE(path.sides.until([&] {
            result = path.producer.send(path.consumer.id(), from, {}, flags);
            return result != DOCA_ERROR_AGAIN;
        }));
        ASSERT_OK(result);
    };
    const std::function<void()> flushes[] = {
        [&] { doca_ctx_flush_tasks(path.producer.ctx); },
        [&] { submit(DOCA_TASK_SUBMIT_FLAG_FLUSH); },
        [&] { (void)doca_pe_progress(pe); },
        [&] { (void)doca_pe_request_notification(pe); },
    };
    std::deque<doca_buf*> places;
    const auto post = [&] {
        places.push_back(path.there.room(0, 4096));
        ASSERT_OK(path.consumer.post(places.back()));
    };
    post();
    ASSERT_OK(path.send(from)); // from now on nothing waits for the consumer's buffers to be known
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    for (const auto& flush : flushes) {
        const std::size_t before = path.consumer.done.size();
        for (int i = 0; i < 4; ++i) {
            post();
        }
        for (int i = 0; i < 3; ++i) {
            submit(i % 2 == 0 ? DOCA_TASK_SUBMIT_FLAG_NONE
                              : DOCA_TASK_SUBMIT_FLAG_OPTIMIZE_REPORTS);
        }
        if (comch::test::test_description()) { // there are RDMA devices
            for (int i = 0; i < 1'000; ++i) {
                (void)doca_pe_progress(path.sides.server_engine.pe);
            }
            EXPECT_LT(path.consumer.done.size(), before + 3) << "the last one should wait";
        }
        flush();
        ASSERT_TRUE(progress_until([&] { return path.consumer.done.size() >= before + 3; },
                                   path.sides.server_engine)); // without the producer's progress
    }
    ASSERT_TRUE(
        path.sides.until([&] { return path.producer.done.size() == path.consumer.done.size(); }));
    EXPECT_THAT(path.producer.done, Each(DOCA_SUCCESS));
    EXPECT_EQ(doca_task_submit_ex(nullptr, DOCA_TASK_SUBMIT_FLAG_NONE), DOCA_ERROR_INVALID_VALUE);
    doca_ctx_flush_tasks(nullptr);
    path.stop();
    for (doca_buf* place : places) {
        give_back(place);
    }
    give_back(from);
}

TEST(DocaFastPath, TheFirstSendsWaitForABufferAndLaterOnesSayAgain) {
    FastPath path;
    doca_buf* const from = path.here.data(0, 8);
    // A loop that submits until it is not told AGAIN, without progress, must not hang.
    EXPECT_OK(path.producer.send(path.consumer.id(), from));
    EXPECT_OK(path.producer.send(path.consumer.id(), from));
    EXPECT_OK(doca_ctx_stop(path.consumer.ctx)); // it never posts
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 2; }));
    EXPECT_THAT(path.producer.done, Each(DOCA_ERROR_NOT_FOUND));
    EXPECT_EQ(path.producer.send(1000, from), DOCA_ERROR_NOT_FOUND);
    give_back(from);
}

TEST(DocaFastPath, ThenSubmitSaysAgainWithoutAPostedBuffer) {
    FastPath path;
    doca_buf* const from = path.here.data(0, 8);
    doca_buf* const to = path.there.room(0, 64);
    EXPECT_OK(path.producer.send(path.consumer.id(), from));
    ASSERT_OK(path.consumer.post(to));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_SUCCESS));
    EXPECT_EQ(path.producer.send(path.consumer.id(), from), DOCA_ERROR_AGAIN);
    give_back(to);
    give_back(from);
}

TEST(DocaFastPath, StoppingAProducerFlushesWhatWaits) {
    FastPath path;
    doca_buf* const from = path.here.data(0, 8);
    EXPECT_OK(path.producer.send(path.consumer.id(), from));
    EXPECT_EQ(doca_ctx_stop(path.producer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(path.producer.ctx) == idle; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_ERROR_SHUTDOWN));
    give_back(from);
}

TEST(DocaFastPath, ALongerMessageIsRefusedAndTheBufferStays) {
    FastPath path;
    doca_buf* const to = path.there.room(0, 16);
    ASSERT_OK(path.consumer.post(to));
    doca_buf* const longer = path.here.data(0, 17);
    doca_buf* const fits = path.here.data(0, 16);
    ASSERT_OK(path.send(longer)); // the first waits until the buffer is known: its status tells
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    EXPECT_THAT(path.producer.done, ElementsAre(DOCA_ERROR_INVALID_VALUE));
    ASSERT_OK(path.send(fits));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 2; }));
    EXPECT_EQ(data_of(to), "abcdefghijklmnop");
    ASSERT_OK(doca_buf_reset_data_len(to));
    ASSERT_OK(path.consumer.post(to));
    EXPECT_EQ(path.send(longer), DOCA_ERROR_INVALID_VALUE); // known when it is submitted
    EXPECT_EQ(data_of(longer).size(), 17u);
    EXPECT_EQ(data_of(to), "");
    give_back(to);
    give_back(longer);
    give_back(fits);
}

TEST(DocaFastPath, LargeMessages) {
    FastPath path;
    doca_buf* const to = path.there.room(0, 1 << 20);
    ASSERT_OK(path.consumer.post(to));
    doca_buf* const from = path.here.data(0, 1 << 20);
    ASSERT_OK(path.send(from));
    ASSERT_TRUE(path.sides.until([&] { return !path.producer.done.empty(); }));
    EXPECT_EQ(path.there.bytes, path.here.bytes);
    give_back(to);
    give_back(from);
}

TEST(DocaFastPath, SeveralMessagesOfManyMegabytesAreUnderWayAtOnce) {
    FastPath path(std::size_t{60} << 20);
    fill_unevenly(path.here.bytes);
    std::uint32_t most = 0;
    ASSERT_OK(
        doca_comch_producer_cap_get_max_buf_size(doca_dev_as_devinfo(path.sides.lab.host), &most));
    const std::size_t mega = 1 << 20;
    const std::size_t sizes[] = {8 * mega, 32 * mega + 13, 1, mega + 1, 3, 16 * mega - 7, 4096};
    ASSERT_LE(32 * mega + 13, most);
    // The second time the buffers are known when they are sent to.
    for (int round = 0; round < 2; ++round) {
        std::vector<doca_buf*> from;
        std::vector<doca_buf*> to;
        std::vector<char> expected(path.there.bytes.size(), '-');
        path.there.bytes = expected;
        std::size_t source = 5;
        std::size_t place = 3;
        for (const std::size_t size : sizes) {
            from.push_back(path.here.data(source, size));
            to.push_back(path.there.room(place, size));
            std::memcpy(expected.data() + place, path.here.bytes.data() + source, size);
            source += size + 11;
            place += size + 2; // nothing is to be written between them
            ASSERT_OK(path.consumer.post(to.back()));
        }
        path.producer.done.clear();
        for (doca_buf* const buffer : from) {
            ASSERT_OK(path.send(buffer));
        }
        ASSERT_TRUE(path.sides.until([&] {
            return path.producer.done.size() == std::size(sizes) &&
                   path.consumer.done.size() ==
                       std::size(sizes) * static_cast<std::size_t>(round + 1);
        }));
        EXPECT_THAT(path.producer.done, Each(DOCA_SUCCESS));
        EXPECT_THAT(path.consumer.done, Each(DOCA_SUCCESS));
        EXPECT_TRUE(expected == path.there.bytes);
        for (std::size_t i = 0; i < std::size(sizes); ++i) {
            std::size_t length = 0;
            EXPECT_OK(doca_buf_get_data_len(to[i], &length));
            EXPECT_EQ(length, sizes[i]);
            give_back(to[i]);
            give_back(from[i]);
        }
    }
}

TEST(DocaFastPath, UnfitBuffersAreRefused) {
    FastPath path;
    Memory foreign(path.sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    Memory unshared(path.sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE);
    doca_comch_consumer* consumer = nullptr;
    EXPECT_EQ(doca_comch_consumer_create(path.sides.at_server, unshared.mmap, &consumer),
              DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_comch_consumer_create(path.sides.at_server, nullptr, &consumer),
              DOCA_ERROR_INVALID_VALUE);
    doca_buf* const other = foreign.room(0, 64);
    EXPECT_EQ(path.consumer.post(other), DOCA_ERROR_INVALID_VALUE);
    doca_buf* const head = path.there.room(0, 64);
    doca_buf* const tail = path.there.room(64, 64);
    ASSERT_OK(doca_buf_chain_list(head, tail));
    EXPECT_EQ(path.consumer.post(head), DOCA_ERROR_INVALID_VALUE);
    give_back(head); // with its list
    doca_buf* const first = path.here.data(0, 8);
    doca_buf* const second = path.here.data(8, 8);
    ASSERT_OK(doca_buf_chain_list(first, second));
    EXPECT_EQ(path.producer.send(path.consumer.id(), first), DOCA_ERROR_INVALID_VALUE);
    give_back(first);
    give_back(other);
}

TEST(DocaFastPath, StoppingAConsumerFlushesItsBuffers) {
    FastPath path;
    doca_buf* const to = path.there.room(0, 64);
    doca_comch_consumer_task_post_recv* freed = nullptr;
    ASSERT_OK(path.consumer.post(to));
    ASSERT_OK(path.consumer.post(to, &freed));
    doca_task_free(doca_comch_consumer_task_post_recv_as_task(freed)); // and then wait for idle
    EXPECT_EQ(doca_ctx_stop(path.consumer.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return state_of(path.consumer.ctx) == idle; }));
    EXPECT_THAT(path.consumer.done, ElementsAre(DOCA_ERROR_SHUTDOWN));
    EXPECT_EQ(data_of(to), "");
    ASSERT_TRUE(path.sides.until([&] { return !path.sides.client.expired.empty(); }));
    doca_buf* const from = path.here.data(0, 8);
    EXPECT_EQ(path.producer.send(path.sides.client.consumers[0], from), DOCA_ERROR_NOT_FOUND);
    give_back(to);
    give_back(from);
}

TEST(DocaFastPath, TeardownOrderIsEnforced) {
    FastPath path;
    EXPECT_EQ(doca_ctx_stop(path.sides.server.ctx), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_ctx_stop(path.sides.client.ctx), DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_comch_server_disconnect(path.sides.server.server, path.sides.at_server),
              DOCA_ERROR_IN_USE);
    EXPECT_EQ(doca_comch_consumer_destroy(path.consumer.consumer), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comch_producer_destroy(path.producer.producer), DOCA_ERROR_BAD_STATE);
    doca_buf* const buffer = path.there.room(0, 64);
    EXPECT_EQ(doca_mmap_destroy(path.there.mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_mmap_stop(path.there.mmap), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_EQ(doca_buf_inventory_destroy(path.there.inventory), DOCA_ERROR_IN_USE);
    give_back(buffer);
    path.stop();
    EXPECT_OK(doca_comch_server_disconnect(path.sides.server.server, path.sides.at_server));
}

TEST(DocaFastPath, ConsumerIdsAreUniqueOverBothSides) {
    FastPath path;
    Memory mine(path.sides.lab.host, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty other(path.sides.client.connection(), path.sides.client_engine, mine.mmap);
    const std::uint32_t id = other.id();
    EXPECT_EQ(doca_ctx_start(other.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(path.sides.until([&] { return !path.sides.server.consumers.empty(); }));
    EXPECT_EQ(other.id(), id) << "it has one from the beginning";
    EXPECT_NE(other.id(), path.consumer.id());
    EXPECT_NE(other.id(), 0u);
    EXPECT_THAT(path.sides.server.consumers, ElementsAre(other.id()));
    EXPECT_OK(doca_ctx_stop(other.ctx));
    ASSERT_TRUE(path.sides.until([&] { return state_of(other.ctx) == idle; }));
    EXPECT_NE(other.id(), id) << "the other end takes the next start for another consumer's";
}

TEST(DocaFastPath, ConsumersNeedTheirConnectionsProgress) {
    FastPath path;
    Engine own;
    ConsumerParty other(path.sides.at_server, own, path.there.mmap);
    EXPECT_EQ(doca_ctx_start(other.ctx), DOCA_ERROR_IN_PROGRESS);
    for (int i = 0; i < 1000; ++i) {
        (void)doca_pe_progress(own.pe);
    }
    EXPECT_EQ(state_of(other.ctx), DOCA_CTX_STATE_STARTING);
    EXPECT_EQ(other.post(nullptr), DOCA_ERROR_BAD_STATE);
    ASSERT_TRUE(progress_until([&] { return state_of(other.ctx) == running; }, own,
                               path.sides.server_engine));
    EXPECT_OK(doca_ctx_stop(other.ctx));
    ASSERT_TRUE(progress_until([&] { return state_of(other.ctx) == idle; }, own));
}

TEST(DocaFastPath, LosingThePeerFlushesAndEndsIdle) {
    auto path = std::make_unique<FastPath>();
    TwoSides& sides = path->sides;
    Memory mine(sides.lab.host, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
    ConsumerParty waiting(sides.client.connection(), sides.client_engine, mine.mmap);
    EXPECT_EQ(doca_ctx_start(waiting.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(waiting.ctx) == running; }));
    doca_buf* const room = mine.room(0, 64);
    ASSERT_OK(waiting.post(room));
    // The server goes: its own consumer first, then itself; the client's are still active.
    EXPECT_OK(doca_ctx_stop(path->consumer.ctx));
    ASSERT_TRUE(sides.until([&] { return state_of(path->consumer.ctx) == idle; }));
    EXPECT_EQ(doca_ctx_stop(sides.server.ctx), DOCA_ERROR_IN_PROGRESS);
    ASSERT_TRUE(sides.until([&] { return state_of(sides.client.ctx) == idle; }));
    EXPECT_EQ(state_of(waiting.ctx), idle);
    EXPECT_EQ(state_of(path->producer.ctx), idle);
    EXPECT_THAT(waiting.done, ElementsAre(DOCA_ERROR_NOT_CONNECTED));
    give_back(room);
}

TEST(DocaFastPath, SleepingOnTheHandleEndsWithEvents) {
    FastPath path;
    doca_pe* const pe = path.sides.server_engine.pe;
    doca_notification_handle_t handle = 0;
    ASSERT_OK(doca_pe_get_notification_handle(pe, &handle));
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(path.consumer.post(nullptr));
    }
    ASSERT_OK(path.send(nullptr, "one"));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    const auto sleep = [&] {
        pollfd fd{.fd = handle, .events = POLLIN, .revents = 0};
        return poll(&fd, 1, 30'000);
    };
    const auto drain = [&] {
        while (doca_pe_progress(pe) != 0) {
        }
        ASSERT_OK(doca_pe_request_notification(pe));
    };
    // Asleep before the message is sent.
    drain();
    ASSERT_OK(path.producer.send(path.consumer.id(), nullptr, "two"));
    while (path.consumer.done.size() < 2) {
        ASSERT_EQ(sleep(), 1);
        ASSERT_OK(doca_pe_clear_notification(pe, 0)); // any handle will do
        drain();
    }
    // Asked for after it was sent.
    ASSERT_OK(path.producer.send(path.consumer.id(), nullptr, "three"));
    ASSERT_OK(doca_pe_request_notification(pe));
    EXPECT_EQ(sleep(), 1);
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 3; }));
}

TEST(DocaFastPath, ARefusedSendTakesNoEventAway) {
    FastPath path;
    const Engine& engine = path.sides.client_engine;
    const auto send = [&] { return path.producer.send(path.consumer.id(), nullptr, "x"); };
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_OK(path.send(nullptr, "first"));
    ASSERT_TRUE(path.sides.until([&] { return path.producer.done.size() == 1; }));
    ASSERT_OK(path.consumer.post(nullptr));
    ASSERT_TRUE(path.sides.until([&] { return send() == DOCA_SUCCESS; }));
    engine.fall_asleep();
    // The consumer takes it, and says so. (Over RDMA it may be complete already.)
    ASSERT_TRUE(progress_until(
        [&] {
            return path.consumer.done.size() == 2 &&
                   (path.producer.done.size() == 2 || engine.readable());
        },
        path.sides.server_engine));
    EXPECT_EQ(send(), DOCA_ERROR_AGAIN) << "nothing is posted, and the look at it sees the event";
    while (path.producer.done.size() < 2) {
        ASSERT_TRUE(engine.wakes());
        engine.fall_asleep();
    }
}

TEST(DocaFastPath, ProducersAndConsumersOnThreadsOfTheirOwn) {
    TwoSides sides;
    constexpr int threads = 2;
    constexpr int messages = 2000;
    std::atomic<int> finished = 0;
    std::array<std::atomic<std::uint32_t>, threads> ids{};
    doca_comch_connection* const at_client = sides.client.connection();
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
        all.emplace_back([&, t] { // a consumer of the DPU
            Engine engine;
            Memory memory(sides.lab.dpu, 4096, DOCA_ACCESS_FLAG_PCI_READ_WRITE);
            ConsumerParty consumer(sides.at_server, engine, memory.mmap);
            EXPECT_EQ(doca_ctx_start(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
            EXPECT_TRUE(progress_until([&] { return state_of(consumer.ctx) == running; }, engine));
            std::vector<doca_buf*> buffers;
            bool done = false;
            consumer.on_done = [&](doca_comch_consumer_task_post_recv* task) {
                doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
                if (done) {
                    doca_task_free(base);
                    return;
                }
                EXPECT_OK(
                    doca_buf_reset_data_len(doca_comch_consumer_task_post_recv_get_buf(task)));
                EXPECT_OK(doca_task_submit(base));
            };
            for (std::size_t i = 0; i < 8; ++i) {
                buffers.push_back(memory.room(i * 64, 64));
                EXPECT_OK(consumer.post(buffers.back()));
            }
            ids[static_cast<std::size_t>(t)] = consumer.id();
            EXPECT_TRUE(progress_until(
                [&] { return consumer.done.size() >= static_cast<std::size_t>(messages); },
                engine));
            done = true;
            EXPECT_EQ(doca_ctx_stop(consumer.ctx), DOCA_ERROR_IN_PROGRESS);
            EXPECT_TRUE(progress_until([&] { return state_of(consumer.ctx) == idle; }, engine));
            for (doca_buf* buffer : buffers) {
                give_back(buffer);
            }
            ++finished;
        });
        all.emplace_back([&, t] { // a producer of the host
            Engine engine;
            Memory memory(sides.lab.host, 4096, DOCA_ACCESS_FLAG_LOCAL_READ_ONLY);
            ProducerParty producer(at_client, engine);
            EXPECT_OK(doca_ctx_start(producer.ctx));
            doca_buf* const buffer = memory.data(0, 8);
            for (int sent = 0; sent < messages;) {
                const std::uint32_t id = ids[static_cast<std::size_t>(t)];
                const doca_error_t result = id == 0 ? DOCA_ERROR_AGAIN : producer.send(id, buffer);
                sent += result == DOCA_SUCCESS ? 1 : 0;
                if (result != DOCA_SUCCESS && doca_pe_progress(engine.pe) == 0) {
                    std::this_thread::yield();
                }
            }
            EXPECT_TRUE(progress_until(
                [&] { return producer.done.size() == static_cast<std::size_t>(messages); },
                engine));
            EXPECT_OK(doca_ctx_stop(producer.ctx));
            EXPECT_TRUE(progress_until([&] { return state_of(producer.ctx) == idle; }, engine));
            give_back(buffer);
            ++finished;
        });
    }
    EXPECT_TRUE(sides.until([&] { return finished == 2 * threads; }));
    for (std::thread& thread : all) {
        thread.join();
    }
}

} // namespace
