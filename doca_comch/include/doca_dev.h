/*
 * Devices and representors: PCIe functions of this side, and on the DPU the stand-ins for the
 * functions of the host.
 *
 * A process sees the functions of its side: COMCH_SIDE ("host", "dpu") says which one that is.
 * Where it is not set, the functions of both sides are listed, so that both halves of a program run
 * on one machine without any setting; what a function can do tells them apart.
 */
#ifndef DOCA_DEV_H_
#define DOCA_DEV_H_

#include <stdint.h>

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct doca_dev;
struct doca_devinfo;
struct doca_dev_rep;
struct doca_devinfo_rep;

/* Sizes of the texts and addresses below; texts include their NUL. */
#define DOCA_DEVINFO_VUID_SIZE 128
#define DOCA_DEVINFO_IPV4_ADDR_SIZE 4
#define DOCA_DEVINFO_IPV6_ADDR_SIZE 16
#define DOCA_DEVINFO_MAC_ADDR_SIZE 6
#define DOCA_DEVINFO_IFACE_NAME_SIZE 256
#define DOCA_DEVINFO_IBDEV_NAME_SIZE 64
#define DOCA_DEVINFO_PCI_ADDR_SIZE 13 /* "XXXX:XX:XX.X" */
#define DOCA_DEVINFO_PCI_BDF_SIZE 8   /* "XX:XX.X" */
#define DOCA_DEVINFO_REP_VUID_SIZE 128
#define DOCA_DEVINFO_REP_PCI_ADDR_SIZE 13
#define DOCA_DEVINFO_REP_PCI_BDF_SIZE 8
#define DOCA_DEVINFO_REP_IFACE_NAME_SIZE 256

/* Which representors to list. Every function of the host is a network function. */
enum doca_devinfo_rep_filter {
    DOCA_DEVINFO_REP_FILTER_ALL = 0,
    DOCA_DEVINFO_REP_FILTER_NET = 1 << 1,
    DOCA_DEVINFO_REP_FILTER_EMULATED = 1 << 2
};

/* ---- devices ---------------------------------------------------------------------------------- */

/* Lists the devices. The list must be given back; opened devices stay valid without it. */
DOCA_STABLE doca_error_t doca_devinfo_create_list(struct doca_devinfo ***dev_list,
                                                  uint32_t *nb_devs);
DOCA_STABLE doca_error_t doca_devinfo_destroy_list(struct doca_devinfo **dev_list);

/* Opens a device; opening it again gives the same object, which must be closed as often.
 * close: IN_USE while servers or clients that were created on it are not destroyed. Memory maps
 * outlive it. */
DOCA_STABLE doca_error_t doca_dev_open(struct doca_devinfo *devinfo, struct doca_dev **dev);
DOCA_STABLE doca_error_t doca_dev_close(struct doca_dev *dev);

/* What the device was opened from; null for null. */
DOCA_STABLE struct doca_devinfo *doca_dev_as_devinfo(const struct doca_dev *dev);

DOCA_STABLE doca_error_t doca_devinfo_get_pci_func_type(const struct doca_devinfo *devinfo,
                                                        enum doca_pci_func_type *pci_func_type);
DOCA_STABLE doca_error_t doca_devinfo_get_vuid(const struct doca_devinfo *devinfo, char *vuid,
                                               uint32_t size);
/* `pci_addr_str` has room for DOCA_DEVINFO_PCI_ADDR_SIZE bytes. */
DOCA_STABLE doca_error_t doca_devinfo_get_pci_addr_str(const struct doca_devinfo *devinfo,
                                                       char *pci_addr_str);
/* The address may be short ("3b:00.0") or full ("0000:3b:00.0"), in any case. */
DOCA_STABLE doca_error_t doca_devinfo_is_equal_pci_addr(const struct doca_devinfo *devinfo,
                                                        const char *pci_addr_str,
                                                        uint8_t *is_equal);
/* NOT_SUPPORTED: a soft device has no such address. */
DOCA_STABLE doca_error_t doca_devinfo_get_ipv4_addr(const struct doca_devinfo *devinfo,
                                                    uint8_t *ipv4_addr, uint32_t size);
DOCA_STABLE doca_error_t doca_devinfo_get_ipv6_addr(const struct doca_devinfo *devinfo,
                                                    uint8_t *ipv6_addr, uint32_t size);
DOCA_STABLE doca_error_t doca_devinfo_get_mac_addr(const struct doca_devinfo *devinfo,
                                                   uint8_t *mac_addr, uint32_t size);
DOCA_STABLE doca_error_t doca_devinfo_get_iface_name(const struct doca_devinfo *devinfo,
                                                     char *iface_name, uint32_t size);
DOCA_STABLE doca_error_t doca_devinfo_get_ibdev_name(const struct doca_devinfo *devinfo,
                                                     char *ibdev_name, uint32_t size);
/* As if_nametoindex(). NOT_FOUND: this machine has no such interface; a soft device's is a name only. */
DOCA_STABLE doca_error_t doca_devinfo_get_iface_index(const struct doca_devinfo *devinfo,
                                                      uint32_t *iface_index);
