// The tasks of sync events: of one's own, and of one that another exported.
#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doca_comch/sync_event/test_support.hpp"

namespace {

using namespace comch::doca::test;

/// A task as its callback saw it.
struct Ended {
    std::uint64_t id;
    doca_error_t status;
    bool success; ///< which of the callbacks
    bool operator==(const Ended&) const = default;
};

/// An event with an engine and tasks of each kind.
struct Worker {
    static constexpr std::uint32_t tasks = 4;

    Engine engine;
    doca_sync_event* event;
    doca_ctx* ctx;
    std::vector<Ended> ended;
    std::function<void(doca_task*)> on_end = doca_task_free;

    explicit Worker(doca_sync_event* of) : event(of), ctx(doca_sync_event_as_ctx(of)) {
        EXPECT_OK(doca_ctx_set_user_data(ctx, doca_data{.ptr = this}));
        EXPECT_OK(doca_sync_event_task_get_set_conf(
            event, on<doca_sync_event_task_get_as_doca_task, true>,
            on<doca_sync_event_task_get_as_doca_task, false>, tasks));
        EXPECT_OK(doca_sync_event_task_notify_set_set_conf(
            event, on<doca_sync_event_task_notify_set_as_doca_task, true>,
            on<doca_sync_event_task_notify_set_as_doca_task, false>, tasks));
        EXPECT_OK(doca_sync_event_task_notify_add_set_conf(
            event, on<doca_sync_event_task_notify_add_as_doca_task, true>,
            on<doca_sync_event_task_notify_add_as_doca_task, false>, tasks));
        EXPECT_OK(doca_sync_event_task_wait_eq_set_conf(
            event, on<doca_sync_event_task_wait_eq_as_doca_task, true>,
            on<doca_sync_event_task_wait_eq_as_doca_task, false>, tasks));
        EXPECT_OK(doca_sync_event_task_wait_neq_set_conf(
            event, on<doca_sync_event_task_wait_neq_as_doca_task, true>,
            on<doca_sync_event_task_wait_neq_as_doca_task, false>, tasks));
        EXPECT_EQ(doca_ctx_start(ctx), DOCA_ERROR_NOT_CONNECTED);
        EXPECT_OK(doca_pe_connect_ctx(engine.pe, ctx));
    }
    ~Worker() {
        if (event != nullptr) {
            stop();
            EXPECT_OK(doca_sync_event_destroy(event));
        }
    }
    void start() { ASSERT_OK(doca_ctx_start(ctx)); }
    void stop() {
        if (state_of(ctx) != DOCA_CTX_STATE_IDLE) {
            (void)doca_ctx_stop(ctx);
            EXPECT_TRUE(until([&] { return state_of(ctx) == DOCA_CTX_STATE_IDLE; }));
        }
    }

    template <auto as_task, bool success, class Task>
    static void on(Task* typed, doca_data task_data, doca_data ctx_data) {
        auto& self = *static_cast<Worker*>(ctx_data.ptr);
        doca_task* const task = as_task(typed);
        self.ended.push_back({task_data.u64, doca_task_get_status(task), success});
        self.on_end(task);
    }

