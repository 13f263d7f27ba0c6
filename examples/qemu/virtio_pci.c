/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of virtio PCI devices: see virtio_pci.h. Enters: a slot, a state. Leaves: the state, or a device in it. */
#include "virtio_pci.h"

#include <linux/pci_regs.h>
#include <linux/virtio_config.h>
#include <linux/virtio_pci.h>
#include <stddef.h>
#include <string.h>

#define CONFIG_ADDRESS 0xcf8
#define CONFIG_DATA 0xcfc
#define CONFIG_ENABLE 0x80000000u
/* The ports by which ACPI code removes devices of the "pc" machine. */
#define HOTPLUG_EJECT 0xae08
#define HOTPLUG_BUS 0xae10
#define CAPABILITIES_MAX 48
#define VECTOR_SIZE PCI_MSIX_ENTRY_SIZE

#define COMMON(field) offsetof(struct virtio_pci_common_cfg, field)

/* Where the parts of a device are. */
struct layout {
	struct door *door;
	struct fault *fault;
	uint32_t base;                  /* for the configuration ports */
	uint8_t msix;                   /* its capability; 0: none */
	uint64_t common;                /* an address in memory; 0: cannot be reached */
	uint64_t table;
	uint8_t common_bar, table_bar;
	uint32_t common_offset, table_offset;
};

static int config_in(struct layout *l, unsigned int reg, unsigned int size, uint32_t *ret)
{
	int r = door_out(l->door, CONFIG_ADDRESS, 4, l->base | (reg & ~3u), l->fault);

	return r < 0 ? r : door_in(l->door, (uint16_t)(CONFIG_DATA + (reg & 3)), size, ret, l->fault);
}

static int config_out(struct layout *l, unsigned int reg, unsigned int size, uint32_t value)
{
	int r = door_out(l->door, CONFIG_ADDRESS, 4, l->base | (reg & ~3u), l->fault);

	return r < 0 ? r : door_out(l->door, (uint16_t)(CONFIG_DATA + (reg & 3)), size, value, l->fault);
}

static int read_capability(struct layout *l, uint8_t at, uint8_t id)
{
	uint32_t value, offset;
	int r;

	if (id == PCI_CAP_ID_MSIX) {
		l->msix = at;
		r = config_in(l, at + PCI_MSIX_TABLE, 4, &value);
		l->table_bar = (uint8_t)(value & PCI_MSIX_TABLE_BIR);
		l->table_offset = value & PCI_MSIX_TABLE_OFFSET;
		return r;
	}
	r = config_in(l, at + offsetof(struct virtio_pci_cap, cfg_type), 1, &value);
	if (r < 0 || value != VIRTIO_PCI_CAP_COMMON_CFG)
		return r;
	r = config_in(l, at + offsetof(struct virtio_pci_cap, bar), 1, &value);
	if (r == CCHV_OK)
		r = config_in(l, at + offsetof(struct virtio_pci_cap, offset), 4, &offset);
	l->common_bar = (uint8_t)value;
	l->common_offset = offset;
	return r;
}

static int find_capabilities(struct layout *l)
{
	uint32_t at = 0, head;
	int r = config_in(l, PCI_CAPABILITY_LIST, 1, &at);

	l->common_bar = l->table_bar = VIRTIO_PCI_BARS;
	for (int i = 0; r == CCHV_OK && at && i < CAPABILITIES_MAX; i++) {
		r = config_in(l, at, 2, &head);
		if (r == CCHV_OK && ((head & 0xff) == PCI_CAP_ID_MSIX || (head & 0xff) == PCI_CAP_ID_VNDR))
			r = read_capability(l, (uint8_t)at, (uint8_t)head);
		at = head >> 8;
	}
	if (r == CCHV_OK && l->common_bar == VIRTIO_PCI_BARS)
		r = fault_set(l->fault, 500, "The device in slot %u is no virtio device", (l->base >> 11) & 31);
	return r;
}

static uint64_t bar_address(const uint32_t *bars, unsigned int bar)
{
	uint64_t address;

	if (bar >= VIRTIO_PCI_BARS || bars[bar] & PCI_BASE_ADDRESS_SPACE_IO)
		return 0;
	address = bars[bar] & PCI_BASE_ADDRESS_MEM_MASK;
	if ((bars[bar] & PCI_BASE_ADDRESS_MEM_TYPE_MASK) == PCI_BASE_ADDRESS_MEM_TYPE_64 && bar + 1 < VIRTIO_PCI_BARS)
		address |= (uint64_t)bars[bar + 1] << 32;
	return address;
}

