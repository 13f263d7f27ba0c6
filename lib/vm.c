/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's life as an object: made, opened, freed. Enters: a config, or the id of a VM that somebody else owns.
 * Leaves: a handle whose VMM is up and configured.
 */
#include "vm.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/announce.h"
#include "agent/channel.h"
#include "base/clock.h"
#include "base/export.h"
#include "base/path.h"
#include "ctx.h"
#include "prune.h"
#include "template_store.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_client.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_loop.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_restore.h"
#include "vm_stop.h"
#include "vmm/config.h"
#include "vmm/http.h"
#include "vmm/info.h"

/* How long an owner's free waits for a killed VMM; it then leaves the rest to cchv_ctx_prune(). */
#define FREE_MS 10000

cchv_vm *vm_ref(cchv_vm *vm)
{
	atomic_fetch_add(&vm->refs, 1);
	return vm;
}

void vm_unref(cchv_vm *vm)
{
	if (!vm || atomic_fetch_sub(&vm->refs, 1) != 1)
		return;
	vm_boot_free(vm);
	vm_client_free(vm);
	announce_free(vm->announce);
	channel_free(vm->agent);
	vmm_http_free(vm->http);
	vm_devices_free(vm);
	vmm_free(vm->vmm);
	record_free(vm->record);
	vm_loop_free(vm);
	cchv_vm_config_free(vm->config);
	ctx_unref(vm->ctx);
	free(vm->id);
	free(vm->run_dir);
	free(vm->vsock_path);
	free(vm->console_path);
	free(vm->why_cold);
	free(vm->template_key);
	free(vm->agent_loss);
	free(vm->stop_text);
	free(vm->boot_id);
	free(vm);
}

static int set_paths(cchv_vm *vm, cchv_error **err)
{
	vm->run_dir = mem_strdup(vm->record->dir);
	vm->vsock_path = mem_printf("%s/" VMM_VSOCK_SOCKET, vm->record->dir);
	vm->console_path = mem_printf("%s/console.log", vm->record->dir);
	return vm->run_dir && vm->vsock_path && vm->console_path ? CCHV_OK : err_nomem(err);
}

int vm_alloc(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm, cchv_error **err)
{
	cchv_vm *vm = mem_zalloc(sizeof(*vm));
	int r;

	if (!vm)
		return err_nomem(err);
	atomic_init(&vm->refs, 1);
	vm->ctx = ctx_ref(ctx);
	vm->process = getpid();
	vm->kick_fd = vm->queue_fd = vm->public_fd = -1;
	vm->id = mem_strdup(id);
	r = vm->id ? vm_loop_init(vm, err) : err_nomem(err);
	if (r == CCHV_OK)
		r = vmm_new(&vm->vmm, err);
	if (r < 0) {
		vm_unref(vm);
		return r;
	}
	*ret_vm = vm;
	return CCHV_OK;
}

/* ---- free ---- */

/* The owner's: kill, reap, take everything away. With the lock held. */
static void tear_down(cchv_vm *vm)
{
	cleanup_err cchv_error *error = NULL;
	uint64_t deadline = clock_deadline(FREE_MS);

	if (vm->vmm->pid && vm->state != CCHV_VM_STOPPED) {
		vm_kill_vmm(vm, CCHV_STOP_KILLED, "its owner let go of it", NULL);
		vm_wait_vmm(vm, deadline);
	}
	vm_devices_release(vm);
	/* Daemons of an adopted VM were its first owner's children. */
	if (vm->adopted && prune_kill_residents(vm->run_dir, deadline, &error) < 0)
		log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
	cchv_error_free(steal(&error));
	if (vm->vmm->pid && vm->state != CCHV_VM_STOPPED) {
		log_error(&vm->ctx->log, "VM '%s': VMM %d does not die; its directory stays", vm->id,
		          vm->vmm->pid);
		return;
	}
	if (cgroup_remove(vm->vmm->cgroup.made, &error) < 0) {
		/* Without what is written there nobody could remove it later. */
		log_warning(&vm->ctx->log, "VM '%s': %s; its directory stays", vm->id, cchv_error_message(error));
		return;
	}
	if (record_remove(vm->record, &error) < 0)
		log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
}

