/* SPDX-License-Identifier: Apache-2.0 */
/* DeleteResponse: see delete_reply.h. */
#include "delete_reply.h"

#include <time.h>

#define KILLED 137 /* 128 + SIGKILL */

void delete_reply_put(struct wire *out, const struct exit_note *note)
{
	struct exit_note killed = { .status = KILLED };
	struct timespec now;

	if (!note) {
		clock_gettime(CLOCK_REALTIME, &now);
		killed.time_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
		note = &killed;
	}
	wire_put_uint(out, 1, note->pid);
	wire_put_uint(out, 2, note->status);
	wire_put_time(out, 3, note->time_ns);
}
