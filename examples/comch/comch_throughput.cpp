// Throughput of the high-speed data path with many threads: one producer and progress engine per
// thread on the host, one consumer and progress engine per thread on the DPU, while the main
// threads progress the connection.
//
// Built for the DPU (-DDOCA_ARCH_DPU) it is the server, else the client. The client says how much
// of what it sends; the server needs the same number of threads and buffers of at least that size.
// So they tell each other their numbers first, in a control message each.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doca_argp.h>
#include <doca_buf.h>
#include <doca_buf_inventory.h>
#include <doca_comch.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>
#include <doca_ctx.h>
#include <doca_log.h>
#include <doca_mmap.h>
#include <doca_pe.h>

extern "C" {
#include "../common/devices.h"
#include "../common/options.h"
}

DOCA_LOG_REGISTER(COMCH_THROUGHPUT)

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* server_name = "comch_throughput";

struct Config {
    std::string pci;
    std::string rep = "3b:00.0";
    int threads = 2;
    int size = 64 * 1024; ///< of a message
    int depth = 32;       ///< messages under way, or buffers posted, per thread
    int megabytes = 2048; ///< in all
};

/// Ends the program with a sentence: an example has nothing to clean up after a failure.
void must(doca_error_t result, const char* what, doca_error_t also_fine = DOCA_SUCCESS) {
    if (result != DOCA_SUCCESS && result != also_fine) {
        DOCA_LOG_ERR("%s: %s", what, doca_error_get_descr(result));
        std::exit(EXIT_FAILURE);
    }
}

/// What the two sides tell each other.
struct Numbers {
    std::uint32_t threads;
    std::uint32_t size;
    std::uint64_t bytes; ///< of the client: that it sends in all
};

std::uint64_t messages_per_thread(const Config& config) {
    return static_cast<std::uint64_t>(config.megabytes) * 1000000 /
           static_cast<std::uint64_t>(config.size) / static_cast<std::uint64_t>(config.threads);
}

Numbers numbers_of(const Config& config) {
    Numbers numbers{static_cast<std::uint32_t>(config.threads),
                    static_cast<std::uint32_t>(config.size), 0};
    numbers.bytes = messages_per_thread(config) * numbers.threads * numbers.size;
    return numbers;
}

/// Says so if the two sides cannot work together.
bool fit(const Numbers& client, const Numbers& server) {
    if (client.threads != server.threads) {
        DOCA_LOG_ERR("The client has -n %u, the server -n %u: give both the same", client.threads,
                     server.threads);
        return false;
    }
    if (client.size > server.size) {
        DOCA_LOG_ERR("The client has -s %u, the server's buffers only -s %u: give it as much",
                     client.size, server.size);
        return false;
    }
    return true;
}

/// Before anything is allocated: can the device do that, and is it a sensible amount of memory?
void check_limits(const Config& config, doca_dev* device) {
    constexpr std::uint64_t most_memory = std::uint64_t{4} << 30;
    doca_devinfo* const info = doca_dev_as_devinfo(device);
    std::uint32_t most_bytes = 0;
    std::uint32_t most_tasks = 0;
#ifdef DOCA_ARCH_DPU
    must(doca_comch_consumer_cap_get_max_buf_size(info, &most_bytes), "no limit of the size");
    must(doca_comch_consumer_cap_get_max_num_tasks(info, &most_tasks), "no limit of the depth");
#else
    must(doca_comch_producer_cap_get_max_buf_size(info, &most_bytes), "no limit of the size");
    must(doca_comch_producer_cap_get_max_num_tasks(info, &most_tasks), "no limit of the depth");
    if (messages_per_thread(config) == 0) {
        DOCA_LOG_ERR("-m %d is not one message of -s %d bytes for each of -n %d threads",
                     config.megabytes, config.size, config.threads);
        std::exit(EXIT_FAILURE);
    }
#endif
    const std::uint64_t memory = static_cast<std::uint64_t>(config.size) *
                                 static_cast<std::uint64_t>(config.depth) *
                                 static_cast<std::uint64_t>(config.threads);
    if (static_cast<std::uint32_t>(config.size) > most_bytes) {
        DOCA_LOG_ERR("-s %d: the device takes at most %u bytes", config.size, most_bytes);
    } else if (static_cast<std::uint32_t>(config.depth) > most_tasks) {
        DOCA_LOG_ERR("-d %d: the device takes at most %u tasks", config.depth, most_tasks);
    } else if (memory > most_memory) {
        DOCA_LOG_ERR("-s %d, -d %d and -n %d make %llu bytes of memory, more than %llu",
                     config.size, config.depth, config.threads,
                     static_cast<unsigned long long>(memory),
                     static_cast<unsigned long long>(most_memory));
    } else {
        return;
    }
    std::exit(EXIT_FAILURE);
}

