/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: what all its rooms share. One thread, one event loop. Nothing here may block on one client: work that
 * can take long runs in a child (worker.h) or step by step. No room waits for children itself (reap.h does), and
 * none uses proc_run(): an exit status must have one reader.
 *
 * The rooms: control.c connections and dispatch (request.h), notify.c notifications, exec.c processes (exec.h,
 * process.h), stream.c and pump.c their bytes, reap.c exits, worker.c slow work, module.c and uevent.c drivers,
 * device.c, vm.c, scale.c, power.c the machine, container*.c and their like the containers (container.h).
 */
#ifndef GUEST_AGENT_H
#define GUEST_AGENT_H

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"

struct agent {
	struct loop *loop;
	struct log_sink log;      /* to /dev/kmsg, so to the VM's console; stderr in the test build */
	char boot_id[40];         /* "" before vm.configure (see vm.c) */
	int is_init;              /* PID 1 of a VM; 0 in the test build, which leaves the machine alone */
	int quit;                 /* leave the loop after this round */
	int configured;           /* vm.configure was answered: before it, nothing else is */

	/* The rooms' own state; each is made by its X_new() and is NULL before. */
	struct control *control;
	struct notify *notify;
	struct reap *reap;
	struct workers *workers;
	struct execs *execs;
	struct streams *streams;
	struct uevents *uevents;
	struct devices *devices;
	struct power *power;
	struct containers *containers;
};

/*
 * How a failure leaves a function of the guest: an err as everywhere, and the kind of PROTOCOL.md ("program",
 * "cwd", "mount", ...), a string constant. Returns the code, so that "return fail(...)" is one line. kind and err may
 * be NULL.
 */
int fail(const char **kind, cchv_error **err, const char *which, int error_number, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * Connections, and the agent's ends of pipes and terminals, live at numbers from here up: a child that does not exec
 * (a worker, an archive) calls agent_close_private() first, or it would keep a stream open that the agent has
 * closed. agent_make_private() moves one there (and leaves it where it is if that fails).
 */
#define AGENT_PRIVATE_FDS 2048
void agent_make_private(int *fd);
void agent_close_private(void);

#endif
