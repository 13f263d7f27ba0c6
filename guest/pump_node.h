/* SPDX-License-Identifier: Apache-2.0 */
/* What pump.c, pump_out.c and pump_in.c share. Nobody else includes this. */
#ifndef GUEST_PUMP_NODE_H
#define GUEST_PUMP_NODE_H

#include "guest/pump.h"

#include <sys/types.h>

#define PUMP_BUFFER 16384      /* of a terminal */
#define PUMP_BATCH (256 * 1024) /* then the others have their turn */
#define PUMP_LINGER_MS 10000
#define PUMP_GRACE_MS 5000

struct pumps {
	struct loop *loop;
	struct pump *list;
	struct loop_timer *timer;
	uint64_t held_until;   /* 0: nothing is held */
};

/* One descriptor and what is watched of it; a descriptor that nobody waits for is not in the loop at all, since a
 * hang-up is reported whatever was asked. */
struct pump_end {
	struct loop *loop;
	int fd;
	uint32_t events;
	struct loop_source *source;
	loop_fn fn;
	void *user_data;
};

/* Bytes that are on their way through the agent (terminals). */
struct pump_buffer {
	uint8_t data[PUMP_BUFFER];
	size_t start, len;
};

/* What both kinds have. */
struct pump {
	struct pump *next;
	struct pumps *pumps;
	int released;
	int over;
	int held;               /* it was there when the hold began, and has no other connection since */
	void (*free)(struct pump *pump);
	void (*let_go)(struct pump *pump, int for_good); /* the hold is over: its time, or released */
	struct pump_end from, to;
	struct pump_buffer *buffer; /* NULL: splice */
	struct loop_timer *timer;
	pump_fn fn;
	void *user_data;
};

/* Nothing more is moved: both ends, the timer and the buffer are let go of. Twice is as good as once. */
void pump_end_all(struct pump *pump);
void pump_link(struct pumps *pumps, struct pump *pump, void (*free_fn)(struct pump *));
/* PUMP_NOTHING unwatches. Failing to watch is as good as an error of the descriptor: -1. */
#define PUMP_NOTHING UINT32_MAX
int pump_end_watch(struct pump_end *end, uint32_t events);
void pump_end_close(struct pump_end *end);
int pump_is_ready(int fd, short events);
/* Whether the peer has closed entirely, not only for writing; a reset is the same to vsock. */
int pump_peer_is_gone(int fd);

#endif