/* Addresses by what the base registers say. */
static void locate(struct layout *l, const struct virtio_pci *s)
{
	uint64_t common = bar_address(s->bars, l->common_bar), table = bar_address(s->bars, l->table_bar);

	l->common = s->command & PCI_COMMAND_MEMORY && common ? common + l->common_offset : 0;
	l->table = s->command & PCI_COMMAND_MEMORY && table ? table + l->table_offset : 0;
}

static int common_in(struct layout *l, size_t offset, unsigned int size, uint64_t *ret)
{
	return door_read(l->door, l->common + offset, size, ret, l->fault);
}

static int common_out(struct layout *l, size_t offset, unsigned int size, uint64_t value)
{
	return door_write(l->door, l->common + offset, size, value, l->fault);
}

static int read_config(struct layout *l, struct virtio_pci *s)
{
	uint32_t command = 0, cache = 0, latency = 0, line = 0;
	int r = config_in(l, PCI_COMMAND, 2, &command);

	if (r == CCHV_OK)
		r = config_in(l, PCI_CACHE_LINE_SIZE, 1, &cache);
	if (r == CCHV_OK)
		r = config_in(l, PCI_LATENCY_TIMER, 1, &latency);
	if (r == CCHV_OK)
		r = config_in(l, PCI_INTERRUPT_LINE, 1, &line);
	for (unsigned int i = 0; r == CCHV_OK && i < VIRTIO_PCI_BARS; i++)
		r = config_in(l, PCI_BASE_ADDRESS_0 + 4 * i, 4, &s->bars[i]);
	s->command = (uint16_t)command;
	s->cache_line = (uint8_t)cache;
	s->latency = (uint8_t)latency;
	s->interrupt_line = (uint8_t)line;
	return r;
}

static int vector_in(struct layout *l, unsigned int index, struct virtio_pci_vector *v)
{
	uint64_t at = l->table + index * VECTOR_SIZE, words[4] = { 0 };
	int r = CCHV_OK;

	for (unsigned int i = 0; r == CCHV_OK && i < 4; i++)
		r = door_read(l->door, at + 4 * i, 4, &words[i], l->fault);
	*v = (struct virtio_pci_vector){ (uint32_t)words[0], (uint32_t)words[1], (uint32_t)words[2],
	                                 (uint32_t)words[3] };
	return r;
}

static int read_vectors(struct layout *l, struct virtio_pci *s)
{
	uint32_t control = 0;
	int r = CCHV_OK;

	if (!l->msix)
		return CCHV_OK;
	r = config_in(l, l->msix + PCI_MSIX_FLAGS, 2, &control);
	s->msix_control = (uint16_t)control;
	s->vector_count = (control & PCI_MSIX_FLAGS_QSIZE) + 1;
	if (r == CCHV_OK && s->vector_count > VIRTIO_PCI_VECTORS)
		return fault_set(l->fault, 500, "A device with %u interrupts cannot be saved", s->vector_count);
	if (!l->table)
		s->vector_count = 0;
	for (unsigned int i = 0; r == CCHV_OK && i < s->vector_count; i++)
		r = vector_in(l, i, &s->vectors[i]);
	return r;
}

/* A 64-bit field, as two of 32 bits, which is how drivers must reach it. */
static int wide_in(struct layout *l, size_t offset, uint64_t *ret)
{
	uint64_t low = 0, high = 0;
	int r = common_in(l, offset, 4, &low);

	if (r == CCHV_OK)
		r = common_in(l, offset + 4, 4, &high);
	*ret = low | high << 32;
	return r;
}

static int wide_out(struct layout *l, size_t offset, uint64_t value)
{
	int r = common_out(l, offset, 4, (uint32_t)value);

	return r < 0 ? r : common_out(l, offset + 4, 4, value >> 32);
}

static int queue_in(struct layout *l, unsigned int index, struct virtio_pci_queue *q)
{
	uint64_t size = 0, vector = 0, enabled = 0;
	int r = common_out(l, COMMON(queue_select), 2, index);

	if (r == CCHV_OK)
		r = common_in(l, COMMON(queue_size), 2, &size);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(queue_msix_vector), 2, &vector);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(queue_enable), 2, &enabled);
	if (r == CCHV_OK)
		r = wide_in(l, COMMON(queue_desc_lo), &q->descriptors);
	if (r == CCHV_OK)
		r = wide_in(l, COMMON(queue_avail_lo), &q->driver);
	if (r == CCHV_OK)
		r = wide_in(l, COMMON(queue_used_lo), &q->device);
	q->size = (uint16_t)size;
	q->vector = (uint16_t)vector;
	q->enabled = (uint16_t)enabled;
	return r;
}

static int read_features(struct layout *l, struct virtio_pci *s)
{
	uint64_t part = 0;
	int r = CCHV_OK;

	s->features = 0;
	for (unsigned int i = 0; r == CCHV_OK && i < 2; i++) {
		r = common_out(l, COMMON(guest_feature_select), 4, i);
		if (r == CCHV_OK)
			r = common_in(l, COMMON(guest_feature), 4, &part);
		s->features |= part << 32 * i;
	}
	return r;
}

