/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of a console (virtio or serial): a pty whose path is published, a file, a socket, the terminal, or
 * nothing. A pty is fed through a socket and a bounded buffer: a client that does not read costs output, never the
 * guest's time.
 */
#ifndef QEMU_CONSOLE_H
#define QEMU_CONSOLE_H

#include "base/log.h"
#include "base/loop.h"
#include "config.h"
#include "plan.h"

struct console {
	struct loop *loop;
	const struct log_sink *log;
	int master;                     /* of the pty; -1: none */
	int slave;                      /* kept open, so that the master never hangs up */
	int terminal;                   /* it is our own stdin and stdout */
	int qemu;                       /* our end of the socket */
	int qemu_child;                 /* QEMU's end, until it has it */
	struct loop_source *host_source;
	struct loop_source *qemu_source;
	struct buf to_host;
	struct buf to_qemu;
};

void console_init(struct console *console, struct loop *loop, const struct log_sink *log);
/*
 * Open what a configuration (an object with mode, file, socket) asks for, before QEMU is there: the pty's path is
 * put into it as "file", a file is created or truncated. On one that is open: anew.
 */
int console_open(struct console *console, struct json *config, struct fault *fault);
int console_is_open(const struct console *console);
/* Give QEMU a chardev of that name. */
int console_add_chardev(struct console *console, const struct json *config, const char *id, struct plan *plan,
                        struct fault *fault);
/* The guest was reset: a file begins anew. */
void console_reset(const struct json *config);
void console_close(struct console *console);

/* -chardev and the like: commas are doubled. NULL: out of memory. */
char *console_quote(const char *text);

#endif
