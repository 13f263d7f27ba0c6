/* SPDX-License-Identifier: Apache-2.0 */
/*
 * containerd-shim-cchv-v2-server: what the daemon's program hands over to. "serve": the server of a group,
 * with its listener at descriptor 3. "delete": the clean-up after one that is dead.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "flags.h"
#include "log.h"
#include "rootfs.h"
#include "server.h"

#define LISTENER_FD 3

/* containerd's levels to ours: -8 trace, -4 debug, 0 info, 4 warning, 8 and more errors. */
static int level_of(const char *text)
{
	long level = text ? strtol(text, NULL, 10) : 0;

	return level < 0 ? LOG_DEBUG : level < 4 ? LOG_INFO : level < 8 ? LOG_WARNING : LOG_ERROR;
}

int main(int argc, char **argv)
{
	struct flags flags;

	if (argc > 1 && strcmp(argv[1], ROOTFS_HELPER) == 0)
		return rootfs_helper_main(argc, argv);
	flags_parse(argc, argv, &flags);
	if (!flags.action || !flags.namespace || !flags.id) {
		fputs("run by containerd-shim-cchv-v2\n", stderr);
		return 2;
	}
	log_open(level_of(flags.log_level), flags.namespace, flags.group ? flags.group : flags.id);
	if (strcmp(flags.action, "delete") == 0)
		return cleanup_run(&flags);
	if (strcmp(flags.action, "serve") != 0 || !flags.group || !flags.socket) {
		fputs("run by containerd-shim-cchv-v2\n", stderr);
		return 2;
	}
	/* One heap for all threads: each would otherwise keep what it once used. */
	mallopt(M_ARENA_MAX, 1);
	return server_run(&flags, LISTENER_FD);
}
