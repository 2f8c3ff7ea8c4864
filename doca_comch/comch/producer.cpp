#include "doca_comch/comch/producer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/channel/tuning.hpp"
#include "doca_comch/comch/control.hpp"

namespace comch::doca {
namespace {

/// Answers that a program may handle before progress tells it of the sends that they answer.
constexpr std::uint32_t most_spares = 64;

} // namespace

doca_error_t ProducerContext::set_tasks_conf(Callback done, Callback failed, Report report,
                                             std::uint32_t count) {
    if (done == nullptr || failed == nullptr || count == 0 || count > limits::producer_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    on_sent = done;
    on_failed = failed;
    report_ = report;
    task_count_ = count;
    return DOCA_SUCCESS;
}

doca_error_t ProducerContext::prepare(Begin begin, std::uint32_t spares) {
    if (task_count_ == 0) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the producer: configure its send tasks first");
    }
    set_tasks(store_.allocate(task_count_ + spares, *this), begin, report_);
    return DOCA_SUCCESS;
}

doca_error_t ProducerContext::allocate_task(const doca_buf* buffer, std::uint8_t* immediate,
                                            std::uint32_t immediate_length, std::uint32_t consumer,
                                            ProducerTask*& task) {
    if ((immediate == nullptr) != (immediate_length == 0) ||
        immediate_length > limits::immediate_data_size ||
        (buffer == nullptr && immediate == nullptr)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (state() != DOCA_CTX_STATE_RUNNING && !(lenient && state() == DOCA_CTX_STATE_STOPPING)) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (allocated() >= task_count_ && allocated() - task_count_ >= untold()) {
        return DOCA_ERROR_NO_MEMORY;
    }
    task = static_cast<ProducerTask*>(take_task());
    if (task == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    task->buffer = buffer;
    task->immediate = immediate;
    task->immediate_length = immediate_length;
    task->consumer = consumer;
    return DOCA_SUCCESS;
}

// ---- on a connection ----------------------------------------------------------------------------

ConnectionProducer::ConnectionProducer(ConnectionHandle& handle)
    : ProgressSource{.progress =
                         [](ProgressSource& self) {
                             return static_cast<ConnectionProducer&>(self).send_waiting();
                         },
                     // What the consumer says of its buffers wakes the core's producer.
                     .arm = [](ProgressSource&) { return Errc::ok; }},
      handle_(handle), generation_(handle.generation()) {}

doca_error_t ConnectionProducer::create(ConnectionHandle* handle, ProducerContext*& producer) {
    if (handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ControlContext* const owner = handle->owner();
    if (owner == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a producer: the connection has ended");
    }
    if (!owner->hears_of_consumers()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a producer: its server or client did "
                                            "not register for consumers");
    }
    producer = new ConnectionProducer(*handle);
    return DOCA_SUCCESS;
}

doca_error_t ConnectionProducer::begin_start() {
    const std::uint32_t spares =
        std::min({task_count(), most_spares, limits::producer_tasks - task_count()});
    if (const doca_error_t result = prepare(begin_send, spares); result != DOCA_SUCCESS) {
        return result;
    }
    return handle_.attach(generation_, [&](Connection& connection) {
        ProducerHandlers handlers;
        handlers.user = this;
        handlers.sent = [](void*, void* cookie, Errc status) {
            finish(static_cast<ProducerTask&>(*static_cast<doca_task*>(cookie)), to_doca(status));
        };
        handlers.state_changed = [](void* user, State state) {
            if (state == State::stopping) {
                static_cast<ConnectionProducer*>(user)->fail();
            }
        };
        auto opened = Producer::open(pe()->engine(), connection,
                                     {.max_in_flight = task_count() + spares}, handlers);
        if (!opened) {
            return refuse(opened.error());
        }
        core_ = std::move(*opened);
        return DOCA_SUCCESS;
    });
}

std::uint32_t ConnectionProducer::untold() {
    if (core_ == nullptr) {
        return 0;
    }
    return pe()->in_progress() ? inflight() : core_->completed();
}

doca_error_t ConnectionProducer::put(ProducerTask& task) {
    SendBuffer buffer;
    if (const doca_error_t result = describe(task, buffer); result != DOCA_SUCCESS) [[unlikely]] {
        return result;
    }
    buffer.more = task.more;
    const Errc sent = core_->send(task.consumer, buffer, static_cast<doca_task*>(&task));
    if (sent != Errc::ok) {
        return to_doca(sent);
    }
    // Shorter messages are on the link by now, and what holding their buffers costs would show. But
    // one may be behind a long one that is not.
    if (buffer.data.size() >= channel::tuning::shortest_direct || held_ != 0) {
        hold(task);
    }
    return DOCA_SUCCESS;
}

void ConnectionProducer::hold(ProducerTask& task) noexcept {
    if (task.buffer != nullptr && !task.held) {
        const_cast<doca_buf*>(task.buffer)->take_for_reading();
        task.held = true;
        ++held_;
    }
}

void ConnectionProducer::finish(ProducerTask& task, doca_error_t status) {
    if (task.held) {
        task.held = false;
        --static_cast<ConnectionProducer*>(task.ctx)->held_;
        const_cast<doca_buf*>(task.buffer)->return_from_reading();
    }
    task.ctx->complete(task, status);
}

doca_error_t ConnectionProducer::begin_send(doca_task& base) {
    auto& task = static_cast<ProducerTask&>(base);
    auto& self = static_cast<ConnectionProducer&>(*task.ctx);
    if (self.waits_for(task.consumer)) [[unlikely]] {
        if (!task.more) {
            self.flush(); // of what was sent to others
        }
        return self.wait(task);
    }
    const doca_error_t result = self.put(task);
    if (result == DOCA_ERROR_INVALID_VALUE && !task.more) [[unlikely]] {
        self.flush(); // the core may not have seen it
    }
    return task.consumer == self.last_reached_ ? result : self.wait_or_refuse(task, result);
}

doca_error_t ConnectionProducer::wait_or_refuse(ProducerTask& task, doca_error_t result) {
    if (result == DOCA_SUCCESS) {
        reached(task.consumer);
        return result;
    }
    return result == DOCA_ERROR_AGAIN && !reached_.contains(task.consumer) ? wait(task) : result;
}

doca_error_t ConnectionProducer::wait(ProducerTask& task) {
    SendBuffer buffer;
    if (const doca_error_t result = describe(task, buffer); result != DOCA_SUCCESS) {
        return result;
    }
    if (task.immediate_length > task.keep.size()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    TaskQueue<ProducerTask>& queue = queue_of(task.consumer);
    if (!in_engine_) {
        pe()->engine().add(*this); // only while something waits: progress costs the others
        in_engine_ = true;
    }
    if (task.immediate_length != 0) {
        std::memcpy(task.keep.data(), task.immediate, task.immediate_length);
        task.kept = true;
    }
    hold(task);
    queue.push(task);
    return DOCA_SUCCESS;
}

void ConnectionProducer::reached(std::uint32_t consumer) {
    last_reached_ = consumer;
    if (reached_.size() > limits::consumers_per_connection) {
        reached_.clear(); // most are gone; to the others one send more may wait
    }
    (void)guarded([&] {
        reached_.insert(
            consumer); // else one send more may wait: the one that told us is on its way
        return DOCA_SUCCESS;
    });
}

bool ConnectionProducer::waits_for(std::uint32_t consumer) const noexcept {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
        return waiting.consumer == consumer && !waiting.tasks.empty();
    });
}

TaskQueue<ProducerTask>& ConnectionProducer::queue_of(std::uint32_t consumer) {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
        return waiting.consumer == consumer;
    });
    return found != waiting_.end() ? found->tasks
                                   : waiting_.emplace_back(Waiting{consumer, {}}).tasks;
}

