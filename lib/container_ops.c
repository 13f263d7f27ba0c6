/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a container that exists: start, exec, pause, update, measure, list, open. */
#include <string.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/path.h"
#include "container.h"
#include "exec.h"
#include "exec_config.h"
#include "list.h"
#include "oci_process.h"
#include "stats.h"

#define MAX_SPEC (64U << 20)

static int check_state(const struct container *container, unsigned int mask, const char *what,
                       cchv_error **err)
{
	static const char *const names[] = {
		[CCHV_CONTAINER_CREATED] = "created", [CCHV_CONTAINER_RUNNING] = "running",
		[CCHV_CONTAINER_PAUSED] = "paused", [CCHV_CONTAINER_STOPPED] = "stopped",
	};
	int r = vm_check_alive(container->vm, err);

	if (r < 0 || mask & VM_IN(container->state))
		return r;
	return err_set(err, CCHV_ERR_STATE, 0, "container '%s': %s: it is %s", container->id, what,
	               names[container->state]);
}

CCHV_API int cchv_container_start(cchv_container *handle, cchv_stdio_config *stdio, int timeout_ms,
                                  cchv_exec **ret_init, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cchv_exec *exec = NULL;
	struct container *container;
	int r = container_enter(handle, "container_start", err);

	if (r < 0)
		return r;
	container = handle->container;
	r = vm_check_owner(handle->vm, "starting a container", err);
	if (r == CCHV_OK)
		r = check_state(container, VM_IN(CCHV_CONTAINER_CREATED), "start", err);
	if (r == CCHV_OK && (!container->in_guest || container->init->phase != EXEC_NEW))
		r = err_set(err, CCHV_ERR_STATE, 0, "container '%s': %s", container->id,
		            container->in_guest ? "it is being started" : "its VM has not booted");
	if (r == CCHV_OK) {
		container->init->tty = oci_process_get_tty(container->process);
		r = stdio ? stdio_config_check(stdio, container->init->tty, err) : CCHV_OK;
	}
	if (r == CCHV_OK)
		r = vm_need_agent(handle->vm, deadline, err);
	if (r == CCHV_OK)
		r = exec_handle_new(container->init, &exec, err);
	if (r == CCHV_OK)
		r = exec_start(container->init, NULL, NULL, stdio, deadline, err);
	vm_leave(handle->vm);
	if (r == CCHV_OK && ret_init)
		*ret_init = exec;
	else
		cchv_exec_free(exec);
	return r;
}

CCHV_API int cchv_container_exec(cchv_container *handle, cchv_exec_config *config, int timeout_ms,
                                 cchv_exec **ret_exec, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r;

	err_clear(err);
	if (!config || !ret_exec)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_exec: NULL argument");
	r = container_enter(handle, "container_exec", err);
	if (r < 0)
		return r;
	r = check_state(handle->container, VM_IN(CCHV_CONTAINER_CREATED) | VM_IN(CCHV_CONTAINER_RUNNING),
	                "exec", err);
	if (r == CCHV_OK)
		r = exec_run(handle->container, config, deadline, ret_exec, err);
	vm_leave(handle->vm);
	return r;
}

/* ---- pause, resume, update, stats ---- */

static int change(cchv_container *handle, const char *what, const char *method, unsigned int mask,
                  int new_state,
                  int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = container_enter(handle, what, err);

	if (r < 0)
		return r;
	r = check_state(handle->container, mask, what, err);
	if (r == CCHV_OK && handle->container->state != new_state) {
		r = guest_call(handle->vm, method, container_params(handle->container), deadline, NULL, err);
		if (r == CCHV_OK && handle->container->state != CCHV_CONTAINER_STOPPED)
			container_set_state(handle->container, new_state);
	}
	vm_leave(handle->vm);
	return r;
}

CCHV_API int cchv_container_pause(cchv_container *container, int timeout_ms, cchv_error **err)
{
	return change(container, "pause", "container.pause",
	              VM_IN(CCHV_CONTAINER_RUNNING) | VM_IN(CCHV_CONTAINER_PAUSED),
	              CCHV_CONTAINER_PAUSED, timeout_ms, err);
}

