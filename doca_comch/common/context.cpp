#include "doca_comch/common/context.hpp"

#include <memory>
#include <utility>

#include "doca_comch/common/capability.hpp"

using comch::doca::guarded;
using comch::doca::refuse;

doca_ctx::~doca_ctx() {
    if (pe_ != nullptr) {
        pe_->disconnect(*this);
    }
}

doca_error_t doca_ctx::connect(doca_pe& pe) {
    if (jobs() != nullptr) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED, "cannot connect the context to a progress engine: "
                                                "it is one for work queues (doca_workq.h)");
    }
    if (!idle()) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot connect the context to a progress engine: it is not idle");
    }
    if (pe_ != nullptr) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot connect the context to a progress engine: it has one already");
    }
    pe.connect(*this);
    pe_ = &pe;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx::start() {
    if (!idle()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the context: it is not idle");
    }
    if (pe_ == nullptr && needs_engine()) {
        return refuse(DOCA_ERROR_NOT_CONNECTED, "cannot start the context: connect it to a "
                                                "progress engine first (doca_pe_connect_ctx)");
    }
    if (pe_ != nullptr) {
        pe_->reserve_for_ends();
    }
    const doca_error_t result = begin_start();
    if (result == DOCA_SUCCESS) {
        enter(DOCA_CTX_STATE_RUNNING);
    } else if (result == DOCA_ERROR_IN_PROGRESS) {
        enter(DOCA_CTX_STATE_STARTING);
    }
    return result;
}

doca_error_t doca_ctx::stop() {
    if (idle()) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot stop the context: it is idle");
    }
    if (state_ == DOCA_CTX_STATE_STOPPING) {
        return DOCA_ERROR_IN_PROGRESS;
    }
    if (const doca_error_t result = begin_stop(); result != DOCA_SUCCESS) {
        return result;
    }
    if ((lenient || stops_at_once()) && allocated_ == 0) {
        drain_now(); // its callbacks may allocate
        if (allocated_ == 0 && drained()) {
            closed();
            enter(DOCA_CTX_STATE_IDLE);
            return DOCA_SUCCESS;
        }
    }
    pe_->attend(*this);
    enter(DOCA_CTX_STATE_STOPPING);
    return DOCA_ERROR_IN_PROGRESS;
}

void doca_ctx::fail() {
    if (state_ == DOCA_CTX_STATE_STARTING || state_ == DOCA_CTX_STATE_RUNNING) {
        pe_->attend(*this);
        enter(DOCA_CTX_STATE_STOPPING);
    }
}

void doca_ctx::enter(doca_ctx_states next) {
    const doca_ctx_states before = state_;
    state_ = next;
    disturb();
    if (state_changed != nullptr) {
        state_changed(user_data, this, before, next);
    }
}

doca_error_t doca_ctx::submit_when_not_running(doca_task& task) {
    if (!lenient || state_ != DOCA_CTX_STATE_STOPPING) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot submit the task: its context is not running");
    }
    task.use = doca_task::Use::submitted;
    task.status = DOCA_ERROR_IN_PROGRESS;
    flushed_.push(task);
    ++inflight_;
    disturb();
    return DOCA_SUCCESS;
}

bool doca_ctx::can_be_idle() const noexcept {
    return state_ == DOCA_CTX_STATE_STOPPING && allocated_ == 0 && drained();
}

bool doca_ctx::wants_attention() const noexcept {
    return !flushed_.empty() || can_be_idle();
}

unsigned doca_ctx::attend() {
    unsigned handled = drain();
    // What callbacks submit again is for the next progress: this one returns.
    auto flushed = std::exchange(flushed_, {});
    while (!flushed.empty()) {
        complete(flushed.pop(), DOCA_ERROR_SHUTDOWN);
        ++handled;
    }
    if (can_be_idle()) {
        become_idle();
        ++handled;
    }
    return handled;
}

void doca_ctx::become_idle() {
    pe_->leave(*this);
    closed();
    enter(DOCA_CTX_STATE_IDLE);
}

namespace comch::doca {

doca_error_t destroy(doca_ctx* ctx) {
    if (ctx == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!ctx->idle()) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "cannot destroy the context: stop it, and progress until it is idle");
    }
    std::unique_ptr<doca_ctx> owned(ctx);
    if (doca_pe* const pe = ctx->pe(); pe != nullptr) {
        pe->bury(std::move(owned)); // inside its own callback, say
    }
    return DOCA_SUCCESS;
}

} // namespace comch::doca

// ---- the API ------------------------------------------------------------------------------------

doca_error_t doca_ctx_start(doca_ctx* ctx) {
    return ctx == nullptr ? DOCA_ERROR_INVALID_VALUE : guarded([&] { return ctx->start(); });
}

doca_error_t doca_ctx_stop(doca_ctx* ctx) {
    return ctx == nullptr ? DOCA_ERROR_INVALID_VALUE : guarded([&] { return ctx->stop(); });
}

doca_error_t doca_ctx_get_num_inflight_tasks(const doca_ctx* ctx, size_t* num_inflight_tasks) {
    if (ctx == nullptr || num_inflight_tasks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_inflight_tasks = ctx->inflight();
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_set_user_data(doca_ctx* ctx, doca_data user_data) {
    if (ctx == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    ctx->user_data = user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_get_user_data(const doca_ctx* ctx, doca_data* user_data) {
    if (ctx == nullptr || user_data == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *user_data = ctx->user_data;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_set_state_changed_cb(doca_ctx* ctx, doca_ctx_state_changed_callback_t cb) {
    if (ctx == nullptr || cb == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!ctx->idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    ctx->state_changed = cb;
    return DOCA_SUCCESS;
}

doca_error_t doca_ctx_get_state(const doca_ctx* ctx, doca_ctx_states* state) {
    if (ctx == nullptr || state == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *state = ctx->state();
    return DOCA_SUCCESS;
}

void doca_ctx_flush_tasks(doca_ctx* ctx) {
    if (ctx != nullptr) {
        (void)guarded([&] {
            ctx->flush(); // what is left goes out with the next progress
            return DOCA_SUCCESS;
        });
    }
}

doca_error_t doca_ctx_set_datapath_on_dpa(doca_ctx* ctx, doca_dpa* dpa_dev) {
    if (ctx == nullptr || dpa_dev == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return ctx->idle() ? ctx->set_dpa(dpa_dev) : DOCA_ERROR_BAD_STATE;
}

doca_error_t doca_ctx_set_datapath_on_gpu(doca_ctx* ctx, doca_gpu* gpu_dev) {
    return ctx == nullptr || gpu_dev == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t doca_ctx_cap_get_num_completion_vectors(const doca_devinfo* devinfo,
                                                     uint32_t* num_comp_vectors) {
    return comch::doca::fixed_capability(devinfo, num_comp_vectors, 1);
}

doca_error_t doca_ctx_set_completion_vector(doca_ctx* ctx, uint32_t comp_vector) {
    if (ctx == nullptr || comp_vector != 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return ctx->idle() ? DOCA_SUCCESS : DOCA_ERROR_BAD_STATE;
}