/* The selectors are the driver's: it may have been stopped between setting and using one. */
static int write_selectors(struct layout *l, const struct virtio_pci *s)
{
	int r = common_out(l, COMMON(device_feature_select), 4, s->feature_select);

	if (r == CCHV_OK)
		r = common_out(l, COMMON(guest_feature_select), 4, s->driver_feature_select);
	return r == CCHV_OK ? common_out(l, COMMON(queue_select), 2, s->queue_select) : r;
}

static int read_common(struct layout *l, struct virtio_pci *s)
{
	uint64_t select = 0, driver = 0, queue = 0, status = 0, vector = 0, count = 0;
	int r = common_in(l, COMMON(device_feature_select), 4, &select);

	if (r == CCHV_OK)
		r = common_in(l, COMMON(guest_feature_select), 4, &driver);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(queue_select), 2, &queue);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(device_status), 1, &status);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(msix_config), 2, &vector);
	if (r == CCHV_OK)
		r = common_in(l, COMMON(num_queues), 2, &count);
	if (r == CCHV_OK && count > VIRTIO_PCI_QUEUES)
		return fault_set(l->fault, 500, "A device with %u queues cannot be saved", (unsigned int)count);
	s->feature_select = (uint32_t)select;
	s->driver_feature_select = (uint32_t)driver;
	s->queue_select = (uint32_t)queue;
	s->status = (uint8_t)status;
	s->config_vector = (uint16_t)vector;
	s->queue_count = (uint32_t)count;
	if (r == CCHV_OK)
		r = read_features(l, s);
	for (unsigned int i = 0; r == CCHV_OK && i < s->queue_count; i++)
		r = queue_in(l, i, &s->queues[i]);
	return r == CCHV_OK ? write_selectors(l, s) : r;
}

/* The guest may have been stopped between its writes to the two configuration ports. */
static int with_ports(struct door *door, int slot, int (*fn)(struct layout *l, void *data), void *data,
                      struct fault *fault)
{
	struct layout layout = { .door = door, .fault = fault, .base = CONFIG_ENABLE | (uint32_t)slot << 11 };
	uint32_t latch = 0;
	int r = door_in(door, CONFIG_ADDRESS, 4, &latch, fault), r2;

	if (r < 0)
		return r;
	r = find_capabilities(&layout);
	if (r == CCHV_OK)
		r = fn(&layout, data);
	if (r < 0) {
		struct fault more = { 0 };

		(void)door_out(door, CONFIG_ADDRESS, 4, latch, &more);
		fault_clear(&more);
		return r;
	}
	r2 = door_out(door, CONFIG_ADDRESS, 4, latch, fault);
	return r2;
}

static int read_all(struct layout *l, void *data)
{
	struct virtio_pci *s = data;
	int r = read_config(l, s);

	if (r < 0)
		return r;
	locate(l, s);
	r = read_vectors(l, s);
	s->reachable = l->common != 0;
	return r == CCHV_OK && s->reachable ? read_common(l, s) : r;
}

int virtio_pci_read(struct door *door, int slot, struct virtio_pci *ret, struct fault *fault)
{
	memset(ret, 0, sizeof(*ret));
	return with_ports(door, slot, read_all, ret, fault);
}

static int write_config(struct layout *l, const struct virtio_pci *s)
{
	int r = CCHV_OK;

	for (unsigned int i = 0; r == CCHV_OK && i < VIRTIO_PCI_BARS; i++)
		r = config_out(l, PCI_BASE_ADDRESS_0 + 4 * i, 4, s->bars[i]);
	if (r == CCHV_OK)
		r = config_out(l, PCI_CACHE_LINE_SIZE, 1, s->cache_line);
	if (r == CCHV_OK)
		r = config_out(l, PCI_LATENCY_TIMER, 1, s->latency);
	if (r == CCHV_OK)
		r = config_out(l, PCI_INTERRUPT_LINE, 1, s->interrupt_line);
	return r == CCHV_OK ? config_out(l, PCI_COMMAND, 2, s->command) : r;
}

static int vector_out(struct layout *l, unsigned int index, const struct virtio_pci_vector *v)
{
	const uint32_t words[4] = { v->address_low, v->address_high, v->data, v->control };
	int r = CCHV_OK;

	for (unsigned int i = 0; r == CCHV_OK && i < 4; i++)
		r = door_write(l->door, l->table + index * VECTOR_SIZE + 4 * i, 4, words[i], l->fault);
	return r;
}

