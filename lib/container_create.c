/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making containers: the directory with its lock, specification and scratch disk, the devices, the guest's part.
 * Enters: a configuration. Leaves: a container that can be started, or nothing at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "container.h"
#include "container_guest.h"
#include "container_record.h"
#include "ctx.h"
#include "exec.h"
#include "oci_spec.h"
#include "scratch.h"

#define MAX_SPEC (64U << 20)
#define UNDO_MS 10000

/* What a container of that id left whose owner is gone. */
static int remove_leftovers(const char *dir, cchv_error **err)
{
	static const char *const names[] = { "exit.json", "scratch.img", "config.json" };
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(names); i++) {
		cleanup_free char *path = mem_printf("%s/%s", dir, names[i]);

		if (!path)
			return err_nomem(err);
		if (unlink(path) < 0 && errno != ENOENT)
			r = err_set(err, err_code_of_errno(errno), errno, "remove '%s'", path);
	}
	return r;
}

/* The directory is whose lock on it is held. */
static int claim_dir(struct container *container, cchv_error **err)
{
	cleanup_free char *path = NULL;
	int r;

	container->dir = container_dir(container->vm, container->id);
	path = container->dir ? mem_printf("%s/lock", container->dir) : NULL;
	if (!path)
		return err_nomem(err);
	r = path_make_dirs(container->dir, 0700, err);
	if (r < 0)
		return r;
	container->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (container->lock_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "container '%s': '%s'", container->id,
		               path);
	if (fd_lock(container->lock_fd, 0) < 0) {
		fd_close(&container->lock_fd);
		return err_set(err, CCHV_ERR_EXISTS, 0, "container '%s': the id is in use", container->id);
	}
	return remove_leftovers(container->dir, err);
}

static int write_spec(const struct container *container, const struct json *spec, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(MAX_SPEC);
	cleanup_free char *path = mem_printf("%s/config.json", container->dir);

	if (!path || json_print(spec, 1, &text) < 0)
		return err_nomem(err);
	return path_write_atomic(path, text.data, text.len, 0600, err);
}

int container_claim(struct container *container, const struct json *spec, cchv_error **err)
{
	int r = claim_dir(container, err);

	return r < 0 ? r : write_spec(container, spec, err);
}

/* A file that is there already belongs to a container that ran before, and goes on. */
static int make_scratch(struct container *container, uint64_t deadline, cchv_error **err)
{
	const cchv_container_config *config = container->config;
	uint64_t bytes = config->upper_bytes ? config->upper_bytes : CONTAINER_DEFAULT_SCRATCH_BYTES;
	cleanup_free char *templates = NULL;
	int r;

	if (config->upper != CCHV_UPPER_DISK || config->rootfs_fs || config->rootfs_disk)
		return CCHV_OK;
	templates = mem_printf("%s/scratch", container->vm->ctx->state_dir);
	container->keep_scratch = config->keep_scratch;
	container->scratch = config->scratch_path ? mem_strdup(config->scratch_path)
	                                          : mem_printf("%s/scratch.img", container->dir);
	if (!templates || !container->scratch)
		return err_nomem(err);
	/* Before it is made. */
	r = containers_record(container->vm, err);
	if (r < 0)
		return r;
	if (config->scratch_path && access(config->scratch_path, F_OK) == 0)
		return CCHV_OK;
	r = scratch_make(templates, container->scratch, bytes, deadline, err);
	if (r < 0)
		return err_prefix(err, r, "container '%s'", container->id);
	container->made_scratch = 1;
	return CCHV_OK;
}

/* Our own files only: the directory may have been there before, with files of the caller's. */
static void remove_files(struct container *container, int scratch_too)
{
	cleanup_free char *lock = NULL;

	if (container->scratch && scratch_too)
		unlink(container->scratch);
	if (container->lock_fd < 0)
		return;
	remove_leftovers(container->dir, NULL);
	lock = mem_printf("%s/lock", container->dir);
	if (lock)
		unlink(lock);
	rmdir(container->dir);
}

void container_unclaim(struct container *container)
{
	remove_files(container, 0);
}

/* A volume whose source is the mount's own. */
static int fill_sources(cchv_container_config *config, cchv_error **err)
{
	for (size_t i = 0; i < config->map_count; i++) {
		struct container_map *map = &config->maps[i];
		cleanup_free char *source = NULL;
		size_t length;

		if (map->source || map->kind == CCHV_MOUNT_TMPFS)
			continue;
		if (json_get_bytes(oci_spec_find_mount(config->spec, map->destination), "source", &source,
		                   &length,
		                   NULL) != 1 || source[0] != '/')
			return err_set(err, CCHV_ERR_INVALID, 0,
			               "container '%s': mount '%s': its source is no absolute path",
			               config->id, map->destination);
		map->source = steal(&source);
	}
	return CCHV_OK;
}

