/* Control path, the host's half: sends a text to the server, shows its answer and stops. */
#include <stdlib.h>

#include <doca_log.h>

#include "session.h"

DOCA_LOG_REGISTER(COMCH_CTRL_PATH_CLIENT)

static void greet(struct session *session)
{
    session_send(session, session->user);
}

static void finish(struct session *session, const char *text, uint32_t length)
{
    DOCA_LOG_INFO("Received: %.*s", (int)length, text);
    session_stop(session);
}

int main(int argc, char **argv)
{
    struct options options = {.pci_addr = "3b:00.0", .text = "Message from the client"};
    struct session session = {.user = options.text, .connected = greet, .message = finish};

    if (options_read("doca_comch_ctrl_path_client", SIDE_HOST, &options, argc, argv) !=
        DOCA_SUCCESS)
        return EXIT_FAILURE;
    if (session_open(&session, SIDE_HOST, &options) == DOCA_SUCCESS)
        session_run(&session);
    return session_close(&session) == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
