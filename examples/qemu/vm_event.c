/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What QEMU and the guest do by themselves: see vm.h. Enters: QMP events, the end of QEMU. Leaves: Cloud Hypervisor's
 * events and the same consequences: a reset happens in place, a power-off ends the process, a panic is only told.
 */
#include <string.h>
#include <sys/wait.h>

#include "vm.h"

static void on_shutdown(struct vm *vm, const struct json *data)
{
	struct fault fault = { 0 };
	char text[1024];
	int r;

	/* QEMU's own end shows as its death. */
	if (!config_bool(data, "guest"))
		return;
	r = vm->no_shutdown ? vm_shutdown(vm, &fault) : vm_end(vm, &fault);
	if (r < 0)
		log_error(vm->log, "the guest's power-off: %s", fault_text(&fault, text, sizeof(text)));
	fault_clear(&fault);
}

static void on_reset(struct vm *vm, const struct json *data)
{
	/* Ours (vm.reboot) is told where it is made. */
	if (!config_bool(data, "guest"))
		return;
	if (vm->firmware_resets) {
		vm->firmware_resets = 0;
		return;
	}
	event_emit(vm->events, "vm", "rebooting");
	vm_note_reset(vm);
	event_emit(vm->events, "vm", "rebooted");
}

static void on_panic(struct vm *vm, const struct json *data)
{
	struct event_property event = { "event", "panic" };

	(void)data;
	event_emit_with(vm->events, "guest", "panic", &event, 1);
}

static void on_crash_loaded(struct vm *vm, const struct json *data)
{
	struct event_property event = { "event", "crash_loaded" };

	(void)data;
	event_emit_with(vm->events, "guest", "panic", &event, 1);
}

static void tell_removed(struct vm *vm, const struct device *d)
{
	struct pci_bdf bdf = pci_bdf_of(d->slot);
	struct event_property properties[] = { { "id", d->id }, { "bdf", bdf.text } };

	event_emit_with(vm->events, "vm", "device-removed", properties, ARRAY_LEN(properties));
}

static void on_deleted(struct vm *vm, const struct json *data)
{
	const char *name = config_string(data, "device");
	struct device *d = name ? device_find_qemu(vm, name) : NULL;

	/* vCPUs that were there at start have no name, only a path. */
	if (!d && vm->cpus_leaving && (!name || strncmp(name, "cpu", 3) == 0)) {
		vm->cpus_leaving--;
		return;
	}
	if (!d)
		return;
	/* The device is gone: now what was behind it. */
	device_undo(d, d->plan.count);
	tell_removed(vm, d);
	device_free(d);
}

static void on_unplug_refused(struct vm *vm, const struct json *data)
{
	const char *name = config_string(data, "device");
	struct device *d = name ? device_find_qemu(vm, name) : NULL;

	if (!d && vm->cpus_leaving)
		vm->cpus_leaving--;
	log_error(vm->log, "the guest does not let go of '%s'", d ? d->id : name ? name : "a device");
}

static void handle(struct vm *vm, const struct qmp_message *event)
{
	static const struct {
		const char *name;
		void (*fn)(struct vm *vm, const struct json *data);
	} handlers[] = {
		{ "SHUTDOWN", on_shutdown },
		{ "RESET", on_reset },
		{ "GUEST_PANICKED", on_panic },
		{ "GUEST_CRASHLOADED", on_crash_loaded },
		{ "DEVICE_DELETED", on_deleted },
		{ "DEVICE_UNPLUG_GUEST_ERROR", on_unplug_refused },
	};

	log_debug(vm->log, "QEMU's event %s", event->text);
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++)
		if (strcmp(event->text, handlers[i].name) == 0)
			handlers[i].fn(vm, event->body);
}

static void note_death(struct vm *vm)
{
	if (WIFSIGNALED(vm->exit_status))
		log_error(vm->log, "QEMU was killed by signal %d", WTERMSIG(vm->exit_status));
	else
		log_error(vm->log, "QEMU ended by itself with code %d", WEXITSTATUS(vm->exit_status));
	vm->died = 1;
	vm->finished = 1;
}

int vm_process(struct vm *vm)
{
	struct qmp_message event;
	int activations;

	if (!vm->machine || vm->finished)
		return 0;
	if (qmp_next_event(machine_qmp(vm->machine), &event)) {
		handle(vm, &event);
		qmp_message_free(&event);
		return 1;
	}
	if (machine_has_died(vm->machine, &vm->exit_status)) {
		note_death(vm);
		return 1;
	}
	activations = machine_take_activations(vm->machine);
	if (activations) {
		/* A driver: the firmware's time is over. */
		vm->firmware_resets = 0;
		vm_note_activations(vm, activations);
		return 1;
	}
	return 0;
}
