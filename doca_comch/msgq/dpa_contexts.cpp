// The DPA's producers and consumers of message queues, and the calls that programs on it make.
#include <algorithm>
#include <cstring>

#include <doca_dpa_dev_comch_msgq.h>

#include "doca_comch/common/mmap.hpp"
#include "doca_comch/common/mmap_handles.hpp"
#include "doca_comch/common/status.hpp"
#include "doca_comch/dpa/copy_and_wait.hpp"
#include "doca_comch/msgq/msgq.hpp"

namespace comch::doca {
namespace {

doca_error_t not_configured() {
    return refuse(DOCA_ERROR_INVALID_VALUE,
                  "cannot start the DPA's end of a message queue: give it its data path "
                  "(doca_ctx_set_datapath_on_dpa), its number of operations and its completion");
}

} // namespace

// ---- producer -----------------------------------------------------------------------------------

DpaProducer::~DpaProducer() {
    if (completion_ != nullptr) {
        --completion_->users;
    }
    --queue_.living_producers;
    --queue_.users;
}

doca_error_t DpaProducer::set_dpa(doca_dpa* dpa) {
    if (dpa != queue_.dpa) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    on_dpa_ = true;
    return DOCA_SUCCESS;
}

doca_error_t DpaProducer::set_dpa_sends(std::uint32_t count) {
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    sends_ = count;
    return DOCA_SUCCESS;
}

doca_error_t DpaProducer::attach_dpa_completion(doca_dpa_completion* completion) {
    if (!idle() || !completion->started() || completion_ != nullptr) {
        return DOCA_ERROR_BAD_STATE;
    }
    completion_ = completion;
    ++completion_->users;
    return DOCA_SUCCESS;
}

doca_error_t DpaProducer::begin_start() {
    if (!on_dpa_ || sends_ == 0 || completion_ == nullptr) {
        return not_configured();
    }
    unreported_ = 0;
    open_.store(true, std::memory_order_release);
    return DOCA_SUCCESS;
}

doca_error_t DpaProducer::begin_stop() {
    open_.store(false, std::memory_order_release);
    return DOCA_SUCCESS;
}

doca_error_t DpaProducer::dpa_handle(std::uint64_t* handle) {
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return DOCA_ERROR_BAD_STATE;
    }
    *handle = reinterpret_cast<std::uintptr_t>(this);
    return DOCA_SUCCESS;
}

void DpaProducer::send(std::uint32_t consumer, std::span<const std::byte> immediate,
                       std::uint32_t flags) {
    if (!open_.load(std::memory_order_acquire)) {
        return;
    }
    QueueEnd* const end = queue_.find(consumer);
    if (end == nullptr || end->put(immediate, id_) != QueueEnd::Put::done) {
        fail_send(); // what finds no room is lost, as on the device
        return;
    }
    ++unreported_;
    if ((flags & DOCA_DPA_DEV_SUBMIT_FLAG_OPTIMIZE_REPORTS) == 0) {
        completion_->add(unreported_.exchange(0),
                         {DOCA_DPA_DEV_COMP_SEND, static_cast<std::uint32_t>(user_data.u64)});
    }
}

void DpaProducer::fail_send() {
    if (open_.load(std::memory_order_acquire)) {
        completion_->add(unreported_.exchange(0) + 1,
                         {DOCA_DPA_DEV_COMP_SEND_ERR, static_cast<std::uint32_t>(user_data.u64)});
    }
}

bool DpaProducer::is_empty(std::uint32_t consumer) const {
    const QueueEnd* const end = queue_.find(consumer);
    return end == nullptr || end->empty_of_credits();
}

// ---- consumer -----------------------------------------------------------------------------------

DpaConsumer::~DpaConsumer() {
    if (completion_ != nullptr) {
        --completion_->users;
    }
    --queue_.users;
}

doca_error_t DpaConsumer::set_dpa(doca_dpa* dpa) {
    if (dpa != queue_.dpa) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    on_dpa_ = true;
    return DOCA_SUCCESS;
}

