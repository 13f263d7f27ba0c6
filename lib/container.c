/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as objects: see container.h. Enters: ids. Leaves: handles, and what they tell. */
#include "container.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "copies.h"
#include "ctx.h"
#include "event.h"
#include "exec.h"
#include "oci_process.h"

#define MAX_SPEC (64U << 20)

static int alloc(cchv_vm *vm, const char *id, struct container **ret_container, cchv_error **err)
{
	struct container *container = mem_zalloc(sizeof(*container));

	if (!container)
		return err_nomem(err);
	container->refs = 1;
	container->vm = vm;
	container->lock_fd = -1;
	container->state = CCHV_CONTAINER_CREATED;
	container->create_time = clock_real_ns();
	container->id = mem_strdup(id);
	if (!container->id) {
		free(container);
		return err_nomem(err);
	}
	*ret_container = container;
	return CCHV_OK;
}

int container_new(cchv_vm *vm, const char *id, struct container **ret_container, cchv_error **err)
{
	struct container *container = NULL, **last;
	struct vm_guest *guest;
	int r = guest_need(vm, &guest, err);

	if (r == CCHV_OK)
		r = alloc(vm, id, &container, err);
	if (r < 0)
		return r;
	last = &guest->containers;
	while (*last)
		last = &(*last)->next;
	*last = container;
	container->listed = 1;
	*ret_container = container;
	return CCHV_OK;
}

int container_need_bare(cchv_vm *vm, struct container **ret_container, cchv_error **err)
{
	struct container *container = NULL;
	struct vm_guest *guest;
	int r = guest_need(vm, &guest, err);

	if (r == CCHV_OK && !guest->bare) {
		r = alloc(vm, "", &container, err);
		if (r < 0)
			return r;
		container->listed = container->in_guest = 1;
		container->state = CCHV_CONTAINER_RUNNING;
		container->process = oci_process_new_bare();
		guest->bare = container;
		if (!container->process)
			return err_nomem(err);
	}
	if (r == CCHV_OK)
		*ret_container = guest->bare;
	return r;
}

void container_ref(struct container *container)
{
	container->refs++;
}

void container_forget_devices(struct container *container)
{
	for (size_t i = 0; i < container->device_count; i++) {
		free(container->devices[i].id);
		free(container->devices[i].tag);
		free(container->devices[i].subpath);
		free(container->devices[i].directory);
	}
	free(steal(&container->devices));
	container->device_count = 0;
}

void container_unref(struct container *container)
{
	if (!container || --container->refs > 0)
		return;
	json_free(container->process);
	cchv_container_config_free(container->config);
	container_forget_devices(container);
	free(container->dir);
	free(container->restored_from);
	free(container->scratch);
	free(container->id);
	free(container);
}

void container_drop(struct container *container)
{
	container->listed = 0;
	container->next = NULL;
	while (container->execs)
		exec_unlist(container->execs);
	copies_free(steal(&container->copies));
	fd_close(&container->lock_fd);
	container_unref(container);
}

void container_unlist(struct container *container)
{
	struct container **p = &container->vm->guest->containers;

	if (!container->listed)
		return;
	while (*p != container)
		p = &(*p)->next;
	*p = container->next;
	container_drop(container);
}

struct container *container_find(cchv_vm *vm, const char *id)
{
	struct container *container = vm->guest ? vm->guest->containers : NULL;

	while (container && strcmp(container->id, id) != 0)
		container = container->next;
	return container;
}

void container_set_state(struct container *container, int state)
{
	struct event_info info = { .type = CCHV_EVENT_CONTAINER_STATE, .container_id = container->id, .state = state };

	if (container->state == state && state != CCHV_CONTAINER_CREATED)
		return;
	if (state)
		container->state = state;
	vm_push_event(container->vm, &info);
}

void container_on_gone(struct container *container, const char *text)
{
	/* Where init is known, its end says it. */
	if (*container->id && !container->init)
		container_set_state(container, CCHV_CONTAINER_STOPPED);
}

struct json *container_params(const struct container *container)
{
	struct json *params = json_new_object();

	json_set_string(params, "container", container->id);
	return params;
}

int container_handle_new(struct container *container, cchv_container **ret_handle, cchv_error **err)
{
	cchv_container *handle = mem_zalloc(sizeof(*handle));

	if (!handle)
		return err_nomem(err);
	handle->vm = vm_ref(container->vm);
	handle->container = container;
	container_ref(container);
	*ret_handle = handle;
	return CCHV_OK;
}

int container_enter(cchv_container *handle, const char *what, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!handle)
		return err_set(err, CCHV_ERR_INVALID, 0, "%s: NULL argument", what);
	r = vm_enter(handle->vm, err);
	if (r < 0)
		return r;
	if (!handle->container->listed) {
		vm_leave(handle->vm);
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "container '%s' was deleted", handle->container->id);
	}
	return CCHV_OK;
}

CCHV_API void cchv_container_free(cchv_container *container)
{
	cchv_vm *vm;

	if (!container)
		return;
	vm = container->vm;
	/* In a child of a fork the lock may be held by nobody that exists. */
	if (vm->process == getpid()) {
		pthread_mutex_lock(&vm->lock);
		container_unref(container->container);
		pthread_mutex_unlock(&vm->lock);
		vm_unref(vm);
	}
	free(container);
}

CCHV_API const char *cchv_container_get_id(cchv_container *container)
{
	return container ? container->container->id : NULL;
}

CCHV_API int cchv_container_get_state(cchv_container *container)
{
	int state;

	if (!container)
		return CCHV_ERR_INVALID;
	if (container->vm->process != getpid())
		return CCHV_ERR_FORKED;
	pthread_mutex_lock(&container->vm->lock);
	state = container->container->state;
	pthread_mutex_unlock(&container->vm->lock);
	return state;
}

CCHV_API uint64_t cchv_container_get_create_time(cchv_container *container)
{
	return container ? container->container->create_time : 0;
}

char *container_dir(const cchv_vm *vm, const char *id)
{
	return mem_printf("%s/containers/%s", vm->ctx->state_dir, id);
}

CCHV_API int cchv_container_get_spec_json(cchv_container *container, char **ret_json, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(MAX_SPEC);
	cleanup_free char *dir = NULL, *path = NULL;
	int r;

	err_clear(err);
	if (!container || !ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_get_spec_json: NULL argument");
	dir = container_dir(container->vm, container->container->id);
	path = dir ? mem_printf("%s/config.json", dir) : NULL;
	if (!path)
		return err_nomem(err);
	r = path_read_file(path, &text, err);
	if (r < 0)
		return r;
	*ret_json = buf_take_string(&text);
	return *ret_json ? CCHV_OK : err_nomem(err);
}
