/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Booting a VM, from CREATED to RUNNING. Enters: a configured VMM. Leaves: a guest whose agent has answered, is
 * configured and has its network and containers. The steps are kept in the VM, so that a call that timed out is
 * gone on with by the next one, and two threads that boot do it once.
 */
#include "vm_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/announce.h"
#include "agent/channel.h"
#include "base/clock.h"
#include "base/export.h"
#include "ctx.h"
#include "template_auto.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_identity.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"
#include "vmm/http.h"

#define ONLINE_TRIES 12

enum boot_step {
	STEP_START,     /* tell the VMM */
	STEP_LOCATE,    /* where the devices are */
	STEP_ANNOUNCE,  /* the agent calls */
	STEP_HELLO,     /* and is called */
	STEP_CONFIGURE,
	STEP_ONLINE,
	STEP_NETWORK,
	STEP_CONTAINERS,
	STEP_DONE
};

struct vm_boot {
	int step;
	int busy;              /* a thread is at it */
	int announced;
	struct vmm_call *call; /* vm.boot, while the VMM has not answered */
	int answered;
	int result;
	cchv_error *error;
	struct vm_device *next_net;
};

void vm_boot_free(cchv_vm *vm)
{
	struct vm_boot *b = vm->boot;

	if (!b)
		return;
	if (b->call)
		vmm_call_forget(b->call);
	cchv_error_free(b->error);
	free(b);
	vm->boot = NULL;
}

static void on_boot_reply(int result, struct json **body, cchv_error **error, void *user_data)
{
	struct vm_boot *b = user_data;

	b->call = NULL;
	b->answered = 1;
	b->result = result;
	b->error = steal(error);
}

static void on_announce(int code, const char *boot_id, void *user_data)
{
	cchv_vm *vm = user_data;

	/* Whoever it was and whatever they said: the agent itself is asked next. */
	if (code < 0)
		log_warning(&vm->ctx->log, "VM '%s': the announcement of its agent makes no sense", vm->id);
	if (vm->boot)
		vm->boot->announced = 1;
}

/* The VMM connects to our listener: as its user it must be allowed to. */
static int give_listener(cchv_vm *vm, cchv_error **err)
{
	const cchv_vm_config *c = vm->config;

	if (c->set_ids && fchownat(vm->record->dir_fd, "vsock.sock_1023", c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "VM '%s': give its socket to user %u",
		               vm->id, c->uid);
	return CCHV_OK;
}

static int step_start(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	/* A clone was running before: it goes on, and its agent listens already. */
	int clone = vm->start != CCHV_START_COLD, r = CCHV_OK;
	struct vm_boot *b = vm->boot;

	if (!clone && !vm->announce && !b->announced) {
		r = announce_new(vm->loop, vm->vsock_path, on_announce, vm, &vm->announce, err);
		if (r == CCHV_OK)
			r = give_listener(vm, err);
	}
	if (r == CCHV_OK && !b->call && !b->answered) {
		vm_set_state(vm, CCHV_VM_BOOTING);
		r = vmm_http_call(vm->http, "PUT", clone ? "vm.resume" : "vm.boot", NULL, API_BOOT_MS, on_boot_reply,
		                  b, &b->call, err);
	}
	while (r == CCHV_OK && !b->answered)
		r = vm_serve(vm, deadline, err);
	vm_find_helper(vm);
	if (r == CCHV_OK && b->result < 0)
		r = vm_explain(vm, err_move(err, &b->error, b->result), err);
	return r;
}

static int step_locate(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *info = NULL;
	const struct vm_device *d = vm->devices;
	int r;

	/* What was plugged into a clone has told its address. */
	while (d && d->address[0])
		d = d->next;
	if (!d)
		return CCHV_OK;
	r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, deadline, &info, err);
	return r < 0 ? r : vm_devices_locate(vm, info, err);
}

