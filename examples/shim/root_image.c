/* SPDX-License-Identifier: Apache-2.0 */
/* Images of root file systems: see root_image.h. Enters: a key and mounts. Leaves: an image of the cache. */
#include "root_image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cancel_fd.h"
#include "chain.h"
#include "fault.h"
#include "rootfs.h"

#define ANSWER_MAX 16384

/* 1 and the image, or 0: the cache may have been pruned. */
static int find(cchv_ctx *ctx, const char *key, cchv_image **ret_image, char **ret_error)
{
	cchv_error *err = NULL;
	char *digest = NULL;
	int r = *key ? chain_find(cchv_ctx_get_state_dir(ctx), key, &digest, ret_error) : 0;

	if (r <= 0)
		return r;
	r = cchv_image_open(ctx, digest, ret_image, &err);
	free(digest);
	if (r == CCHV_OK || r == CCHV_ERR_NOT_FOUND) {
		cchv_error_free(err);
		return r == CCHV_OK;
	}
	return fault_take(ret_error, r, err, "root file system");
}

/* As a file that the helper has as its standard input, so that nobody waits for anybody while it is handed over. */
static int job_fd(const struct root_job *job, char **ret_error)
{
	size_t size = 0;
	char *data = root_job_write(job, &size);
	int fd = data ? memfd_create("root-job", MFD_CLOEXEC) : -1;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0) {
		fault_set(ret_error, CCHV_ERR_SYSTEM, "root file system: hand over the job: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = CCHV_ERR_SYSTEM;
	}
	free(data);
	return fd;
}

static int spawn(int in, int out, pid_t *ret_pid)
{
	char *argv[] = { program_invocation_name, (char *)(uintptr_t)ROOTFS_HELPER, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	r = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return r;
}

/* Until there is something to read, or nobody wants it any more: then the helper is killed, and ends what it runs. */
static void wait_answer(int fd, pid_t pid)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = cancel_fd_get(), .events = POLLIN } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents)
		kill(pid, SIGKILL);
}

/* Until its end: the helper writes one line, and the pipe has no other writer. */
static size_t read_answer(int fd, pid_t pid, char *answer)
{
	size_t length = 0;

	while (length < ANSWER_MAX - 1) {
		ssize_t n;

		wait_answer(fd, pid);
		n = read(fd, answer + length, ANSWER_MAX - 1 - length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		length += (size_t)n;
	}
	answer[length] = '\0';
	return length;
}

/* "ok sha256:..." or "CODE text" */
static int understand(char *answer, size_t length, int status, char **ret_digest, char **ret_error)
{
	char *text;
	long code;

	if (length && answer[length - 1] == '\n' && WIFEXITED(status)) {
		answer[length - 1] = '\0';
		if (strncmp(answer, "ok ", 3) == 0) {
			*ret_digest = strdup(answer + 3);
			return *ret_digest ? CCHV_OK : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
		}
		code = strtol(answer, &text, 10);
		if (code < 0 && *text == ' ')
			return fault_set(ret_error, (int)code, "%s", text + 1);
	}
	if (WIFSIGNALED(status))
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "root file system: its builder was killed by signal %d",
				 WTERMSIG(status));
	return fault_set(ret_error, CCHV_ERR_SYSTEM, "root file system: its builder ended with status %d and no answer",
			 WEXITSTATUS(status));
}

static int build(const struct root_job *job, char **ret_digest, char **ret_error)
{
	char *answer = malloc(ANSWER_MAX);
	int in = job_fd(job, ret_error), out[2] = { -1, -1 }, status = 0, r;
	size_t length;
	pid_t pid;

	if (in < 0 || !answer) {
		free(answer);
		if (in >= 0)
			close(in);
		return in < 0 ? in : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	}
	r = pipe2(out, O_CLOEXEC) < 0 ? errno : spawn(in, out[1], &pid);
	close(in);
	if (out[1] >= 0)
		close(out[1]);
	if (r) {
		r = fault_set(ret_error, CCHV_ERR_SYSTEM, "root file system: start its builder: %s", strerror(r));
	} else {
		length = read_answer(out[0], pid, answer);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		r = understand(answer, length, status, ret_digest, ret_error);
	}
	if (out[0] >= 0)
		close(out[0]);
	free(answer);
	return r;
}

int root_image_open(cchv_ctx *ctx, const char *key, const struct mount_list *mounts, cchv_image **ret_image,
		    char **ret_error)
{
	struct root_job job = { cchv_ctx_get_state_dir(ctx), key, mounts };
	cchv_error *err = NULL;
	char *digest = NULL;
	int r = find(ctx, key, ret_image, ret_error);

	if (r != 0)
		return r < 0 ? r : CCHV_OK;
	r = build(&job, &digest, ret_error);
	if (r < 0)
		return r;
	r = cchv_image_open(ctx, digest, ret_image, &err);
	if (r < 0)
		fault_take(ret_error, r, err, "root file system");
	free(digest);
	return r;
}
