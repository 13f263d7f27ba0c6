/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp: see seccomp_profile.h. Enters: linux.seccomp of a specification. Leaves: BPF programs for the kernel. */
#include "guest/seccomp_profile.h"

#include "base/fd.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WHERE "linux.seccomp"
#define X32_BIT 0x40000000U
#define AF_VSOCK_NUMBER 40
#define I386_SOCKETCALL 102
#define I386_SOCKET 359
#define SOCKETCALL_SOCKET 1
/* One number on all architectures. */
#define IO_URING_SETUP 425

struct name_value {
	const char *name;
	uint32_t value;
};

static const struct name_value arches[] = {
	{ "SCMP_ARCH_X86", SCMP_ARCH_X86 },
	{ "SCMP_ARCH_X86_64", SCMP_ARCH_X86_64 },
	{ "SCMP_ARCH_X32", SCMP_ARCH_X32 },
	{ "SCMP_ARCH_ARM", SCMP_ARCH_ARM },
	{ "SCMP_ARCH_AARCH64", SCMP_ARCH_AARCH64 },
	{ "SCMP_ARCH_MIPS", SCMP_ARCH_MIPS },
	{ "SCMP_ARCH_MIPS64", SCMP_ARCH_MIPS64 },
	{ "SCMP_ARCH_MIPS64N32", SCMP_ARCH_MIPS64N32 },
	{ "SCMP_ARCH_MIPSEL", SCMP_ARCH_MIPSEL },
	{ "SCMP_ARCH_MIPSEL64", SCMP_ARCH_MIPSEL64 },
	{ "SCMP_ARCH_MIPSEL64N32", SCMP_ARCH_MIPSEL64N32 },
	{ "SCMP_ARCH_PPC", SCMP_ARCH_PPC },
	{ "SCMP_ARCH_PPC64", SCMP_ARCH_PPC64 },
	{ "SCMP_ARCH_PPC64LE", SCMP_ARCH_PPC64LE },
	{ "SCMP_ARCH_S390", SCMP_ARCH_S390 },
	{ "SCMP_ARCH_S390X", SCMP_ARCH_S390X },
	{ "SCMP_ARCH_PARISC", SCMP_ARCH_PARISC },
	{ "SCMP_ARCH_PARISC64", SCMP_ARCH_PARISC64 },
	{ "SCMP_ARCH_RISCV64", SCMP_ARCH_RISCV64 },
	/* The kernel of an x86 guest knows none of these; libseccomp knows them from 2.6 on. */
	{ "SCMP_ARCH_LOONGARCH64", 0 },
	{ "SCMP_ARCH_M68K", 0 },
	{ "SCMP_ARCH_SH", 0 },
	{ "SCMP_ARCH_SHEB", 0 },
};