static int step_announce(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (r == CCHV_OK && vm->start == CCHV_START_COLD && !vm->boot->announced) {
		r = vm_check_alive(vm, err);
		if (r == CCHV_OK)
			r = vm_serve(vm, deadline, err);
	}
	return r;
}

static int step_hello(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = vm_agent_dial(vm, NULL, 0, err);

	return r < 0 ? r : vm_agent_wait(vm, deadline, err);
}

int vm_online(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, uint64_t deadline, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	int r = CCHV_ERR_GUEST;

	/* The agent waits for a few seconds only; a large memory, or an emulated CPU, takes longer. */
	for (int i = 0; i < ONLINE_TRIES; i++) {
		struct json *params = json_new_object();

		json_set_u64(params, "vcpus", vcpus);
		json_set_u64(params, "memory_bytes", memory_bytes);
		cchv_error_free(steal(&error));
		r = vm_ask(vm, "vm.online", params, deadline, NULL, &error);
		if (r == CCHV_OK || cchv_error_errno(error) != ETIMEDOUT || clock_passed(deadline))
			break;
	}
	return r < 0 ? err_move(err, &error, r) : CCHV_OK;
}

int vm_boot_adopted(cchv_vm *vm, cchv_error **err)
{
	vm->boot = mem_zalloc(sizeof(*vm->boot));
	if (!vm->boot)
		return err_nomem(err);
	/* The announcement may have come and gone with the dead owner. */
	vm->boot->step = STEP_HELLO;
	return CCHV_OK;
}

static int step_online(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	return vm_online(vm, vm_config_vcpus(vm->config), vm_config_vm_memory(vm_config_memory(vm->config)), deadline,
	                 err);
}

static int step_network(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	for (struct vm_device *d = vm->devices; d && r == CCHV_OK; d = d->next)
		if (d->net)
			r = vm_net_up(vm, d, deadline, err);
	return r;
}

static const struct {
	int (*run)(cchv_vm *vm, uint64_t deadline, cchv_error **err);
	const char *awaits;
} steps[] = {
	[STEP_START] = { step_start, "the VMM to start the guest" },
	[STEP_LOCATE] = { step_locate, "the VMM's answer to vm.info" },
	[STEP_ANNOUNCE] = { step_announce, "the guest's agent to announce itself" },
	[STEP_HELLO] = { step_hello, "the hello of the guest's agent" },
	[STEP_CONFIGURE] = { vm_identify, "the agent to take the guest's identity" },
	[STEP_ONLINE] = { step_online, "the guest to use its CPUs and memory" },
	[STEP_NETWORK] = { step_network, "the guest's network" },
	[STEP_CONTAINERS] = { guest_booted, "the agent's list of containers" },
};

_Static_assert(ARRAY_LEN(steps) == STEP_DONE, "each step has its function");

/*
 * A clone whose guest has never answered, or whose VMM says so itself: its template is to blame, and all that start
 * from it would fail the same way. What was killed, by whomever, says nothing of the template.
 */
static void blame_template(cchv_vm *vm, int r, const char *text)
{
	int reason = vm->state == CCHV_VM_STOPPED ? vm->stop_reason : 0;

	if (vm->start != CCHV_START_TEMPLATE || vm->boot->step > STEP_HELLO)
		return;
	if (reason ? reason == CCHV_STOP_GUEST_RESET || reason == CCHV_STOP_GUEST_PANIC || reason == CCHV_STOP_VMM_FAULT
	           : r == CCHV_ERR_VMM || r == CCHV_ERR_PROTOCOL)
		template_condemn(vm, text ? text : cchv_err_text(r));
	else
		return;
	/* For the caller, who may make it anew: it will start cold. Without memory it does so, and nobody knows why. */
	if (!vm->why_cold)
		vm->why_cold = mem_printf("its template does not work: %s", text ? text : cchv_err_text(r));
}