CCHV_API int cchv_container_resume(cchv_container *container, int timeout_ms, cchv_error **err)
{
	return change(container, "resume", "container.resume",
	              VM_IN(CCHV_CONTAINER_RUNNING) | VM_IN(CCHV_CONTAINER_PAUSED), CCHV_CONTAINER_RUNNING,
	        timeout_ms,
	              err);
}

CCHV_API int cchv_container_update(cchv_container *container, const char *json, int timeout_ms,
                                   cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct json *resources = NULL, *params;
	int r;

	err_clear(err);
	if (!json)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_update: NULL argument");
	r = json_parse(json, strlen(json), &resources, err);
	if (r == CCHV_OK && json_get_type(resources) != JSON_OBJECT)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "no object");
	if (r < 0) {
		json_free(resources);
		/* The caller's mistake, not a peer's. */
		return r == CCHV_ERR_NOMEM ? r : err_set(err, CCHV_ERR_INVALID, 0,
		                                         "container_update: not a JSON object");
	}
	r = container_enter(container, "container_update", err);
	if (r < 0) {
		json_free(resources);
		return r;
	}
	params = container_params(container->container);
	json_set(params, "resources", resources);
	r = check_state(container->container, VM_IN(CCHV_CONTAINER_CREATED) | VM_IN(CCHV_CONTAINER_RUNNING) |
	                VM_IN(CCHV_CONTAINER_PAUSED), "update", err);
	if (r == CCHV_OK)
		r = guest_call(container->vm, "container.update", steal(&params), deadline, NULL, err);
	json_free(params);
	vm_leave(container->vm);
	return r;
}

/* The agent calls numbers as their cgroup's files are called; cchv/stats.h has the names that stay. */
static const char *public_name(const char *name)
{
	if (strcmp(name, "memory.current_bytes") == 0)
		return "memory.used_bytes";
	return strcmp(name, "pids.current") == 0 ? "pids.count" : name;
}

static int copy_stats(const struct json *result, cchv_stats **ret_stats, cchv_error **err)
{
	cleanup_stats cchv_stats *stats = stats_new();
	int r = stats ? CCHV_OK : CCHV_ERR_NOMEM;

	for (size_t i = 0; r == CCHV_OK && i < json_count(result); i++) {
		uint64_t value;

		if (json_as_u64(json_at(result, i), &value) == CCHV_OK)
			r = stats_add(stats, value, "%s", public_name(json_key_at(result, i)));
	}
	if (r < 0)
		return err_nomem(err);
	*ret_stats = steal(&stats);
	return CCHV_OK;
}

CCHV_API int cchv_container_get_stats(cchv_container *container, int timeout_ms, cchv_stats **ret_stats,
                                      cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_json struct json *result = NULL;
	int r;

	err_clear(err);
	if (!ret_stats)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_get_stats: NULL argument");
	r = container_enter(container, "container_get_stats", err);
	if (r < 0)
		return r;
	r = check_state(container->container, VM_IN(CCHV_CONTAINER_CREATED) | VM_IN(CCHV_CONTAINER_RUNNING) |
	                VM_IN(CCHV_CONTAINER_PAUSED), "stats", err);
	if (r == CCHV_OK)
		r = guest_call(container->vm, "container.stats", container_params(container->container),
		               deadline, &result,
		               err);
	vm_leave(container->vm);
	return r < 0 ? r : copy_stats(result, ret_stats, err);
}

/* ---- listing and opening ---- */

static int list_of(const struct json *ids, cchv_list **ret_list, cchv_error **err)
{
	cleanup_list cchv_list *list = list_new();
	int r = list ? CCHV_OK : CCHV_ERR_NOMEM;

	for (size_t i = 0; r == CCHV_OK && i < json_count(ids); i++) {
		const char *id = json_as_string(json_at(ids, i));

		if (id)
			r = list_add(list, *id ? id : "init");
	}
	if (r < 0)
		return err_nomem(err);
	*ret_list = steal(&list);
	return CCHV_OK;
}

