#include "doca_comch/comch/control.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include <sys/timerfd.h>

#include "core/channel/limits.hpp"

namespace comch::doca {
namespace {

/// How long a stop or disconnect waits for a peer that takes nothing, while messages find no room
/// on the link; and for one that takes a little now and then.
constexpr auto stop_patience = std::chrono::seconds(1);
constexpr auto stop_patience_in_all = std::chrono::seconds(10);

/// A peer that takes nothing wakes nobody: a program that sleeps meanwhile is woken so often to
/// look.
constexpr long look_interval_ns = 10'000'000;

} // namespace

ControlContext::ControlContext(doca_dev& device, std::string name, const ControlCalls& calls)
    : ProgressSource{
          .progress =
              [](ProgressSource& self) { return static_cast<ControlContext&>(self).progress(); },
          .arm = [](ProgressSource& self) { return static_cast<ControlContext&>(self).arm(); }},
      calls_(&calls), device_(&device), name_(std::move(name)) {
    device_->users.fetch_add(1, std::memory_order_relaxed);
}

ControlContext::~ControlContext() {
    device_->users.fetch_sub(1, std::memory_order_release);
}

// ---- settings -----------------------------------------------------------------------------------

doca_error_t ControlContext::set(Callback& callback, Callback value) {
    if (value == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    callback = value;
    return DOCA_SUCCESS;
}

doca_error_t ControlContext::set_send_tasks(Callback done, Callback failed, std::uint32_t count) {
    if (done == nullptr || failed == nullptr || count == 0 || count > most_send_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    on_sent = done;
    on_send_failed = failed;
    send_tasks_ = count;
    return DOCA_SUCCESS;
}

doca_error_t ControlContext::set_message_size(std::uint32_t size) {
    if (size == 0 || size > limits::message_size) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    message_size_ = size;
    return DOCA_SUCCESS;
}

doca_error_t ControlContext::set_recv_queue(std::uint32_t size) {
    if (size == 0 || size > limits::recv_queue_depth) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return DOCA_ERROR_BAD_STATE;
    }
    recv_queue_ = size;
    return DOCA_SUCCESS;
}

ConnectionLimits ControlContext::limits() const noexcept {
    return {.message_size = message_size_,
            .send_queue = std::min(send_tasks_, limits::send_queue_depth), // the others wait here
            .recv_queue = recv_queue_};
}

std::uint32_t ControlContext::message_size() const noexcept {
    return channel::with_defaults(limits()).message_size;
}

std::uint32_t ControlContext::recv_queue() const noexcept {
    return channel::with_defaults(limits()).recv_queue;
}

doca_error_t ControlContext::prepare() {
    if (send_tasks_ == 0 || on_message == nullptr) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the context: configure its send tasks and register for "
                      "messages first");
    }
    set_tasks(store_.allocate(send_tasks_, *this), begin_send, calls_->task);
    return DOCA_SUCCESS;
}

// ---- sending ------------------------------------------------------------------------------------

doca_error_t ControlContext::allocate_send(ConnectionHandle* to, const void* message,
                                           std::uint32_t length, SendTask*& task) {
    if (to == nullptr || message == nullptr || length == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (state() != DOCA_CTX_STATE_RUNNING && !(lenient && state() == DOCA_CTX_STATE_STOPPING)) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot allocate the task: its context is not running");
    }
    // While it is stopping, the task only ends with an error: its connection may be over.
    const bool sends = state() == DOCA_CTX_STATE_RUNNING;
    if (to->owner() != this && (sends || to->owner() != nullptr)) {
        return to->owner() == nullptr
                   ? DOCA_ERROR_NOT_CONNECTED
                   : refuse(DOCA_ERROR_INVALID_VALUE,
                            "cannot allocate the task: the connection is another context's");
    }
    if (sends && to->core() == nullptr) {
        return to_doca(to->status);
    }
    if (length > (sends ? to->core()->max_message_size() : message_size())) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "cannot allocate the task: the message is longer "
                                                "than the connection's maximum");
    }
    task = static_cast<SendTask*>(take_task());
    if (task == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    task->connection = to;
    task->generation = to->generation();
    task->message = message;
    task->length = length;
    return DOCA_SUCCESS;
}

