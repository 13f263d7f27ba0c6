/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans for processes of a container: its init, which waits already; one that joins; an archive. Enters: exec.start.
 * Leaves: a plan that exec.c carries out.
 */
#include "guest/container_node.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "guest/archive.h"
#include "guest/container_init.h"
#include "guest/process_oci.h"
#include "guest/pty.h"
#include "guest/rootpath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef DEVPTS_SUPER_MAGIC
#define DEVPTS_SUPER_MAGIC 0x1cd1
#endif

struct container_plan {
	struct process_plan plan;
	struct agent *agent;
	char *container;
	struct process_spec spec; /* of an exec; init's is in its own memory */
	struct process_bounds bounds;
	int join_pidfd; /* of init: whose namespaces an exec joins */
	int join_flags;
	int root_fd; /* for the terminal */
	int pidns_fd, cgroup_fd; /* owned */
};

static void plan_free(struct process_plan *plan)
{
	struct container_plan *p = container_of(plan, struct container_plan, plan);

	process_spec_free(&p->spec);
	process_bounds_free(&p->bounds);
	fd_close(&p->join_pidfd);
	fd_close(&p->root_fd);
	fd_close(&p->pidns_fd);
	fd_close(&p->cgroup_fd);
	free(p->container);
	free(p);
}

/* A terminal of the container's own devpts, so that its name is right inside; without one, of the agent's. */
static int plan_open_pty(struct process_plan *plan, int *ret_master, int *ret_slave, const char **kind,
                         cchv_error **err)
{
	const struct container_plan *p = container_of(plan, struct container_plan, plan);
	cleanup_close int ptmx = rootpath_open(p->root_fd, "/dev/pts/ptmx", O_PATH | O_NOFOLLOW);
	char name[ROOTPATH_FD_SIZE];
	struct statfs fs;

	if (ptmx < 0 || fstatfs(ptmx, &fs) < 0 || fs.f_type != DEVPTS_SUPER_MAGIC)
		return pty_open_at(AT_FDCWD, "/dev/ptmx", ret_master, ret_slave, kind, err);
	return pty_open_at(AT_FDCWD, rootpath_fd_name(ptmx, name), ret_master, ret_slave, kind, err);
}

/* ---- init ---- */

static int init_spawn(struct agent *agent, struct process_plan *plan, const struct process_io *io,
                      pid_t *ret_pid, const char **kind, cchv_error **err)
{
	const struct container_plan *p = container_of(plan, struct container_plan, plan);
	struct container *c = container_find(agent, p->container);
	const int fds[INIT_GO_FDS] = { io->stdio[0], io->stdio[1], io->stdio[2], io->report_fd };
	const struct init_go go = { .count = INIT_GO_FDS };

	if (!c || c->phase != CONTAINER_CREATED || c->init_ended || c->control_fd < 0)
		return fail(kind, err, "container", ESRCH, "container '%s' has ended", p->container);
	if (fd_send_with_fds(c->control_fd, &go, sizeof(go), fds, INIT_GO_FDS) < 0)
		return fail(kind, err, "container", errno, "start init of '%s'", c->id);
	fd_close(&c->control_fd);
	*ret_pid = c->pid;
	return CCHV_OK;
}

static void __attribute__((noreturn)) never(const struct process_plan *plan, const struct process_io *io)
{
	process_report(io, EINVAL, "other", "init is not forked");
}

static const struct process_ops init_ops = {
	.child = never,
	.spawn = init_spawn,
	.open_pty = plan_open_pty,
	.free = plan_free,
};

/* ---- exec ---- */

static void __attribute__((noreturn)) exec_child(const struct process_plan *plan, const struct process_io *io)
{
	const struct container_plan *p = container_of(plan, struct container_plan, plan);
	struct process_io own = *io;
	int root_fd;

	if (process_child_begin(plan, &own) < 0)
		process_report(&own, errno, "other", "session and streams");
	if (process_oci_set_oom_score(&p->spec) < 0)
		process_report(&own, errno, "spec", "process.oomScoreAdj");
	if (setns(p->join_pidfd, p->join_flags) < 0)
		process_report(&own, errno, "container", "enter the container");
	root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		process_report(&own, errno, "container", "open the container's root");
	process_oci_finish(&p->spec, &p->bounds, root_fd, &own);
}

static const struct process_ops exec_ops = {
	.child = exec_child,
	.open_pty = plan_open_pty,
	.free = plan_free,
};

/* ---- making one ---- */

static struct container_plan *plan_new(struct container *c, const struct process_ops *ops, cchv_error **err)
{
	struct container_plan *p = mem_zalloc(sizeof(*p));

	if (!p) {
		err_nomem(err);
		return NULL;
	}
	process_plan_init(&p->plan, ops);
	p->agent = c->agent;
	p->join_pidfd = p->pidns_fd = p->cgroup_fd = -1;
	p->root_fd = fd_copy(c->root_fd);
	p->container = mem_strdup(c->id);
	if (!p->container || p->root_fd < 0) {
		plan_free(&p->plan);
		err_nomem(err);
		return NULL;
	}
	return p;
}

static int plan_init(struct container *c, const struct json *params, struct process_plan **ret_plan,
                     const char **kind, cchv_error **err)
{
	struct container_plan *p;

	if (json_get(params, "process"))
		return fail(kind, err, "spec", EINVAL, "'process': that of init is in the specification");
	if (c->phase != CONTAINER_CREATED)
		return fail(kind, err, "container", c->phase == CONTAINER_RUNNING ? EEXIST : ESRCH,
		            "container '%s' was started before", c->id);
	if (!c->spec->has_process)
		return fail(kind, err, "spec", EINVAL, "process: required to start container '%s'", c->id);
	p = plan_new(c, &init_ops, err);
	if (!p)
		return CCHV_ERR_NOMEM;
	p->plan.terminal = c->spec->process.terminal;
	p->plan.rows = c->spec->process.rows;
	p->plan.cols = c->spec->process.cols;
	*ret_plan = &p->plan;
	return CCHV_OK;
}

