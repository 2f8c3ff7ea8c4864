// doca_comch_consumer.h.
#include <doca_comch_consumer.h>

#include "doca_comch/comch/consumer.hpp"
#include "doca_comch/common/capability.hpp"

using comch::doca::Callback;
using comch::doca::capability;
using comch::doca::ConnectionConsumer;
using comch::doca::ConsumerContext;
using comch::doca::ConsumerTask;
using comch::doca::fixed_capability;
using comch::doca::guarded;
using comch::doca::is_supported;

namespace {

ConsumerContext* of(doca_comch_consumer* consumer) {
    return reinterpret_cast<ConsumerContext*>(consumer);
}
const ConsumerContext* of(const doca_comch_consumer* consumer) {
    return reinterpret_cast<const ConsumerContext*>(consumer);
}
ConsumerTask* of(doca_comch_consumer_task_post_recv* task) {
    return reinterpret_cast<ConsumerTask*>(task);
}
const ConsumerTask* of(const doca_comch_consumer_task_post_recv* task) {
    return reinterpret_cast<const ConsumerTask*>(task);
}

void report(doca_task& task, bool success) {
    const auto& context = static_cast<const ConsumerContext&>(*task.ctx);
    const auto callback = reinterpret_cast<doca_comch_consumer_task_post_recv_completion_cb_t>(
        success ? context.on_received : context.on_failed);
    callback(
        reinterpret_cast<doca_comch_consumer_task_post_recv*>(static_cast<ConsumerTask*>(&task)),
        task.user_data, context.user_data);
}

} // namespace