    doca_task* get(std::uint64_t* value, std::uint64_t id = 0) {
        doca_sync_event_task_get* task = nullptr;
        EXPECT_OK(doca_sync_event_task_get_alloc_init(event, value, {.u64 = id}, &task));
        return doca_sync_event_task_get_as_doca_task(task);
    }
    doca_task* set(std::uint64_t value, std::uint64_t id = 0) {
        doca_sync_event_task_notify_set* task = nullptr;
        EXPECT_OK(doca_sync_event_task_notify_set_alloc_init(event, value, {.u64 = id}, &task));
        return doca_sync_event_task_notify_set_as_doca_task(task);
    }
    doca_task* add(std::uint64_t value, std::uint64_t* before, std::uint64_t id = 0) {
        doca_sync_event_task_notify_add* task = nullptr;
        EXPECT_OK(
            doca_sync_event_task_notify_add_alloc_init(event, value, before, {.u64 = id}, &task));
        return doca_sync_event_task_notify_add_as_doca_task(task);
    }
    doca_task* wait_eq(std::uint64_t value, std::uint64_t mask = all, std::uint64_t id = 0) {
        doca_sync_event_task_wait_eq* task = nullptr;
        EXPECT_OK(doca_sync_event_task_wait_eq_alloc_init(event, value, mask, {.u64 = id}, &task));
        return doca_sync_event_task_wait_eq_as_doca_task(task);
    }
    doca_task* wait_neq(std::uint64_t value, std::uint64_t mask = all, std::uint64_t id = 0) {
        doca_sync_event_task_wait_neq* task = nullptr;
        EXPECT_OK(doca_sync_event_task_wait_neq_alloc_init(event, value, mask, {.u64 = id}, &task));
        return doca_sync_event_task_wait_neq_as_doca_task(task);
    }
    template <class Condition> [[nodiscard]] bool until(Condition&& condition) {
        return progress_until(std::forward<Condition>(condition), engine);
    }
    [[nodiscard]] bool end(std::size_t count) {
        return until([&] { return ended.size() >= count; });
    }
    /// So often that what waits has been looked at, whatever is on the way.
    void look() {
        std::uint64_t value = 0;
        for (int i = 0; i < 3; ++i) {
            const std::size_t before = ended.size();
            EXPECT_OK(doca_task_submit(get(&value, 1000)));
            EXPECT_TRUE(until([&] {
                return std::any_of(ended.begin() + static_cast<std::ptrdiff_t>(before), ended.end(),
                                   [](const Ended& task) { return task.id == 1000; });
            }));
        }
        std::erase_if(ended, [](const Ended& task) { return task.id == 1000; });
    }
};

enum class Which { own, imported };

/// Tasks of an event, which another thread may update through its owner's handle.
struct DocaSyncEventTasks : testing::TestWithParam<Which> {
    Lab lab;
    std::optional<Event> owner; ///< of the one that is imported
    std::optional<Worker> worker;

