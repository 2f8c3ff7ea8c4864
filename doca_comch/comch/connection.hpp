// Connections as programs hold them.
//
// A connection ends whenever the other end pleases, so programs will use handles of connections
// that are over. Handles are therefore never freed, only used again (much later), and carry a
// generation: whoever keeps one for longer than a call keeps its generation too.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include <comch/connection.hpp>
#include <doca_comch.h>

#include "doca_comch/common/task.hpp"

namespace comch::doca {

using Clock = std::chrono::steady_clock;

class ControlContext;
struct SendTask;

class ConnectionHandle {
public:
    /// A handle of a connection of `owner`, which may have ended already (null).
    [[nodiscard]] static ConnectionHandle& make(ControlContext& owner, Connection* core);

    /// The connection is over, and the program has been told.
    void retire() noexcept;

    // ---- any thread

    [[nodiscard]] std::uint32_t generation() const noexcept {
        return generation_.load(std::memory_order_acquire);
    }
    /// Of its owner; null once it is retired.
    [[nodiscard]] ControlContext* owner() const noexcept {
        return owner_.load(std::memory_order_acquire);
    }
    /// Calls `open` with the live connection and counts a producer or consumer on it.
    /// NOT_CONNECTED if it is not that connection any more, or has ended.
    template <class Open> [[nodiscard]] doca_error_t attach(std::uint32_t generation, Open&& open) {
        const std::lock_guard lock(mutex_);
        if (generation != this->generation() || core_ == nullptr || disconnecting_) {
            return DOCA_ERROR_NOT_CONNECTED;
        }
        const doca_error_t result = open(*core_);
        if (result == DOCA_SUCCESS) {
            ++attached_;
        }
        return result;
    }
    void detach(std::uint32_t generation) noexcept;
    /// 0: the connection has ended.
    [[nodiscard]] std::uint32_t reserve_consumer_id(std::uint32_t generation) {
        const std::lock_guard lock(mutex_);
        return generation == this->generation() && core_ != nullptr ? core_->reserve_consumer_id()
                                                                    : 0;
    }
    [[nodiscard]] bool has_attached() const noexcept;

    // ---- the owner's thread

    [[nodiscard]] Connection* core() const noexcept { return core_; }
    /// From here on nothing attaches.
    void end(Errc status) noexcept;
    /// Nor does anything from here on until it has ended, once nothing waits any more. False:
    /// producers or consumers are not idle.
    [[nodiscard]] bool begin_disconnect() noexcept;
    [[nodiscard]] bool disconnecting() const noexcept { return disconnecting_; }
    void cease_disconnecting() noexcept;

    doca_data user_data{};
    ConnectionStatistics snapshot;
    Errc status = Errc::ok;      ///< why it ended
    TaskQueue<SendTask> waiting; ///< found no room on the link
    TaskQueue<SendTask> sent;    ///< not confirmed
    bool busy = false;           ///< in the owner's list
    Clock::time_point disconnecting_since{};
    Clock::time_point moved{}; ///< when some of what waited found room last
    ConnectionHandle* next_resting = nullptr;

private:
    friend struct Handles;
    ConnectionHandle() = default;

    std::atomic<std::uint32_t> generation_ = 0;
    std::atomic<ControlContext*> owner_ = nullptr;
    mutable std::mutex mutex_; ///< guards what follows
    Connection* core_ = nullptr;
    bool disconnecting_ = false;
    std::uint32_t attached_ = 0; ///< producers and consumers that are not idle
};

[[nodiscard]] inline ConnectionHandle* handle_of(const doca_comch_connection* connection) {
    return reinterpret_cast<ConnectionHandle*>(const_cast<doca_comch_connection*>(connection));
}
[[nodiscard]] inline doca_comch_connection* to_comch(ConnectionHandle& handle) {
    return reinterpret_cast<doca_comch_connection*>(&handle);
}

} // namespace comch::doca
