#include "doca_comch/common/engine.hpp"

#include <algorithm>
#include <utility>

#include "doca_comch/common/context.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::guarded;
using comch::doca::guarded_or;
using comch::doca::refuse;

namespace {

/// What a context may bury until it is started again: its core, what the core's handlers look at,
/// and itself.
constexpr std::size_t burials = 3;

/// A flag that is set meanwhile, whatever is thrown.
class Raised {
public:
    explicit Raised(bool& flag) noexcept : flag_(flag) { flag_ = true; }
    ~Raised() { flag_ = false; }
    Raised(const Raised&) = delete;
    Raised& operator=(const Raised&) = delete;

private:
    bool& flag_;
};

} // namespace

unsigned doca_pe::progress() {
    if (in_progress_) {
        return 0;
    }
    asleep_ = false;
    unsigned handled = 0;
    {
        const Raised raised(in_progress_);
        handled = engine_->progress();
        if (!attended_.empty()) [[unlikely]] {
            handled += attend_contexts();
        }
    }
    if (!buried_.empty()) [[unlikely]] {
        destroy_buried();
    }
    return handled;
}

void doca_pe::destroy_buried() noexcept {
    // In the order of burial: what belongs to the core goes before the context it calls.
    auto buried = std::exchange(buried_, {});
    buried.clear();
    if (buried_.empty()) {
        buried_.swap(buried); // keeps the room
    }
}

unsigned doca_pe::attend_contexts() {
    unsigned handled = 0;
    const Raised raised(attending_);
    // By index: callbacks may stop, start and destroy contexts.
    for (std::size_t i = 0; i < attended_.size(); ++i) {
        if (doca_ctx* const ctx = attended_[i]; ctx != nullptr) {
            handled += ctx->attend();
        }
    }
    std::erase(attended_, nullptr);
    return handled;
}

void doca_pe::request_notification() {
    const bool busy = std::any_of(attended_.begin(), attended_.end(), [](const doca_ctx* ctx) {
        return ctx != nullptr && ctx->wants_attention();
    });
    asleep_ = engine_->arm() == comch::Errc::ok && !busy;
    if (!asleep_) {
        engine_->wake();
    }
}

void doca_pe::connect(doca_ctx& ctx) {
    reserve_for_ends_of(contexts_.size() + 1);
    contexts_.push_back(&ctx);
}

void doca_pe::reserve_for_ends_of(std::size_t contexts) {
    attended_.reserve(attended_.size() + contexts);
    buried_.reserve(buried_.size() + burials * contexts);
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

// ---- the API ------------------------------------------------------------------------------------

doca_error_t doca_pe_create(doca_pe** pe) {
    if (pe == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        auto engine = comch::ProgressEngine::create();
        if (!engine) {
            return refuse(engine.error());
        }
        *pe = new doca_pe(std::move(*engine));
        return DOCA_SUCCESS;
    });
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
    // Out of memory, something is left to do: programs must not go to sleep beside it.
    return pe != nullptr && guarded_or(1u, [&] { return pe->progress(); }) != 0 ? 1 : 0;
}

doca_error_t doca_pe_connect_ctx(doca_pe* pe, doca_ctx* ctx) {
    return pe == nullptr || ctx == nullptr ? DOCA_ERROR_INVALID_VALUE
                                           : guarded([&] { return ctx->connect(*pe); });
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
    return guarded([&] {
        pe->request_notification();
        return DOCA_SUCCESS;
    });
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
