/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors and sockets. Everything made here is close-on-exec from birth. Functions return -1 with errno
 * unless they say otherwise; those that wait take a deadline (clock.h) and fail with ETIMEDOUT.
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FD_MAX_PASSED 64

void fd_close(int *fd);                     /* closes when >= 0, leaves -1 and errno as it was */
#define cleanup_close __attribute__((cleanup(fd_close)))
int fd_steal(int *fd);                      /* its value; the variable becomes -1 */

int fd_copy(int fd);                        /* F_DUPFD_CLOEXEC from 3 */
int fd_set_nonblock(int fd, int on);
int fd_set_cloexec(int fd, int on);
int fd_wait(int fd, short events, uint64_t deadline); /* poll(): revents > 0; -1 ETIMEDOUT */

/* Whole transfers, on blocking or non-blocking fds. read: bytes read (fewer only at end of file). */
ssize_t fd_read_full(int fd, void *data, size_t len, uint64_t deadline);
int fd_write_full(int fd, const void *data, size_t len, uint64_t deadline);  /* 0; no SIGPIPE on sockets */

/* Like the above, for positions in a file; EINTR is repeated. */
ssize_t fd_pread_full(int fd, void *data, size_t len, off_t offset);
int fd_pwrite_full(int fd, const void *data, size_t len, off_t offset);

/* Unix stream sockets; a path longer than sun_path is reached through a descriptor of its directory. */
int fd_unix_listen(const char *path, int backlog);    /* mode 0600; EADDRINUSE when the path exists */
int fd_unix_connect(const char *path, uint64_t deadline);  /* a blocking socket */
int fd_socketpair(int fds[2]);

/* One message with descriptors. recv: *count is in: room, out: received (surplus ones are closed). */
ssize_t fd_send_with_fds(int sock, const void *data, size_t len, const int *fds, size_t count);
ssize_t fd_recv_with_fds(int sock, void *data, size_t len, int *fds, size_t *count);

/* An exclusive flock. 0; -1 EWOULDBLOCK when held (wait: blocks). */
int fd_lock(int fd, int wait);

#endif
