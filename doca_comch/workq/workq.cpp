#include "doca_comch/workq/workq.hpp"

#include <algorithm>

#include "doca_comch/common/status.hpp"
#include "doca_comch/workq/job_context.hpp"

using comch::doca::guarded;
using comch::doca::JobLane;
using comch::doca::refuse;

doca_error_t doca_workq::set_depth(std::uint32_t depth) {
    if (under_way_ != 0) {
        return refuse(DOCA_ERROR_IN_USE,
                      "cannot change the work queue's depth: jobs are under way, "
                      "or their events were not retrieved");
    }
    std::vector<doca_event> events(depth);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (const doca_error_t result = lanes_[i].lane->set_depth(depth); result != DOCA_SUCCESS) {
            while (i-- > 0) {
                (void)lanes_[i].lane->set_depth(this->depth());
            }
            return result;
        }
    }
    events_.swap(events);
    first_ = 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_workq::submit(const doca_job& job) {
    JobLane* const lane = lane_to(job.ctx);
    if (lane == nullptr) [[unlikely]] {
        return comch::doca::is_stopped_job_context(job.ctx)
                   ? refuse(DOCA_ERROR_BAD_STATE, "cannot submit the job: its context is stopped")
                   : refuse(DOCA_ERROR_NOT_FOUND, "cannot submit the job: the work queue is not "
                                                  "added to its context (doca_ctx_workq_add)");
    }
    if (under_way_ == depth()) {
        return DOCA_ERROR_NO_MEMORY;
    }
    const doca_error_t result = lane->submit(job);
    if (result == DOCA_SUCCESS) [[likely]] {
        ++under_way_;
    }
    return result;
}

void doca_workq::done(int type, doca_data user_data, doca_error_t status) noexcept {
    std::size_t at = std::size_t{first_} + waiting_++;
    at = at < events_.size() ? at : at - events_.size();
    events_[at].type = type;
    events_[at].user_data = user_data;
    events_[at].result.u64 = static_cast<std::uint64_t>(status);
}

doca_error_t doca_workq::retrieve(doca_event& event) {
    if (waiting_ == 0) {
        (void)engine_.progress();
        if (waiting_ == 0) {
            return DOCA_ERROR_AGAIN;
        }
    }
    event = events_[first_];
    first_ = first_ + 1 < events_.size() ? first_ + 1 : 0;
    --waiting_;
    --under_way_;
    return event.result.u64 == DOCA_SUCCESS ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED;
}

void doca_workq::arm() {
    engine_.request_notification();
    if (waiting_ != 0) {
        engine_.disturb();
    }
}

JobLane* doca_workq::lane_to(const doca_ctx* ctx) const noexcept {
    for (const Lane& each : lanes_) {
        if (each.to == ctx) {
            return each.lane.get();
        }
    }
    return nullptr;
}

void doca_workq::attach(const doca_ctx& ctx, std::unique_ptr<JobLane> lane) {
    lanes_.push_back({&ctx, std::move(lane)});
}

void doca_workq::detach(const doca_ctx& ctx) noexcept {
    std::erase_if(lanes_, [&](const Lane& each) { return each.to == &ctx; });
}

// ---- the API ------------------------------------------------------------------------------------

namespace {

bool is_depth(std::uint32_t depth) {
    return depth != 0 && depth <= doca_workq::max_depth;
}

doca_error_t event_driven(const doca_workq& workq) {
    return workq.event_driven
               ? DOCA_SUCCESS
               : refuse(DOCA_ERROR_BAD_STATE, "the work queue is not event-driven "
                                              "(doca_workq_set_event_driven_enable)");
}

} // namespace

doca_error_t doca_workq_create(uint32_t depth, doca_workq** workq) {
    if (workq == nullptr || !is_depth(depth)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        auto engine = comch::ProgressEngine::create();
        if (!engine) {
            return refuse(engine.error());
        }
        *workq = new doca_workq(std::move(*engine), depth);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_workq_destroy(doca_workq* workq) {
    if (workq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (workq->attached()) {
        return refuse(DOCA_ERROR_IN_USE, "cannot destroy the work queue: it is added to a context");
    }
    delete workq;
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_get_depth(const doca_workq* workq, uint32_t* depth) {
    if (workq == nullptr || depth == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *depth = workq->depth();
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_set_depth(doca_workq* workq, uint32_t depth) {
    return workq == nullptr || !is_depth(depth) ? DOCA_ERROR_INVALID_VALUE
                                                : guarded([&] { return workq->set_depth(depth); });
}

doca_error_t doca_workq_submit(doca_workq* workq, const doca_job* job) {
    return workq == nullptr || job == nullptr || job->ctx == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : guarded([&] { return workq->submit(*job); });
}

doca_error_t doca_workq_progress_retrieve(doca_workq* workq, doca_event* ev, int flags) {
    if (workq == nullptr || ev == nullptr || flags != DOCA_WORKQ_RETRIEVE_FLAGS_NONE) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = guarded([&] { return workq->retrieve(*ev); });
    // Out of memory, something is left to do.
    return result == DOCA_ERROR_NO_MEMORY ? DOCA_ERROR_AGAIN : result;
}

doca_error_t doca_workq_set_event_driven_enable(doca_workq* workq, uint8_t enable) {
    if (workq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (workq->event_driven == (enable != 0)) {
        return DOCA_SUCCESS;
    }
    if (workq->attached()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot change whether the work queue is event-driven: "
                                            "it is added to a context");
    }
    workq->event_driven = enable != 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_get_event_driven_enable(doca_workq* workq, uint8_t* enabled) {
    if (workq == nullptr || enabled == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *enabled = workq->event_driven ? 1 : 0;
    return DOCA_SUCCESS;
}

doca_error_t doca_workq_get_event_handle(doca_workq* workq, doca_event_handle_t* handle) {
    if (workq == nullptr || handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = event_driven(*workq);
    if (result == DOCA_SUCCESS) {
        *handle = workq->engine().event_fd();
    }
    return result;
}

doca_error_t doca_workq_event_handle_arm(doca_workq* workq) {
    if (workq == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = event_driven(*workq); result != DOCA_SUCCESS) {
        return result;
    }
    return guarded([&] {
        workq->arm();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_workq_event_handle_clear(doca_workq* workq, doca_event_handle_t) {
    return workq == nullptr ? DOCA_ERROR_INVALID_VALUE : event_driven(*workq);
}
