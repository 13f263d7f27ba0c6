/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a template: see template_build.h. Enters: a kernel and an agent. Leaves: a snapshot of a guest that has
 * booted, has loaded its drivers, has no identity, no connection and nothing mounted; its memory is a file.
 *
 * The VMM is killed while the guest stands still: one that shuts down may still write to the guest's memory, and
 * clones of such a memory crash. The file's checksum is taken before and after.
 */
#include "template_build.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/channel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "template_store.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_config.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_restore.h"
#include "vm_stop.h"
#include "vmm/choose.h"

/* For the agent to close a connection, and for a killed VMM to end. */
#define GOODBYE_MS 10000

struct build {
	cchv_ctx *ctx;
	const char *key;
	uint64_t deadline;
	char *dir;                /* where it is built */
	char *ram;
	char *version;            /* of the VMM */
	char hash[SHA256_HEX_SIZE];
	uint64_t used;            /* bytes of the memory that are not zero */
};

static int make_ram(struct build *b, cchv_error **err)
{
	cleanup_close int fd = -1;

	b->ram = mem_printf("%s/" TEMPLATE_RAM, b->dir);
	if (!b->ram)
		return err_nomem(err);
	fd = open(b->ram, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, CCHV_MEMORY_BASE_BYTES) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template: '%s'", b->ram);
	return CCHV_OK;
}

static int make_vm(const struct build *b, cchv_vm **ret_vm, cchv_error **err)
{
	cleanup_vm_config cchv_vm_config *config = NULL;
	cleanup_free char *id = mem_printf("template-%.12s-%d", b->key, getpid());
	cleanup_vm cchv_vm *vm = NULL;
	int r = id ? template_config_new(&config, err) : err_nomem(err);

	if (r < 0)
		return r;
	/* The caller's thread waits here as long as the VM lives. */
	if (cchv_vm_config_set_id(config, id) < 0 || cchv_vm_config_set_kill_with_thread(config, 1) < 0 ||
	    mem_replace_string(&config->base_file, TEMPLATE_RAM) < 0)
		return err_nomem(err);
	r = vm_create(b->ctx, config, b->deadline, &vm, err);
	if (r < 0)
		return r;
	/* By its relative name, which means the template's file in every clone's directory too. */
	if (symlinkat(b->ram, vm->record->dir_fd, TEMPLATE_RAM) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "template: link to '%s'", b->ram);
	*ret_vm = steal(&vm);
	return CCHV_OK;
}

/* The agent closes its end, and has forgotten us when we see that. */
static int say_goodbye(cchv_vm *vm, cchv_error **err)
{
	cleanup_close int fd = channel_take_fd(vm->agent);
	char byte;
	ssize_t n;

	if (fd < 0 || shutdown(fd, SHUT_WR) < 0)
		return err_set(err, CCHV_ERR_GUEST_GONE, fd < 0 ? 0 : errno, "the connection to the agent broke");
	do
		n = fd_read_full(fd, &byte, 1, clock_deadline(GOODBYE_MS));
	while (n > 0);
	if (n < 0)
		return err_set(err, CCHV_ERR_GUEST, errno, "the agent does not close its connection");
	return CCHV_OK;
}

static int take_snapshot(struct build *b, cchv_vm *vm, cchv_error **err)
{
	cleanup_free char *url = mem_printf("file://%s", b->dir);
	struct json *body;
	int r;

	if (!url)
		return err_nomem(err);
	r = vm_api(vm, "PUT", "vm.pause", NULL, API_PAUSE_MS, b->deadline, NULL, err);
	if (r < 0)
		return r;
	body = json_new_object();
	json_set_string(body, "destination_url", url);
	return vm_api(vm, "PUT", "vm.snapshot", body, API_BOOT_MS, b->deadline, NULL, err);
}

