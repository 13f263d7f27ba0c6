/* SPDX-License-Identifier: Apache-2.0 */
/* The places on PCI bus 0 of QEMU's "pc" machine: 0 is its host bridge, 1 its ISA bridge; 2 to 31 are for devices. */
#ifndef QEMU_PCI_SLOTS_H
#define QEMU_PCI_SLOTS_H

#include <stdint.h>

#include "fault.h"

struct pci_slots {
	uint32_t used;
	uint32_t kept;                  /* promised to devices that are still to come */
};

void pci_slots_init(struct pci_slots *slots);
void pci_slots_keep(struct pci_slots *slots, uint64_t slot);     /* not for pci_slots_find() */
int pci_slots_take(struct pci_slots *slots, uint64_t slot, struct fault *fault);         /* this one */
int pci_slots_find(struct pci_slots *slots, int *ret_slot, struct fault *fault);         /* the lowest free one */
void pci_slots_release(struct pci_slots *slots, int slot);

/* "0000:00:05.0" */
struct pci_bdf { char text[16]; };
struct pci_bdf pci_bdf_of(int slot);

#endif
