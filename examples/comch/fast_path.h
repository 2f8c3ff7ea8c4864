/*
 * The high-speed data path, the same on both sides: a consumer that takes one message, and a producer
 * that sends a text to the other side's consumer.
 */
#ifndef EXAMPLES_COMCH_FAST_PATH_H
#define EXAMPLES_COMCH_FAST_PATH_H

#include <stdbool.h>

#include <doca_buf_inventory.h>
#include <doca_comch_consumer.h>
#include <doca_comch_producer.h>
#include <doca_mmap.h>

#include "session.h"

struct fast_path {
    struct session *session;
    const char *text;
    /* Called when the text was sent and a message received, and both contexts are idle again. */
    void (*finished)(struct fast_path *path);

    char memory[2][MAX_TEXT]; /* to send from, to receive into */
    struct doca_mmap *mmap;
    struct doca_buf_inventory *inventory;
    struct doca_comch_consumer *consumer;
    struct doca_comch_producer *producer;
    uint32_t target; /* the other side's consumer; 0: not known yet */
    bool sent;
    bool received;
    bool told; /* finished() was called */
};

/* When the session, whose user this is, is connected. */
void fast_path_open(struct fast_path *path);
/* When the other side's consumer is known. */
void fast_path_send_to(struct fast_path *path, uint32_t consumer);
/* When the session is over. */
void fast_path_close(struct fast_path *path);

#endif