// ---- one thread --------------------------------------------------------------------------------

/// A thread's memory and engine.
struct Lane {
    std::vector<char> memory;
    doca_pe* pe = nullptr;
    doca_mmap* mmap = nullptr;
    doca_buf_inventory* inventory = nullptr;

    Lane(doca_dev* device, const Config& config)
        : memory(static_cast<std::size_t>(config.size) * static_cast<std::size_t>(config.depth)) {
        must(doca_pe_create(&pe), "no progress engine");
        must(doca_mmap_create(&mmap), "no memory map");
        must(doca_mmap_set_permissions(mmap, DOCA_ACCESS_FLAG_LOCAL_READ_WRITE |
                                                 DOCA_ACCESS_FLAG_PCI_READ_WRITE),
             "no permissions");
        must(doca_mmap_set_memrange(mmap, memory.data(), memory.size()), "no range");
        must(doca_mmap_add_dev(mmap, device), "the memory map takes no device");
        must(doca_mmap_start(mmap), "the memory map does not start");
        must(doca_buf_inventory_create(static_cast<std::size_t>(config.depth), &inventory),
             "no inventory");
        must(doca_buf_inventory_start(inventory), "the inventory does not start");
    }
    ~Lane() {
        must(doca_buf_inventory_destroy(inventory), "the inventory stays");
        must(doca_mmap_destroy(mmap), "the memory map stays");
        must(doca_pe_destroy(pe), "the engine stays");
    }
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    char* slot(int index, const Config& config) {
        return memory.data() +
               static_cast<std::size_t>(index) * static_cast<std::size_t>(config.size);
    }
    static bool is_idle(doca_ctx* ctx) {
        doca_ctx_states state = DOCA_CTX_STATE_RUNNING;
        must(doca_ctx_get_state(ctx, &state), "no state");
        return state == DOCA_CTX_STATE_IDLE;
    }
};

#ifdef DOCA_ARCH_DPU

std::atomic<std::uint64_t> bytes_received{0};

/// Takes whatever comes until the connection ends.
void consume(doca_comch_connection* connection, doca_dev* device, const Config& config) {
    Lane lane(device, config);
    doca_comch_consumer* consumer = nullptr;
    must(doca_comch_consumer_create(connection, lane.mmap, &consumer), "no consumer");
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(consumer);
    must(doca_pe_connect_ctx(lane.pe, ctx), "the consumer takes no engine");
    must(doca_comch_consumer_task_post_recv_set_conf(
             consumer,
             [](doca_comch_consumer_task_post_recv* task, doca_data, doca_data) {
                 doca_buf* const buf = doca_comch_consumer_task_post_recv_get_buf(task);
                 std::size_t length = 0;
                 (void)doca_buf_get_data_len(buf, &length);
                 if (bytes_received.fetch_add(length, std::memory_order_relaxed) == 0) {
                     DOCA_LOG_INFO("Receiving");
                 }
                 (void)doca_buf_reset_data_len(buf);
                 doca_task* const again = doca_comch_consumer_task_post_recv_as_task(task);
                 if (doca_task_submit(again) != DOCA_SUCCESS) {
                     (void)doca_buf_dec_refcount(buf, nullptr);
                     doca_task_free(again);
                 }
             },
             [](doca_comch_consumer_task_post_recv* task, doca_data, doca_data) {
                 (void)doca_buf_dec_refcount(doca_comch_consumer_task_post_recv_get_buf(task),
                                             nullptr);
                 doca_task_free(doca_comch_consumer_task_post_recv_as_task(task));
             },
             static_cast<std::uint32_t>(config.depth)),
         "no receive tasks");
    must(doca_ctx_start(ctx), "the consumer does not start", DOCA_ERROR_IN_PROGRESS);
    doca_ctx_states state = DOCA_CTX_STATE_STARTING;
    while (state == DOCA_CTX_STATE_STARTING) {
        (void)doca_pe_progress(lane.pe);
        must(doca_ctx_get_state(ctx, &state), "no state");
    }
    for (int i = 0; i < config.depth && state == DOCA_CTX_STATE_RUNNING; ++i) {
        doca_buf* buf = nullptr;
        doca_comch_consumer_task_post_recv* task = nullptr;
        must(doca_buf_inventory_buf_get_by_addr(lane.inventory, lane.mmap, lane.slot(i, config),
                                                static_cast<std::size_t>(config.size), &buf),
             "no buffer");
        must(doca_comch_consumer_task_post_recv_alloc_init(consumer, buf, &task), "no task");
        must(doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task)),
             "a buffer cannot be posted");
    }
    // The client's leaving stops the consumer.
    while (!Lane::is_idle(ctx)) {
        if (doca_pe_progress(lane.pe) == 0) {
            std::this_thread::yield();
        }
    }
    must(doca_comch_consumer_destroy(consumer), "the consumer stays");
}

