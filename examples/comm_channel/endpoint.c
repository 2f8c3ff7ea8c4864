#include "endpoint.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <doca_log.h>

DOCA_LOG_REGISTER(EXAMPLE::ENDPOINT)

doca_error_t make_endpoint(struct doca_dev *dev, struct doca_dev_rep *rep,
                           struct doca_comm_channel_ep_t **ep)
{
    doca_error_t result = doca_comm_channel_ep_create(ep);

    if (result != DOCA_SUCCESS)
        return result;
    result = doca_comm_channel_ep_set_device(*ep, dev);
    if (rep != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_set_device_rep(*ep, rep));
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_set_max_msg_size(*ep, MAX_MSG_SIZE));
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_set_send_queue_size(*ep, QUEUE_SIZE));
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_set_recv_queue_size(*ep, QUEUE_SIZE));
    if (result != DOCA_SUCCESS)
        (void)doca_comm_channel_ep_destroy(*ep);
    return result;
}

doca_error_t wait_for_message(struct doca_comm_channel_ep_t *ep, char *text, size_t *length,
                              struct doca_comm_channel_addr_t **peer)
{
    doca_event_channel_t received;
    doca_error_t result = doca_comm_channel_ep_get_event_channel(ep, NULL, &received);
    struct pollfd channel = {.fd = received, .events = POLLIN};

    while (result == DOCA_SUCCESS) {
        size_t size = MAX_MSG_SIZE;
        doca_error_t answer =
            doca_comm_channel_ep_recvfrom(ep, text, &size, DOCA_CC_MSG_FLAG_NONE, peer);

        if (answer == DOCA_SUCCESS) {
            text[size] = '\0';
            if (length != NULL)
                *length = size;
        }
        if (answer != DOCA_ERROR_AGAIN)
            return answer;
        result = doca_comm_channel_ep_event_handle_arm_recv(ep);
        if (result == DOCA_SUCCESS)
            (void)poll(&channel, 1, -1);
    }
    return result;
}

doca_error_t send_message(struct doca_comm_channel_ep_t *ep, const void *message, size_t length,
                          struct doca_comm_channel_addr_t *peer)
{
    uint64_t in_flight = 1;
    doca_error_t result;

    do {
        result = doca_comm_channel_ep_sendto(ep, message, length, DOCA_CC_MSG_FLAG_NONE, peer);
        if (result == DOCA_ERROR_AGAIN)
            usleep(100);
    } while (result == DOCA_ERROR_AGAIN);

    while (result == DOCA_SUCCESS && in_flight != 0) {
        result = doca_comm_channel_peer_addr_update_info(peer);
        DOCA_ERROR_PROPAGATE(
            result, doca_comm_channel_peer_addr_get_send_in_flight_messages(peer, &in_flight));
        if (in_flight != 0)
            usleep(100);
    }
    if (result != DOCA_SUCCESS)
        DOCA_LOG_ERR("Cannot send: %s", doca_error_get_descr(result));
    return result;
}

doca_error_t send_text(struct doca_comm_channel_ep_t *ep, const char *text,
                       struct doca_comm_channel_addr_t *peer)
{
    return send_message(ep, text, strlen(text), peer);
}
