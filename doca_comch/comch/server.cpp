#include "doca_comch/comch/server.hpp"

#include <algorithm>
#include <utility>

#include "core/channel/limits.hpp"

namespace comch::doca {

doca_error_t ServerContext::create(doca_dev* device, doca_dev_rep* representor, const char* name,
                                   const ControlCalls& calls, ServerContext*& server) {
    if (!is_open(device) || !is_open(representor) || name == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const auto ok = channel::check_name(name); !ok) {
        return refuse(ok.error());
    }
    if (!device->info.device.capabilities().server_supported) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED,
                      "cannot create a server: servers run on the DPU, and this is a device of the "
                      "host");
    }
    server = new ServerContext(*device, *representor, name, calls);
    return DOCA_SUCCESS;
}

ServerContext::ServerContext(doca_dev& device, doca_dev_rep& representor, std::string name,
                             const ControlCalls& calls)
    : ControlContext(device, std::move(name), calls), representor_(&representor) {
    representor_->users.fetch_add(1, std::memory_order_relaxed);
}

ServerContext::~ServerContext() {
    representor_->users.fetch_sub(1, std::memory_order_release);
}

doca_error_t ServerContext::begin_start() {
    if (on_connected == nullptr || on_disconnected == nullptr) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the server: register for its connections first");
    }
    if (const doca_error_t result = prepare(); result != DOCA_SUCCESS) {
        return result;
    }
    const doca_error_t result = guarded([&] { return open_core(); });
    if (result != DOCA_SUCCESS) {
        closed();
    }
    return result;
}

doca_error_t ServerContext::open_core() {
    ServerHandlers handlers;
    handlers.user = this;
    handlers.connected = [](void* user, Connection& connection) {
        static_cast<ServerContext*>(user)->connected(connection);
    };
    handlers.disconnected = [](void* user, Connection& connection, EndReason reason) {
        static_cast<ServerContext*>(user)->disconnected(connection, reason);
    };
    handlers.refused = [](void* user, const Peer&, Refusal) {
        static_cast<ServerContext*>(user)->refused();
    };
    handlers.message = [](void* user, Connection& connection, std::span<const std::byte> message) {
        static_cast<ServerContext*>(user)->deliver(connection, message);
    };
    handlers.state_changed = [](void* user, State state) {
        if (state == State::stopping) {
            static_cast<ServerContext*>(user)->fail(); // its device is gone
        }
    };
    handlers.consumer_added = [](void* user, Connection& connection, std::uint32_t consumer) {
        static_cast<ServerContext*>(user)->tell_of_consumer(connection, consumer, true);
    };
    handlers.consumer_removed = [](void* user, Connection& connection, std::uint32_t consumer) {
        static_cast<ServerContext*>(user)->tell_of_consumer(connection, consumer, false);
    };
    ServerOptions options;
    options.limits = limits();
    auto opened = Server::open(pe()->engine(), device_->info.device, representor_->info.representor,
                               name_, options, handlers);
    if (!opened) {
        return refuse(opened.error());
    }
    core_ = std::move(*opened);
    join_engine();
    return DOCA_SUCCESS;
}

bool ServerContext::has_attached() const {
    const std::vector<Connection*> connections = core_->connections();
    return std::any_of(connections.begin(), connections.end(), [](Connection* connection) {
        return connection->user_data() != 0 && handle_of_core(*connection).has_attached();
    });
}

doca_error_t ServerContext::begin_stop() {
    if (draining_now_) {
        return DOCA_ERROR_IN_PROGRESS; // called by a callback of the stop that goes on
    }
    if (has_attached()) {
        return refuse(DOCA_ERROR_IN_USE, "cannot stop the server: producers or consumers are not "
                                         "idle on its connections; stop them first");
    }
    stop_since_ = Clock::now();
    (void)drain();
    return DOCA_SUCCESS;
}

