/* SPDX-License-Identifier: Apache-2.0 */
/* Where the streams of a process lead on this machine: fifos of the client, files, a logger. */
#ifndef SHIM_STDIO_SET_H
#define SHIM_STDIO_SET_H

#include <cchv/exec.h>
#include <sys/types.h>

struct loop;

struct stdio_paths {
	char *in, *out, *err; /* "" for none */
	int terminal;
};

void stdio_paths_free(struct stdio_paths *paths);

struct stdio_set {
	int fds[3];    /* for the library; -1: not wanted */
	int hold;      /* a writer of the input, so that a client who leaves is no end of file; -1: none */
	pid_t logger;  /* of a "binary:" address; 0: none */
	int logger_fd; /* its pidfd */
};
#define STDIO_SET_INIT                                                                                       \
	{                                                                                                    \
		{ -1, -1, -1 }, -1, 0, -1                                                                    \
	}

/* The outputs. Never waits for a client, though for a logger; id and namespace are its own. 0, or CCHV_ERR_*
 * and *ret_error (free() it). */
int stdio_set_open(const struct stdio_paths *paths, const char *id, const char *namespace,
		   struct stdio_set *ret, char **ret_error);
/* The input, right before the start: a client that has nothing to write may look for its task as soon as
 * there is a reader, and must find it. */
int stdio_set_open_input(const struct stdio_paths *paths, struct stdio_set *set, char **ret_error);
/* What the library was given a copy of. */
void stdio_set_close_copies(struct stdio_set *set);
void stdio_set_close_input(struct stdio_set *set);
/* All of it; a logger gets its time to end, and is reaped in the loop. */
void stdio_set_close(struct stdio_set *set, struct loop *loop);
/* 0, or CCHV_ERR_*. */
int stdio_set_to_config(const struct stdio_set *set, cchv_stdio_config *config);

#endif
