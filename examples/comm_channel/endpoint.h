/* What the two sides of the 2023 example share. */
#ifndef EXAMPLES_COMM_CHANNEL_ENDPOINT_H
#define EXAMPLES_COMM_CHANNEL_ENDPOINT_H

#include <stddef.h>

#include <doca_comm_channel.h>

#define SERVICE_NAME "comch_example"
#define MAX_MSG_SIZE 4080
#define QUEUE_SIZE 10

/* Creates an endpoint with its device, representor (may be null) and sizes. */
doca_error_t make_endpoint(struct doca_dev *dev, struct doca_dev_rep *rep,
                           struct doca_comm_channel_ep_t **ep);

/* Waits for a message, asleep; `text` has room for MAX_MSG_SIZE + 1 bytes and gets a NUL. `length`, that
 * of the message, may be null. */
doca_error_t wait_for_message(struct doca_comm_channel_ep_t *ep, char *text, size_t *length,
                              struct doca_comm_channel_addr_t **peer);

/* Send, and wait until the other side has confirmed it. */
doca_error_t send_message(struct doca_comm_channel_ep_t *ep, const void *message, size_t length,
                          struct doca_comm_channel_addr_t *peer);
doca_error_t send_text(struct doca_comm_channel_ep_t *ep, const char *text,
                       struct doca_comm_channel_addr_t *peer);

#endif
