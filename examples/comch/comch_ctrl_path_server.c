/*
 * Control path, the DPU's half: a server that answers its client's message with a text, and stops
 * when the client has gone.
 */
#include <stdlib.h>

#include <doca_log.h>

#include "session.h"

DOCA_LOG_REGISTER(COMCH_CTRL_PATH_SERVER)

static void answer(struct session *session, const char *text, uint32_t length)
{
    DOCA_LOG_INFO("Received: %.*s", (int)length, text);
    session_send(session, session->user);
}

int main(int argc, char **argv)
{
    struct options options = {
        .pci_addr = "03:00.0", .rep_pci = "3b:00.0", .text = "Message from the server"};
    struct session session = {.user = options.text, .message = answer};

    if (options_read("doca_comch_ctrl_path_server", SIDE_DPU, &options, argc, argv) != DOCA_SUCCESS)
        return EXIT_FAILURE;
    if (session_open(&session, SIDE_DPU, &options) == DOCA_SUCCESS) {
        DOCA_LOG_INFO("Waiting for a client of '%s'", SERVER_NAME);
        session_run(&session);
    }
    return session_close(&session) == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