static int write_vectors(struct layout *l, const struct virtio_pci *s)
{
	uint32_t control = 0;
	int r = CCHV_OK;

	if (!l->msix)
		return CCHV_OK;
	r = config_in(l, l->msix + PCI_MSIX_FLAGS, 2, &control);
	if (r == CCHV_OK && (control ^ s->msix_control) & PCI_MSIX_FLAGS_QSIZE)
		return fault_set(l->fault, 500, "The device has another number of interrupts");
	for (unsigned int i = 0; r == CCHV_OK && l->table && i < s->vector_count; i++)
		r = vector_out(l, i, &s->vectors[i]);
	return r == CCHV_OK ? config_out(l, l->msix + PCI_MSIX_FLAGS, 2, s->msix_control) : r;
}

static int write_features(struct layout *l, const struct virtio_pci *s)
{
	int r = CCHV_OK;

	for (unsigned int i = 0; r == CCHV_OK && i < 2; i++) {
		r = common_out(l, COMMON(guest_feature_select), 4, i);
		if (r == CCHV_OK)
			r = common_out(l, COMMON(guest_feature), 4, (uint32_t)(s->features >> 32 * i));
	}
	return r;
}

static int queue_out(struct layout *l, unsigned int index, const struct virtio_pci_queue *q)
{
	int r = common_out(l, COMMON(queue_select), 2, index);

	if (r < 0 || !q->size)
		return r;
	r = common_out(l, COMMON(queue_size), 2, q->size);
	if (r == CCHV_OK)
		r = common_out(l, COMMON(queue_msix_vector), 2, q->vector);
	if (r == CCHV_OK)
		r = wide_out(l, COMMON(queue_desc_lo), q->descriptors);
	if (r == CCHV_OK)
		r = wide_out(l, COMMON(queue_avail_lo), q->driver);
	if (r == CCHV_OK)
		r = wide_out(l, COMMON(queue_used_lo), q->device);
	return r == CCHV_OK && q->enabled ? common_out(l, COMMON(queue_enable), 2, 1) : r;
}

/* The steps of a driver, in the order that the specification gives them; no more of them than were made before. */
static int write_common(struct layout *l, const struct virtio_pci *s)
{
	const uint8_t found = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;
	uint64_t count = 0, status = 0;
	int r = common_in(l, COMMON(num_queues), 2, &count);

	if (r == CCHV_OK && count != s->queue_count)
		return fault_set(l->fault, 500, "The device has another number of queues");
	if (r == CCHV_OK)
		r = common_out(l, COMMON(device_status), 1, s->status & found);
	if (r == CCHV_OK)
		r = write_features(l, s);
	if (r == CCHV_OK)
		r = common_out(l, COMMON(device_status), 1, s->status & (found | VIRTIO_CONFIG_S_FEATURES_OK));
	if (r == CCHV_OK)
		r = common_in(l, COMMON(device_status), 1, &status);
	if (r == CCHV_OK && (s->status & ~status) & VIRTIO_CONFIG_S_FEATURES_OK)
		return fault_set(l->fault, 500, "The device does not have the features that its driver uses");
	if (r == CCHV_OK)
		r = common_out(l, COMMON(msix_config), 2, s->config_vector);
	for (unsigned int i = 0; r == CCHV_OK && i < s->queue_count; i++)
		r = queue_out(l, i, &s->queues[i]);
	if (r == CCHV_OK)
		r = common_out(l, COMMON(device_status), 1, s->status);
	return r == CCHV_OK ? write_selectors(l, s) : r;
}

static int write_all(struct layout *l, void *data)
{
	const struct virtio_pci *s = data;
	int r = write_config(l, s);

	if (r < 0)
		return r;
	locate(l, s);
	r = write_vectors(l, s);
	if (r < 0 || !s->reachable)
		return r;
	if (!l->common)
		return fault_set(l->fault, 500, "The device is not where it was");
	/* A driver that has done nothing yet leaves nothing to do. */
	return s->status ? write_common(l, s) : write_selectors(l, s);
}

int virtio_pci_write(struct door *door, int slot, const struct virtio_pci *state, struct fault *fault)
{
	struct virtio_pci copy = *state;

	return with_ports(door, slot, write_all, &copy, fault);
}

int virtio_pci_eject(struct door *door, int slot, struct fault *fault)
{
	uint32_t bus = 0;
	int r = door_in(door, HOTPLUG_BUS, 4, &bus, fault);

	if (r == CCHV_OK)
		r = door_out(door, HOTPLUG_BUS, 4, 0, fault);
	if (r == CCHV_OK)
		r = door_out(door, HOTPLUG_EJECT, 4, 1u << slot, fault);
	/* The guest's own choice of a bus, which it may be about to use. */
	return r == CCHV_OK ? door_out(door, HOTPLUG_BUS, 4, bus, fault) : r;
}
