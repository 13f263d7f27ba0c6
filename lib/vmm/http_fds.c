/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API calls that carry descriptors, which libcurl cannot send: a request written by hand, on a connection of its
 * own, with SCM_RIGHTS on its first byte. Enters: a call. Leaves: vmm_http_finish() or vmm_http_fail().
 */
#include "vmm/http_call.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "vmm/reply.h"

/* A request fits a socket's buffer; a peer that does not read for so long is stuck. */
#define SEND_MS 2000

struct http_fds {
	struct vmm_http *http;
	int fd;
	struct loop_source *source;
	struct buf in;
};

void http_fds_free(struct http_fds *f)
{
	if (!f)
		return;
	loop_source_free(f->source);
	fd_close(&f->fd);
	buf_free(&f->in);
	free(f);
}

static void on_ready(uint32_t events, void *user_data)
{
	struct http_fds *f = user_data;
	struct vmm_reply_head head;
	cchv_error *error = NULL;
	ssize_t n;
	int r;

	n = buf_read_fd(&f->in, f->fd, 65536);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		err_set(&error, errno == ENOMEM ? CCHV_ERR_NOMEM : CCHV_ERR_VMM_GONE, errno, "no answer from the VMM");
		vmm_http_fail(f->http, error);
		return;
	}
	r = vmm_reply_parse(&f->in, &head, &error);
	if (r == 0 && n == 0)
		r = err_set(&error, CCHV_ERR_VMM_GONE, 0, "no answer from the VMM: it closed the connection");
	if (r < 0) {
		vmm_http_fail(f->http, error);
	} else if (r > 0) {
		/* The object goes in there, and its buffer with it. */
		struct buf in = f->in;

		f->in = (struct buf){ 0 };
		vmm_http_finish(f->http, head.status, (const char *)in.data + head.body, head.body_len);
		buf_free(&in);
	}
}

static int write_request(struct buf *out, const struct vmm_call *call)
{
	int r;

	r = buf_printf(out, "%s /api/v1/%s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n"
	                    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
	               call->method, call->name, call->body_len);
	return r < 0 ? r : buf_append(out, call->body, call->body_len);
}

static int send_request(int fd, const struct vmm_call *call, cchv_error **err)
{
	cleanup_buf struct buf out = BUF_INIT(VMM_REPLY_MAX + 1024);
	ssize_t n;
	int r;

	r = write_request(&out, call);
	if (r < 0)
		return err_set(err, r, 0, "the request cannot be written");
	n = fd_send_with_fds(fd, out.data, out.len, call->fds, call->fd_count);
	if (n < 0)
		return err_set(err, CCHV_ERR_VMM_GONE, errno, "send to the VMM");
	if (fd_write_full(fd, out.data + n, out.len - (size_t)n, clock_deadline(SEND_MS)) < 0)
		return err_set(err, CCHV_ERR_VMM_GONE, errno, "send to the VMM");
	return CCHV_OK;
}

int http_fds_start(struct vmm_http *http, struct loop *loop, int dir_fd, const char *name,
                   const struct vmm_call *call, struct http_fds **ret_fds, cchv_error **err)
{
	struct http_fds *f = mem_zalloc(sizeof(*f));
	char path[108];
	int r;

	if (!f)
		return err_nomem(err);
	f->http = http;
	f->in.max = VMM_REPLY_MAX + 65536;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
	f->fd = fd_unix_connect(path, clock_deadline(SEND_MS));
	if (f->fd < 0)
		r = err_set(err, CCHV_ERR_VMM_GONE, errno, "connect to the VMM");
	else
		r = send_request(f->fd, call, err);
	if (r == CCHV_OK && fd_set_nonblock(f->fd, 1) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "API socket");
	if (r == CCHV_OK)
		r = loop_add(loop, f->fd, EPOLLIN, on_ready, f, &f->source, err);
	if (r < 0) {
		http_fds_free(f);
		return r;
	}
	*ret_fds = f;
	return CCHV_OK;
}
