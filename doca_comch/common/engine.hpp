// The progress engine as the API has it: the core's, and the contexts that are connected to it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <comch/progress.hpp>
#include <doca_pe.h>

struct doca_pe {
public:
    explicit doca_pe(std::unique_ptr<comch::ProgressEngine> engine) : engine_(std::move(engine)) {}

    [[nodiscard]] comch::ProgressEngine& engine() noexcept { return *engine_; }
    [[nodiscard]] int event_fd() const noexcept { return engine_->event_fd(); }
    [[nodiscard]] const std::vector<doca_ctx*>& contexts() const noexcept { return contexts_; }
    [[nodiscard]] bool in_progress() const noexcept { return in_progress_; }

    [[nodiscard]] unsigned progress();
    void request_notification();
    /// Something was begun that a sleep, if it has been asked for, does not wait for: it ends.
    void disturb() noexcept {
        if (asleep_) [[unlikely]] {
            asleep_ = false;
            engine_->wake();
        }
    }

    void connect(doca_ctx& ctx);
    void disconnect(doca_ctx& ctx) noexcept;

    /// Whenever a context starts: makes room, so that none of them can fail to end.
    void reserve_for_ends() { reserve_for_ends_of(contexts_.size()); }
    /// A context is stopping, or has tasks to flush: it is looked at with each progress.
    void attend(doca_ctx& ctx);
    void leave(doca_ctx& ctx) noexcept;

    /// Destroys something, after the callbacks that are on the stack have returned.
    template <class T> void bury(std::unique_ptr<T> object) {
        if (in_progress_ && object != nullptr) {
            buried_.emplace_back(nullptr, [](void* it) { delete static_cast<T*>(it); });
            buried_.back().reset(object.release());
        }
    }

private:
    using Buried = std::unique_ptr<void, void (*)(void*)>;

    void reserve_for_ends_of(std::size_t contexts);
    [[nodiscard]] unsigned attend_contexts();
    void destroy_buried() noexcept;

    std::unique_ptr<comch::ProgressEngine> engine_;
    std::vector<doca_ctx*> contexts_;
    std::vector<doca_ctx*> attended_;
    std::vector<Buried> buried_;
    bool in_progress_ = false;
    bool asleep_ = false; ///< from a request for notification to the next progress
    bool attending_ = false;
};
