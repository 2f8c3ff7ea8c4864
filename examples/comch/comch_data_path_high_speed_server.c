/*
 * High-speed data path, the DPU's half: producer and consumer exchange texts with the client's. When
 * they have, the server says so on the control path, and stops when the client has gone.
 */
#include <stdlib.h>

#include <doca_log.h>

#include "fast_path.h"

DOCA_LOG_REGISTER(COMCH_DATA_PATH_HIGH_SPEED_SERVER)

static void on_finished(struct fast_path *path)
{
    session_send(path->session, "done");
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
    struct options options = {
        .pci_addr = "03:00.0", .rep_pci = "3b:00.0", .text = "Message from the server"};
    struct session session = {
        .user = &path, .connected = on_connected, .consumer_added = on_consumer};

    if (options_read("doca_comch_data_path_high_speed_server", SIDE_DPU, &options, argc, argv) !=
        DOCA_SUCCESS)
        return EXIT_FAILURE;
    path.session = &session;
    path.text = options.text;
    path.finished = on_finished;
    if (session_open(&session, SIDE_DPU, &options) == DOCA_SUCCESS) {
        DOCA_LOG_INFO("Waiting for a client of '%s'", SERVER_NAME);
        session_run(&session);
    }
    fast_path_close(&path);
    return session_close(&session) == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
