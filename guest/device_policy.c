/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device policy of a container: see device_policy.h. Enters: rules of a specification. Leaves: a program that the
 * kernel asks for each open and mknod: 1 allows, 0 refuses.
 */
#include "guest/device_policy.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ALL 7U

struct policy {
	struct bpf_insn *code;
	size_t count;
	int full;
	int closed; /* a rule without conditions has decided: the kernel refuses a program with code behind it */
};

static void emit(struct policy *p, uint8_t code, uint8_t dst, uint8_t src, int16_t off, int32_t imm)
{
	if (p->closed)
		return;
	if (p->count == DEVICE_POLICY_MAX) {
		p->full = 1;
		return;
	}
	p->code[p->count++] = (struct bpf_insn){
		.code = code, .dst_reg = dst, .src_reg = src, .off = off, .imm = imm
	};
}

static void jump_out(struct policy *p, uint8_t condition, uint8_t reg, int32_t value)
{
	emit(p, BPF_JMP | condition | BPF_K, reg, 0, 0, value);
}

/* The jumps of a rule that lead to "does not match" were emitted with offset 0: they go behind the rule. */
static void close_rule(struct policy *p, size_t start)
{
	for (size_t i = start; i < p->count; i++) {
		struct bpf_insn *insn = &p->code[i];

		if (BPF_CLASS(insn->code) == BPF_JMP && BPF_OP(insn->code) != BPF_EXIT)
			insn->off = (int16_t)(p->count - i - 1);
	}
}

/* r2: access, r3: type, r4: major, r5: minor */
static void add_rule(struct policy *p, const struct spec_device_rule *rule)
{
	size_t start = p->count, conditions;

	if (rule->type != 'a')
		jump_out(p, BPF_JNE, BPF_REG_3, rule->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
	if (rule->access != ALL) {
		/* Allowed when nothing but its kinds of access is asked for; refused when any of them is. */
		emit(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_2, 0, 0);
		emit(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_1, 0, 0,
		     (int32_t)(rule->allow ? ALL & ~rule->access : rule->access));
		jump_out(p, rule->allow ? BPF_JNE : BPF_JEQ, BPF_REG_1, 0);
	}
	if (rule->major >= 0)
		jump_out(p, BPF_JNE, BPF_REG_4, (int32_t)rule->major);
	if (rule->minor >= 0)
		jump_out(p, BPF_JNE, BPF_REG_5, (int32_t)rule->minor);
	conditions = p->count;
	emit(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, rule->allow);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	close_rule(p, start);
	p->closed |= conditions == start;
}

static void add_prologue(struct policy *p)
{
	emit(p, BPF_LDX | BPF_W | BPF_MEM, BPF_REG_2, BPF_REG_1,
	     offsetof(struct bpf_cgroup_dev_ctx, access_type), 0);
	emit(p, BPF_LDX | BPF_W | BPF_MEM, BPF_REG_4, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, major),
	     0);
	emit(p, BPF_LDX | BPF_W | BPF_MEM, BPF_REG_5, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, minor),
	     0);
	emit(p, BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0);
	emit(p, BPF_ALU64 | BPF_AND | BPF_K, BPF_REG_3, 0, 0, 0xffff);
	emit(p, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_2, 0, 0, 16);
}

static void add_device(struct policy *p, char type, int64_t major, int64_t minor, unsigned int access)
{
	const struct spec_device_rule rule = {
		.allow = 1, .type = type, .major = major, .minor = minor, .access = access
	};

	add_rule(p, &rule);
}

/* The first match decides here, so what comes last in the specification is asked first. */
static void add_all(struct policy *p, const struct spec *spec, const dev_t *extra, size_t extra_count)
{
	static const int16_t defaults[][2] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 },   { 1, 9 },
		                               { 5, 0 }, { 5, 1 }, { 5, 2 }, { 136, -1 } };

	add_prologue(p);
	for (size_t i = 0; i < extra_count; i++)
		add_device(p, 'b', major(extra[i]), minor(extra[i]), ALL);
	for (size_t i = 0; i < spec->device_count; i++) {
		const struct spec_device *d = &spec->devices[i];

		if (!d->device && d->type == S_IFCHR)
			add_device(p, 'c', d->major, d->minor, ALL);
	}
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
		add_device(p, 'c', defaults[i][0], defaults[i][1], ALL);
	/* A node is harmless as long as it cannot be opened. */
	add_device(p, 'a', -1, -1, BPF_DEVCG_ACC_MKNOD);
	for (size_t i = spec->device_rule_count; i-- > 0;)
		add_rule(p, &spec->device_rules[i]);
	emit(p, BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	emit(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

int device_policy_compile(const struct spec *spec, const dev_t *extra, size_t extra_count,
                          struct bpf_insn **ret_code, size_t *ret_count, cchv_error **err)
{
	struct policy p = { .code = mem_realloc_array(NULL, DEVICE_POLICY_MAX, sizeof(*p.code)) };

	if (!p.code)
		return err_nomem(err);
	add_all(&p, spec, extra, extra_count);
	if (p.full) {
		free(p.code);
		return field_bad("linux.resources", "devices", err, "too many rules");
	}
	*ret_code = p.code;
	*ret_count = p.count;
	return CCHV_OK;
}

int device_policy_attach(int cgroup_fd, const struct spec *spec, const dev_t *extra, size_t extra_count,
                         cchv_error **err)
{
	cleanup_free struct bpf_insn *code = NULL;
	cleanup_close int program_fd = -1;
	union bpf_attr attr;
	size_t count;
	int r = device_policy_compile(spec, extra, extra_count, &code, &count, err);

	if (r < 0)
		return r;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = (uint32_t)count;
	attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
	program_fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (program_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device policy: load");
	memset(&attr, 0, sizeof(attr));
	attr.target_fd = (uint32_t)cgroup_fd;
	attr.attach_bpf_fd = (uint32_t)program_fd;
	attr.attach_type = BPF_CGROUP_DEVICE;
	attr.attach_flags = BPF_F_ALLOW_MULTI;
	if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof(attr)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device policy: attach");
	return CCHV_OK;
}
