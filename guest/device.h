/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by the PCI address that the VMM reported ("0000:00:05.0"). */
#ifndef GUEST_DEVICE_H
#define GUEST_DEVICE_H

#include "guest/request.h"

int devices_new(struct agent *agent, cchv_error **err);
void devices_free(struct agent *agent);

enum device_kind { DEVICE_DISK, DEVICE_PMEM, DEVICE_NET, DEVICE_FS };

/* "disk", "pmem", "net", "fs" -> kind; CCHV_ERR_INVALID. */
int device_kind_parse(const char *name, enum device_kind *ret_kind);
/*
 * The node of a device that is there: "/dev/vda", "/dev/pmem0", "eth0", the tag of a virtio-fs. ENOENT when it is not
 * (yet). Blocks for nothing; for workers too.
 */
int device_find(const char *pci_address, enum device_kind kind, char **ret_node, const char **kind_of_error,
                cchv_error **err);
/*
 * The same, waiting for it; the callback comes once, from the loop: node is lent, NULL after the deadline.
 */
typedef void (*device_fn)(struct agent *agent, const char *node, void *user_data);
int device_await(struct agent *agent, const char *pci_address, enum device_kind kind, uint64_t deadline,
                 device_fn fn, void *user_data, cchv_error **err);
/* For workers: wait by polling sysfs with the kernel's uevents; blocks up to the deadline. */
int device_wait_blocking(const char *pci_address, enum device_kind kind, uint64_t deadline, char **ret_node,
                         const char **kind_of_error, cchv_error **err);

/* Handlers. */
int device_wait(struct agent *agent, const struct json *params, struct reply *reply);
int device_release(struct agent *agent, const struct json *params, struct reply *reply);

#endif