    void SetUp() override {
        doca_sync_event* event = nullptr;
        ASSERT_OK(doca_sync_event_create(&event));
        EXPECT_OK(doca_sync_event_add_publisher_location_remote_pci(event));
        EXPECT_OK(doca_sync_event_add_subscriber_location_cpu(event, lab.host));
        if (GetParam() == Which::imported) {
            owner.emplace(event);
            ASSERT_OK(doca_sync_event_start(event));
            const std::uint8_t* bytes = nullptr;
            std::size_t size = 0;
            ASSERT_OK(doca_sync_event_export_to_remote_pci(event, lab.host, &bytes, &size));
            ASSERT_OK(doca_sync_event_create_from_export(lab.dpu, bytes, size, &event));
        }
        worker.emplace(event);
        worker->start();
    }
    void TearDown() override {
        worker.reset();
        owner.reset();
    }
    /// As any thread may.
    void update(std::uint64_t value) {
        EXPECT_OK(doca_sync_event_update_set(owner ? owner->event : worker->event, value));
    }
};

INSTANTIATE_TEST_SUITE_P(Events, DocaSyncEventTasks, testing::Values(Which::own, Which::imported),
                         [](const auto& which) {
                             return which.param == Which::own ? "Own" : "Imported";
                         });

TEST_P(DocaSyncEventTasks, EachDoesItsWork) {
    std::uint64_t value = 1;
    std::uint64_t before = 1;
    ASSERT_OK(doca_task_submit(worker->set(40, 1)));
    EXPECT_TRUE(worker->ended.empty()) << "it is reported by progress";
    ASSERT_TRUE(worker->end(1));
    ASSERT_OK(doca_task_submit(worker->add(2, &before, 2)));
    ASSERT_TRUE(worker->end(2));
    EXPECT_EQ(before, 40u);
    ASSERT_OK(doca_task_submit(worker->get(&value, 3)));
    ASSERT_TRUE(worker->end(3));
    EXPECT_EQ(value, 42u);
    ASSERT_OK(doca_task_submit(worker->wait_eq(42, all, 4)));
    ASSERT_OK(doca_task_submit(worker->wait_neq(2, 0xf, 5)));
    ASSERT_TRUE(worker->end(5));
    std::sort(worker->ended.begin(), worker->ended.end(),
              [](const Ended& a, const Ended& b) { return a.id < b.id; });
    for (std::uint64_t id = 1; id <= 5; ++id) {
        EXPECT_EQ(worker->ended[id - 1], (Ended{id, DOCA_SUCCESS, true}));
    }
}

TEST_P(DocaSyncEventTasks, AreUsedAgainWithOtherValues) {
    worker->on_end = [](doca_task*) {};
    doca_sync_event* const event = worker->event;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    doca_sync_event_task_get* get = nullptr;
    ASSERT_OK(doca_sync_event_task_get_alloc_init(event, &first, {}, &get));
    EXPECT_EQ(doca_sync_event_task_get_get_ret_val_ptr(get), &first);
    doca_sync_event_task_notify_set* set = nullptr;
    ASSERT_OK(doca_sync_event_task_notify_set_alloc_init(event, 3, {}, &set));
    EXPECT_EQ(doca_sync_event_task_notify_set_get_set_val(set), 3u);
    doca_sync_event_task_notify_add* add = nullptr;
    ASSERT_OK(doca_sync_event_task_notify_add_alloc_init(event, 4, &first, {}, &add));
    EXPECT_EQ(doca_sync_event_task_notify_add_get_inc_val(add), 4u);
    EXPECT_EQ(doca_sync_event_task_notify_add_get_fetched_val_ptr(add), &first);
    doca_sync_event_task_wait_eq* eq = nullptr;
    ASSERT_OK(doca_sync_event_task_wait_eq_alloc_init(event, 5, 0xff, {}, &eq));
    EXPECT_EQ(doca_sync_event_task_wait_eq_get_wait_val(eq), 5u);
    EXPECT_EQ(doca_sync_event_task_wait_eq_get_mask(eq), 0xffu);
    doca_sync_event_task_wait_neq* neq = nullptr;
    ASSERT_OK(doca_sync_event_task_wait_neq_alloc_init(event, 6, 0xff00, {}, &neq));
    EXPECT_EQ(doca_sync_event_task_wait_neq_get_wait_val(neq), 6u);
    EXPECT_EQ(doca_sync_event_task_wait_neq_get_mask(neq), 0xff00u);

    doca_task* const tasks[] = {doca_sync_event_task_notify_set_as_doca_task(set),
                                doca_sync_event_task_notify_add_as_doca_task(add),
                                doca_sync_event_task_get_as_doca_task(get),
                                doca_sync_event_task_wait_eq_as_doca_task(eq),
                                doca_sync_event_task_wait_neq_as_doca_task(neq)};
    doca_sync_event_task_get_set_ret_val_ptr(get, &second);
    doca_sync_event_task_notify_set_set_set_val(set, 100);
    doca_sync_event_task_notify_add_set_inc_val(add, 11);
    doca_sync_event_task_notify_add_set_fetched_val_ptr(add, &first);
    doca_sync_event_task_wait_eq_set_wait_val(eq, 0x6f);
    doca_sync_event_task_wait_eq_set_mask(eq, 0xff);
    doca_sync_event_task_wait_neq_set_wait_val(neq, 0x6e);
    doca_sync_event_task_wait_neq_set_mask(neq, all);
    for (std::size_t round = 1; round <= 3; ++round) {
        for (doca_task* const task : tasks) {
            const std::size_t so_far = worker->ended.size();
            ASSERT_OK(doca_task_submit(task));
            ASSERT_TRUE(worker->end(so_far + 1));
            EXPECT_OK(doca_task_get_status(task));
        }
        EXPECT_EQ(first, 100u);
        EXPECT_EQ(second, 111u);
        first = second = 0;
    }
    for (doca_task* const task : tasks) {
        doca_task_free(task);
    }
}

TEST_P(DocaSyncEventTasks, WaitUntilAnotherThreadSetsTheValue) {
    ASSERT_OK(doca_task_submit(worker->wait_eq(5, 0xff, 1)));
    ASSERT_OK(doca_task_submit(worker->wait_neq(0, all, 2)));
    ASSERT_OK(doca_task_submit(worker->wait_eq(0x7777, all, 3)));
    worker->look();
    EXPECT_TRUE(worker->ended.empty());
    std::thread([&] { update(0x1ff); }).join();
    ASSERT_TRUE(worker->end(1));
    worker->look();
    EXPECT_EQ(worker->ended, (std::vector<Ended>{{2, DOCA_SUCCESS, true}}));
    std::thread([&] { update(0x105); }).join();
    ASSERT_TRUE(worker->end(2));
    worker->look();
    EXPECT_EQ(worker->ended,
              (std::vector<Ended>{{2, DOCA_SUCCESS, true}, {1, DOCA_SUCCESS, true}}));
    // And while progress is being made.
    std::thread publisher([&] { update(0x7777); });
    EXPECT_TRUE(worker->end(3));
    publisher.join();
}

TEST_P(DocaSyncEventTasks, DoNotEndByAnOlderValue) {
    ASSERT_OK(doca_task_submit(worker->wait_eq(99, all, 1)));
    (void)doca_pe_progress(worker->engine.pe); // looks, at 0
    EXPECT_OK(doca_sync_event_update_set(worker->event, 5));
    ASSERT_OK(doca_task_submit(worker->wait_neq(5, all, 2)));
    worker->look();
    EXPECT_TRUE(worker->ended.empty());
    update(99);
    EXPECT_TRUE(worker->end(2));
}

TEST_P(DocaSyncEventTasks, AreAsManyAsConfigured) {
    std::uint64_t before[Worker::tasks] = {};
    std::vector<doca_task*> adds;
    for (std::uint64_t i = 0; i < Worker::tasks; ++i) {
        adds.push_back(worker->add(1, &before[i], i));
        ASSERT_OK(doca_task_submit(worker->wait_eq(i + 1, all, 10 + i)));
    }
    doca_sync_event_task_notify_add* add = nullptr;
    EXPECT_EQ(doca_sync_event_task_notify_add_alloc_init(worker->event, 1, before, {}, &add),
              DOCA_ERROR_NO_MEMORY);
    doca_sync_event_task_wait_eq* eq = nullptr;
    EXPECT_EQ(doca_sync_event_task_wait_eq_alloc_init(worker->event, 1, 1, {}, &eq),
              DOCA_ERROR_NO_MEMORY);
    doca_task_free(worker->wait_neq(0)); // others are there
    std::size_t inflight = 0;
    EXPECT_OK(doca_ctx_get_num_inflight_tasks(worker->ctx, &inflight));
    EXPECT_EQ(inflight, Worker::tasks);
    for (std::uint64_t i = 0; i < Worker::tasks; ++i) {
        ASSERT_OK(doca_task_submit(adds[i]));
        ASSERT_TRUE(worker->end(2 * i + 2));
        EXPECT_EQ(before[i], i);
        EXPECT_EQ(worker->ended[2 * i].id, i);
        EXPECT_EQ(worker->ended[2 * i + 1].id, 10 + i);
    }
    doca_task_free(worker->add(1, before)); // they were given back
    doca_task_free(worker->wait_eq(1));
}

TEST_P(DocaSyncEventTasks, ThatWaitLetTheProgramSleep) {
    doca_pe* const pe = worker->engine.pe;
    doca_notification_handle_t handle = 0;
    ASSERT_OK(doca_pe_get_notification_handle(pe, &handle));
    ASSERT_OK(doca_task_submit(worker->wait_eq(1)));
    const auto sleep = [&] {
        while (doca_pe_progress(pe) != 0) {
        }
        if (!worker->ended.empty()) {
            return; // nothing would wake it
        }
        ASSERT_OK(doca_pe_request_notification(pe));
        pollfd fd{.fd = handle, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&fd, 1, 100'000), 1);
    };
    for (int i = 0; i < 5; ++i) {
        sleep(); // what comes with the first look
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 40; ++i) {
        sleep();
    }
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(10));
    EXPECT_TRUE(worker->ended.empty());
    std::thread publisher([&] { update(1); });
    while (worker->ended.empty()) {
        sleep();
        (void)doca_pe_progress(pe);
    }
    publisher.join();
    // Nothing waits: nothing wakes.
    while (doca_pe_progress(pe) != 0) {
    }
    pollfd fd{.fd = handle, .events = POLLIN, .revents = 0};
    int woken = 0;
    do {
        (void)doca_pe_progress(pe);
        ASSERT_OK(doca_pe_request_notification(pe));
    } while (poll(&fd, 1, 20) != 0 && ++woken < 10);
    EXPECT_LT(woken, 10);
    // Asked for when it is reached already.
    ASSERT_OK(doca_task_submit(worker->wait_eq(1)));
    ASSERT_OK(doca_task_submit(worker->set(2)));
    while (worker->ended.size() < 2) {
        sleep();
        (void)doca_pe_progress(pe);
        if (worker->ended.size() == 1) {
            update(1);
        }
    }
}

TEST_P(DocaSyncEventTasks, AreFlushedByAStop) {
    doca_ctx* const ctx = worker->ctx;
    for (int round = 0; round < 2; ++round) {
        worker->ended.clear();
        std::vector<doca_task*> kept;
        worker->on_end = [&](doca_task* task) { kept.push_back(task); };
        std::uint64_t value = 0;
        doca_task* const late = worker->get(&value, 4);
        ASSERT_OK(doca_task_submit(worker->wait_eq(5, all, 1)));
        (void)doca_pe_progress(worker->engine.pe); // the first is being looked at
        ASSERT_OK(doca_task_submit(worker->wait_neq(0, all, 2)));
        ASSERT_OK(doca_task_submit(worker->set(0, 3)));
        EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_EQ(doca_ctx_stop(ctx), DOCA_ERROR_IN_PROGRESS);
        EXPECT_EQ(doca_sync_event_destroy(worker->event), DOCA_ERROR_BAD_STATE);
        EXPECT_EQ(doca_sync_event_get(worker->event, &value), DOCA_ERROR_BAD_STATE);
        doca_sync_event_task_get* get = nullptr;
        EXPECT_EQ(doca_sync_event_task_get_alloc_init(worker->event, &value, {}, &get),
                  DOCA_ERROR_BAD_STATE);
        ASSERT_OK(doca_task_submit(late)); // taken, to fail
        ASSERT_TRUE(worker->end(4));
        EXPECT_EQ(state_of(ctx), DOCA_CTX_STATE_STOPPING) << "tasks are not freed";
        for (const Ended& task : worker->ended) {
            const bool done = task.id == 3;
            EXPECT_EQ(task.status, done ? DOCA_SUCCESS : DOCA_ERROR_SHUTDOWN) << task.id;
            EXPECT_EQ(task.success, done);
        }
        for (doca_task* const task : kept) {
            doca_task_free(task);
        }
        ASSERT_TRUE(worker->until([&] { return state_of(ctx) == DOCA_CTX_STATE_IDLE; }));
        ASSERT_OK(doca_ctx_start(ctx)); // and again
    }
    EXPECT_OK(doca_ctx_stop(ctx)) << "with nothing outstanding it is done at once";
}

TEST_P(DocaSyncEventTasks, StopAndDestroyInsideTheirCallbacks) {
    std::uint64_t next = 1;
    doca_task* const wait = worker->wait_neq(0);
    worker->on_end = [&](doca_task* task) {
        ASSERT_EQ(task, wait);
        if (next < 4) {
            std::uint64_t before = 0;
            EXPECT_OK(doca_sync_event_update_add(worker->event, 1, &before));
            EXPECT_EQ(before, next);
            ++next;
            doca_sync_event_task_wait_neq* const again =
                reinterpret_cast<doca_sync_event_task_wait_neq*>(task);
            doca_sync_event_task_wait_neq_set_wait_val(again, before);
            EXPECT_OK(doca_task_submit(task));
            return;
        }
        doca_task_free(task);
        EXPECT_OK(doca_ctx_stop(worker->ctx));
        EXPECT_OK(doca_sync_event_destroy(std::exchange(worker->event, nullptr)));
    };
    ASSERT_OK(doca_task_submit(wait));
    EXPECT_OK(doca_sync_event_update_set(worker->event, 1));
    EXPECT_TRUE(worker->until([&] { return worker->event == nullptr; }));
    EXPECT_EQ(worker->ended.size(), 4u);
}

TEST_P(DocaSyncEventTasks, MisuseIsRefused) {
    doca_sync_event* const event = worker->event;
    std::uint64_t value = 0;
    // Submitted once at a time; freed twice, or while it waits; changed while it waits.
    doca_sync_event_task_wait_eq* eq = nullptr;
    ASSERT_OK(doca_sync_event_task_wait_eq_alloc_init(event, 7, all, {}, &eq));
    doca_task* const wait = doca_sync_event_task_wait_eq_as_doca_task(eq);
    ASSERT_OK(doca_task_submit(wait));
    EXPECT_EQ(doca_task_submit(wait), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_task_get_status(wait), DOCA_ERROR_IN_PROGRESS);
    doca_sync_event_task_wait_eq_set_wait_val(eq, 0);
    EXPECT_EQ(doca_sync_event_task_wait_eq_get_wait_val(eq), 7u);
    doca_task_free(wait);
    doca_task_free(wait);
    worker->look();
    update(7);
    EXPECT_TRUE(worker->until([&] {
        std::size_t inflight = 1;
        EXPECT_OK(doca_ctx_get_num_inflight_tasks(worker->ctx, &inflight));
        return inflight == 0;
    }));
    EXPECT_TRUE(worker->ended.empty()) << "nobody is told of a task that was freed";
    doca_task_free(wait);
    EXPECT_EQ(doca_task_submit(wait), DOCA_ERROR_BAD_STATE);
    // A result that has no place.
    doca_sync_event_task_get* get = nullptr;
    ASSERT_OK(doca_sync_event_task_get_alloc_init(event, &value, {}, &get));
    doca_sync_event_task_get_set_ret_val_ptr(get, nullptr);
    EXPECT_EQ(doca_task_submit(doca_sync_event_task_get_as_doca_task(get)),
              DOCA_ERROR_INVALID_VALUE);
    doca_task_free(doca_sync_event_task_get_as_doca_task(get));
    EXPECT_EQ(doca_sync_event_task_get_alloc_init(event, nullptr, {}, &get),
              DOCA_ERROR_INVALID_VALUE);
    doca_sync_event_task_notify_add* add = nullptr;
    EXPECT_EQ(doca_sync_event_task_notify_add_alloc_init(event, 1, nullptr, {}, &add),
              DOCA_ERROR_INVALID_VALUE);
    // Configured while it runs, or with too many; stopped, and without a kind.
    const auto on_get = [](doca_sync_event_task_get*, doca_data, doca_data) {};
    EXPECT_EQ(doca_sync_event_task_get_set_conf(event, on_get, on_get, 1),
              DOCA_ERROR_NOT_PERMITTED);
    ASSERT_OK(doca_ctx_stop(worker->ctx));
    EXPECT_EQ(doca_sync_event_task_get_set_conf(event, on_get, on_get, 8193),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_task_get_set_conf(event, nullptr, on_get, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_sync_event_task_get_set_conf(event, on_get, nullptr, 1),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_OK(doca_sync_event_task_get_set_conf(event, on_get, on_get, 0));
    EXPECT_EQ(doca_sync_event_task_get_alloc_init(event, &value, {}, &get), DOCA_ERROR_BAD_STATE);
    ASSERT_OK(doca_ctx_start(worker->ctx));
    EXPECT_EQ(doca_sync_event_task_get_alloc_init(event, &value, {}, &get), DOCA_ERROR_NO_MEMORY);
}

/// A process that owns an event, and may be frozen or killed.
struct Owner {
    int descriptors[2];
    pid_t child = -1;
    std::vector<std::uint8_t> exported = std::vector<std::uint8_t>(4096);

    Owner() {
        EXPECT_EQ(pipe(descriptors), 0);
        child = fork();
        if (child == 0) {
            _exit(run());
        }
        close(descriptors[1]);
        const ssize_t length = read(descriptors[0], exported.data(), exported.size());
        EXPECT_GT(length, 0);
        exported.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    }
    ~Owner() {
        die();
        close(descriptors[0]);
    }
    [[nodiscard]] int run() const {
        doca_devinfo** list = nullptr;
        std::uint32_t count = 0;
        doca_dev* dev = nullptr;
        doca_sync_event* event = nullptr;
        const std::uint8_t* bytes = nullptr;
        std::size_t size = 0;
        if (doca_devinfo_create_list(&list, &count) != DOCA_SUCCESS ||
            doca_dev_open(list[0], &dev) != DOCA_SUCCESS ||
            doca_sync_event_create(&event) != DOCA_SUCCESS ||
            doca_sync_event_add_publisher_location_remote_pci(event) != DOCA_SUCCESS ||
            doca_sync_event_add_subscriber_location_cpu(event, dev) != DOCA_SUCCESS ||
            doca_sync_event_start(event) != DOCA_SUCCESS ||
            doca_sync_event_export_to_remote_pci(event, dev, &bytes, &size) != DOCA_SUCCESS ||
            write(descriptors[1], bytes, size) != static_cast<ssize_t>(size)) {
            return 1;
        }
        for (;;) {
            pause();
        }
    }
    void freeze() const {
        int status = 0;
        EXPECT_EQ(kill(child, SIGSTOP), 0);
        EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
    }
    void thaw() const { EXPECT_EQ(kill(child, SIGCONT), 0); }
    void die() {
        if (child > 0) {
            EXPECT_EQ(kill(child, SIGKILL), 0);
            EXPECT_EQ(waitpid(child, nullptr, 0), child);
            child = -1;
        }
    }
};

struct DocaSyncEventOwner : testing::Test {
    Lab lab;
    std::optional<Owner> owner;
    std::optional<Worker> worker;

    void SetUp() override {
        owner.emplace();
        doca_sync_event* event = nullptr;
        ASSERT_OK(doca_sync_event_create_from_export(lab.dpu, owner->exported.data(),
                                                     owner->exported.size(), &event));
        worker.emplace(event);
        worker->start();
    }
    void TearDown() override {
        worker.reset();
        owner.reset();
    }
};

TEST_F(DocaSyncEventOwner, ThatDiesFailsWhatIsUnderWayAndWhatWaits) {
    std::uint64_t value = 77;
    ASSERT_OK(doca_task_submit(worker->wait_eq(5, all, 1)));
    worker->look();
    owner->freeze();
    ASSERT_OK(doca_task_submit(worker->wait_neq(0, all, 2)));
    (void)doca_pe_progress(worker->engine.pe);
    owner->die();
    EXPECT_TRUE(worker->end(2));
    for (const Ended& task : worker->ended) {
        EXPECT_NE(task.status, DOCA_SUCCESS);
        EXPECT_FALSE(task.success);
    }
    doca_task* const get = worker->get(&value, 3);
    if (doca_task_submit(get) == DOCA_SUCCESS) {
        ASSERT_TRUE(worker->end(3));
        EXPECT_FALSE(worker->ended[2].success);
    } else {
        doca_task_free(get);
    }
    EXPECT_EQ(value, 77u);
}

TEST_F(DocaSyncEventOwner, ThatIsFrozenKeepsAStopWaiting) {
    std::uint64_t before = 0;
    ASSERT_OK(doca_task_submit(worker->set(1, 1)));
    ASSERT_TRUE(worker->end(1));
    owner->freeze();
    ASSERT_OK(doca_task_submit(worker->add(1, &before, 2)));
    ASSERT_OK(doca_task_submit(worker->wait_eq(5, all, 3)));
    (void)doca_pe_progress(worker->engine.pe);
    EXPECT_EQ(doca_ctx_stop(worker->ctx), DOCA_ERROR_IN_PROGRESS);
    owner->thaw();
    EXPECT_TRUE(worker->until([&] { return state_of(worker->ctx) == DOCA_CTX_STATE_IDLE; }));
    ASSERT_EQ(worker->ended.size(), 3u);
    EXPECT_EQ(before, 1u);
    for (const Ended& task : worker->ended) {
        EXPECT_EQ(task.status, task.id == 3 ? DOCA_ERROR_SHUTDOWN : DOCA_SUCCESS) << task.id;
    }
}

TEST(DocaSyncEvent, TasksAreSupportedAndNullsAreRefused) {
    const Lab lab;
    doca_devinfo* const info = doca_dev_as_devinfo(lab.dpu);
    for (const auto supported : {doca_sync_event_cap_task_get_is_supported,
                                 doca_sync_event_cap_task_notify_set_is_supported,
                                 doca_sync_event_cap_task_notify_add_is_supported,
                                 doca_sync_event_cap_task_wait_eq_is_supported,
                                 doca_sync_event_cap_task_wait_neq_is_supported}) {
        EXPECT_OK(supported(info));
        EXPECT_EQ(supported(nullptr), DOCA_ERROR_INVALID_VALUE);
    }
}

} // namespace
