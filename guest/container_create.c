/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a container. Enters: container.create. Leaves: a cgroup with its limits and an init that stands ready in its
 * namespaces, or one error that names what failed, and nothing else.
 */
#include "guest/container_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/container_init.h"
#include "guest/device.h"
#include "guest/device_policy.h"
#include "guest/power.h"
#include "guest/shared_tmpfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CREATE_MS 120000
#define MAX_DISKS 64

static void failed(struct container *c, int r, const char *kind, cchv_error *err)
{
	container_kill_all(c);
	container_finish(c, r, kind, err);
}

static const char *kind_constant(const char *kind)
{
	static const char *const kinds[] = { "program", "cwd",  "user",   "mount",     "rootfs",
		                             "device",  "spec", "stream", "container", "exec" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i], kind) == 0)
			return kinds[i];
	return "other";
}

/* A disk that is mapped into the container may be opened there. */
static void add_disk(const char *address, dev_t *disks, size_t *count)
{
	cleanup_free char *node = NULL;
	struct stat st;

	if (*count < MAX_DISKS && address && device_find(address, DEVICE_DISK, &node, NULL, NULL) == 0 &&
	    stat(node, &st) == 0)
		disks[(*count)++] = st.st_rdev;
}

static int set_device_policy(struct container *c, cchv_error **err)
{
	dev_t disks[MAX_DISKS];
	size_t count = 0;

	if (!c->cgroup)
		return CCHV_OK;
	for (size_t i = 0; i < c->spec->device_count; i++)
		add_disk(c->spec->devices[i].device, disks, &count);
	for (size_t i = 0; i < c->spec->mount_count; i++)
		if (c->spec->mounts[i].map == MAP_BLOCK)
			add_disk(c->spec->mounts[i].device, disks, &count);
	return device_policy_attach(cgroup_fd(c->cgroup), c->spec, disks, count, err);
}

static int has_ended(const struct container *c)
{
	struct pollfd fd = { .fd = c->pidfd, .events = POLLIN };

	return poll(&fd, 1, 0) != 0;
}

/* Init stands ready. Its mount namespace is kept, so that files can be fetched after its end. */
static int take_ready(struct container *c, const int *fds, size_t count, const char **kind, cchv_error **err)
{
	char path[48];

	c->root_fd = fds[0];
	agent_make_private(&c->root_fd);
	if (count > 1) {
		c->upper_fd = fds[1];
		agent_make_private(&c->upper_fd);
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)c->pid);
	c->mnt_fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Looked at after the open: the pid was still init's then. */
	if (c->mnt_fd < 0 || has_ended(c))
		return fail(kind, err, "container", ESRCH, "init of '%s' ended", c->id);
	agent_make_private(&c->mnt_fd);
	*kind = "device";
	return set_device_policy(c, err);
}

/* What the child could tell before it was our own code's turn (process.c's words). */
static int early_failure(struct process_failure *failure, const char **kind, cchv_error **err)
{
	failure->what[sizeof(failure->what) - 1] = '\0';
	failure->kind[sizeof(failure->kind) - 1] = '\0';
	return fail(kind, err, kind_constant(failure->kind), failure->error_number, "%s", failure->what);
}

static int read_ready(struct container *c, const char **kind, cchv_error **err)
{
	union {
		struct init_ready ready;
		struct process_failure failure;
	} message;
	size_t count = 2;
	int fds[2] = { -1, -1 };
	ssize_t n = fd_recv_with_fds(c->control_fd, &message, sizeof(message), fds, &count);

	if (n == sizeof(message.failure))
		return early_failure(&message.failure, kind, err);
	if (n != sizeof(message.ready))
		return fail(kind, err, "container", ESRCH, "init of '%s' ended while it was made", c->id);
	if (message.ready.code == CCHV_OK && count > 0)
		return take_ready(c, fds, count, kind, err);
	message.ready.message[sizeof(message.ready.message) - 1] = '\0';
	message.ready.kind[sizeof(message.ready.kind) - 1] = '\0';
	*kind = kind_constant(message.ready.kind);
	return err_set_from(err, message.ready.code, CCHV_ORIGIN_SYSTEM, message.ready.error_number, "%s",
	                    message.ready.message);
}

static void on_control(uint32_t events, void *user_data)
{
	struct container *c = user_data;
	cchv_error *err = NULL;
	const char *kind = "other";
	int r;

	loop_source_free(steal(&c->control_source));
	loop_timer_set(c->timer, CLOCK_NEVER);
	r = read_ready(c, &kind, &err);
	if (r < 0) {
		failed(c, r, kind, err);
		return;
	}
	c->phase = CONTAINER_CREATED;
	ticket_done(c->agent, steal(&c->ticket), CCHV_OK, NULL, NULL, NULL);
}

static void on_timer(void *user_data)
{
	struct container *c = user_data;
	cchv_error *err = NULL;
	const char *kind;
	int r = fail(&kind, &err, "container", ETIMEDOUT, "container '%s' was not made in %d s", c->id,
	             CREATE_MS / 1000);

	failed(c, r, kind, err);
}