/* The owner knows what it made, also before the guest runs and after it has ended. */
static int list_known(cchv_vm *vm, cchv_list **ret_list, cchv_error **err)
{
	cleanup_list cchv_list *list = list_new();
	int r = list ? CCHV_OK : CCHV_ERR_NOMEM;

	for (struct container *c = vm->guest ? vm->guest->containers : NULL; r == CCHV_OK && c; c = c->next)
		r = list_add(list, c->id);
	if (r < 0)
		return err_nomem(err);
	*ret_list = steal(&list);
	return CCHV_OK;
}

CCHV_API int cchv_vm_list_containers(cchv_vm *vm, int timeout_ms, cchv_list **ret_ids, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_json struct json *result = NULL;
	int r;

	err_clear(err);
	if (!ret_ids)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_list_containers: NULL argument");
	r = vm_enter(vm, err);
	if (r < 0)
		return r;
	if (vm->owner) {
		r = list_known(vm, ret_ids, err);
	} else {
		r = guest_call(vm, "container.list", NULL, deadline, &result, err);
		if (r == CCHV_OK)
			r = list_of(json_get(result, "containers"), ret_ids, err);
	}
	vm_leave(vm);
	return r;
}

int container_state_of(const struct json *state)
{
	static const struct {
		const char *word;
		int state;
	} words[] = {
		{ "created", CCHV_CONTAINER_CREATED }, { "running", CCHV_CONTAINER_RUNNING },
		{ "paused", CCHV_CONTAINER_PAUSED }, { "stopped", CCHV_CONTAINER_STOPPED },
	};
	const char *text = "";

	json_get_string(state, "state", &text, NULL);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i].word, text) == 0)
			return words[i].state;
	return 0;
}

/* What execs inherit: the owner wrote the specification down. */
static int read_process(struct container *container, cchv_error **err)
{
	cleanup_free char *dir = container_dir(container->vm, container->id);
	cleanup_free char *path = dir ? mem_printf("%s/config.json", dir) : NULL;
	cleanup_buf struct buf text = BUF_INIT(MAX_SPEC);
	cleanup_json struct json *spec = NULL;
	int r;

	if (!path)
		return err_nomem(err);
	r = path_read_file(path, &text, err);
	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, &spec, err);
	if (r < 0)
		return err_prefix(err, r, "container '%s'", container->id);
	container->process = json_copy(json_get(spec, "process"));
	return container->process ? CCHV_OK : err_nomem(err);
}

/* What the agent says of a container; of one that was adopted, its init's, too. */
static void take_state(struct container *container, int state, const struct json *result)
{
	struct exec *init = container->init;
	uint64_t pid = 0;

	container->state = state;
	if (!container->unasked)
		return;
	container->unasked = 0;
	if (!init || init->phase != EXEC_NEW || state == CCHV_CONTAINER_CREATED)
		return;
	json_get_u64(result, "pid", &pid, NULL);
	init->pid = (int)pid;
	init->phase = EXEC_ALIVE;
	/* The agent tells its end once more to the new owner, unless too much has happened since. */
	if (state == CCHV_CONTAINER_STOPPED)
		exec_ask_state(init);
}

/* The guest has nothing of it: its maker died before, or had it deleted. */
static void not_in_guest(struct container *container)
{
	container->unasked = container->in_guest = 0;
	container->state = CCHV_CONTAINER_STOPPED;
	if (container->init)
		exec_on_gone(container->init, CCHV_ERR_NOT_FOUND, "the guest does not have its container");
}

