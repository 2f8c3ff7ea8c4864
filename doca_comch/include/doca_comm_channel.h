/*
 * Comm Channel, the first generation (2023): endpoints that send and receive messages.
 *
 *     service, on the DPU                           client, on the host
 *     doca_comm_channel_ep_create()                 doca_comm_channel_ep_create()
 *     doca_comm_channel_ep_set_device()             doca_comm_channel_ep_set_device()
 *     doca_comm_channel_ep_set_device_rep()
 *     doca_comm_channel_ep_listen()                 doca_comm_channel_ep_connect()
 *     doca_comm_channel_ep_recvfrom()  accepts      doca_comm_channel_peer_addr_update_info()
 *     doca_comm_channel_ep_sendto()                 doca_comm_channel_ep_sendto()
 *
 * Nothing here blocks. What cannot be done now is answered with AGAIN: call again later, or sleep on
 * an event channel until then. Any function answers INVALID_VALUE to a null pointer, where it does
 * not say otherwise.
 *
 * A peer address is a connection. It belongs to its endpoint and lives until it is disconnected or
 * the endpoint destroyed; whoever uses it later is told so.
 *
 * An endpoint's calls take turns, so that one thread may send while another receives.
 */
#ifndef DOCA_COMM_CHANNEL_H_
#define DOCA_COMM_CHANNEL_H_

#include <stddef.h>
#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_dev_rep;
struct doca_devinfo;

struct doca_comm_channel_ep_t;
struct doca_comm_channel_addr_t;

/* A file descriptor to wait on. */
typedef doca_event_handle_t doca_event_channel_t;

enum doca_comm_channel_msg_flags {
    DOCA_CC_MSG_FLAG_NONE = 0 /* the only one */
};

/* ---- what a device can do --------------------------------------------------------------------- */

/* The NUL included. */
DOCA_STABLE doca_error_t
doca_comm_channel_get_max_service_name_len(uint32_t *max_service_name_len);
DOCA_STABLE doca_error_t doca_comm_channel_get_max_message_size(struct doca_devinfo *devinfo,
                                                                uint32_t *max_message_size);
/* Messages of a connection that are on their way, out and in. */
DOCA_STABLE doca_error_t doca_comm_channel_get_max_send_queue_size(struct doca_devinfo *devinfo,
                                                                   uint32_t *max_send_queue_size);
DOCA_STABLE doca_error_t doca_comm_channel_get_max_recv_queue_size(struct doca_devinfo *devinfo,
                                                                   uint32_t *max_recv_queue_size);
/* 0 would be: any number. NOT_SUPPORTED: a service cannot be on that device. */
DOCA_STABLE doca_error_t doca_comm_channel_get_service_max_num_connections(
    struct doca_devinfo *devinfo, uint32_t *max_num_connections);

/* ---- endpoints -------------------------------------------------------------------------------- */

DOCA_STABLE doca_error_t doca_comm_channel_ep_create(struct doca_comm_channel_ep_t **ep);
/* Disconnects everybody, closes the event channels. NOT_CONNECTED: there is no such endpoint. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_destroy(struct doca_comm_channel_ep_t *local_ep);

/* Properties can be set while the endpoint neither listens nor is connected; else BAD_STATE. The
 * device is mandatory; so is the representor for a service. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_set_device(struct doca_comm_channel_ep_t *ep,
                                                         struct doca_dev *device);
DOCA_STABLE doca_error_t doca_comm_channel_ep_set_device_rep(struct doca_comm_channel_ep_t *ep,
                                                             struct doca_dev_rep *device_rep);
/* INVALID_VALUE: 0, or above what the device can do. What holds may be more than what was set: ask
 * the getter. Queues are powers of two, and bounds: a link may be full before. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_set_max_msg_size(struct doca_comm_channel_ep_t *ep,
                                                               uint16_t max_msg_size);
DOCA_STABLE doca_error_t doca_comm_channel_ep_set_send_queue_size(
    struct doca_comm_channel_ep_t *ep, uint16_t send_queue_size);
DOCA_STABLE doca_error_t doca_comm_channel_ep_set_recv_queue_size(
    struct doca_comm_channel_ep_t *ep, uint16_t recv_queue_size);

/* Null as long as none was set. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_device(struct doca_comm_channel_ep_t *ep,
                                                         struct doca_dev **device);
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_device_rep(struct doca_comm_channel_ep_t *ep,
                                                             struct doca_dev_rep **device_rep);
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_max_msg_size(struct doca_comm_channel_ep_t *ep,
                                                               uint16_t *max_msg_size);
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_send_queue_size(
    struct doca_comm_channel_ep_t *ep, uint16_t *send_queue_size);
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_recv_queue_size(
    struct doca_comm_channel_ep_t *ep, uint16_t *recv_queue_size);

/* ---- connections ------------------------------------------------------------------------------ */

/* Lets clients of the representor's host function connect under the name.
 * INVALID_VALUE: the name is empty or too long. BAD_STATE: the device or representor is missing.
 * NOT_PERMITTED: the device is the host's; the endpoint listens already, or is connected.
 * CONNECTION_ABORTED: the name is taken on this representor. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_listen(struct doca_comm_channel_ep_t *local_ep,
                                                     const char *name);

/* Starts to connect; the service completes it in its recvfrom. Until then the address is in
 * progress: see update_info. Over RDMA it waits for an answer first, for two seconds at most.
 * INVALID_VALUE: the name is empty or too long. BAD_STATE: the device is missing. NOT_PERMITTED: the
 * device is the DPU's; the endpoint is connected already. CONNECTION_ABORTED: nobody listens. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_connect(struct doca_comm_channel_ep_t *local_ep,
                                                      const char *name,
                                                      struct doca_comm_channel_addr_t **peer_addr);

/* Frees the address and what waits in both directions. The other side is not told: a client finds
 * out when it sends. A client's endpoint can connect again.
 * NOT_CONNECTED: there is no such connection on this endpoint. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_disconnect(
    struct doca_comm_channel_ep_t *local_ep, struct doca_comm_channel_addr_t *peer_addr);

/* ---- messages --------------------------------------------------------------------------------- */

