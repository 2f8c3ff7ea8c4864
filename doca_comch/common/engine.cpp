#include "doca_comch/common/engine.hpp"

#include <algorithm>

#include "doca_comch/common/context.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::refuse;

unsigned doca_pe::progress() {
    if (in_progress_) {
        return 0;
    }
    in_progress_ = true;
    unsigned handled = engine_->progress();
    if (!attended_.empty()) [[unlikely]] {
        handled += attend_contexts();
    }
    in_progress_ = false;
    if (!buried_.empty()) [[unlikely]] {
        // In the order of burial: what belongs to the core goes before the context it calls.
        const auto buried = std::move(buried_);
        buried_.clear();
    }
    return handled;
}

unsigned doca_pe::attend_contexts() {
    unsigned handled = 0;
    attending_ = true;
    // By index: callbacks may stop, start and destroy contexts.
    for (std::size_t i = 0; i < attended_.size(); ++i) {
        if (doca_ctx* const ctx = attended_[i]; ctx != nullptr) {
            handled += ctx->attend();
        }
    }
    attending_ = false;
    std::erase(attended_, nullptr);
    return handled;
}

void doca_pe::request_notification() {
    const bool busy = std::any_of(attended_.begin(), attended_.end(), [](const doca_ctx* ctx) {
        return ctx != nullptr && ctx->wants_attention();
    });
    if (engine_->arm() != comch::Errc::ok || busy) {
        engine_->wake();
    }
}

void doca_pe::disconnect(doca_ctx& ctx) noexcept {
    leave(ctx);
    std::erase(contexts_, &ctx);
}

void doca_pe::attend(doca_ctx& ctx) {
    if (std::find(attended_.begin(), attended_.end(), &ctx) == attended_.end()) {
        attended_.push_back(&ctx);
    }
}

void doca_pe::leave(doca_ctx& ctx) noexcept {
    if (attending_) {
        std::replace(attended_.begin(), attended_.end(), &ctx, static_cast<doca_ctx*>(nullptr));
    } else {
        std::erase(attended_, &ctx);
    }
}

void doca_pe::bury(std::shared_ptr<void> object) {
    if (in_progress_) {
        buried_.push_back(std::move(object));
    }
}

// ---- the API ------------------------------------------------------------------------------------

doca_error_t doca_pe_create(doca_pe** pe) {
    if (pe == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto engine = comch::ProgressEngine::create();
    if (!engine) {
        return refuse(engine.error());
    }
    *pe = new doca_pe(std::move(*engine));
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_destroy(doca_pe* pe) {
    if (pe == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!pe->contexts().empty() || pe->in_progress()) {
        return refuse(DOCA_ERROR_IN_USE, "cannot destroy the progress engine: contexts are "
                                         "connected to it, or it is progressing");
    }
    delete pe;
    return DOCA_SUCCESS;
}

uint8_t doca_pe_progress(doca_pe* pe) {
    return pe != nullptr && pe->progress() != 0 ? 1 : 0;
}

doca_error_t doca_pe_connect_ctx(doca_pe* pe, doca_ctx* ctx) {
    return pe == nullptr || ctx == nullptr ? DOCA_ERROR_INVALID_VALUE : ctx->connect(*pe);
}

doca_error_t doca_pe_get_notification_handle(const doca_pe* pe,
                                             doca_notification_handle_t* handle) {
    if (pe == nullptr || handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *handle = pe->event_fd();
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_request_notification(doca_pe* pe) {
    if (pe == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    pe->request_notification();
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_clear_notification(doca_pe* pe, doca_notification_handle_t) {
    // The next request makes the handle quiet again, if there is nothing to do. Which handle it was
    // is of use on other systems only: programs pass 0.
    return pe == nullptr ? DOCA_ERROR_INVALID_VALUE : DOCA_SUCCESS;
}

doca_error_t doca_pe_get_num_inflight_tasks(const doca_pe* pe, size_t* num_inflight_tasks) {
    if (pe == nullptr || num_inflight_tasks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *num_inflight_tasks = 0;
    for (const doca_ctx* ctx : pe->contexts()) {
        *num_inflight_tasks += ctx->inflight();
    }
    return DOCA_SUCCESS;
}

doca_error_t doca_pe_set_event_mode(doca_pe* pe, doca_pe_event_mode mode) {
    return pe == nullptr || (mode != DOCA_PE_EVENT_MODE_PROGRESS_SELECTIVE &&
                             mode != DOCA_PE_EVENT_MODE_PROGRESS_ALL)
               ? DOCA_ERROR_INVALID_VALUE
               : DOCA_SUCCESS;
}
