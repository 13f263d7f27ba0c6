/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of the task and the sandbox service as one structure: each method fills its part. */
#ifndef SHIM_REQUEST_H
#define SHIM_REQUEST_H

#include <stdint.h>

#include "mount_list.h"
#include "wire.h"

/* Texts are never NULL after reading, and belong to the request; views are lent from what was read. */
struct request {
	char *id, *exec_id, *bundle, *in, *out, *err, *checkpoint, *netns;
	uint64_t terminal, signal, all, width, height, close_stdin, now, verbose;
	struct wire_view any; /* options, spec or resources */
	struct mount_list rootfs;
};

enum slot_kind { SLOT_TEXT, SLOT_NUMBER, SLOT_VIEW, SLOT_MOUNT };

struct slot {
	unsigned int number;
	enum slot_kind kind;
	size_t offset;
};

/* The slots end with number 0. 0, or -1 for bytes that are no such message; request_free() in any case. */
int request_read(struct wire_view body, const struct slot *slots, struct request *ret);
void request_free(struct request *request);
/* As containerd has them: letters and digits, with single '.', '_' or '-' between; at most 76. */
int request_id_is_valid(const char *id);

#endif
