/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One output stream: from the guest's socket to a descriptor of the user, and to a "tee" that sees all bytes (logs,
 * attached clients). A descriptor that is slow holds this stream back and no other; one whose reader is gone is
 * dropped, and what is left of the stream is discarded and counted. Memory: at most one chunk that waits.
 */
#ifndef AGENT_PUMP_OUT_H
#define AGENT_PUMP_OUT_H

#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

#define PUMP_CHUNK 131072

/* Scratch memory that all pumps of one loop share. */
struct pump_scratch {
	uint8_t data[PUMP_CHUNK];
};

struct pump_out;

struct pump_out_hooks {
	/* NULL, or: every byte, once, in order */
	void (*tee)(const void *data, size_t len, void *user_data);
	/* bytes moved, or the end came. Last thing that a callback does: the pump may be freed in it */
	void (*moved)(void *user_data);
};

/*
 * socket is taken in any case; sink (-1: none) stays the caller's and is copied. When the end comes, the copy is
 * closed first, then the socket.
 */
int pump_out_new(struct loop *loop, struct pump_scratch *scratch, int socket, int sink,
                 const struct pump_out_hooks *hooks, void *user_data, struct pump_out **ret_pump, cchv_error **err);
void pump_out_free(struct pump_out *pump);        /* NULL is fine */

/* Move now what is there, as the loop would: 1 when something may be left. Calls moved, which may free the pump. */
int pump_out_drain(struct pump_out *pump);
uint64_t pump_out_received(const struct pump_out *pump);
uint64_t pump_out_lost(const struct pump_out *pump);        /* discarded since the sink's reader left */
int pump_out_lost_errno(const struct pump_out *pump);       /* why (EPIPE: the reader left); 0: nothing is lost */
int pump_out_has_ended(const struct pump_out *pump);        /* everything passed on, both sides closed */
/* 1 when the first bytes of the stream, that many, are with the sink (or discarded), or the stream has ended. */
int pump_out_has_passed(const struct pump_out *pump, uint64_t bytes);
/* Since when (CLOCK_MONOTONIC) bytes wait for a sink that takes none; 0: none wait. */
uint64_t pump_out_stalled_since(const struct pump_out *pump);

#endif
