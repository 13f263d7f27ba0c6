/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of the bare guest: see process_bare.h. Enters: an OCI process object. Leaves: a plan whose child is a
 * process beside the agent. What belongs to containers (capabilities, seccomp, labels) is refused here by name: a
 * setting that is silently ignored is a lie.
 */
#include "guest/process_bare.h"

#include "base/fd.h"
#include "guest/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GROUPS 1024

struct bare_plan {
	struct process_plan plan;
	struct program program;
	char *cwd;
	int set_ids;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	size_t group_count;
	mode_t umask;
	int no_new_privs;
};

static void bare_free(struct process_plan *plan)
{
	struct bare_plan *b = container_of(plan, struct bare_plan, plan);

	program_free(&b->program);
	free(b->cwd);
	free(b->groups);
	free(b);
}

static void __attribute__((noreturn)) report_name(const struct process_io *io, const char *kind, const char *verb,
                                                  const char *name)
{
	char what[sizeof(((struct process_failure *)0)->what)] = { 0 };
	int error_number = errno;
	size_t n = strlen(verb);

	memcpy(what, verb, n);
	what[n++] = '\'';
	strncpy(what + n, name, sizeof(what) - n - 2);
	what[strlen(what)] = '\'';
	process_report(io, error_number, kind, what);
}

