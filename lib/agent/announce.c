/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's announcement: see announce.h. Enters: one frame from the guest. Leaves: the boot id. */
#include "agent/announce.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/protocol.h"

#define FRAME_MS 5000
#define MAX_ANNOUNCE 4096
#define BACKLOG 16

struct agent_announce {
	struct loop *loop;
	char *path;
	announce_fn fn;
	void *user_data;
	int fd;                     /* the listener, then the connection */
	int is_listener;
	struct loop_source *source;
	struct loop_timer *timer;
	struct buf in;
};

static void stop(struct agent_announce *announce)
{
	loop_source_free(announce->source);
	announce->source = NULL;
	fd_close(&announce->fd);
	if (announce->is_listener)
		unlink(announce->path);
	announce->is_listener = 0;
}

void announce_free(struct agent_announce *announce)
{
	if (!announce)
		return;
	stop(announce);
	loop_timer_free(announce->timer);
	buf_free(&announce->in);
	free(announce->path);
	free(announce);
}

static void finish(struct agent_announce *announce, int code, const struct json *message)
{
	const char *boot_id = NULL;

	stop(announce);
	loop_timer_set(announce->timer, CLOCK_NEVER);
	if (code == CCHV_OK && json_get_string(message, "boot_id", &boot_id, NULL) != 1)
		code = CCHV_ERR_PROTOCOL;
	announce->fn(code, boot_id, announce->user_data);
}

static void on_timer(void *user_data)
{
	finish(user_data, CCHV_ERR_PROTOCOL, NULL);
}

static void on_frame(uint32_t events, void *user_data)
{
	struct agent_announce *announce = user_data;
	cleanup_json struct json *message = NULL;
	ssize_t n = buf_read_fd(&announce->in, announce->fd, MAX_ANNOUNCE);
	int r;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? frame_take(&announce->in, &message, NULL) : CCHV_ERR_PROTOCOL;
	if (r != 0)
		finish(announce, r > 0 ? CCHV_OK : CCHV_ERR_PROTOCOL, message);
}

static void on_caller(uint32_t events, void *user_data)
{
	struct agent_announce *announce = user_data;
	int fd = accept4(announce->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	stop(announce);
	announce->fd = fd;
	if (fd < 0 || loop_add(announce->loop, fd, EPOLLIN, on_frame, announce, &announce->source, NULL) < 0) {
		finish(announce, CCHV_ERR_PROTOCOL, NULL);
		return;
	}
	loop_timer_set(announce->timer, clock_deadline(FRAME_MS));
}

int announce_new(struct loop *loop, const char *vsock_path, announce_fn fn, void *user_data,
                 struct agent_announce **ret_announce, cchv_error **err)
{
	struct agent_announce *announce = mem_zalloc(sizeof(*announce));
	int r;

	if (!announce)
		return err_nomem(err);
	announce->loop = loop;
	announce->fn = fn;
	announce->user_data = user_data;
	announce->fd = -1;
	announce->in.max = MAX_ANNOUNCE;
	announce->path = mem_printf("%s_%u", vsock_path, PROTOCOL_ANNOUNCE_PORT);
	if (!announce->path) {
		announce_free(announce);
		return err_nomem(err);
	}
	announce->fd = fd_unix_listen(announce->path, BACKLOG);
	if (announce->fd < 0) {
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "listen for the agent at %s", announce->path);
		announce_free(announce);
		return r;
	}
	announce->is_listener = 1;
	r = fd_set_nonblock(announce->fd, 1) < 0 ? err_set(err, CCHV_ERR_SYSTEM, errno, "listen for the agent")
	                                         : CCHV_OK;
	if (r == CCHV_OK)
		r = loop_timer_new(loop, on_timer, announce, &announce->timer, err);
	if (r == CCHV_OK)
		r = loop_add(loop, announce->fd, EPOLLIN, on_caller, announce, &announce->source, err);
	if (r < 0) {
		announce_free(announce);
		return r;
	}
	*ret_announce = announce;
	return CCHV_OK;
}