/* A client's, or an adopter's: ask the agent. */
int container_open(cchv_vm *vm, const char *id, uint64_t deadline, struct container **ret_container,
                   cchv_error **err)
{
	struct container *container = container_find(vm, id);
	cleanup_json struct json *result = NULL;
	struct json *params;
	int state, r;

	if (container && vm->owner && container->unasked && vm->state == CCHV_VM_STOPPED)
		not_in_guest(container);
	if (container && vm->owner && (!container->unasked || vm->state == CCHV_VM_CREATED)) {
		*ret_container = container;
		return CCHV_OK;
	}
	params = json_new_object();
	json_set_string(params, "container", id);
	r = guest_call(vm, "container.state", params, deadline, &result, err);
	container = container_find(vm, id);
	if (r == CCHV_ERR_NOT_FOUND && container && container->unasked) {
		not_in_guest(container);
		cchv_error_free(err ? steal(err) : NULL);
		*ret_container = container;
		return CCHV_OK;
	}
	if (r < 0)
		return r;
	state = container_state_of(result);
	if (!state)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "container.state: the agent's reply is malformed");
	if (!container) {
		r = container_new(vm, id, &container, err);
		if (r < 0)
			return r;
		container->in_guest = 1;
		r = read_process(container, err);
		if (r < 0) {
			container_unlist(container);
			return r;
		}
	} else if (!container->process) {
		r = read_process(container, err);
		if (r < 0)
			return r;
	}
	take_state(container, state, result);
	*ret_container = container;
	return CCHV_OK;
}

CCHV_API int cchv_vm_open_container(cchv_vm *vm, const char *id, int timeout_ms,
                                    cchv_container **ret_container,
                                    cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct container *container = NULL;
	int r;

	err_clear(err);
	if (!id || !ret_container)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_open_container: NULL argument");
	r = vm_enter(vm, err);
	if (r < 0)
		return r;
	if (vm->owner && !container_find(vm, id) && vm->state == CCHV_VM_CREATED)
		r = err_set(err, CCHV_ERR_NOT_FOUND, 0, "VM '%s' has no container '%s'", vm->id, id);
	if (r == CCHV_OK)
		r = container_open(vm, id, deadline, &container, err);
	if (r == CCHV_OK)
		r = container_handle_new(container, ret_container, err);
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_container_list_execs(cchv_container *container, int timeout_ms, cchv_list **ret_ids,
                                       cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	cleanup_json struct json *result = NULL;
	int r;

	err_clear(err);
	if (!ret_ids)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_list_execs: NULL argument");
	r = container_enter(container, "container_list_execs", err);
	if (r < 0)
		return r;
	if (!container->container->in_guest) {
		*ret_ids = list_new();
		r = *ret_ids && list_add(*ret_ids, "init") == CCHV_OK ? CCHV_OK : err_nomem(err);
	} else {
		r = guest_call(container->vm, "container.state", container_params(container->container),
		               deadline, &result,
		               err);
		if (r == CCHV_OK)
			r = list_of(json_get(result, "execs"), ret_ids, err);
	}
	vm_leave(container->vm);
	return r;
}

/* The caller gets a reference. */
static int open_exec(struct container *container, const char *id, uint64_t deadline, struct exec **ret_exec,
                     cchv_error **err)
{
	struct exec *exec = exec_find(container, id ? id : "init");
	cleanup_json struct json *result = NULL;
	struct json *params;
	int r;

	/* One that we follow, or that we know the end of, is known better here. */
	if (exec && exec->phase != EXEC_STARTING) {
		exec_ref(exec);
		*ret_exec = exec;
		return CCHV_OK;
	}
	r = vm_need_agent(container->vm, deadline, err);
	if (r < 0)
		return r;
	params = container_params(container);
	json_set_string(params, "exec", id ? id : "");
	r = guest_call(container->vm, "exec.state", params, deadline, &result, err);
	if (r == CCHV_OK && !container->listed)
		r = err_set(err, CCHV_ERR_NOT_FOUND, 0, "container '%s' was deleted", container->id);
	return r < 0 ? r : exec_from_state(container, id, result, ret_exec, err);
}

CCHV_API int cchv_container_open_exec(cchv_container *container, const char *exec_id, int timeout_ms,
                                      cchv_exec **ret_exec, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct exec *exec = NULL;
	int r;

	err_clear(err);
	if (!ret_exec)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_open_exec: NULL argument");
	r = container_enter(container, "container_open_exec", err);
	if (r < 0)
		return r;
	if (exec_id && strcmp(exec_id, "init") == 0)
		exec_id = NULL;
	r = open_exec(container->container, exec_id, deadline, &exec, err);
	if (r == CCHV_OK) {
		r = exec_handle_new(exec, ret_exec, err);
		exec_release(exec);
	}
	vm_leave(container->vm);
	return r;
}
