/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of the PCI bus: see pci_slots.h. Enters: wishes. Leaves: numbers that nobody else has. */
#include "pci_slots.h"

#include <stdio.h>

#define SLOTS 32
#define FIXED 3u /* 0 and 1 are the machine's own */

void pci_slots_init(struct pci_slots *slots)
{
	slots->used = FIXED;
	slots->kept = 0;
}

void pci_slots_keep(struct pci_slots *slots, uint64_t slot)
{
	if (slot < SLOTS)
		slots->kept |= 1u << slot;
}

int pci_slots_take(struct pci_slots *slots, uint64_t slot, struct fault *fault)
{
	if (slot >= SLOTS || slots->used & 1u << slot) {
		fault_set(fault, 500, "Valid PCI device identifier but already used: %llu", (unsigned long long)slot);
		return fault_wrap(fault, "Could not reserve the PCI device ID");
	}
	slots->used |= 1u << slot;
	slots->kept &= ~(1u << slot);
	return CCHV_OK;
}

int pci_slots_find(struct pci_slots *slots, int *ret_slot, struct fault *fault)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if (!((slots->used | slots->kept) & 1u << slot)) {
			slots->used |= 1u << slot;
			*ret_slot = slot;
			return CCHV_OK;
		}
	fault_set(fault, 500, "Could not find an available device slot on the PCI bus.");
	return fault_wrap(fault, "Failed to find an available PCI device ID");
}

void pci_slots_release(struct pci_slots *slots, int slot)
{
	slots->used &= ~(1u << slot) | FIXED;
}

struct pci_bdf pci_bdf_of(int slot)
{
	struct pci_bdf bdf;

	snprintf(bdf.text, sizeof(bdf.text), "0000:00:%02x.0", (unsigned int)slot);
	return bdf;
}
