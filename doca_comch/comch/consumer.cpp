#include "doca_comch/comch/consumer.hpp"

#include <utility>

#include "doca_comch/comch/control.hpp"

namespace comch::doca {

doca_error_t ConsumerContext::set_tasks_conf(Callback done, Callback failed, Report report,
                                             std::uint32_t count) {
    if (done == nullptr || failed == nullptr || count == 0 || count > limits::consumer_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    on_received = done;
    on_failed = failed;
    report_ = report;
    task_count_ = count;
    return DOCA_SUCCESS;
}

doca_error_t ConsumerContext::set_immediate_length(std::uint32_t length) {
    if (length > limits::immediate_data_size) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    immediate_length_ = length;
    return DOCA_SUCCESS;
}

doca_error_t ConsumerContext::prepare(Begin begin) {
    if (task_count_ == 0) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the consumer: configure its post receive tasks first");
    }
    set_tasks(store_.allocate(task_count_, *this), begin, report_);
    return DOCA_SUCCESS;
}

doca_error_t ConsumerContext::allocate_task(doca_buf* buffer, ConsumerTask*& task) {
    if (state() != DOCA_CTX_STATE_RUNNING && !(lenient && state() == DOCA_CTX_STATE_STOPPING)) {
        return DOCA_ERROR_BAD_STATE;
    }
    task = static_cast<ConsumerTask*>(take_task());
    if (task == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    task->buffer = buffer;
    task->immediate = nullptr;
    task->immediate_length = 0;
    task->producer = 0;
    return DOCA_SUCCESS;
}

// ---- on a connection ----------------------------------------------------------------------------

namespace {

bool fit_to_receive(const doca_mmap& mmap) {
    return mmap.started() && !mmap.imported() &&
           (mmap.access & DOCA_ACCESS_FLAG_PCI_READ_WRITE) != 0;
}

} // namespace

ConnectionConsumer::ConnectionConsumer(ConnectionHandle& handle, doca_mmap& mmap)
    : handle_(handle), generation_(handle.generation()), mmap_(mmap), mmap_life_(mmap.life),
      next_id_(handle.reserve_consumer_id(generation_)) {}

doca_error_t ConnectionConsumer::create(ConnectionHandle* handle, doca_mmap* mmap,
                                        ConsumerContext*& consumer) {
    if (handle == nullptr || mmap == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!fit_to_receive(*mmap)) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot create a consumer: its memory map must be this process's own, "
                      "started, and have DOCA_ACCESS_FLAG_PCI_READ_WRITE");
    }
    ControlContext* const owner = handle->owner();
    if (owner == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a consumer: the connection has ended");
    }
    if (!owner->hears_of_consumers()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a consumer: its server or client did "
                                            "not register for consumers");
    }
    consumer = new ConnectionConsumer(*handle, *mmap);
    return DOCA_SUCCESS;
}

doca_error_t ConnectionConsumer::begin_start() {
    if (mmap_life_.expired() || !fit_to_receive(mmap_)) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the consumer: its memory map was stopped "
                                            "or destroyed, or has other permissions by now");
    }
    if (const doca_error_t result = prepare(begin_post); result != DOCA_SUCCESS) {
        return result;
    }
    bool answered = false;
    const doca_error_t result = guarded([&] {
        const doca_error_t opened = handle_.attach(
            generation_, [&](Connection& connection) { return open_core(connection); });
        answered = true;
        return opened;
    });
    if (!answered) {
        next_id_ = handle_.reserve_consumer_id(generation_); // the other end may have heard of it
    }
    return result == DOCA_SUCCESS ? DOCA_ERROR_IN_PROGRESS : result;
}

doca_error_t ConnectionConsumer::open_core(Connection& connection) {
    ConsumerHandlers handlers;
    handlers.user = this;
    handlers.received = [](void*, const Received& received) {
        finish(*static_cast<ConsumerTask*>(received.cookie), to_doca(received.status),
               received.length, received.immediate, received.producer);
    };
    handlers.state_changed = [](void* user, State state) {
        auto& self = *static_cast<ConnectionConsumer*>(user);
        if (state == State::running && self.state() == DOCA_CTX_STATE_STARTING) {
            self.enter(DOCA_CTX_STATE_RUNNING);
        } else if (state == State::stopping) {
            self.fail();
        }
    };
    auto opened =
        Consumer::open(pe()->engine(), connection,
                       // Hardware tells its sender whatever the receiver does then.
                       {.max_posted = task_count(), .id = next_id_, .prompt = true}, handlers);
    if (!opened) {
        return refuse(opened.error());
    }
    core_ = std::move(*opened);
    mmap_.consumers.fetch_add(1, std::memory_order_relaxed);
    return DOCA_SUCCESS;
}

doca_error_t ConnectionConsumer::begin_post(doca_task& base) {
    auto& task = static_cast<ConsumerTask&>(base);
    auto& self = static_cast<ConnectionConsumer&>(*task.ctx);
    ReceiveBuffer place;
    if (doca_buf* const buffer = task.buffer; buffer != nullptr) [[likely]] {
        if (buffer->mmap != &self.mmap_ || buffer->chained() || buffer->references == 0)
            [[unlikely]] {
            return DOCA_ERROR_INVALID_VALUE;
        }
        place.address = buffer->data;
        place.length = buffer->data_length;
        place.capacity = buffer->data_length + buffer->tail_room();
        place.memory = self.mmap_.map.get();
    }
    const Errc result = self.core_->post(place, &task);
    if (result == Errc::ok && task.buffer != nullptr) [[likely]] {
        task.buffer->take_for_task();
    }
    return to_doca(result);
}

doca_error_t ConnectionConsumer::begin_stop() {
    // It may have ended with its connection.
    if (core_->state() == State::running || core_->state() == State::starting) {
        (void)core_->stop();
    }
    return DOCA_SUCCESS;
}

bool ConnectionConsumer::drained() const noexcept {
    return core_ == nullptr || core_->state() == State::idle;
}

void ConnectionConsumer::drain_now() {
    pe()->bury(std::move(core_));
}

void ConnectionConsumer::closed() {
    // Release: who sees the map unused sees this thread done with it.
    mmap_.consumers.fetch_sub(1, std::memory_order_release);
    // Each start makes another consumer for the other end.
    next_id_ = handle_.reserve_consumer_id(generation_);
    handle_.detach(generation_);
    pe()->bury(std::move(core_));
}

} // namespace comch::doca
