/* SPDX-License-Identifier: Apache-2.0 */
/* The process object of a specification: see process_spec.h. Enters: JSON from the host. Leaves: numbers. */
#include "guest/process_spec.h"

#include "guest/process_sched.h"

#include <string.h>
#include <strings.h>

static const char *const capability_names[] = {
	"CHOWN",
	"DAC_OVERRIDE",
	"DAC_READ_SEARCH",
	"FOWNER",
	"FSETID",
	"KILL",
	"SETGID",
	"SETUID",
	"SETPCAP",
	"LINUX_IMMUTABLE",
	"NET_BIND_SERVICE",
	"NET_BROADCAST",
	"NET_ADMIN",
	"NET_RAW",
	"IPC_LOCK",
	"IPC_OWNER",
	"SYS_MODULE",
	"SYS_RAWIO",
	"SYS_CHROOT",
	"SYS_PTRACE",
	"SYS_PACCT",
	"SYS_ADMIN",
	"SYS_BOOT",
	"SYS_NICE",
	"SYS_RESOURCE",
	"SYS_TIME",
	"SYS_TTY_CONFIG",
	"MKNOD",
	"LEASE",
	"AUDIT_WRITE",
	"AUDIT_CONTROL",
	"SETFCAP",
	"MAC_OVERRIDE",
	"MAC_ADMIN",
	"SYSLOG",
	"WAKE_ALARM",
	"BLOCK_SUSPEND",
	"AUDIT_READ",
	"PERFMON",
	"BPF",
	"CHECKPOINT_RESTORE",
};

int capability_number(const char *name)
{
	if (strncasecmp(name, "CAP_", 4) == 0)
		name += 4;
	for (size_t i = 0; i < ARRAY_LEN(capability_names); i++)
		if (strcasecmp(name, capability_names[i]) == 0)
			return (int)i;
	return -1;
}

static int note(struct words *ignored, const char *where, const char *key, cchv_error **err)
{
	return words_add(ignored, field_join(where, key).path) < 0 ? err_nomem(err) : CCHV_OK;
}

static int parse_capabilities(const struct json *process, const char *where, struct process_spec *spec,
                              struct words *ignored, cchv_error **err)
{
	static const char *const members[CAP_SETS] = { "bounding", "effective", "permitted", "inheritable",
		                                       "ambient" };
	struct field_place place = field_join(where, "capabilities");
	const struct json *caps = NULL;
	int r = field_object(process, where, "capabilities", &caps, err);

