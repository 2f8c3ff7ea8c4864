#include "perftest/doca/worker.hpp"

#include <doca_buf.h>
#include <doca_ctx.h>

#include "perftest/clock.hpp"
#include "perftest/doca/check.hpp"

namespace comch::perftest {
namespace {

/// Messages sent between two progress calls, at most; as FastWorker has it.
constexpr unsigned burst = 16;
/// The connection, on which a first message makes its way to the consumer, is looked at this
/// seldom.
constexpr std::uint64_t connection_interval = 4096;
/// Of a ping-pong's sends more than one may not be confirmed yet.
constexpr std::uint32_t least_sends = 16;

bool is_in(doca_ctx* ctx, doca_ctx_states wanted) {
    doca_ctx_states state = DOCA_CTX_STATE_IDLE;
    must(doca_ctx_get_state(ctx, &state), "cannot get the state");
    return state == wanted;
}

DocaWorker& of(doca_data data) {
    return *static_cast<DocaWorker*>(data.ptr);
}

} // namespace

void DocaWorker::Memory::create(doca_dev* device, std::uint64_t size, std::uint32_t count) {
    auto made = Buffers::create(size, count);
    if (!made) {
        throw std::runtime_error(made.error().message);
    }
    buffers = std::move(*made);
    for (std::uint32_t i = 0; i < count; ++i) {
        buffers->touch(i);
    }
    std::byte* const begin = buffers->at(0);
    const auto total = static_cast<std::size_t>(buffers->at(count) - begin);
    must(doca_mmap_create(&map), "cannot create a memory map");
    must(doca_mmap_set_memrange(map, begin, total), "cannot set the range");
    must(doca_mmap_set_permissions(map, DOCA_ACCESS_FLAG_PCI_READ_WRITE), "cannot set the access");
    must(doca_mmap_add_dev(map, device), "cannot add the device");
    must(doca_mmap_start(map), "cannot start the memory map");
}

DocaWorker::DocaWorker(DocaEnd& end, const Plan& plan, const Load& load)
    : end_(end), plan_(plan), load_(load) {
    must(doca_pe_create(&pe_), "cannot create a progress engine");
    must(doca_buf_inventory_create(load.posted + std::max(load.window, least_sends), &inventory_),
         "cannot create an inventory");
    must(doca_buf_inventory_start(inventory_), "cannot start the inventory");
    receive_memory_.create(end.device(), load.size, load.posted);
    send_memory_.create(end.device(), load.size, std::max(load.window, least_sends));
    create_consumer();
    create_producer();
    while (end.peer_consumer() == 0 ||
           !is_in(doca_comch_consumer_as_ctx(consumer_), DOCA_CTX_STATE_RUNNING)) {
        end.progress();
        progress();
    }
    post_all();
    allocate_sends();
}

void DocaWorker::create_consumer() {
    must(doca_comch_consumer_create(end_.connection(), receive_memory_.map, &consumer_),
         "cannot create the consumer");
    must(doca_comch_consumer_task_post_recv_set_conf(consumer_, on_received, on_post_failed,
                                                     load_.posted),
         "cannot configure the consumer");
    doca_ctx* const ctx = doca_comch_consumer_as_ctx(consumer_);
    doca_data self{};
    self.ptr = this;
    must(doca_ctx_set_user_data(ctx, self), "cannot set the user data");
    must(doca_pe_connect_ctx(pe_, ctx), "cannot connect the consumer");
    must(doca_ctx_start(ctx), "cannot start the consumer", DOCA_ERROR_IN_PROGRESS);
}

void DocaWorker::create_producer() {
    must(doca_comch_producer_create(end_.connection(), &producer_), "cannot create the producer");
    must(doca_comch_producer_task_send_set_conf(producer_, on_sent, on_send_failed,
                                                std::max(load_.window, least_sends)),
         "cannot configure the producer");
    doca_ctx* const ctx = doca_comch_producer_as_ctx(producer_);
    doca_data self{};
    self.ptr = this;
    must(doca_ctx_set_user_data(ctx, self), "cannot set the user data");
    must(doca_pe_connect_ctx(pe_, ctx), "cannot connect the producer");
    must(doca_ctx_start(ctx), "cannot start the producer");
}

void DocaWorker::post_all() {
    for (std::uint32_t i = 0; i < load_.posted; ++i) {
        doca_buf* buffer = nullptr;
        must(doca_buf_inventory_buf_get_by_addr(inventory_, receive_memory_.map,
                                                receive_memory_.buffers->at(i), load_.size,
                                                &buffer),
             "cannot get a buffer");
        doca_comch_consumer_task_post_recv* task = nullptr;
        must(doca_comch_consumer_task_post_recv_alloc_init(consumer_, buffer, &task),
             "cannot allocate a receive");
        buffers_.push_back(buffer);
        receives_.push_back(doca_comch_consumer_task_post_recv_as_task(task));
        must(doca_task_submit(receives_.back()), "cannot post a buffer");
    }
}

void DocaWorker::allocate_sends() {
    const std::uint32_t count =
        plan_.mode == Mode::ping_pong ? least_sends : std::max(load_.window, 1u);
    const std::uint32_t different = std::min(count, send_buffers(plan_, load_));
    for (std::uint32_t i = 0; i < count; ++i) {
        doca_buf* buffer = nullptr;
        must(doca_buf_inventory_buf_get_by_data(inventory_, send_memory_.map,
                                                send_memory_.buffers->at(i % different), load_.size,
                                                &buffer),
             "cannot get a buffer");
        doca_comch_producer_task_send* task = nullptr;
        must(doca_comch_producer_task_send_alloc_init(producer_, buffer, nullptr, 0,
                                                      end_.peer_consumer(), &task),
             "cannot allocate a send");
        buffers_.push_back(buffer);
        idle_sends_.push_back(doca_comch_producer_task_send_as_task(task));
    }
}

DocaWorker::~DocaWorker() {
    // What is still posted is flushed by the stop, and freed by its callback.
    stops_ = true;
    for (doca_task* const task : idle_sends_) {
        doca_task_free(task);
    }
    for (doca_ctx* const ctx :
         {doca_comch_producer_as_ctx(producer_), doca_comch_consumer_as_ctx(consumer_)}) {
        (void)doca_ctx_stop(ctx);
        while (!is_in(ctx, DOCA_CTX_STATE_IDLE)) {
            progress();
            end_.progress();
        }
    }
    (void)doca_comch_producer_destroy(producer_);
    (void)doca_comch_consumer_destroy(consumer_);
    for (doca_buf* const buffer : buffers_) {
        (void)doca_buf_dec_refcount(buffer, nullptr);
    }
    (void)doca_buf_inventory_destroy(inventory_);
    (void)doca_mmap_destroy(receive_memory_.map);
    (void)doca_mmap_destroy(send_memory_.map);
    (void)doca_pe_destroy(pe_);
}

// ---- per message --------------------------------------------------------------------------------

void DocaWorker::on_received(doca_comch_consumer_task_post_recv* task, doca_data, doca_data data) {
    DocaWorker& self = of(data);
    ++self.received_;
    if (self.round_trips_ != nullptr) {
        self.note_round_trip();
    }
    if (self.answers_) {
        ++self.owed_;
        self.send();
    }
    (void)doca_buf_reset_data_len(doca_comch_consumer_task_post_recv_get_buf(task));
    const doca_error_t posted = doca_task_submit(doca_comch_consumer_task_post_recv_as_task(task));
    DOCA_ERROR_PROPAGATE(self.failure_, posted);
}

void DocaWorker::on_sent(doca_comch_producer_task_send* task, doca_data, doca_data data) {
    DocaWorker& self = of(data);
    ++self.completed_;
    self.idle_sends_.push_back(doca_comch_producer_task_send_as_task(task));
}

void DocaWorker::on_post_failed(doca_comch_consumer_task_post_recv* task, doca_data,
                                doca_data data) {
    doca_task* const base = doca_comch_consumer_task_post_recv_as_task(task);
    of(data).note_flushed(base);
}

void DocaWorker::on_send_failed(doca_comch_producer_task_send* task, doca_data, doca_data data) {
    doca_task* const base = doca_comch_producer_task_send_as_task(task);
    of(data).note_flushed(base);
}

void DocaWorker::note_flushed(doca_task* task) {
    const doca_error_t status = stops_ ? DOCA_SUCCESS : doca_task_get_status(task);
    DOCA_ERROR_PROPAGATE(failure_, status);
    doca_task_free(task);
}

void DocaWorker::progress() {
    if (doca_pe_progress(pe_) != 0) {
        give_way_.found();
    } else {
        give_way_.empty();
    }
    if (++looks_ % connection_interval == 0) [[unlikely]] {
        end_.progress();
    }
    must(failure_, "cannot send or receive");
}

/// What is owed, as far as there is room.
void DocaWorker::send() {
    while (owed_ != 0 && !idle_sends_.empty()) {
        const doca_error_t result = doca_task_submit(idle_sends_.back());
        if (result == DOCA_ERROR_AGAIN) {
            return;
        }
        DOCA_ERROR_PROPAGATE(failure_, result);
        if (result != DOCA_SUCCESS) {
            return;
        }
        idle_sends_.pop_back();
        ++submitted_;
        --owed_;
    }
}

void DocaWorker::send_burst() {
    std::uint64_t more = std::min<std::uint64_t>(owed_, burst);
    owed_ -= more;
    std::swap(owed_, more);
    send();
    owed_ += more;
}

/// A round trip is over; the next begins at once, if there is to be one.
void DocaWorker::note_round_trip() {
    const std::uint64_t now = Clock::now();
    round_trips_->record(now - round_trip_began_);
    round_trip_began_ = now;
    answers_ = received_ < goal_;
}

void DocaWorker::ping(std::uint64_t goal, Histogram& round_trips) {
    round_trips.clear();
    round_trips_ = &round_trips;
    goal_ = goal;
    answers_ = true;
    round_trip_began_ = Clock::now();
    owed_ = received_ < goal ? 1 : 0;
    send();
    while (received_ < goal) {
        progress();
        if (owed_ != 0) [[unlikely]] {
            send();
        }
    }
    round_trips_ = nullptr;
}

void DocaWorker::stream(std::uint64_t goal) {
    owed_ = goal - submitted_;
    while (completed_ < goal) {
        send_burst();
        progress();
    }
}

DocaWorker::Measured DocaWorker::run(std::uint64_t warm_up, std::uint64_t messages) {
    Measured measured;
    std::uint64_t began = 0;
    for (const std::uint64_t goal : {warm_up, warm_up + messages}) {
        began = Clock::now();
        if (plan_.mode == Mode::ping_pong) {
            ping(goal, measured.round_trips);
        } else {
            stream(goal);
        }
    }
    measured.seconds = Clock::seconds(static_cast<double>(Clock::now() - began));
    while (completed_ != submitted_) {
        progress();
    }
    return measured;
}

void DocaWorker::serve(std::uint64_t messages) {
    answers_ = plan_.mode == Mode::ping_pong;
    while (received_ < messages || owed_ != 0 || completed_ != submitted_) {
        progress();
        if (owed_ != 0) {
            send();
        }
    }
    // The last ones count as arrived at the client once nothing more is found here.
    while (doca_pe_progress(pe_) != 0) {
    }
}

} // namespace comch::perftest
