/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor that the library's user gave us to read or write: a file, pipe, socket or terminal, blocking or not.
 * Its flags are shared with whoever else holds it and are never changed; still no call here blocks.
 */
#ifndef AGENT_USER_FD_H
#define AGENT_USER_FD_H

#include <signal.h>
#include <sys/types.h>

#include "base/error.h"

enum user_fd_kind {
	USER_FD_FILE,     /* always ready; epoll does not take it */
	USER_FD_PIPE,     /* for writing; a description of our own, non-blocking */
	USER_FD_TTY,      /* the same */
	USER_FD_SOCKET,   /* MSG_DONTWAIT */
	USER_FD_SHARED    /* asked by poll() before each call; writes are small */
};

struct user_fd {
	int fd;           /* -1: none */
	enum user_fd_kind kind;
};

#define USER_FD_NONE { .fd = -1 }

/* fd stays the caller's. */
int user_fd_open(struct user_fd *user, int fd, int for_writing, cchv_error **err);
void user_fd_close(struct user_fd *user);
/* As read() and write() of a non-blocking fd. Writing may raise SIGPIPE: see pipe_guard. */
ssize_t user_fd_read(struct user_fd *user, void *data, size_t len);
ssize_t user_fd_write(struct user_fd *user, const void *data, size_t len);

/*
 * Between begin and end this thread gets no SIGPIPE; one that its writes raised meanwhile is taken away, one that was
 * pending before stays.
 */
struct pipe_guard {
	sigset_t old;
	int was_pending;
};

void pipe_guard_begin(struct pipe_guard *guard);
void pipe_guard_end(struct pipe_guard *guard);

#endif