	for (size_t set = 0; r >= 0 && set < CAP_SETS; set++) {
		struct words names = { NULL, 0 };

		r = field_words(caps, place.path, members[set], &names, err);
		for (size_t i = 0; r >= 0 && i < names.count; i++) {
			int number = capability_number(names.items[i]);

			/* One that this kernel does not know cannot be granted: told, not refused. */
			if (number >= 0)
				spec->caps[set] |= 1ULL << number;
			else
				r = note(ignored, field_join(place.path, members[set]).path, names.items[i],
				         err);
		}
		words_free(&names);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_rlimits(const struct json *process, const char *where, struct process_spec *spec,
                         cchv_error **err)
{
	static const char *const kinds[RLIMIT_KINDS] = {
		[RLIMIT_CPU] = "RLIMIT_CPU",           [RLIMIT_FSIZE] = "RLIMIT_FSIZE",
		[RLIMIT_DATA] = "RLIMIT_DATA",         [RLIMIT_STACK] = "RLIMIT_STACK",
		[RLIMIT_CORE] = "RLIMIT_CORE",         [RLIMIT_RSS] = "RLIMIT_RSS",
		[RLIMIT_NPROC] = "RLIMIT_NPROC",       [RLIMIT_NOFILE] = "RLIMIT_NOFILE",
		[RLIMIT_MEMLOCK] = "RLIMIT_MEMLOCK",   [RLIMIT_AS] = "RLIMIT_AS",
		[RLIMIT_LOCKS] = "RLIMIT_LOCKS",       [RLIMIT_SIGPENDING] = "RLIMIT_SIGPENDING",
		[RLIMIT_MSGQUEUE] = "RLIMIT_MSGQUEUE", [RLIMIT_NICE] = "RLIMIT_NICE",
		[RLIMIT_RTPRIO] = "RLIMIT_RTPRIO",     [RLIMIT_RTTIME] = "RLIMIT_RTTIME",
	};
	const struct json *list = NULL, *item;
	int r = field_array(process, where, "rlimits", &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;
		const char *type = NULL;
		uint64_t soft = 0, hard = 0;
		int kind = 0;

		r = field_item(list, where, "rlimits", i, &place, &item, err);
		if (r >= 0)
			r = field_required(field_text(item, place.path, "type", &type, err), place.path,
			                   "type", err);
		if (r >= 0)
			r = field_required(field_u64(item, place.path, "soft", &soft, err), place.path,
			                   "soft", err);
		if (r >= 0)
			r = field_required(field_u64(item, place.path, "hard", &hard, err), place.path,
			                   "hard", err);
		if (r < 0)
			break;
		while (kind < RLIMIT_KINDS && strcmp(kinds[kind], type) != 0)
			kind++;
		if (kind == RLIMIT_KINDS)
			return field_bad(place.path, "type", err, "unknown limit '%s'", type);
		if (spec->rlimit_set[kind])
			return field_bad(place.path, "type", err, "'%s' is there twice", type);
		if (soft > hard)
			return field_bad(place.path, "soft", err, "over the hard limit");
		spec->rlimit_set[kind] = 1;
		spec->rlimits[kind] = (struct rlimit){ .rlim_cur = soft, .rlim_max = hard };
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_groups(const struct json *user, const char *where, struct process_spec *spec,
                        cchv_error **err)
{
	const struct json *list = NULL;
	int r = field_array(user, where, "additionalGids", &list, err);

	if (r < 1)
		return r;
	spec->groups = mem_realloc_array(NULL, json_count(list) + 1, sizeof(*spec->groups));
	if (!spec->groups)
		return err_nomem(err);
	for (size_t i = 0; i < json_count(list); i++) {
		uint64_t gid;

		if (json_as_u64(json_at(list, i), &gid) < 0 || gid >= UINT32_MAX)
			return field_bad(where, "additionalGids", err, "[%zu] is no group id", i);
		spec->groups[spec->group_count++] = (uint32_t)gid;
	}
	return CCHV_OK;
}

static int parse_user(const struct json *process, const char *where, struct process_spec *spec,
                      cchv_error **err)
{
	struct field_place place = field_join(where, "user");
	const struct json *user = NULL;
	int64_t umask = 0;
	int r = field_object(process, where, "user", &user, err);

	if (r >= 0)
		r = field_bytes(user, place.path, "username", &spec->username, err);
	if (r == 1 && !*spec->username) {
		free(spec->username);
		spec->username = NULL;
	}
	if (r >= 0)
		r = field_u32(user, place.path, "uid", &spec->uid, err);
	if (r >= 0)
		r = field_u32(user, place.path, "gid", &spec->gid, err);
	if (r >= 0 && (spec->uid == UINT32_MAX || spec->gid == UINT32_MAX))
		return field_bad(place.path, spec->uid == UINT32_MAX ? "uid" : "gid", err, "no id");
	if (r >= 0)
		r = field_i64(user, place.path, "umask", 0, 0777, &umask, err);
	if (r == 1) {
		spec->has_umask = 1;
		spec->umask = (mode_t)umask;
	}
	return r < 0 ? r : parse_groups(user, place.path, spec, err);
}

static int parse_terminal(const struct json *process, const char *where, struct process_spec *spec,
                          cchv_error **err)
{
	struct field_place place = field_join(where, "consoleSize");
	const struct json *size = NULL;
	int64_t rows = 0, cols = 0;
	int r = field_bool(process, where, "terminal", &spec->terminal, err);

	if (r >= 0)
		r = field_object(process, where, "consoleSize", &size, err);
	spec->rows = 24;
	spec->cols = 80;
	if (r < 1 || !spec->terminal)
		return r;
	r = field_required(field_i64(size, place.path, "height", 0, 65535, &rows, err), place.path, "height",
	                   err);
	if (r >= 0)
		r = field_required(field_i64(size, place.path, "width", 0, 65535, &cols, err), place.path,
		                   "width", err);
	spec->rows = (uint16_t)rows;
	spec->cols = (uint16_t)cols;
	return r;
}

static int parse_program(const struct json *process, const char *where, struct process_spec *spec,
                         cchv_error **err)
{
	const struct json *list = NULL;
	int r = field_required(field_array(process, where, "args", &list, err), where, "args", err);

	if (r >= 0)
		r = field_array(process, where, "env", &list, err);
	if (r >= 0)
		r = program_new(process, &spec->program, NULL, err);
	if (r >= 0 && spec->terminal && program_default_env(&spec->program, "TERM", "xterm") < 0)
		r = err_nomem(err);
	if (r >= 0)
		r = field_required(field_bytes(process, where, "cwd", &spec->cwd, err), where, "cwd", err);
	if (r >= 0 && spec->cwd[0] != '/')
		return field_bad(where, "cwd", err, "'%s' is not absolute", spec->cwd);
	return r;
}

static int parse_rest(const struct json *process, const char *where, struct process_spec *spec,
                      struct words *ignored, cchv_error **err)
{
	static const char *const labels[] = { "apparmorProfile", "selinuxLabel" };
	int64_t oom = 0;
	int r = field_bool(process, where, "noNewPrivileges", &spec->no_new_privileges, err);

	if (r >= 0)
		r = field_i64(process, where, "oomScoreAdj", -1000, 1000, &oom, err);
	if (r == 1) {
		spec->has_oom_score_adj = 1;
		spec->oom_score_adj = (int)oom;
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(labels); i++) {
		const char *label = NULL;

		r = field_text(process, where, labels[i], &label, err);
		if (r == 1 && *label)
			r = note(ignored, where, labels[i], err);
	}
	return r < 0 ? r : process_sched_parse(process, where, spec, err);
}

int process_spec_parse(const struct json *process, const char *where, struct process_spec *ret_spec,
                       struct words *ignored, cchv_error **err)
{
	struct process_spec spec = { 0 };
	int r = parse_terminal(process, where, &spec, err);

	if (r >= 0)
		r = parse_program(process, where, &spec, err);
	if (r >= 0)
		r = parse_user(process, where, &spec, err);
	if (r >= 0)
		r = parse_capabilities(process, where, &spec, ignored, err);
	if (r >= 0)
		r = parse_rlimits(process, where, &spec, err);
	if (r >= 0)
		r = parse_rest(process, where, &spec, ignored, err);
	if (r < 0) {
		process_spec_free(&spec);
		return r;
	}
	*ret_spec = spec;
	return CCHV_OK;
}

void process_spec_free(struct process_spec *spec)
{
	program_free(&spec->program);
	free(spec->cwd);
	free(spec->username);
	free(spec->groups);
	free(spec->cpu_initial);
	free(spec->cpu_final);
	*spec = (struct process_spec){ 0 };
}
