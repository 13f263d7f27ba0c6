/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a container. Enters: container.delete, a create that failed, the end of the VM. Leaves: no process, no
 * mount and no cgroup of it. Unmounting may have to write a lot, so the last descriptors of the mounts are dropped by
 * a worker, and what is still to be written, is written there.
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
#include <string.h>

#define KILL_MS 10000
#define REMOVE_MS 10000

struct teardown {
	struct container *c;
	char *cgroup;
	int mnt_fd, root_fd, upper_fd;
	/* What the ticket gets when all went well. */
	int r;
	const char *kind;
	cchv_error *err;
};

static int work(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	struct teardown *t = arg;

	*kind = "container";
	fd_close(&t->upper_fd);
	fd_close(&t->root_fd);
	fd_close(&t->mnt_fd);
	return t->cgroup ? cgroup_remove(t->cgroup, clock_deadline(REMOVE_MS), err) : CCHV_OK;
}

static void teardown_free(struct teardown *t)
{
	fd_close(&t->mnt_fd);
	fd_close(&t->root_fd);
	fd_close(&t->upper_fd);
	free(t->cgroup);
	free(t);
}

static void torn(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                 cchv_error *err)
{
	struct teardown *t = user_data;
	struct container *c = t->c;
	struct ticket *ticket = steal(&c->ticket);

	json_free(result);
	if (r < 0 && t->r == CCHV_OK) {
		/* Whoever asked can ask again. */
		c->phase = CONTAINER_STOPPED;
		ticket_done(agent, ticket, r, NULL, kind, err);
	} else {
		if (r < 0)
			log_error(&agent->log, "container '%s': %s", c->id, cchv_error_message(err));
		cchv_error_free(err);
		exec_forget_all(agent, c->id);
		copy_forget(agent, c->id);
		shared_tmpfs_forget(agent, c->id);
		container_free(c);
		ticket_done(agent, ticket, t->r, NULL, t->kind, t->err);
	}
	teardown_free(t);
}

void container_finish(struct container *c, int r, const char *kind, cchv_error *err)
{
	struct agent *agent = c->agent;
	struct teardown *t = mem_zalloc(sizeof(*t));
	cleanup_err cchv_error *why = NULL;

	c->phase = CONTAINER_DELETING;
	container_oom_forget(c);
	loop_source_free(steal(&c->control_source));
	fd_close(&c->control_fd);
	if (t) {
		*t = (struct teardown){ .c = c,
			                .mnt_fd = fd_copy(c->mnt_fd),
			                .root_fd = fd_copy(c->root_fd),
			                .upper_fd = fd_copy(c->upper_fd),
			                .r = r,
			                .kind = kind,
			                .err = err };
		t->cgroup = c->cgroup ? mem_strdup(cgroup_path(c->cgroup)) : NULL;
	}
	if (t && (!c->cgroup || t->cgroup) && worker_start(agent, work, t, -1, torn, t, &why) == CCHV_OK) {
		fd_close(&t->mnt_fd);
		fd_close(&t->root_fd);
		fd_close(&t->upper_fd);
		fd_close(&c->mnt_fd);
		fd_close(&c->root_fd);
		fd_close(&c->upper_fd);
		return;
	}
	/* Too little memory for a worker: the container stays, and the delete can be asked for again. */
	if (t)
		teardown_free(t);
	c->phase = CONTAINER_STOPPED;
	cchv_error_free(err);
	err = NULL;
	r = err_nomem(&err);
	ticket_done(agent, steal(&c->ticket), r, NULL, "other", err);
}

void container_kill_all(struct container *c)
{
	if (c->pid > 0 && !c->init_ended)
		kill(c->pid, SIGKILL);
	if (c->cgroup)
		cgroup_kill(c->cgroup);
	exec_signal_all(c->agent, c->id, SIGKILL);
}

static void on_idle(struct agent *agent, int timed_out, void *user_data)
{
	cleanup_free char *id = user_data;
	struct container *c = container_find(agent, id);
	cchv_error *err = NULL;
	const char *kind;
	int r;

	if (!c || c->phase != CONTAINER_DELETING)
		return;
	if (!timed_out) {
		container_finish(c, CCHV_OK, NULL, NULL);
		return;
	}
	c->phase = c->init_ended ? CONTAINER_STOPPED : CONTAINER_RUNNING;
	r = fail(&kind, &err, "container", EBUSY, "the processes of '%s' do not end", c->id);
	ticket_done(agent, steal(&c->ticket), r, NULL, kind, err);
}

int container_delete(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct container *c;
	int force = 0, r;
	char *id;

	r = container_get(agent, params, &c, reply);
	if (r < 0)
		return r;
	if (json_get_bool(params, "force", &force, NULL) < 0)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'force' is no boolean");
	if (c->phase == CONTAINER_CREATING || c->phase == CONTAINER_DELETING)
		return fail(&reply->kind, &reply->err, "container", EBUSY, "container '%s' is being %s",
		            c->id, c->phase == CONTAINER_CREATING ? "created" : "deleted");
	if (!force && (exec_running(agent, c->id) > 0 || (c->phase == CONTAINER_RUNNING && !c->init_ended)))
		return fail(&reply->kind, &reply->err, "container", EBUSY, "container '%s' runs", c->id);
	id = mem_strdup(c->id);
	if (!id)
		return err_nomem(&reply->err);
	c->phase = CONTAINER_DELETING;
	c->ticket = reply_defer(reply);
	container_kill_all(c);
	r = exec_wait_idle(agent, id, clock_deadline(KILL_MS), on_idle, id, &reply->err);
	if (r < 0) {
		c->phase = CONTAINER_STOPPED;
		c->ticket = NULL; /* the dispatcher answers */
		free(id);
		return r;
	}
	return REPLY_LATER;
}

static void make_inheritable(int *fd)
{
	int low = fd_copy(*fd);

	if (low >= 0) {
		fd_close(fd);
		*fd = low;
	}
}

void container_hand_over(struct agent *agent)
{
	for (struct container *c = agent->containers->list; c; c = c->next) {
		make_inheritable(&c->root_fd);
		make_inheritable(&c->upper_fd);
		make_inheritable(&c->mnt_fd);
	}
}

void container_unmount_all(struct agent *agent)
{
	for (struct container *c = agent->containers->list; c; c = c->next) {
		fd_close(&c->upper_fd);
		fd_close(&c->root_fd);
		fd_close(&c->mnt_fd);
	}
}