doca_error_t ControlContext::begin_send(doca_task& base) {
    auto& task = static_cast<SendTask&>(base);
    ConnectionHandle& handle = *task.connection;
    if (task.generation != handle.generation()) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    if (handle.core() == nullptr) {
        return to_doca(handle.status);
    }
    if (handle.disconnecting()) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    auto& self = static_cast<ControlContext&>(*task.ctx);
    doca_error_t result = DOCA_ERROR_AGAIN;
    task.kept.reset();
    if (!handle.busy) {
        self.busy_.reserve(self.busy_.size() + 1); // once it is sent, nothing must go wrong
    }
    if (handle.waiting.empty()) {
        result = self.put(handle, task);
    }
    if (result == DOCA_ERROR_AGAIN) {
        // What has found room was copied into it, so programs send from their stack.
        task.kept = std::make_unique_for_overwrite<std::byte[]>(task.length);
        if (task.length != 0) {
            std::memcpy(task.kept.get(), task.message, task.length);
        }
        handle.waiting.push(task);
        result = DOCA_SUCCESS;
    }
    if (result == DOCA_SUCCESS) {
        self.mark_busy(handle);
    }
    return result;
}

doca_error_t ControlContext::put(ConnectionHandle& handle, SendTask& task) {
    const auto* const message =
        task.kept ? task.kept.get() : static_cast<const std::byte*>(task.message);
    const Errc result = handle.core()->send({message, task.length});
    if (result == Errc::ok) {
        task.kept.reset();
        task.number = handle.core()->statistics().sent_messages;
        handle.sent.push(task);
    }
    return to_doca(result);
}

void ControlContext::mark_busy(ConnectionHandle& handle) {
    if (!handle.busy) {
        handle.busy = true;
        busy_.push_back(&handle);
        set_wake_on_confirmation(true);
    }
}

unsigned ControlContext::progress() {
    unsigned handled = 0;
    // By index: callbacks may send on other connections.
    for (std::size_t i = 0; i < busy_.size(); ++i) {
        handled += serve(*busy_[i]);
    }
    const auto done = std::erase_if(busy_, [](ConnectionHandle* handle) {
        handle->busy = !handle->sent.empty() || !handle->waiting.empty() || handle->disconnecting();
        return !handle->busy;
    });
    if (done != 0 && busy_.empty()) {
        set_wake_on_confirmation(false);
    }
    return handled;
}

unsigned ControlContext::complete_confirmed(ConnectionHandle& handle) {
    const ConnectionStatistics statistics = handle.core()->statistics();
    const std::uint64_t confirmed = statistics.sent_messages - statistics.in_flight_messages;
    unsigned handled = 0;
    while (!handle.sent.empty() && handle.sent.front().number <= confirmed) {
        complete(handle.sent.pop(), DOCA_SUCCESS);
        ++handled;
    }
    return handled;
}

void ControlContext::deliver(Connection& connection, std::span<const std::byte> message) {
    if (!is_live(connection)) {
        return;
    }
    ConnectionHandle& handle = handle_of_core(connection);
    // What a message answers is complete before it: programs with one task for requests answer, or
    // ask the next, inside the callback.
    if (!handle.sent.empty()) {
        complete_confirmed(handle);
        if (!is_live(connection)) {
            return; // a callback has ended it
        }
    }
    calls_->message(*this, handle, message);
}

