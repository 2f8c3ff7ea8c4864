// The CPU's producers and consumers of message queues.
#include <algorithm>

#include "doca_comch/common/status.hpp"
#include "doca_comch/msgq/msgq.hpp"

namespace comch::doca {

// ---- producer -----------------------------------------------------------------------------------

QueueProducer::QueueProducer(doca_comch_msgq& queue, std::uint32_t id)
    : ProgressSource{
          .progress =
              [](ProgressSource& self) { return static_cast<QueueProducer&>(self).progress(); },
          .arm = [](ProgressSource& self) { return static_cast<QueueProducer&>(self).arm(); }},
      queue_(queue), id_(id) {
    ++queue_.living_producers;
    ++queue_.users;
}

doca_error_t QueueProducer::begin_start() {
    refused_.reserve(queue_.max_consumers);
    const doca_error_t result = prepare(begin_send);
    if (result == DOCA_SUCCESS) {
        pe()->engine().add(*this);
    }
    return result;
}

doca_error_t QueueProducer::begin_send(doca_task& base) {
    auto& task = static_cast<ProducerTask&>(base);
    auto& self = static_cast<QueueProducer&>(*task.ctx);
    if (task.buffer != nullptr || task.immediate_length == 0 ||
        task.immediate_length > limits::immediate_data_size) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    QueueEnd* const end = self.queue_.find(task.consumer);
    if (end == nullptr) {
        return DOCA_ERROR_NOT_FOUND;
    }
    const auto put = end->put(
        {reinterpret_cast<const std::byte*>(task.immediate), task.immediate_length}, self.id_);
    if (!self.refused_.empty()) {
        std::erase(self.refused_, end);
    }
    switch (put) {
    case QueueEnd::Put::closed:
        return DOCA_ERROR_NOT_FOUND;
    case QueueEnd::Put::no_credit:
        self.refused_.push_back(end); // there is room for each
        return DOCA_ERROR_AGAIN;
    case QueueEnd::Put::done:
        break;
    }
    // The message is there; the program is told by progress, as of every task.
    base.next = nullptr;
    *self.done_end_ = &base;
    self.done_end_ = &base.next;
    return DOCA_SUCCESS;
}

unsigned QueueProducer::report_done() {
    unsigned handled = 0;
    doca_task* task = done_;
    done_ = nullptr;
    done_end_ = &done_;
    while (task != nullptr) {
        doca_task* const next = task->next;
        complete(*task, DOCA_SUCCESS);
        task = next;
        ++handled;
    }
    return handled;
}

unsigned QueueProducer::progress() {
    const unsigned handled = report_done();
    // Something, even if nothing has to be done: a send that was told AGAIN is answered otherwise.
    return handled + static_cast<unsigned>(std::erase_if(
                         refused_, [](const QueueEnd* end) { return end->answers_otherwise(); }));
}

Errc QueueProducer::arm() {
    if (done_ != nullptr) {
        return Errc::again;
    }
    if (refused_.empty()) {
        return Errc::ok;
    }
    return guarded_or(Errc::again, [&] { // better awake than asleep for ever
        queue_.sleeping_producers.add(pe()->engine());
        return std::all_of(refused_.begin(), refused_.end(),
                           [](QueueEnd* end) { return end->arm_producer(); })
                   ? Errc::ok
                   : Errc::again;
    });
}

void QueueProducer::closed() {
    pe()->engine().remove(*this);
    // Another producer of this engine asks anew: the program is awake.
    queue_.sleeping_producers.remove(pe()->engine());
    refused_.clear();
}

// ---- consumer -----------------------------------------------------------------------------------

QueueConsumer::QueueConsumer(doca_comch_msgq& queue, QueueEnd& end)
    : ProgressSource{
          .progress =
              [](ProgressSource& self) { return static_cast<QueueConsumer&>(self).receive(); },
          .arm =
              [](ProgressSource& self) {
                  return static_cast<QueueConsumer&>(self).end_.arm() ? Errc::ok : Errc::again;
              }},
      queue_(queue), end_(end) {
    ++queue_.users;
}

doca_error_t QueueConsumer::begin_start() {
    const doca_error_t result = prepare(begin_post);
    if (result != DOCA_SUCCESS) {
        return result;
    }
    pe()->engine().add(*this);
    const doca_error_t opened = guarded([&] {
        end_.open(
            task_count(), [](void* user) { static_cast<ProgressEngine*>(user)->wake(); },
            &pe()->engine());
        return DOCA_SUCCESS;
    });
    if (opened != DOCA_SUCCESS) {
        pe()->engine().remove(*this);
    }
    return opened;
}

doca_error_t QueueConsumer::begin_post(doca_task& base) {
    auto& task = static_cast<ConsumerTask&>(base);
    auto& self = static_cast<QueueConsumer&>(*task.ctx);
    if (task.buffer != nullptr) {
        return DOCA_ERROR_INVALID_VALUE; // messages are immediate data only
    }
    if (!self.end_.post(1)) {
        return DOCA_ERROR_AGAIN;
    }
    base.next = nullptr;
    *self.posted_end_ = &base;
    self.posted_end_ = &base.next;
    return DOCA_SUCCESS;
}

ConsumerTask& QueueConsumer::pop_posted() {
    doca_task& task = *posted_;
    posted_ = task.next;
    if (posted_ == nullptr) {
        posted_end_ = &posted_;
    }
    return static_cast<ConsumerTask&>(task);
}

unsigned QueueConsumer::receive() {
    constexpr unsigned at_once = 64; // others have their turn
    unsigned handled = 0;
    QueueMessage message;
    while (handled < at_once && posted_ != nullptr && state() == DOCA_CTX_STATE_RUNNING &&
           end_.take(message)) {
        finish(pop_posted(), DOCA_SUCCESS, 0, message.immediate(), message.producer);
        ++handled;
    }
    return handled;
}

doca_error_t QueueConsumer::begin_stop() {
    end_.close();
    end_.withdraw();
    return DOCA_SUCCESS;
}

unsigned QueueConsumer::drain() {
    unsigned handled = 0;
    while (posted_ != nullptr) {
        finish(pop_posted(), DOCA_ERROR_SHUTDOWN, 0, {}, 0);
        ++handled;
    }
    QueueMessage message;
    while (end_.take(message)) { // nobody is there to take it
    }
    return handled;
}

} // namespace comch::doca