static int make_cgroup(struct container *c, const char **kind, cchv_error **err)
{
	const char *root = container_cgroup_root(c->agent, err);
	int r;

	*kind = "container";
	if (!root && !*err && c->agent->is_init)
		return fail(kind, err, "container", ENOSYS, "no cgroup2 is mounted");
	if (!root)
		return *err ? CCHV_ERR_SYSTEM : CCHV_OK;
	r = cgroup_new(root, c->id, &c->cgroup, err);
	if (r < 0)
		return r;
	*kind = "spec";
	r = cgroup_apply(c->cgroup, &c->spec->resources, err);
	if (r == CCHV_OK)
		container_oom_watch(c);
	return r;
}

/* The namespaces of other containers, as descriptors for the child. */
static int open_shared(struct container *c, struct container_init *init, const char **kind, cchv_error **err)
{
	static const char *const names[NS_COUNT] = {
		[NS_PID] = "pid", [NS_NET] = "net",       [NS_MOUNT] = "mnt", [NS_IPC] = "ipc",
		[NS_UTS] = "uts", [NS_CGROUP] = "cgroup", [NS_TIME] = "time",
	};

	for (size_t i = 0; i < NS_COUNT; i++) {
		const char *id = c->spec->join[i];
		const struct container *other = id ? container_find(c->agent, id) : NULL;
		char path[48];

		if (!id)
			continue;
		if (!other || other->init_ended || other->phase == CONTAINER_CREATING || other == c)
			return fail(kind, err, "spec", ENOENT,
			            "linux.namespaces: container '%s' does not run", id);
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)other->pid, names[i]);
		init->join_fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		if (init->join_fds[i] < 0)
			return fail(kind, err, "spec", errno, "linux.namespaces: '%s' of container '%s'",
			            names[i], id);
	}
	return CCHV_OK;
}

static int spawn(struct container *c, const char **kind, cchv_error **err)
{
	static const int at_birth = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET;
	struct process_io io = { .stdio = { -1, -1, -1 }, .report_fd = -1, .go_fd = -1 };
	struct container_init init = { .agent = c->agent, .container = c->id, .spec = c->spec };
	int fds[2], r;

	container_init_plan(&init);
	init.plan.clone_flags = (uint64_t)(c->spec->new_namespaces & at_birth);
	init.plan.terminal = c->spec->process.terminal;
	if (c->cgroup) {
		init.cgroup_path = cgroup_path(c->cgroup);
		init.plan.cgroup_fd = cgroup_fd(c->cgroup);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return fail(kind, err, "other", errno, "socketpair");
	c->control_fd = fds[0];
	agent_make_private(&c->control_fd);
	io.report_fd = fds[1];
	r = open_shared(c, &init, kind, err);
	init.plan.pidns_fd = init.join_fds[NS_PID];
	if (r == CCHV_OK)
		r = process_fork(c->agent, &init.plan, &io, &c->pid, kind, err);
	for (size_t i = 0; i < NS_COUNT; i++)
		fd_close(&init.join_fds[i]);
	fd_close(&io.report_fd);
	return r;
}

static int start(struct container *c, const char **kind, cchv_error **err)
{
	int r = make_cgroup(c, kind, err);

	if (r == CCHV_OK) {
		*kind = "mount";
		r = shared_tmpfs_hold(c->id, c->spec, err);
	}
	if (r == CCHV_OK)
		r = spawn(c, kind, err);
	if (r < 0)
		return r;
	*kind = "other";
	r = container_watch_init(c, err);
	if (r == CCHV_OK)
		r = loop_add(c->agent->loop, c->control_fd, EPOLLIN, on_control, c, &c->control_source, err);
	if (r == CCHV_OK)
		r = loop_timer_new(c->agent->loop, on_timer, c, &c->timer, err);
	if (r == CCHV_OK)
		loop_timer_set(c->timer, clock_deadline(CREATE_MS));
	return r;
}

int container_create(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct spec *spec = NULL;
	struct container *c;
	cchv_error *err = NULL;
	const char *id, *kind = "other";
	int r = request_get_container(params, &id, reply);

	if (r < 0)
		return r;
	if (!*id)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'container' is empty");
	if (container_find(agent, id))
		return fail(&reply->kind, &reply->err, "container", EEXIST, "container '%s' exists", id);
	/* One that was called so, and was renamed, has a cgroup of that name still. */
	for (const struct container *other = agent->containers->list; other; other = other->next)
		if (other->cgroup && strcmp(strrchr(cgroup_path(other->cgroup), '/') + 1, id) == 0)
			return fail(&reply->kind, &reply->err, "container", EEXIST,
			            "container '%s' had that id before it was renamed", other->id);
	if (power_is_off(agent))
		return fail(&reply->kind, &reply->err, "other", ENOTCONN, "the VM is being shut down");
	r = spec_parse(params, !agent->is_init, &spec, &reply->kind, &reply->err);
	if (r < 0)
		return r;
	c = container_new(agent, id, &reply->err);
	if (!c) {
		spec_free(spec);
		return CCHV_ERR_NOMEM;
	}
	c->spec = spec;
	for (size_t i = 0; i < spec->ignored.count; i++)
		log_info(&agent->log, "container '%s': %s is ignored", id, spec->ignored.items[i]);
	c->ticket = reply_defer(reply);
	r = start(c, &kind, &err);
	if (r < 0)
		failed(c, r, kind, err);
	return REPLY_LATER;
}
