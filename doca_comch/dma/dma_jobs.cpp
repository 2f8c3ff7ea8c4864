#include "doca_comch/dma/dma_jobs.hpp"

#include "doca_comch/common/status.hpp"
#include "doca_comch/dma/dma_context.hpp"

namespace comch::doca {
namespace {

/// A DMA engine of the queue's; a job is one of its tasks.
class DmaLane final : public JobLane {
public:
    DmaLane(doca_workq& queue, doca_dev& device)
        : queue_(queue), engine_(device, DmaContext::Use::jobs) {
        engine_.user_data.ptr = this;
    }
    ~DmaLane() override {
        if (!engine_.idle()) {
            (void)engine_.stop(); // at once: it is not busy
        }
    }

    [[nodiscard]] doca_error_t open() {
        const doca_error_t result = engine_.connect(queue_.engine());
        return result == DOCA_SUCCESS ? start(queue_.depth()) : result;
    }

    doca_error_t submit(const doca_job& base) override {
        if (base.type != DOCA_DMA_JOB_MEMCPY) {
            return refuse(DOCA_ERROR_INVALID_VALUE,
                          "cannot submit the job: it is none of the DMA context's");
        }
        const auto& job = reinterpret_cast<const doca_dma_job_memcpy&>(base);
        auto* const task = static_cast<CopyTask*>(engine_.take_task());
        if (task == nullptr) {
            return DOCA_ERROR_NO_MEMORY;
        }
        task->source = job.src_buff;
        task->destination = job.dst_buff;
        task->length = job.num_bytes_to_copy;
        task->user_data = job.base.user_data;
        const doca_error_t result = engine_.submit(*task);
        if (result != DOCA_SUCCESS) {
            engine_.release(*task);
        }
        return result;
    }

    bool busy() const noexcept override { return engine_.inflight() != 0; }

    doca_error_t set_depth(std::uint32_t depth) override {
        if (const doca_error_t result = engine_.stop(); result != DOCA_SUCCESS) {
            return result;
        }
        const doca_error_t result = guarded([&] { return start(depth); });
        if (result != DOCA_SUCCESS) {
            (void)start(queue_.depth()); // whose tasks are there
        }
        return result;
    }

private:
    static void on_ended(doca_dma_task_memcpy* copy, doca_data user_data, doca_data self) {
        auto& lane = *static_cast<DmaLane*>(self.ptr);
        auto& task = *reinterpret_cast<CopyTask*>(copy);
        lane.queue_.done(DOCA_DMA_JOB_MEMCPY, user_data, task.status);
        lane.engine_.release(task);
    }
    [[nodiscard]] doca_error_t start(std::uint32_t depth) {
        const auto ended = reinterpret_cast<Callback>(on_ended);
        const doca_error_t result = engine_.set_tasks_conf(ended, ended, depth);
        return result == DOCA_SUCCESS ? engine_.start() : result;
    }

    doca_workq& queue_;
    DmaContext engine_;
};

class DmaJobContext final : public JobContext {
    std::unique_ptr<JobLane> open_lane(doca_workq& queue, doca_dev& device,
                                       doca_error_t& error) override {
        auto lane = std::make_unique<DmaLane>(queue, device);
        error = lane->open();
        return error == DOCA_SUCCESS ? std::move(lane) : nullptr;
    }
};

} // namespace

std::unique_ptr<JobContext> make_dma_job_context() {
    return std::make_unique<DmaJobContext>();
}

} // namespace comch::doca
