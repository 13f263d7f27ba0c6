/* SPDX-License-Identifier: Apache-2.0 */
/* DeleteResponse: see delete_reply.h. */
#include "delete_reply.h"

#include <time.h>

#define KILLED 137 /* 128 + SIGKILL */

struct exit_note delete_reply_killed(uint32_t pid)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (struct exit_note) { .pid = pid,
				    .status = KILLED,
				    .time_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec };
}

void delete_reply_put(struct wire *out, const struct exit_note *note)
{
	wire_put_uint(out, 1, note->pid);
	wire_put_uint(out, 2, note->status);
	wire_put_time(out, 3, note->time_ns);
}