/* With the lock of the VM held. */
static int boot_and_snapshot(struct build *b, cchv_vm *vm, cchv_error **err)
{
	int r = vm_boot_bare(vm, b->deadline, err);

	if (r == CCHV_OK)
		r = vm_ask(vm, "vm.settle", NULL, b->deadline, NULL, err);
	if (r == CCHV_OK)
		r = say_goodbye(vm, err);
	if (r == CCHV_OK)
		r = take_snapshot(b, vm, err);
	if (r == CCHV_OK)
		r = template_hash_ram(b->ram, b->hash, &b->used, err);
	if (r < 0)
		return r;
	b->version = mem_strdup(vm->vmm->version);
	r = b->version ? vm_kill_vmm(vm, CCHV_STOP_KILLED, "the template is taken", err) : err_nomem(err);
	if (r == CCHV_OK)
		vm_wait_vmm(vm, clock_deadline(GOODBYE_MS));
	if (r == CCHV_OK && vm->state != CCHV_VM_STOPPED)
		r = err_set(err, CCHV_ERR_VMM, 0, "VMM %d does not die", vm->vmm->pid);
	return r;
}

/* Nothing has written to the memory since the snapshot. */
static int verify(const struct build *b, cchv_error **err)
{
	char hash[SHA256_HEX_SIZE];
	uint64_t used;
	int r = template_hash_ram(b->ram, hash, &used, err);

	if (r == CCHV_OK && strcmp(hash, b->hash) != 0)
		r = err_set(err, CCHV_ERR_VMM, 0, "the guest's memory was written to after the snapshot");
	return r;
}

/*
 * Which pty the VMM had was chance. A clone's VMM has one of its own, and a template says what is common to all that
 * may be built under its key.
 */
static int forget_pty(const struct build *b, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/" TEMPLATE_CONFIG, b->dir);
	cleanup_buf struct buf text = BUF_INIT(TEMPLATE_CONFIG_MAX);
	cleanup_json struct json *config = NULL;
	struct json *console;
	int r = path ? template_read_config(b->dir, &config, err) : err_nomem(err);

	if (r < 0)
		return r;
	console = json_edit(config, "console", JSON_OBJECT);
	if (!console)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "the snapshot's config has no console");
	json_remove(console, "file");
	if (json_print(config, 0, &text) < 0)
		return err_nomem(err);
	return path_write_atomic(path, text.data, text.len, 0600, err);
}

static struct json *describe(const struct build *b, const struct template_parts *parts)
{
	struct json *info = json_new_object(), *vmm = json_new_object();

	json_set_string(vmm, "kind", vmm_kind_name(parts->vmm_kind));
	json_set_string(vmm, "path", parts->vmm);
	json_set_string(vmm, "version", b->version);
	json_set_string(info, "key", b->key);
	json_set_u64(info, "created_ns", clock_real_ns());
	json_set(info, "vmm", vmm);
	json_set_string(info, "kernel", parts->kernel);
	json_set_string(info, "initramfs", parts->initramfs);
	json_set_u64(info, "max_vcpus", TEMPLATE_MAX_VCPUS);
	json_set_u64(info, "memory_bytes", CCHV_MEMORY_BASE_BYTES);
	json_set_u64(info, "memory_used_bytes", b->used);
	json_set_string(info, "memory_sha256", b->hash);
	return info;
}

static int run(struct build *b, cchv_error **err)
{
	cchv_vm *vm = NULL;
	int r = make_ram(b, err);

	if (r == CCHV_OK)
		r = make_vm(b, &vm, err);
	if (r < 0)
		return r;
	r = vm_enter(vm, err);
	if (r == CCHV_OK) {
		r = boot_and_snapshot(b, vm, err);
		vm_leave(vm);
	}
	/* Only now all of its processes are known to be gone. */
	cchv_vm_free(vm);
	if (r == CCHV_OK)
		r = verify(b, err);
	return r < 0 ? r : forget_pty(b, err);
}

int template_build(cchv_ctx *ctx, const char *key, const struct template_parts *parts, uint64_t deadline,
                   cchv_error **err)
{
	struct build b = { .ctx = ctx, .key = key, .deadline = deadline };
	int r = template_begin(ctx, &b.dir, err);

	if (r == CCHV_OK) {
		r = run(&b, err);
		if (r == CCHV_OK)
			r = template_publish(ctx, b.dir, key, describe(&b, parts), err);
	}
	/* It has another name now, or is of no use. */
	if (b.dir && r < 0)
		path_remove_tree(b.dir, NULL);
	free(b.dir);
	free(b.ram);
	free(b.version);
	return r < 0 ? err_prefix(err, r, "building template '%.12s'", key) : CCHV_OK;
}