/* Where init is now: a container that keeps cgroups of its own has left the place where it was born. */
static int open_cgroup(struct container *c, int *ret_fd, const char **kind, cchv_error **err)
{
	struct buf text = BUF_INIT(65536);
	cleanup_free char *path = NULL;
	char file[48];
	const char *own;

	if (!c->cgroup)
		return CCHV_OK;
	snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)c->pid);
	own = path_read_file(file, &text, NULL) < 0 ? NULL : buf_string(&text);
	own = own ? strstr(own, "0::/") : NULL;
	if (own) {
		own += strlen("0::");
		path = mem_printf("%s%.*s", c->agent->containers->cgroup_root, (int)strcspn(own, "\n"), own);
	}
	buf_free(&text);
	/* Only below the container's own. */
	if (path && strncmp(path, cgroup_path(c->cgroup), strlen(cgroup_path(c->cgroup))) == 0)
		*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		*ret_fd = fd_copy(cgroup_fd(c->cgroup));
	return *ret_fd < 0 ? fail(kind, err, "container", errno, "cgroup of '%s'", c->id) : CCHV_OK;
}

static int open_namespaces(struct container *c, struct container_plan *p, const char **kind, cchv_error **err)
{
	static const int flags[NS_COUNT] = {
		[NS_NET] = CLONE_NEWNET, [NS_MOUNT] = CLONE_NEWNS,      [NS_IPC] = CLONE_NEWIPC,
		[NS_UTS] = CLONE_NEWUTS, [NS_CGROUP] = CLONE_NEWCGROUP, [NS_TIME] = 0x80,
	};
	char path[48];

	for (size_t i = 0; i < NS_COUNT; i++)
		if (c->spec->has_namespace[i])
			p->join_flags |= flags[i];
	p->join_pidfd = fd_copy(c->pidfd);
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)c->pid);
	p->pidns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (p->join_pidfd < 0 || p->pidns_fd < 0)
		return fail(kind, err, "container", errno, "namespaces of '%s'", c->id);
	p->plan.pidns_fd = p->pidns_fd;
	return CCHV_OK;
}

static int fill_exec(struct container *c, const struct json *process, struct container_plan *p,
                     const char **kind, cchv_error **err)
{
	struct words ignored = { NULL, 0 };
	int r;

	*kind = "spec";
	r = process_spec_parse(process, "process", &p->spec, &ignored, err);
	for (size_t i = 0; i < ignored.count; i++)
		log_info(&c->agent->log, "container '%s', exec: %s is ignored", c->id, ignored.items[i]);
	words_free(&ignored);
	if (r == CCHV_OK)
		r = process_bounds_copy(c->spec, &p->bounds, err);
	if (r == CCHV_OK)
		r = open_namespaces(c, p, kind, err);
	if (r == CCHV_OK)
		r = open_cgroup(c, &p->cgroup_fd, kind, err);
	p->plan.cgroup_fd = p->cgroup_fd;
	p->plan.terminal = p->spec.terminal;
	p->plan.rows = p->spec.rows;
	p->plan.cols = p->spec.cols;
	return r;
}

static int plan_exec(struct container *c, const struct json *params, struct process_plan **ret_plan,
                     const char **kind, cchv_error **err)
{
	const struct json *process = json_get(params, "process");
	struct container_plan *p;
	int r;

	if (json_get_type(process) != JSON_OBJECT)
		return fail(kind, err, "spec", EINVAL, "'process' is missing");
	if ((c->phase != CONTAINER_CREATED && c->phase != CONTAINER_RUNNING) || c->init_ended)
		return fail(kind, err, "container", ESRCH, "container '%s' does not run", c->id);
	if (c->paused)
		return fail(kind, err, "container", EBUSY, "container '%s' is paused", c->id);
	p = plan_new(c, &exec_ops, err);
	if (!p)
		return CCHV_ERR_NOMEM;
	r = fill_exec(c, process, p, kind, err);
	if (r < 0) {
		plan_free(&p->plan);
		return r;
	}
	*ret_plan = &p->plan;
	return CCHV_OK;
}

/*
 * What it writes counts as the container's own. In a paused one it would be stopped with the rest, so there it counts
 * as nobody's, and so it does when init has ended.
 */
static int plan_archive(struct container *c, const struct json *params, struct process_plan **ret_plan,
                        const char **kind, cchv_error **err)
{
	cleanup_close int cgroup = -1;
	int r = c->paused || c->init_ended ? CCHV_OK : open_cgroup(c, &cgroup, kind, err);

	return r < 0 ? r : archive_plan_new(json_get(params, "archive"), c->mnt_fd, c->upper_fd, cgroup, ret_plan, kind,
	                                    err);
}

int container_plan_new(struct agent *agent, const char *container, const char *exec,
                       const struct json *params, struct process_plan **ret_plan, const char **kind,
                       cchv_error **err)
{
	struct container *c = container_find(agent, container);

	if (!c)
		return fail(kind, err, "container", ENOENT, "there is no container '%s'", container);
	if (c->phase == CONTAINER_CREATING || c->phase == CONTAINER_DELETING || c->root_fd < 0)
		return fail(kind, err, "container", EBUSY, "container '%s' is being created or deleted",
		            c->id);
	if (json_get(params, "archive"))
		return plan_archive(c, params, ret_plan, kind, err);
	if (!*exec)
		return plan_init(c, params, ret_plan, kind, err);
	return plan_exec(c, params, ret_plan, kind, err);
}
