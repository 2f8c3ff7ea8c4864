// Contexts: the state machine, and the tasks that belong to a context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <doca_ctx.h>

#include "doca_comch/common/engine.hpp"
#include "doca_comch/common/status.hpp"
#include "doca_comch/common/task.hpp"

namespace comch::doca {
class JobContext;
}

/// What kinds of contexts do is in begin_start(), begin_stop(), drained() and closed(); they move
/// the state with enter().
struct doca_ctx {
public:
    /// Begins a task, which is marked as submitted already. Exceptions: it has not begun.
    using Begin = doca_error_t (*)(doca_task&);
    /// Calls the program's callback, for success or for errors.
    using Report = void (*)(doca_task&, bool success);

    virtual ~doca_ctx();
    doca_ctx(const doca_ctx&) = delete;
    doca_ctx& operator=(const doca_ctx&) = delete;

    [[nodiscard]] doca_error_t start();
    [[nodiscard]] doca_error_t stop();
    [[nodiscard]] doca_ctx_states state() const noexcept { return state_; }
    [[nodiscard]] bool idle() const noexcept { return state_ == DOCA_CTX_STATE_IDLE; }

    [[nodiscard]] doca_pe* pe() const noexcept { return pe_; }
    [[nodiscard]] doca_error_t connect(doca_pe& pe);
    [[nodiscard]] virtual doca_error_t set_dpa(doca_dpa*) { return DOCA_ERROR_NOT_SUPPORTED; }
    /// What it is as a context of 2023, with work queues in place of an engine; null: it is none.
    [[nodiscard]] virtual comch::doca::JobContext* jobs() noexcept { return nullptr; }

    /// From each progress of the engine while attended: flushes, and becomes idle if it can.
    [[nodiscard]] unsigned attend();
    /// attend() would do something.
    [[nodiscard]] bool wants_attention() const noexcept;

    // ---- tasks

    /// A task of the program's own; null when there is none left of this kind.
    [[nodiscard]] doca_task* take_task(std::uint8_t kind = 0) noexcept {
        doca_task* const task = free_tasks_[kind];
        if (task != nullptr) [[likely]] {
            free_tasks_[kind] = task->next;
            task->next = nullptr;
            task->use = doca_task::Use::allocated;
            task->free_wanted = false;
            task->status = DOCA_SUCCESS;
            task->user_data.u64 = 0;
            ++allocated_;
        }
        return task;
    }
    void release(doca_task& task) noexcept {
        task.use = doca_task::Use::free;
        task.next = free_tasks_[task.kind];
        free_tasks_[task.kind] = &task;
        --allocated_;
    }
    [[nodiscard]] doca_error_t submit(doca_task& task) {
        if (task.use != doca_task::Use::allocated) [[unlikely]] {
            return DOCA_ERROR_BAD_STATE;
        }
        if (state_ != DOCA_CTX_STATE_RUNNING) [[unlikely]] {
            return submit_when_not_running(task);
        }
        task.use = doca_task::Use::submitted;
        task.status = DOCA_ERROR_IN_PROGRESS;
        const doca_error_t result = comch::doca::guarded([&] { return begin_(task); });
        disturb(); // refused, too: its look at the link may have taken what would end the sleep
        if (result != DOCA_SUCCESS) [[unlikely]] {
            task.use = doca_task::Use::allocated;
            task.status = result;
            return result;
        }
        ++inflight_;
        return DOCA_SUCCESS;
    }
    void free(doca_task& task) noexcept {
        if (task.use == doca_task::Use::allocated) [[likely]] {
            release(task);
            if (state_ == DOCA_CTX_STATE_STOPPING) [[unlikely]] {
                disturb(); // the last one lets it be idle
            }
        } else if (task.use == doca_task::Use::submitted) {
            task.free_wanted = true;
        }
    }
    /// A submitted task has ended.
    void complete(doca_task& task, doca_error_t status) {
        --inflight_;
        task.status = status;
        if (task.free_wanted) [[unlikely]] {
            release(task);
            return;
        }
        task.use = doca_task::Use::allocated;
        report_(task, status == DOCA_SUCCESS);
    }
    /// What was submitted without a flush goes out.
    virtual void flush() {}
    [[nodiscard]] std::uint32_t inflight() const noexcept { return inflight_; }
    [[nodiscard]] std::uint32_t allocated() const noexcept { return allocated_; }

    doca_data user_data{};
    doca_ctx_state_changed_callback_t state_changed = nullptr;
    /// As the oldest of the three generations has it: stopping answers SUCCESS when nothing is
    /// outstanding, and while it lasts tasks are accepted, to end with an error.
    bool lenient = false;

protected:
    doca_ctx() = default;

    /// SUCCESS: running; IN_PROGRESS: starting; others, and exceptions: why not, and it is as
    /// before.
    [[nodiscard]] virtual doca_error_t begin_start() = 0;
    /// SUCCESS: stopping has begun. Others: it has not.
    [[nodiscard]] virtual doca_error_t begin_stop() = 0;
    /// Nothing of the core moves any more, so that only tasks can keep a stopping context.
    [[nodiscard]] virtual bool drained() const noexcept = 0;
    /// Works on getting drained, once per progress.
    [[nodiscard]] virtual unsigned drain() { return 0; }
    /// False: it is not progressed by an engine, since another processor does its data path.
    [[nodiscard]] virtual bool needs_engine() const noexcept { return true; }
    /// Stopping answers SUCCESS when no task is the program's or under way.
    [[nodiscard]] virtual bool stops_at_once() const noexcept { return !needs_engine(); }
    /// Tries to be drained without progress.
    virtual void drain_now() {}
    /// It is idle from here on.
    virtual void closed() {}

    void enter(doca_ctx_states next);
    void disturb() noexcept {
        if (pe_ != nullptr) {
            pe_->disturb();
        }
    }
    /// A fatal error: from starting or running to stopping.
    void fail();
    /// Tasks of a kind, and what is done with tasks.
    void set_tasks(doca_task* first, Begin begin, Report report, std::uint8_t kind = 0) noexcept {
        free_tasks_[kind] = first;
        begin_ = begin;
        report_ = report;
    }

private:
    [[nodiscard]] doca_error_t submit_when_not_running(doca_task& task);
    [[nodiscard]] bool can_be_idle() const noexcept;
    void become_idle();

    doca_ctx_states state_ = DOCA_CTX_STATE_IDLE;
    std::uint32_t inflight_ = 0;
    Begin begin_ = nullptr;
    Report report_ = nullptr;
    std::array<doca_task*, doca_task::kinds> free_tasks_{};
    std::uint32_t allocated_ = 0; ///< tasks that are not free
    doca_pe* pe_ = nullptr;
    comch::doca::TaskQueue<doca_task> flushed_; ///< accepted while stopping
};

namespace comch::doca {

/// Destroys a context that is idle.
[[nodiscard]] doca_error_t destroy(doca_ctx* ctx);

} // namespace comch::doca
