/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of containers: see container.h. Enters: requests that ask or stop and go. Leaves: answers from the
 * container's cgroup and from what the agent knows. Making one is container_create.c, ending it container_delete.c.
 */
#include "guest/container_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/copy.h"
#include "guest/exec.h"
#include "guest/shared_tmpfs.h"
#include "guest/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FREEZE_MS 10000
#define UPDATE_MS 60000

/* Where cgroup2 is. A machine with the older layout as well (test build) has it one level down. */
static const char *find_cgroup_root(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		char path[64];
		struct stat st;

		snprintf(path, sizeof(path), "%s/cgroup.controllers", roots[i]);
		if (stat(path, &st) == 0)
			return roots[i];
	}
	return NULL;
}

int containers_new(struct agent *agent, cchv_error **err)
{
	agent->containers = mem_zalloc(sizeof(*agent->containers));
	if (!agent->containers)
		return err_nomem(err);
	return container_oom_new(agent, err);
}

/* Late, since a VM's cgroup2 is mounted when the agent already serves. */
const char *container_cgroup_root(struct agent *agent, cchv_error **err)
{
	struct containers *all = agent->containers;
	const char *root;

	if (all->cgroup_root)
		return all->cgroup_root;
	root = find_cgroup_root();
	if (root && cgroup_prepare(root, err) == CCHV_OK)
		all->cgroup_root = root;
	return all->cgroup_root;
}

void containers_free(struct agent *agent)
{
	if (!agent->containers)
		return;
	while (agent->containers->list)
		container_free(agent->containers->list);
	copy_forget(agent, NULL);
	shared_tmpfs_forget(agent, NULL);
	container_oom_free(agent);
	free(agent->containers);
	agent->containers = NULL;
}

struct container *container_find(const struct agent *agent, const char *id)
{
	for (struct container *c = agent->containers->list; c; c = c->next)
		if (strcmp(c->id, id) == 0)
			return c;
	return NULL;
}

int container_get(struct agent *agent, const struct json *params, struct container **ret_container,
                  struct reply *reply)
{
	const char *id;
	int r = request_get_container(params, &id, reply);

	if (r < 0)
		return r;
	*ret_container = container_find(agent, id);
	if (!*ret_container)
		return fail(&reply->kind, &reply->err, "container", ENOENT, "there is no container '%s'", id);
	return CCHV_OK;
}

struct container *container_new(struct agent *agent, const char *id, cchv_error **err)
{
	struct container *c = mem_zalloc(sizeof(*c));

	if (!c) {
		err_nomem(err);
		return NULL;
	}
	c->agent = agent;
	c->pidfd = c->control_fd = c->mnt_fd = c->root_fd = c->upper_fd = c->oom_watch = -1;
	c->id = mem_strdup(id);
	if (!c->id) {
		free(c);
		err_nomem(err);
		return NULL;
	}
	c->next = agent->containers->list;
	agent->containers->list = c;
	return c;
}

void container_free(struct container *c)
{
	struct container **link = &c->agent->containers->list;

	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	container_oom_forget(c);
	loop_source_free(c->pid_source);
	loop_source_free(c->control_source);
	loop_timer_free(c->timer);
	fd_close(&c->pidfd);
	fd_close(&c->control_fd);
	fd_close(&c->mnt_fd);
	fd_close(&c->root_fd);
	fd_close(&c->upper_fd);
	cgroup_free(c->cgroup);
	spec_free(c->spec);
	free(c->id);
	free(c);
}

/* Whatever shares the namespaces of others, or left init's, does not end by itself. */
static void on_init_end(uint32_t events, void *user_data)
{
	struct container *c = user_data;

	loop_source_free(c->pid_source);
	c->pid_source = NULL;
	c->init_ended = 1;
	if (c->cgroup)
		cgroup_kill(c->cgroup);
	if (c->phase == CONTAINER_CREATED || c->phase == CONTAINER_RUNNING)
		c->phase = CONTAINER_STOPPED;
}

int container_watch_init(struct container *c, cchv_error **err)
{
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pidfd of init");
	agent_make_private(&c->pidfd);
	return loop_add(c->agent->loop, c->pidfd, EPOLLIN, on_init_end, c, &c->pid_source, err);
}

void container_started(struct agent *agent, const char *container, const char *exec, pid_t pid)
{
	struct container *c = container_find(agent, container);

	if (c && !*exec && c->phase == CONTAINER_CREATED)
		c->phase = CONTAINER_RUNNING;
}

void container_exited(struct agent *agent, const char *container, const char *exec)
{
	struct container *c = container_find(agent, container);

	if (c && !*exec && (c->phase == CONTAINER_RUNNING || c->phase == CONTAINER_CREATED))
		c->phase = CONTAINER_STOPPED;
}

int container_signal(struct agent *agent, const char *container, int signal_number, const char **kind,
                     cchv_error **err)
{
	struct container *c = container_find(agent, container);
	int count = 0;

	if (!c)
		return fail(kind, err, "container", ENOENT, "there is no container '%s'", container);
	if (c->cgroup && signal_number == SIGKILL) {
		count = cgroup_is_populated(c->cgroup);
		if (cgroup_kill(c->cgroup) < 0)
			return fail(kind, err, "container", errno, "kill all of '%s'", container);
	} else if (c->cgroup) {
		count = cgroup_signal(c->cgroup, signal_number);
	} else {
		count = exec_running(agent, container) > 0;
		exec_signal_all(agent, container, signal_number);
	}
	return count > 0 ? CCHV_OK : fail(kind, err, "container", ESRCH, "nothing runs in '%s'", container);
}

