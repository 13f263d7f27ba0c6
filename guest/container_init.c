/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiting init: see container_init.h. Runs in a child of the one-threaded agent, so it may allocate and block.
 * Enters: a checked spec. Leaves: a message, and later the program.
 */
#include "guest/container_init.h"

#include "guest/container_build.h"
#include "guest/mount_fd.h"
#include "guest/passwd.h"
#include "guest/process_oci.h"
#include "guest/rootpath.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int make_private(cchv_error **err)
{
	/* Nothing that happens to the container's mounts goes back to the agent's, or the other way. */
	if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "private mounts");
	return CCHV_OK;
}

/* A user that the image does not know should be heard of before anybody starts it. */
static int check_user(struct build *build, cchv_error **err)
{
	const char *name = build->spec->process.username;
	struct passwd_user user = { 0 };
	int r;

	if (!name)
		return CCHV_OK;
	build->kind = "user";
	r = passwd_lookup(build->root_fd, name, &user, err);
	passwd_user_free(&user);
	return r;
}

/* 0, or an errno; what cannot be told before its start is left to that. */
static int look_for_program(const struct build *build, const char *candidate)
{
	cleanup_free char *joined = NULL;
	cleanup_close int fd = -1;
	struct stat st;

	if (candidate[0] != '/')
		joined = mem_printf("%s/%s", build->spec->process.cwd, candidate);
	fd = rootpath_open(build->root_fd, joined ? joined : candidate, O_PATH);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? errno : 0;
	if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && st.st_mode & 0111))
		return 0;
	return EACCES;
}

/* As the start would find it: the first that can be run, or else the reason of one that is there. */
static int check_program(struct build *build, cchv_error **err)
{
	const struct program *program = &build->spec->process.program;
	int reason = ENOENT;

	if (!build->spec->check_program || !build->spec->has_process)
		return CCHV_OK;
	build->kind = "program";
	for (char **candidate = program->candidates; *candidate; candidate++) {
		int error_number = look_for_program(build, *candidate);

		if (!error_number)
			return CCHV_OK;
		if (error_number == EACCES)
			reason = EACCES;
	}
	return err_set(err, err_code_of_errno(reason), reason, "run '%s'", program->argv[0]);
}

static int build_all(struct build *build, const struct container_init *init, cchv_error **err)
{
	static int (*const steps[])(struct build *, cchv_error **) = {
		build_rootfs, build_mounts, build_devices, build_sysctl, build_paths, check_user, check_program,
		build_enter_root,
	};
	int r = make_private(err);

	if (r == CCHV_OK)
		r = build_namespaces(build, init->join_fds, err);
	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(steps); i++)
		r = steps[i](build, err);
	return r;
}

static void tell(int control, const struct build *build, int code, cchv_error *err)
{
	struct init_ready ready = { .code = code };
	const int fds[] = { build->root_fd, build->upper_fd };
	size_t count = code < 0 ? 0 : build->upper_fd < 0 ? 1 : 2;

	if (code < 0) {
		ready.error_number = cchv_error_errno(err);
		strncpy(ready.kind, build->kind, sizeof(ready.kind) - 1);
		strncpy(ready.message, cchv_error_message(err), sizeof(ready.message) - 1);
	}
	/* Nobody to tell means that the agent has given up on us. */
	if (fd_send_with_fds(control, &ready, sizeof(ready), count ? fds : NULL, count) < 0 || code < 0)
		_exit(127);
}

/* Its streams, and the pipe for what fails from here. */
static void wait_for_go(int control, struct process_io *io)
{
	size_t count = INIT_GO_FDS;
	int fds[INIT_GO_FDS];
	struct init_go go;

	if (fd_recv_with_fds(control, &go, sizeof(go), fds, &count) != sizeof(go) || count != INIT_GO_FDS)
		_exit(127);
	for (int i = 0; i < 3; i++)
		io->stdio[i] = fds[i];
	io->report_fd = fds[3];
	io->go_fd = -1;
}

/* The container's console is init's terminal. */
static int make_console(int root_fd, int slave, cchv_error **err)
{
	cleanup_close int target = rootpath_make_target(root_fd, "/dev/console", 0);
	cleanup_close int mount_fd = -1;

	if (target < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "make '/dev/console'");
	mount_fd = mount_fd_bind(slave, 0, "mount '/dev/console'", err);
	return mount_fd < 0 ? mount_fd : mount_fd_attach(mount_fd, target, "mount '/dev/console'", err);
}

static void __attribute__((noreturn))
become_program(const struct container_init *init, int root_fd, struct process_io *io)
{
	struct process_bounds bounds;
	cchv_error *err = NULL;

	if (init->plan.terminal && make_console(root_fd, io->stdio[0], &err) < 0)
		process_report(io, cchv_error_errno(err), "mount", cchv_error_message(err));
	if (process_child_begin(&init->plan, io) < 0)
		process_report(io, errno, "other", "session and streams of init");
	if (process_bounds_copy(init->spec, &bounds, &err) < 0)
		process_report(io, ENOMEM, "other", "bounds of init");
	bounds.make_cwd = 1;
	process_oci_finish(&init->spec->process, &bounds, root_fd, io);
}

static void __attribute__((noreturn))
init_child(const struct process_plan *plan, const struct process_io *given)
{
	const struct container_init *init = container_of(plan, struct container_init, plan);
	struct build build = {
		.agent = init->agent,
		.container = init->container,
		.spec = init->spec,
		.cgroup_path = init->cgroup_path,
		.stage_fd = -1,
		.root_fd = -1,
		.upper_fd = -1,
		.kind = "container",
	};
	struct process_io io = *given;
	int control = given->report_fd;
	cchv_error *err = NULL;
	int r;

	agent_close_private();
	/* A file made for a mount or a device has the mode that is asked for. */
	umask(022);
	r = process_oci_set_oom_score(&init->spec->process);
	if (r < 0)
		r = err_set(&err, CCHV_ERR_SYSTEM, errno, "process.oomScoreAdj");
	else
		r = build_all(&build, init, &err);
	tell(control, &build, r, err);
	wait_for_go(control, &io);
	become_program(init, build.root_fd, &io);
}

static void init_free(struct process_plan *plan)
{
	/* It lies on the stack of who creates the container. */
}

void container_init_plan(struct container_init *init)
{
	static const struct process_ops ops = { .child = init_child, .free = init_free };

	process_plan_init(&init->plan, &ops);
	for (size_t i = 0; i < NS_COUNT; i++)
		init->join_fds[i] = -1;
}
