// doca_comm_channel.h: checks what it is given, and finds the endpoint.
#include <cstring>
#include <string_view>

#include <doca_comm_channel.h>

#include "doca_comch/comm_channel/endpoint.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::capability;
using comch::doca::Endpoint;
using comch::doca::guarded;
using comch::doca::Peer;
using comch::doca::refuse;
using EndpointPool = comch::doca::HandlePool<doca_comm_channel_ep_t>;

namespace {

/// INVALID_VALUE for a null pointer, what is no endpoint, and an endpoint that was destroyed.
template <class F> doca_error_t with(const doca_comm_channel_ep_t* handle, bool valid, F f) {
    Endpoint* const endpoint = doca_comm_channel_ep_t::object_of(handle);
    if (endpoint == nullptr || !valid) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        const std::lock_guard lock(endpoint->mutex);
        return f(*endpoint);
    });
}

/// A connection of this endpoint, which is locked; null if there is none such.
Peer* peer_of(Endpoint& endpoint, const doca_comm_channel_addr_t* address) {
    Peer* const peer = doca_comm_channel_addr_t::object_of(address);
    return peer != nullptr && address->owner == &endpoint ? peer : nullptr;
}

/// The same for an address, with its endpoint locked.
template <class F> doca_error_t with(const doca_comm_channel_addr_t* handle, bool valid, F f) {
    if (doca_comm_channel_addr_t::object_of(handle) == nullptr || !valid) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    Endpoint* const owner = handle->owner;
    if (owner == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        const std::lock_guard lock(owner->mutex);
        // Another thread may have disconnected it while we waited.
        Peer* const peer = peer_of(*owner, handle);
        return peer != nullptr ? f(*peer) : DOCA_ERROR_INVALID_VALUE;
    });
}

/// For properties, which cannot be changed while they are in use.
template <class F> doca_error_t change(doca_comm_channel_ep_t* handle, bool valid, F f) {
    return with(handle, valid, [&](Endpoint& endpoint) {
        if (endpoint.active()) {
            return refuse(DOCA_ERROR_BAD_STATE, "cannot change a property of an endpoint that "
                                                "listens or is connected");
        }
        return f(endpoint.properties);
    });
}

doca_error_t check_name(const char* name) {
    const std::size_t length = ::strnlen(name, comch::limits::server_name_size);
    return length != 0 && length < comch::limits::server_name_size
               ? DOCA_SUCCESS
               : refuse(DOCA_ERROR_INVALID_VALUE,
                        "a service's name must not be empty, nor longer than "
                        "doca_comm_channel_get_max_service_name_len() says");
}

} // namespace

// ---- what a device can do ----------------------------------------------------------------------