CCHV_API void cchv_vm_free(cchv_vm *vm)
{
	if (!vm)
		return;
	/* In a child the memory is a copy, the processes and files are not: only the former goes. */
	if (vm->process == getpid()) {
		pthread_mutex_lock(&vm->lock);
		if (vm->owner && vm->record)
			tear_down(vm);
		guest_free(vm);
		/* Handles that live on must not hold a connection. */
		channel_free(steal(&vm->agent));
		vm->closed = 1;
		vm_changed(vm);
		pthread_mutex_unlock(&vm->lock);
	} else {
		vm_forget_processes(vm);
	}
	vm_unref(vm);
}

/* ---- create ---- */

char *vm_random_id(void)
{
	uint8_t b[6];

	if (getrandom(b, sizeof(b), 0) != sizeof(b))
		return NULL;
	return mem_printf("%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
}

static int check_readable(const char *what, const char *path, cchv_error **err)
{
	if (access(path, R_OK) == 0)
		return CCHV_OK;
	return err_set(err, err_code_of_errno(errno), errno, "%s %s", what, path);
}

int vm_claim(cchv_vm *vm, cchv_error **err)
{
	int r = record_create(vm->ctx, vm->id, &vm->record, err);

	if (r < 0)
		return r;
	/* From here on freeing it takes the directory away. */
	vm->owner = 1;
	vm->state = CCHV_VM_CREATED;
	return set_paths(vm, err);
}

/* Fill in kernel and initramfs where the config leaves them open. */
static int find_payload(cchv_vm *vm, cchv_error **err)
{
	cchv_vm_config *c = vm->config;
	int r = CCHV_OK;

	if (!c->kernel)
		r = vmm_find_kernel(vm->ctx->state_dir, &c->kernel, err);
	if (r == CCHV_OK)
		r = check_readable("kernel", c->kernel, err);
	if (r == CCHV_OK && !c->initramfs)
		r = vmm_find_initramfs(vm->ctx->state_dir, c->kernel, &c->initramfs, err);
	if (r == CCHV_OK)
		r = check_readable("initramfs", c->initramfs, err);
	return r;
}

static int record_config(cchv_vm *vm, cchv_error **err)
{
	const cchv_vm_config *c = vm->config;

	record_set(vm->record, "created_ns", json_new_u64(clock_real_ns()));
	record_set(vm->record, "state", json_new_string(vm_state_name(CCHV_VM_CREATED)));
	record_set(vm->record, "owner", record_process_json(getpid()));
	record_set(vm->record, "start", json_new_string(vm_start_name(vm->start)));
	if (vm->why_cold)
		record_set(vm->record, "why_not_template", json_new_string(vm->why_cold));
	record_set(vm->record, "kernel", json_new_string(c->kernel));
	record_set(vm->record, "initramfs", json_new_string(c->initramfs));
	record_set(vm->record, "vcpus", json_new_u64(vm_config_vcpus(c)));
	record_set(vm->record, "max_vcpus", json_new_u64(vm_config_max_vcpus(c)));
	record_set(vm->record, "memory_bytes", json_new_u64(vm_config_memory(c)));
	record_set(vm->record, "memory_max_bytes", json_new_u64(c->memory_max));
	record_set(vm->record, "shared", json_new_bool(vm_config_shared(c)));
	return record_write(vm->record, err);
}

int vm_greet_vmm(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *ping = NULL;
	const char *version = NULL;
	int r;

	r = vm_api(vm, "GET", "vmm.ping", NULL, API_PING_MS, deadline, &ping, err);
	if (r == CCHV_OK)
		r = vmm_ping_check(ping, &version, err);
	if (r < 0)
		return r;
	vm->vmm->version = mem_strdup(version);
	if (!vm->vmm->version)
		return err_nomem(err);
	json_set((struct json *)json_get(vm->record->json, "vmm"), "version", json_new_string(version));
	return CCHV_OK;
}

int vm_watch_console(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *info = NULL;
	struct vmm_info parsed;
	int r;

	r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, deadline, &info, err);
	if (r == CCHV_OK)
		r = vmm_info_parse(info, &parsed, err);
	if (r == CCHV_OK && parsed.console_path)
		r = vm_open_console(vm, parsed.console_path, err);
	return r;
}

