/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates that come and go by themselves: see template_auto.h. Enters: a VM that is up, or one that is not; what the
 * host has now. Leaves: a builder in the background, or fewer templates.
 *
 * The builder is the command, "cchv template build --detach": the library has no threads, and a fork without an exec
 * could not use it. It goes on when the VM's owner has ended. One at a time per state directory, by a lock that it
 * inherits and that goes with it, so a builder that was killed is replaced after the next cold start.
 */
#include "template_auto.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "ctx.h"
#include "findings.h"
#include "list.h"
#include "template_key.h"
#include "template_note.h"
#include "template_store.h"
#include "vm_process.h"
#include "vmm/choose.h"

/* For the command to put itself into the background. */
#define DETACH_MS 10000

/* 1: the lock is ours; 0: a builder has it. */
static int take_lock(cchv_ctx *ctx, int *ret_fd, cchv_error **err)
{
	cleanup_free char *directory = mem_printf("%s/templates", ctx->state_dir);
	cleanup_free char *path = mem_printf("%s/templates/builder.lock", ctx->state_dir);
	cleanup_close int fd = -1;
	int r = directory && path ? path_make_dirs(directory, 0700, err) : err_nomem(err);

	if (r < 0)
		return r;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && fd_lock(fd, 0) == 0) {
		*ret_fd = fd_steal(&fd);
		return 1;
	}
	return fd >= 0 && errno == EWOULDBLOCK ? 0 : err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
}

static int spawn_builder(const cchv_vm *vm, int lock, cchv_error **err)
{
	const struct proc_fd fds[] = { { lock, 3 } };
	cleanup_free char *program = NULL;
	int r = vmm_find_cchv(&program, err);
	const char *const argv[] = {
		program, "--state-dir", vm->ctx->state_dir, "--runtime-dir", vm->ctx->runtime_dir,
		"--vmm", vm->vmm->choice.path, "template", "build", "--detach", NULL,
	};
	const struct proc_spawn spec = {
		.argv = argv, .cwd = "/", .fds = fds, .fd_count = ARRAY_LEN(fds), .new_session = 1,
	};

	return r < 0 ? r : proc_run_checked(&spec, NULL, clock_deadline(DETACH_MS), err);
}

void template_order(cchv_vm *vm)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_close int lock = -1;
	int r = take_lock(vm->ctx, &lock, &error);

	if (r > 0)
		r = spawn_builder(vm, lock, &error);
	if (r < 0)
		log_warning(&vm->ctx->log, "VM '%s': no template is built for the next ones: %s", vm->id,
		            cchv_error_message(error));
}

void template_condemn(cchv_vm *vm, const char *reason)
{
	cleanup_free char *text = mem_printf("a VM from it did not come up: %s", reason);
	cleanup_err cchv_error *error = NULL;
	int r = text ? template_note_write(vm->ctx, vm->template_key, text, &error) : err_nomem(&error);

	if (r == CCHV_OK)
		r = template_remove(vm->ctx, vm->template_key, &error);
	/* Others have done the same, or are just finding out. */
	if (r == CCHV_OK || r == CCHV_ERR_NOT_FOUND || r == CCHV_ERR_EXISTS)
		log_warning(&vm->ctx->log, "VM '%s': template '%.12s' is given up: %s", vm->id, vm->template_key,
		            reason);
	else
		log_warning(&vm->ctx->log, "VM '%s': its template does not work, and stays: %s", vm->id,
		            cchv_error_message(error));
}

/* ---- pruning ---- */

/* The key that a template of its parts would have today is another one: one of them has changed, or is gone. */
static int is_stale(const struct template *template, const char *key)
{
	const char *kind = json_as_string(json_find(template->info, "vmm.kind"));
	const struct template_parts parts = {
		.vmm = json_as_string(json_find(template->info, "vmm.path")),
		.vmm_kind = kind && strcmp(kind, vmm_kind_name(VMM_CCHV_QEMU)) == 0 ? VMM_CCHV_QEMU
		                                                                    : VMM_CLOUD_HYPERVISOR,
		.kernel = json_as_string(json_get(template->info, "kernel")),
		.initramfs = json_as_string(json_get(template->info, "initramfs")),
	};
	char now[SHA256_HEX_SIZE];
	int r;

	if (!kind || !parts.vmm || !parts.kernel || !parts.initramfs)
		return 1;
	r = template_key(&parts, now, NULL);
	return r == CCHV_ERR_NOT_FOUND || (r == CCHV_OK && strcmp(now, key) != 0);
}

/* Why no VM will start from it; NULL: one may. */
static const char *why_useless(cchv_ctx *ctx, const char *key)
{
	cleanup_template struct template *template = NULL;
	int r = template_open(ctx, key, &template, NULL);

	if (r == CCHV_ERR_PROTOCOL)
		return "it was damaged";
	if (r == CCHV_OK && is_stale(template, key))
		return "of another kernel, agent, VMM or host";
	return NULL;
}

static int prune_one(cchv_ctx *ctx, const char *key, cchv_findings *findings)
{
	const char *why = why_useless(ctx, key);
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *text = NULL;
	int r;

	if (!why)
		return CCHV_OK;
	r = template_remove(ctx, key, &error);
	if (r == CCHV_ERR_NOT_FOUND || r == CCHV_ERR_EXISTS)
		return CCHV_OK;
	text = r < 0 ? mem_strdup(cchv_error_message(error)) : mem_printf("template '%.12s': %s", key, why);
	if (!text)
		return CCHV_ERR_NOMEM;
	return findings_add(findings, "template", r < 0 ? CCHV_FINDING_WARN : CCHV_FINDING_REMOVED, text,
	                    r < 0 ? "look at its directory, then prune again" : NULL);
}

int template_prune_stale(cchv_ctx *ctx, cchv_findings *findings)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_list cchv_list *keys = NULL;
	int r = template_list(ctx, &keys, &error);

	if (r == CCHV_OK)
		r = template_note_prune(ctx, &error);
	if (r == CCHV_ERR_NOMEM)
		return r;
	if (r < 0)
		return findings_add(findings, "template", CCHV_FINDING_WARN, cchv_error_message(error),
		                    "look at the directory, then prune again");
	for (int i = 0; r == CCHV_OK && i < cchv_list_get_count(keys); i++)
		r = prune_one(ctx, cchv_list_get(keys, i), findings);
	return r;
}