unsigned ControlContext::serve(ConnectionHandle& handle) {
    if (handle.core() == nullptr) {
        return 0; // ended, and its tasks with it
    }
    unsigned handled = complete_confirmed(handle);
    bool moved = false;
    while (!handle.waiting.empty()) {
        SendTask& task = handle.waiting.pop(); // first: put() links it into the other one
        const doca_error_t result = put(handle, task);
        if (result == DOCA_ERROR_AGAIN) {
            handle.waiting.push_front(task);
            if (moved) {
                handle.moved = Clock::now();
            }
            break;
        }
        moved = true;
        ++handled;
        if (result != DOCA_SUCCESS) {
            complete(task, result);
        }
    }
    if (handle.disconnecting() && sent_all(handle, handle.disconnecting_since)) {
        disconnect_now(handle);
        handle.cease_disconnecting();
        ++handled;
    }
    return handled;
}

Errc ControlContext::arm() {
    bool waits = false;
    for (const ConnectionHandle* const handle : busy_) {
        if (handle->core() == nullptr || (handle->disconnecting() && handle->waiting.empty())) {
            return Errc::again;
        }
        waits = waits || (!handle->waiting.empty() &&
                          (handle->disconnecting() || state() == DOCA_CTX_STATE_STOPPING));
        const ConnectionStatistics statistics = handle->core()->statistics();
        if (!handle->sent.empty() && handle->sent.front().number <=
                                         statistics.sent_messages - statistics.in_flight_messages) {
            return Errc::again;
        }
    }
    if (waits) {
        return wake_in_a_moment();
    }
    close_timer();
    return Errc::ok;
}

Errc ControlContext::wake_in_a_moment() {
    if (!timer_) {
        timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
        if (!timer_ || !pe()->engine().watch(timer_.get())) {
            timer_.reset();
            return Errc::again; // better awake than asleep for ever
        }
    }
    itimerspec when{};
    when.it_value.tv_nsec = look_interval_ns;
    (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
    return Errc::ok;
}

void ControlContext::close_timer() noexcept {
    if (timer_) {
        pe()->engine().unwatch(timer_.get());
        timer_.reset();
    }
}

bool ControlContext::sent_all(Clock::time_point since) const {
    return std::all_of(busy_.begin(), busy_.end(),
                       [&](const ConnectionHandle* handle) { return sent_all(*handle, since); });
}

bool ControlContext::sent_all(const ConnectionHandle& handle, Clock::time_point since) {
    if (handle.waiting.empty()) {
        return true;
    }
    const Clock::time_point now = Clock::now();
    return now > std::max(since, handle.moved) + stop_patience ||
           now > since + stop_patience_in_all;
}

// ---- what the core tells ------------------------------------------------------------------------

ConnectionHandle& ControlContext::adopt(Connection& connection) {
    ConnectionHandle& handle = ConnectionHandle::make(*this, &connection);
    connection.set_user_data(reinterpret_cast<std::uintptr_t>(&handle));
    return handle;
}

void ControlContext::tell_of_consumer(Connection& connection, std::uint32_t id, bool added) {
    if (const Callback callback = added ? on_consumer_added : on_consumer_removed;
        callback != nullptr && is_live(connection)) {
        calls_->consumer(callback, *this, handle_of_core(connection), id);
    }
}

void ControlContext::end(ConnectionHandle& handle, Errc status, bool delivered) {
    // What the other end had before it left was sent well.
    const ConnectionStatistics statistics =
        handle.core() != nullptr ? handle.core()->statistics() : ConnectionStatistics{};
    const std::uint64_t confirmed = statistics.sent_messages - statistics.in_flight_messages;
    handle.end(status);
    std::erase(busy_, &handle);
    handle.busy = false;
    // Callbacks may submit again: that is refused, since there is no connection any more.
    while (!handle.sent.empty()) {
        SendTask& task = handle.sent.pop();
        complete(task, delivered || task.number <= confirmed ? DOCA_SUCCESS : to_doca(status));
    }
    while (!handle.waiting.empty()) {
        complete(handle.waiting.pop(), to_doca(status));
    }
}

} // namespace comch::doca