static int configure_vmm(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *body = vm_config_base_json(vm->config);
	int r;

	if (!body)
		return err_nomem(err);
	r = vm_devices_prepare(vm, body, err);
	if (r == CCHV_OK)
		r = vm_greet_vmm(vm, deadline, err);
	if (r < 0)
		return r;
	body = vm_config_merge(vm->config, steal(&body));
	if (!body)
		return err_nomem(err);
	r = vm_api(vm, "PUT", "vm.create", steal(&body), API_QUICK_MS, deadline, NULL, err);
	if (r < 0)
		return r;
	for (struct vm_device *d = vm->devices; d; d = d->next)
		d->in_vmm = 1;
	r = vm_devices_add_with_fds(vm, deadline, err);
	return r < 0 ? r : vm_watch_console(vm, deadline, err);
}

/* In place of configuring it: the template's copy, which stands still, and then what makes it this VM. */
static int restore_vmm(cchv_vm *vm, const struct template *template, uint64_t deadline, cchv_error **err)
{
	int r = vm_greet_vmm(vm, deadline, err);

	if (r == CCHV_OK)
		r = vm_restore(vm, template, deadline, err);
	if (r == CCHV_OK)
		r = vm_watch_console(vm, deadline, err);
	return r < 0 ? r : vm_restore_finish(vm, deadline, err);
}

int vm_start_vmm(cchv_vm *vm, cchv_error **err)
{
	int r = record_config(vm, err);

	if (r == CCHV_OK)
		r = vm_spawn_vmm(vm, err);
	return r < 0 ? r : vmm_http_new(vm->loop, vm->record->dir_fd, VMM_API_SOCKET, 1, &vm->http, err);
}

static int set_up(cchv_vm *vm, const struct template *template, uint64_t deadline, cchv_error **err)
{
	int r = vm_start_vmm(vm, err);

	if (r == CCHV_OK)
		r = template ? restore_vmm(vm, template, deadline, err) : configure_vmm(vm, deadline, err);
	return r;
}

/*
 * why_cold: what a start from a template failed for, or NULL. *ret_tried, also after a failure: it was from a
 * template.
 */
static int create(cchv_ctx *ctx, cchv_vm_config *config, const char *why_cold, uint64_t deadline, cchv_vm **ret_vm,
                  int *ret_tried, cchv_error **err)
{
	cleanup_template struct template *template = NULL;
	cleanup_free char *id = config->id ? mem_strdup(config->id) : vm_random_id();
	cleanup_vm cchv_vm *vm = NULL;
	int r;

	if (!id)
		return err_nomem(err);
	r = vm_alloc(ctx, id, &vm, err);
	if (r == CCHV_OK && cchv_vm_config_copy(config, &vm->config) < 0)
		r = err_set(err, CCHV_ERR_NOMEM, 0, "VM '%s': its config cannot be copied", id);
	if (r == CCHV_OK)
		r = find_payload(vm, err);
	if (r == CCHV_OK)
		r = vmm_choose(ctx->vmm, &vm->vmm->choice, err);
	if (r == CCHV_OK)
		r = vm_choose_start(vm, config, why_cold, &template, err);
	if (r == CCHV_OK)
		r = vm_claim(vm, err);
	if (r < 0)
		return r;
	log_info(&ctx->log, "VM '%s': VMM %s: %s", id, vm->vmm->choice.path, vm->vmm->choice.reason);
	*ret_tried = template != NULL;
	pthread_mutex_lock(&vm->lock);
	r = set_up(vm, template, deadline, err);
	pthread_mutex_unlock(&vm->lock);
	if (r < 0 && template)
		return err_prefix(err, r, "from template '%.12s'", strrchr(template->dir, '/') + 1);
	if (r < 0)
		return r;
	*ret_vm = steal(&vm);
	return CCHV_OK;
}

