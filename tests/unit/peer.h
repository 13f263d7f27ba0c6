/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of the agent's socket, as a child process with blocking calls, for tests of lib/agent. */
#ifndef TESTS_UNIT_PEER_H
#define TESTS_UNIT_PEER_H

#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"
#include "wire/frame.h"

#include <sys/socket.h>
#include <sys/wait.h>

static char peer_path[128];

/* Fork: the child runs fn on a listener at peer_path and ends. */
static inline pid_t peer_start(void (*fn)(int listener))
{
	int listener;
	pid_t pid;

	snprintf(peer_path, sizeof(peer_path), "%s/vsock.sock", test_dir());
	listener = fd_unix_listen(peer_path, 64);
	CHECK(listener >= 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		fn(listener);
		_exit(0);
	}
	close(listener);
	return pid;
}

static inline void peer_end(pid_t pid)
{
	int status;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

static inline int peer_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		_exit(10);
	return fd;
}

/* Read "CONNECT port\n" byte by byte. */
static inline void peer_read_connect(int fd, const char *expected)
{
	char line[64];
	size_t n = 0;

	while (n < sizeof(line) - 1 && read(fd, line + n, 1) == 1)
		if (line[n++] == '\n')
			break;
	line[n] = '\0';
	if (strcmp(line, expected) != 0) {
		fprintf(stderr, "peer got \"%s\"\n", line);
		_exit(11);
	}
}

static inline void peer_write(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		_exit(12);
}

/*
 * A connection that the host has gone through with. One that was answered too late for it (dial.c takes a quarter of a
 * second for the first, which a busy machine may need) is closed, and there is another.
 */
static inline int peer_answer(int listener, const char *ok)
{
	for (;;) {
		int fd = peer_accept(listener);
		char byte;

		peer_read_connect(fd, "CONNECT 1024\n");
		if (send(fd, ok, strlen(ok), MSG_NOSIGNAL) == (ssize_t)strlen(ok) &&
		    recv(fd, &byte, 1, MSG_PEEK) == 1)
			return fd;
		close(fd);
	}
}

static inline void peer_send(int fd, const char *json)
{
	cleanup_json struct json *message = NULL;

	if (json_parse(json, strlen(json), &message, NULL) < 0 ||
	    frame_send(fd, message, clock_deadline(PATIENCE_MS), NULL) < 0)
		_exit(13);
}

/* The next frame, printed. */
static inline const char *peer_recv(int fd)
{
	static struct buf text = BUF_INIT(1 << 20);
	cleanup_json struct json *message = NULL;

	if (frame_recv(fd, &message, clock_deadline(PATIENCE_MS), NULL) < 0)
		_exit(14);
	text.len = 0;
	if (json_print(message, 0, &text) < 0)
		_exit(15);
	return buf_string(&text);
}

static inline void peer_expect(int fd, const char *expected)
{
	const char *got = peer_recv(fd);

	if (strcmp(got, expected) != 0) {
		fprintf(stderr, "peer got %s\ninstead of %s\n", got, expected);
		_exit(16);
	}
}

/* Wait until the host closed. */
static inline void peer_expect_close(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 0)
		_exit(17);
	close(fd);
}

/* Run the loop until *flag. */
static inline void run_until(struct loop *loop, const int *flag)
{
	uint64_t deadline = clock_deadline(PATIENCE_MS);

	while (!*flag) {
		CHECK(!clock_passed(deadline));
		CHECK(loop_run_once(loop, deadline, NULL) >= 0);
	}
}

#endif
