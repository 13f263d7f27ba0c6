/* SPDX-License-Identifier: Apache-2.0 */
/* The making of a group's VM: see vm_making.h. Enters: settings, a size, a namespace. Leaves: a VM, or nothing. */
#include "vm_making.h"

#include <stdlib.h>
#include <sys/random.h>

#include "log.h"
#include "memory.h"
#include "op.h"
#include "sandbox.h"

#define CREATE_MS 60000
#define BOOT_MS   180000
#define STOP_MS   10000

char *vm_making_id(const char *id)
{
	unsigned char random[6];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		abort();
	return need_text("%.60s.%02x%02x%02x%02x%02x%02x", id, random[0], random[1], random[2], random[3],
			 random[4], random[5]);
}

static int worse(int a, int b)
{
	return b < a ? b : a;
}

void vm_making_open(struct vm_making *making, struct op *op, struct wire_view options)
{
	struct shim_config *s = &making->config;
	cchv_error *error = NULL;
	char *text = NULL;
	int r = shim_config_read(options, s, &text);

	if (r < 0) {
		op_fail_text(op, r, text);
		return;
	}
	r = cchv_ctx_new(&making->ctx, &error);
	if (r < 0) {
		op_fail_library(op, r, error, "library");
		return;
	}
	if (s->runtime_dir)
		r = worse(r, cchv_ctx_set_runtime_dir(making->ctx, s->runtime_dir));
	if (s->state_dir)
		r = worse(r, cchv_ctx_set_state_dir(making->ctx, s->state_dir));
	if (s->vmm)
		r = worse(r, cchv_ctx_set_vmm(making->ctx, s->vmm));
	r = worse(r, cchv_ctx_set_template_building(making->ctx, s->build_templates));
	r = worse(r, cchv_ctx_set_log(making->ctx, log_get_level(), log_from_library, NULL, NULL));
	if (r < 0)
		op_fail_library(op, r, NULL, "settings of the runtime");
}

static int configure(struct vm_making *making, int is_pod)
{
	const struct shim_config *s = &making->config;
	cchv_vm_config *config = making->vm_config;
	int r = cchv_vm_config_set_id(config, making->vm_id);

	r = worse(r, cchv_vm_config_set_vcpus(config, making->size.vcpus, making->size.max_vcpus));
	r = worse(r, cchv_vm_config_set_memory(config, making->size.memory_bytes));
	/* This thread lives as long as the server: a VM without one is of no use to anybody. */
	r = worse(r, cchv_vm_config_set_kill_with_thread(config, 1));
	if (s->kernel)
		r = worse(r, cchv_vm_config_set_kernel(config, s->kernel));
	if (s->initramfs)
		r = worse(r, cchv_vm_config_set_initramfs(config, s->initramfs));
	if (s->cmdline)
		r = worse(r, cchv_vm_config_set_cmdline(config, s->cmdline));
	/* Members may come with directories to share. */
	if (is_pod)
		r = worse(r, cchv_vm_config_set_shared_memory(config, 1));
	return r;
}

/* The VMM and its helpers are counted there, with what the library limits them to. */
static void set_cgroup(struct vm_making *making, struct op *op, const char *text)
{
	char *path = NULL, *error = NULL;
	int r = cgroup_path_of(text, making->config.systemd_cgroup, &path, &error);

	if (r < 0) {
		op_fail_text(op, r, error);
		return;
	}
	if (path)
		r = cchv_vm_config_set_cgroup(making->vm_config, path);
	if (r < 0)
		op_fail_library(op, r, NULL, "linux.cgroupsPath '%s'", text);
	free(path);
}

void vm_making_configure(struct vm_making *making, struct op *op, const struct size *size, const char *cgroup,
			 int is_pod)
{
	int r = cchv_vm_config_new(&making->vm_config);

	making->size = *size;
	if (r == CCHV_OK)
		r = configure(making, is_pod);
	if (r < 0)
		op_fail_library(op, r, NULL, "settings of the VM");
	else
		set_cgroup(making, op, cgroup);
}

void vm_making_add_net(struct vm_making *making, struct op *op, int netns_fd)
{
	char *text = NULL;
	int r = netns_mirror_new(&making->mirror, netns_fd, making->size.vcpus, &text);

	if (r == 0)
		r = netns_mirror_update(making->mirror, making->vm_config, NULL, CREATE_MS, &text);
	if (r < 0)
		op_fail_text(op, r, text);
}

int vm_making_create(struct vm_making *making, struct cancel *cancel, cchv_error **error)
{
	int r;

	cancel_set_making(cancel, making->ctx, making->vm_id);
	r = cchv_vm_create(making->ctx, making->vm_config, CREATE_MS, &making->vm, error);
	cancel_set_vm(cancel, making->vm);
	return r;
}

int vm_making_boot(struct vm_making *making, struct cancel *cancel, cchv_error **error)
{
	int r = cchv_vm_boot(making->vm, BOOT_MS, error);

	/* What it is from here on is the loop's to end. */
	cancel_set_vm(cancel, NULL);
	return r;
}

int vm_making_had_bad_template(struct vm_making *making, struct cancel *cancel)
{
	const char *why = NULL;
	int is_bad = making->vm && cchv_vm_get_start(making->vm, &why) == CCHV_START_TEMPLATE && why;

	return is_bad && !cancel_is_requested(cancel) &&
	       cchv_vm_config_set_start(making->vm_config, CCHV_START_COLD) == CCHV_OK;
}

void vm_making_start_over(struct vm_making *making, cchv_error *error)
{
	log_line(LOG_WARNING, "VM '%s': %s; starting cold", making->vm_id, cchv_error_message(error));
	cchv_error_free(error);
	vm_making_stop(making);
	cchv_vm_free(making->vm);
	making->vm = NULL;
}

void vm_making_stop(struct vm_making *making)
{
	if (!making->vm)
		return;
	cchv_vm_kill(making->vm, NULL);
	cchv_vm_wait(making->vm, STOP_MS, NULL, NULL);
}

void vm_making_free(struct vm_making *making)
{
	cchv_vm_free(making->vm);
	netns_mirror_free(making->mirror);
	cchv_vm_config_free(making->vm_config);
	cchv_ctx_free(making->ctx);
	shim_config_free(&making->config);
	free(making->vm_id);
	*making = (struct vm_making){ 0 };
}

void vm_making_give(struct vm_making *making, struct sandbox *sandbox)
{
	sandbox->ctx = making->ctx;
	sandbox->vm = making->vm;
	sandbox->vm_id = making->vm_id;
	sandbox->config = making->config;
	sandbox->mirror = making->mirror;
	sandbox->size = making->size;
	cchv_vm_config_free(making->vm_config);
	*making = (struct vm_making){ 0 };
}

void vm_making_borrow(struct vm_making *making, const struct sandbox *sandbox)
{
	making->ctx = sandbox->ctx;
	making->vm = sandbox->vm;
	making->vm_id = sandbox->vm_id;
	making->config = sandbox->config;
}