/* What may be the template's fault, or the fault of starting from one: a cold start will tell. */
static int is_worth_a_cold_start(int r)
{
	return r == CCHV_ERR_VMM || r == CCHV_ERR_VMM_GONE || r == CCHV_ERR_PROTOCOL || r == CCHV_ERR_UNSUPPORTED;
}

int vm_create(cchv_ctx *ctx, cchv_vm_config *config, uint64_t deadline, cchv_vm **ret_vm, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	int tried = 0, r = create(ctx, config, NULL, deadline, ret_vm, &tried, &error);

	if (r == CCHV_OK)
		return r;
	if (config->start != CCHV_START_AUTO || !tried || !is_worth_a_cold_start(r))
		return err_move(err, &error, r);
	log_warning(&ctx->log, "%s; starting cold", cchv_error_message(error));
	return create(ctx, config, cchv_error_message(error), deadline, ret_vm, &tried, err);
}

CCHV_API int cchv_vm_create(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, cchv_vm **ret_vm,
			    cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r;

	err_clear(err);
	if (!ctx || !config || !ret_vm)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_create: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = vm_config_check(config, err);
	if (r == CCHV_OK)
		r = ctx_make_runtime_dir(ctx, err);
	return r < 0 ? r : vm_create(ctx, config, deadline, ret_vm, err);
}

/* ---- open ---- */

static int open_vm(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm, cchv_error **err)
{
	cleanup_vm cchv_vm *vm = NULL;
	int r;

	r = vm_alloc(ctx, id, &vm, err);
	if (r == CCHV_OK)
		r = record_open(ctx, id, &vm->record, err);
	if (r == CCHV_OK)
		r = set_paths(vm, err);
	if (r == CCHV_OK)
		r = vmm_http_new(vm->loop, vm->record->dir_fd, VMM_API_SOCKET, 0, &vm->http, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&vm->lock);
	r = vm_client_begin(vm, err);
	pthread_mutex_unlock(&vm->lock);
	if (r < 0)
		return r;
	*ret_vm = steal(&vm);
	return CCHV_OK;
}

CCHV_API int cchv_vm_open(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!ctx || !id || !ret_vm)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_open: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r < 0)
		return r;
	if (!path_name_is_valid(id, VM_ID_MAX))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no VM '%.100s'", id);
	return open_vm(ctx, id, ret_vm, err);
}

/* ---- getters ---- */

CCHV_API int cchv_vm_is_owner(cchv_vm *vm)
{
	if (!vm)
		return CCHV_ERR_INVALID;
	return vm->process == getpid() ? vm->owner : CCHV_ERR_FORKED;
}

CCHV_API int cchv_vm_get_state(cchv_vm *vm)
{
	int r = vm_enter(vm, NULL);

	if (r < 0)
		return r;
	r = vm->state;
	vm_leave(vm);
	return r;
}

CCHV_API const char *cchv_vm_get_id(cchv_vm *vm)
{
	return vm ? vm->id : NULL;
}

CCHV_API const char *cchv_vm_get_console_path(cchv_vm *vm)
{
	return vm ? vm->console_path : NULL;
}

CCHV_API const char *cchv_vm_get_stop_text(cchv_vm *vm)
{
	const char *text;

	if (vm_enter(vm, NULL) < 0)
		return NULL;
	text = vm->state == CCHV_VM_STOPPED ? vm->stop_text : NULL;
	vm_leave(vm);
	return text;
}

CCHV_API int cchv_vm_get_start(cchv_vm *vm, const char **ret_why_not_template)
{
	if (!vm)
		return CCHV_ERR_INVALID;
	if (vm->process != getpid())
		return CCHV_ERR_FORKED;
	if (ret_why_not_template)
		*ret_why_not_template = vm->why_cold;
	return vm->start;
}
