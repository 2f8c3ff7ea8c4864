// What DOCA CC's two dialects share.
#pragma once

#include <cstdint>
#include <span>

#include <doca_cc.h>
#include <doca_cc_consumer.h>
#include <doca_cc_producer.h>
#include <doca_comch.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>

#include "doca_comch/comch/client.hpp"
#include "doca_comch/comch/control.hpp"
#include "doca_comch/comch/server.hpp"

namespace comch::doca::cc {

/// Handles of the API are never looked into, so any pointer may play one.
template <class Handle, class Object> [[nodiscard]] Handle* opaque(Object* object) noexcept {
    return reinterpret_cast<Handle*>(object);
}

// The same objects under Comch's names.
inline doca_comch_connection* as_comch(doca_cc_connection* handle) {
    return reinterpret_cast<doca_comch_connection*>(handle);
}
inline const doca_comch_connection* as_comch(const doca_cc_connection* handle) {
    return reinterpret_cast<const doca_comch_connection*>(handle);
}
inline doca_comch_connection** as_comch(doca_cc_connection** handle) {
    return reinterpret_cast<doca_comch_connection**>(handle);
}
inline doca_comch_server* as_comch(doca_cc_server* handle) {
    return reinterpret_cast<doca_comch_server*>(handle);
}
inline const doca_comch_server* as_comch(const doca_cc_server* handle) {
    return reinterpret_cast<const doca_comch_server*>(handle);
}
inline doca_comch_server** as_comch(doca_cc_server** handle) {
    return reinterpret_cast<doca_comch_server**>(handle);
}
inline doca_comch_client* as_comch(doca_cc_client* handle) {
    return reinterpret_cast<doca_comch_client*>(handle);
}
inline const doca_comch_client* as_comch(const doca_cc_client* handle) {
    return reinterpret_cast<const doca_comch_client*>(handle);
}
inline doca_comch_client** as_comch(doca_cc_client** handle) {
    return reinterpret_cast<doca_comch_client**>(handle);
}
inline doca_comch_producer* as_comch(doca_cc_producer* handle) {
    return reinterpret_cast<doca_comch_producer*>(handle);
}
inline const doca_comch_producer* as_comch(const doca_cc_producer* handle) {
    return reinterpret_cast<const doca_comch_producer*>(handle);
}
inline doca_comch_producer** as_comch(doca_cc_producer** handle) {
    return reinterpret_cast<doca_comch_producer**>(handle);
}
inline doca_comch_consumer* as_comch(doca_cc_consumer* handle) {
    return reinterpret_cast<doca_comch_consumer*>(handle);
}
inline const doca_comch_consumer* as_comch(const doca_cc_consumer* handle) {
    return reinterpret_cast<const doca_comch_consumer*>(handle);
}
inline doca_comch_consumer** as_comch(doca_cc_consumer** handle) {
    return reinterpret_cast<doca_comch_consumer**>(handle);
}

inline ControlContext* context_of(doca_cc_server* server) {
    return reinterpret_cast<ServerContext*>(server);
}
inline ControlContext* context_of(doca_cc_client* client) {
    return reinterpret_cast<ClientContext*>(client);
}
template <class Function> [[nodiscard]] Callback callback_of(Function function) noexcept {
    return reinterpret_cast<Callback>(function);
}
[[nodiscard]] inline std::uint8_t* bytes_of(std::span<const std::byte> message) noexcept {
    return reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(message.data()));
}

/// Makes a context stop as this generation's do.
template <class Handle> ControlContext& prepare(Handle* handle) {
    ControlContext& context = *context_of(handle);
    context.lenient = true;
    return context;
}

inline void report_consumer(Callback generic, ControlContext& context, ConnectionHandle& handle,
                            std::uint32_t id) {
    const auto callback = reinterpret_cast<doca_cc_event_consumer_cb_t>(generic);
    callback(opaque<doca_cc_event_consumer>(&context), opaque<doca_cc_connection>(&handle), id);
}

inline void report_send(doca_task& task, bool success) {
    const auto& context = static_cast<const ControlContext&>(*task.ctx);
    // The dialects' task types are both opaque: calling with Comch's is the same call.
    const auto callback = reinterpret_cast<doca_comch_task_send_completion_cb_t>(
        success ? context.on_sent : context.on_send_failed);
    callback(opaque<doca_comch_task_send>(static_cast<SendTask*>(&task)), task.user_data,
             context.user_data);
}

} // namespace comch::doca::cc
