#include <doca_dma.h>

#include "doca_comch/common/capability.hpp"
#include "doca_comch/dma/dma_context.hpp"
#include "doca_comch/dma/dma_jobs.hpp"

using comch::doca::Callback;
using comch::doca::CopyTask;
using comch::doca::DmaContext;
using comch::doca::guarded;

namespace {

constexpr std::uint32_t max_tasks = 8192;

/// Contexts of both generations are handed out as what they have in common.
doca_dma* handle(doca_ctx& ctx) {
    return reinterpret_cast<doca_dma*>(&ctx);
}
doca_ctx* of(doca_dma* dma) {
    return reinterpret_cast<doca_ctx*>(dma);
}
CopyTask* of(doca_dma_task_memcpy* task) {
    return reinterpret_cast<CopyTask*>(task);
}
const CopyTask* of(const doca_dma_task_memcpy* task) {
    return reinterpret_cast<const CopyTask*>(task);
}

} // namespace

doca_error_t doca_dma_create(doca_dev* dev, doca_dma** dma) {
    if (!comch::doca::is_open(dev) || dma == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *dma = handle(*new DmaContext(*dev));
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dma_create_2023(doca_dma** dma) {
    if (dma == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *dma = handle(*comch::doca::make_dma_job_context().release());
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dma_destroy(doca_dma* dma) {
    const doca_error_t result = comch::doca::destroy(of(dma));
    return result == DOCA_ERROR_BAD_STATE && of(dma)->jobs() != nullptr ? DOCA_ERROR_IN_USE
                                                                        : result;
}

doca_ctx* doca_dma_as_ctx(doca_dma* dma) {
    return of(dma);
}

doca_error_t doca_dma_cap_task_memcpy_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_size(const doca_devinfo* devinfo,
                                                       uint64_t* buf_size) {
    return comch::doca::fixed_capability(devinfo, buf_size, comch::limits::fast_path_buffer_size);
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_list_len(const doca_devinfo* devinfo,
                                                           uint32_t* max_buf_list_len) {
    return comch::doca::fixed_capability(devinfo, max_buf_list_len,
                                         comch::doca::max_copy_list_length);
}

doca_error_t doca_dma_cap_get_max_num_tasks(doca_dma* dma, uint32_t* max_num_tasks) {
    if (dma == nullptr || max_num_tasks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_tasks = max_tasks;
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_task_memcpy_set_conf(doca_dma* dma,
                                           doca_dma_task_memcpy_completion_cb_t task_completion_cb,
                                           doca_dma_task_memcpy_completion_cb_t task_error_cb,
                                           uint32_t num_memcpy_tasks) {
    if (dma == nullptr || task_completion_cb == nullptr || task_error_cb == nullptr ||
        num_memcpy_tasks == 0 || num_memcpy_tasks > max_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (of(dma)->jobs() != nullptr) {
        return comch::doca::refuse(DOCA_ERROR_NOT_SUPPORTED,
                                   "the DMA context has jobs, not tasks: it was created by the "
                                   "call of 2023, without a device");
    }
    return static_cast<DmaContext*>(of(dma))->set_tasks_conf(
        reinterpret_cast<Callback>(task_completion_cb), reinterpret_cast<Callback>(task_error_cb),
        num_memcpy_tasks);
}

doca_error_t doca_dma_task_memcpy_alloc_init(doca_dma* dma, const doca_buf* src, doca_buf* dst,
                                             doca_data user_data, doca_dma_task_memcpy** task) {
    if (dma == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE; // buffers may be set later
    }
    if (of(dma)->state() != DOCA_CTX_STATE_RUNNING) {
        return DOCA_ERROR_BAD_STATE;
    }
    auto* const made = static_cast<CopyTask*>(of(dma)->take_task());
    if (made == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    made->source = src;
    made->destination = dst;
    made->user_data = user_data;
    *task = reinterpret_cast<doca_dma_task_memcpy*>(made);
    return DOCA_SUCCESS;
}

doca_task* doca_dma_task_memcpy_as_task(doca_dma_task_memcpy* task) {
    return of(task);
}

void doca_dma_task_memcpy_set_src(doca_dma_task_memcpy* task, const doca_buf* src) {
    if (task != nullptr && of(task)->use == doca_task::Use::allocated) {
        of(task)->source = src;
    }
}

const doca_buf* doca_dma_task_memcpy_get_src(const doca_dma_task_memcpy* task) {
    return task == nullptr ? nullptr : of(task)->source;
}

void doca_dma_task_memcpy_set_dst(doca_dma_task_memcpy* task, doca_buf* dst) {
    if (task != nullptr && of(task)->use == doca_task::Use::allocated) {
        of(task)->destination = dst;
    }
}

doca_buf* doca_dma_task_memcpy_get_dst(const doca_dma_task_memcpy* task) {
    return task == nullptr ? nullptr : of(task)->destination;
}

doca_error_t doca_dma_job_get_supported(const doca_devinfo* devinfo, doca_dma_job_types job_type) {
    return job_type == DOCA_DMA_JOB_MEMCPY ? comch::doca::is_supported(devinfo)
                                           : DOCA_ERROR_INVALID_VALUE;
}
