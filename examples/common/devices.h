/* Opening devices and representors by their PCI addresses. */
#ifndef EXAMPLES_DEVICES_H
#define EXAMPLES_DEVICES_H

#include <doca_dev.h>
#include <doca_error.h>

/* Whether a device will do. */
typedef doca_error_t (*device_check)(struct doca_devinfo *devinfo);

/* NOT_FOUND: no device has the address and does. */
doca_error_t open_device(const char *pci_addr, device_check check, struct doca_dev **dev);
doca_error_t open_representor(struct doca_dev *dev, const char *pci_addr,
                              struct doca_dev_rep **rep);

#endif
