/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp filters of a process: the agent's own, which every process of every container gets (no AF_VSOCK: the
 * channel to the host is not theirs), and the profile of the specification, compiled to BPF.
 */
#ifndef GUEST_SECCOMP_PROFILE_H
#define GUEST_SECCOMP_PROFILE_H

#include <linux/filter.h>

#include "guest/field.h"

struct seccomp_filter {
	struct sock_filter *code;   /* NULL: no profile */
	unsigned short length;
	unsigned int flags;         /* SECCOMP_FILTER_FLAG_* */
};

/*
 * Compile linux.seccomp. Syscalls that libseccomp does not know are left out, as everywhere in the field. ignored
 * gets one word for each member without effect here. SCMP_ACT_NOTIFY is refused.
 */
int profile_compile(const struct json *profile, struct seccomp_filter *ret_filter, struct words *ignored,
                    cchv_error **err);
void profile_free(struct seccomp_filter *filter);

/*
 * Install a filter in the calling process; needs no_new_privs or CAP_SYS_ADMIN. Async-signal-safe. 0, or -1 with
 * errno. profile_install_own() is the agent's.
 */
int profile_install(const struct seccomp_filter *filter);
int profile_install_own(void);

#endif
