/*
 * A program in the manner and the spellings of 2023: finds devices by their PCI addresses, and is the
 * service or the client of a round trip, as it was built for the DPU or the host.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <doca_argp.h>
#include <doca_build_config.h>
#include <doca_comm_channel.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_log.h>

DOCA_LOG_REGISTER(OLD_PROGRAM::MAIN);

void say_which(const char *side);

struct config {
    char address[DOCA_DEVINFO_PCI_ADDR_SIZE];
    char representor[DOCA_DEVINFO_REP_PCI_ADDR_SIZE];
};

static doca_error_t take_address(void *param, void *config)
{
    strncpy(((struct config *)config)->address, (char *)param, DOCA_DEVINFO_PCI_ADDR_SIZE - 1);
    return DOCA_SUCCESS;
}

static doca_error_t take_representor(void *param, void *config)
{
    strncpy(((struct config *)config)->representor, (char *)param,
            DOCA_DEVINFO_REP_PCI_ADDR_SIZE - 1);
    return DOCA_SUCCESS;
}

static void add(const char *short_name, const char *long_name, doca_argp_param_cb_t callback)
{
    struct doca_argp_param *param;

    doca_argp_param_create(&param);
    doca_argp_param_set_short_name(param, short_name);
    doca_argp_param_set_long_name(param, long_name);
    doca_argp_param_set_description(param, "PCI address");
    doca_argp_param_set_callback(param, callback);
    doca_argp_param_set_type(param, DOCA_ARGP_TYPE_STRING);
    if (doca_argp_register_param(param) != DOCA_SUCCESS)
        exit(1);
}

static struct doca_dev *find_device(const char *address)
{
    struct doca_devinfo **list;
    struct doca_dev *dev = NULL;
    uint32_t count = 0, i;

    if (doca_devinfo_list_create(&list, &count) != DOCA_SUCCESS)
        return NULL;
    for (i = 0; i < count && dev == NULL; ++i) {
        struct doca_pci_bdf bdf;
        uint8_t equal = 0;

        if (doca_devinfo_get_is_pci_addr_equal(list[i], address, &equal) != DOCA_SUCCESS || !equal)
            continue;
        doca_devinfo_get_pci_addr(list[i], &bdf);
        DOCA_LOG_INFO("Device %02x:%02x.%x, raw %04x", bdf.bus, bdf.device, bdf.function, bdf.raw);
        if (doca_dev_open(list[i], &dev) != DOCA_SUCCESS)
            dev = NULL;
    }
    doca_devinfo_list_destroy(list);
    return dev;
}

static void check(doca_error_t result, const char *what)
{
    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("%s: %s (%s)", what, doca_get_error_string(result),
                     doca_get_error_name(result));
        exit(1);
    }
}

#ifdef DOCA_ARCH_DPU

static struct doca_dev_rep *find_representor(struct doca_dev *dev, const char *address)
{
    struct doca_devinfo_rep **list;
    struct doca_dev_rep *rep = NULL;
    uint32_t count = 0, i;

    check(doca_devinfo_rep_list_create(dev, DOCA_DEV_REP_FILTER_NET, &list, &count),
          "No representors");
    for (i = 0; i < count && rep == NULL; ++i) {
        uint8_t equal = 0;

        doca_devinfo_rep_get_is_pci_addr_equal(list[i], address, &equal);
        if (equal && doca_dev_rep_open(list[i], &rep) != DOCA_SUCCESS)
            rep = NULL;
    }
    doca_devinfo_rep_list_destroy(list);
    return rep;
}

static void run(struct doca_comm_channel_ep_t *ep, struct doca_dev *dev, struct config *config)
{
    struct doca_comm_channel_addr_t *peer;
    struct doca_dev_rep *rep = find_representor(dev, config->representor);
    char text[128];
    size_t length;
    uint64_t data = 1, in_flight = 1;
    doca_error_t result;

    if (rep == NULL)
        exit(1);
    say_which("DPU");
    check(doca_comm_channel_ep_set_device_rep(ep, rep), "No representor");
    check(doca_comm_channel_ep_listen(ep, "old service"), "Cannot listen");
    DOCA_LOG_INFO("Listening");
    do {
        length = sizeof(text);
        result = doca_comm_channel_ep_recvfrom(ep, text, &length, DOCA_CC_MSG_FLAG_NONE, &peer);
    } while (result == DOCA_ERROR_AGAIN && usleep(100) == 0);
    check(result, "Cannot receive");
    check(doca_comm_channel_peer_addr_user_data_get(peer, &data), "No user data");
    if (data != 0)
        exit(1);
    check(doca_comm_channel_ep_sendto(ep, text, length, DOCA_CC_MSG_FLAG_NONE, peer),
          "Cannot send");
    while (in_flight != 0) {
        check(doca_comm_channel_peer_addr_update_info(peer), "The client is gone");
        doca_comm_channel_peer_addr_get_send_in_flight_messages(peer, &in_flight);
    }
    check(doca_comm_channel_ep_destroy(ep), "Cannot destroy");
    check(doca_dev_rep_close(rep), "Cannot close");
}

#else

static void run(struct doca_comm_channel_ep_t *ep, struct doca_dev *dev, struct config *config)
{
    struct doca_comm_channel_addr_t *peer;
    char text[128];
    size_t length = sizeof(text);
    doca_error_t result;

    (void)dev;
    (void)config;
    say_which("host");
    check(doca_comm_channel_ep_connect(ep, "old service", &peer), "Cannot connect");
    while ((result = doca_comm_channel_ep_sendto(ep, "round trip", 10, DOCA_CC_MSG_FLAG_NONE,
                                                 peer)) == DOCA_ERROR_AGAIN)
        usleep(100);
    check(result, "Cannot send");
    while ((result = doca_comm_channel_ep_recvfrom(ep, text, &length, DOCA_CC_MSG_FLAG_NONE,
                                                   &peer)) == DOCA_ERROR_AGAIN) {
        usleep(100);
        length = sizeof(text);
    }
    check(result, "Cannot receive");
    DOCA_LOG_INFO("Came back: %.*s", (int)length, text);
    check(doca_comm_channel_ep_disconnect(ep, peer), "Cannot disconnect");
    check(doca_comm_channel_ep_destroy(ep), "Cannot destroy");
}

#endif

int main(int argc, char **argv)
{
    struct config config = {{0}, {0}};
    struct doca_comm_channel_ep_t *ep;
    struct doca_dev *dev;

    check(doca_log_create_standard_backend(), "No log");
    doca_log_global_level_set(DOCA_LOG_LEVEL_INFO);
    check(doca_argp_init("old_program", &config), "No arguments");
    add("p", "pci-addr", take_address);
    add("r", "rep-pci", take_representor);
    check(doca_argp_start(argc, argv), "Cannot parse the arguments");
    dev = find_device(config.address);
    if (dev == NULL)
        return 1;
    check(doca_comm_channel_ep_create(&ep), "No endpoint");
    check(doca_comm_channel_ep_set_device(ep, dev), "No device");
    check(doca_comm_channel_ep_set_max_msg_size(ep, sizeof(char[128])), "No size");
    run(ep, dev, &config);
    check(doca_dev_close(dev), "Cannot close");
    check(doca_argp_destroy(), "Cannot finish");
    return 0;
}
