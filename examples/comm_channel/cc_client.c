/*
 * A client of the 2023 generation, on the host: connects to the service of cc_server, sends a text
 * and shows the answer.
 */
#include <stdlib.h>
#include <unistd.h>

#include <doca_comm_channel.h>
#include <doca_log.h>

#include "../common/devices.h"
#include "../common/options.h"
#include "endpoint.h"

DOCA_LOG_REGISTER(CC_CLIENT)

static doca_error_t can_connect(struct doca_devinfo *devinfo)
{
    uint32_t max_clients;

    /* A device on which a service can be is no client's. */
    return doca_comm_channel_get_service_max_num_connections(devinfo, &max_clients) ==
                   DOCA_ERROR_NOT_SUPPORTED
               ? DOCA_SUCCESS
               : DOCA_ERROR_NOT_SUPPORTED;
}

static doca_error_t talk(struct doca_comm_channel_ep_t *ep, const char *text)
{
    static char received[MAX_MSG_SIZE + 1];
    struct doca_comm_channel_addr_t *peer;
    struct doca_comm_channel_addr_t *from;
    doca_error_t result = doca_comm_channel_ep_connect(ep, SERVICE_NAME, &peer);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot connect: %s", doca_error_get_descr(result));
        return result;
    }
    DOCA_LOG_INFO("Waiting to be accepted"); /* which the service does when it receives next */
    while ((result = doca_comm_channel_peer_addr_update_info(peer)) ==
           DOCA_ERROR_CONNECTION_INPROGRESS)
        usleep(100);
    if (result == DOCA_SUCCESS)
        result = send_text(ep, text, peer);
    if (result == DOCA_SUCCESS)
        result = wait_for_message(ep, received, NULL, &from);
    if (result == DOCA_SUCCESS)
        DOCA_LOG_INFO("Received: %s", received);
    else
        DOCA_LOG_ERR("The connection failed: %s", doca_error_get_descr(result));
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_disconnect(ep, peer));
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.pci_addr = "3b:00.0", .text = "Message from the host"};
    struct doca_comm_channel_ep_t *ep;
    struct doca_dev *dev;
    doca_error_t result = options_read("doca_cc_client", SIDE_HOST, &options, argc, argv);

    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_device(options.pci_addr, can_connect, &dev);
    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = make_endpoint(dev, NULL, &ep);
    if (result == DOCA_SUCCESS) {
        result = talk(ep, options.text);
        DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_destroy(ep));
    }
    DOCA_ERROR_PROPAGATE(result, doca_dev_close(dev));
    return result == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