static void __attribute__((noreturn)) bare_child(const struct process_plan *plan, const struct process_io *io)
{
	const struct bare_plan *b = container_of(plan, struct bare_plan, plan);
	struct process_io own = *io;

	if (process_child_begin(plan, &own) < 0)
		process_report(&own, errno, "other", "set up descriptors");
	umask(b->umask);
	if (chdir(b->cwd) < 0)
		report_name(&own, "cwd", "chdir ", b->cwd);
	if (b->set_ids && (setgroups(b->group_count, b->groups) < 0 || setresgid(b->gid, b->gid, b->gid) < 0 ||
	                   setresuid(b->uid, b->uid, b->uid) < 0))
		process_report(&own, errno, "user", "set user and groups");
	if (b->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		process_report(&own, errno, "other", "no_new_privs");
	process_child_exec((const char *const *)b->program.candidates, b->program.argv, b->program.envp);
	report_name(&own, "program", "run ", b->program.argv[0]);
}

static const struct process_ops bare_ops = {
	.child = bare_child,
	.free = bare_free,
};

static int get_id(const struct json *user, const char *key, uint32_t *ret, const char **kind, cchv_error **err)
{
	uint64_t value = *ret;

	if (json_get_u64(user, key, &value, NULL) < 0 || value >= UINT32_MAX)
		return fail(kind, err, "user", EINVAL, "process.user.%s is no id", key);
	*ret = (uint32_t)value;
	return CCHV_OK;
}

static int get_groups(const struct json *list, struct bare_plan *b, const char **kind, cchv_error **err)
{
	size_t count = json_count(list);

	if (count > MAX_GROUPS)
		return fail(kind, err, "user", EINVAL, "process.user.additionalGids: more than %d", MAX_GROUPS);
	b->groups = mem_realloc_array(NULL, count + 1, sizeof(*b->groups));
	if (!b->groups)
		return err_nomem(err);
	for (size_t i = 0; i < count; i++) {
		uint64_t gid;

		if (json_as_u64(json_at(list, i), &gid) < 0 || gid >= UINT32_MAX)
			return fail(kind, err, "user", EINVAL, "process.user.additionalGids[%zu] is no id", i);
		b->groups[b->group_count++] = (gid_t)gid;
	}
	return CCHV_OK;
}

/* Is that who the agent is, in all its ids and groups? */
static int is_agent(const struct bare_plan *b)
{
	uid_t uid[3];
	gid_t gid[3];

	if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
		return 0;
	for (size_t i = 0; i < 3; i++)
		if (uid[i] != b->uid || gid[i] != b->gid)
			return 0;
	return b->group_count == 0 && getgroups(0, NULL) == 0;
}

static int get_user(const struct json *user, struct bare_plan *b, const char **kind, cchv_error **err)
{
	uint32_t mask = 022;
	int r;

	r = get_id(user, "uid", &b->uid, kind, err);
	if (r == 0)
		r = get_id(user, "gid", &b->gid, kind, err);
	if (r == 0)
		r = get_id(user, "umask", &mask, kind, err);
	b->umask = mask & 07777;
	if (r == 0)
		r = get_groups(json_get(user, "additionalGids"), b, kind, err);
	b->set_ids = r == 0 && user && !is_agent(b);
	return r;
}

static int refuse_container_fields(const struct json *process, const char **kind, cchv_error **err)
{
	static const char *const names[] = { "capabilities", "rlimits", "apparmorProfile", "selinuxLabel",
	                                     "oomScoreAdj", "scheduler", "ioPriority", "execCPUAffinity" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (json_get(process, names[i]))
			return fail(kind, err, "spec", EOPNOTSUPP, "process.%s outside of a container", names[i]);
	return CCHV_OK;
}

static int get_cwd(const struct json *process, char **ret_cwd, const char **kind, cchv_error **err)
{
	size_t len = 1;
	int r = json_get_bytes(process, "cwd", ret_cwd, &len, NULL);

	if (r == 0)
		*ret_cwd = mem_strdup("/");
	if (r == CCHV_ERR_NOMEM || (r == 0 && !*ret_cwd))
		return err_nomem(err);
	if (r < 0 || (*ret_cwd)[0] != '/' || strlen(*ret_cwd) != len)
		return fail(kind, err, "cwd", EINVAL, "process.cwd is no absolute path");
	return CCHV_OK;
}

static int fill(const struct json *process, struct bare_plan *b, const char **kind, cchv_error **err)
{
	int r = refuse_container_fields(process, kind, err);

	if (r == 0)
		r = process_plan_terminal(&b->plan, process, kind, err);
	if (r == 0)
		r = get_user(json_get(process, "user"), b, kind, err);
	if (r == 0)
		r = program_new(process, &b->program, kind, err);
	if (r < 0)
		return r;
	if (json_get_bool(process, "noNewPrivileges", &b->no_new_privs, NULL) < 0)
		return fail(kind, err, "spec", EINVAL, "process.noNewPrivileges is no boolean");
	r = get_cwd(process, &b->cwd, kind, err);
	if (r < 0)
		return r;
	if (b->plan.terminal && program_default_env(&b->program, "TERM", "xterm") < 0)
		return err_nomem(err);
	return CCHV_OK;
}

/*
 * Whether that path leads nowhere but through the agent's own root, which lies in memory. Beyond may be a mount whose
 * server sleeps. That nothing is there is known at once too.
 */
static int is_at_hand(const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV };
	cleanup_close int fd = -1;

	if (strcmp(path, "/") == 0)
		return 1;
	if (path[0] != '/')
		return 0;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	return fd >= 0 || errno == ENOENT || errno == ENOTDIR;
}

/* See process.h: nothing may keep the child waiting, and it must stay who it is. */
static int can_borrow(const struct bare_plan *b)
{
	if (b->set_ids || !is_at_hand(b->cwd))
		return 0;
	for (char **c = b->program.candidates; *c; c++)
		if (!is_at_hand(*c))
			return 0;
	return 1;
}

int process_bare_new(const struct json *params, struct process_plan **ret_plan, const char **kind, cchv_error **err)
{
	const struct json *process = json_get(params, "process");
	struct bare_plan *b;
	int r;

	if (json_get(params, "archive"))
		return fail(kind, err, "spec", EOPNOTSUPP, "an archive outside of a container");
	if (json_get_type(process) != JSON_OBJECT)
		return fail(kind, err, "spec", EINVAL, "'process' is missing");
	b = mem_zalloc(sizeof(*b));
	if (!b)
		return err_nomem(err);
	process_plan_init(&b->plan, &bare_ops);
	r = fill(process, b, kind, err);
	if (r < 0) {
		bare_free(&b->plan);
		return r;
	}
	b->plan.borrows = can_borrow(b);
	*ret_plan = &b->plan;
	return CCHV_OK;
}
