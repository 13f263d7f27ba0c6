/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the daemon: frames in, calls out. */
#ifndef SHIM_CONN_H
#define SHIM_CONN_H

#include "call.h"
#include "loop.h"

struct conn_hooks {
	void (*call)(struct call *call, void *data); /* whoever takes it answers it */
	void (*closed)(struct conn *conn, void *data);
	void *data;
};

/* Takes fd over. NULL with errno. */
struct conn *conn_new(struct loop *loop, int fd, const struct conn_hooks *hooks);
/* What is not sent yet is sent as far as the peer takes it at once. Answers to come go nowhere. */
void conn_close(struct conn *conn);

#endif
