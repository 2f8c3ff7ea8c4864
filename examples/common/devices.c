#include "devices.h"

#include <doca_log.h>

DOCA_LOG_REGISTER(EXAMPLE::DEVICES)

doca_error_t open_device(const char *pci_addr, device_check check, struct doca_dev **dev)
{
    struct doca_devinfo **list;
    uint32_t count, i;
    doca_error_t result = doca_devinfo_create_list(&list, &count);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot list the devices: %s", doca_error_get_descr(result));
        return result;
    }
    result = DOCA_ERROR_NOT_FOUND;
    for (i = 0; i < count && result != DOCA_SUCCESS; ++i) {
        uint8_t equal = 0;

        if (doca_devinfo_is_equal_pci_addr(list[i], pci_addr, &equal) == DOCA_SUCCESS && equal &&
            check(list[i]) == DOCA_SUCCESS)
            result = doca_dev_open(list[i], dev);
    }
    (void)doca_devinfo_destroy_list(list);
    if (result != DOCA_SUCCESS)
        DOCA_LOG_ERR("There is no suitable device at '%s': %s", pci_addr,
                     doca_error_get_descr(result));
    return result;
}

doca_error_t open_representor(struct doca_dev *dev, const char *pci_addr, struct doca_dev_rep **rep)
{
    struct doca_devinfo_rep **list;
    uint32_t count, i;
    doca_error_t result =
        doca_devinfo_rep_create_list(dev, DOCA_DEVINFO_REP_FILTER_NET, &list, &count);

    if (result != DOCA_SUCCESS) {
        DOCA_LOG_ERR("Cannot list the representors: %s", doca_error_get_descr(result));
        return result;
    }
    result = DOCA_ERROR_NOT_FOUND;
    for (i = 0; i < count && result != DOCA_SUCCESS; ++i) {
        uint8_t equal = 0;

        if (doca_devinfo_rep_is_equal_pci_addr(list[i], pci_addr, &equal) == DOCA_SUCCESS && equal)
            result = doca_dev_rep_open(list[i], rep);
    }
    (void)doca_devinfo_rep_destroy_list(list);
    if (result != DOCA_SUCCESS)
        DOCA_LOG_ERR("There is no representor of '%s': %s", pci_addr, doca_error_get_descr(result));
    return result;
}
