#include <doca_dma.h>

#include <cstring>
#include <memory>

#include "core/transfer/client.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

constexpr std::uint32_t max_tasks = 8192;

struct CopyTask : doca_task {
    const doca_buf* source = nullptr;
    doca_buf* destination = nullptr;
    std::size_t length = 0; ///< of what is under way
    CopyTask* following = nullptr;
};

/// Copies that are done already are reported by the next progress, as every completion is.
class DmaContext final : public doca_ctx, private ProgressSource {
public:
    explicit DmaContext(doca_dev& device)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) { return static_cast<DmaContext&>(self).report_done(); },
              .arm =
                  [](ProgressSource& self) {
                      return static_cast<DmaContext&>(self).done_ == nullptr ? Errc::ok
                                                                             : Errc::again;
                  }},
          device_(device) {
        device_.users.fetch_add(1, std::memory_order_relaxed);
        lenient = true;
    }
    ~DmaContext() override { device_.users.fetch_sub(1, std::memory_order_release); }

    [[nodiscard]] doca_error_t set_tasks_conf(Callback done, Callback failed, std::uint32_t count) {
        if (done == nullptr || failed == nullptr || count == 0 || count > max_tasks) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        if (!idle()) {
            return DOCA_ERROR_BAD_STATE;
        }
        on_copied_ = done;
        on_failed_ = failed;
        task_count_ = count;
        return DOCA_SUCCESS;
    }

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override { return DOCA_SUCCESS; }
    bool drained() const noexcept override { return inflight() == 0; }
    void closed() override {
        pe()->engine().remove(*this);
        pe()->bury(std::shared_ptr<transfer::Client>(std::move(client_)));
    }

    [[nodiscard]] static doca_error_t begin_copy(doca_task& task);
    [[nodiscard]] Errc copy(CopyTask& task);
    static void report(doca_task& task, bool success);
    static void finish(CopyTask& task, Errc status);
    [[nodiscard]] unsigned report_done();

    doca_dev& device_;
    TaskStore<CopyTask> store_;
    Callback on_copied_ = nullptr;
    Callback on_failed_ = nullptr;
    std::uint32_t task_count_ = 0;
    std::unique_ptr<transfer::Client> client_;
    CopyTask* done_ = nullptr; ///< oldest first
    CopyTask** done_end_ = &done_;
};

doca_error_t DmaContext::begin_start() {
    if (task_count_ == 0) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the DMA context: configure its memory copy tasks first");
    }
    auto opened =
        transfer::Client::open(pe()->engine(), device_.info.device, [](void* cookie, Errc status) {
            finish(*static_cast<CopyTask*>(cookie), status);
        });
    if (!opened) {
        return refuse(opened.error());
    }
    client_ = std::move(*opened);
    set_tasks(store_.allocate(task_count_, [&](CopyTask& task) {
        task.ctx = this;
        task.begin = begin_copy;
        task.report = report;
    }));
    pe()->engine().add(*this);
    return DOCA_SUCCESS;
}