#else

/// What one producing thread saw.
struct Report {
    Clock::time_point begin;
    Clock::time_point end;
    std::vector<float> microseconds; ///< from submission to completion
};

struct Sender {
    const Config& config;
    std::uint64_t to_submit;
    std::uint64_t to_complete;
    Report& report;
    std::vector<Clock::time_point> submitted;
    std::vector<std::pair<doca_task*, std::uint64_t>> postponed; ///< with their slots
    doca_error_t failure = DOCA_SUCCESS;

    void submit(doca_task* task, std::uint64_t slot) {
        if (to_submit == 0) {
            return;
        }
        submitted[slot] = Clock::now();
        const doca_error_t result = doca_task_submit(task);
        if (result == DOCA_SUCCESS) {
            --to_submit;
        } else if (result == DOCA_ERROR_AGAIN) {
            postponed.emplace_back(task, slot); // no buffer is posted, or the way there is full
        } else {
            DOCA_ERROR_PROPAGATE(failure, result);
        }
    }
    void submit_postponed() {
        for (const auto& [task, slot] : std::exchange(postponed, {})) {
            submit(task, slot);
        }
    }
};

/// Sends its share to one consumer, `depth` messages at a time.
void produce(doca_comch_connection* connection, doca_dev* device, const Config& config,
             std::uint32_t target, Report& report) {
    Lane lane(device, config);
    doca_comch_producer* producer = nullptr;
    must(doca_comch_producer_create(connection, &producer), "no producer");
    doca_ctx* const ctx = doca_comch_producer_as_ctx(producer);
    must(doca_pe_connect_ctx(lane.pe, ctx), "the producer takes no engine");
    must(doca_comch_producer_task_send_set_conf(
             producer,
             [](doca_comch_producer_task_send* task, doca_data task_data, doca_data ctx_data) {
                 Sender& sender = *static_cast<Sender*>(ctx_data.ptr);
                 const std::chrono::duration<float, std::micro> took =
                     Clock::now() - sender.submitted[task_data.u64];
                 sender.report.microseconds.push_back(took.count());
                 --sender.to_complete;
                 sender.submit(doca_comch_producer_task_send_as_task(task), task_data.u64);
             },
             [](doca_comch_producer_task_send* task, doca_data, doca_data ctx_data) {
                 Sender& sender = *static_cast<Sender*>(ctx_data.ptr);
                 DOCA_ERROR_PROPAGATE(
                     sender.failure,
                     doca_task_get_status(doca_comch_producer_task_send_as_task(task)));
             },
             static_cast<std::uint32_t>(config.depth)),
         "no send tasks");
    const std::uint64_t messages = messages_per_thread(config);
    Sender sender{config,
                  messages,
                  messages,
                  report,
                  std::vector<Clock::time_point>(static_cast<std::size_t>(config.depth)),
                  {}};
    doca_data self{};
    self.ptr = &sender;
    must(doca_ctx_set_user_data(ctx, self), "no user data");
    must(doca_ctx_start(ctx), "the producer does not start");
    report.microseconds.reserve(messages);
    report.begin = Clock::now();
    std::vector<doca_task*> tasks;
    std::vector<doca_buf*> buffers;
    for (int i = 0; i < config.depth && sender.to_submit != 0; ++i) {
        doca_buf* buf = nullptr;
        doca_comch_producer_task_send* task = nullptr;
        must(doca_buf_inventory_buf_get_by_data(lane.inventory, lane.mmap, lane.slot(i, config),
                                                static_cast<std::size_t>(config.size), &buf),
             "no buffer");
        must(doca_comch_producer_task_send_alloc_init(producer, buf, nullptr, 0, target, &task),
             "no task");
        doca_data slot{};
        slot.u64 = static_cast<std::uint64_t>(i);
        doca_task_set_user_data(doca_comch_producer_task_send_as_task(task), slot);
        tasks.push_back(doca_comch_producer_task_send_as_task(task));
        buffers.push_back(buf);
        sender.submit(tasks.back(), slot.u64);
    }
    while (sender.to_complete != 0 && sender.failure == DOCA_SUCCESS) {
        if (doca_pe_progress(lane.pe) == 0) {
            std::this_thread::yield();
        }
        if (!sender.postponed.empty()) {
            sender.submit_postponed();
        }
    }
    report.end = Clock::now();
    must(sender.failure, "sending failed");
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        doca_task_free(tasks[i]);
        (void)doca_buf_dec_refcount(buffers[i], nullptr);
    }
    must(doca_ctx_stop(ctx), "the producer does not stop", DOCA_ERROR_IN_PROGRESS);
    while (!Lane::is_idle(ctx)) {
        (void)doca_pe_progress(lane.pe);
    }
    must(doca_comch_producer_destroy(producer), "the producer stays");
}

