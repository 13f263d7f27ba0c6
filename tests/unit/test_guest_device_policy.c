/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "guest/device_policy.h"

/* Compile the rules; count what is emitted and which instructions no path reaches (the kernel refuses those). */
static size_t unreachable(const struct spec *spec, size_t *ret_count)
{
	struct bpf_insn *code = NULL;
	size_t count = 0, left = 0;
	char *reached;

	CHECK_INT(device_policy_compile(spec, NULL, 0, &code, &count, NULL), 0);
	reached = calloc(count + 1, 1);
	reached[0] = 1;
	for (size_t i = 0; i < count; i++) {
		int is_jump = BPF_CLASS(code[i].code) == BPF_JMP, is_exit = is_jump && BPF_OP(code[i].code) == BPF_EXIT;

		if (!reached[i])
			left++;
		if (!is_exit)
			reached[i + 1] = 1;
		if (is_jump && !is_exit) {
			CHECK(i + 1 + (size_t)code[i].off < count);
			reached[i + 1 + (size_t)code[i].off] = 1;
		}
	}
	CHECK(!reached[count]); /* no path runs off the end */
	free(reached);
	free(code);
	*ret_count = count;
	return left;
}

TEST(a_rule_for_everything_ends_the_program)
{
	struct spec_device_rule rules[] = {
		{ .allow = 1, .type = 'c', .major = 10, .minor = 200, .access = 7 },
		{ .allow = 0, .type = 'a', .major = -1, .minor = -1, .access = 7 },
	};
	struct spec spec = { .device_rules = rules, .device_rule_count = 2 };
	size_t both, last;

	CHECK_INT(unreachable(&spec, &both), 0);
	/* Asked from the last rule back, so the first one is never reached, and not emitted. */
	spec.device_rules = rules + 1;
	spec.device_rule_count = 1;
	CHECK_INT(unreachable(&spec, &last), 0);
	CHECK_INT(both, last);
}

TEST(no_rules_at_all_is_a_program_too)
{
	struct spec spec = { 0 };
	size_t count;

	CHECK_INT(unreachable(&spec, &count), 0);
	CHECK(count > 0);
}
