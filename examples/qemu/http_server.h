/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API socket: up to ten connections, kept alive, one request of each at a time, descriptors that come with it.
 * The loop's callbacks only read and write bytes; requests are fetched and answered outside of them, one after
 * another in the order in which they became complete, so that a long one makes the others wait as in the original.
 */
#ifndef QEMU_HTTP_SERVER_H
#define QEMU_HTTP_SERVER_H

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "http_request.h"

#define HTTP_CONNECTIONS_MAX 10

struct http_server;

/* A complete request; valid until it is answered. Descriptors that the handler keeps it takes by fd_steal(). */
struct http_call {
	enum http_method_kind method;
	const char *path;
	const struct buf *body;         /* len 0: none */
	int fds[FD_MAX_PASSED];
	size_t fd_count;
};

/* The listening socket is taken. */
int http_server_new(struct loop *loop, int listen_fd, const struct log_sink *log, struct http_server **ret_server,
                    cchv_error **err);
void http_server_free(struct http_server *server);

/* The oldest request that waits, or NULL. The same one until it is answered. */
struct http_call *http_server_next(struct http_server *server);
/* body NULL: none. The client may be gone: that is not an error. Frees the call's descriptors. */
void http_server_reply(struct http_server *server, struct http_call *call, int status, const struct buf *body);

/* Write out what is queued, at the end of the program. */
void http_server_flush(struct http_server *server, uint64_t deadline);

DEFINE_CLEANUP(http_server, struct http_server, http_server_free)
#define cleanup_http_server __attribute__((cleanup(http_server_cleanup)))

#endif
