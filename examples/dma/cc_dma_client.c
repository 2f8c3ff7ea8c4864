/*
 * On the host, as of 2022 and 2023: lets the DPU read and write a piece of memory, tells it where that is in
 * a message, and waits to hear that it has. Run it after cc_dma_server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <doca_comm_channel.h>
#include <doca_log.h>

#include "../comm_channel/endpoint.h"
#include "../common/devices.h"
#include "../common/options.h"
#include "copier.h"

DOCA_LOG_REGISTER(CC_DMA_CLIENT)

static doca_error_t can_connect(struct doca_devinfo *devinfo)
{
    uint32_t max_clients;

    return doca_comm_channel_get_service_max_num_connections(devinfo, &max_clients) ==
                   DOCA_ERROR_NOT_SUPPORTED
               ? DOCA_SUCCESS
               : DOCA_ERROR_NOT_SUPPORTED;
}

static doca_error_t send_offer(struct doca_comm_channel_ep_t *ep, struct doca_dev *dev,
                               struct doca_mmap *map, const void *memory, size_t length,
                               struct doca_comm_channel_addr_t *peer)
{
    static char message[MAX_MSG_SIZE];
    const struct offer offer = {(uintptr_t)memory, length};
    const void *description;
    size_t size;
    doca_error_t result = doca_mmap_export_dpu(map, dev, &description, &size);

    if (result != DOCA_SUCCESS)
        return result;
    if (size > sizeof(message) - sizeof(offer))
        return DOCA_ERROR_TOO_BIG;
    memcpy(message, &offer, sizeof(offer));
    memcpy(message + sizeof(offer), description, size);
    return send_message(ep, message, sizeof(offer) + size, peer);
}

static doca_error_t talk(struct doca_comm_channel_ep_t *ep, struct doca_dev *dev, const char *text)
{
    static char memory[2][MAX_TEXT + 1];
    static char received[MAX_MSG_SIZE + 1];
    struct doca_comm_channel_addr_t *peer;
    struct doca_comm_channel_addr_t *from;
    struct doca_mmap *map = NULL;
    doca_error_t result = doca_comm_channel_ep_connect(ep, SERVICE_NAME, &peer);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot connect: %s", doca_get_error_string(result));
        return result;
    }
    while ((result = doca_comm_channel_peer_addr_update_info(peer)) ==
           DOCA_ERROR_CONNECTION_INPROGRESS)
        usleep(100);
    snprintf(memory[0], sizeof(memory[0]), "%s", text);
    if (result == DOCA_SUCCESS)
        result = map_memory(dev, memory, sizeof(memory), DOCA_ACCESS_DPU_READ_WRITE, &map);
    if (result == DOCA_SUCCESS)
        result = send_offer(ep, dev, map, memory, sizeof(memory), peer);
    if (result == DOCA_SUCCESS)
        result = wait_for_message(ep, received, NULL, &from);
    if (result == DOCA_SUCCESS)
        DOCA_LOG_INFO("Written by the DPU: %s", memory[1]);
    else
        DOCA_LOG_ERR("The connection failed: %s", doca_get_error_string(result));
    if (map != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_mmap_destroy(map));
    DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_disconnect(ep, peer));
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.pci_addr = "3b:00.0", .text = "Message from the host"};
    struct doca_comm_channel_ep_t *ep;
    struct doca_dev *dev;
    doca_error_t result = options_read("doca_cc_dma_client", SIDE_HOST, &options, argc, argv);

    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = open_device(options.pci_addr, can_connect, &dev);
    if (result != DOCA_SUCCESS)
        return EXIT_FAILURE;
    result = make_endpoint(dev, NULL, &ep);
    if (result == DOCA_SUCCESS) {
        result = talk(ep, dev, options.text);
        DOCA_ERROR_PROPAGATE(result, doca_comm_channel_ep_destroy(ep));
    }
    DOCA_ERROR_PROPAGATE(result, doca_dev_close(dev));
    return result == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
