/* SPDX-License-Identifier: Apache-2.0 */
/* The server of one group: its socket, its tasks, its VM. */
#ifndef SHIM_SERVER_H
#define SHIM_SERVER_H

#include "call.h"
#include "conn.h"
#include "flags.h"
#include "jobs.h"
#include "loop.h"
#include "publisher.h"

struct pod;
struct sandbox;
struct task;

struct server {
	const struct flags *flags;
	struct loop *loop;
	struct jobs *jobs;
	struct publisher *publisher;
	struct sandbox *sandbox;
	struct pod *pod; /* of the Sandbox API; NULL: the first task makes the VM */
	struct task *tasks;
	struct watch listener, signals;
	struct conn_entry *connections; /* of the daemon */
	struct timer lonely; /* nobody is connected, and there is nothing to serve */
	int ending; /* 1: nothing new; 2: only the last events are still to go */
};

/* Serve until there is nothing to serve any more: the exit code. */
int server_run(const struct flags *flags, int listener_fd);
/* Something has changed: is there anything left to do? */
void server_look(struct server *server);
/* From here on a start finds nobody, and makes a server of its own. */
void server_close(struct server *server);
/* The daemon needs us no more: no new connections, the last events, the end. */
void server_end(struct server *server);
/* The same, once its pod has ended: *call, which wanted it, is answered when there is nothing left to find. */
void server_end_for(struct server *server, struct call **call);

#endif
