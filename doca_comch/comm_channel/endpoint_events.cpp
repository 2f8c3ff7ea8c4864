// Endpoint: event channels, and what a service is asked about itself.
#include <algorithm>

#include "doca_comch/comm_channel/endpoint.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {

// ---- event channels ----------------------------------------------------------------------------

doca_error_t Endpoint::open_channels() {
    if (!was_active_) {
        return refuse(DOCA_ERROR_BAD_STATE,
                      "an endpoint has event channels when it has listened or connected");
    }
    for (EventChannel* const channel : {&send_channel_, &receive_channel_}) {
        if (!*channel) {
            auto created = EventChannel::create(engine_->event_fd());
            if (!created) {
                return refuse(created.error());
            }
            *channel = std::move(*created);
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t Endpoint::event_channels(int* send, int* receive) {
    const doca_error_t result = open_channels();
    if (result == DOCA_SUCCESS && send != nullptr) {
        *send = send_channel_.fd();
    }
    if (result == DOCA_SUCCESS && receive != nullptr) {
        *receive = receive_channel_.fd();
    }
    return result;
}

doca_error_t Endpoint::arm_send() {
    const doca_error_t result = open_channels();
    if (result == DOCA_SUCCESS) {
        send_channel_.arm();
        progress();
        settle();
        if (!send_channel_.armed()) {
            for (const std::unique_ptr<Peer>& peer : peers_) {
                peer->updated.reset(); // rung by this arming, which nothing takes away unseen
            }
        }
    }
    return result;
}

doca_error_t Endpoint::arm_receive() {
    const doca_error_t result = open_channels();
    if (result == DOCA_SUCCESS) {
        receive_channel_.arm();
        progress();
        // What is there already is an event, too: nobody sleeps beside it.
        receive_event_ = !backlog_.empty() || requests_wait_ ||
                         (client_ && (peers_.front()->state == Peer::State::failed ||
                                      peers_.front()->acceptance_untold));
        settle();
        if (client_) {
            // Only here: what another call has rung may have been taken away by this arming.
            peers_.front()->acceptance_untold = false;
        }
    }
    return result;
}

bool Endpoint::any_armed() const noexcept {
    return send_channel_.armed() || receive_channel_.armed() || service_channel_.armed();
}

bool Endpoint::has_news_for_send() const {
    return std::any_of(peers_.begin(), peers_.end(),
                       [](const std::unique_ptr<Peer>& peer) { return peer->has_news_for_send(); });
}

void Endpoint::tell_confirmations() {
    for (const std::unique_ptr<Peer>& peer : peers_) {
        peer->told_confirmed = peer->confirmed();
    }
}

void Endpoint::report_events() {
    if (send_channel_.armed() && (send_event_ || has_news_for_send())) {
        send_event_ = false;
        tell_confirmations();
        send_channel_.ring();
    }
    if (receive_channel_.armed() && receive_event_) {
        receive_event_ = false;
        receive_channel_.ring();
    }
    if (service_channel_.armed() && service_event_) {
        service_event_ = false;
        service_channel_.ring();
    }
}

bool Endpoint::settle() {
    bool handled = false;
    if (!any_armed()) {
        return handled;
    }
    // Each round handles what kept the engine from sleeping. A few do, but for a peer that keeps it
    // awake all the time.
    constexpr int rounds = 64;
    for (int round = 0; round < rounds; ++round) {
        report_events();
        if (!any_armed()) {
            return handled;
        }
        if (server_) {
            server_->wake_on_confirmation(send_channel_.armed());
        } else if (client_) {
            client_->wake_on_confirmation(send_channel_.armed());
        }
        if (engine_->arm() == Errc::ok) {
            return handled;
        }
        if (!progress()) {
            break;
        }
        handled = true;
    }
    // It does not come to rest, so nobody must: who sleeps is woken, and looks again.
    for (EventChannel* const channel : {&send_channel_, &receive_channel_, &service_channel_}) {
        if (channel->armed()) {
            channel->ring();
        }
    }
    return handled;
}

// ---- a service ---------------------------------------------------------------------------------

doca_error_t Endpoint::check_service() const {
    if (server_) {
        return DOCA_SUCCESS;
    }
    return was_active_ ? refuse(DOCA_ERROR_NOT_SUPPORTED,
                                "a client's endpoint has nothing to tell about a service")
                       : refuse(DOCA_ERROR_BAD_STATE, "the endpoint does not listen yet");
}

doca_error_t Endpoint::service_channel(int* channel) {
    const doca_error_t result = check_service();
    if (result != DOCA_SUCCESS) {
        return result;
    }
    if (!service_channel_) {
        auto created = EventChannel::create(engine_->event_fd());
        if (!created) {
            return refuse(created.error());
        }
        service_channel_ = std::move(*created);
    }
    *channel = service_channel_.fd();
    return DOCA_SUCCESS;
}

doca_error_t Endpoint::update_service() {
    const doca_error_t result = check_service();
    if (result != DOCA_SUCCESS) {
        return result;
    }
    progress();
    listed_.clear();
    for (const std::unique_ptr<Peer>& peer : peers_) {
        if (peer->state == Peer::State::established) {
            listed_.push_back(peer->handle);
        }
    }
    pending_ = server_->pending_connections();
    service_event_ = false; // the snapshot has it
    if (service_channel_) {
        service_channel_.arm();
    }
    settle();
    return server_->state() == State::running ? DOCA_SUCCESS : DOCA_ERROR_CONNECTION_RESET;
}

doca_error_t Endpoint::list_peers(doca_comm_channel_addr_t*** array, std::uint32_t* length) {
    const doca_error_t result = check_service();
    if (result == DOCA_SUCCESS) {
        *array = listed_.empty() ? nullptr : listed_.data();
        *length = static_cast<std::uint32_t>(listed_.size());
    }
    return result;
}

doca_error_t Endpoint::count_pending(std::uint32_t* count) {
    const doca_error_t result = check_service();
    if (result == DOCA_SUCCESS) {
        *count = pending_;
    }
    return result;
}

} // namespace comch::doca
