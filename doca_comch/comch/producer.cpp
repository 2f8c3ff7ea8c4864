#include "doca_comch/comch/producer.hpp"

#include <utility>

#include "doca_comch/comch/control.hpp"

namespace comch::doca {

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

doca_error_t ProducerContext::prepare(doca_error_t (*begin)(doca_task&)) {
    if (task_count_ == 0) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the producer: configure its send tasks first");
    }
    set_tasks(store_.allocate(task_count_, [&](ProducerTask& task) {
        task.ctx = this;
        task.begin = begin;
        task.report = report_;
    }));
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

// ---- on a connection
// ----------------------------------------------------------------------------

doca_error_t ConnectionProducer::create(ConnectionHandle* handle, ProducerContext*& producer) {
    if (handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ControlContext* const owner = handle->owner();
    if (owner == nullptr) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    if (!owner->hears_of_consumers()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a producer: its server or client did "
                                            "not register for consumers");
    }
    producer = new ConnectionProducer(*handle);
    return DOCA_SUCCESS;
}

doca_error_t ConnectionProducer::begin_start() {
    if (const doca_error_t result = prepare(begin_send); result != DOCA_SUCCESS) {
        return result;
    }
    return handle_.attach(generation_, [&](Connection& connection) {
        ProducerHandlers handlers;
        handlers.user = this;
        handlers.sent = [](void*, void* cookie, Errc status) {
            auto& task = *static_cast<doca_task*>(cookie);
            task.ctx->complete(task, to_doca(status));
        };
        handlers.state_changed = [](void* user, State state) {
            if (state == State::stopping) {
                static_cast<ConnectionProducer*>(user)->fail();
            }
        };
        auto opened =
            Producer::open(pe()->engine(), connection, {.max_in_flight = task_count()}, handlers);
        if (!opened) {
            return refuse(opened.error());
        }
        core_ = std::move(*opened);
        return DOCA_SUCCESS;
    });
}

doca_error_t ConnectionProducer::begin_send(doca_task& base) {
    auto& task = static_cast<ProducerTask&>(base);
    SendBuffer buffer;
    if (const doca_error_t result = describe(task, buffer); result != DOCA_SUCCESS) [[unlikely]] {
        return result;
    }
    auto& self = static_cast<ConnectionProducer&>(*task.ctx);
    return to_doca(self.core_->send(task.consumer, buffer, &base));
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
    pe()->bury(std::shared_ptr<Producer>(std::move(core_)));
}

void ConnectionProducer::closed() {
    handle_.detach(generation_);
    pe()->bury(std::shared_ptr<Producer>(std::move(core_)));
}

} // namespace comch::doca
