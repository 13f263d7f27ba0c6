/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers that come up: see vm.h. Enters: word (a trace line of QEMU's) that some driver set DRIVER_OK. Leaves: an
 * event virtio-device/activated with the device's id. The line does not name the device; it is asked for among those
 * that were not up, in the order of slots, which is that of probing: mostly the first question hits. The vsock device
 * tells by itself. What is not known to this QEMU (the question is an unstable one) is not told, and nobody asks
 * again.
 */
#include <string.h>

#include "vm.h"

static int is_virtio(const struct device *d)
{
	return d->kind != DEVICE_WATCHDOG && d->kind != DEVICE_PVPANIC && d->kind != DEVICE_VSOCK;
}

/* 1: its driver is up; 0: not; negative: QEMU does not say. */
static int is_up(struct vm *vm, const struct device *d)
{
	cleanup_free char *path = mem_printf("/machine/peripheral/%s/virtio-backend", d->qemu_id.text);
	struct json *arguments = json_new_object();
	cleanup_json struct json *body = NULL;
	struct fault fault = { 0 };
	const struct json *names;
	int r;

	json_set_string(arguments, "path", path);
	r = qmp_call(machine_qmp(vm->machine), "x-query-virtio-status", arguments, &body, &fault);
	fault_clear(&fault);
	if (r < 0)
		return r;
	names = json_find(body, "status.statuses");
	for (size_t i = 0; i < json_count(names); i++) {
		const char *name = json_as_string(json_at(names, i));

		if (name && strstr(name, "DRIVER_OK"))
			return 1;
	}
	return 0;
}

static struct device *next_by_slot(struct vm *vm, int after)
{
	struct device *best = NULL;

	for (struct device *d = vm->devices; d; d = d->next)
		if (is_virtio(d) && !d->activated && d->slot > after && (!best || d->slot < best->slot))
			best = d;
	return best;
}

void vm_note_activations(struct vm *vm, int count)
{
	int slot = -1;

	/* Each question takes a turn of QEMU's main loop, under its big lock: no more of them than drivers came up. */
	for (struct device *d = next_by_slot(vm, slot); d && count > 0; d = next_by_slot(vm, slot)) {
		struct event_property id = { "id", d->id };
		int up = is_up(vm, d);

		slot = d->slot;
		if (up == 0)
			continue;
		d->activated = 1;
		if (up < 0)
			continue;
		count--;
		event_emit_with(vm->events, "virtio-device", "activated", &id, 1);
	}
}
