// doca_comch_msgq.h, and what the queue itself does.
#include "doca_comch/msgq/msgq.hpp"

#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::ConsumerContext;
using comch::doca::DpaConsumer;
using comch::doca::DpaProducer;
using comch::doca::guarded;
using comch::doca::QueueConsumer;
using comch::doca::QueueEnd;
using comch::doca::QueueProducer;
using comch::doca::refuse;

QueueEnd* doca_comch_msgq::find(std::uint32_t id) const noexcept {
    return id == 0 || id > ends_.size() ? nullptr : ends_[id - 1].load(std::memory_order_acquire);
}

namespace {

doca_error_t set_direction(doca_comch_msgq* msgq, doca_dpa* dpa, bool dpa_consumes) {
    if (msgq == nullptr || dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (msgq->started || msgq->dpa != nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot set the message queue's direction: it has one, "
                                            "and each queue has one only");
    }
    msgq->dpa = dpa;
    msgq->dpa_consumes = dpa_consumes;
    ++dpa->users;
    return DOCA_SUCCESS;
}

doca_error_t set_maximum(doca_comch_msgq* msgq, std::uint32_t value,
                         std::uint32_t doca_comch_msgq::*member) {
    if (msgq == nullptr || value == 0 || value > comch::limits::consumers_per_connection) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (msgq->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    msgq->*member = value;
    return DOCA_SUCCESS;
}

doca_error_t unused(const doca_comch_msgq& msgq) {
    return msgq.users == 0 ? DOCA_SUCCESS
                           : refuse(DOCA_ERROR_IN_USE, "consumers or producers of the message "
                                                       "queue are not destroyed");
}

} // namespace

doca_error_t doca_comch_msgq_create(doca_dev* dev, doca_comch_msgq** msgq) {
    if (!comch::doca::is_open(dev) || msgq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *msgq = new doca_comch_msgq;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comch_msgq_destroy(doca_comch_msgq* msgq) {
    if (msgq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = unused(*msgq); result != DOCA_SUCCESS) {
        return result;
    }
    if (msgq->started) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot destroy the message queue: stop it first");
    }
    delete msgq;
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_msgq_set_dpa_consumer(doca_comch_msgq* msgq, doca_dpa* dpa) {
    return set_direction(msgq, dpa, true);
}

doca_error_t doca_comch_msgq_set_dpa_producer(doca_comch_msgq* msgq, doca_dpa* dpa) {
    return set_direction(msgq, dpa, false);
}

doca_error_t doca_comch_msgq_set_max_num_consumers(doca_comch_msgq* msgq,
                                                   uint32_t max_num_consumers) {
    return set_maximum(msgq, max_num_consumers, &doca_comch_msgq::max_consumers);
}

doca_error_t doca_comch_msgq_set_max_num_producers(doca_comch_msgq* msgq,
                                                   uint32_t max_num_producers) {
    return set_maximum(msgq, max_num_producers, &doca_comch_msgq::max_producers);
}

doca_error_t doca_comch_msgq_start(doca_comch_msgq* msgq) {
    if (msgq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (msgq->started || msgq->dpa == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot start the message queue: it is started already, or has no direction "
                      "(doca_comch_msgq_set_dpa_consumer, doca_comch_msgq_set_dpa_producer)");
    }
    return guarded([&] {
        // Nobody uses those of before: a queue with consumers or producers does not stop.
        msgq->ends_ = std::vector<std::atomic<QueueEnd*>>(msgq->max_consumers);
        msgq->made_.clear();
        msgq->made_.reserve(msgq->max_consumers);
        msgq->started = true;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comch_msgq_stop(doca_comch_msgq* msgq) {
    if (msgq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!msgq->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    const doca_error_t result = unused(*msgq);
    if (result == DOCA_SUCCESS) {
        msgq->started = false;
    }
    return result;
}

doca_error_t doca_comch_msgq_consumer_create(doca_comch_msgq* msgq,
                                             doca_comch_consumer** consumer) {
    if (msgq == nullptr || consumer == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!msgq->started) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a consumer: the queue is not started");
    }
    return guarded([&] {
        ConsumerContext* const made = msgq->add_consumer([&](QueueEnd& end) -> ConsumerContext* {
            if (msgq->dpa_consumes) {
                return new DpaConsumer(*msgq, end);
            }
            return new QueueConsumer(*msgq, end);
        });
        if (made == nullptr) {
            return DOCA_ERROR_NO_MEMORY;
        }
        *consumer = reinterpret_cast<doca_comch_consumer*>(made);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comch_msgq_producer_create(doca_comch_msgq* msgq,
                                             doca_comch_producer** producer) {
    if (msgq == nullptr || producer == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!msgq->started) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a producer: the queue is not started");
    }
    if (msgq->living_producers == msgq->max_producers) {
        return DOCA_ERROR_NO_MEMORY;
    }
    return guarded([&] {
        const std::uint32_t id = msgq->producers + 1;
        comch::doca::ProducerContext* made = nullptr;
        if (msgq->dpa_consumes) {
            made = new QueueProducer(*msgq, id);
        } else {
            made = new DpaProducer(*msgq, id);
        }
        msgq->producers = id;
        *producer = reinterpret_cast<doca_comch_producer*>(made);
        return DOCA_SUCCESS;
    });
}
