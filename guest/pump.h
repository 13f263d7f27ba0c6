/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pumps move the bytes of one stream between a process and a connection. Pipes are spliced: no byte passes through
 * the agent's memory, and what does not fit waits in the pipe, which is all the back-pressure there is. Terminals go
 * through a small buffer, since they cannot be spliced.
 *
 * A pump outlives its exec: a grandchild that still writes must not be killed by a closed pipe. It ends when both its
 * sides have, and is freed by pumps_sweep() once it is released too.
 */
#ifndef GUEST_PUMP_H
#define GUEST_PUMP_H

#include "base/error.h"
#include "base/loop.h"

struct pumps;
struct pump_out;
struct pump_in;

#define PUMP_NO_LIMIT UINT64_MAX

int pumps_new(struct loop *loop, struct pumps **ret_pumps, cchv_error **err);
void pumps_free(struct pumps *pumps);
/* Between two rounds of the loop. */
void pumps_sweep(struct pumps *pumps);
/*
 * Of the pumps that are there now: until the deadline an output that has lost its connection waits for another one, its
 * process with it; then it is discarded as ever. An input whose connection goes away entirely is lost meanwhile,
 * whatever it meant otherwise. An earlier deadline than that of before does not count.
 */
void pumps_hold(struct pumps *pumps, uint64_t deadline);
/* It was not needed: connections that have gone away meanwhile had their end, as ever. */
void pumps_release(struct pumps *pumps);
size_t pumps_count(const struct pumps *pumps);

/*
 * Output: from source (a pipe's read end, or a terminal's master) to a stream socket (-1: all is discarded). Takes
 * both, also on failure.
 * drained comes once, when the source has ended and everything was sent or discarded. Then the socket is half-closed,
 * and closed when the peer closes (or 10 s later).
 */
typedef void (*pump_fn)(void *user_data);
int pump_out_new(struct pumps *pumps, int source, int is_terminal, int sock, pump_fn drained, void *user_data,
                 struct pump_out **ret_pump, cchv_error **err);
int pump_out_is_drained(const struct pump_out *pump);
uint64_t pump_out_sent(const struct pump_out *pump);
uint64_t pump_out_lost(const struct pump_out *pump);  /* read after the connection was lost, and discarded */
/* 1: the connection that it had, if any, is given up, and another one may come; 0: it is over. */
int pump_out_disconnect(struct pump_out *pump);
/* Go on there. Takes sock; one that is over closes it. */
void pump_out_connect(struct pump_out *pump, int sock);
/* No call of drained afterwards; the pump goes on by itself. NULL is fine. */
void pump_out_release(struct pump_out *pump);

/*
 * Input: from a stream socket to target (a pipe's write end, or a terminal's master). Takes both. With counted, the
 * end is told by pump_in_limit(); an end of the connection before that (after a grace, since the two travel by
 * different ways) calls lost. Without, a half-close or close is the end, and only a reset is lost.
 * A lost input leaves the process waiting: what it has is not all there was, so it must not see an end of file that
 * nobody sent. pump_in_limit() or pump_in_stop() ends that.
 */
int pump_in_new(struct pumps *pumps, int sock, int target, int is_terminal, int counted, pump_fn lost, void *user_data,
                struct pump_in **ret_pump, cchv_error **err);
/* The process sees its end of file after that many bytes of the stream. */
void pump_in_limit(struct pump_in *pump, uint64_t bytes);
/* The process has ended: close both sides. */
void pump_in_stop(struct pump_in *pump);
uint64_t pump_in_moved(const struct pump_in *pump);
/* Another connection in place of the one that it had; bytes are counted anew. As for output. */
int pump_in_disconnect(struct pump_in *pump);
void pump_in_connect(struct pump_in *pump, int sock, int counted);
void pump_in_release(struct pump_in *pump);

#endif