size_t container_count(const struct agent *agent)
{
	size_t count = 0;

	for (const struct container *c = agent->containers->list; c; c = c->next)
		count++;
	return count;
}

int container_list(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct json *list = json_new_array();

	for (const struct container *c = agent->containers->list; c; c = c->next)
		json_append(list, json_new_string(c->id));
	reply->result = json_new_object();
	json_set(reply->result, "containers", list);
	return CCHV_OK;
}

static const char *state_name(const struct container *c)
{
	static const char *const names[] = {
		[CONTAINER_CREATING] = "creating", [CONTAINER_CREATED] = "created",
		[CONTAINER_RUNNING] = "running",   [CONTAINER_STOPPED] = "stopped",
		[CONTAINER_DELETING] = "deleting",
	};

	return c->paused && c->phase == CONTAINER_RUNNING ? "paused" : names[c->phase];
}

int container_state(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct container *c;
	int r = container_get(agent, params, &c, reply);

	if (r < 0)
		return r;
	reply->result = json_new_object();
	json_set_string(reply->result, "state", state_name(c));
	json_set_u64(reply->result, "pid", c->init_ended ? 0 : (uint64_t)c->pid);
	json_set(reply->result, "execs", exec_list(agent, c->id));
	return CCHV_OK;
}

int container_stats(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct container *c;
	int r = container_get(agent, params, &c, reply);

	if (r < 0)
		return r;
	reply->result = json_new_object();
	return c->cgroup ? cgroup_stats(c->cgroup, reply->result) : CCHV_OK;
}

/* ---- pause and resume: the kernel stops each process at its own pace, so a worker waits for it ---- */

struct freeze {
	struct container *c;
	struct ticket *ticket;
	int frozen;
	char id[1];
};

static int freeze_work(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	const struct freeze *f = arg;

	*kind = "container";
	return cgroup_freeze(f->c->cgroup, f->frozen, clock_deadline(FREEZE_MS), err);
}

static void freeze_done(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                        cchv_error *err)
{
	struct freeze *f = user_data;
	struct container *c = container_find(agent, f->id);

	if (c)
		c->paused = r == CCHV_OK ? f->frozen : 0;
	ticket_done(agent, f->ticket, r, result, kind, err);
	free(f);
}

static int set_frozen(struct agent *agent, const struct json *params, int frozen, struct reply *reply)
{
	struct container *c;
	struct freeze *f;
	int r = container_get(agent, params, &c, reply);

	if (r < 0)
		return r;
	if (c->phase != CONTAINER_RUNNING)
		return fail(&reply->kind, &reply->err, "container", EBUSY, "container '%s' does not run",
		            c->id);
	if (!c->cgroup)
		return fail(&reply->kind, &reply->err, "container", EOPNOTSUPP, "no cgroup2 here");
	f = mem_zalloc(sizeof(*f) + strlen(c->id));
	if (!f)
		return err_nomem(&reply->err);
	f->c = c;
	f->frozen = frozen;
	strcpy(f->id, c->id);
	/* From here on no process may be started in it, or its birth would hang. */
	if (frozen)
		c->paused = 1;
	f->ticket = reply_defer(reply);
	r = worker_start(agent, freeze_work, f, FREEZE_MS + 1000, freeze_done, f, &reply->err);
	if (r < 0) {
		free(f);
		return r;
	}
	return REPLY_LATER;
}

int container_pause(struct agent *agent, const struct json *params, struct reply *reply)
{
	return set_frozen(agent, params, 1, reply);
}

int container_resume(struct agent *agent, const struct json *params, struct reply *reply)
{
	return set_frozen(agent, params, 0, reply);
}

/* ---- update: the kernel may have to take memory back first, so a worker writes ---- */

struct update {
	const struct cgroup *cgroup;
	struct resources resources;
};

static int update_work(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	const struct update *u = arg;

	*kind = "spec";
	return cgroup_apply(u->cgroup, &u->resources, err);
}

int container_update(struct agent *agent, const struct json *params, struct reply *reply)
{
	const struct json *resources = json_get(params, "resources");
	struct update u = { 0 };
	struct container *c;
	int r = container_get(agent, params, &c, reply);

	if (r < 0)
		return r;
	if (json_get_type(resources) != JSON_OBJECT)
		return fail(&reply->kind, &reply->err, "spec", EINVAL, "'resources' is no object");
	if (!c->cgroup)
		return fail(&reply->kind, &reply->err, "container", EOPNOTSUPP, "no cgroup2 here");
	reply->kind = "spec";
	r = resources_parse(resources, 1, &u.resources, &reply->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < u.resources.ignored.count; i++)
		log_info(&agent->log, "container '%s': %s is ignored", c->id, u.resources.ignored.items[i]);
	u.cgroup = c->cgroup;
	r = worker_reply(agent, reply, update_work, &u, UPDATE_MS);
	resources_free(&u.resources);
	return r;
}
