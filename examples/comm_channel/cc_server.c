/*
 * A service of the 2023 generation, on the DPU: waits for one message and answers it with a text.
 * Run it before cc_client.
 */
#include <stdlib.h>
#include <string.h>

#include <doca_comm_channel.h>
#include <doca_log.h>

#include "../common/devices.h"
#include "../common/options.h"
#include "endpoint.h"

DOCA_LOG_REGISTER(CC_SERVER)

static doca_error_t can_serve(struct doca_devinfo *devinfo)
{
    uint32_t max_clients;

    return doca_comm_channel_get_service_max_num_connections(devinfo, &max_clients);
}

static doca_error_t serve(struct doca_comm_channel_ep_t *ep, const char *text)
{
    static char received[MAX_MSG_SIZE + 1];
    struct doca_comm_channel_addr_t *peer;
    doca_error_t result = doca_comm_channel_ep_listen(ep, SERVICE_NAME);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot listen: %s", doca_error_get_descr(result));
        return result;
    }
    DOCA_LOG_INFO("Listening as '%s'", SERVICE_NAME);
    result = wait_for_message(ep, received, NULL, &peer);
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot receive: %s", doca_error_get_descr(result));
        return result;
    }
    DOCA_LOG_INFO("Received: %s", received);
    result = send_text(ep, text, peer);
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_disconnect(ep, peer));
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {
        .pci_addr = "03:00.0", .rep_pci = "3b:00.0", .text = "Message from the DPU"};
    struct doca_comm_channel_ep_t *ep;
    struct doca_dev_rep *rep;
    struct doca_dev *dev;
    doca_error_t result = options_read("doca_cc_server", SIDE_DPU, &options, argc, argv);

    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_device(options.pci_addr, can_serve, &dev);
    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_representor(dev, options.rep_pci, &rep);
    if (result == DOCA_SUCCESS) {
        result = make_endpoint(dev, rep, &ep);
        if (result == DOCA_SUCCESS) {
            result = serve(ep, options.text);
            DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_destroy(ep));
        }
        DOCA_ERROR_PROPAGATE(result, doca_dev_rep_close(rep));
    }
    DOCA_ERROR_PROPAGATE(result, doca_dev_close(dev));
    return result == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
