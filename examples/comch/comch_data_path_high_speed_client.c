/*
 * High-speed data path, the host's half: producer and consumer exchange texts with the server's. It
 * stops when both sides have what they wanted.
 */
#include <stdbool.h>
#include <stdlib.h>

#include <doca_log.h>

#include "fast_path.h"

DOCA_LOG_REGISTER(COMCH_DATA_PATH_HIGH_SPEED_CLIENT)

static bool server_is_done;

static void stop_when_both_are_done(struct fast_path *path)
{
    if (path->told && server_is_done)
        session_stop(path->session);
}

static void on_message(struct session *session, const char *text, uint32_t length)
{
    DOCA_LOG_INFO("Received on the control path: %.*s", (int)length, text);
    server_is_done = true;
    stop_when_both_are_done(session->user);
}

static void on_connected(struct session *session)
{
    fast_path_open(session->user);
}

static void on_consumer(struct session *session, uint32_t id)
{
    fast_path_send_to(session->user, id);
}

int main(int argc, char **argv)
{
    static struct fast_path path;
    struct options options = {.pci_addr = "3b:00.0", .text = "Message from the client"};
    struct session session = {.user = &path,
                              .connected = on_connected,
                              .message = on_message,
                              .consumer_added = on_consumer};

    if (options_read("doca_comch_data_path_high_speed_client", SIDE_HOST, &options, argc, argv) !=
        DOCA_SUCCESS)
        return EXIT_FAILURE;
    path.session = &session;
    path.text = options.text;
    path.finished = stop_when_both_are_done;
    if (session_open(&session, SIDE_HOST, &options) == DOCA_SUCCESS)
        session_run(&session);
    fast_path_close(&path);
    return session_close(&session) == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
