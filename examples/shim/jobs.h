/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that blocks: calls of the library, done in threads of their own, while the loop's thread goes on
 * serving. The server's objects belong to the loop's thread; a job touches only what it was given.
 */
#ifndef SHIM_JOBS_H
#define SHIM_JOBS_H

#include "loop.h"

struct jobs;

/* Part of whoever wants something done; stays until done() was called. */
struct job {
	void (*run)(struct job *job);  /* in a thread */
	void (*done)(struct job *job); /* in the loop's thread, afterwards */
	struct job *next;
};

struct jobs *jobs_new(struct loop *loop);
/* When all have come to their end: the threads are ended first. */
void jobs_free(struct jobs *jobs);
void jobs_add(struct jobs *jobs, struct job *job);
/* In the thread that lives as long as the server: what is started there may be tied to its life. One at a
 * time. */
void jobs_add_lasting(struct jobs *jobs, struct job *job);
/* How many have been added whose done() was not called. */
unsigned int jobs_count(const struct jobs *jobs);

#endif
