// doca_comch_producer.h.
#include <doca_comch_producer.h>

#include "doca_comch/comch/producer.hpp"
#include "doca_comch/common/capability.hpp"

using comch::doca::Callback;
using comch::doca::capability;
using comch::doca::ConnectionProducer;
using comch::doca::fixed_capability;
using comch::doca::guarded;
using comch::doca::is_supported;
using comch::doca::ProducerContext;
using comch::doca::ProducerTask;

namespace {

ProducerContext* of(doca_comch_producer* producer) {
    return reinterpret_cast<ProducerContext*>(producer);
}
const ProducerContext* of(const doca_comch_producer* producer) {
    return reinterpret_cast<const ProducerContext*>(producer);
}
ProducerTask* of(doca_comch_producer_task_send* task) {
    return reinterpret_cast<ProducerTask*>(task);
}
const ProducerTask* of(const doca_comch_producer_task_send* task) {
    return reinterpret_cast<const ProducerTask*>(task);
}

/// While it is submitted, a task is the library's.
bool settable(doca_comch_producer_task_send* task) {
    return task != nullptr && of(task)->use == doca_task::Use::allocated;
}

void report(doca_task& task, bool success) {
    const auto& context = static_cast<const ProducerContext&>(*task.ctx);
    const auto callback = reinterpret_cast<doca_comch_producer_task_send_completion_cb_t>(
        success ? context.on_sent : context.on_failed);
    callback(reinterpret_cast<doca_comch_producer_task_send*>(static_cast<ProducerTask*>(&task)),
             task.user_data, context.user_data);
}

} // namespace

doca_error_t doca_comch_producer_create(doca_comch_connection* comch_connection,
                                        doca_comch_producer** producer) {
    if (producer == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ProducerContext* made = nullptr;
    const doca_error_t result = guarded(
        [&] { return ConnectionProducer::create(comch::doca::handle_of(comch_connection), made); });
    if (result == DOCA_SUCCESS) {
        *producer = reinterpret_cast<doca_comch_producer*>(made);
    }
    return result;
}

doca_error_t doca_comch_producer_destroy(doca_comch_producer* producer) {
    return comch::doca::destroy(of(producer));
}

doca_ctx* doca_comch_producer_as_ctx(doca_comch_producer* producer) {
    return of(producer);
}

doca_error_t doca_comch_producer_cap_is_supported(const doca_devinfo* devinfo) {
    return is_supported(devinfo, &comch::Capabilities::producer_supported);
}

doca_error_t doca_comch_producer_cap_get_max_num_tasks(const doca_devinfo* devinfo,
                                                       uint32_t* max_num_tasks) {
    return capability(devinfo, max_num_tasks,
                      [](const auto& device) { return device.max_producer_tasks; });
}

doca_error_t doca_comch_producer_cap_get_max_buf_size(const doca_devinfo* devinfo,
                                                      uint32_t* max_buf_size) {
    return capability(devinfo, max_buf_size,
                      [](const auto& device) { return device.max_fast_path_buffer_size; });
}

doca_error_t doca_comch_producer_cap_get_max_buf_list_len(const doca_devinfo* devinfo,
                                                          uint32_t* max_buf_list_len) {
    return fixed_capability(devinfo, max_buf_list_len, 1);
}

doca_error_t doca_comch_producer_cap_get_max_producers(const doca_devinfo* devinfo,
                                                       uint32_t* max_producers) {
    return capability(devinfo, max_producers,
                      [](const auto& device) { return device.max_producers_per_connection; });
}

doca_error_t doca_comch_producer_get_id(const doca_comch_producer* producer, uint32_t* id) {
    if (producer == nullptr || id == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::uint32_t value = of(producer)->id();
    if (value == 0) {
        return DOCA_ERROR_BAD_STATE;
    }
    *id = value;
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_producer_task_send_set_conf(
    doca_comch_producer* producer, doca_comch_producer_task_send_completion_cb_t task_completion_cb,
    doca_comch_producer_task_send_completion_cb_t task_error_cb, uint32_t num_send_tasks) {
    return producer == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(producer)->set_tasks_conf(reinterpret_cast<Callback>(task_completion_cb),
                                              reinterpret_cast<Callback>(task_error_cb), report,
                                              num_send_tasks);
}

doca_error_t doca_comch_producer_task_send_alloc_init(doca_comch_producer* producer,
                                                      const doca_buf* buf, uint8_t* imm_data,
                                                      uint32_t imm_data_len, uint32_t consumer_id,
                                                      doca_comch_producer_task_send** task) {
    if (producer == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ProducerTask* made = nullptr;
    const doca_error_t result =
        of(producer)->allocate_task(buf, imm_data, imm_data_len, consumer_id, made);
    if (result == DOCA_SUCCESS) {
        *task = reinterpret_cast<doca_comch_producer_task_send*>(made);
    }
    return result;
}

doca_task* doca_comch_producer_task_send_as_task(doca_comch_producer_task_send* task) {
    return of(task);
}

const doca_buf* doca_comch_producer_task_send_get_buf(const doca_comch_producer_task_send* task) {
    return task == nullptr ? nullptr : of(task)->buffer;
}

void doca_comch_producer_task_send_set_buf(doca_comch_producer_task_send* task,
                                           const doca_buf* buf) {
    if (settable(task)) {
        of(task)->buffer = buf;
    }
}

uint32_t doca_comch_producer_task_send_get_consumer_id(const doca_comch_producer_task_send* task) {
    return task == nullptr ? 0 : of(task)->consumer;
}

void doca_comch_producer_task_send_set_consumer_id(doca_comch_producer_task_send* task,
                                                   const uint32_t consumer_id) {
    if (settable(task)) {
        of(task)->consumer = consumer_id;
    }
}

uint8_t* doca_comch_producer_task_send_get_imm_data(const doca_comch_producer_task_send* task) {
    return task == nullptr ? nullptr : of(task)->immediate;
}

uint32_t doca_comch_producer_task_send_get_imm_data_len(const doca_comch_producer_task_send* task) {
    return task == nullptr ? 0 : of(task)->immediate_length;
}

void doca_comch_producer_task_send_set_imm_data(doca_comch_producer_task_send* task,
                                                uint8_t* imm_data, uint32_t imm_data_len) {
    if (settable(task)) {
        of(task)->immediate = imm_data;
        of(task)->immediate_length = imm_data == nullptr ? 0 : imm_data_len;
    }
}

// ---- of the DPA ---------------------------------------------------------------------------------

doca_error_t doca_comch_producer_set_dev_max_num_send(doca_comch_producer* producer,
                                                      uint32_t dev_num_send) {
    return producer == nullptr || dev_num_send == 0 ? DOCA_ERROR_INVALID_VALUE
                                                    : of(producer)->set_dpa_sends(dev_num_send);
}

doca_error_t doca_comch_producer_dpa_completion_attach(doca_comch_producer* producer,
                                                       doca_dpa_completion* dpa_comp) {
    return producer == nullptr || dpa_comp == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(producer)->attach_dpa_completion(dpa_comp);
}

doca_error_t doca_comch_producer_get_dpa_handle(doca_comch_producer* producer,
                                                doca_dpa_dev_comch_producer_t* dpa_producer) {
    return producer == nullptr || dpa_producer == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                          : of(producer)->dpa_handle(dpa_producer);
}
