/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a pool's VMs: see pool_start.h. Enters: settings. Leaves: VMs that stand still, ready, and measured. */
#include "pool_start.h"

#include <poll.h>
#include <unistd.h>

#include <cchv/event.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "ctx.h"
#include "proc_usage.h"
#include "vm.h"
#include "vm_config.h"
#include "vm_process.h"
#include "vm_restore.h"

struct pool_start {
	pid_t process;
	struct fiber *fiber;
	int begun, ended;
	cchv_ctx *ctx;
	cchv_vm_config *config;
	int timeout_ms;

	int result;
	cchv_error *error;
	cchv_vm *vm;
	uint64_t bytes;
};

/* *ret_again: it failed through the fault of its template, which is gone. */
static int try(cchv_ctx *ctx, cchv_vm_config *config, uint64_t deadline, cchv_vm **ret_vm, int *ret_again,
               cchv_error **err)
{
	cleanup_vm cchv_vm *vm = NULL;
	const char *why = NULL;
	int r = ctx_make_runtime_dir(ctx, err);

	if (r == CCHV_OK)
		r = vm_create(ctx, config, deadline, &vm, err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(vm, clock_left_ms(deadline), err);
	if (r == CCHV_OK)
		*ret_vm = steal(&vm);
	else
		*ret_again = vm && cchv_vm_get_start(vm, &why) == CCHV_START_TEMPLATE && why;
	return r;
}

static int create_and_boot(cchv_ctx *ctx, cchv_vm_config *config, uint64_t deadline, cchv_vm **ret_vm, cchv_error **err)
{
	int again = 0, r = try(ctx, config, deadline, ret_vm, &again, err);

	/* Without its template it starts cold. */
	if (r < 0 && again && config->start == CCHV_START_AUTO && !clock_passed(deadline)) {
		if (err)
			cchv_error_free(steal(err));
		r = try(ctx, config, deadline, ret_vm, &again, err);
	}
	return r;
}

int pool_start_direct(cchv_ctx *ctx, cchv_vm_config *config, const char *hostname, uint64_t deadline, cchv_vm **ret_vm,
                      cchv_error **err)
{
	cleanup_vm_config cchv_vm_config *own = NULL;
	int r = cchv_vm_config_copy(config, &own);

	if (r == CCHV_OK && hostname)
		r = cchv_vm_config_set_hostname(own, hostname);
	if (r < 0)
		return err_set(err, r, 0, "pool: its settings cannot be copied");
	return create_and_boot(ctx, own, deadline, ret_vm, err);
}

/* What is only measured by its owner; a process that hides it may have all that the VM may have. */
static uint64_t private_bytes(cchv_vm *vm)
{
	struct proc_usage usage = { 0 };

	proc_usage_add(vm->vmm->pid, &usage);
	return usage.private_bytes ? usage.private_bytes : vm_config_vm_memory(vm_config_memory(vm->config));
}

static void drop_events(cchv_vm *vm)
{
	cchv_event *event = NULL;

	while (cchv_vm_next_event(vm, &event) > 0)
		cchv_event_free(event);
}

static void run(void *user_data)
{
	struct pool_start *s = user_data;
	uint64_t deadline = clock_deadline(s->timeout_ms);
	cleanup_vm cchv_vm *vm = NULL;

	s->result = create_and_boot(s->ctx, s->config, deadline, &vm, &s->error);
	if (s->result == CCHV_OK)
		s->result = cchv_vm_pause(vm, clock_left_ms(deadline), &s->error);
	if (s->result < 0)
		return;
	drop_events(vm);
	s->bytes = private_bytes(vm);
	s->vm = steal(&vm);
}

int pool_start_new(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, struct pool_start **ret_start,
                   cchv_error **err)
{
	struct pool_start *s = mem_zalloc(sizeof(*s));
	int r;

	if (!s)
		return err_nomem(err);
	s->process = getpid();
	s->ctx = ctx;
	s->config = config;
	s->timeout_ms = timeout_ms;
	r = fiber_new(run, s, &s->fiber, err);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret_start = s;
	return CCHV_OK;
}

void pool_start_free(struct pool_start *s)
{
	if (!s)
		return;
	/* In a child the VM that is being started is the parent's; what it holds goes with the process. */
	if (s->process == getpid() && s->begun) {
		fiber_cancel(s->fiber);
		while (!pool_start_run(s))
			;
	}
	fiber_free(s->fiber);
	cchv_vm_free(s->vm);
	cchv_error_free(s->error);
	free(s);
}

int pool_start_run(struct pool_start *s)
{
	s->begun = 1;
	s->ended = fiber_run(s->fiber);
	return s->ended;
}

int pool_start_is_ready(const struct pool_start *s)
{
	struct pollfd p = { .fd = fiber_get_fd(s->fiber), .events = POLLIN };

	return !s->begun || clock_passed(fiber_get_deadline(s->fiber)) || poll(&p, 1, 0) > 0;
}

int pool_start_get_fd(const struct pool_start *s)
{
	return fiber_get_fd(s->fiber);
}

uint64_t pool_start_get_deadline(const struct pool_start *s)
{
	return fiber_get_deadline(s->fiber);
}

int pool_start_finish(struct pool_start *s, cchv_vm **ret_vm, uint64_t *ret_bytes, cchv_error **err)
{
	if (s->result < 0)
		return err_move(err, &s->error, s->result);
	*ret_vm = steal(&s->vm);
	*ret_bytes = s->bytes;
	return CCHV_OK;
}
