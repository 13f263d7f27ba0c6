/* SPDX-License-Identifier: Apache-2.0 */
/* Which agent a file with an initramfs holds. */
#ifndef VMM_AGENT_VERSION_H
#define VMM_AGENT_VERSION_H

#include "base/error.h"

struct agent_version {
	char *version;     /* "0.1.0"; memory of the caller's; NULL: the file does not tell (it is compressed, say) */
	uint64_t protocol; /* of guest/PROTOCOL.md */
};

int vmm_agent_version(const char *initramfs, struct agent_version *ret_version, cchv_error **err);

#endif
