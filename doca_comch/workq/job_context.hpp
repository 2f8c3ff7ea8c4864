// Contexts of 2023 and before, which have devices added to them, and do the jobs of work queues.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <doca_workq.h>

#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/workq/workq.hpp"

namespace comch::doca {

/// Kinds of it make lanes. Queues come and go in their own threads; the rest is one thread's.
class JobContext : public doca_ctx {
public:
    JobContext();
    ~JobContext() override;

    [[nodiscard]] JobContext* jobs() noexcept final { return this; }

    [[nodiscard]] doca_error_t add_device(doca_dev* device);
    [[nodiscard]] doca_error_t remove_device(const doca_dev* device);
    [[nodiscard]] doca_error_t add(doca_workq& queue);
    [[nodiscard]] doca_error_t remove(doca_workq& queue);

protected:
    /// Does jobs by a device, and tells the queue of each; null: why is in `error`. Exceptions: the same.
    [[nodiscard]] virtual std::unique_ptr<JobLane> open_lane(doca_workq& queue, doca_dev& device,
                                                             doca_error_t& error) = 0;

private:
    doca_error_t begin_start() final;
    doca_error_t begin_stop() final;
    bool drained() const noexcept final { return true; }
    bool needs_engine() const noexcept final { return false; }

    std::mutex mutex_; ///< of `queues_`, and of starting and stopping
    std::uint32_t queues_ = 0;
    bool started_ = false;
    doca_dev* device_ = nullptr;
};

/// Whether there is such a context, and it is stopped: programs name contexts that have ended.
[[nodiscard]] bool is_stopped_job_context(const doca_ctx* ctx);

} // namespace comch::doca