doca_error_t DpaConsumer::set_dpa_receives(std::uint32_t count) {
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (count > limits::consumer_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    receives_ = count;
    return DOCA_SUCCESS;
}

doca_error_t DpaConsumer::set_completion(doca_comch_consumer_completion* completion,
                                         std::uint32_t data) {
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    ++completion->users;
    if (completion_ != nullptr) {
        --completion_->users;
    }
    completion_ = completion;
    completion_data_ = data;
    return DOCA_SUCCESS;
}

doca_error_t DpaConsumer::begin_start() {
    if (!on_dpa_ || receives_ == 0 || completion_ == nullptr || !completion_->started) {
        return not_configured();
    }
    end_.open(
        receives_, [](void* user) { static_cast<doca_comch_consumer_completion*>(user)->notify(); },
        completion_);
    if (!completion_->add(end_, completion_data_)) {
        end_.close();
        return refuse(DOCA_ERROR_NO_MEMORY,
                      "cannot start the consumer: its completion has as many as it may have "
                      "(doca_comch_consumer_completion_set_max_num_consumers)");
    }
    return DOCA_SUCCESS;
}

doca_error_t DpaConsumer::begin_stop() {
    end_.close();
    completion_->remove(end_);
    return DOCA_SUCCESS;
}

doca_error_t DpaConsumer::dpa_handle(std::uint64_t* handle) {
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return DOCA_ERROR_BAD_STATE;
    }
    *handle = reinterpret_cast<std::uintptr_t>(&end_);
    return DOCA_SUCCESS;
}

} // namespace comch::doca

using comch::doca::guarded;
using comch::doca::guarded_or;
using comch::doca::QueueEnd;

// ---- completions of consumers, the DPA's thread -------------------------------------------------

doca_comch_consumer_completion::Element* doca_comch_consumer_completion::get() {
    if (got - acknowledged >= max_receives) {
        return nullptr;
    }
    Element& element = elements[got % max_receives];
    for (std::uint32_t i = 0; i < max_consumers; ++i) {
        const std::uint32_t at = (next + i) % max_consumers;
        QueueEnd* const end = sources[at].end.load(std::memory_order_acquire);
        if (end != nullptr && end->take(element.message)) {
            element.consumer_data = sources[at].user_data;
            next = (at + 1) % max_consumers;
            ++got;
            return &element;
        }
    }
    return nullptr;
}

void doca_comch_consumer_completion::request_notification() {
    // Ask, then look whom to arm; add() does the opposite. At least one sees the other.
    requested_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::uint32_t i = 0; i < max_consumers; ++i) {
        QueueEnd* const end = sources[i].end.load(std::memory_order_acquire);
        if (end != nullptr && !end->arm()) {
            notify();
            return;
        }
    }
}

void doca_comch_consumer_completion::notify() {
    // Other consumers were armed for the same request.
    if (requested_.exchange(false, std::memory_order_acq_rel)) {
        thread->activate();
    }
}

bool doca_comch_consumer_completion::add(QueueEnd& end, std::uint32_t user_data) {
    for (std::uint32_t i = 0; i < max_consumers; ++i) {
        if (sources[i].end.load(std::memory_order_relaxed) == nullptr) {
            sources[i].user_data = user_data;
            // The thread may have asked already. The end is not its own yet, so it is armed here.
            const bool asked = requested_.load(std::memory_order_acquire);
            const bool armed = asked && end.arm();
            // Release: the DPA's thread then sees the end opened, and the data.
            sources[i].end.store(&end, std::memory_order_release);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            if (!armed && requested_.load(std::memory_order_relaxed)) {
                notify(); // it asked meanwhile, or there is something: let it look
            }
            ++used;
            return true;
        }
    }
    return false;
}

void doca_comch_consumer_completion::remove(const QueueEnd& end) {
    for (std::uint32_t i = 0; i < max_consumers; ++i) {
        if (sources[i].end.load(std::memory_order_relaxed) == &end) {
            sources[i].end.store(nullptr, std::memory_order_release);
            --used;
        }
    }
}

// ---- doca_comch_consumer_completion_* -----------------------------------------------------------