doca_error_t doca_comm_channel_get_max_service_name_len(uint32_t* max_service_name_len) {
    if (max_service_name_len == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_service_name_len = comch::limits::server_name_size;
    return DOCA_SUCCESS;
}

doca_error_t doca_comm_channel_get_max_message_size(doca_devinfo* devinfo,
                                                    uint32_t* max_message_size) {
    return capability(devinfo, max_message_size, [](const auto& c) { return c.max_message_size; });
}

doca_error_t doca_comm_channel_get_max_send_queue_size(doca_devinfo* devinfo,
                                                       uint32_t* max_send_queue_size) {
    return capability(devinfo, max_send_queue_size,
                      [](const auto& c) { return c.max_send_queue_depth; });
}

doca_error_t doca_comm_channel_get_max_recv_queue_size(doca_devinfo* devinfo,
                                                       uint32_t* max_recv_queue_size) {
    return capability(devinfo, max_recv_queue_size,
                      [](const auto& c) { return c.max_recv_queue_depth; });
}

doca_error_t doca_comm_channel_get_service_max_num_connections(doca_devinfo* devinfo,
                                                               uint32_t* max_num_connections) {
    if (devinfo != nullptr && max_num_connections != nullptr &&
        !devinfo->device.capabilities().server_supported) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    return capability(devinfo, max_num_connections,
                      [](const auto& c) { return c.max_clients_per_server; });
}

// ---- endpoints ---------------------------------------------------------------------------------

doca_error_t doca_comm_channel_ep_create(doca_comm_channel_ep_t** ep) {
    if (ep == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        auto endpoint = Endpoint::create();
        if (!endpoint) {
            return refuse(DOCA_ERROR_INITIALIZATION, endpoint.error().message);
        }
        *ep = EndpointPool::instance().take(endpoint->get());
        (void)endpoint->release(); // the handle's now
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_destroy(doca_comm_channel_ep_t* local_ep) {
    Endpoint* const endpoint = doca_comm_channel_ep_t::object_of(local_ep);
    if (endpoint == nullptr) {
        return DOCA_ERROR_NOT_CONNECTED;
    }
    EndpointPool::instance().give_back(local_ep);
    delete endpoint;
    return DOCA_SUCCESS;
}

doca_error_t doca_comm_channel_ep_set_device(doca_comm_channel_ep_t* ep, doca_dev* device) {
    return change(ep, device != nullptr, [&](auto& properties) {
        return properties.device.set(device)
                   ? DOCA_SUCCESS
                   : refuse(DOCA_ERROR_INVALID_VALUE, "cannot set a device that is not open");
    });
}

doca_error_t doca_comm_channel_ep_set_device_rep(doca_comm_channel_ep_t* ep,
                                                 doca_dev_rep* device_rep) {
    return change(ep, device_rep != nullptr, [&](auto& properties) {
        return properties.representor.set(device_rep)
                   ? DOCA_SUCCESS
                   : refuse(DOCA_ERROR_INVALID_VALUE, "cannot set a representor that is not open");
    });
}

doca_error_t doca_comm_channel_ep_set_max_msg_size(doca_comm_channel_ep_t* ep,
                                                   uint16_t max_msg_size) {
    return change(ep, true,
                  [&](auto& properties) { return properties.set_max_message(max_msg_size); });
}

doca_error_t doca_comm_channel_ep_set_send_queue_size(doca_comm_channel_ep_t* ep,
                                                      uint16_t send_queue_size) {
    return change(ep, true,
                  [&](auto& properties) { return properties.set_send_queue(send_queue_size); });
}

doca_error_t doca_comm_channel_ep_set_recv_queue_size(doca_comm_channel_ep_t* ep,
                                                      uint16_t recv_queue_size) {
    return change(ep, true,
                  [&](auto& properties) { return properties.set_recv_queue(recv_queue_size); });
}

doca_error_t doca_comm_channel_ep_get_device(doca_comm_channel_ep_t* ep, doca_dev** device) {
    return with(ep, device != nullptr, [&](Endpoint& endpoint) {
        *device = endpoint.properties.device.get();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_get_device_rep(doca_comm_channel_ep_t* ep,
                                                 doca_dev_rep** device_rep) {
    return with(ep, device_rep != nullptr, [&](Endpoint& endpoint) {
        *device_rep = endpoint.properties.representor.get();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_get_max_msg_size(doca_comm_channel_ep_t* ep,
                                                   uint16_t* max_msg_size) {
    return with(ep, max_msg_size != nullptr, [&](Endpoint& endpoint) {
        *max_msg_size = endpoint.properties.max_message;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_get_send_queue_size(doca_comm_channel_ep_t* ep,
                                                      uint16_t* send_queue_size) {
    return with(ep, send_queue_size != nullptr, [&](Endpoint& endpoint) {
        *send_queue_size = endpoint.properties.send_queue;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_get_recv_queue_size(doca_comm_channel_ep_t* ep,
                                                      uint16_t* recv_queue_size) {
    return with(ep, recv_queue_size != nullptr, [&](Endpoint& endpoint) {
        *recv_queue_size = endpoint.properties.recv_queue;
        return DOCA_SUCCESS;
    });
}

// ---- connections and messages ------------------------------------------------------------------

doca_error_t doca_comm_channel_ep_listen(doca_comm_channel_ep_t* local_ep, const char* name) {
    return with(local_ep, name != nullptr, [&](Endpoint& endpoint) {
        const doca_error_t result = check_name(name);
        return result == DOCA_SUCCESS ? endpoint.listen(name) : result;
    });
}

doca_error_t doca_comm_channel_ep_connect(doca_comm_channel_ep_t* local_ep, const char* name,
                                          doca_comm_channel_addr_t** peer_addr) {
    return with(local_ep, name != nullptr && peer_addr != nullptr, [&](Endpoint& endpoint) {
        const doca_error_t result = check_name(name);
        return result == DOCA_SUCCESS ? endpoint.connect(name, peer_addr) : result;
    });
}

doca_error_t doca_comm_channel_ep_disconnect(doca_comm_channel_ep_t* local_ep,
                                             doca_comm_channel_addr_t* peer_addr) {
    return with(local_ep, true, [&](Endpoint& endpoint) {
        Peer* const peer = peer_of(endpoint, peer_addr);
        if (peer == nullptr) {
            return DOCA_ERROR_NOT_CONNECTED;
        }
        endpoint.disconnect(*peer);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_ep_sendto(doca_comm_channel_ep_t* local_ep, const void* msg,
                                         size_t len, int flags,
                                         doca_comm_channel_addr_t* peer_addr) {
    const bool valid = msg != nullptr && flags == DOCA_CC_MSG_FLAG_NONE;
    return with(local_ep, valid, [&](Endpoint& endpoint) {
        Peer* const peer = peer_of(endpoint, peer_addr);
        return peer == nullptr ? DOCA_ERROR_NOT_CONNECTED
                               : endpoint.send(*peer, {static_cast<const std::byte*>(msg), len});
    });
}

doca_error_t doca_comm_channel_ep_recvfrom(doca_comm_channel_ep_t* local_ep, void* msg, size_t* len,
                                           int flags, doca_comm_channel_addr_t** peer_addr) {
    const bool valid =
        msg != nullptr && len != nullptr && peer_addr != nullptr && flags == DOCA_CC_MSG_FLAG_NONE;
    return with(local_ep, valid,
                [&](Endpoint& endpoint) { return endpoint.receive(msg, len, peer_addr); });
}

// ---- event channels ----------------------------------------------------------------------------

doca_error_t doca_comm_channel_ep_get_event_channel(doca_comm_channel_ep_t* local_ep,
                                                    doca_event_channel_t* send_event_channel,
                                                    doca_event_channel_t* recv_event_channel) {
    return with(local_ep, send_event_channel != nullptr || recv_event_channel != nullptr,
                [&](Endpoint& endpoint) {
                    return endpoint.event_channels(send_event_channel, recv_event_channel);
                });
}

doca_error_t doca_comm_channel_ep_event_handle_arm_send(doca_comm_channel_ep_t* local_ep) {
    return with(local_ep, true, [](Endpoint& endpoint) { return endpoint.arm_send(); });
}

doca_error_t doca_comm_channel_ep_event_handle_arm_recv(doca_comm_channel_ep_t* local_ep) {
    return with(local_ep, true, [](Endpoint& endpoint) { return endpoint.arm_receive(); });
}

// ---- a connection ------------------------------------------------------------------------------

doca_error_t doca_comm_channel_peer_addr_set_user_data(doca_comm_channel_addr_t* peer_addr,
                                                       uint64_t user_context) {
    return with(peer_addr, true, [&](Peer& peer) {
        peer.user_data = user_context;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_peer_addr_get_user_data(doca_comm_channel_addr_t* peer_addr,
                                                       uint64_t* user_data) {
    return with(peer_addr, user_data != nullptr, [&](Peer& peer) {
        *user_data = peer.user_data;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_comm_channel_peer_addr_update_info(doca_comm_channel_addr_t* peer_addr) {
    return with(peer_addr, true, [](Peer& peer) { return peer.owner.update(peer); });
}

namespace {

doca_error_t statistic(const doca_comm_channel_addr_t* peer_addr, uint64_t* value,
                       uint64_t comch::ConnectionStatistics::*member) {
    return with(peer_addr, value != nullptr, [&](const Peer& peer) {
        *value = peer.snapshot.*member;
        return DOCA_SUCCESS;
    });
}

} // namespace

doca_error_t
doca_comm_channel_peer_addr_get_send_messages(const doca_comm_channel_addr_t* peer_addr,
                                              uint64_t* send_messages) {
    return statistic(peer_addr, send_messages, &comch::ConnectionStatistics::sent_messages);
}

doca_error_t doca_comm_channel_peer_addr_get_send_bytes(const doca_comm_channel_addr_t* peer_addr,
                                                        uint64_t* send_bytes) {
    return statistic(peer_addr, send_bytes, &comch::ConnectionStatistics::sent_bytes);
}

doca_error_t
doca_comm_channel_peer_addr_get_recv_messages(const doca_comm_channel_addr_t* peer_addr,
                                              uint64_t* recv_messages) {
    return statistic(peer_addr, recv_messages, &comch::ConnectionStatistics::received_messages);
}

doca_error_t doca_comm_channel_peer_addr_get_recv_bytes(const doca_comm_channel_addr_t* peer_addr,
                                                        uint64_t* recv_bytes) {
    return statistic(peer_addr, recv_bytes, &comch::ConnectionStatistics::received_bytes);
}

doca_error_t
doca_comm_channel_peer_addr_get_send_in_flight_messages(const doca_comm_channel_addr_t* peer_addr,
                                                        uint64_t* send_in_flight_messages) {
    return statistic(peer_addr, send_in_flight_messages,
                     &comch::ConnectionStatistics::in_flight_messages);
}

// ---- a service ---------------------------------------------------------------------------------

doca_error_t
doca_comm_channel_ep_get_service_event_channel(doca_comm_channel_ep_t* local_ep,
                                               doca_event_channel_t* service_event_channel) {
    return with(local_ep, service_event_channel != nullptr, [&](Endpoint& endpoint) {
        return endpoint.service_channel(service_event_channel);
    });
}

doca_error_t doca_comm_channel_ep_update_service_state_info(doca_comm_channel_ep_t* local_ep) {
    return with(local_ep, true, [](Endpoint& endpoint) { return endpoint.update_service(); });
}

doca_error_t doca_comm_channel_ep_get_peer_addr_list(const doca_comm_channel_ep_t* local_ep,
                                                     doca_comm_channel_addr_t*** peer_addr_array,
                                                     uint32_t* peer_addr_array_len) {
    return with(local_ep, peer_addr_array != nullptr && peer_addr_array_len != nullptr,
                [&](Endpoint& endpoint) {
                    return endpoint.list_peers(peer_addr_array, peer_addr_array_len);
                });
}

doca_error_t doca_comm_channel_ep_get_pending_connections(const doca_comm_channel_ep_t* local_ep,
                                                          uint32_t* pending_connections) {
    return with(local_ep, pending_connections != nullptr,
                [&](Endpoint& endpoint) { return endpoint.count_pending(pending_connections); });
}
