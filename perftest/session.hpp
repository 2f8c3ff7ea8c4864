// One client and one server while they talk: what arrives on their connection, waiting for it, and
// every way in which it can end. The same for both ends, which differ in whose handlers feed it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <comch/connection.hpp>
#include <comch/progress.hpp>

#include "perftest/idle.hpp"
#include "perftest/interrupt.hpp"
#include "perftest/protocol.hpp"

namespace comch::perftest {

class Session {
public:
    /// Gets measured messages: those that begin with data_mark.
    using DataHandler = void (*)(void* user, std::span<const std::byte> message);

    /// `peer`: what to call the other end in errors, "the server".
    Session(ProgressEngine& engine, Connection& connection, std::string peer)
        : engine_(engine), connection_(&connection), peer_(std::move(peer)) {}
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // ---- for the handlers of the server or client

    void on_message(std::span<const std::byte> message) {
        if (!message.empty() && message[0] == protocol::data_mark) [[likely]] {
            if (data_handler_ != nullptr) {
                data_handler_(data_user_, message);
                return;
            }
        }
        keep(message);
    }
    /// The connection is gone from now on.
    void on_end(std::string why, bool orderly);

    // ---- for the rounds

    [[nodiscard]] ProgressEngine& engine() noexcept { return engine_; }
    /// Null when it has ended.
    [[nodiscard]] Connection* connection() noexcept { return connection_; }
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
    void set_data_handler(DataHandler handler, void* user) noexcept {
        data_handler_ = handler;
        data_user_ = user;
    }
    /// The other end has left with a goodbye.
    [[nodiscard]] bool ended_orderly() const noexcept { return connection_ == nullptr && orderly_; }
    /// A message of the protocol waits to be received.
    [[nodiscard]] bool has_message() const noexcept { return !inbox_.empty(); }
    /// Why nothing more will come of it: the connection has ended, or this process is to end.
    [[nodiscard]] std::optional<Error> failure() const;

    /// Time for the other end to do its part; none: as long as it takes. `advice`: what helps who
    /// has to wait for longer.
    void set_timeout(std::optional<double> seconds,
                     std::string_view advice = "--timeout allows for more") noexcept {
        timeout_ = seconds;
        advice_ = advice;
    }
    [[nodiscard]] std::optional<double> timeout() const noexcept { return timeout_; }

    [[nodiscard]] Result<void> send(const protocol::Message& message);

    /// Progresses and sleeps until `done` answers true. `activity` is a number that changes while
    /// things go on; when it has not for as long as the timeout, that is a failure. Who makes
    /// `done` true from another thread wakes the engine.
    template <class Done, class Activity>
    [[nodiscard]] Result<void> wait(Done done, Activity activity, std::optional<double> timeout) {
        Watchdog watchdog(timeout);
        while (!done()) {
            if (auto failed = failure()) {
                return tl::unexpected(std::move(*failed));
            }
            if (engine_.progress() == 0 && engine_.arm() == Errc::ok && !done()) {
                sleep_on(engine_);
            }
            if (watchdog.expired(activity())) {
                return stalled();
            }
        }
        return {};
    }
    template <class Done, class Activity>
    [[nodiscard]] Result<void> wait(Done done, Activity activity) {
        return wait(done, activity, timeout_);
    }
    template <class Done> [[nodiscard]] Result<void> wait(Done done) {
        return wait(
            done, [] { return std::uint64_t{0}; }, timeout_);
    }

    /// The next message of the protocol, which must be a T. A Failure becomes an error.
    template <class T> [[nodiscard]] Result<T> receive() {
        auto arrived = wait([this] { return has_message(); });
        if (!arrived) {
            return tl::unexpected(std::move(arrived.error()));
        }
        auto message = take();
        if (!message) {
            return tl::unexpected(std::move(message.error()));
        }
        if (T* const wanted = std::get_if<T>(&*message)) {
            return std::move(*wanted);
        }
        return unexpected_message();
    }
    /// What waits, undecoded until now; only if has_message().
    [[nodiscard]] Result<protocol::Message> take();

    /// Nothing has moved for as long as may be.
    [[nodiscard]] tl::unexpected<Error> stalled() const;
    [[nodiscard]] tl::unexpected<Error> unexpected_message() const;

    /// Expires when a number has not changed for long.
    class Watchdog {
    public:
        explicit Watchdog(std::optional<double> seconds) : seconds_(seconds) {}
        [[nodiscard]] bool expired(std::uint64_t activity) {
            if (!seconds_) {
                return false;
            }
            const auto now = std::chrono::steady_clock::now();
            if (activity != last_) {
                last_ = activity;
                since_ = now;
            }
            return std::chrono::duration<double>(now - since_).count() > *seconds_;
        }

    private:
        std::optional<double> seconds_;
        std::uint64_t last_ = 0;
        std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    };

private:
    void keep(std::span<const std::byte> message);

    ProgressEngine& engine_;
    Connection* connection_;
    std::string peer_;
    DataHandler data_handler_ = nullptr;
    void* data_user_ = nullptr;
    std::deque<std::vector<std::byte>> inbox_;
    std::string end_; ///< why the connection has ended
    bool orderly_ = false;
    std::optional<double> timeout_;
    std::string_view advice_;
};

} // namespace comch::perftest