namespace {

doca_error_t set_number(doca_comch_consumer_completion* completion, std::uint32_t value,
                        std::uint32_t most, std::uint32_t doca_comch_consumer_completion::*member) {
    if (completion == nullptr || value == 0 || value > most) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (completion->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    completion->*member = value;
    return DOCA_SUCCESS;
}

doca_error_t get_number(const doca_comch_consumer_completion* completion, std::uint32_t* value,
                        std::uint32_t doca_comch_consumer_completion::*member) {
    if (completion == nullptr || value == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *value = completion->*member;
    return DOCA_SUCCESS;
}

} // namespace

doca_error_t doca_comch_consumer_completion_create(doca_comch_consumer_completion** consumer_comp) {
    if (consumer_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *consumer_comp = new doca_comch_consumer_completion;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comch_consumer_completion_destroy(doca_comch_consumer_completion* consumer_comp) {
    if (consumer_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (consumer_comp->users != 0) {
        return comch::doca::refuse(DOCA_ERROR_IN_USE, "cannot destroy the consumer completion: "
                                                      "consumers that use it are not destroyed");
    }
    if (consumer_comp->thread != nullptr) {
        --consumer_comp->thread->users;
    }
    delete consumer_comp;
    return DOCA_SUCCESS;
}

doca_error_t
doca_comch_consumer_completion_set_dpa_thread(doca_comch_consumer_completion* consumer_comp,
                                              doca_dpa_thread* dpa_thread) {
    if (consumer_comp == nullptr || dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (consumer_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    ++dpa_thread->users;
    if (consumer_comp->thread != nullptr) {
        --consumer_comp->thread->users;
    }
    consumer_comp->thread = dpa_thread;
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_consumer_completion_start(doca_comch_consumer_completion* consumer_comp) {
    if (consumer_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (consumer_comp->started || consumer_comp->thread == nullptr) {
        return comch::doca::refuse(DOCA_ERROR_BAD_STATE,
                                   "cannot start the consumer completion: it is started already, "
                                   "or has no DPA thread");
    }
    return guarded([&] {
        using Completion = doca_comch_consumer_completion;
        consumer_comp->sources =
            std::make_unique<Completion::Source[]>(consumer_comp->max_consumers);
        consumer_comp->elements =
            std::make_unique<Completion::Element[]>(consumer_comp->max_receives);
        consumer_comp->request_notification(); // the first message runs the thread: who should ask?
        consumer_comp->started = true;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comch_consumer_completion_stop(doca_comch_consumer_completion* consumer_comp) {
    if (consumer_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!consumer_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (consumer_comp->used != 0) {
        return DOCA_ERROR_IN_USE;
    }
    consumer_comp->started = false;
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_consumer_completion_get_dpa_handle(
    doca_comch_consumer_completion* consumer_comp,
    doca_dpa_dev_comch_consumer_completion_t* consumer_comp_handle) {
    if (consumer_comp == nullptr || consumer_comp_handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!consumer_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    *consumer_comp_handle = reinterpret_cast<std::uintptr_t>(consumer_comp);
    return DOCA_SUCCESS;
}

doca_error_t
doca_comch_consumer_completion_set_max_num_consumers(doca_comch_consumer_completion* consumer_comp,
                                                     uint32_t max_num_consumers) {
    return set_number(consumer_comp, max_num_consumers, comch::limits::consumers_per_connection,
                      &doca_comch_consumer_completion::max_consumers);
}

doca_error_t doca_comch_consumer_completion_get_max_num_consumers(
    const doca_comch_consumer_completion* consumer_comp, uint32_t* max_num_consumers) {
    return get_number(consumer_comp, max_num_consumers,
                      &doca_comch_consumer_completion::max_consumers);
}

doca_error_t
doca_comch_consumer_completion_set_max_num_recv(doca_comch_consumer_completion* consumer_comp,
                                                uint32_t max_num_recv) {
    return set_number(consumer_comp, max_num_recv, comch::limits::consumer_tasks,
                      &doca_comch_consumer_completion::max_receives);
}

doca_error_t
doca_comch_consumer_completion_get_max_num_recv(const doca_comch_consumer_completion* consumer_comp,
                                                uint32_t* max_num_recv) {
    return get_number(consumer_comp, max_num_recv, &doca_comch_consumer_completion::max_receives);
}

doca_error_t
doca_comch_consumer_completion_set_imm_data_len(doca_comch_consumer_completion* consumer_comp,
                                                uint32_t imm_data_len) {
    return set_number(consumer_comp, imm_data_len, comch::limits::immediate_data_size,
                      &doca_comch_consumer_completion::immediate_length);
}

doca_error_t
doca_comch_consumer_completion_get_imm_data_len(const doca_comch_consumer_completion* consumer_comp,
                                                uint32_t* imm_data_len) {
    return get_number(consumer_comp, imm_data_len,
                      &doca_comch_consumer_completion::immediate_length);
}

// ---- doca_dpa_dev_comch_msgq.h ------------------------------------------------------------------

namespace {

using comch::doca::DpaProducer;

doca_comch_consumer_completion* completion_of(doca_dpa_dev_comch_consumer_completion_t handle) {
    return reinterpret_cast<doca_comch_consumer_completion*>(handle);
}
const doca_comch_consumer_completion::Element*
element_of(doca_dpa_dev_comch_consumer_completion_element_t handle) {
    return reinterpret_cast<const doca_comch_consumer_completion::Element*>(handle);
}
DpaProducer* producer_of(doca_dpa_dev_comch_producer_t handle) {
    return reinterpret_cast<DpaProducer*>(handle);
}

/// The map, if a DPA program's address lies in it and may be used so; else null.
const doca_mmap* map_at(doca_dpa_dev_mmap_t handle, std::uint64_t address, std::size_t length,
                        bool writes) {
    const doca_mmap* const mmap = comch::doca::mmap_of(handle);
    if (mmap == nullptr || !mmap->started()) {
        return nullptr;
    }
    const std::uint32_t needed = mmap->imported()
                                     ? (writes ? comch::peer_write : comch::peer_read)
                                     : (writes ? comch::local_write : comch::local_read);
    return mmap->map->check(reinterpret_cast<void*>(address), length, needed) == comch::Errc::ok
               ? mmap
               : nullptr;
}

} // namespace

void doca_dpa_dev_comch_consumer_ack(doca_dpa_dev_comch_consumer_t consumer, uint32_t num_msg) {
    if (consumer != 0) {
        (void)reinterpret_cast<QueueEnd*>(consumer)->post(num_msg);
    }
}

int doca_dpa_dev_comch_consumer_get_completion(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle,
    doca_dpa_dev_comch_consumer_completion_element_t* comp_element) {
    if (consumer_comp_handle == 0 || comp_element == nullptr) {
        return 0;
    }
    const auto* const element = completion_of(consumer_comp_handle)->get();
    *comp_element = reinterpret_cast<std::uintptr_t>(element);
    return element != nullptr ? 1 : 0;
}

const uint8_t* doca_dpa_dev_comch_consumer_get_completion_imm(
    doca_dpa_dev_comch_consumer_completion_element_t comp_element, uint32_t* imm_length) {
    if (comp_element == 0 || imm_length == nullptr) {
        return nullptr;
    }
    const auto& message = element_of(comp_element)->message;
    *imm_length = message.length;
    return reinterpret_cast<const uint8_t*>(message.bytes.data());
}

uint32_t doca_dpa_dev_comch_consumer_get_completion_producer_id(
    doca_dpa_dev_comch_consumer_completion_element_t comp_element) {
    return comp_element == 0 ? 0 : element_of(comp_element)->message.producer;
}

void doca_dpa_dev_comch_consumer_completion_ack(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle, uint64_t num_comp) {
    if (consumer_comp_handle != 0) {
        auto& completion = *completion_of(consumer_comp_handle);
        completion.acknowledged += std::min(num_comp, completion.got - completion.acknowledged);
    }
}

void doca_dpa_dev_comch_consumer_completion_request_notification(
    doca_dpa_dev_comch_consumer_completion_t consumer_comp_handle) {
    if (consumer_comp_handle != 0) {
        completion_of(consumer_comp_handle)->request_notification();
    }
}

int doca_dpa_dev_comch_producer_is_consumer_empty(doca_dpa_dev_comch_producer_t producer,
                                                  uint32_t consumer_id) {
    return producer == 0 || producer_of(producer)->is_empty(consumer_id) ? 1 : 0;
}

void doca_dpa_dev_comch_producer_post_send_imm_only(doca_dpa_dev_comch_producer_t producer,
                                                    uint32_t consumer_id, const uint8_t* imm,
                                                    uint32_t imm_length, uint32_t flags) {
    if (producer == 0) {
        return;
    }
    if (imm == nullptr || imm_length > comch::limits::immediate_data_size) {
        producer_of(producer)->fail_send();
        return;
    }
    producer_of(producer)->send(consumer_id, {reinterpret_cast<const std::byte*>(imm), imm_length},
                                flags);
}

void doca_dpa_dev_comch_producer_dma_copy(doca_dpa_dev_comch_producer_t producer,
                                          uint32_t consumer_id, doca_dpa_dev_mmap_t dst_mmap,
                                          uint64_t dst_addr, doca_dpa_dev_mmap_t src_mmap,
                                          uint64_t src_addr, size_t length, const uint8_t* imm,
                                          uint32_t imm_length, uint32_t flags) {
    const doca_mmap* const to = map_at(dst_mmap, dst_addr, length, true);
    const doca_mmap* const from = map_at(src_mmap, src_addr, length, false);
    const auto copied = [&] {
        return guarded_or(comch::Errc::no_memory, [&] {
                   return comch::doca::copy_and_wait(*to, reinterpret_cast<void*>(dst_addr), *from,
                                                     reinterpret_cast<const void*>(src_addr),
                                                     length);
               }) == comch::Errc::ok;
    };
    if (to != nullptr && from != nullptr && !(to->imported() && from->imported()) && copied()) {
        doca_dpa_dev_comch_producer_post_send_imm_only(producer, consumer_id, imm, imm_length,
                                                       flags);
    } else if (producer != 0) {
        producer_of(producer)->fail_send();
    }
}
