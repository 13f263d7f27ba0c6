/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of a restored VM: see container_restore.h. Enters: ids, specifications of the snapshot, the agent's
 * states. Leaves: containers as if they had been made here, but for their settings: their devices are the VM's.
 */
#include "container_restore.h"

#include <string.h>

#include "exec.h"
#include "oci_process.h"

int container_restore_claim(cchv_vm *vm, const char *old_id, const char *id, struct json *spec, cchv_error **err)
{
	cleanup_json struct json *owned = spec;
	struct container *container = NULL;
	struct exec *init;
	int r;

	if (container_find(vm, id))
		return err_set(err, CCHV_ERR_EXISTS, 0, "two containers would have the id '%s'", id);
	r = container_new(vm, id, &container, err);
	if (r < 0)
		return r;
	container->restored_from = mem_strdup(old_id);
	container->process = json_copy(json_get(owned, "process"));
	if (!container->restored_from || !container->process)
		return err_nomem(err);
	r = exec_new(container, NULL, &init, err);
	if (r < 0)
		return r;
	init->tty = oci_process_get_tty(container->process);
	return container_claim(container, owned, err);
}

static int rename_in_guest(struct container *container, uint64_t deadline, cchv_error **err)
{
	struct json *params;

	if (strcmp(container->restored_from, container->id) == 0)
		return CCHV_OK;
	params = json_new_object();
	json_set_string(params, "container", container->restored_from);
	json_set_string(params, "name", container->id);
	return guest_call(container->vm, "container.rename", params, deadline, NULL, err);
}

/* One that was never started has none yet. */
static int find_init(struct container *container, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *state = NULL;
	struct exec *init = NULL;
	struct json *params;
	int r;

	if (container->state == CCHV_CONTAINER_CREATED)
		return CCHV_OK;
	params = container_params(container);
	json_set_string(params, "exec", "");
	r = guest_call(container->vm, "exec.state", params, deadline, &state, err);
	if (r == CCHV_OK)
		r = exec_from_state(container, NULL, state, &init, err);
	if (r < 0)
		return r;
	exec_release(init);
	return CCHV_OK;
}

int container_restore_in_guest(struct container *container, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *result = NULL;
	int r = rename_in_guest(container, deadline, err), state;

	if (r == CCHV_OK)
		r = guest_call(container->vm, "container.state", container_params(container), deadline, &result, err);
	if (r < 0)
		return err_prefix(err, r, "container '%s'", container->id);
	state = container_state_of(result);
	if (!state)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "container.state: the agent's reply is malformed");
	container->in_guest = 1;
	container_set_state(container, state);
	r = find_init(container, deadline, err);
	return r < 0 ? err_prefix(err, r, "container '%s'", container->id) : CCHV_OK;
}

void container_restore_undo(cchv_vm *vm)
{
	for (struct container *c = vm->guest ? vm->guest->containers : NULL; c; c = c->next)
		container_unclaim(c);
}