/* A failed boot: the VMM has lost devices of its config by now. End it, and say why if it is known better. */
static int throw_away(cchv_vm *vm, int r, cchv_error **err)
{
	cleanup_free char *text = err && *err ? mem_strdup(cchv_error_message(*err)) : NULL;
	int code;

	blame_template(vm, r, text);
	if (vm->state != CCHV_VM_STOPPED) {
		vm_kill_vmm(vm, CCHV_STOP_KILLED, text ? text : "booting failed", NULL);
		while (vm->state != CCHV_VM_STOPPED && vm_serve(vm, clock_deadline(10000), NULL) == CCHV_OK)
			;
		return r;
	}
	/* It stopped by itself: its reason is the better one. */
	if (vm->stop_reason == CCHV_STOP_KILLED)
		return r;
	if (err)
		cchv_error_free(steal(err));
	code = vm_check_alive(vm, err);
	return code < 0 ? code : r;
}

static int run_steps(cchv_vm *vm, int end, uint64_t deadline, cchv_error **err)
{
	struct vm_boot *b = vm->boot;
	int r = CCHV_OK;

	b->busy = 1;
	while (b->step < end && r == CCHV_OK) {
		r = vm_check_alive(vm, err);
		if (r == CCHV_OK)
			r = steps[b->step].run(vm, deadline, err);
		if (r == CCHV_OK) {
			log_debug(&vm->ctx->log, "VM '%s': booting: here is %s", vm->id, steps[b->step].awaits);
			b->step++;
		}
	}
	b->busy = 0;
	vm_changed(vm);
	return r;
}

/* The caller may give up and throw the VM away, logs and all: what is known goes into the message. */
static int explain_timeout(cchv_vm *vm, cchv_error **err)
{
	cleanup_free char *said = bounded_log_last_line(&vm->vmm->console);
	const char *awaits = steps[vm->boot->step].awaits;

	if (err)
		cchv_error_free(steal(err));
	if (!said)
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "timed out waiting for %s; its console is silent", awaits);
	return err_set(err, CCHV_ERR_TIMEOUT, 0, "timed out waiting for %s; last on its console: \"%s\"", awaits, said);
}

static int begin(cchv_vm *vm, cchv_error **err)
{
	if (!vm->boot)
		vm->boot = mem_zalloc(sizeof(*vm->boot));
	return vm->boot ? CCHV_OK : err_nomem(err);
}

int vm_boot_bare(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	int r = begin(vm, err);

	if (r < 0)
		return r;
	r = run_steps(vm, STEP_CONFIGURE, deadline, &error);
	if (r == CCHV_ERR_TIMEOUT && vm->state != CCHV_VM_STOPPED)
		r = explain_timeout(vm, &error);
	return r < 0 ? err_move(err, &error, r) : CCHV_OK;
}

static int boot(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	int r = begin(vm, err);

	if (r < 0)
		return r;
	while (vm->boot->busy && r == CCHV_OK)
		r = vm_serve(vm, deadline, err);
	if (r < 0)
		return r;
	r = run_steps(vm, STEP_DONE, deadline, &error);
	if (r == CCHV_OK) {
		vm_set_state(vm, CCHV_VM_RUNNING);
		if (vm->template_wanted)
			template_order(vm);
		return CCHV_OK;
	}
	if (r != CCHV_ERR_TIMEOUT || vm->state == CCHV_VM_STOPPED)
		r = throw_away(vm, r, &error);
	else
		r = explain_timeout(vm, &error);
	err_move(err, &error, r);
	return err_prefix(err, r, "booting VM '%s'", vm->id);
}

CCHV_API int cchv_vm_boot(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	static const unsigned int valid_in = VM_IN(CCHV_VM_CREATED) | VM_IN(CCHV_VM_BOOTING) | VM_IN(CCHV_VM_RUNNING);
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = vm_check_owner(vm, "booting", err);
	if (r == CCHV_OK)
		r = vm_check_state(vm, valid_in, "booting", err);
	if (r == CCHV_OK && vm->state != CCHV_VM_RUNNING)
		r = boot(vm, deadline, err);
	vm_leave(vm);
	return r;
}
