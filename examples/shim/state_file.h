/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container has on this machine, written before any of it is taken and removed when all of it is given
 * back: with it "delete" cleans up after a server that is dead, without a word to anybody.
 */
#ifndef SHIM_STATE_FILE_H
#define SHIM_STATE_FILE_H

#include <stdint.h>
#include <sys/types.h>

struct state {
	pid_t server_pid;
	unsigned long long server_start; /* of /proc/<pid>/stat: with it the pid is one process for ever */
	uint32_t pid;			 /* that Create returns: Docker knows its containers by it; 0: none yet */
	char *group, *socket, *vm, *runtime_dir, *state_dir, *container, *netns; /* NULL: none */
};

/* 0, or -1 with errno. */
int state_file_write(const char *bundle, const struct state *state);
/* 1; 0 where there is none; -1 where it cannot be read. state_free() after 1. */
int state_file_read(const char *bundle, struct state *ret);
void state_file_remove(const char *bundle);
void state_free(struct state *state);
/* When the process was started, in ticks; 0: there is none. */
unsigned long long state_process_start(pid_t pid);

#endif
