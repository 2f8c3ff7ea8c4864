// doca_sync_event.h: tasks.
#include <doca_sync_event.h>

#include "doca_comch/common/capability.hpp"
#include "doca_comch/sync_event/sync_event.hpp"

namespace comch::doca {
namespace {

template <class Report>
doca_error_t set_conf(doca_sync_event* event, EventTaskKind kind, Report done, Report failed,
                      std::uint32_t count) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE
                            : of(event)->set_tasks_conf(kind, reinterpret_cast<Callback>(done),
                                                        reinterpret_cast<Callback>(failed), count);
}

/// What a task is to do.
struct Order {
    EventTaskKind kind;
    link::AtomicOp op = link::AtomicOp::add;
    std::uint64_t operand = 0;
    std::uint64_t mask = 0;
    std::uint64_t* result = nullptr;
};

template <class Task>
doca_error_t alloc_init(doca_sync_event* event, const Order& order, doca_data user_data,
                        Task** task) {
    if (event == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    EventTask* made = nullptr;
    const doca_error_t result = of(event)->take(order.kind, made);
    if (result == DOCA_SUCCESS) {
        made->op = order.op;
        made->operand = order.operand;
        made->mask = order.mask;
        made->result = order.result;
        made->user_data = user_data;
        *task = reinterpret_cast<Task*>(made);
    }
    return result;
}

template <class Task> doca_task* as_task(Task* task) {
    return reinterpret_cast<EventTask*>(task);
}

template <class Task, class Part, class Value>
void set(Task* task, Value Part::*what, Value value) {
    auto* const event_task = reinterpret_cast<EventTask*>(task);
    if (task != nullptr && event_task->use == doca_task::Use::allocated) {
        event_task->*what = value;
    }
}

template <class Task, class Part, class Value> Value get(const Task* task, Value Part::*what) {
    return task == nullptr ? Value{} : reinterpret_cast<const EventTask*>(task)->*what;
}

} // namespace
} // namespace comch::doca

using comch::doca::EventTask;
using comch::doca::EventTaskKind;
using comch::link::AtomicOp;

// ---- get

doca_error_t doca_sync_event_cap_task_get_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_task_get_set_conf(
    doca_sync_event* event, doca_sync_event_task_get_completion_cb_t completion_cb,
    doca_sync_event_task_get_completion_cb_t error_cb, uint32_t num_tasks) {
    return comch::doca::set_conf(event, EventTaskKind::get, completion_cb, error_cb, num_tasks);
}

doca_error_t doca_sync_event_task_get_alloc_init(doca_sync_event* event, uint64_t* ret_val_ptr,
                                                 doca_data user_data,
                                                 doca_sync_event_task_get** task) {
    return ret_val_ptr == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : comch::doca::alloc_init(event, {.kind = EventTaskKind::get, .result = ret_val_ptr},
                                         user_data, task);
}

doca_task* doca_sync_event_task_get_as_doca_task(doca_sync_event_task_get* task) {
    return comch::doca::as_task(task);
}

void doca_sync_event_task_get_set_ret_val_ptr(doca_sync_event_task_get* task,
                                              uint64_t* ret_val_ptr) {
    comch::doca::set(task, &EventTask::result, ret_val_ptr);
}

uint64_t* doca_sync_event_task_get_get_ret_val_ptr(const doca_sync_event_task_get* task) {
    return comch::doca::get(task, &EventTask::result);
}

// ---- notify_set

doca_error_t doca_sync_event_cap_task_notify_set_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_task_notify_set_set_conf(
    doca_sync_event* event, doca_sync_event_task_notify_set_completion_cb_t completion_cb,
    doca_sync_event_task_notify_set_completion_cb_t error_cb, uint32_t num_tasks) {
    return comch::doca::set_conf(event, EventTaskKind::notify_set, completion_cb, error_cb,
                                 num_tasks);
}

doca_error_t doca_sync_event_task_notify_set_alloc_init(doca_sync_event* event, uint64_t set_val,
                                                        doca_data user_data,
                                                        doca_sync_event_task_notify_set** task) {
    return comch::doca::alloc_init(
        event, {.kind = EventTaskKind::notify_set, .op = AtomicOp::swap, .operand = set_val},
        user_data, task);
}

doca_task* doca_sync_event_task_notify_set_as_doca_task(doca_sync_event_task_notify_set* task) {
    return comch::doca::as_task(task);
}

void doca_sync_event_task_notify_set_set_set_val(doca_sync_event_task_notify_set* task,
                                                 uint64_t set_val) {
    comch::doca::set(task, &EventTask::operand, set_val);
}

uint64_t doca_sync_event_task_notify_set_get_set_val(const doca_sync_event_task_notify_set* task) {
    return comch::doca::get(task, &EventTask::operand);
}

// ---- notify_add

doca_error_t doca_sync_event_cap_task_notify_add_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_task_notify_add_set_conf(
    doca_sync_event* event, doca_sync_event_task_notify_add_completion_cb_t completion_cb,
    doca_sync_event_task_notify_add_completion_cb_t error_cb, uint32_t num_tasks) {
    return comch::doca::set_conf(event, EventTaskKind::notify_add, completion_cb, error_cb,
                                 num_tasks);
}

