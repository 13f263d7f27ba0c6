/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver has set in a virtio PCI device: its addresses, interrupts, features, queues. QEMU saves that for most
 * devices; those that it does not save (vhost-user-vsock) or forgets (virtio-pmem) are read and set here, through a
 * door into the machine, by the rules that a driver would follow. The guest must stand still.
 */
#ifndef QEMU_VIRTIO_PCI_H
#define QEMU_VIRTIO_PCI_H

#include "base/json.h"
#include "door.h"

#define VIRTIO_PCI_QUEUES 8
#define VIRTIO_PCI_VECTORS 16
#define VIRTIO_PCI_BARS 6

struct virtio_pci_vector {
	uint32_t address_low, address_high, data, control;
};

struct virtio_pci_queue {
	uint16_t size, vector, enabled;
	uint64_t descriptors, driver, device;
};

struct virtio_pci {
	uint16_t command;
	uint8_t cache_line, latency, interrupt_line;
	uint32_t bars[VIRTIO_PCI_BARS];
	uint16_t msix_control;
	uint32_t vector_count;
	struct virtio_pci_vector vectors[VIRTIO_PCI_VECTORS];
	/* All that follows only where the device can be reached in memory. */
	int reachable;
	uint8_t status;
	uint64_t features;
	uint16_t config_vector;
	uint32_t feature_select, driver_feature_select, queue_select;
	uint32_t queue_count;
	struct virtio_pci_queue queues[VIRTIO_PCI_QUEUES];
};

int virtio_pci_read(struct door *door, int slot, struct virtio_pci *ret, struct fault *fault);
/* Into a device that was just made. */
int virtio_pci_write(struct door *door, int slot, const struct virtio_pci *state, struct fault *fault);

/* Remove the device in a slot at once: what the guest's firmware does when the guest lets go of it. */
int virtio_pci_eject(struct door *door, int slot, struct fault *fault);

/* NULL: out of memory. parse: CCHV_ERR_PROTOCOL when it makes no sense. */
struct json *virtio_pci_to_json(const struct virtio_pci *state);
int virtio_pci_parse(const struct json *json, struct virtio_pci *ret);

#endif
