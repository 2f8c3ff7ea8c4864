/*
 * One end of a Comch connection, as the examples use it: a server or client on a progress engine of
 * its own, from its creation to its end.
 */
#ifndef EXAMPLES_COMCH_SESSION_H
#define EXAMPLES_COMCH_SESSION_H

#include <stdbool.h>

#include <doca_comch.h>
#include <doca_dev.h>
#include <doca_pe.h>

#include "../common/options.h"

#define SERVER_NAME "comch_example_server"
#define SEND_TASKS 16

struct session {
    struct doca_dev *dev;
    struct doca_dev_rep *rep; /* a server's */
    struct doca_pe *pe;
    struct doca_comch_server *server;
    struct doca_comch_client *client;
    struct doca_ctx *ctx;
    struct doca_comch_connection *connection; /* null while there is none */
    enum doca_ctx_states state;
    bool stop_wanted;    /* but producers or consumers are not idle yet */
    doca_error_t result; /* the first thing that went wrong */

    /* What the example does with it; any may be null. */
    void *user;
    void (*connected)(struct session *session);
    void (*message)(struct session *session, const char *text, uint32_t length);
    void (*consumer_added)(struct session *session, uint32_t id);
    /* The session is to end: whatever else is on its connection stops now. */
    void (*stop_others)(struct session *session);
};

/* Opens the device (and representor), creates the server or client and starts it. */
doca_error_t session_open(struct session *session, enum side side, const struct options *options);

/* Makes things happen until the session is over: stopped by session_stop(), or by the other end. */
void session_run(struct session *session);

/* Copies the text and sends it on the connection. Also from inside the callbacks. */
void session_send(struct session *session, const char *text);

/* Ends the session, also from inside the callbacks; what was sent is still delivered. */
void session_stop(struct session *session);

/* Destroys what is left; the session's result. */
doca_error_t session_close(struct session *session);

#endif
