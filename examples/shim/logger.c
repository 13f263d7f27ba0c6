/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loggers: see logger.h. Enters: an address. Leaves: a program with the read ends of two pipes at 3 and 4,
 * and at 5 the write end of a third one, which it closes or writes to when it is ready. Its environment is
 * CONTAINER_ID and CONTAINER_NAMESPACE, and nothing else.
 */
#include "logger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cancel_fd.h"
#include "fault.h"
#include "loop.h"
#include "memory.h"
#include "stdio_set.h"

#define READY_MS 10000
/* What it gets once its pipes are closed, and once it was asked to end. */
#define LEAVING_MS 12000
#define ASKED_MS   2000
#define WORDS_MAX  64
#define FIRST_FD   3

struct pipes {
	int ends[3][2]; /* stdout, stderr, ready: read and write end */
};

int logger_is_address(const char *address)
{
	return strncmp(address, "binary://", 9) == 0 || strncmp(address, "binary-v2://", 12) == 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Of a URL, in place. */
static void unescape(char *text, int is_query)
{
	char *out = text;

	for (; *text; text++) {
		if (*text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
			*out++ = (char)(hex(text[1]) << 4 | hex(text[2]));
			text += 2;
		} else {
			*out++ = is_query && *text == '+' ? ' ' : *text;
		}
	}
	*out = '\0';
}

/* "path?key=value&key" -> path, key, value, key. In place; the words end with NULL. */
static void split(char *text, char *words[WORDS_MAX])
{
	char *query = strchr(text, '?'), *rest, *part;
	int n = 0;

	if (query)
		*query++ = '\0';
	unescape(text, 0);
	words[n++] = text;
	for (part = query ? strtok_r(query, "&", &rest) : NULL; part && n < WORDS_MAX - 3;
	     part = strtok_r(NULL, "&", &rest)) {
		char *value = strchr(part, '=');

		if (value)
			*value++ = '\0';
		unescape(part, 1);
		words[n++] = part;
		if (!value || !*value)
			continue;
		unescape(value, 1);
		words[n++] = value;
	}
	words[n] = NULL;
}

static void close_pipes(struct pipes *pipes)
{
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++)
			if (pipes->ends[i][k] >= 0)
				close(pipes->ends[i][k]);
}

/* Above the numbers that the logger gets them at, so that no copy falls on another one. */
static int open_pipes(struct pipes *pipes)
{
	for (int i = 0; i < 3; i++)
		pipes->ends[i][0] = pipes->ends[i][1] = -1;
	for (int i = 0; i < 3; i++) {
		int low[2];

		if (pipe2(low, O_CLOEXEC) < 0)
			return -1;
		for (int k = 0; k < 2; k++) {
			pipes->ends[i][k] = fcntl(low[k], F_DUPFD_CLOEXEC, 10);
			close(low[k]);
		}
		if (pipes->ends[i][0] < 0 || pipes->ends[i][1] < 0)
			return -1;
	}
	return 0;
}

static int spawn(char *const words[], const struct pipes *pipes, const char *id, const char *namespace,
		 pid_t *ret_pid)
{
	char id_text[128], namespace_text[128], *const environment[] = { id_text, namespace_text, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	snprintf(id_text, sizeof(id_text), "CONTAINER_ID=%s", id);
	snprintf(namespace_text, sizeof(namespace_text), "CONTAINER_NAMESPACE=%s", namespace);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	/* Its standard error must not be the daemon's fifo, which may break. */
	r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	for (int i = 0; i < 3 && !r; i++)
		r = posix_spawn_file_actions_adddup2(&actions, pipes->ends[i][i == 2], FIRST_FD + i);
	if (!r)
		r = posix_spawn_file_actions_addclosefrom_np(&actions, FIRST_FD + 3);
	if (!r)
		r = posix_spawn(ret_pid, words[0], &actions, &attributes, words, environment);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return r;
}

/* It writes a byte, or closes its end. 0: it is ready. "must_write": an end without a byte is none. */
static int wait_ready(int fd, int must_write)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = cancel_fd_get(), .events = POLLIN } };
	char byte;
	int n;

	do
		n = poll(p, 2, READY_MS);
	while (n < 0 && errno == EINTR);
	if (n <= 0 || !p[0].revents)
		return -1;
	return read(fd, &byte, 1) < must_write ? -1 : 0;
}

static int run(char *const words[], const char *id, const char *namespace, int must_write,
	       struct pipes *pipes, struct stdio_set *set, char **ret_error)
{
	int r = spawn(words, pipes, id, namespace, &set->logger);

	if (r) {
		set->logger = 0;
		return fault_set(ret_error, fault_code(r), "logger '%s': %s", words[0], strerror(r));
	}
	set->logger_fd = (int)syscall(SYS_pidfd_open, set->logger, 0);
	close(pipes->ends[2][1]);
	pipes->ends[2][1] = -1;
	if (wait_ready(pipes->ends[2][0], must_write) < 0)
		return fault_set(ret_error, CCHV_ERR_TIMEOUT, "logger '%s': it does not get ready", words[0]);
	return 0;
}

int logger_start(const char *address, const char *id, const char *namespace, int terminal,
		 struct stdio_set *set, char **ret_error)
{
	int is_second = strncmp(address, "binary-v2://", 12) == 0, r;
	char *text = strdup(address + (is_second ? 12 : 9)), *words[WORDS_MAX];
	struct pipes pipes;

	if (!text)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	split(text, words);
	r = open_pipes(&pipes) < 0 ? fault_set(ret_error, CCHV_ERR_SYSTEM, "logger '%s': pipe: %s", words[0],
					       strerror(errno))
				   : run(words, id, namespace, is_second, &pipes, set, ret_error);
	if (r == 0) {
		set->fds[1] = pipes.ends[0][1];
		pipes.ends[0][1] = -1;
		if (!terminal) {
			set->fds[2] = pipes.ends[1][1];
			pipes.ends[1][1] = -1;
		}
	}
	close_pipes(&pipes);
	free(text);
	return r;
}

void logger_kill(pid_t pid, int pid_fd)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (pid_fd >= 0)
		close(pid_fd);
}

/* One that was left to end. */
struct leaving {
	struct watch watch;
	struct timer timer;
	pid_t pid;
	int asked;
};

static void on_ended(uint32_t events, void *data)
{
	struct leaving *l = data;

	loop_unwatch(&l->watch);
	loop_clear_timer(&l->timer);
	while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(l->watch.fd);
	free(l);
}

static void on_late(void *data)
{
	struct leaving *l = data;

	/* Not reaped yet, so that the pid is still its own. */
	kill(l->pid, l->asked ? SIGKILL : SIGTERM);
	l->asked = 1;
	loop_set_timer(l->watch.loop, &l->timer, ASKED_MS);
}

void logger_leave(struct loop *loop, pid_t pid, int pid_fd)
{
	struct leaving *l = need_zero(sizeof(*l));

	l->pid = pid;
	l->watch = (struct watch) { .fd = pid_fd, .fn = on_ended, .data = l };
	l->timer = (struct timer) { .fn = on_late, .data = l };
	if (pid_fd < 0 || loop_watch(loop, &l->watch, EPOLLIN) < 0) {
		free(l);
		logger_kill(pid, pid_fd);
		return;
	}
	loop_set_timer(loop, &l->timer, LEAVING_MS);
}