doca_error_t doca_sync_event_task_notify_add_alloc_init(doca_sync_event* event, uint64_t inc_val,
                                                        uint64_t* fetched_val_ptr,
                                                        doca_data user_data,
                                                        doca_sync_event_task_notify_add** task) {
    return fetched_val_ptr == nullptr ? DOCA_ERROR_INVALID_VALUE
                                      : comch::doca::alloc_init(event,
                                                                {.kind = EventTaskKind::notify_add,
                                                                 .operand = inc_val,
                                                                 .result = fetched_val_ptr},
                                                                user_data, task);
}

doca_task* doca_sync_event_task_notify_add_as_doca_task(doca_sync_event_task_notify_add* task) {
    return comch::doca::as_task(task);
}

void doca_sync_event_task_notify_add_set_inc_val(doca_sync_event_task_notify_add* task,
                                                 uint64_t inc_val) {
    comch::doca::set(task, &EventTask::operand, inc_val);
}

uint64_t doca_sync_event_task_notify_add_get_inc_val(const doca_sync_event_task_notify_add* task) {
    return comch::doca::get(task, &EventTask::operand);
}

void doca_sync_event_task_notify_add_set_fetched_val_ptr(doca_sync_event_task_notify_add* task,
                                                         uint64_t* fetched_val_ptr) {
    comch::doca::set(task, &EventTask::result, fetched_val_ptr);
}

uint64_t*
doca_sync_event_task_notify_add_get_fetched_val_ptr(const doca_sync_event_task_notify_add* task) {
    return comch::doca::get(task, &EventTask::result);
}

// ---- wait_eq

doca_error_t doca_sync_event_cap_task_wait_eq_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_task_wait_eq_set_conf(
    doca_sync_event* event, doca_sync_event_task_wait_eq_completion_cb_t completion_cb,
    doca_sync_event_task_wait_eq_completion_cb_t error_cb, uint32_t num_tasks) {
    return comch::doca::set_conf(event, EventTaskKind::wait_eq, completion_cb, error_cb, num_tasks);
}

doca_error_t doca_sync_event_task_wait_eq_alloc_init(doca_sync_event* event, uint64_t wait_val,
                                                     uint64_t mask, doca_data user_data,
                                                     doca_sync_event_task_wait_eq** task) {
    return comch::doca::alloc_init(
        event, {.kind = EventTaskKind::wait_eq, .operand = wait_val, .mask = mask}, user_data,
        task);
}

doca_task* doca_sync_event_task_wait_eq_as_doca_task(doca_sync_event_task_wait_eq* task) {
    return comch::doca::as_task(task);
}

void doca_sync_event_task_wait_eq_set_wait_val(doca_sync_event_task_wait_eq* task,
                                               uint64_t wait_val) {
    comch::doca::set(task, &EventTask::operand, wait_val);
}

uint64_t doca_sync_event_task_wait_eq_get_wait_val(const doca_sync_event_task_wait_eq* task) {
    return comch::doca::get(task, &EventTask::operand);
}

void doca_sync_event_task_wait_eq_set_mask(doca_sync_event_task_wait_eq* task, uint64_t mask) {
    comch::doca::set(task, &EventTask::mask, mask);
}

uint64_t doca_sync_event_task_wait_eq_get_mask(const doca_sync_event_task_wait_eq* task) {
    return comch::doca::get(task, &EventTask::mask);
}

// ---- wait_neq

doca_error_t doca_sync_event_cap_task_wait_neq_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_task_wait_neq_set_conf(
    doca_sync_event* event, doca_sync_event_task_wait_neq_completion_cb_t completion_cb,
    doca_sync_event_task_wait_neq_completion_cb_t error_cb, uint32_t num_tasks) {
    return comch::doca::set_conf(event, EventTaskKind::wait_neq, completion_cb, error_cb,
                                 num_tasks);
}

doca_error_t doca_sync_event_task_wait_neq_alloc_init(doca_sync_event* event, uint64_t wait_val,
                                                      uint64_t mask, doca_data user_data,
                                                      doca_sync_event_task_wait_neq** task) {
    return comch::doca::alloc_init(
        event, {.kind = EventTaskKind::wait_neq, .operand = wait_val, .mask = mask}, user_data,
        task);
}

doca_task* doca_sync_event_task_wait_neq_as_doca_task(doca_sync_event_task_wait_neq* task) {
    return comch::doca::as_task(task);
}

void doca_sync_event_task_wait_neq_set_wait_val(doca_sync_event_task_wait_neq* task,
                                                uint64_t wait_val) {
    comch::doca::set(task, &EventTask::operand, wait_val);
}

uint64_t doca_sync_event_task_wait_neq_get_wait_val(const doca_sync_event_task_wait_neq* task) {
    return comch::doca::get(task, &EventTask::operand);
}

void doca_sync_event_task_wait_neq_set_mask(doca_sync_event_task_wait_neq* task, uint64_t mask) {
    comch::doca::set(task, &EventTask::mask, mask);
}

uint64_t doca_sync_event_task_wait_neq_get_mask(const doca_sync_event_task_wait_neq* task) {
    return comch::doca::get(task, &EventTask::mask);
}