static int prepare(cchv_vm *vm, const cchv_container_config *config, struct container **ret_container,
                   cchv_error **err)
{
	struct container *container = NULL;
	struct exec *init;
	int r = container_config_check(config, err);

	if (r == CCHV_OK && container_find(vm, config->id))
		r = err_set(err, CCHV_ERR_EXISTS, 0, "VM '%s' has a container '%s'", vm->id, config->id);
	if (r == CCHV_OK)
		r = container_new(vm, config->id, &container, err);
	if (r < 0)
		return r;
	/* Known to the list from here on, so that two threads cannot make one twice. */
	*ret_container = container;
	r = container_config_copy(config, &container->config);
	container->process = json_copy(json_get(config->spec, "process"));
	if (r < 0 || !container->process)
		return err_nomem(err);
	r = fill_sources(container->config, err);
	return r < 0 ? r : exec_new(container, NULL, &init, err);
}

static int make(struct container *container, uint64_t deadline, cchv_error **err)
{
	cchv_vm *vm = container->vm;
	int r = container_claim(container, container->config->spec, err);

	if (r == CCHV_OK)
		r = make_scratch(container, deadline, err);
	if (r == CCHV_OK)
		r = container_plug(container, deadline, err);
	if (r == CCHV_OK)
		r = containers_record(vm, err);
	if (r == CCHV_OK && vm->state == CCHV_VM_RUNNING)
		r = container_make_in_guest(container, deadline, err);
	return r;
}

/* Nothing is left behind; what was asked of the guest and not answered is asked to go too. */
static void undo(struct container *container, int code)
{
	cchv_vm *vm = container->vm;
	struct json *params;

	if (container->listed && vm->state == CCHV_VM_RUNNING && code != CCHV_ERR_EXISTS &&
	    container->lock_fd >= 0) {
		params = container_params(container);
		json_set_bool(params, "force", 1);
		guest_call(vm, "container.delete", params, clock_deadline(UNDO_MS), NULL, NULL);
	}
	container_unplug(container, clock_deadline(UNDO_MS), NULL);
	/* A scratch disk of an earlier run outlives a start that failed. */
	remove_files(container, container->made_scratch);
	container_unlist(container);
	containers_record(vm, NULL);
}

CCHV_API int cchv_container_create(cchv_vm *vm, cchv_container_config *config, int timeout_ms,
                                   cchv_container **ret_container, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct container *container = NULL;
	int r;

	err_clear(err);
	if (!vm || !config || !ret_container)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_create: NULL argument");
	r = vm_enter(vm, err);
	if (r < 0)
		return r;
	r = vm_check_owner(vm, "making a container", err);
	if (r == CCHV_OK)
		r = vm_check_state(vm, VM_IN(CCHV_VM_CREATED) | VM_IN(CCHV_VM_RUNNING), "making a container",
		                   err);
	if (r == CCHV_OK)
		r = prepare(vm, config, &container, err);
	if (container)
		container_ref(container);
	if (r == CCHV_OK)
		r = make(container, deadline, err);
	if (r == CCHV_OK)
		r = container_handle_new(container, ret_container, err);
	if (r == CCHV_OK)
		container_set_state(container, CCHV_CONTAINER_CREATED);
	else if (container)
		undo(container, r);
	container_unref(container);
	vm_leave(vm);
	return r;
}

static int check_deletable(struct container *container, cchv_error **err)
{
	int state = container->state;

	if (state == CCHV_CONTAINER_CREATED || state == CCHV_CONTAINER_STOPPED)
		return CCHV_OK;
	return err_set(err, CCHV_ERR_STATE, 0, "container '%s' is running", container->id);
}

/* Other processes of a container whose init has ended are killed by the kernel; "force" is for what is on its way. */
static int delete_in_guest(struct container *container, uint64_t deadline, cchv_error **err)
{
	struct json *params;
	int r;

	if (!container->in_guest || container->vm->state == CCHV_VM_STOPPED)
		return CCHV_OK;
	params = container_params(container);
	json_set_bool(params, "force", 1);
	r = guest_call(container->vm, "container.delete", params, deadline, NULL, err);
	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		return err_prefix(err, r, "container '%s'", container->id);
	cchv_error_free(err ? steal(err) : NULL);
	container->in_guest = 0;
	return CCHV_OK;
}

CCHV_API int cchv_container_delete(cchv_container *handle, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct container *container;
	int r = container_enter(handle, "container_delete", err);

	if (r < 0)
		return r;
	container = handle->container;
	r = vm_check_owner(handle->vm, "deleting a container", err);
	if (r == CCHV_OK)
		r = check_deletable(container, err);
	if (r == CCHV_OK)
		r = delete_in_guest(container, deadline, err);
	if (r == CCHV_OK)
		r = container_unplug(container, deadline, err);
	if (r == CCHV_OK && container->listed) {
		remove_files(container, !container->keep_scratch);
		container->deleted = 1;
		container_set_state(container, 0);
		container_unlist(container);
		/* A line too many does no harm: its files are gone. */
		containers_record(handle->vm, NULL);
	}
	vm_leave(handle->vm);
	return r;
}