void show(const std::vector<Report>& reports, const Config& config) {
    std::vector<float> all;
    Clock::time_point begin = reports.front().begin;
    Clock::time_point end = reports.front().end;
    for (const Report& report : reports) {
        all.insert(all.end(), report.microseconds.begin(), report.microseconds.end());
        begin = std::min(begin, report.begin);
        end = std::max(end, report.end);
    }
    std::sort(all.begin(), all.end());
    const double seconds = std::chrono::duration<double>(end - begin).count();
    const double bytes = static_cast<double>(all.size()) * config.size;
    const auto percentile = [&](double share) {
        return static_cast<double>(
            all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))]);
    };
    std::printf("threads %d, messages %zu of %d bytes, %.3f GB in %.3f s\n", config.threads,
                all.size(), config.size, bytes / 1e9, seconds);
    std::printf("rate %.3f GB/s, %.0f messages/s\n", bytes / 1e9 / seconds,
                static_cast<double>(all.size()) / seconds);
    std::printf("completion in microseconds: 50%% %.1f, 90%% %.1f, 99%% %.1f, 99.9%% %.1f, "
                "longest %.1f\n",
                percentile(0.5), percentile(0.9), percentile(0.99), percentile(0.999),
                percentile(1));
}

#endif

// ---- the connection ----------------------------------------------------------------------------

/// What the callbacks of the main thread find out.
struct Meeting {
    doca_comch_connection* connection = nullptr;
    bool over = false;
    std::optional<Numbers> peer;
    std::vector<std::uint32_t> consumers;
};
Meeting meeting;

void take_numbers(doca_comch_event_msg_recv*, std::uint8_t* data, std::uint32_t length,
                  doca_comch_connection* connection) {
    if (connection == meeting.connection && length == sizeof(Numbers)) {
        std::memcpy(&meeting.peer.emplace(), data, sizeof(Numbers));
    }
}

void sent(doca_comch_task_send* task, doca_data, doca_data) {
    doca_task_free(doca_comch_task_send_as_task(task));
}

void not_sent(doca_comch_task_send* task, doca_data, doca_data) {
    must(doca_task_get_status(doca_comch_task_send_as_task(task)), "the numbers were not sent");
}

#ifdef DOCA_ARCH_DPU

