/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills for want of memory. Enters: the kernel's changes of memory.events. Leaves: one `oom` notification for each
 * time that hosts have not been told yet, always before the exit of a process that it explains.
 */
#include "guest/container_node.h"

#include "base/fd.h"
#include "guest/notify.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

static void look(struct container *c)
{
	uint64_t kills = c->cgroup ? cgroup_oom_kills(c->cgroup) : 0;
	struct json *event;

	if (kills <= c->oom_told)
		return;
	c->oom_told = kills;
	event = json_new_object();
	json_set_string(event, "event", "oom");
	json_set_string(event, "container", c->id);
	notify_send(c->agent, event);
}

static void on_inotify(uint32_t events, void *user_data)
{
	struct agent *agent = user_data;
	char buffer[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];

	/* Which of them changed is cheaper to find by looking: there are few. */
	while (read(agent->containers->inotify_fd, buffer, sizeof(buffer)) > 0)
		;
	for (struct container *c = agent->containers->list; c; c = c->next)
		look(c);
}

int container_oom_new(struct agent *agent, cchv_error **err)
{
	struct containers *all = agent->containers;

	all->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (all->inotify_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "inotify");
	agent_make_private(&all->inotify_fd);
	return loop_add(agent->loop, all->inotify_fd, EPOLLIN, on_inotify, agent, &all->inotify_source, err);
}

void container_oom_free(struct agent *agent)
{
	loop_source_free(agent->containers->inotify_source);
	fd_close(&agent->containers->inotify_fd);
}

void container_oom_watch(struct container *c)
{
	cleanup_free char *path = mem_printf("%s/memory.events", cgroup_path(c->cgroup));

	if (path)
		c->oom_watch = inotify_add_watch(c->agent->containers->inotify_fd, path, IN_MODIFY);
	if (c->oom_watch < 0 && c->agent->is_init)
		log_warning(&c->agent->log, "container '%s': its memory.events cannot be watched: errno %d",
		            c->id, errno);
}

void container_oom_forget(struct container *c)
{
	if (c->oom_watch >= 0)
		inotify_rm_watch(c->agent->containers->inotify_fd, c->oom_watch);
	c->oom_watch = -1;
}

int container_take_oom(struct agent *agent, const char *container)
{
	struct container *c = container_find(agent, container);

	if (!c)
		return 0;
	look(c);
	if (c->oom_told <= c->oom_taken)
		return 0;
	c->oom_taken = c->oom_told;
	return 1;
}
