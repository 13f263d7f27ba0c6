/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by the PCI address that the VMM reported ("0000:00:05.0"). */
#ifndef GUEST_DEVICE_H
#define GUEST_DEVICE_H

#include "guest/request.h"

/* Something was plugged or bound: look again. */
void devices_changed(struct agent *agent);
int devices_new(struct agent *agent, cchv_error **err);
void devices_free(struct agent *agent);

enum device_kind { DEVICE_DISK, DEVICE_PMEM, DEVICE_NET, DEVICE_FS };

/* "disk", "pmem", "net", "fs" -> kind; CCHV_ERR_INVALID. */
int device_kind_parse(const char *name, enum device_kind *ret_kind);
/*
 * The node of a device that is there: "/dev/vda", "/dev/pmem0", "eth0", "virtio3" for a virtio-fs. ENOENT when it is
 * not (yet). Blocks for nothing; for workers too.
 */
int device_find(const char *pci_address, enum device_kind kind, char **ret_node, const char **kind_of_error,
                cchv_error **err);
/*
 * The same, waiting for it; the callback comes once (within the call if it is there): node is lent, NULL after the
 * deadline. A device that is not there at all is looked for by a rescan of the bus.
 */
typedef void (*device_fn)(struct agent *agent, const char *node, void *user_data);
int device_await(struct agent *agent, const char *pci_address, enum device_kind kind, uint64_t deadline,
                 device_fn fn, void *user_data, cchv_error **err);
/* For workers: the same, blocking. */
int device_wait_blocking(const char *pci_address, enum device_kind kind, uint64_t deadline, char **ret_node,
                         const char **kind_of_error, cchv_error **err);

/* Handlers. */
int device_wait(struct agent *agent, const struct json *params, struct reply *reply);
int device_release(struct agent *agent, const struct json *params, struct reply *reply);

#endif