int run(const Config& config) {
    doca_dev* device = nullptr;
    doca_dev_rep* rep = nullptr;
    doca_pe* pe = nullptr;
    doca_comch_server* server = nullptr;
    must(open_device(
             config.pci.c_str(),
             [](doca_devinfo* info) { return doca_comch_cap_server_is_supported(info); }, &device),
         "no device");
    must(open_representor(device, config.rep.c_str(), &rep), "no representor");
    check_limits(config, device);
    must(doca_pe_create(&pe), "no progress engine");
    must(doca_comch_server_create(device, rep, server_name, &server), "no server");
    doca_ctx* const ctx = doca_comch_server_as_ctx(server);
    must(doca_pe_connect_ctx(pe, ctx), "the server takes no engine");
    must(doca_comch_server_task_send_set_conf(server, sent, not_sent, 1), "no tasks");
    must(doca_comch_server_event_msg_recv_register(server, take_numbers), "no messages");
    must(doca_comch_server_event_connection_status_changed_register(
             server,
             [](doca_comch_event_connection_status_changed*, doca_comch_connection* connection,
                std::uint8_t successful) {
                 if (successful != 0 && meeting.connection == nullptr) {
                     meeting.connection = connection;
                 }
             },
             [](doca_comch_event_connection_status_changed*, doca_comch_connection* connection,
                std::uint8_t) { meeting.over = meeting.over || connection == meeting.connection; }),
         "no connections");
    const auto no_consumer = [](doca_comch_event_consumer*, doca_comch_connection*, std::uint32_t) {
    }; // mandatory, even of who does not send
    must(doca_comch_server_event_consumer_register(server, no_consumer, no_consumer),
         "no consumers");
    must(doca_ctx_start(ctx), "the server does not start");
    DOCA_LOG_INFO("Waiting for a client of '%s'", server_name);
    const auto progress = [&] {
        if (doca_pe_progress(pe) == 0) {
            std::this_thread::yield();
        }
    };
    while (!meeting.peer && !meeting.over) {
        progress();
    }
    const Numbers own = numbers_of(config);
    bool fits = false;
    bool refused = false;
    if (meeting.peer && !meeting.over) {
        fits = fit(*meeting.peer, own);
        refused = !fits;
        doca_comch_task_send* answer = nullptr;
        must(doca_comch_server_task_send_alloc_init(server, meeting.connection, &own, sizeof(own),
                                                    &answer),
             "no task");
        must(doca_task_submit(doca_comch_task_send_as_task(answer)), "no answer can be sent");
    }
    std::atomic<int> left{fits ? config.threads : 0};
    std::vector<std::thread> threads;
    for (int i = 0; fits && i < config.threads; ++i) {
        threads.emplace_back([&] {
            consume(meeting.connection, device, config);
            --left;
        });
    }
    while (left != 0 || !meeting.over) {
        progress();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::printf("received %.3f GB\n", static_cast<double>(bytes_received.load()) / 1e9);
    const bool through = fits && bytes_received == meeting.peer->bytes;
    if (!through && !refused) {
        DOCA_LOG_ERR("The client ended before it was through");
    }
    must(doca_ctx_stop(ctx), "the server does not stop", DOCA_ERROR_IN_PROGRESS);
    while (!Lane::is_idle(ctx)) {
        progress();
    }
    must(doca_comch_server_destroy(server), "the server stays");
    must(doca_pe_destroy(pe), "the engine stays");
    must(doca_dev_rep_close(rep), "the representor stays");
    must(doca_dev_close(device), "the device stays");
    return through ? EXIT_SUCCESS : EXIT_FAILURE;
}

#else

int run(const Config& config) {
    doca_dev* device = nullptr;
    doca_pe* pe = nullptr;
    doca_comch_client* client = nullptr;
    must(open_device(
             config.pci.c_str(),
             [](doca_devinfo* info) { return doca_comch_cap_client_is_supported(info); }, &device),
         "no device");
    check_limits(config, device);
    must(doca_pe_create(&pe), "no progress engine");
    must(doca_comch_client_create(device, server_name, &client), "no client");
    doca_ctx* const ctx = doca_comch_client_as_ctx(client);
    must(doca_pe_connect_ctx(pe, ctx), "the client takes no engine");
    must(doca_comch_client_task_send_set_conf(client, sent, not_sent, 1), "no tasks");
    must(doca_comch_client_event_msg_recv_register(client, take_numbers), "no messages");
    must(doca_comch_client_event_consumer_register(
             client,
             [](doca_comch_event_consumer*, doca_comch_connection*, std::uint32_t id) {
                 meeting.consumers.push_back(id);
             },
             [](doca_comch_event_consumer*, doca_comch_connection*, std::uint32_t) {}),
         "no consumers");
    must(doca_ctx_start(ctx), "the client does not start", DOCA_ERROR_IN_PROGRESS);
    const auto progress = [&] {
        if (doca_pe_progress(pe) == 0) {
            std::this_thread::yield();
        }
        if (Lane::is_idle(ctx)) {
            must(DOCA_ERROR_NOT_CONNECTED, "there is no server, or it has gone");
        }
    };
    for (doca_ctx_states state = DOCA_CTX_STATE_STARTING; state != DOCA_CTX_STATE_RUNNING;) {
        progress();
        must(doca_ctx_get_state(ctx, &state), "no state");
    }
    must(doca_comch_client_get_connection(client, &meeting.connection), "no connection");
    const Numbers own = numbers_of(config);
    doca_comch_task_send* question = nullptr;
    must(doca_comch_client_task_send_alloc_init(client, meeting.connection, &own, sizeof(own),
                                                &question),
         "no task");
    must(doca_task_submit(doca_comch_task_send_as_task(question)), "the server cannot be asked");
    while (!meeting.peer) {
        progress();
    }
    if (!fit(own, *meeting.peer)) {
        return EXIT_FAILURE;
    }
    while (meeting.consumers.size() < static_cast<std::size_t>(config.threads)) {
        progress();
    }
    std::vector<Report> reports(static_cast<std::size_t>(config.threads));
    std::atomic<int> left{config.threads};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < reports.size(); ++i) {
        threads.emplace_back([&, i] {
            produce(meeting.connection, device, config, meeting.consumers[i], reports[i]);
            --left;
        });
    }
    while (left != 0) {
        progress();
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    show(reports, config);
    must(doca_ctx_stop(ctx), "the client does not stop", DOCA_ERROR_IN_PROGRESS);
    while (!Lane::is_idle(ctx)) {
        (void)doca_pe_progress(pe);
    }
    must(doca_comch_client_destroy(client), "the client stays");
    must(doca_pe_destroy(pe), "the engine stays");
    must(doca_dev_close(device), "the device stays");
    return EXIT_SUCCESS;
}

#endif

// ---- flags -------------------------------------------------------------------------------------

void add_flag(const char* short_name, const char* long_name, const char* description,
              doca_argp_type type, doca_argp_param_cb_t callback) {
    doca_argp_param* param = nullptr;
    must(doca_argp_param_create(&param), "no flag");
    doca_argp_param_set_short_name(param, short_name);
    doca_argp_param_set_long_name(param, long_name);
    doca_argp_param_set_description(param, description);
    doca_argp_param_set_callback(param, callback);
    doca_argp_param_set_type(param, type);
    must(doca_argp_register_param(param), "a flag is refused");
}

/// A flag that sets a number of the configuration, which must be positive.
template <int Config::*member> doca_error_t take_number(void* value, void* config) {
    const int number = *static_cast<int*>(value);
    static_cast<Config*>(config)->*member = number;
    if (number <= 0) {
        DOCA_LOG_ERR("%d is not above 0", number);
        return DOCA_ERROR_INVALID_VALUE;
    }
    return DOCA_SUCCESS;
}
template <std::string Config::*member> doca_error_t take_text(void* value, void* config) {
    static_cast<Config*>(config)->*member = static_cast<char*>(value);
    return DOCA_SUCCESS;
}

} // namespace