/* NOT_SUPPORTED: the device is no subfunction. */
DOCA_STABLE doca_error_t doca_devinfo_get_sf_index(const struct doca_devinfo *devinfo,
                                                   uint32_t *sf_index);
DOCA_STABLE doca_error_t doca_devinfo_get_lid(const struct doca_devinfo *devinfo, uint16_t *lid);
/* Bits per second. NOT_SUPPORTED: a soft device has no port. */
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_get_active_rate(const struct doca_devinfo *devinfo,
                                                            uint64_t *active_rate);
/* A number for the function on its DPU, the same as its representor has. */
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_get_vhca_id(const struct doca_devinfo *devinfo,
                                                        uint16_t *vhca_id);

DOCA_EXPERIMENTAL doca_error_t doca_devinfo_cap_is_hotplug_manager_supported(
    const struct doca_devinfo *devinfo, uint8_t *is_hotplug_manager);
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_cap_is_notification_moderation_supported(
    const struct doca_devinfo *devinfo, uint8_t *is_supported);

/* Faster closing of many objects: never supported here, as there is nothing to reclaim; the call
 * itself is answered NOT_SUPPORTED. */
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_cap_is_accelerate_resource_reclaim_supported(
    const struct doca_devinfo *devinfo, uint8_t *supported);
DOCA_EXPERIMENTAL doca_error_t doca_dev_accelerate_resource_reclaim(const struct doca_dev *dev);

/* ---- representors ------------------------------------------------------------------------------ */

/* Whether the device can list representors of the kind: a DPU's device can. */
DOCA_STABLE doca_error_t doca_devinfo_rep_cap_is_filter_all_supported(
    const struct doca_devinfo *devinfo, uint8_t *filter_all_supported);
DOCA_STABLE doca_error_t doca_devinfo_rep_cap_is_filter_net_supported(
    const struct doca_devinfo *devinfo, uint8_t *filter_net_supported);
DOCA_STABLE doca_error_t doca_devinfo_rep_cap_is_filter_emulated_supported(
    const struct doca_devinfo *devinfo, uint8_t *filter_emulated_supported);

/* Lists a device's representors. On the host: NOT_SUPPORTED. */
DOCA_STABLE doca_error_t doca_devinfo_rep_create_list(struct doca_dev *dev, int filter,
                                                      struct doca_devinfo_rep ***dev_list_rep,
                                                      uint32_t *nb_devs_rep);
DOCA_STABLE doca_error_t doca_devinfo_rep_destroy_list(struct doca_devinfo_rep **dev_list_rep);

DOCA_STABLE doca_error_t doca_dev_rep_open(struct doca_devinfo_rep *devinfo,
                                           struct doca_dev_rep **dev_rep);
DOCA_STABLE doca_error_t doca_dev_rep_close(struct doca_dev_rep *dev_rep);
DOCA_STABLE struct doca_devinfo_rep *doca_dev_rep_as_devinfo(struct doca_dev_rep *dev_rep);

DOCA_STABLE doca_error_t doca_devinfo_rep_get_vuid(const struct doca_devinfo_rep *devinfo_rep,
                                                   char *rep_vuid, uint32_t size);
DOCA_STABLE doca_error_t doca_devinfo_rep_get_pci_addr_str(
    const struct doca_devinfo_rep *devinfo_rep, char *pci_addr_str);
DOCA_STABLE doca_error_t doca_devinfo_rep_is_equal_pci_addr(
    const struct doca_devinfo_rep *devinfo_rep, const char *pci_addr_str, uint8_t *is_equal);
DOCA_STABLE doca_error_t doca_devinfo_rep_get_pci_func_type(
    const struct doca_devinfo_rep *devinfo_rep, enum doca_pci_func_type *pci_func_type);
DOCA_STABLE doca_error_t doca_devinfo_rep_get_iface_name(
    const struct doca_devinfo_rep *devinfo_rep, char *iface_name, uint32_t size);
/* Which function it is: of the host with the number 1 (0 would be the DPU itself), of this PF, and
 * this VF or SF of it. NOT_SUPPORTED: the function is none of that type; its PF is not told by its
 * address. */
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_rep_get_host_index(
    const struct doca_devinfo_rep *devinfo_rep, uint32_t *host_index);
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_rep_get_pf_index(
    const struct doca_devinfo_rep *devinfo_rep, uint32_t *pf_index);
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_rep_get_vf_index(
    const struct doca_devinfo_rep *devinfo_rep, uint32_t *vf_index);
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_rep_get_sf_index(
    const struct doca_devinfo_rep *devinfo_rep, uint32_t *sf_index);
/* 0: nothing is plugged in later. */
DOCA_STABLE doca_error_t doca_devinfo_rep_get_is_hotplug(
    const struct doca_devinfo_rep *devinfo_rep, uint8_t *is_hotplug);
/* As the function itself has it. */
DOCA_EXPERIMENTAL doca_error_t doca_devinfo_rep_get_vhca_id(
    const struct doca_devinfo_rep *devinfo_rep, uint16_t *vhca_id);

#ifdef __cplusplus
}
#endif

#define DOCA_DEV_COMPLETE
#include <doca_compat_2023.h>

#endif
