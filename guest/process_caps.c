/* SPDX-License-Identifier: Apache-2.0 */
/* Identity and capabilities: see process_caps.h. Enters: numbers. Leaves: another kind of process. */
#include "guest/process_caps.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAPS_KNOWN 64

static uint64_t known_caps;

void process_learn_caps(void)
{
	known_caps = 0;
	for (int cap = 0; cap < CAPS_KNOWN; cap++) {
		/* Asking for the bounding bit of one that the kernel does not have fails. */
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0)
			break;
		known_caps |= 1ULL << cap;
	}
}

int process_drop_bounding(const struct process_spec *spec)
{
	uint64_t drop = known_caps & ~spec->caps[CAP_SET_BOUNDING];

	for (int cap = 0; cap < CAPS_KNOWN; cap++)
		if (drop & 1ULL << cap && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -1;
	return 0;
}

int process_set_ids(uint32_t uid, uint32_t gid, const uint32_t *groups, size_t group_count)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -1;
	if (setgroups(group_count, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -1;
	return prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
}

int process_set_caps(const struct process_spec *spec)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	for (int i = 0; i < 2; i++) {
		data[i].effective = (uint32_t)((spec->caps[CAP_SET_EFFECTIVE] & known_caps) >> 32 * i);
		data[i].permitted = (uint32_t)((spec->caps[CAP_SET_PERMITTED] & known_caps) >> 32 * i);
		data[i].inheritable = (uint32_t)((spec->caps[CAP_SET_INHERITABLE] & known_caps) >> 32 * i);
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	/* Ambient needs permitted and inheritable: one without these cannot be granted, and is not. */
	for (int cap = 0; cap < CAPS_KNOWN; cap++)
		if (spec->caps[CAP_SET_AMBIENT] & known_caps & 1ULL << cap &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0 && errno != EPERM)
			return -1;
	return 0;
}
