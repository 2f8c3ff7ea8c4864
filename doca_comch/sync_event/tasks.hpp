// The tasks of a sync event. What one does is done, or begun, when it is submitted, and reported by
// a later progress; a task that waits makes progress look at the counter.
#pragma once

#include <cstdint>

#include <comch/progress.hpp>

#include "core/base/unique_fd.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/task.hpp"
#include "doca_comch/sync_event/counter.hpp"

namespace comch::doca {

enum class EventTaskKind : std::uint8_t { get, notify_set, notify_add, wait_eq, wait_neq };

class EventTasks;

struct EventTask : doca_task, CounterOperation {
    std::uint64_t mask = 0;          ///< of one that waits; its value is the operand
    std::uint64_t* result = nullptr; ///< where the program wants the old value
    EventTask* following = nullptr;
    EventTasks* owner = nullptr;

    [[nodiscard]] EventTaskKind what() const noexcept { return EventTaskKind{kind}; }
    [[nodiscard]] bool waits() const noexcept { return what() >= EventTaskKind::wait_eq; }
    [[nodiscard]] bool is_reached(std::uint64_t value) const noexcept {
        return ((value & mask) == operand) == (what() == EventTaskKind::wait_eq);
    }
};

/// Tasks in the order they came.
class EventTaskList {
public:
    EventTaskList() = default;
    EventTaskList(const EventTaskList&) = delete;
    EventTaskList& operator=(const EventTaskList&) = delete;

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] EventTask* first() const noexcept { return first_; }
    void push(EventTask& task) noexcept;
    [[nodiscard]] EventTask& pop() noexcept;
    /// All of the other's, behind its own.
    void take(EventTaskList& other) noexcept;

private:
    EventTask* first_ = nullptr;
    EventTask** end_ = &first_;
};

class EventTasks final : private ProgressSource {
public:
    EventTasks(doca_ctx& ctx, Counter& counter);

    /// While the counter is open, if it is imported.
    [[nodiscard]] Result<void> open(ProgressEngine& engine);
    void close();
    [[nodiscard]] bool is_open() const noexcept { return engine_ != nullptr; }

    [[nodiscard]] doca_error_t begin(EventTask& task);
    /// Ends what has not begun, and what waits.
    [[nodiscard]] unsigned flush();

private:
    /// One reading of the counter, for all that waited when it began: what it answers may be older
    /// than a task that came later.
    struct Look : CounterOperation {
        bool under_way = false;
    };

    [[nodiscard]] unsigned go_on();
    void begin_more();
    [[nodiscard]] unsigned finish_done();
    void look();
    [[nodiscard]] unsigned judge();
    [[nodiscard]] bool resting();
    [[nodiscard]] Errc arm_for_sleep();
    [[nodiscard]] bool has_news();
    void set_timer(bool on);

    doca_ctx& ctx_;
    Counter& counter_;
    ProgressEngine* engine_ = nullptr;
    EventTaskList delayed_; ///< there was no room for them
    EventTaskList done_;
    EventTaskList waiting_;
    EventTaskList looking_; ///< waiting for what the look will show
    Look look_;
    UniqueFd timer_;
    bool timer_on_ = false;
    bool resting_ = false; ///< the program slept: the next look is when the timer says so
};

} // namespace comch::doca
