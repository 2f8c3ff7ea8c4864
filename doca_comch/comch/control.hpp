// What servers and clients have in common: settings, callbacks, and sending control messages.
//
// A send task is complete when the other end has confirmed its message. Messages that find no room
// on the link wait here, so that submitting succeeds as long as there are tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <comch/progress.hpp>

#include "core/base/unique_fd.hpp"
#include "doca_comch/comch/connection.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {

struct SendTask : doca_task {
    ConnectionHandle* connection = nullptr;
    std::uint32_t generation = 0;
    const void* message = nullptr;
    std::uint32_t length = 0;
    std::uint64_t number = 0;          ///< among the connection's messages
    std::unique_ptr<std::byte[]> kept; ///< of a message that waits: the program may reuse its own
};

/// Of a server or client. Programs ask for more than 10,000; what the connection does not take waits.
inline constexpr std::uint32_t most_send_tasks = 2 * limits::send_queue_depth;

/// How a generation of the API calls its callbacks.
struct ControlCalls {
    void (*message)(ControlContext&, ConnectionHandle&, std::span<const std::byte>);
    void (*connection)(Callback, ControlContext&, ConnectionHandle&, bool success);
    void (*consumer)(Callback, ControlContext&, ConnectionHandle&, std::uint32_t id);
    void (*task)(doca_task&, bool success);
};

class ControlContext : public doca_ctx, private ProgressSource {
public:
    [[nodiscard]] doca_error_t set_send_tasks(Callback done, Callback failed, std::uint32_t count);
    [[nodiscard]] doca_error_t set_message_size(std::uint32_t size);
    [[nodiscard]] doca_error_t set_recv_queue(std::uint32_t size);
    [[nodiscard]] doca_error_t set(Callback& callback, Callback value);
    [[nodiscard]] std::uint32_t message_size() const noexcept;
    [[nodiscard]] std::uint32_t recv_queue() const noexcept;
    [[nodiscard]] doca_dev& device() const noexcept { return *device_; }

    [[nodiscard]] doca_error_t allocate_send(ConnectionHandle* to, const void* message,
                                             std::uint32_t length, SendTask*& task);

    /// Whose types the callbacks have from here on.
    void use(const ControlCalls& calls) noexcept { calls_ = &calls; }

    /// Producers and consumers are opened only where their peers are heard of.
    [[nodiscard]] bool hears_of_consumers() const noexcept { return on_consumer_added != nullptr; }

    Callback on_sent = nullptr;
    Callback on_send_failed = nullptr;
    Callback on_message = nullptr;
    Callback on_connected = nullptr;
    Callback on_disconnected = nullptr;
    Callback on_consumer_added = nullptr;
    Callback on_consumer_removed = nullptr;

protected:
    ControlContext(doca_dev& device, std::string name, const ControlCalls& calls);
    ~ControlContext() override;

    /// Before begin_start() of the kind: what is the same for both.
    [[nodiscard]] doca_error_t prepare();
    [[nodiscard]] ConnectionLimits limits() const noexcept;
    /// After the core's source, so that it is asked after it.
    void join_engine() { pe()->engine().add(*this); }
    void leave_engine() noexcept {
        pe()->engine().remove(*this);
        close_timer();
    }

    // what the core tells
    [[nodiscard]] static ConnectionHandle& handle_of_core(const Connection& connection) noexcept {
        return *reinterpret_cast<ConnectionHandle*>(connection.user_data());
    }
    [[nodiscard]] ConnectionHandle& adopt(Connection& connection);
    /// False: the program was told of its end already, inside a callback, say; what the core still
    /// reports of it is nobody's.
    [[nodiscard]] static bool is_live(const Connection& connection) noexcept {
        return connection.user_data() != 0 && handle_of_core(connection).core() == &connection;
    }
    void deliver(Connection& connection, std::span<const std::byte> message);
    void tell_of_consumer(Connection& connection, std::uint32_t id, bool added);
    /// Completes what is left of its tasks.
    void end(ConnectionHandle& handle, Errc status, bool delivered);

    /// Nothing waits for room any more, or has for too long since the stop.
    [[nodiscard]] bool sent_all(Clock::time_point since) const;

    virtual void set_wake_on_confirmation(bool on) = 0;
    virtual void disconnect_now(ConnectionHandle& handle) = 0;

    const ControlCalls* calls_;
    doca_dev* const device_;
    const std::string name_;

private:
    [[nodiscard]] static doca_error_t begin_send(doca_task& task);
    [[nodiscard]] doca_error_t put(ConnectionHandle& handle, SendTask& task);
    void mark_busy(ConnectionHandle& handle);
    [[nodiscard]] unsigned progress();
    [[nodiscard]] unsigned serve(ConnectionHandle& handle);
    unsigned complete_confirmed(ConnectionHandle& handle);
    [[nodiscard]] static bool sent_all(const ConnectionHandle& handle, Clock::time_point since);
    [[nodiscard]] Errc arm();
    [[nodiscard]] Errc wake_in_a_moment();
    void close_timer() noexcept;

    TaskStore<SendTask> store_;
    std::uint32_t send_tasks_ = 0;
    std::uint32_t message_size_ = 0;
    std::uint32_t recv_queue_ = 0;
    UniqueFd timer_;                      ///< open while a program sleeps that patience is to end
    std::vector<ConnectionHandle*> busy_; ///< with tasks under way
};

} // namespace comch::doca
