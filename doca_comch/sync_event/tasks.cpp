#include "doca_comch/sync_event/tasks.hpp"

#include <cerrno>
#include <utility>

#include <sys/timerfd.h>
#include <unistd.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

/// Nobody tells of a counter's change: a program that sleeps is woken so often to look.
constexpr long look_interval_ns = 1'000'000;

} // namespace

void EventTaskList::push(EventTask& task) noexcept {
    task.following = nullptr;
    *end_ = &task;
    end_ = &task.following;
}

EventTask& EventTaskList::pop() noexcept {
    EventTask& task = *first_;
    first_ = task.following;
    if (first_ == nullptr) {
        end_ = &first_;
    }
    return task;
}

void EventTaskList::take(EventTaskList& other) noexcept {
    if (!other.empty()) {
        *end_ = other.first_;
        end_ = other.end_;
        other.first_ = nullptr;
        other.end_ = &other.first_;
    }
}

EventTasks::EventTasks(doca_ctx& ctx, Counter& counter)
    : ProgressSource{
          .progress = [](ProgressSource& self) { return static_cast<EventTasks&>(self).go_on(); },
          .arm =
              [](ProgressSource& self) { return static_cast<EventTasks&>(self).arm_for_sleep(); }},
      ctx_(ctx), counter_(counter) {
    look_.done = [](CounterOperation&) {}; // judged by the progress that it is done in
}

Result<void> EventTasks::open(ProgressEngine& engine) {
    UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer) {
        return fail_errno(Errc::no_memory, "cannot create the timer of a sync event's tasks",
                          errno);
    }
    engine.add(*this);
    engine_ = &engine; // from here on it is open, and to be closed
    timer_ = std::move(timer);
    timer_on_ = false;
    resting_ = false;
    auto watched = engine.watch(timer_.get());
    if (watched && counter_.imported()) {
        watched = engine.watch(counter_.engine().event_fd());
    }
    return watched;
}

void EventTasks::close() {
    engine_->remove(*this);
    engine_->unwatch(timer_.get());
    if (counter_.imported()) {
        engine_->unwatch(counter_.engine().event_fd());
    }
    timer_.reset();
    engine_ = nullptr;
}

doca_error_t EventTasks::begin(EventTask& task) {
    if (task.waits()) {
        waiting_.push(task);
        return DOCA_SUCCESS;
    }
    if (task.result == nullptr && task.what() != EventTaskKind::notify_set) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    task.owner = this;
    task.done = [](CounterOperation& operation) {
        auto& done = static_cast<EventTask&>(operation);
        done.owner->done_.push(done);
    };
    const Errc result = delayed_.empty() ? counter_.begin(task) : Errc::again;
    if (result == Errc::again) {
        delayed_.push(task);
    } else if (result == Errc::ok) {
        task.outcome = Errc::ok;
        done_.push(task);
    } else if (result != Errc::in_progress) {
        return to_doca(result);
    }
    return DOCA_SUCCESS;
}

unsigned EventTasks::flush() {
    unsigned handled = 0;
    for (EventTaskList* const list : {&delayed_, &waiting_}) {
        EventTaskList flushed;
        flushed.take(*list);
        while (!flushed.empty()) {
            ctx_.complete(flushed.pop(), DOCA_ERROR_SHUTDOWN);
            ++handled;
        }
    }
    return handled;
}

/// Callbacks may submit tasks, and stop and start the context: only empty lists can be left then.
unsigned EventTasks::go_on() {
    if (counter_.imported()) {
        counter_.progress();
    }
    begin_more();
    unsigned handled = finish_done();
    if (is_open()) {
        look();
        handled += judge();
    }
    return handled;
}

void EventTasks::begin_more() {
    while (!delayed_.empty()) {
        const Errc result = counter_.begin(*delayed_.first());
        if (result == Errc::again) {
            return;
        }
        EventTask& task = delayed_.pop();
        if (result != Errc::in_progress) {
            task.outcome = result;
            done_.push(task);
        }
    }
}

unsigned EventTasks::finish_done() {
    EventTaskList done;
    done.take(done_);
    unsigned handled = 0;
    while (!done.empty()) {
        EventTask& task = done.pop();
        if (task.outcome == Errc::ok && task.result != nullptr) {
            *task.result = task.old;
        }
        ctx_.complete(task, to_doca(task.outcome));
        ++handled;
    }
    return handled;
}

void EventTasks::look() {
    if (look_.under_way || waiting_.empty() || ctx_.state() != DOCA_CTX_STATE_RUNNING ||
        resting()) {
        return;
    }
    const Errc result = counter_.begin(look_);
    if (result != Errc::again) {
        look_.under_way = true;
        looking_.take(waiting_);
        if (result != Errc::in_progress) {
            look_.outcome = result;
        }
    }
}

unsigned EventTasks::judge() {
    if (!look_.under_way || look_.outcome == Errc::in_progress) {
        return 0;
    }
    look_.under_way = false;
    const Errc outcome = look_.outcome;
    const std::uint64_t value = look_.old;
    EventTaskList looking;
    looking.take(looking_);
    unsigned handled = 0;
    while (!looking.empty()) {
        EventTask& task = looking.pop();
        if (outcome == Errc::ok && !task.is_reached(value)) {
            waiting_.push(task);
        } else {
            ctx_.complete(task, to_doca(outcome));
            ++handled;
        }
    }
    return handled;
}

bool EventTasks::resting() {
    std::uint64_t expired = 0;
    if (resting_ && ::read(timer_.get(), &expired, sizeof(expired)) == sizeof(expired)) {
        resting_ = false;
        timer_on_ = false;
    }
    return resting_;
}

Errc EventTasks::arm_for_sleep() {
    if (has_news()) {
        return Errc::again;
    }
    const bool waits = !delayed_.empty() || !waiting_.empty() || !looking_.empty();
    set_timer(waits);
    resting_ = waits && counter_.imported();
    return Errc::ok;
}

bool EventTasks::has_news() {
    if (!done_.empty()) {
        return true;
    }
    if (counter_.imported()) {
        return counter_.engine().arm() != Errc::ok;
    }
    CounterOperation now;
    if (!waiting_.empty() && counter_.begin(now) == Errc::ok) {
        for (const EventTask* task = waiting_.first(); task != nullptr; task = task->following) {
            if (task->is_reached(now.old)) {
                return true;
            }
        }
    }
    return false;
}

void EventTasks::set_timer(bool on) {
    if (on || timer_on_) {
        itimerspec when{};
        when.it_value.tv_nsec = on ? look_interval_ns : 0;
        (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
        timer_on_ = on;
    }
}

} // namespace comch::doca
