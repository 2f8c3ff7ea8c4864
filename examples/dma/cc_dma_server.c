/*
 * On the DPU, as of 2022 and 2023: a client describes its memory in a message; a work queue copies a text
 * out of it and another one into it. Run it before cc_dma_client.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <doca_comm_channel.h>
#include <doca_log.h>

#include "../comm_channel/endpoint.h"
#include "../common/devices.h"
#include "../common/options.h"
#include "copier.h"

DOCA_LOG_REGISTER(CC_DMA_SERVER)

static doca_error_t can_serve(struct doca_devinfo *devinfo)
{
    uint32_t max_clients;
    doca_error_t result = doca_comm_channel_get_service_max_num_connections(devinfo, &max_clients);

    DOCA_ERROR_PROPAGATE(result, doca_dma_job_get_supported(devinfo, DOCA_DMA_JOB_MEMCPY));
    return result;
}

/* The client's memory has two halves, each with room for a text: its own, and the answer. */
static doca_error_t copy_both(struct doca_dev *dev, const char *message, size_t size,
                              const char *text)
{
    static char here[2 * (MAX_TEXT + 1)];
    struct doca_mmap *there = NULL;
    struct copier copier;
    struct offer offer;
    char *theirs;
    doca_error_t result;

    if (size <= sizeof(offer))
        return DOCA_ERROR_INVALID_VALUE;
    memcpy(&offer, message, sizeof(offer));
    if (offer.length != sizeof(here))
        return DOCA_ERROR_INVALID_VALUE;
    theirs = (char *)(uintptr_t)offer.address;
    result = doca_mmap_create_from_export(NULL, message + sizeof(offer), size - sizeof(offer), dev,
                                          &there);
    if (result != DOCA_SUCCESS)
        return result;
    result = copier_open(&copier, dev, here, sizeof(here));
    if (result == DOCA_SUCCESS)
        result = copier_copy(&copier, there, theirs, copier.memory, here, sizeof(here) / 2);
    if (result == DOCA_SUCCESS) {
        here[MAX_TEXT] = '\0';
        DOCA_LOG_INFO("Read from the host: %s", here);
        snprintf(here + sizeof(here) / 2, sizeof(here) / 2, "%s", text);
        result = copier_copy(&copier, copier.memory, here + sizeof(here) / 2, there,
                             theirs + sizeof(here) / 2, sizeof(here) / 2);
    }
    DOCA_ERROR_PROPAGATE(result, copier_close(&copier));
    DOCA_ERROR_PROPAGATE(result, doca_mmap_destroy(there));
    return result;
}

static doca_error_t serve(struct doca_comm_channel_ep_t *ep, struct doca_dev *dev, const char *text)
{
    static char received[MAX_MSG_SIZE + 1];
    struct doca_comm_channel_addr_t *peer;
    size_t size = 0;
    doca_error_t result = doca_comm_channel_ep_listen(ep, SERVICE_NAME);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot listen: %s", doca_get_error_string(result));
        return result;
    }
    DOCA_LOG_INFO("Listening as '%s'", SERVICE_NAME);
    result = wait_for_message(ep, received, &size, &peer);
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot receive: %s", doca_get_error_string(result));
        return result;
    }
    result = copy_both(dev, received, size, text);
    if (result == DOCA_SUCCESS)
        result = send_text(ep, "copied", peer);
    else
        DOCA_LOG_ERR("The client's memory could not be used: %s", doca_get_error_string(result));
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
    doca_error_t result = options_read("doca_cc_dma_server", SIDE_DPU, &options, argc, argv);

    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_device(options.pci_addr, can_serve, &dev);
    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_representor(dev, options.rep_pci, &rep);
    if (result == DOCA_SUCCESS) {
        result = make_endpoint(dev, rep, &ep);
        if (result == DOCA_SUCCESS) {
            result = serve(ep, dev, options.text);
            DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_destroy(ep));
        }
        DOCA_ERROR_PROPAGATE(result, doca_dev_rep_close(rep));
    }
    DOCA_ERROR_PROPAGATE(result, doca_dev_close(dev));
    return result == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