int main(int argc, char** argv) {
    Config config;
    doca_log_backend* library_log = nullptr;
    must(doca_log_backend_create_standard(), "no log");
    must(doca_log_backend_create_with_file_sdk(stderr, &library_log), "no log");
    must(doca_log_backend_set_sdk_level(library_log, DOCA_LOG_LEVEL_WARNING), "no log level");
    must(doca_argp_init(nullptr, &config), "no flags");
    add_flag("p", "pci-addr", "DOCA device PCI address", DOCA_ARGP_TYPE_STRING,
             take_text<&Config::pci>);
#ifdef DOCA_ARCH_DPU
    config.pci = "03:00.0";
    add_flag("r", "rep-pci", "DOCA device representor PCI address", DOCA_ARGP_TYPE_STRING,
             take_text<&Config::rep>);
#else
    config.pci = "3b:00.0";
    add_flag("m", "megabytes", "How much to send in all, in MB (2048)", DOCA_ARGP_TYPE_INT,
             take_number<&Config::megabytes>);
#endif
    add_flag("n", "threads", "Threads, the same number on both sides (2)", DOCA_ARGP_TYPE_INT,
             take_number<&Config::threads>);
    add_flag("s", "size", "Bytes of a message, or of a buffer (65536)", DOCA_ARGP_TYPE_INT,
             take_number<&Config::size>);
    add_flag("d", "depth", "Messages under way, or buffers posted, per thread (32)",
             DOCA_ARGP_TYPE_INT, take_number<&Config::depth>);
    if (doca_argp_start(argc, argv) != DOCA_SUCCESS) {
        return EXIT_FAILURE;
    }
    (void)doca_argp_destroy();
    return run(config);
}