static const struct name_value operators[] = {
	{ "SCMP_CMP_NE", SCMP_CMP_NE },
	{ "SCMP_CMP_LT", SCMP_CMP_LT },
	{ "SCMP_CMP_LE", SCMP_CMP_LE },
	{ "SCMP_CMP_EQ", SCMP_CMP_EQ },
	{ "SCMP_CMP_GE", SCMP_CMP_GE },
	{ "SCMP_CMP_GT", SCMP_CMP_GT },
	{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
};

static const struct name_value filter_flags[] = {
	/* The process has one thread when the filter is installed, and no listener: these two change nothing. */
	{ "SECCOMP_FILTER_FLAG_TSYNC", 0 },
	{ "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", 0 },
	{ "SECCOMP_FILTER_FLAG_LOG", SECCOMP_FILTER_FLAG_LOG },
	{ "SECCOMP_FILTER_FLAG_SPEC_ALLOW", SECCOMP_FILTER_FLAG_SPEC_ALLOW },
};

static const struct name_value *find(const struct name_value *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

/* The action that a name and an errno mean. */
static int parse_action(const char *name, int has_errno, uint32_t errno_value, const char *where,
                        const char *key, uint32_t *ret_action, cchv_error **err)
{
	static const struct name_value actions[] = {
		{ "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD },
		{ "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
		{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS },
		{ "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
		{ "SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(0) },
		{ "SCMP_ACT_TRACE", SCMP_ACT_TRACE(0) },
		{ "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW },
		{ "SCMP_ACT_LOG", SCMP_ACT_LOG },
	};
	const struct name_value *action = find(actions, ARRAY_LEN(actions), name);
	int takes_errno;

	if (strcmp(name, "SCMP_ACT_NOTIFY") == 0)
		return field_refused(where, key, err,
		                     "SCMP_ACT_NOTIFY needs a listener, which is not supported");
	if (!action)
		return field_bad(where, key, err, "unknown action '%s'", name);
	takes_errno = action->value == SCMP_ACT_ERRNO(0) || action->value == SCMP_ACT_TRACE(0);
	if (has_errno && !takes_errno && errno_value)
		return field_bad(where, key, err, "'%s' takes no errno", name);
	if (errno_value > 0xffff)
		return field_bad(where, key, err, "errno %u is over 65535", errno_value);
	*ret_action = action->value;
	if (takes_errno)
		*ret_action |= has_errno ? errno_value : EPERM;
	return CCHV_OK;
}

static int add_arches(scmp_filter_ctx ctx, const struct json *profile, cchv_error **err)
{
	struct words names = { NULL, 0 };
	int r = field_words(profile, WHERE, "architectures", &names, err);

	for (size_t i = 0; r == 1 && i < names.count; i++) {
		const struct name_value *arch = find(arches, ARRAY_LEN(arches), names.items[i]);
		int added;

		if (!arch) {
			r = field_bad(WHERE, "architectures", err, "unknown architecture '%s'",
			              names.items[i]);
			break;
		}
		/* A filter has one byte order and word order; what an x86 kernel can never run needs no rules. */
		if (arch->value != SCMP_ARCH_X86 && arch->value != SCMP_ARCH_X86_64 &&
		    arch->value != SCMP_ARCH_X32)
			continue;
		added = seccomp_arch_add(ctx, arch->value);
		if (added < 0 && added != -EEXIST)
			r = field_bad(WHERE, "architectures", err, "'%s': %s", names.items[i],
			              strerror(-added));
	}
	words_free(&names);
	return r < 0 ? r : CCHV_OK;
}

static int parse_condition(const struct json *arg, const char *where, struct scmp_arg_cmp *ret,
                           cchv_error **err)
{
	const struct name_value *op;
	const char *name = NULL;
	uint64_t value = 0, second = 0;
	int64_t index = 0;
	int r;

	r = field_required(field_i64(arg, where, "index", 0, 5, &index, err), where, "index", err);
	if (r < 0)
		return r;
	r = field_u64(arg, where, "value", &value, err);
	if (r < 0)
		return r;
	r = field_u64(arg, where, "valueTwo", &second, err);
	if (r < 0)
		return r;
	r = field_required(field_text(arg, where, "op", &name, err), where, "op", err);
	if (r < 0)
		return r;
	op = find(operators, ARRAY_LEN(operators), name);
	if (!op)
		return field_bad(where, "op", err, "unknown operator '%s'", name);
	*ret = (struct scmp_arg_cmp){ .arg = (unsigned int)index, .op = (enum scmp_compare)op->value };
	/* For the masked comparison the specification has the mask first and the wanted value second. */
	ret->datum_a = value;
	ret->datum_b = op->value == SCMP_CMP_MASKED_EQ ? second : 0;
	return CCHV_OK;
}

#define MAX_CONDITIONS 32

static int parse_conditions(const struct json *rule, const char *where, struct scmp_arg_cmp *conditions,
                            unsigned int *ret_count, cchv_error **err)
{
	const struct json *args = NULL;
	int r = field_array(rule, where, "args", &args, err);

	*ret_count = 0;
	if (r < 0)
		return r;
	if (json_count(args) > MAX_CONDITIONS)
		return field_bad(where, "args", err, "more than %d conditions", MAX_CONDITIONS);
	for (size_t i = 0; i < json_count(args); i++) {
		struct field_place place;
		const struct json *arg;

		r = field_item(args, where, "args", i, &place, &arg, err);
		if (r == 1)
			r = parse_condition(arg, place.path, &conditions[(*ret_count)++], err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

/* libseccomp takes one comparison per argument: several of one argument become rules of their own, as in runc. */
static int add_rule(scmp_filter_ctx ctx, uint32_t action, int syscall_number,
                    const struct scmp_arg_cmp *conditions, unsigned int count)
{
	unsigned int seen[6] = { 0 }, repeated = 0;
	int r = 0;

	for (unsigned int i = 0; i < count; i++)
		repeated |= seen[conditions[i].arg]++ > 0;
	if (!repeated)
		return seccomp_rule_add_array(ctx, action, syscall_number, count, conditions);
	for (unsigned int i = 0; i < count && r == 0; i++)
		r = seccomp_rule_add_array(ctx, action, syscall_number, 1, &conditions[i]);
	return r;
}

static int add_syscalls(scmp_filter_ctx ctx, const struct json *rule, const char *where,
                        uint32_t default_action, cchv_error **err)
{
	struct scmp_arg_cmp conditions[MAX_CONDITIONS];
	struct words names = { NULL, 0 };
	const char *name = NULL;
	unsigned int count = 0;
	uint32_t errno_value = 0, action;
	int has_errno, r;

	r = field_required(field_text(rule, where, "action", &name, err), where, "action", err);
	if (r < 0)
		return r;
	has_errno = field_u32(rule, where, "errnoRet", &errno_value, err);
	if (has_errno < 0)
		return has_errno;
	r = parse_action(name, has_errno, errno_value, where, "action", &action, err);
	if (r == CCHV_OK)
		r = parse_conditions(rule, where, conditions, &count, err);
	if (r < 0)
		return r;
	r = field_required(field_words(rule, where, "names", &names, err), where, "names", err);
	if (r == 1 && !names.count)
		r = field_bad(where, "names", err, "empty");
	for (size_t i = 0; r == 1 && action != default_action && i < names.count; i++) {
		int number = seccomp_syscall_resolve_name(names.items[i]);
		int added = number == __NR_SCMP_ERROR ? 0 : add_rule(ctx, action, number, conditions, count);

		if (added < 0 && added != -EEXIST)
			r = field_bad(where, "names", err, "'%s': %s", names.items[i], strerror(-added));
	}
	words_free(&names);
	return r < 0 ? r : CCHV_OK;
}

static int add_all(scmp_filter_ctx ctx, const struct json *profile, uint32_t default_action, cchv_error **err)
{
	const struct json *rules = NULL;
	int r = field_array(profile, WHERE, "syscalls", &rules, err);

	for (size_t i = 0; r >= 0 && i < json_count(rules); i++) {
		struct field_place place;
		const struct json *rule;

		r = field_item(rules, WHERE, "syscalls", i, &place, &rule, err);
		if (r == 1)
			r = add_syscalls(ctx, rule, place.path, default_action, err);
	}
	return r < 0 ? r : CCHV_OK;
}

/* The highest number of an architecture that the profile mentions; -1 when none. */
static int highest(const struct json *profile, uint32_t arch)
{
	const struct json *rules = json_get(profile, "syscalls");
	int max = -1;

	for (size_t i = 0; i < json_count(rules); i++) {
		const struct json *names = json_get(json_at(rules, i), "names");

		for (size_t n = 0; n < json_count(names); n++) {
			const char *name = json_as_string(json_at(names, n));
			int number = name ? seccomp_syscall_resolve_name_arch(arch, name) : -1;

			if (number > max)
				max = number;
		}
	}
	return max;
}

#define STUB_LENGTH 9

/*
 * A profile that refuses by default was written before newer system calls existed: those must look absent (ENOSYS),
 * or programs do not fall back to the older ones. Numbers above all that the profile knows are new to it. What the
 * stub does not decide falls through to the profile, which is put behind it. Returns its length.
 */
static unsigned short make_stub(const struct json *profile, uint32_t default_action, struct sock_filter *code)
{
	int native = highest(profile, SCMP_ARCH_X86_64);
	int compat = highest(profile, SCMP_ARCH_X86);
	const struct sock_filter text[STUB_LENGTH] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)(native < 0 ? INT32_MAX : native), 3, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)(compat < 0 ? INT32_MAX : compat), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	if (default_action == SCMP_ACT_ALLOW || default_action == SCMP_ACT_LOG ||
	    (default_action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_TRACE)
		return 0;
	memcpy(code, text, sizeof(text));
	return STUB_LENGTH;
}

/* The program of a context, behind the stub. */
static int export_code(scmp_filter_ctx ctx, const struct json *profile, uint32_t default_action,
                       struct seccomp_filter *filter, cchv_error **err)
{
	cleanup_close int fd = memfd_create("seccomp", MFD_CLOEXEC);
	struct sock_filter head[STUB_LENGTH];
	unsigned short stub = make_stub(profile, default_action, head);
	struct stat st;
	size_t count;
	int r;

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: memfd_create", WHERE);
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return err_set(err, CCHV_ERR_SYSTEM, -r, "%s: compile", WHERE);
	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: fstat", WHERE);
	count = (size_t)st.st_size / sizeof(*filter->code);
	if (count + stub > BPF_MAXINSNS)
		return field_bad(WHERE, "", err, "compiles to %zu instructions, over %d", count + stub,
		                 BPF_MAXINSNS);
	filter->code = mem_realloc_array(NULL, count + stub, sizeof(*filter->code));
	if (!filter->code)
		return err_nomem(err);
	memcpy(filter->code, head, stub * sizeof(*head));
	if (fd_pread_full(fd, filter->code + stub, count * sizeof(*filter->code), 0) != (ssize_t)st.st_size)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: read", WHERE);
	filter->length = (unsigned short)(count + stub);
	return CCHV_OK;
}

static int parse_flags(const struct json *profile, struct seccomp_filter *filter, cchv_error **err)
{
	struct words flags = { NULL, 0 };
	int r = field_words(profile, WHERE, "flags", &flags, err);

	for (size_t i = 0; r == 1 && i < flags.count; i++) {
		const struct name_value *flag = find(filter_flags, ARRAY_LEN(filter_flags), flags.items[i]);

		if (!flag)
			r = field_bad(WHERE, "flags", err, "unknown flag '%s'", flags.items[i]);
		else
			filter->flags |= flag->value;
	}
	words_free(&flags);
	return r < 0 ? r : CCHV_OK;
}

static int note_ignored(const struct json *profile, struct words *ignored, cchv_error **err)
{
	static const char *const members[] = { "listenerPath", "listenerMetadata" };

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const char *text = NULL;
		int r = field_text(profile, WHERE, members[i], &text, err);

		if (r < 0)
			return r;
		if (r == 1 && words_add(ignored, field_join(WHERE, members[i]).path) < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

static int compile(scmp_filter_ctx ctx, const struct json *profile, uint32_t default_action,
                   struct seccomp_filter *filter, cchv_error **err)
{
	int r = add_arches(ctx, profile, err);

	if (r == CCHV_OK)
		r = add_all(ctx, profile, default_action, err);
	if (r == CCHV_OK)
		r = export_code(ctx, profile, default_action, filter, err);
	return r;
}

int profile_compile(const struct json *profile, struct seccomp_filter *ret_filter, struct words *ignored,
                    cchv_error **err)
{
	struct seccomp_filter filter = { 0 };
	uint32_t errno_value = 0, action;
	const char *name = NULL;
	scmp_filter_ctx ctx;
	int has_errno, r;

	r = field_required(field_text(profile, WHERE, "defaultAction", &name, err), WHERE, "defaultAction",
	                   err);
	if (r < 0)
		return r;
	has_errno = field_u32(profile, WHERE, "defaultErrnoRet", &errno_value, err);
	if (has_errno < 0)
		return has_errno;
	r = parse_action(name, has_errno, errno_value, WHERE, "defaultAction", &action, err);
	if (r == CCHV_OK)
		r = parse_flags(profile, &filter, err);
	if (r == CCHV_OK)
		r = note_ignored(profile, ignored, err);
	if (r < 0)
		return r;
	ctx = seccomp_init(action);
	if (!ctx)
		return err_nomem(err);
	/* A call of an architecture that is not listed gets the default action, not a kill. */
	r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, action) < 0 ? err_nomem(err) : CCHV_OK;
	if (r == CCHV_OK)
		r = compile(ctx, profile, action, &filter, err);
	seccomp_release(ctx);
	if (r < 0) {
		profile_free(&filter);
		return r;
	}
	*ret_filter = filter;
	return CCHV_OK;
}

void profile_free(struct seccomp_filter *filter)
{
	free(filter->code);
	*filter = (struct seccomp_filter){ 0 };
}

int profile_install(const struct seccomp_filter *filter)
{
	struct sock_fprog program = { .len = filter->length, .filter = filter->code };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, filter->flags, &program);
}

/*
 * socket(AF_VSOCK, ...) fails as on a kernel without vsock. Only the low half of the argument counts for the kernel,
 * so only it is compared. The i386 multiplexer passes the family in memory, where a filter cannot look: its socket
 * call is absent, and C libraries that know the direct call use that. An io_uring makes sockets of any family without
 * a system call that a filter sees, so there is none, as in Docker's profile.
 */
int profile_install_own(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~X32_BIT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IO_URING_SETUP, 13, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 5, 7),
		/* i386 */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IO_URING_SETUP, 9, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, I386_SOCKET, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, I386_SOCKETCALL, 3, 2),
		/* socket: the family */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_VSOCK_NUMBER, 3, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		/* socketcall: the call */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCKETCALL_SOCKET, 1, 3),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct seccomp_filter filter = { code, ARRAY_LEN(code), 0 };

	return profile_install(&filter);
}