doca_error_t DmaContext::begin_copy(doca_task& base) {
    auto& task = static_cast<CopyTask&>(base);
    auto& self = static_cast<DmaContext&>(*task.ctx);
    const doca_buf* const from = task.source;
    const doca_buf* const to = task.destination;
    if (from == nullptr || to == nullptr || from->references == 0 || to->references == 0 ||
        from->chained() || to->chained() || !from->mmap->started() || !to->mmap->started() ||
        from->data_length == 0 || from->data_length > to->tail_room()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (from->mmap->imported() && to->mmap->imported()) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    task.length = from->data_length;
    const Errc result = self.copy(task);
    if (result == Errc::ok) {
        task.following = nullptr;
        *self.done_end_ = &task;
        self.done_end_ = &task.following;
    }
    return result == Errc::in_progress ? DOCA_SUCCESS : to_doca(result);
}

Errc DmaContext::copy(CopyTask& task) {
    const doca_mmap& source_map = *task.source->mmap;
    const doca_mmap& destination_map = *task.destination->mmap;
    const MemoryMap& source = *source_map.map;
    const MemoryMap& destination = *destination_map.map;
    const std::byte* const from = task.source->data;
    std::byte* const to = task.destination->data + task.destination->data_length;
    const Errc readable =
        source.check(from, task.length, source.imported() ? peer_read : local_read);
    const Errc writable =
        destination.check(to, task.length, destination.imported() ? peer_write : local_write);
    if (readable != Errc::ok || writable != Errc::ok) {
        return readable != Errc::ok ? readable : writable;
    }
    if (source.imported()) {
        return client_->read({source, source_map.service, from}, to, task.length, &task);
    }
    if (destination.imported()) {
        return client_->write({destination, destination_map.service, to}, from, task.length, &task);
    }
    std::memmove(to, from, task.length);
    return Errc::ok;
}

void DmaContext::report(doca_task& task, bool success) {
    const auto& self = static_cast<const DmaContext&>(*task.ctx);
    const auto callback = reinterpret_cast<doca_dma_task_memcpy_completion_cb_t>(
        success ? self.on_copied_ : self.on_failed_);
    callback(reinterpret_cast<doca_dma_task_memcpy*>(static_cast<CopyTask*>(&task)), task.user_data,
             self.user_data);
}

void DmaContext::finish(CopyTask& task, Errc status) {
    if (status == Errc::ok) {
        task.destination->data_length += task.length;
    }
    task.ctx->complete(task, to_doca(status));
}

unsigned DmaContext::report_done() {
    unsigned handled = 0;
    CopyTask* task = done_;
    done_ = nullptr;
    done_end_ = &done_;
    while (task != nullptr) {
        CopyTask* const next = task->following;
        finish(*task, Errc::ok);
        task = next;
        ++handled;
    }
    return handled;
}

DmaContext* of(doca_dma* dma) {
    return reinterpret_cast<DmaContext*>(dma);
}
CopyTask* of(doca_dma_task_memcpy* task) {
    return reinterpret_cast<CopyTask*>(task);
}
const CopyTask* of(const doca_dma_task_memcpy* task) {
    return reinterpret_cast<const CopyTask*>(task);
}

} // namespace
} // namespace comch::doca

using comch::doca::Callback;
using comch::doca::CopyTask;
using comch::doca::of;

doca_error_t doca_dma_create(doca_dev* dev, doca_dma** dma) {
    if (dev == nullptr || dma == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dma = reinterpret_cast<doca_dma*>(new comch::doca::DmaContext(*dev));
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_destroy(doca_dma* dma) {
    return comch::doca::destroy(of(dma));
}

doca_ctx* doca_dma_as_ctx(doca_dma* dma) {
    return of(dma);
}

doca_error_t doca_dma_cap_task_memcpy_is_supported(const doca_devinfo* devinfo) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE : DOCA_SUCCESS;
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_size(const doca_devinfo* devinfo,
                                                       uint64_t* buf_size) {
    if (devinfo == nullptr || buf_size == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *buf_size = comch::limits::fast_path_buffer_size;
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_list_len(const doca_devinfo* devinfo,
                                                           uint32_t* max_buf_list_len) {
    if (devinfo == nullptr || max_buf_list_len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_buf_list_len = 1;
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_cap_get_max_num_tasks(doca_dma* dma, uint32_t* max_num_tasks) {
    if (dma == nullptr || max_num_tasks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_tasks = comch::doca::max_tasks;
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_task_memcpy_set_conf(doca_dma* dma,
                                           doca_dma_task_memcpy_completion_cb_t task_completion_cb,
                                           doca_dma_task_memcpy_completion_cb_t task_error_cb,
                                           uint32_t num_memcpy_tasks) {
    return dma == nullptr ? DOCA_ERROR_INVALID_VALUE
                          : of(dma)->set_tasks_conf(reinterpret_cast<Callback>(task_completion_cb),
                                                    reinterpret_cast<Callback>(task_error_cb),
                                                    num_memcpy_tasks);
}

doca_error_t doca_dma_task_memcpy_alloc_init(doca_dma* dma, const doca_buf* src, doca_buf* dst,
                                             doca_data user_data, doca_dma_task_memcpy** task) {
    if (dma == nullptr || src == nullptr || dst == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
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
