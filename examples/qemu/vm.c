/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of the VM: see vm.h. Enters: requests. Leaves: Created, Running and Paused as the original has them, its
 * events, its refusals.
 */
#include "vm.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"

void vm_init(struct vm *vm, struct loop *loop, const struct log_sink *log, struct event_stream *events,
             struct program *program)
{
	*vm = (struct vm){ .loop = loop, .log = log, .events = events, .program = program };
	console_init(&vm->console, loop, log);
	console_init(&vm->serial, loop, log);
	pci_slots_init(&vm->slots);
	tsc_read(&vm->tsc_since);
}

/* Descriptors of taps live as long as the configuration. */
static void close_tap_fds(const struct json *config)
{
	const struct json *nets = json_get(config, "net");

	for (size_t i = 0; i < json_count(nets); i++) {
		const struct json *fds = json_get(json_at(nets, i), "fds");

		for (size_t k = 0; k < json_count(fds); k++) {
			uint64_t fd;

			if (json_as_u64(json_at(fds, k), &fd) == CCHV_OK)
				close((int)fd);
		}
	}
}

void vm_take_config(struct vm *vm, struct json *config)
{
	vm->config = config;
}

void vm_drop_config(struct vm *vm)
{
	close_tap_fds(vm->config);
	json_free(steal(&vm->config));
}

void vm_forget_saved(struct vm *vm)
{
	json_free(steal(&vm->kept_state));
}

void vm_free(struct vm *vm)
{
	vm_stop(vm);
	vm_drop_config(vm);
}

static int not_created(struct fault *fault)
{
	return fault_set(fault, 404, "VM is not created");
}

static int not_running(struct fault *fault)
{
	return fault_set(fault, 500, "VM is not running");
}

static int run_command(struct vm *vm, const char *command, struct fault *fault)
{
	return qmp_call(machine_qmp(vm->machine), command, NULL, NULL, fault);
}

int vm_create(struct vm *vm, struct json *config, struct fault *fault)
{
	int r;

	if (vm->config) {
		json_free(config);
		return fault_set(fault, 500, "VM is already created");
	}
	vm->config = config;
	/* The pty's path is to be seen before the VM boots. */
	r = console_open(&vm->console, config_member(config, "console"), fault);
	if (r == CCHV_OK)
		r = console_open(&vm->serial, config_member(config, "serial"), fault);
	return r < 0 ? fault_wrap(fault, "Error creating console devices") : CCHV_OK;
}

int vm_boot(struct vm *vm, struct fault *fault)
{
	int r;

	if (vm->machine)
		return fault_set(fault, 500, "VM is already created");
	event_emit(vm->events, "vm", "booting");
	if (!vm->config)
		return fault_set(fault, 404, "VM config is missing");
	r = vm_start(vm, fault);
	if (r == CCHV_OK)
		event_emit(vm->events, "vm", "booted");
	return r;
}

int vm_shutdown(struct vm *vm, struct fault *fault)
{
	if (!vm->machine)
		return not_running(fault);
	vm_stop(vm);
	event_emit(vm->events, "vm", "shutdown");
	return CCHV_OK;
}

int vm_delete(struct vm *vm, struct fault *fault)
{
	int r;

	if (!vm->config)
		return CCHV_OK;
	if (vm->machine) {
		r = vm_shutdown(vm, fault);
		if (r < 0)
			return r;
	}
	console_close(&vm->console);
	console_close(&vm->serial);
	vm_drop_config(vm);
	event_emit(vm->events, "vm", "deleted");
	return CCHV_OK;
}

int vm_end(struct vm *vm, struct fault *fault)
{
	int r = vm_delete(vm, fault);

	if (r < 0)
		return r;
	event_emit(vm->events, "vmm", "shutdown");
	vm->finished = 1;
	return CCHV_OK;
}

void vm_note_reset(struct vm *vm)
{
	vm->firmware_resets = !program_firmware(vm->program);
	for (struct device *d = vm->devices; d; d = d->next) {
		cleanup_err cchv_error *err = NULL;

		d->activated = 0;
		if (d->vsock && vsock_reset(d->vsock, &err) < 0)
			log_error(vm->log, "vsock: %s", cchv_error_message(err));
	}
	console_reset(json_get(vm->config, "console"));
	console_reset(json_get(vm->config, "serial"));
}

int vm_reboot(struct vm *vm, struct fault *fault)
{
	int r;

	event_emit(vm->events, "vm", "rebooting");
	if (!vm->machine)
		return not_created(fault);
	vm_forget_saved(vm);
	vm_note_reset(vm);
	r = run_command(vm, "system_reset", fault);
	if (r == CCHV_OK && vm->paused)
		r = run_command(vm, "cont", fault);
	if (r < 0)
		return r;
	vm->paused = 0;
	event_emit(vm->events, "vm", "rebooted");
	return CCHV_OK;
}

int vm_pause(struct vm *vm, struct fault *fault)
{
	int r;

	if (!vm->machine)
		return not_running(fault);
	event_emit(vm->events, "vm", "pausing");
	if (vm->paused)
		r = fault_set(fault, 500, "Invalid transition: InvalidStateTransition(Paused, Paused)");
	else
		r = run_command(vm, "stop", fault);
	if (r < 0) {
		fault_wrap(fault, "Failed to pause migratable component");
		return fault_wrap(fault, "Cannot pause VM");
	}
	vm->paused = 1;
	event_emit(vm->events, "vm", "paused");
	return CCHV_OK;
}

int vm_resume(struct vm *vm, struct fault *fault)
{
	int r;

	if (!vm->machine)
		return not_running(fault);
	vm_forget_saved(vm);
	event_emit(vm->events, "vm", "resuming");
	if (!vm->paused)
		r = fault_set(fault, 500, "Invalid transition: InvalidStateTransition(Running, Running)");
	else
		r = run_command(vm, "cont", fault);
	if (r < 0) {
		fault_wrap(fault, "Failed to resume migratable component");
		return fault_wrap(fault, "Cannot resume VM");
	}
	vm->paused = 0;
	event_emit(vm->events, "vm", "resumed");
	return CCHV_OK;
}

int vm_power_button(struct vm *vm, struct fault *fault)
{
	return vm->machine ? run_command(vm, "system_powerdown", fault) : not_running(fault);
}

int vm_nmi(struct vm *vm, struct fault *fault)
{
	return vm->machine ? run_command(vm, "inject-nmi", fault) : not_running(fault);
}
