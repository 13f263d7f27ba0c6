/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.settle. Enters: a guest that has just booted and belongs to nobody yet. Leaves: one that a template can be taken
 * of: each driver that a clone may need is loaded, what only booting needed is given back, and no process but the agent
 * is left that could be in the middle of something.
 */
#include "guest/vm.h"

#include "base/fd.h"
#include "guest/module.h"
#include "guest/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int write_one(const char *path)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, "1", 1) < 0 ? -1 : 0;
}

static int settle(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	module_load_all();
	/* The cache of files is in no clone's way, but each of its pages would be one that all clones carry. */
	sync();
	if (write_one("/proc/sys/vm/drop_caches") < 0)
		return fail(kind, err, "other", errno, "drop the caches");
	return CCHV_OK;
}

static void done(struct agent *agent, void *user_data, int r, struct json *result, const char *kind, cchv_error *err)
{
	struct ticket *ticket = user_data;
	cchv_error *error = NULL;

	/* Another worker (the one that loads the drivers of what is there) may go on: once more, until it is over. */
	if (r == 0 && workers_count(agent) > 0) {
		json_free(result);
		r = worker_start(agent, settle, NULL, -1, done, ticket, &error);
		if (r == 0)
			return;
		ticket_done(agent, ticket, r, NULL, "other", error);
		return;
	}
	ticket_done(agent, ticket, r, result, kind, err);
}

int vm_settle(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct ticket *ticket;
	int r;

	if (agent->configured)
		return fail(&reply->kind, &reply->err, "method", EBUSY, "this guest has an identity already");
	/* The test build leaves the machine that it runs on alone. */
	if (!agent->is_init)
		return CCHV_OK;
	ticket = reply_defer(reply);
	r = worker_start(agent, settle, NULL, -1, done, ticket, &reply->err);
	return r < 0 ? r : REPLY_LATER;
}
