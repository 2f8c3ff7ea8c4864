#include "doca_comch/common/task.hpp"

#include "doca_comch/common/context.hpp"

doca_error_t doca_task_submit(doca_task* task) {
    return task == nullptr ? DOCA_ERROR_INVALID_VALUE : task->ctx->submit(*task);
}

doca_error_t doca_task_try_submit(doca_task* task) {
    return doca_task_submit(task);
}

doca_error_t doca_task_submit_ex(doca_task* task, uint32_t flags) {
    constexpr std::uint32_t known =
        DOCA_TASK_SUBMIT_FLAG_FLUSH | DOCA_TASK_SUBMIT_FLAG_OPTIMIZE_REPORTS;
    if (task == nullptr || (flags & ~known) != 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    task->more = (flags & DOCA_TASK_SUBMIT_FLAG_FLUSH) == 0;
    const doca_error_t result = doca_task_submit(task);
    task->more = false;
    return result;
}

void doca_task_free(doca_task* task) {
    if (task != nullptr) {
        task->ctx->free(*task);
    }
}

doca_error_t doca_task_get_status(const doca_task* task) {
    return task == nullptr ? DOCA_ERROR_INVALID_VALUE : task->status;
}

void doca_task_set_user_data(doca_task* task, doca_data user_data) {
    if (task != nullptr) {
        task->user_data = user_data;
    }
}

doca_data doca_task_get_user_data(const doca_task* task) {
    return task == nullptr ? doca_data{} : task->user_data;
}

doca_ctx* doca_task_get_ctx(const doca_task* task) {
    return task == nullptr ? nullptr : task->ctx;
}
