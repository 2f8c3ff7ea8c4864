#include "doca_comch/workq/job_context.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "doca_comch/common/never_destroyed.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

/// All that there are.
struct Contexts {
    std::mutex mutex;
    std::vector<const JobContext*> list;

    static Contexts& instance() { return never_destroyed<Contexts>(); }
};

} // namespace

JobContext::JobContext() {
    Contexts& all = Contexts::instance();
    const std::lock_guard lock(all.mutex);
    all.list.push_back(this);
}

JobContext::~JobContext() {
    {
        Contexts& all = Contexts::instance();
        const std::lock_guard lock(all.mutex);
        std::erase(all.list, this);
    }
    if (device_ != nullptr) {
        device_->users.fetch_sub(1, std::memory_order_release);
    }
}

bool is_stopped_job_context(const doca_ctx* ctx) {
    Contexts& all = Contexts::instance();
    const std::lock_guard lock(all.mutex);
    const auto found = std::find(all.list.begin(), all.list.end(), ctx);
    return found != all.list.end() && (*found)->idle();
}

doca_error_t JobContext::add_device(doca_dev* device) {
    if (!idle()) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot add a device to the context: stop the context first");
    }
    if (device_ == device) {
        return refuse(DOCA_ERROR_IN_USE, "the context has this device already");
    }
    if (!is_open(device)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (device_ != nullptr) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "the context has a device already, and takes one");
    }
    if (!hold(device)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    device_ = device;
    return DOCA_SUCCESS;
}

doca_error_t JobContext::remove_device(const doca_dev* device) {
    if (!idle()) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot remove the context's device: stop the context first");
    }
    if (device_ != device) {
        return refuse(DOCA_ERROR_NOT_FOUND, "the context does not have this device");
    }
    device_->users.fetch_sub(1, std::memory_order_release);
    device_ = nullptr;
    return DOCA_SUCCESS;
}

doca_error_t JobContext::begin_start() {
    if (device_ == nullptr) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the context: add a device first (doca_ctx_dev_add)");
    }
    const std::lock_guard lock(mutex_);
    started_ = true;
    return DOCA_SUCCESS;
}

doca_error_t JobContext::begin_stop() {
    const std::lock_guard lock(mutex_);
    if (queues_ != 0) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot stop the context: remove its work queues first (doca_ctx_workq_rm)");
    }
    started_ = false;
    return DOCA_SUCCESS;
}

doca_error_t JobContext::add(doca_workq& queue) {
    if (queue.lane_to(this) != nullptr) {
        return refuse(DOCA_ERROR_IN_USE, "the work queue is added to the context already");
    }
    const std::lock_guard lock(mutex_);
    if (!started_) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot add the work queue to the context: start the context first");
    }
    doca_error_t error = DOCA_ERROR_INITIALIZATION;
    auto lane = open_lane(queue, *device_, error);
    if (lane == nullptr) {
        return error;
    }
    queue.attach(*this, std::move(lane));
    ++queues_;
    return DOCA_SUCCESS;
}

doca_error_t JobContext::remove(doca_workq& queue) {
    const std::lock_guard lock(mutex_);
    if (!started_) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot remove the work queue from the context: the context is not started");
    }
    const JobLane* const lane = queue.lane_to(this);
    if (lane == nullptr) {
        return refuse(DOCA_ERROR_NOT_FOUND, "the work queue is not added to the context");
    }
    if (lane->busy()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "cannot remove the work queue from the context: "
                                                "jobs of the context are under way on it");
    }
    queue.detach(*this);
    --queues_;
    return DOCA_SUCCESS;
}

} // namespace comch::doca

// ---- the API ------------------------------------------------------------------------------------

using comch::doca::guarded;

namespace {

/// Calls something of a context that has it.
template <class F> doca_error_t with_jobs(doca_ctx* ctx, F&& call) {
    comch::doca::JobContext* const jobs = ctx->jobs();
    if (jobs == nullptr) {
        return comch::doca::refuse(DOCA_ERROR_NOT_SUPPORTED,
                                   "the context has a progress engine and tasks: it was created by "
                                   "today's call, with its device");
    }
    return guarded([&] { return call(*jobs); });
}

} // namespace

doca_error_t doca_ctx_dev_add(doca_ctx* ctx, doca_dev* dev) {
    return ctx == nullptr || dev == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : with_jobs(ctx, [&](auto& jobs) { return jobs.add_device(dev); });
}

doca_error_t doca_ctx_dev_rm(doca_ctx* ctx, doca_dev* dev) {
    return ctx == nullptr || dev == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : with_jobs(ctx, [&](auto& jobs) { return jobs.remove_device(dev); });
}

doca_error_t doca_ctx_workq_add(doca_ctx* ctx, doca_workq* workq) {
    return ctx == nullptr || workq == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : with_jobs(ctx, [&](auto& jobs) { return jobs.add(*workq); });
}

doca_error_t doca_ctx_workq_rm(doca_ctx* ctx, doca_workq* workq) {
    return ctx == nullptr || workq == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : with_jobs(ctx, [&](auto& jobs) { return jobs.remove(*workq); });
}

doca_error_t doca_ctx_get_event_driven_supported(doca_ctx* ctx, uint8_t* event_supported) {
    if (ctx == nullptr || event_supported == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *event_supported = ctx->jobs() != nullptr ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_get_max_num_ctx(uint32_t* max_num_ctx) {
    if (max_num_ctx == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_ctx = std::numeric_limits<std::uint32_t>::max();
    return DOCA_SUCCESS;
}
