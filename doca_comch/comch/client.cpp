#include "doca_comch/comch/client.hpp"

#include <utility>

#include "core/channel/limits.hpp"

namespace comch::doca {
namespace {

/// Whom a core's handler is for; null when it is nobody any more.
ClientContext* of(void* user) {
    return *static_cast<ClientContext**>(user);
}

} // namespace

doca_error_t ClientContext::create(doca_dev* device, const char* name, const ControlCalls& calls,
                                   ClientContext*& client) {
    if (!is_open(device) || name == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const auto ok = channel::check_name(name); !ok) {
        return refuse(ok.error());
    }
    if (!device->info.device.capabilities().client_supported) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED,
                      "cannot create a client: clients run on the host, and this is the DPU's "
                      "device");
    }
    client = new ClientContext(*device, name, calls);
    return DOCA_SUCCESS;
}

doca_error_t ClientContext::begin_start() {
    if (const doca_error_t result = prepare(); result != DOCA_SUCCESS) {
        return result;
    }
    const doca_error_t result = guarded([&] { return open_core(); });
    if (result != DOCA_SUCCESS) {
        closed();
        return result;
    }
    return DOCA_ERROR_IN_PROGRESS;
}

doca_error_t ClientContext::open_core() {
    ClientHandlers handlers;
    self_ = std::make_unique<ClientContext*>(this);
    handlers.user = self_.get();
    handlers.state_changed = [](void* user, State state) {
        if (ClientContext* const self = of(user); self != nullptr) {
            self->core_entered(state);
        }
    };
    handlers.message = [](void* user, Connection& connection, std::span<const std::byte> message) {
        if (ClientContext* const self = of(user); self != nullptr) {
            self->deliver(connection, message);
        }
    };
    handlers.consumer_added = [](void* user, Connection& connection, std::uint32_t consumer) {
        if (ClientContext* const self = of(user); self != nullptr) {
            self->tell_of_consumer(connection, consumer, true);
        }
    };
    handlers.consumer_removed = [](void* user, Connection& connection, std::uint32_t consumer) {
        if (ClientContext* const self = of(user); self != nullptr) {
            self->tell_of_consumer(connection, consumer, false);
        }
    };
    ClientOptions options;
    options.limits = limits();
    auto opened = Client::open(pe()->engine(), device_->info.device, name_, options, handlers);
    if (!opened) {
        return refuse(opened.error());
    }
    core_ = std::move(*opened);
    join_engine();
    return DOCA_SUCCESS;
}

void ClientContext::core_entered(State state) {
    if (core_ == nullptr) {
        return;
    }
    switch (state) {
    case State::running:
        connected();
        break;
    case State::stopping:
        fail();
        break;
    case State::idle:
        core_ended();
        break;
    case State::starting:
        break;
    }
}

void ClientContext::connected() {
    const doca_error_t result = guarded([&] {
        handle_ = &adopt(core_->connection());
        return DOCA_SUCCESS;
    });
    if (result == DOCA_SUCCESS) {
        enter(DOCA_CTX_STATE_RUNNING);
        return;
    }
    (void)refuse(result, "the client is connected, but there is no memory for the connection's "
                         "handle: it is stopped");
    stop_since_ = Clock::now(); // by the next progress: here the core is in the middle of it
    fail();
}

void ClientContext::core_ended() {
    if (state() == DOCA_CTX_STATE_STARTING) {
        // It could not connect.
        (void)refuse(core_->error());
        closed();
        enter(DOCA_CTX_STATE_IDLE);
        return;
    }
    const Client* const ended = core_.get();
    end_connection();
    if (core_.get() == ended) { // else it was stopped, and perhaps started, inside a callback
        fail();                 // unless it is stopping already
    }
}

void ClientContext::end_connection() {
    if (handle_ != nullptr) {
        const Errc outcome = core_->outcome();
        const bool by_us = outcome == Errc::canceled;
        end(*handle_, by_us ? Errc::not_connected : outcome, by_us);
    }
}

doca_error_t ClientContext::begin_stop() {
    if (handle_ != nullptr && handle_->has_attached()) {
        return refuse(DOCA_ERROR_IN_USE, "cannot stop the client: producers or consumers are not "
                                         "idle on its connection; stop them first");
    }
    stop_since_ = Clock::now();
    (void)drain();
    return DOCA_SUCCESS;
}

unsigned ClientContext::drain() {
    if (!stop_since_ || drained() || !sent_all(*stop_since_)) {
        return 0;
    }
    if (core_->state() != State::stopping && !core_->stop()) {
        return 0;
    }
    stop_since_.reset();
    return 1;
}

bool ClientContext::drained() const noexcept {
    return core_ == nullptr || core_->state() == State::idle;
}

void ClientContext::drain_now() {
    if (stop_since_) {
        return;
    }
    end_connection();
    leave_engine();
    bury_core();
}

void ClientContext::bury_core() {
    if (core_ != nullptr) {
        *self_ = nullptr;
        pe()->bury(std::move(core_));
        pe()->bury(std::move(self_)); // after it
    }
}

void ClientContext::closed() {
    leave_engine();
    if (handle_ != nullptr) {
        handle_->retire();
        handle_ = nullptr;
    }
    stop_since_.reset();
    bury_core();
}

void ClientContext::set_wake_on_confirmation(bool on) {
    core_->wake_on_confirmation(on);
}

} // namespace comch::doca
