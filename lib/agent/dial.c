/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling the guest: see dial.h. Enters: a path, a port, a deadline. Leaves: a socket, or why there is none. */
#include "agent/dial.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_ATTEMPT_MS 250   /* how long an attempt may stay unanswered; doubled each time */
#define LAST_ATTEMPT_MS 4000
#define FIRST_PAUSE_MS 2       /* between a refused attempt and the next; doubled each time */
#define LAST_PAUSE_MS 100
#define LINE_MAX_LENGTH 32

struct dial {
	struct loop *loop;
	char *path;
	uint32_t port;
	int wait_for_socket;
	uint64_t deadline;
	dial_fn fn;
	void *user_data;

	int fd;
	struct loop_source *source;
	struct loop_timer *timer;
	int attempt_ms;
	int pause_ms;
	char line[LINE_MAX_LENGTH + 1];
	size_t length;
	const char *last_failure;
};

static void attempt(struct dial *dial);

void dial_free(struct dial *dial)
{
	if (!dial)
		return;
	loop_source_free(dial->source);
	loop_timer_free(dial->timer);
	fd_close(&dial->fd);
	free(dial->path);
	free(dial);
}

static void finish(struct dial *dial, int code, cchv_error *error)
{
	dial_fn fn = dial->fn;
	void *user_data = dial->user_data;
	int fd = -1;

	loop_source_free(dial->source);
	dial->source = NULL;
	if (code == CCHV_OK)
		fd = fd_steal(&dial->fd);
	dial_free(dial);
	fn(code, fd, error, user_data);
	cchv_error_free(error);
}

static void fail(struct dial *dial, int code, int error_number, const char *why)
{
	cchv_error *error = NULL;

	code = err_set(&error, code, error_number, "connect to port %u of the guest: %s", dial->port, why);
	finish(dial, code, error);
}

static void out_of_time(struct dial *dial)
{
	fail(dial, CCHV_ERR_TIMEOUT, 0, dial->last_failure);
}

/* The attempt came to nothing; the next one begins after a pause. */
static void again(struct dial *dial, const char *why)
{
	uint64_t next = clock_mono_ns() + (uint64_t)dial->pause_ms * NS_PER_MS;

	loop_source_free(dial->source);
	dial->source = NULL;
	fd_close(&dial->fd);
	dial->last_failure = why;
	if (dial->pause_ms < LAST_PAUSE_MS)
		dial->pause_ms *= 2;
	loop_timer_set(dial->timer, next < dial->deadline ? next : dial->deadline);
}

/* The pause is over, or an attempt stayed without an answer. */
static void on_timer(void *user_data)
{
	struct dial *dial = user_data;

	if (clock_passed(dial->deadline)) {
		out_of_time(dial);
		return;
	}
	if (dial->fd >= 0) {
		if (dial->attempt_ms < LAST_ATTEMPT_MS)
			dial->attempt_ms *= 2;
		again(dial, "no answer");
		return;
	}
	attempt(dial);
}

static int line_is_ok(const char *line)
{
	size_t digits;

	if (strncmp(line, "OK ", 3) != 0)
		return 0;
	digits = strspn(line + 3, "0123456789");
	return digits > 0 && strcmp(line + 3 + digits, "\n") == 0;
}

/* Look first, then take exactly the line: what follows belongs to the caller. */
static void on_answer(uint32_t events, void *user_data)
{
	struct dial *dial = user_data;
	size_t room = LINE_MAX_LENGTH - dial->length, take;
	char *start = dial->line + dial->length, *end;
	ssize_t n = recv(dial->fd, start, room, MSG_PEEK | MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0 && errno != ECONNRESET && errno != EPIPE) {
		fail(dial, CCHV_ERR_SYSTEM, errno, "receive");
		return;
	}
	if (n <= 0) {
		again(dial, "refused");
		return;
	}
	end = memchr(start, '\n', (size_t)n);
	take = end ? (size_t)(end - start) + 1 : (size_t)n;
	if (recv(dial->fd, start, take, MSG_DONTWAIT) != (ssize_t)take) {
		fail(dial, CCHV_ERR_PROTOCOL, 0, "the answer changed while it was read");
		return;
	}
	dial->length += take;
	dial->line[dial->length] = '\0';
	if (end && line_is_ok(dial->line))
		finish(dial, CCHV_OK, NULL);
	else if (end || dial->length == LINE_MAX_LENGTH)
		fail(dial, CCHV_ERR_PROTOCOL, 0, "the VMM's answer is not \"OK port\"");
}

static void attempt(struct dial *dial)
{
	uint64_t limit = clock_mono_ns() + (uint64_t)dial->attempt_ms * NS_PER_MS;
	char line[32];
	int n = snprintf(line, sizeof(line), "CONNECT %u\n", dial->port);

	dial->length = 0;
	dial->fd = fd_unix_connect(dial->path, 0);
	if (dial->fd < 0) {
		/* ETIMEDOUT: the listener's queue is full. */
		if (errno == ETIMEDOUT)
			again(dial, "the VMM's vsock socket is busy");
		else if (dial->wait_for_socket && (errno == ENOENT || errno == ECONNREFUSED))
			again(dial, "the VMM has no vsock socket");
		else
			fail(dial, errno == ECONNREFUSED || errno == ENOENT ? CCHV_ERR_VMM_GONE : CCHV_ERR_SYSTEM,
			     errno, dial->path);
		return;
	}
	if (fd_set_nonblock(dial->fd, 1) < 0) {
		fail(dial, CCHV_ERR_SYSTEM, errno, "set non-blocking");
		return;
	}
	if (send(dial->fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n) {
		again(dial, "refused");
		return;
	}
	if (loop_add(dial->loop, dial->fd, EPOLLIN, on_answer, dial, &dial->source, NULL) < 0) {
		fail(dial, CCHV_ERR_SYSTEM, errno, "watch the socket");
		return;
	}
	loop_timer_set(dial->timer, limit < dial->deadline ? limit : dial->deadline);
}

int dial_start(struct loop *loop, const char *path, uint32_t port, int wait_for_socket, uint64_t deadline,
               dial_fn fn, void *user_data, struct dial **ret_dial, cchv_error **err)
{
	struct dial *dial = mem_zalloc(sizeof(*dial));
	int r;

	if (!dial)
		return err_nomem(err);
	dial->loop = loop;
	dial->port = port;
	dial->wait_for_socket = wait_for_socket;
	dial->deadline = deadline;
	dial->fn = fn;
	dial->user_data = user_data;
	dial->fd = -1;
	dial->attempt_ms = FIRST_ATTEMPT_MS;
	dial->pause_ms = FIRST_PAUSE_MS;
	dial->last_failure = "not begun in time";
	dial->path = mem_strdup(path);
	r = dial->path ? loop_timer_new(loop, on_timer, dial, &dial->timer, err) : err_nomem(err);
	if (r < 0) {
		dial_free(dial);
		return r;
	}
	/* Even the first attempt is the timer's: fn is never called before the caller has *ret_dial. */
	loop_timer_set(dial->timer, clock_mono_ns());
	*ret_dial = dial;
	return CCHV_OK;
}
