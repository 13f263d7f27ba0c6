/* SPDX-License-Identifier: Apache-2.0 */
/* The agent without containers: everything about them is refused by name. */
#include "guest/container.h"

#include <errno.h>

int containers_new(struct agent *agent, cchv_error **err)
{
	return CCHV_OK;
}

void containers_free(struct agent *agent)
{
}

int container_plan_new(struct agent *agent, const char *container, const char *exec, const struct json *params,
                       struct process_plan **ret_plan, const char **kind, cchv_error **err)
{
	return fail(kind, err, "container", ENOENT, "there is no container '%s'", container);
}

void container_started(struct agent *agent, const char *container, const char *exec, pid_t pid)
{
}

void container_exited(struct agent *agent, const char *container, const char *exec)
{
}

int container_take_oom(struct agent *agent, const char *container)
{
	return 0;
}

int container_signal(struct agent *agent, const char *container, int signal_number, const char **kind,
                     cchv_error **err)
{
	return fail(kind, err, "container", ENOENT, "there is no container '%s'", container);
}

size_t container_count(const struct agent *agent)
{
	return 0;
}

void container_unmount_all(struct agent *agent)
{
}

static int refuse(struct reply *reply)
{
	return fail(&reply->kind, &reply->err, "method", ENOSYS, "this agent has no containers");
}

#define REFUSED(name)                                                                              \
	int name(struct agent *agent, const struct json *params, struct reply *reply)              \
	{                                                                                          \
		return refuse(reply);                                                              \
	}

REFUSED(container_create)
REFUSED(container_list)
REFUSED(container_state)
REFUSED(container_pause)
REFUSED(container_resume)
REFUSED(container_update)
REFUSED(container_stats)
REFUSED(container_delete)
REFUSED(net_configure)
REFUSED(copy_put)
