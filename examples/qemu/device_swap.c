/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that QEMU does not save: see vm.h. It refuses to save a machine that has vhost-user-vsock, and forgets what
 * a driver has set in virtio-pmem. So the first is taken out of the machine, while the guest stands still, and put
 * back, and the registers of both are read and set by us: the guest finds its devices as it left them. Enters: a
 * device, its entry in a snapshot. Leaves: the entry filled in, or the device as the entry says.
 */
#include <linux/virtio_config.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "virtio_pci.h"
#include "vm.h"

#define REMOVAL_TIMEOUT_MS 30000
#define CONNECTIONS_MAX 1024

static int is_driven(const struct virtio_pci *state)
{
	return state->reachable && state->status & VIRTIO_CONFIG_S_DRIVER_OK;
}

/* A queue that has been used cannot be set to where it stood: QEMU's own count begins at zero. */
static int check_unused(struct device *d, struct door *door, const struct virtio_pci *state, struct fault *fault)
{
	for (uint32_t i = 0; is_driven(state) && i < state->queue_count; i++) {
		uint64_t asked = 0, done = 0;
		int r;

		if (!state->queues[i].enabled)
			continue;
		r = door_read(door, state->queues[i].driver + 2, 2, &asked, fault);
		if (r == CCHV_OK)
			r = door_read(door, state->queues[i].device + 2, 2, &done, fault);
		if (r < 0)
			return r;
		if (asked || done)
			return fault_set(fault, 500, "pmem device '%s' was flushed: QEMU cannot save it", d->id);
	}
	return CCHV_OK;
}

static int read_registers(struct device *d, struct door *door, struct json *entry, struct virtio_pci *state,
                          struct fault *fault)
{
	int r = virtio_pci_read(door, d->slot, state, fault);

	if (r < 0)
		return fault_wrap(fault, "Cannot read the registers of device '%s'", d->id);
	return json_set(entry, "registers", virtio_pci_to_json(state)) < 0 ? fault_nomem(fault) : CCHV_OK;
}

int device_describe_registers(struct device *d, struct door *door, struct json *entry, struct fault *fault)
{
	struct virtio_pci state;
	int r = read_registers(d, door, entry, &state, fault);

	return r < 0 ? r : check_unused(d, door, &state, fault);
}

static int parse_registers(struct device *d, const struct json *entry, struct virtio_pci *state, struct fault *fault)
{
	if (virtio_pci_parse(json_get(entry, "registers"), state) == CCHV_OK)
		return CCHV_OK;
	return fault_set(fault, 500, "the registers of device '%s' in the snapshot make no sense", d->id);
}

int device_set_registers(struct device *d, struct door *door, const struct json *entry, struct fault *fault)
{
	struct virtio_pci state;
	int r = parse_registers(d, entry, &state, fault);

	if (r == CCHV_OK)
		r = virtio_pci_write(door, d->slot, &state, fault);
	return r < 0 ? fault_wrap(fault, "Cannot set the registers of device '%s'", d->id) : CCHV_OK;
}

static int list_connections(const struct device *d, struct json *entry)
{
	cleanup_free uint32_t (*ports)[2] = mem_alloc(CONNECTIONS_MAX * sizeof(*ports));
	struct json *list = json_edit(entry, "connections", JSON_ARRAY);
	size_t n;

	if (!ports || !list)
		return CCHV_ERR_NOMEM;
	n = vsock_list(d->vsock, ports, CONNECTIONS_MAX);
	for (size_t i = 0; i < n && i < CONNECTIONS_MAX; i++) {
		struct json *pair = json_new_array();

		json_append(pair, json_new_u64(ports[i][0]));
		json_append(pair, json_new_u64(ports[i][1]));
		if (json_append(list, pair) < 0)
			return CCHV_ERR_NOMEM;
	}
	return CCHV_OK;
}

/* QEMU frees a device a little later; only then is its back end free, too. */
static int await_removal(struct device *d, struct fault *fault)
{
	uint64_t deadline = clock_deadline(REMOVAL_TIMEOUT_MS);
	struct qmp *qmp = machine_qmp(d->vm->machine);
	cleanup_err cchv_error *err = NULL;
	struct qmp_message event;

	while (!qmp_take_event(qmp, "DEVICE_DELETED", "device", d->qemu_id.text, &event)) {
		if (qmp_is_closed(qmp) || clock_passed(deadline))
			return fault_set(fault, 500, "QEMU does not let go of device '%s'", d->id);
		if (loop_run_once(d->vm->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	}
	qmp_message_free(&event);
	return CCHV_OK;
}

int device_swap_out(struct device *d, struct door *door, struct json *entry, struct fault *fault)
{
	struct vsock_places places;
	struct virtio_pci state;
	int r = read_registers(d, door, entry, &state, fault);

	if (r < 0)
		return r;
	vsock_hold(d->vsock, &places);
	if (is_driven(&state)) {
		json_set_u64(entry, "receive", places.receive);
		json_set_u64(entry, "transmit", places.transmit);
	}
	json_set_u64(entry, "next_port", places.next_port);
	r = list_connections(d, entry) < 0 ? fault_nomem(fault) : virtio_pci_eject(door, d->slot, fault);
	if (r == CCHV_OK)
		r = await_removal(d, fault);
	if (r == CCHV_OK)
		device_undo(d, d->plan.count);
	else
		vsock_unhold(d->vsock);
	return r;
}

/* A fresh back end, and the old name. */
static int plan_again(struct device *d, const struct json *entry, struct fault *fault)
{
	const struct vsock_places places = {
		.receive = (uint16_t)config_u64(entry, "receive"),
		.transmit = (uint16_t)config_u64(entry, "transmit"),
		.next_port = (uint32_t)config_u64(entry, "next_port"),
	};
	unsigned int next = d->vm->names.next_id;
	cleanup_err cchv_error *err = NULL;
	int r;

	device_close_backend(d);
	r = vsock_renew(d->vsock, &places, config_has(entry, "receive"), &err);
	if (r == CCHV_OK)
		r = vsock_take_frontend_fd(d->vsock, &d->backend_fds[0]);
	if (r < 0)
		return fault_from_error(fault, err);
	d->backend_count = 1;
	plan_free(&d->plan);
	plan_init(&d->plan, &d->vm->names);
	d->vm->names.next_id = (unsigned int)config_u64(entry, "name");
	vsock_plan(&d->plan, d->backend_fds[0], d->slot, &d->qemu_id);
	d->vm->names.next_id = next;
	return d->plan.failed ? fault_nomem(fault) : CCHV_OK;
}

int device_swap_in(struct device *d, struct door *door, const struct json *entry, struct fault *fault)
{
	int r = plan_again(d, entry, fault);

	if (r == CCHV_OK)
		r = device_plug(d, NULL, fault);
	device_close_backend(d);
	return r < 0 ? r : device_set_registers(d, door, entry, fault);
}