unsigned ServerContext::drain() {
    if (!stop_since_ || !sent_all(*stop_since_)) {
        return 0;
    }
    // A producer or consumer that was opened meanwhile keeps us until it is stopped.
    if (!core_->stop()) {
        return 0;
    }
    stop_since_.reset();
    return 1;
}

bool ServerContext::drained() const noexcept {
    return core_ == nullptr || core_->state() == State::idle;
}

void ServerContext::drain_now() {
    if (stop_since_) {
        return;
    }
    draining_now_ = true;
    while (!live_.empty()) {
        finish(*live_.back(), true, true);
    }
    draining_now_ = false;
    leave_engine();
    pe()->bury(std::move(core_));
}

void ServerContext::closed() {
    if (core_ == nullptr) {
        return;
    }
    leave_engine();
    pe()->bury(std::move(core_));
}

void ServerContext::set_wake_on_confirmation(bool on) {
    core_->wake_on_confirmation(on);
}

doca_error_t ServerContext::disconnect(ConnectionHandle* handle) {
    if (handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (handle->owner() != this) {
        return handle->owner() == nullptr
                   ? DOCA_ERROR_NOT_CONNECTED
                   : refuse(DOCA_ERROR_INVALID_VALUE,
                            "cannot disconnect: the connection is not this server's");
    }
    if (handle->core() == nullptr || handle->disconnecting()) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    const bool waits = !handle->waiting.empty();
    if (waits ? !handle->begin_disconnect() : handle->has_attached()) {
        return refuse(DOCA_ERROR_IN_USE, "cannot disconnect: producers or consumers are not idle "
                                         "on the connection; stop them first");
    }
    // Progress has to end it, or to watch its patience.
    disturb();
    if (waits) { // its last words first
        handle->disconnecting_since = Clock::now();
        return DOCA_SUCCESS;
    }
    const auto result = core_->disconnect(*handle->core());
    return result ? DOCA_SUCCESS : refuse(result.error());
}

void ServerContext::disconnect_now(ConnectionHandle& handle) {
    if (const auto result = core_->disconnect(*handle.core()); !result) {
        (void)refuse(result.error());
    }
}

void ServerContext::connected(Connection& connection) {
    if (core_ == nullptr) {
        return;
    }
    const doca_error_t result = guarded([&] {
        live_.reserve(live_.size() + 1);
        live_.push_back(&adopt(connection));
        return DOCA_SUCCESS;
    });
    if (result != DOCA_SUCCESS) {
        (void)refuse(result, "there is no memory for another client: it is disconnected");
        (void)guarded([&] {
            (void)core_->disconnect(connection);
            return DOCA_SUCCESS;
        });
        return;
    }
    calls_->connection(on_connected, *this, *live_.back(), true);
}

void ServerContext::disconnected(Connection& connection, EndReason reason) {
    if (core_ != nullptr && is_live(connection)) {
        const bool orderly = reason == EndReason::local || reason == EndReason::closed;
        // What was on the link when we ended the connection ourselves is delivered all the same.
        finish(handle_of_core(connection), orderly, reason == EndReason::local);
    }
}

void ServerContext::finish(ConnectionHandle& handle, bool orderly, bool delivered) {
    std::erase(live_, &handle);
    const Server* const before = core_.get();
    end(handle, orderly ? Errc::not_connected : Errc::connection_reset, delivered);
    if (core_.get() == before) { // else it was stopped, and perhaps started, inside a callback
        calls_->connection(on_disconnected, *this, handle, orderly);
    }
    handle.retire();
}

void ServerContext::refused() {
    if (core_ == nullptr) {
        return;
    }
    ConnectionHandle* const handle = guarded_or<ConnectionHandle*>(
        nullptr, [&] { return &ConnectionHandle::make(*this, nullptr); });
    if (handle != nullptr) { // else nobody is told of a client that there is not
        calls_->connection(on_connected, *this, *handle, false);
        handle->retire();
    }
}

} // namespace comch::doca
