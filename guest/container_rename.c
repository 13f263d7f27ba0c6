/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another id for a container: a restored VM lives beside the one that it was copied from, and the host tells their
 * containers apart by their ids. Enters: container.rename. Leaves: the new id wherever the old one stood; its processes
 * notice nothing. Its cgroup keeps its name, which only the guest sees.
 */
#include "guest/container_node.h"

#include "base/path.h"
#include "guest/copy.h"
#include "guest/exec.h"
#include "guest/shared_tmpfs.h"
#include "wire/protocol.h"

#include <errno.h>
#include <string.h>

/* All copies are made before the first place is changed: it is renamed everywhere or nowhere. */
struct renaming {
	char **copies;
	size_t count, used;
};

static void each_name(struct container *c, name_fn fn, void *user_data)
{
	exec_each_name(c->agent, c->id, fn, user_data);
	copy_each_name(c->id, fn, user_data);
	shared_tmpfs_each_name(c->id, fn, user_data);
	/* The one that all others are compared with comes last. */
	fn(&c->id, user_data);
}

static void count_one(char **name, void *user_data)
{
	((struct renaming *)user_data)->count++;
}

static void set_one(char **name, void *user_data)
{
	struct renaming *r = user_data;

	free(*name);
	*name = steal(&r->copies[r->used]);
	r->used++;
}

static int make_copies(struct renaming *r, const char *name)
{
	r->copies = mem_zalloc(r->count * sizeof(*r->copies));
	for (size_t i = 0; r->copies && i < r->count; i++) {
		r->copies[i] = mem_strdup(name);
		if (!r->copies[i])
			return -1;
	}
	return r->copies ? 0 : -1;
}

static int rename_all(struct container *c, const char *name, cchv_error **err)
{
	struct renaming renaming = { NULL, 0, 0 };
	int r;

	each_name(c, count_one, &renaming);
	r = make_copies(&renaming, name) < 0 ? err_nomem(err) : CCHV_OK;
	if (r == CCHV_OK)
		each_name(c, set_one, &renaming);
	for (size_t i = 0; renaming.copies && i < renaming.count; i++)
		free(renaming.copies[i]);
	free(renaming.copies);
	return r;
}

int container_rename(struct agent *agent, const struct json *params, struct reply *reply)
{
	const char *name = NULL;
	struct container *c;
	int r = container_get(agent, params, &c, reply);

	if (r < 0)
		return r;
	if (json_get_string(params, "name", &name, NULL) != 1 || !path_name_is_valid(name, PROTOCOL_MAX_ID))
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'name' is no valid id");
	if (strcmp(name, c->id) == 0)
		return CCHV_OK;
	if (container_find(agent, name))
		return fail(&reply->kind, &reply->err, "container", EEXIST, "container '%s' exists", name);
	if (c->ticket || c->phase == CONTAINER_CREATING || c->phase == CONTAINER_DELETING ||
	    exec_any_starting(agent, c->id))
		return fail(&reply->kind, &reply->err, "container", EBUSY, "container '%s' is changing", c->id);
	return rename_all(c, name, &reply->err);
}
