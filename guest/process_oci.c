/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From root in a container to the program: see process_oci.h. Runs in a child of the one-threaded agent, so it may
 * allocate. Enters: a parsed process. Leaves: execve(), or the report of what could not be.
 */
#include "guest/process_oci.h"

#include "guest/passwd.h"
#include "guest/process_caps.h"
#include "guest/process_sched.h"
#include "guest/rootpath.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Who the process becomes. */
struct identity {
	uint32_t uid, gid;
	const uint32_t *groups;
	size_t group_count;
	char *home;
};

int process_bounds_copy(const struct spec *spec, struct process_bounds *ret_bounds, cchv_error **err)
{
	struct process_bounds bounds = {
		.has_personality = spec->has_personality,
		.personality = spec->personality,
		.memory_policy = spec->memory_policy,
		.seccomp = spec->seccomp,
	};

	if (spec->seccomp.code) {
		bounds.seccomp.code = mem_memdup(spec->seccomp.code,
		                                 spec->seccomp.length * sizeof(*spec->seccomp.code));
		if (!bounds.seccomp.code)
			return err_nomem(err);
	}
	*ret_bounds = bounds;
	return CCHV_OK;
}

void process_bounds_free(struct process_bounds *bounds)
{
	profile_free(&bounds->seccomp);
}

int process_oci_set_oom_score(const struct process_spec *spec)
{
	cleanup_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", spec->has_oom_score_adj ? spec->oom_score_adj : 0);

	return fd < 0 || write(fd, text, (size_t)len) != len ? -1 : 0;
}

static void __attribute__((noreturn, format(printf, 4, 5)))
report(const struct process_io *io, int error_number, const char *kind, const char *format, ...)
{
	char text[232];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	process_report(io, error_number, kind, text);
}

static void set_limits(const struct process_spec *spec, const struct process_bounds *bounds,
                       const struct process_io *io)
{
	for (int kind = 0; kind < RLIMIT_KINDS; kind++)
		if (spec->rlimit_set[kind] && setrlimit((__rlimit_resource_t)kind, &spec->rlimits[kind]) < 0)
			report(io, errno, "spec", "process.rlimits: limit %d", kind);
	if (process_sched_apply(spec) < 0)
		report(io, errno, "spec", "process.scheduler, ioPriority or execCPUAffinity");
	if (bounds->has_personality && personality(bounds->personality) < 0)
		report(io, errno, "spec", "linux.personality");
	if (bounds->memory_policy.set && syscall(SYS_set_mempolicy, bounds->memory_policy.mode,
	                                         bounds->memory_policy.nodes, CPU_AFFINITY_CPUS + 1) < 0)
		report(io, errno, "spec", "linux.memoryPolicy");
	umask(spec->has_umask ? spec->umask : 022);
	/* Keys of whoever started the agent, or of another container, are not the process's. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS && errno != EPERM)
		report(io, errno, "other", "session keyring");
}

static void find_identity(const struct process_spec *spec, int root_fd, struct identity *id,
                          const struct process_io *io)
{
	cchv_error *err = NULL;
	struct passwd_user user = { 0 };

	*id = (struct identity){ spec->uid, spec->gid, spec->groups, spec->group_count, NULL };
	if (spec->username) {
		int r = passwd_lookup(root_fd, spec->username, &user, &err);

		if (r < 0)
			report(io, r == CCHV_ERR_NOT_FOUND ? ENOENT : EINVAL, "user", "%s",
			       cchv_error_message(err));
		id->uid = user.uid;
		id->gid = user.gid;
		id->home = user.home;
		if (!spec->group_count) {
			id->groups = user.groups;
			id->group_count = user.group_count;
		}
	} else if (passwd_home(root_fd, spec->uid, &id->home, &err) < 0) {
		report(io, EIO, "user", "%s", cchv_error_message(err));
	}
}

/* A missing directory is made for the user, if it may be. 0, or -1 with errno. */
static int enter_cwd(const struct process_spec *spec, int make, int root_fd, const struct identity *id)
{
	cleanup_close int fd = rootpath_open(root_fd, spec->cwd, O_PATH | O_DIRECTORY);

	if (fd < 0 && errno == ENOENT && make)
		fd = rootpath_make_dirs(root_fd, spec->cwd, 0755, id->uid, id->gid);
	return fd < 0 ? -1 : fchdir(fd);
}

/* So that the process can open /dev/stdout again, as whoever it is. */
static void own_streams(const struct identity *id)
{
	for (int fd = 0; fd < 3; fd++) {
		struct stat st;

		if (fstat(fd, &st) < 0 || st.st_uid == id->uid)
			continue;
		if (S_ISFIFO(st.st_mode) || isatty(fd))
			(void)!fchown(fd, id->uid, st.st_gid);
	}
}

/* Filters and identity. The profile comes last where no_new_privs lets it, so that it sees none of our own calls. */
static void confine(const struct process_spec *spec, const struct process_bounds *bounds,
                    const struct identity *id, const struct process_io *io)
{
	if (profile_install_own() < 0)
		report(io, errno, "other", "seccomp: the agent's own filter");
	if (spec->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		report(io, errno, "spec", "process.noNewPrivileges");
	if (process_drop_bounding(spec) < 0)
		report(io, errno, "spec", "process.capabilities.bounding");
	if (bounds->seccomp.code && !spec->no_new_privileges && profile_install(&bounds->seccomp) < 0)
		report(io, errno, "spec", "linux.seccomp");
	if (process_set_ids(id->uid, id->gid, id->groups, id->group_count) < 0)
		report(io, errno, "user", "become user %u, group %u", id->uid, id->gid);
	if (process_set_caps(spec) < 0)
		report(io, errno, "spec", "process.capabilities");
}

void process_oci_finish(const struct process_spec *spec, const struct process_bounds *bounds, int root_fd,
                        const struct process_io *io)
{
	struct program program = spec->program;
	struct identity id;
	int cwd_error;

	set_limits(spec, bounds, io);
	find_identity(spec, root_fd, &id, io);
	own_streams(&id);
	if (program_default_env(&program, "HOME", id.home ? id.home : "/") < 0)
		report(io, ENOMEM, "other", "prepare '%s'", program.argv[0]);
	/* Root may enter what the user may not, and the other way round on a file system of somebody else. */
	cwd_error = enter_cwd(spec, bounds->make_cwd, root_fd, &id) < 0 ? errno : 0;
	if (cwd_error && cwd_error != EACCES && cwd_error != EPERM)
		report(io, cwd_error, "cwd", "working directory '%s'", spec->cwd);
	confine(spec, bounds, &id, io);
	if (cwd_error && enter_cwd(spec, bounds->make_cwd, root_fd, &id) < 0)
		report(io, errno, "cwd", "working directory '%s'", spec->cwd);
	if (bounds->seccomp.code && spec->no_new_privileges && profile_install(&bounds->seccomp) < 0)
		report(io, errno, "spec", "linux.seccomp");
	process_child_exec((const char *const *)program.candidates, program.argv, program.envp);
	report(io, errno, "program", "run '%s'", program.argv[0]);
}
