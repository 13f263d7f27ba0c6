/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a server: see ask.h. */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop.h"
#include "ttrpc.h"

#define SERVICE   "containerd.task.v2.Task"
#define REPLY_MAX (64U << 10)

int ask_open(const char *socket_path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(socket_path) >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* 1 when it is ready, 0 when the time is over. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = loop_now_ns();

	if (now >= deadline)
		return 0;
	return poll(&p, 1, (int)((deadline - now) / 1000000U) + 1) > 0;
}

static int send_all(int fd, const struct wire *out, uint64_t deadline)
{
	size_t sent = 0;

	while (sent < out->len) {
		ssize_t n = send(fd, out->data + sent, out->len - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		else if (errno != EINTR && (errno != EAGAIN || !wait_for(fd, POLLOUT, deadline)))
			return -1;
	}
	return 0;
}

static int receive(int fd, unsigned char *data, size_t len, uint64_t deadline)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(fd, data + got, len - got, 0);

		if (n == 0)
			return -1;
		if (n > 0)
			got += (size_t)n;
		else if (errno != EINTR && (errno != EAGAIN || !wait_for(fd, POLLIN, deadline)))
			return -1;
	}
	return 0;
}

static int take_answer(int fd, unsigned int stream, uint64_t deadline, struct wire *ret_payload)
{
	static unsigned char body[REPLY_MAX];
	unsigned char header[TTRPC_HEADER];
	struct ttrpc_response response;
	struct ttrpc_header h;
	int code;

	do {
		if (receive(fd, header, sizeof(header), deadline) < 0)
			return -1;
		ttrpc_read_header(header, &h);
		if (h.len > sizeof(body) || receive(fd, body, h.len, deadline) < 0)
			return -1;
	} while (h.type != TTRPC_RESPONSE || h.stream != stream);
	code = ttrpc_read_response(wire_view_of(body, h.len), &response) < 0 ? -1 : response.code;
	if (code == CODE_OK && ret_payload)
		wire_put(ret_payload, response.payload.data, response.payload.len);
	ttrpc_response_free(&response);
	return code;
}

int ask(int fd, unsigned int *stream, const char *namespace, const char *method, struct wire *request,
	int timeout_ms, struct wire *ret_payload)
{
	uint64_t deadline = loop_now_ns() + (uint64_t)timeout_ms * 1000000U;
	struct wire out = { 0 };
	int r;

	*stream = *stream ? *stream + 2 : 1;
	ttrpc_put_request(&out, *stream, SERVICE, method, namespace, (uint64_t)timeout_ms * 1000000U,
			  request);
	r = send_all(fd, &out, deadline);
	wire_free(&out);
	return r < 0 ? -1 : take_answer(fd, *stream, deadline, ret_payload);
}