ProducerTask& ConnectionProducer::pop(TaskQueue<ProducerTask>& tasks) noexcept {
    ProducerTask& task = tasks.pop();
    task.kept = false;
    return task;
}

unsigned ConnectionProducer::send_waiting() {
    unsigned handled = 0;
    // By index: callbacks may submit.
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        while (!waiting_[i].tasks.empty() && state() == DOCA_CTX_STATE_RUNNING) {
            const doca_error_t result = put(waiting_[i].tasks.front());
            if (result == DOCA_ERROR_AGAIN) {
                break;
            }
            ProducerTask& task = pop(waiting_[i].tasks);
            ++handled;
            if (result == DOCA_SUCCESS) {
                reached(task.consumer);
            } else {
                finish(task, result);
            }
        }
    }
    leave_when_none_waits();
    return handled;
}

void ConnectionProducer::leave_when_none_waits() {
    std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.tasks.empty(); });
    if (waiting_.empty() && in_engine_) {
        pe()->engine().remove(*this);
        in_engine_ = false;
    }
}

unsigned ConnectionProducer::flush_waiting(doca_error_t status) {
    unsigned handled = 0;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        while (!waiting_[i].tasks.empty()) {
            finish(pop(waiting_[i].tasks), status);
            ++handled;
        }
    }
    leave_when_none_waits();
    return handled;
}

unsigned ConnectionProducer::drain() {
    return flush_waiting(DOCA_ERROR_SHUTDOWN);
}

doca_error_t ConnectionProducer::begin_stop() {
    // It may have ended with its connection.
    if (core_->state() == State::running) {
        (void)core_->stop();
    }
    return DOCA_SUCCESS;
}

bool ConnectionProducer::drained() const noexcept {
    return core_ == nullptr || core_->state() == State::idle;
}

void ConnectionProducer::drain_now() {
    pe()->bury(std::move(core_));
}

void ConnectionProducer::closed() {
    pe()->engine().remove(*this);
    in_engine_ = false;
    reached_.clear();
    last_reached_ = 0;
    handle_.detach(generation_);
    pe()->bury(std::move(core_));
}

} // namespace comch::doca