/* Copies the message and sends it; it may still fail later, and the address with it.
 * INVALID_VALUE: longer than both ends take; a flag. AGAIN: the queue is full, or the connection in
 * progress. CONNECTION_RESET: the connection has failed and must be disconnected. NOT_CONNECTED:
 * there is no such connection. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_sendto(struct doca_comm_channel_ep_t *local_ep,
                                                     const void *msg, size_t len, int flags,
                                                     struct doca_comm_channel_addr_t *peer_addr);

/* Receives the message that arrived first, of all clients, and accepts clients that wait.
 * `len` is the room in, the message's length out. INVALID_VALUE: there is less room than the message
 * needs; it stays, and `len` says its length. AGAIN: there is none. CONNECTION_RESET: `peer_addr` has
 * failed and must be disconnected. CONNECTION_ABORTED: a client could not be accepted. NOT_CONNECTED:
 * the endpoint neither listens nor is connected. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_recvfrom(struct doca_comm_channel_ep_t *local_ep,
                                                       void *msg, size_t *len, int flags,
                                                       struct doca_comm_channel_addr_t **peer_addr);

/* ---- event channels --------------------------------------------------------------------------- */

/* Descriptors that become readable, when armed, once a message was confirmed, or one arrived; the
 * second for a client also once it was accepted, unless update_info has said so already. One pointer
 * may be null. They are the endpoint's, and not armed at first.
 * BAD_STATE: the endpoint has neither listened nor connected yet. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_event_channel(
    struct doca_comm_channel_ep_t *local_ep, doca_event_channel_t *send_event_channel,
    doca_event_channel_t *recv_event_channel);
/* For one event; an event that happened since the last one is one. So is whatever came since a send
 * answered AGAIN, until the next send to that peer: a message was confirmed, the connection accepted,
 * or it failed. While another channel of the endpoint is armed as well, a wake-up may be the other's:
 * the calls then answer AGAIN. */
DOCA_STABLE doca_error_t
doca_comm_channel_ep_event_handle_arm_send(struct doca_comm_channel_ep_t *local_ep);
DOCA_STABLE doca_error_t
doca_comm_channel_ep_event_handle_arm_recv(struct doca_comm_channel_ep_t *local_ep);

/* ---- a connection ----------------------------------------------------------------------------- */

/* 0 at first. */
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_set_user_data(
    struct doca_comm_channel_addr_t *peer_addr, uint64_t user_context);
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_user_data(
    struct doca_comm_channel_addr_t *peer_addr, uint64_t *user_data);

/* Takes the snapshot that the getters below answer from, and says how the connection is.
 * CONNECTION_INPROGRESS: not accepted yet. CONNECTION_ABORTED: it was refused, or has failed. */
DOCA_STABLE doca_error_t
doca_comm_channel_peer_addr_update_info(struct doca_comm_channel_addr_t *peer_addr);
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_send_messages(
    const struct doca_comm_channel_addr_t *peer_addr, uint64_t *send_messages);
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_send_bytes(
    const struct doca_comm_channel_addr_t *peer_addr, uint64_t *send_bytes);
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_recv_messages(
    const struct doca_comm_channel_addr_t *peer_addr, uint64_t *recv_messages);
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_recv_bytes(
    const struct doca_comm_channel_addr_t *peer_addr, uint64_t *recv_bytes);
/* Messages sent and not yet confirmed. What is confirmed reaches the other side even if this
 * endpoint is destroyed now. */
DOCA_STABLE doca_error_t doca_comm_channel_peer_addr_get_send_in_flight_messages(
    const struct doca_comm_channel_addr_t *peer_addr, uint64_t *send_in_flight_messages);

/* ---- a service -------------------------------------------------------------------------------- */

/* A descriptor that becomes readable when a client comes or goes, or the service fails. Armed by
 * update_service_state_info(). BAD_STATE: the endpoint does not listen. NOT_SUPPORTED: it is a
 * client's. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_service_event_channel(
    struct doca_comm_channel_ep_t *local_ep, doca_event_channel_t *service_event_channel);

/* Takes the snapshot that the two below answer from; arrays that they gave are void.
 * CONNECTION_RESET: the service is beyond recovery, destroy the endpoint. BAD_STATE: the endpoint
 * does not listen. NOT_SUPPORTED: it is a client's. */
DOCA_STABLE doca_error_t
doca_comm_channel_ep_update_service_state_info(struct doca_comm_channel_ep_t *local_ep);
/* The clients that are connected. A service may send to them before it has heard from them. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_peer_addr_list(
    const struct doca_comm_channel_ep_t *local_ep,
    struct doca_comm_channel_addr_t ***peer_addr_array, uint32_t *peer_addr_array_len);
/* How many clients wait for recvfrom to accept them. */
DOCA_STABLE doca_error_t doca_comm_channel_ep_get_pending_connections(
    const struct doca_comm_channel_ep_t *local_ep, uint32_t *pending_connections);

#ifdef __cplusplus
}
#endif

#define DOCA_COMM_CHANNEL_COMPLETE
#include <doca_compat_2023.h>

#endif