doca_error_t doca_comch_consumer_create(doca_comch_connection* comch_connection,
                                        doca_mmap* buf_mmap, doca_comch_consumer** consumer) {
    if (consumer == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ConsumerContext* made = nullptr;
    const doca_error_t result = guarded([&] {
        return ConnectionConsumer::create(comch::doca::handle_of(comch_connection), buf_mmap, made);
    });
    if (result == DOCA_SUCCESS) {
        *consumer = reinterpret_cast<doca_comch_consumer*>(made);
    }
    return result;
}

doca_error_t doca_comch_consumer_destroy(doca_comch_consumer* consumer) {
    return comch::doca::destroy(of(consumer));
}

doca_ctx* doca_comch_consumer_as_ctx(doca_comch_consumer* consumer) {
    return of(consumer);
}

doca_error_t doca_comch_consumer_cap_is_supported(const doca_devinfo* devinfo) {
    return is_supported(devinfo, &comch::Capabilities::consumer_supported);
}

doca_error_t doca_comch_consumer_cap_get_max_num_tasks(const doca_devinfo* devinfo,
                                                       uint32_t* max_num_tasks) {
    return capability(devinfo, max_num_tasks,
                      [](const auto& device) { return device.max_consumer_tasks; });
}

doca_error_t doca_comch_consumer_cap_get_max_buf_size(const doca_devinfo* devinfo,
                                                      uint32_t* max_buf_size) {
    return capability(devinfo, max_buf_size,
                      [](const auto& device) { return device.max_fast_path_buffer_size; });
}

doca_error_t doca_comch_consumer_cap_get_max_buf_list_len(const doca_devinfo* devinfo,
                                                          uint32_t* max_buf_list_len) {
    return fixed_capability(devinfo, max_buf_list_len, 1);
}

doca_error_t doca_comch_consumer_cap_get_max_consumers(const doca_devinfo* devinfo,
                                                       uint32_t* max_consumers) {
    return capability(devinfo, max_consumers,
                      [](const auto& device) { return device.max_consumers_per_connection; });
}

doca_error_t doca_comch_consumer_cap_get_max_imm_data_len(const doca_devinfo* devinfo,
                                                          uint32_t* max_imm_data_len) {
    return capability(devinfo, max_imm_data_len,
                      [](const auto& device) { return device.max_immediate_data_size; });
}

doca_error_t doca_comch_consumer_get_id(const doca_comch_consumer* consumer, uint32_t* id) {
    if (consumer == nullptr || id == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::uint32_t value = of(consumer)->id();
    if (value == 0) {
        return DOCA_ERROR_BAD_STATE;
    }
    *id = value;
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_consumer_set_imm_data_len(doca_comch_consumer* consumer,
                                                  uint32_t imm_data_len) {
    return consumer == nullptr ? DOCA_ERROR_INVALID_VALUE
                               : of(consumer)->set_immediate_length(imm_data_len);
}

doca_error_t doca_comch_consumer_get_imm_data_len(const doca_comch_consumer* consumer,
                                                  uint32_t* imm_data_len) {
    if (consumer == nullptr || imm_data_len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *imm_data_len = of(consumer)->immediate_length();
    return DOCA_SUCCESS;
}

doca_error_t doca_comch_consumer_task_post_recv_set_conf(
    doca_comch_consumer* consumer,
    doca_comch_consumer_task_post_recv_completion_cb_t task_completion_cb,
    doca_comch_consumer_task_post_recv_completion_cb_t task_error_cb,
    uint32_t num_post_recv_tasks) {
    return consumer == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(consumer)->set_tasks_conf(reinterpret_cast<Callback>(task_completion_cb),
                                              reinterpret_cast<Callback>(task_error_cb), report,
                                              num_post_recv_tasks);
}

doca_error_t
doca_comch_consumer_task_post_recv_alloc_init(doca_comch_consumer* consumer, doca_buf* buf,
                                              doca_comch_consumer_task_post_recv** task) {
    if (consumer == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ConsumerTask* made = nullptr;
    const doca_error_t result = of(consumer)->allocate_task(buf, made);
    if (result == DOCA_SUCCESS) {
        *task = reinterpret_cast<doca_comch_consumer_task_post_recv*>(made);
    }
    return result;
}

doca_task* doca_comch_consumer_task_post_recv_as_task(doca_comch_consumer_task_post_recv* task) {
    return of(task);
}

doca_buf*
doca_comch_consumer_task_post_recv_get_buf(const doca_comch_consumer_task_post_recv* task) {
    return task == nullptr ? nullptr : of(task)->buffer;
}

void doca_comch_consumer_task_post_recv_set_buf(doca_comch_consumer_task_post_recv* task,
                                                doca_buf* buf) {
    // While it is posted, the buffer is the library's.
    if (task != nullptr && of(task)->use == doca_task::Use::allocated) {
        of(task)->buffer = buf;
    }
}

uint32_t
doca_comch_consumer_task_post_recv_get_producer_id(const doca_comch_consumer_task_post_recv* task) {
    return task == nullptr ? 0 : of(task)->producer;
}

const uint8_t*
doca_comch_consumer_task_post_recv_get_imm_data(const doca_comch_consumer_task_post_recv* task) {
    return task == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(of(task)->immediate);
}

uint32_t doca_comch_consumer_task_post_recv_get_imm_data_len(
    const doca_comch_consumer_task_post_recv* task) {
    return task == nullptr ? 0 : of(task)->immediate_length;
}

// ---- of the DPA ---------------------------------------------------------------------------------

doca_error_t doca_comch_consumer_set_completion(doca_comch_consumer* consumer,
                                                doca_comch_consumer_completion* consumer_comp,
                                                uint32_t user_data) {
    return consumer == nullptr || consumer_comp == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : of(consumer)->set_completion(consumer_comp, user_data);
}

doca_error_t doca_comch_consumer_set_dev_max_num_recv(doca_comch_consumer* consumer,
                                                      uint32_t dev_num_recv) {
    return consumer == nullptr || dev_num_recv == 0 ? DOCA_ERROR_INVALID_VALUE
                                                    : of(consumer)->set_dpa_receives(dev_num_recv);
}

doca_error_t doca_comch_consumer_get_dpa_handle(doca_comch_consumer* consumer,
                                                doca_dpa_dev_comch_consumer_t* dpa_consumer) {
    return consumer == nullptr || dpa_consumer == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                          : of(consumer)->dpa_handle(dpa_consumer);
}
